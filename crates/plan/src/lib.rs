//! How many nodes a web site needs, and what belongs on which: its access log, served again by a simulated cluster.
//!
//! [`Log::read`] takes in logs; [`Trace::new`] makes of a log, a [`Service`] and a seed the arrivals and how long each takes
//! to serve; [`simulate`] serves a trace by nodes under a [`Policy`]; [`search()`] looks for the fewest nodes, and among
//! those for the least storage, with which an objective is met.
//! Everything is made from seeds: the same log, options and seed give the same figures.
//! This crate opens no file and knows no clock.
//!
//! # The way of a plan
//!
//! 1. `weir-access-log` reads the lines or records of a log; `log.rs` takes them in: 16 bytes for each request, each
//!    path once.
//! 2. `service.rs` and `trace.rs` make arrivals and service times of it, by a seed.
//! 3. `placement.rs` says what lies where, `router.rs` which node serves a request (`lard.rs`, `ring.rs`: policies that
//!    place by request).
//! 4. `simulator.rs` goes from event to event; a node's queue is in `station.rs`, what became of the requests in
//!    `outcome.rs`.
//! 5. `seeds.rs` repeats it, and `search.rs` looks for the fewest nodes and then the least storage.
//! 6. `crates/cli/src/plan/` tells the plan; its page is `crates/report/src/html/plan_page.rs`.

mod kind;
mod lard;
mod log;
mod mask;
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
