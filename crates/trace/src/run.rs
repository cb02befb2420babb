//! Run directories: `run.toml` for people, `manifest.jsonl` as the record of what happened, `segments/`.

use crate::Source;
use crate::error::{OpenRunError, WriteError};
use crate::host::Host;
use crate::manifest::{Cost, Entry};
use crate::merge::Merge;
use crate::writer::{Limits, StreamWriter};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.jsonl";
const SEGMENTS: &str = "segments";
const SUMMARY: &str = "run.toml";

/// A run that is being written. Several processes may write to one run at a time.
#[derive(Debug, Clone)]
pub struct Run {
    directory: PathBuf,
}

impl Run {
    /// Makes the directory, or joins the run that is there.
    ///
    /// # Errors
    /// [`WriteError::NotEmpty`] if the directory holds something else, [`WriteError::Io`] if the system refuses.
    pub fn create(directory: &Path) -> Result<Self, WriteError> {
        let io = |source| WriteError::Io { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(io)?;
        let ours = directory.join(MANIFEST).exists() || directory.join(SEGMENTS).is_dir();
        if !ours && fs::read_dir(directory).map_err(io)?.next().is_some() {
            return Err(WriteError::NotEmpty(directory.to_owned()));
        }
        fs::create_dir_all(directory.join(SEGMENTS)).map_err(io)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins a stream: one lane of one source.
    #[must_use]
    pub fn stream(&self, source: Source, lane: u32, limits: Limits) -> StreamWriter {
        StreamWriter::new(self.clone(), source, lane, limits)
    }

    /// Appends to the manifest. A line is written by one system call, so that writers do not mix.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn note(&self, entry: &Entry) -> Result<(), WriteError> {
        let path = self.directory.join(MANIFEST);
        let io = |source| WriteError::Io { path: path.clone(), source };
        let mut line = serde_json::to_string(entry).map_err(|error| io(error.into()))?;
        line.push('\n');
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
        file.write_all(line.as_bytes()).map_err(io)
    }

    /// Notes that a source begins, with its command line as it may be kept.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn begin(
        &self,
        source: Source,
        version: &str,
        command: Vec<String>,
        rung: Option<&str>,
        seed: Option<u64>,
    ) -> Result<(), WriteError> {
        let (monotonic_ns, realtime_ns) = clock_pair();
        self.note(&Entry::Source {
            source: source.name().to_owned(),
            pid: std::process::id(),
            version: version.to_owned(),
            command,
            host: Host::this(),
            monotonic_ns,
            realtime_ns,
            rung: rung.map(str::to_owned),
            seed,
        })?;
        self.summarise()
    }

    /// Notes that a source ends, and writes `run.toml` anew.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn end(&self, source: Source, cost: Cost, notes: Vec<String>) -> Result<(), WriteError> {
        let (monotonic_ns, realtime_ns) = clock_pair();
        self.note(&Entry::End {
            source: source.name().to_owned(),
            pid: std::process::id(),
            monotonic_ns,
            realtime_ns,
            cost,
            notes,
        })?;
        self.summarise()
    }

    pub(crate) fn segment_path(&self, name: &str) -> PathBuf {
        self.directory.join(SEGMENTS).join(name)
    }

    /// Writes `run.toml` from the manifest: for people to read, never read by us.
    fn summarise(&self) -> Result<(), WriteError> {
        let path = self.directory.join(SUMMARY);
        let io = |source| WriteError::Io { path: path.clone(), source };
        let entries = read_manifest(&self.directory).unwrap_or_default();
        let text = toml::to_string(&Summary::of(&entries)).map_err(|error| io(std::io::Error::other(error)))?;
        let temporary = self.directory.join(format!("{SUMMARY}.{}", std::process::id()));
        fs::write(&temporary, text).map_err(io)?;
        fs::rename(&temporary, &path).map_err(io)
    }
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME read one after the other, nanoseconds.
pub(crate) fn clock_pair() -> (u64, u64) {
    (clock_ns(libc::CLOCK_MONOTONIC), clock_ns(libc::CLOCK_REALTIME))
}

pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Serialize)]
struct Summary {
    weir: String,
    host: Option<Host>,
    source: Vec<SourceSummary>,
}

#[derive(Serialize)]
struct SourceSummary {
    source: String,
    pid: u32,
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rung: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Pairs of (monotonic, real time) in nanoseconds: at the begin and, if it ended, at the end.
    clock_pairs_ns: Vec<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
}

impl Summary {
    fn of(entries: &[Entry]) -> Self {
        let mut summary = Self { weir: String::new(), host: None, source: Vec::new() };
        for entry in entries {
            match entry.clone() {
                Entry::Source { source, pid, version, command, host, monotonic_ns, realtime_ns, rung, seed } => {
                    summary.weir = version;
                    summary.host.get_or_insert(host);
                    let clock_pairs_ns = vec![[monotonic_ns, realtime_ns]];
                    summary.source.push(SourceSummary { source, pid, command, rung, seed, clock_pairs_ns, cost: None });
                }
                Entry::End { source, pid, monotonic_ns, realtime_ns, cost, .. } => {
                    let same = |one: &&mut SourceSummary| one.source == source && one.pid == pid;
                    if let Some(one) = summary.source.iter_mut().rev().find(same) {
                        one.clock_pairs_ns.push([monotonic_ns, realtime_ns]);
                        one.cost = Some(cost);
                    }
                }
                Entry::Segment { .. } | Entry::Removed { .. } => {}
            }
        }
        summary
    }
}

fn read_manifest(directory: &Path) -> Result<Vec<Entry>, OpenRunError> {
    let path = directory.join(MANIFEST);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(OpenRunError::Io { path, source }),
    };
    let mut entries = Vec::new();
    let whole_lines = text.rfind('\n').map_or(0, |end| end + 1);
    for (index, line) in text[..whole_lines].lines().enumerate() {
        entries.push(serde_json::from_str(line).map_err(|error| OpenRunError::Manifest {
            path: path.clone(),
            line: index + 1,
            reason: error.to_string(),
        })?);
    }
    Ok(entries)
}

/// A run to be read.
#[derive(Debug)]
pub struct RunReader {
    directory: PathBuf,
    /// What its sources noted, in their order.
    pub entries: Vec<Entry>,
    streams: Vec<Vec<PathBuf>>,
}

impl RunReader {
    /// Opens a run directory; a run that is still being written is read as far as it is.
    ///
    /// # Errors
    /// [`OpenRunError`] says what is missing and how it comes to be.
    pub fn open(directory: &Path) -> Result<Self, OpenRunError> {
        if !directory.is_dir() {
            return Err(OpenRunError::Missing(directory.to_owned()));
        }
        let folder = directory.join(SEGMENTS);
        let Ok(listing) = fs::read_dir(&folder) else { return Err(OpenRunError::NotARun(directory.to_owned())) };
        // A stream's segments share all of the name up to their number, which sorts.
        let mut streams: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in listing {
            let path = file.map_err(|source| OpenRunError::Io { path: folder.clone(), source })?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some((stem, _)) = name.strip_suffix(".seg").and_then(|name| name.rsplit_once('.')) {
                streams.entry(stem.to_owned()).or_default().push(path);
            }
        }
        for segments in streams.values_mut() {
            segments.sort();
        }
        let entries = read_manifest(directory)?;
        if streams.is_empty() && entries.is_empty() {
            return Err(OpenRunError::NotARun(directory.to_owned()));
        }
        Ok(Self { directory: directory.to_owned(), entries, streams: streams.into_values().collect() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All records of all streams, in the order of their times.
    #[must_use]
    pub fn merge(&self) -> Merge<File> {
        Merge::of_files(self.streams.clone())
    }

    /// What observing cost, summed over the sources of this name.
    #[must_use]
    pub fn cost(&self, of: Source) -> Cost {
        let mut sum = Cost::default();
        for entry in &self.entries {
            if let Entry::End { source, cost, .. } = entry
                && source == of.name()
            {
                sum.events += cost.events;
                sum.bytes += cost.bytes;
                sum.lost += cost.lost;
                sum.cpu_seconds += cost.cpu_seconds;
            }
        }
        sum
    }

    /// The rung that the kernel's source noted, if there is one.
    #[must_use]
    pub fn rung(&self) -> Option<&str> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Source { rung, .. } => rung.as_deref(),
            _ => None,
        })
    }
}
