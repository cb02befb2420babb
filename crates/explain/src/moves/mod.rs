//! Sessions that moved between the nodes of a cluster while a run was recorded: which requests that met, and when, by
//! the run's clock.
//!
//! `told.rs` is what members tell, `clocks.rs` places what members told by their own clocks on the run's, with the error of that; `fold.rs` finds the
//! requests.

mod clocks;
mod fold;
mod told;

pub(crate) use fold::MoveFold;
pub use told::{ClockTold, EventsOf, Moment, MoveTold, Side};
