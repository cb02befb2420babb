//! Traces of other tools as neutral events: each format has a file of its own, and all hand out the same [`Event`].
//!
//! Readers stream: what they hold is bounded by a page of each CPU or a round of `perf record`, never by the trace.
//! What a trace does not hold is `None`, never zero; what a reader cannot map is counted by its reason ([`Counts`]).
//!
//! The steps: `sniff.rs` says which format a file has, `perf_data.rs`, `trace_dat.rs` and `ftrace_text.rs` read it,
//! `tracepoint.rs` decodes what the first two hold of a tracepoint, and `run.rs` writes a run.

mod counts;
mod error;
mod event;
mod ftrace_text;
mod perf_data;
mod ring_page;
mod run;
mod section;
mod sniff;
mod trace_dat;
mod tracepoint;

pub use counts::{Counts, Skipped};
pub use error::ReadError;
pub use event::{Call, Disk, Event, Task, What};
pub use ftrace_text::read_ftrace_text;
pub use perf_data::read_perf_data;
pub use run::{ImportError, Imported, import};
pub use sniff::{Format, sniff};
pub use trace_dat::read_trace_dat;
