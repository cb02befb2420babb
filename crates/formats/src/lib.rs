//! Traces of other tools as neutral events: each format has a file of its own, and all hand out the same [`Event`].
//!
//! Readers stream: what they hold is bounded by a page of each CPU, a packet, a chunk or a round of `perf record`, never
//! by the trace. What a trace does not hold is `None`, never zero; what a reader cannot map is counted by its reason
//! ([`Counts`]).
//!
//! The steps: `sniff.rs` says which format a file has, `source.rs` calls the reader of it (`perf_data.rs`, `trace_dat.rs`,
//! `ftrace_text.rs`, `ctf.rs`, `perfetto.rs`, `chrome_json.rs`, `jfr.rs`, `otlp.rs`, `lines.rs`), `sorter.rs` puts events
//! in order that come out of it, and `run.rs` writes a run: `connections.rs` makes sockets of system calls,
//! `requests.rs` requests of marks, `lanes.rs` a stream for each CPU.

mod arrivals;
mod calls;
mod chrome_json;
mod connections;
mod counts;
mod ctf;
mod earliest;
mod error;
mod event;
mod fields;
mod ftrace_text;
mod jfr;
mod json;
mod lanes;
mod lines;
mod markers;
mod meaning;
mod options;
mod otlp;
mod packets;
mod perf_data;
mod perfetto;
mod protobuf;
mod requests;
mod ring_page;
mod run;
mod samples;
mod section;
mod slices;
mod sniff;
mod sorter;
mod source;
mod trace_dat;
mod tracepoint;
mod words;

pub use chrome_json::read_chrome_json;
pub use counts::{Counts, Skipped};
pub use ctf::{read_ctf, read_ctf_bytes};
pub use error::ReadError;
pub use event::{Call, Disk, Edge, End, Ends, Event, Mark, Request, Stretch, Task, What, Within};
pub use ftrace_text::read_ftrace_text;
pub use jfr::read_jfr;
pub use lines::{LinePattern, NoLinePattern, read_lines};
pub use markers::{Markers, NoPattern, Pattern};
pub use options::Options;
pub use otlp::{read_otlp_json, read_otlp_protobuf};
pub use perf_data::read_perf_data;
pub use perfetto::read_perfetto;
pub use run::{ImportError, Imported, Made, import};
pub use sniff::{Format, sniff};
pub use trace_dat::read_trace_dat;
