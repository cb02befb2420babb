//! Where the server and the rules meet: what event loops and the system tell becomes readings, what is decided on them
//! becomes advice to the loops and orders to the server.
//!
//! The server knows no rules, the rules know no server; this crate knows both, and neither how a request is parsed nor
//! how a condition is.
//!
//! - `adviser.rs` is asked by the loops, and never waits; each loop has a book of its own (`ledger.rs`).
//! - `controller.rs` is a thread that ticks: it opens the books (`atoms.rs`, `clients.rs`), looks at the node
//!   (`monitor.rs`), tells the rules (`rulebook.rs`), and carries out what they say (`hands.rs`).
//! - `errands.rs` sends what is to be kept or told elsewhere to `clerk.rs`, a process of its own, as the server confines
//!   itself; that writes the recording (`recording.rs`) and says what was lost.
//! - `environment.rs` is what all of it looks like from outside.

mod adviser;
mod atoms;
mod book;
pub mod clerk;
mod clients;
mod controller;
mod environment;
mod errands;
mod hands;
mod leases;
mod ledger;
mod monitor;
mod noted;
mod passed;
mod recording;
mod regulars;
mod remark;
mod rulebook;
mod shed;
mod shown;
mod stale;
mod started;
mod steward;
mod ticket;
mod views;

pub use environment::{
    AllDropped, CrowdNow, Environment, ForecastNow, LinkOf, LinksNow, LinksOf, MethodNow, PolicyNow, PopularNow,
    ReadingNow, RuleInForce, RuleName, ServerNow, Shares, Work,
};
pub use errands::ClerkEnds;
pub use hands::Hands;
pub use ledger::Dropped;
pub use recording::{RecordingError, check_recording};
pub use remark::remark_text;
pub use steward::{Ready, Running, Setup, SetupError, Steward};

/// Ticks for which a reading of each tick holds: one that is late, or two, leave nothing unknown.
const HERE_VALID_TICKS: u64 = 3;
