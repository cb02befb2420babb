//! Where the server and the rules meet: what event loops and the system tell becomes readings, what is decided on them
//! becomes advice to the loops and orders to the server.
//!
//! The server knows no rules, the rules know no server; this crate knows both, and neither how a request is parsed nor
//! how a condition is.
//!
//! - `adviser.rs` is asked by the loops, and never waits; each loop has statistics of its own (`loop_stats.rs`).
//! - `controller.rs` is a thread that ticks: it takes the statistics (`atoms.rs`, `clients.rs`), looks at the node
//!   (`monitor.rs`), tells the rules (`rulebook.rs`), and carries out what they say (`active_actions.rs`).
//! - `upstreams.rs` makes readings of what the server counts of upstreams, which are nodes for the rules.
//! - `persister_pipe.rs` sends what is to be kept or told elsewhere to `persister.rs`, a process of its own, as the server confines
//!   itself; that writes the recording (`recording.rs`) and says what was lost.
//! - `environment.rs` is what all of it looks like from outside: `weir env`, the admin address, Prometheus, and by
//!   `views.rs` SQL; the server tells links and content by its `insight.rs`.
//!
//! # The way of an adaptive decision in `weir serve --policy`
//!
//! 1. A loop asks `adviser.rs` about a governed request; what it sees goes into the loop's own statistics (`loop_stats.rs`),
//!    and `shed.rs` refuses a share.
//! 2. The rules themselves (`rulebook.rs`) decide at once on a session's start and on a reading of its link; everything
//!    that they are told is noted there in its order.
//! 3. At a tick `controller.rs` takes the statistics, looks at the node, tells the rules and has them evaluated.
//! 4. `active_actions.rs` carries out the decisions; shares to refuse are published to the loops, variants put into the statistics.
//! 5. `persister_pipe.rs` sends the recording, looks, decisions and alerts over a pipe to the persister, which keeps them
//!    (`recording.rs`, the crate `weir-store`), hands alerts on and says what was lost.
//!
//! The command puts decisions on the time line of a run (`crates/explain/src/decisions/`) where the run has not got them by
//! the server's probe (`remark.rs`).
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use weir_adapt::Policy;
//! use weir_adapt::forecast::Method;
//! use weir_policy_runtime::{PolicyRuntime, Setup};
//!
//! let setup = Setup {
//!     here: "n1".to_owned(),
//!     tick: Duration::from_secs(1),
//!     method: Method::default(),
//!     is_recorded: false,
//!     judge_every: Duration::from_secs(10),
//!     has_reserve: false,
//! };
//! let read = |rules: &str| Policy::read("site.policy", rules).expect("it has no mistake").0;
//! let rules = r#"atom "/**" { rule busy: every 1s if cpu@here > 90% then shed 20% until cpu@here < 50%; }"#;
//! let runtime = PolicyRuntime::new(read(rules), setup.clone())?;
//! // The loops of a server ask this one.
//! let _adviser = runtime.adviser();
//!
//! // A server alone has no other node to serve sessions at.
//! let rules = r#"pool nodes = { n1, n2 };
//! atom "/news/*" { rule pick: select best by cpu (n1, n2); }"#;
//! let refused = PolicyRuntime::new(read(rules), setup).expect_err("there is no n2");
//! assert_eq!(refused.line(), 2);
//! # Ok::<(), weir_policy_runtime::SetupError>(())
//! ```

mod active_actions;
mod advice_cache;
mod adviser;
mod atoms;
mod board;
mod clients;
mod controller;
mod decided;
mod environment;
mod leases;
mod loop_stats;
mod metrics;
mod monitor;
mod noted;
mod passed;
pub mod persister;
mod persister_pipe;
mod recording;
mod remark;
mod rulebook;
mod runtime;
mod server_actions;
mod setup;
mod shed;
mod shown;
mod stale;
mod started;
mod stats_lock;
mod ticket;
mod upstreams;
mod views;

pub use environment::{
    AllDropped, CrowdNow, Environment, ForecastNow, LinkOf, LinksNow, LinksOf, MethodNow, PolicyNow, PopularNow,
    ReadingNow, RuleInForce, RuleName, ServerNow, Shares, Work,
};
pub use loop_stats::Dropped;
pub use monitor::{Monitor, Readings};
pub use persister_pipe::PersisterEnds;
pub use recording::{RecordingError, check_recording};
pub use remark::remark_text;
pub use runtime::{PolicyRuntime, Ready, Running};
pub use server_actions::ServerActions;
pub use setup::{Setup, SetupError};
