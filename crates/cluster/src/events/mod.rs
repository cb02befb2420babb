//! What a member did and saw, as lines of JSON in its cluster's directory: moves, refusals, decisions of the director,
//! members that went and came, and how its clock stands to the director's.
//!
//! `entry.rs` is the form, `log.rs` writes it, `files.rs` reads it.

mod entry;
mod files;
mod log;

pub use entry::{EVENT_BYTES_MAX, EventEntry, EventFileError, EventHeader, EventLine, What};
pub use files::{EVENTS_FILE, EventPart, EventParts, event_files, read_events, whole_lines};
pub use log::{EventCounts, EventLog, EventLogFault};
