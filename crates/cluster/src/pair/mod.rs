//! Two directors of one service: one is active, the other stands by with the same table and takes over.
//!
//! - `epoch.rs`: the epoch of orders says which of the two is active.
//! - `duty.rs`: when the one that stands by takes over; without clock, socket and directory.
//! - `entries.rs`: a part of the active one's table, as a message.
//! - `replica.rs`: which parts the active one tells, and how the other one takes them.
//! - `survey.rs`: what nodes have, as they tell a director that has just begun.
//!
//! How moves are decided whose director has died is in `director/takeover.rs`.

mod duty;
mod entries;
mod epoch;
mod replica;
mod survey;

pub use duty::{Duty, DutySettings, Noticed, Wish};
pub use entries::{ENTRIES_MAX, Entries};
pub use epoch::Seat;
pub use replica::{Replica, Replicated};
pub use survey::{Holding, SURVEY_FLOWS_MAX, Survey, Surveyed};
