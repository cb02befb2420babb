//! The workers' records of their requests, put together at the orchestrator: those of one host and one clock are one run.

use super::args::Reached;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weir_load::workers::{FilePiece, Recorded};
use weir_load::{Clock, Fate, LoadReport};
use weir_trace::{Entry, OpenRunError, Run, RunReader, TakeInError, WriteError, sent};

/// The folder of the run's directory in which records lie until they are whole.
const INCOMING: &str = "incoming";

/// Why a record is not in the run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("--run: cannot write {path}: {source}", path = .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("--run: {0}")]
    Run(#[from] WriteError),
    #[error("--run: the record of worker {name} is missing: {why}")]
    Missing { name: String, why: String },
    #[error("--run: worker {name} sent a file that no record has: {file:?}; nothing of its record is kept")]
    Name { name: String, file: String },
    #[error("--run: the record of worker {name} cannot be read: {source}")]
    Open { name: String, source: OpenRunError },
    #[error("--run: the record of worker {name} cannot be put into the run: {source}")]
    TakeIn { name: String, source: TakeInError },
    #[error("--run: the list of hosts cannot be written: {0}")]
    Hosts(String),
}

/// What came of the workers' records.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What is to be named to `weir explain`, beside the server's run.
    pub(crate) runs: Vec<PathBuf>,
    /// Records that are missing, each with why.
    pub(crate) errors: Vec<RecordError>,
}

/// Records that are coming in.
#[derive(Debug)]
pub(super) struct Records {
    directory: PathBuf,
    /// It was not there before.
    is_new: bool,
    workers: Vec<Incoming>,
}

/// One worker's record.
#[derive(Debug)]
struct Incoming {
    name: String,
    folder: PathBuf,
    open: Option<(String, File)>,
    failed: Option<RecordError>,
}

/// A record that is whole.
struct Whole {
    name: String,
    folder: PathBuf,
    boot_id: String,
    pids: Vec<u32>,
    clock: Clock,
}

impl Records {
    /// Makes the directory of the run, or finds the run that is there, before anything is loaded.
    pub(super) fn create(directory: &Path, reached: &[Reached]) -> Result<Self, RecordError> {
        let is_new = !directory.exists();
        Run::create(directory)?;
        let incoming = directory.join(INCOMING);
        let worker = |(number, one): (usize, &Reached)| {
            let folder = incoming.join(number.to_string());
            let segments = folder.join("segments");
            fs::create_dir_all(&segments).map_err(|source| RecordError::Write { path: segments, source })?;
            Ok(Incoming { name: one.name.clone(), folder, open: None, failed: None })
        };
        let workers = reached.iter().enumerate().map(worker).collect::<Result<_, RecordError>>()?;
        Ok(Self { directory: directory.to_owned(), is_new, workers })
    }

    /// Keeps what came of a worker's record.
    pub(super) fn take(&mut self, worker: usize, recorded: Recorded) {
        let Some(incoming) = self.workers.get_mut(worker).filter(|one| one.failed.is_none()) else { return };
        let kept = match recorded {
            Recorded::Piece(piece) => incoming.keep(&piece),
            Recorded::Failed { why } => Err(RecordError::Missing { name: incoming.name.clone(), why }),
        };
        incoming.failed = kept.err();
    }

    /// Makes runs of the records of those that reported their part: the directory itself if they are of one host, and
    /// otherwise a directory of each host in it.
    pub(super) fn finish(mut self, report: &LoadReport) -> Kept {
        let (mut errors, mut whole) = (Vec::new(), Vec::new());
        for (incoming, worker) in std::mem::take(&mut self.workers).into_iter().zip(&report.workers) {
            let Incoming { name, folder, failed, .. } = incoming;
            match (&worker.fate, failed) {
                // Its loss is told already.
                (Fate::Lost { .. }, _) => {}
                (_, Some(error)) => errors.push(error),
                (_, None) => match Whole::of(name, folder, worker.clock) {
                    Ok(one) => whole.push(one),
                    Err(error) => errors.push(error),
                },
            }
        }
        let runs = placed(&self.directory, whole).unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        // The report of the load goes there in any case.
        self.is_new = false;
        Kept { runs, errors }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // What is left there is no whole record; and of a run that did not begin nothing is left.
        let _is_gone = fs::remove_dir_all(self.directory.join(INCOMING));
        // Another program that records there may have written nothing yet, but its note.
        if self.is_new && RunReader::open(&self.directory).is_err() {
            let _holds_something = fs::remove_dir(self.directory.join("segments"));
            let _holds_something = fs::remove_dir(&self.directory);
        }
    }
}

impl Incoming {
    fn keep(&mut self, piece: &FilePiece) -> Result<(), RecordError> {
        let FilePiece { name, bytes } = piece;
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let Some(below) = sent::below(name) else {
                return Err(RecordError::Name { name: self.name.clone(), file: name.clone() });
            };
            let path = self.folder.join(below);
            let file = File::create_new(&path).map_err(|source| RecordError::Write { path, source })?;
            self.open = Some((name.clone(), file));
        }
        let Some((name, file)) = &mut self.open else { return Ok(()) };
        file.write_all(bytes).map_err(|source| RecordError::Write { path: self.folder.join(name), source })
    }
}

impl Whole {
    fn of(name: String, folder: PathBuf, clock: Clock) -> Result<Self, RecordError> {
        let reader = match RunReader::open(&folder) {
            Ok(reader) => reader,
            Err(source) => return Err(RecordError::Open { name, source }),
        };
        let (mut boot_id, mut pids) = (String::new(), Vec::new());
        for entry in &reader.entries {
            if let Entry::Source { host, pid, .. } = entry {
                boot_id.clone_from(&host.boot_id);
                pids.push(*pid);
            }
        }
        Ok(Self { name, folder, boot_id, pids, clock })
    }

    /// Whether both are of one host, of one clock, and their processes are told apart by their numbers. Containers may
    /// have clocks and numbers of their own.
    fn is_beside(&self, other: &Self) -> bool {
        let apart_ns = self.clock.offset_ns.abs_diff(other.clock.offset_ns);
        self.boot_id == other.boot_id
            && apart_ns <= self.clock.error_ns.saturating_add(other.clock.error_ns)
            && !self.pids.iter().any(|pid| other.pids.contains(pid))
    }
}

/// Puts records where they are read, those of one host together.
fn placed(directory: &Path, whole: Vec<Whole>) -> Result<Vec<PathBuf>, RecordError> {
    let mut hosts: Vec<Vec<Whole>> = Vec::new();
    for one in whole {
        match hosts.iter_mut().find(|host| host.iter().all(|other| other.is_beside(&one))) {
            Some(host) => host.push(one),
            None => hosts.push(vec![one]),
        }
    }
    // What another source recorded there is of this host and by its clock.
    let here = RunReader::open(directory).ok().and_then(|reader| boot_of(&reader.entries));
    let has_room = |first: &Whole| match &here {
        Some(boot_id) => first.boot_id == *boot_id && first.clock.offset_ns.unsigned_abs() <= first.clock.error_ns,
        None => hosts.len() == 1,
    };
    let (mut places, mut names) = (Vec::new(), Vec::new());
    for host in &hosts {
        let Some(first) = host.first() else { continue };
        let name = directory_name(&first.name);
        let place = if has_room(first) { directory.to_owned() } else { directory.join(&name) };
        names.push(name);
        let run = Run::create(&place)?;
        for one in host {
            run.take_in(&one.folder).map_err(|source| RecordError::TakeIn { name: one.name.clone(), source })?;
        }
        places.push(place);
    }
    if here.is_none() && hosts.len() > 1 {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        weir_explain::note_hosts(directory, &names).map_err(|error| RecordError::Hosts(format!("{error:#}")))?;
        return Ok(vec![directory.to_owned()]);
    }
    Ok(places)
}

/// The boot of the host whose run this is.
fn boot_of(entries: &[Entry]) -> Option<String> {
    entries.iter().find_map(|entry| match entry {
        Entry::Source { host, .. } => Some(host.boot_id.clone()),
        _ => None,
    })
}

/// A name for a directory, of letters that any file may have.
fn directory_name(worker: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let plain: String = worker.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
    if plain.starts_with('.') { format!("worker{plain}") } else { plain }
}
