//! Explanations of recorded runs: where each request's time went, what a server's rules decided meanwhile, and which
//! requests moved between nodes of a cluster.
//!
//! `hosts/` reads the runs of several hosts as one. `analysis.rs` merges a run's streams, joins their records into requests and folds these; the other files each have a
//! section of the report.

mod analysis;
pub mod by_server;
mod course;
pub mod decisions;
pub mod figures;
mod from_sockets;
pub mod generator;
mod hosts;
mod joined;
mod kept_waiting;
mod lanes;
mod latest;
mod model;
pub mod moves;
mod nothing;
mod participants;
mod percentiles;
mod phases;
mod pieces;
mod proc_side;
mod questions;
pub mod readings;
mod server_side;
mod several;
mod slo;
pub mod spans;
mod stacks;
mod wakeups;
mod watched;
mod words;

pub use analysis::{WithSpans, explain, with_spans};
pub use from_sockets::{Objectives, View, refusal};
pub use joined::{Joined, joined};
pub use latest::{Latest, latest};
pub use model::trace_of;
pub use several::{note_hosts, runs_of};
pub use slo::{Slo, slo};
pub use stacks::folded;
