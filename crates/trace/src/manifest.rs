//! The manifest: a line of JSON for each thing that happened to the run, only ever appended.

use crate::error::OpenRunError;
use crate::host::Host;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What observing cost, as the source that observed knows it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Events written.
    pub events: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Events lost.
    pub lost: u64,
    /// CPU seconds of the collecting process or thread; the probes' own time is inside the observed tasks.
    pub cpu_seconds: f64,
}

/// One line of the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A source begins to write.
    Source {
        /// `kernel`, `client`, …
        source: String,
        /// The process that writes.
        pid: u32,
        /// weir's version.
        version: String,
        /// Its command line.
        command: Vec<String>,
        /// Where and when: the host.
        host: Host,
        /// CLOCK_MONOTONIC, nanoseconds.
        monotonic_ns: u64,
        /// CLOCK_REALTIME at the same moment, nanoseconds since 1970.
        realtime_ns: u64,
        /// The rung of the ladder of sources, for request boundaries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rung: Option<String>,
        /// The seed of every random choice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    },
    /// A segment is complete.
    Segment {
        /// Its file name in the folder `segments`.
        file: String,
        /// Bytes.
        bytes: u64,
        /// Records.
        records: u64,
        /// Records lost before or in it.
        lost: u64,
        /// Time of the first record.
        first_ns: u64,
        /// Time of the last record.
        last_ns: u64,
    },
    /// A segment was removed to keep the run within its bound; its records count as lost.
    Removed {
        /// Its file name.
        file: String,
        /// Records in it.
        records: u64,
    },
    /// A source ends.
    End {
        /// `kernel`, `client`, …
        source: String,
        /// The process that wrote.
        pid: u32,
        /// CLOCK_MONOTONIC, nanoseconds.
        monotonic_ns: u64,
        /// CLOCK_REALTIME at the same moment.
        realtime_ns: u64,
        /// What observing cost.
        cost: Cost,
        /// Remarks worth keeping: a target that ended, a bound that was met.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
}

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// Its entries, in their order.
    pub entries: Vec<Entry>,
    /// Lines that were cut, by a crash or a full disk.
    pub cut: u64,
    /// Entries of a sort that only a later weir knows.
    pub later: u64,
}

/// Reads the lines of a manifest; `path` is only for messages.
///
/// A line that was cut is counted and passed over, and so is an entry that only a later weir knows.
///
/// # Errors
/// [`OpenRunError::Manifest`] for a line that is anything else.
pub fn parse_manifest(bytes: &[u8], path: &Path) -> Result<Manifest, OpenRunError> {
    let mut manifest = Manifest::default();
    for (index, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(entry) => manifest.entries.push(entry),
            Err(error) if error.is_eof() => manifest.cut += 1,
            Err(_) if is_of_a_later_weir(line) => manifest.later += 1,
            Err(error) => {
                let reason = error.to_string();
                return Err(OpenRunError::Manifest { path: path.to_owned(), line: index + 1, reason });
            }
        }
    }
    Ok(manifest)
}

/// Whether a line that is no entry of this version names its sort as entries do.
fn is_of_a_later_weir(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        entry: String,
    }
    serde_json::from_str::<Named>(line)
        .is_ok_and(|named| !["source", "segment", "removed", "end"].contains(&named.entry.as_str()))
}
