//! Segments, the schema registry, dictionaries and run directories.
//!
//! A *segment* is a file of *blocks*; each block decodes on its own.
//! A *stream* is what one lane of one source wrote: its segments in their order.
//! A *run* is a directory with an append-only manifest and the segments of every stream.
//! This crate does not know where events come from or what they mean.

mod block;
mod error;
mod host;
mod manifest;
mod merge;
mod places;
mod pump;
mod run;
mod segment;
mod writer;

pub use block::{Block, BlockHeader, Clock, HEADER_BYTES, Source, encode};
pub use error::{OpenRunError, ReadError, WriteError};
pub use host::Host;
pub use manifest::{Cost, Entry, Manifest, parse_manifest};
pub use merge::{Damage, Merge, SegmentFile, Sourced};
pub use places::{BlockPlace, block_places, read_from};
pub use pump::pump;
pub use run::{Run, RunReader};
pub use segment::SegmentReader;
pub use writer::{Limits, StreamWriter, Written};
