//! Readings in, decisions out: the rules by which a server adapts before the flood arrives.
//!
//! Nothing here owns a clock, a file or a socket: times and readings are told, decisions are handed back, and the
//! same readings lead to the same decisions whenever they are told again.
//! This crate does not know how pages are served, nor how a decision is carried out.

mod at_rest;
mod check;
pub mod crowd;
mod decision;
mod engine;
mod exact;

pub mod forecast;
mod glob;
mod language;
pub mod log;
mod policy;
mod reach;
mod reading;
mod replay;
mod series;
mod sketch;
mod state;

pub use at_rest::AtRest;
pub use check::{Checked, NO_RULES, check_policy};
pub use decision::{Cited, Decision, Order, Outcome, Subject};
pub use engine::{Active, CONTESTS_MAX, Contested, Contests, Engine, ForecastErrors, ForecastNow};
pub use language::{Dimension, Mistake, POLICY_BYTES_MAX, format_policy, show_ms};
pub use policy::Policy;
pub use reach::Elsewhere;
pub use reading::{AtomId, ClientId, NodeId, Of, Reading, Resource, Where};
pub use replay::{Replay, Told};
pub use series::Unknown;
pub use sketch::{Frequent, Sketch};
pub use state::{CLIENTS_MAX, Counts, State};
