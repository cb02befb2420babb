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
//!
//! # Example
//!
//! ```
//! use weir_plan::{Cluster, Limits, Log, Scenario, Service, Within, search};
//!
//! // 20 requests a second, each of which takes a node 80 ms: a node alone is too busy.
//! let line = |at: usize| {
//!     let (second, page) = (at / 20, at % 7);
//!     format!("::1 - - [26/Nov/2026:09:30:{second:02} +0000] \"GET /{page}.html HTTP/1.1\" 200 1000\n")
//! };
//! let text: String = (0..1200).map(line).collect();
//! let log = Log::read([("access.log".to_owned(), text.as_bytes())]).map_err(|(_, error)| error)?;
//! let scenario = Scenario::new(&log, &Service::new(80e6, 0.0), 1.0, Within::Random, 1..=3);
//! // 95 % of the requests take less than 300 ms.
//! let limits = Limits { share: 0.95, limit_ns: 300_000_000, nodes_max: 10 };
//! let cluster = Cluster { limit_ns: Some(limits.limit_ns), ..Cluster::new(1) };
//! let found = search(&scenario, &cluster, limits);
//! let best = &found.tried[found.best.expect("ten nodes are enough")];
//! assert!((2..=4).contains(&best.nodes), "{} nodes, {}", best.nodes, best.policy);
//! # Ok::<(), weir_plan::LogError>(())
//! ```

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
pub use ring::Ring;
pub use search::{Found, Limits, Tried, is_within, search};
pub use seeds::{Over, Repeated, Scenario};
pub use service::{Measured, Service, ServiceError};
pub use simulator::{Cluster, NODES_MAX, QUEUE_MAX, simulate};
pub use station::Discipline;
pub use trace::{Trace, Within};
pub use weir_access_log::{LeftOut, Reason};
