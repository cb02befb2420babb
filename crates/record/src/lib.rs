//! Recordings: how a server's events, those of a load and the transactions of applications get into a run.
//!
//! `setup.rs` says what a recording takes; `once.rs`, `under_load.rs` and `always/` are the three ways to make one;
//! `live.rs` keeps none, and gives figures of all servers of a host window by window;
//! `hosts/` has several made at once on other hosts.

pub mod always;
mod child;
mod cost;
pub mod following;
pub mod hosts;
mod kernel;
pub mod live;
mod load;
mod names;
mod once;
mod passing_run;
pub mod run_directory;
mod setup;
mod sources;
mod target;
mod transactions;
mod under_load;
mod user_probes;
mod windows;

pub use kernel::DISK_MIB;
pub use load::{ClientEvents, UnwrittenError, Written, into_run};
pub use once::{Recorded, until_end, while_clients_come};
pub use setup::Setup;
pub use sources::Sources;
pub use target::{Named, Wanted};
pub use under_load::under_load;
pub use user_probes::{ProbesOfPrograms, TlsProbes};
