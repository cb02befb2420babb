//! Run directories: `run.toml` for people, `manifest.jsonl` as the record of what happened, `segments/`.

use crate::Source;
use crate::error::{OpenRunError, WriteError};
use crate::host::Host;
use crate::manifest::{Cost, Entry, Manifest, parse_manifest};
use crate::merge::{Merge, SegmentFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const MANIFEST: &str = "manifest.jsonl";
const SEGMENTS: &str = "segments";
const SUMMARY: &str = "run.toml";
/// Times that `run.toml` is written anew because another process has noted something meanwhile.
const MOST_SUMMARIES: usize = 16;

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
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        // For its owner alone: a run holds the addresses of clients.
        match fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(io)?,
        }
        // In this order: what another process makes of the run between the two looks is then seen by the second.
        if fs::read_dir(directory).map_err(io)?.next().is_some() && !is_run(directory) {
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

    /// Appends to the manifest. A line is written by one system call, so that writers do not mix.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn note(&self, entry: &Entry) -> Result<(), WriteError> {
        let path = self.directory.join(MANIFEST);
        let io = |source| WriteError::Io { path: path.clone(), source };
        let mut line = serde_json::to_string(entry).map_err(|error| io(error.into()))?;
        line.push('\n');
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(io)?;
        // A writer that was killed may have left half a line, to which this one must not be added.
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() && file.read(&mut last).is_ok() && last != *b"\n" {
            line.insert(0, '\n');
        }
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
        self.end_at(source, cost, notes, clock_pair())
    }

    /// Notes that a source has ended at another time than now (monotonic and real time, nanoseconds), and writes
    /// `run.toml` anew.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn end_at(
        &self,
        source: Source,
        cost: Cost,
        notes: Vec<String>,
        (monotonic_ns, realtime_ns): (u64, u64),
    ) -> Result<(), WriteError> {
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

    /// Whether the run has segments of a stream, by the part of their names before the number.
    pub(crate) fn has_stream(&self, stem: &str) -> Result<bool, WriteError> {
        let folder = self.directory.join(SEGMENTS);
        let io = |source| WriteError::Io { path: folder.clone(), source };
        for file in fs::read_dir(&folder).map_err(io)? {
            if stem_of(&file.map_err(io)?.path()).is_some_and(|other| other == stem) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes `run.toml` from the manifest: for people to read, never read by us.
    pub(crate) fn summarise(&self) -> Result<(), WriteError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = self.directory.join(SUMMARY);
        let io = |source| WriteError::Io { path: path.clone(), source };
        // Threads of this process may be at it at the same time.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(format!("{SUMMARY}.{}.{number}", std::process::id()));
        let manifest = || fs::read(self.directory.join(MANIFEST)).unwrap_or_default();
        let mut bytes = manifest();
        for _ in 0..MOST_SUMMARIES {
            let entries = parse_manifest(&bytes, &path).unwrap_or_default().entries;
            let text = toml::to_string(&Summary::of(&entries)).map_err(|error| io(std::io::Error::other(error)))?;
            let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
            if let Err(source) = written {
                let _ = fs::remove_file(&temporary);
                return Err(io(source));
            }
            // Another process may have noted and summarised more in the meantime, over which this went.
            let now = manifest();
            if now.len() == bytes.len() {
                break;
            }
            bytes = now;
        }
        Ok(())
    }
}

/// Whether a directory that is not empty is a run's, or one that a writer was killed in while making it.
fn is_run(directory: &Path) -> bool {
    let mut begin = Vec::new();
    let manifest = File::open(directory.join(MANIFEST));
    if manifest.and_then(|file| file.take(1 << 16).read_to_end(&mut begin)).is_ok() {
        let line = begin.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        return parse_manifest(line, directory).is_ok();
    }
    let Ok(mut segments) = fs::read_dir(directory.join(SEGMENTS)) else { return false };
    segments.all(|file| file.is_ok_and(|file| stem_of(&file.path()).is_some()))
}

/// The stream of a segment: its file's name without number and ending; `None` if it is no segment.
fn stem_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let name = name.strip_suffix(".seg")?;
    Some(name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned())
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

fn read_manifest(directory: &Path) -> Result<Manifest, OpenRunError> {
    let path = directory.join(MANIFEST);
    match fs::read(&path) {
        Ok(bytes) => parse_manifest(&bytes, &path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Manifest::default()),
        Err(source) => Err(OpenRunError::Io { path, source }),
    }
}

/// A run to be read.
#[derive(Debug)]
pub struct RunReader {
    directory: PathBuf,
    /// What its sources noted, in their order.
    pub entries: Vec<Entry>,
    /// Lines of its manifest that were cut.
    pub manifest_cut: u64,
    /// Lines of its manifest of sorts that only a later weir knows.
    pub manifest_later: u64,
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
        let listing = match fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Err(OpenRunError::NotARun(directory.to_owned()));
            }
            Err(source) => return Err(OpenRunError::Io { path: folder, source }),
        };
        let mut streams: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in listing {
            let path = file.map_err(|source| OpenRunError::Io { path: folder.clone(), source })?.path();
            if let Some(stem) = stem_of(&path) {
                streams.entry(stem).or_default().push(path);
            }
        }
        for segments in streams.values_mut() {
            // By their numbers, which have more digits the longer the stream.
            segments.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        }
        let Manifest { entries, cut, later } = read_manifest(directory)?;
        if streams.is_empty() && entries.is_empty() {
            return Err(OpenRunError::NotARun(directory.to_owned()));
        }
        let streams = streams.into_values().collect();
        Ok(Self { directory: directory.to_owned(), entries, manifest_cut: cut, manifest_later: later, streams })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All records of all streams, in the order of their times.
    #[must_use]
    pub fn merge(&self) -> Merge<SegmentFile> {
        Merge::of_files(self.streams.clone())
    }

    /// The segments of each stream, in their order.
    #[must_use]
    pub fn streams(&self) -> &[Vec<PathBuf>] {
        &self.streams
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
