//! The evaluator: a policy and readings in, decisions out. It owns no clock: the same times and readings lead to the
//! same decisions, live or replayed.
//!
//! A rule's life with one subject (a session, an atom, or all atoms of a pattern together):
//!
//! ```text
//!            condition true            true for as long as `for` says, no limit in the way
//!   at rest ---------------> pending ------------------------------------------------------> fires
//!      ^                        |                                                              |
//!      |<-- false or unknown ---+                 without `until` and `hold`: at rest again <--+
//!      |                                                                                       |
//!      +<-- released: `hold` is over and `until` is true --------------------- active <--------+
//!      +<-- superseded: a rule of higher priority fires in its class
//! ```

mod contests;
mod context;
mod evaluation;
mod handed;
mod intake;
mod orders;
mod rests;
mod shown;
mod starting;
mod subject_mut;
mod sums;
mod tick;

pub use contests::{CONTESTS_MAX, Contested, Contests};
pub use intake::{Engine, ForecastErrors};
pub(crate) use rests::{Limited, Undone};
pub use shown::{Active, ForecastNow};
pub(crate) use starting::Start;
