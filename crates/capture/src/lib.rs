//! Records kernel events of a server and its requests: scheduler and sockets, by eBPF.
//!
//! The probes (`bpf/spine.bpf.c`) write 16-byte events into a ring for each CPU; the collector polls the rings, expands
//! the events to records and writes them to a run.
//! This crate knows no formulas: what the events mean for a request is the timeline's business.
//!
//! # Example
//!
//! ```
//! use weir_capture::{BoundarySource, Ladder, Target};
//!
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let target = Target::of_pid(std::process::id())?;
//! assert!(target.ports.contains(&listener.local_addr()?.port()));
//! // `Ladder::default()` tries the probes first, which need privileges; this rung needs none.
//! let footing = Ladder { forced: Some(BoundarySource::ProcOnly), ..Ladder::default() }.climb()?;
//! assert!(footing.probes.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
pub mod asked;
mod bound;
mod boundaries;
mod boundary_source;
mod calls;
pub mod cgroup;
pub mod containers;
mod disk;
mod error;
mod event_source;
mod expand;
mod form;
mod functions;
mod generator;
pub mod http2;
mod interrupts;
mod kernel_types;
mod kind_set;
mod ladder;
mod listening;
mod living;
mod locks;
mod named;
mod names;
mod namespaces;
pub mod packs;
mod per_cpu;
mod pids;
mod probes;
mod proc_only;
mod proc_task;
mod programs;
mod quota;
mod recorder;
mod redaction;
mod ring;
mod runtimes;
mod samples;
mod servers;
mod socket_tables;
mod spine;
mod splices;
mod strangers;
mod symbols;
mod target;
mod task_events;
mod task_names;
mod timers;
mod trace_headers;
pub mod user_probes;
mod watch;

pub use bound::missing_privilege;
pub use boundary_source::{BoundarySource, NoSuchSource};
pub use error::{CaptureError, TargetError};
pub use event_source::{EventSource, TellNamed};
pub use expand::Expander;
pub use generator::{GeneratorCounts, GeneratorExchange, watch_generator};
pub use kind_set::KindSet;
pub use ladder::{Footing, Ladder};
pub use listening::{Listener, Listening, Place, listening};
pub use pids::in_pid_namespace;
pub use probes::{Attached, Probes};
pub use proc_task::cpu_times;
pub use recorder::{Recorder, Recording};
pub use samples::{MOST_HZ, Samples, USUAL_HZ, missing_of_stacks};
pub use spine::streams;
pub use target::{Target, listeners_of_port, listening_ports, named, tree, trees};
pub use task_events::TaskEvents;
pub use trace_headers::{TraceHeaders, traceparent};
pub use watch::{UnknownWatched, Watch, Watched, Windows};
