//! What a member did and saw, as lines of JSON in its cluster's directory: moves, refusals, decisions of the director,
//! members that went and came, and how its clock stands to the director's.
//!
//! `entry.rs` is the form, `log.rs` writes it, `files.rs` reads it.

mod entry;
mod files;
mod log;

pub use entry::{EventEntry, EventFileError, EventHeader, EventLine, What};
pub use files::{EventPart, EventParts, event_files, read_events, whole_lines};
pub use log::{EventCounts, EventLog, EventLogFault};

/// The newest file in a cluster's directory; earlier ones have `.1` and so on behind it.
pub const EVENTS_FILE: &str = "events.jsonl";
/// Bytes of a line.
pub const EVENT_BYTES_MAX: usize = 8 << 10;
