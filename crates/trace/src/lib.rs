//! Segments, the schema registry, dictionaries and run directories.
//!
//! A *segment* is a file of *blocks*; each block decodes on its own.
//! A *stream* is what one lane of one source wrote: its segments in their order.
//! A *run* is a directory with an append-only manifest and the segments of every stream.
//! This crate does not know where events come from or what they mean.
//!
//! # Example
//!
//! ```
//! use weir_trace::{Limits, Run, RunReader, Source};
//! use weir_wire::{Kind, Record};
//!
//! let folder = tempfile::tempdir()?;
//! let run = Run::create(folder.path())?;
//! run.begin(Source::Client, "0.1.0", Vec::new(), None, None)?;
//! let mut stream = run.stream(Source::Client, 0, Limits::default());
//! for time_ns in [10, 20, 30] {
//!     stream.push(Record { time_ns, kind: Kind::ClientDropped as u16, a: 1, ..Record::default() }, &[], None)?;
//! }
//! assert_eq!(stream.finish()?.records, 3);
//!
//! let mut times = Vec::new();
//! RunReader::open(folder.path())?.merge().each(|sourced| {
//!     times.push(sourced.record.time_ns);
//!     true
//! });
//! assert_eq!(times, [10, 20, 30]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod error;
mod host;
mod joined;
mod manifest;
mod merge;
mod places;
mod process;
mod pump;
mod run;
mod segment;
pub mod sent;
mod several;
mod take_in;
mod writer;

pub use block::{Block, BlockHeader, Clock, HEADER_BYTES, Source, encode};
pub use error::{OpenRunError, ReadError, TakeInError, WriteError};
pub use host::Host;
pub use joined::{JoinedHost, JoinedHosts};
pub use manifest::{Cost, Entry, Manifest, parse_manifest};
pub use merge::{Damage, Merge, SegmentFile, Sourced, ToClock};
pub use places::{BlockPlace, block_places, read_from};
pub use process::{Process, Running};
pub use pump::pump;
pub use run::{Run, RunReader};
pub use segment::SegmentReader;
pub use several::{holds_several, list_of};
pub use writer::{Limits, StreamWriter, Written};
