//! How many nodes a web site needs, and what belongs on which: its access log, served again by a simulated cluster.
//!
//! [`Log::read`] takes in logs; [`Trace::new`] makes of a log, a [`Service`] and a seed the arrivals and how long each takes
//! to serve; [`simulate`] serves a trace by nodes under a [`Policy`]; [`search()`] looks for the fewest nodes, and among
//! those for the least storage, with which an objective is met.
//! Everything is made from seeds: the same log, options and seed give the same figures.
//! This crate opens no file and knows no clock.

mod kind;
mod lard;
mod log;
mod outcome;
mod placement;
mod policy;
mod ring;
mod router;
mod search;
mod seeds;
mod service;
mod simulator;
mod station;
mod trace;

pub use kind::Kind;
pub use lard::Lard;
pub use log::{ENTRIES_MAX, Log, LogError, OBJECTS_MAX, Object, SizeFrom, Unread};
pub use outcome::{NodeUse, Outcome};
pub use placement::Placement;
pub use policy::{Dispatch, Partition, Policy, PolicyError, TopOrder};
pub use search::{Found, Limits, Tried, is_within, search};
pub use seeds::{Over, Repeated, Scenario};
pub use service::{Measured, Service, ServiceError};
pub use simulator::{Cluster, NODES_MAX, QUEUE_MAX, simulate};
pub use station::Discipline;
pub use trace::{Trace, Within};
pub use weir_access_log::{LeftOut, Reason};
