//! Merges segments on one clock and joins their events into request spans.
//!
//! What the kernel said of tasks (`tasks`) and sockets (`sockets`) and what the client said of its requests are
//! joined by connection and byte offset (`join`); the way of a request through the server's tasks is then walked
//! back along the chain of wake-ups (`path`), and each stretch of it named.
//! This crate knows the names of the parts, but no formula over them, and nothing of presentation.
//!
//! # Example
//!
//! ```
//! use weir_timeline::{Bounds, Joiner, Response};
//! use weir_trace::RunReader;
//!
//! let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/nginx_keep_alive");
//! let run = RunReader::open(run.as_ref())?;
//! let mut responses = 0;
//! let mut take = |_: &Joiner, response: &Response<'_>| {
//!     // Every nanosecond belongs to one step.
//!     let sum: u64 = response.steps.iter().map(|step| step.to_ns - step.from_ns).sum();
//!     assert_eq!(sum, response.time_ns());
//!     responses += 1;
//! };
//! let mut joiner = Joiner::new(Bounds::default());
//! run.merge().each(|sourced| {
//!     joiner.push(&sourced.record, sourced.payload, None, &mut take);
//!     true
//! });
//! joiner.finish(&mut take);
//! assert_eq!((joiner.statistics().requests, joiner.statistics().joined), (responses, responses));
//! # Ok::<(), weir_trace::OpenRunError>(())
//! ```

mod accounts;
mod answers;
mod attempts;
mod blocked;
mod carried;
mod conversations;
mod counts;
mod disk;
mod in_hand;
mod interrupts;
mod join;
mod known;
mod labels;
mod lanes;
mod lock_words;
mod locks;
mod messages;
mod notes;
mod own_locks;
mod parents;
mod path;
mod phases;
mod pollers;
mod questions;
mod quic;
mod quota;
mod refine;
mod refinement;
mod remarks;
mod samples;
mod served;
mod served_response;
mod server_end;
mod sockets;
mod stacks;
mod step;
mod streams;
mod task_names;
mod tasks;
mod texts;
mod traces;

pub use accounts::{Accounts, MOST_ACCOUNTS};
pub use blocked::{Hold, Wait, wait_of};
pub use counts::{RunDivision, Seen, Statistics, Unjoinable};
pub use join::{AtServer, Bounds, Joiner, Response};
pub use labels::{Labels, label};
pub use messages::{LongKind, LongLived, Messages};
pub use notes::SourceCost;
pub use parents::Question;
pub use phases::{Ended, Passage, PhaseName, PhaseStretch, QueryRun};
pub use questions::QuestionRun;
pub use remarks::{Remark, Remarks};
pub use samples::{Attributed, Samples};
pub use served::Exchanges;
pub use server_end::ServerEnd;
pub use stacks::Stacks;
pub use step::{
    Detail, ENDED_CONNECTION, FULL_BACKLOG, HANDSHAKE, HELD_BACK, Step, behind_words, full_backlog_words,
    late_syn_words, unconnected_words, way_words,
};
pub use task_names::TaskName;
pub use tasks::{State, WokenIn};
