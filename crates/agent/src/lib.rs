//! The agent: takes in what ARM clients record, makes transactions of it, folds, keeps and hands them on.
//!
//! What clients write is not trusted: nothing of it is used before it was looked at, and everything that is kept of
//! it has a bound, beyond which it is counted.

mod accept;
pub mod agent;
mod agent_loop;
pub mod agent_state;
mod answers;
mod asker;
pub mod attributes;
pub mod classes;
pub mod client;
pub mod connection;
pub mod definitions;
pub mod directory;
pub mod export;
pub mod finished;
pub mod folds;
mod handover;
pub mod host;
mod intake;
pub mod journal;
pub mod keeper;
mod keeping;
pub mod keyed;
mod lane;
pub mod lane_records;
pub mod memory;
pub mod notes;
pub mod outlet;
mod pacing;
pub mod pairing;
pub mod protocol;
pub mod recent;
mod running;
mod settings;
pub mod socket;
pub mod spans;
pub mod subscription;
pub mod switches;

pub mod transaction;
pub mod tree;
pub mod users;
pub mod waits;
pub mod watch;

pub use agent::{Agent, Asker, Settings, StartError};
pub use outlet::Outlet;
pub use subscription::Subscription;
pub use waits::Waits;
