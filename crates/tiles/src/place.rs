//! Where the blocks of a run lie in time, and reading a window of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Take;
use std::path::{Path, PathBuf};
use weir_trace::{BlockPlace, Merge, ReadError, RunReader, SegmentReader, block_places, read_from};

/// Where the blocks of all streams of a run lie in time.
#[derive(Debug)]
pub struct Places {
    streams: Vec<Vec<(PathBuf, Vec<BlockPlace>)>>,
}

impl Places {
    /// Looks up the blocks of a run, reading the heads of the blocks alone.
    ///
    /// # Errors
    /// [`ReadError`] if a segment cannot be read.
    pub fn of(reader: &RunReader) -> Result<Self, ReadError> {
        let mut streams = Vec::new();
        for segments in reader.streams() {
            let mut placed = Vec::new();
            for path in segments {
                placed.push((path.clone(), block_places(path)?));
            }
            streams.push(placed);
        }
        Ok(Self { streams })
    }

    /// Whether a client has told of its requests.
    #[must_use]
    pub fn hold_clients(&self) -> bool {
        self.streams.iter().flatten().any(|(path, _)| is_clients(path))
    }

    fn blocks(&self) -> impl Iterator<Item = &BlockPlace> {
        self.streams.iter().flatten().flat_map(|(_, places)| places)
    }

    /// Records that lie in blocks of which some time is within two times, nanoseconds, both included.
    #[must_use]
    pub fn records(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = self.blocks().filter(|place| place.base_ns <= to_ns && place.end_ns >= from_ns);
        within.map(|place| u64::from(place.records)).sum()
    }

    /// First and last time of what was recorded, nanoseconds; `None` where nothing was.
    #[must_use]
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let told = self.blocks().filter(|place| place.records > 0);
        told.fold(None, |span, place| {
            let (from, to) = span.unwrap_or((u64::MAX, 0));
            Some((place.base_ns.min(from), place.end_ns.max(to)))
        })
    }

    /// What tells these contents from all others: FNV-1a over where the blocks lie and their checksums.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let words = self.blocks().flat_map(|place| [place.offset, place.bytes, u64::from(place.crc)]);
        words
            .flat_map(u64::to_le_bytes)
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// The records of a window, and some around it, in the order of time. Streams of clients are read up to a later
    /// time, for a request is told at its end.
    ///
    /// # Errors
    /// [`ReadError`] if a segment cannot be opened.
    pub fn window(&self, from_ns: u64, to_ns: u64, clients_to_ns: u64) -> Result<Merge<Take<File>>, ReadError> {
        let mut streams = Vec::new();
        for segments in &self.streams {
            let mut readers: VecDeque<SegmentReader<Take<File>>> = VecDeque::new();
            for (path, places) in segments {
                let to_ns = if is_clients(path) { clients_to_ns } else { to_ns };
                let within = |place: &&BlockPlace| place.base_ns <= to_ns && place.end_ns >= from_ns;
                let first = places.iter().find(within);
                let last = places.iter().rfind(within);
                if let (Some(first), Some(last)) = (first, last) {
                    let bytes = (last.offset + last.bytes).saturating_sub(first.offset);
                    readers.push_back(read_from(path, first.offset, bytes)?);
                }
            }
            if !readers.is_empty() {
                streams.push(readers);
            }
        }
        Ok(Merge::new(streams))
    }
}

/// Whether a segment is a client's, by its name.
fn is_clients(segment: &Path) -> bool {
    segment.file_name().is_some_and(|name| name.to_string_lossy().starts_with("client-"))
}
