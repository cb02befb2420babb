//! Writes events to files of a bounded size, by a thread of its own: a disk that is full or slow holds no move up.

use super::entry::{EventEntry, EventHeader, What};
use super::files::{EVENTS_FILE, numbered};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Events that wait to be written.
const WAITING_MAX: usize = 4_096;
/// Bytes of a file, after which the next one begins.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Files before the newest.
const EARLIER_MAX: u32 = 3;
/// Bytes at the end of a file in which the end of a line is looked for.
const END_BYTES: u64 = 16 << 10;

/// What was counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that are in a file.
    pub written: u64,
    /// Events that found too many waiting.
    pub dropped: u64,
    /// Events that the system did not take, as on a full disk.
    pub failed: u64,
}

/// Events cannot be written at the moment.
#[derive(Debug, thiserror::Error)]
#[error(
    "events cannot be written to {path}: {source}; see to the room there and to its owner (they are counted meanwhile)"
)]
pub struct EventLogFault {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

#[derive(Debug, Default)]
struct Counted {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Takes a member's events.
#[derive(Debug, Clone)]
pub struct EventLog {
    sender: SyncSender<EventEntry>,
    counted: Arc<Counted>,
}

impl EventLog {
    /// Begins to write to the files of a cluster's directory. `faulty` hears of the first event that cannot be written,
    /// and again after one that could.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        folder: &Path,
        header: EventHeader,
        faulty: impl Fn(&EventLogFault) + Send + 'static,
    ) -> io::Result<Self> {
        Self::with_bound(folder, header, FILE_BYTES_MAX, faulty)
    }

    fn with_bound(
        folder: &Path,
        header: EventHeader,
        bytes_max: u64,
        faulty: impl Fn(&EventLogFault) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let counted = Arc::<Counted>::default();
        let writer = Writer { folder: folder.to_owned(), header, bytes_max, open: None, has_begun: false };
        let of_writer = Arc::clone(&counted);
        let run = move || writer.run(&receiver, &of_writer, &faulty);
        std::thread::Builder::new().name("weir-events".to_owned()).spawn(run)?;
        let this = Self { sender, counted };
        this.note(EventEntry::now(What::Started));
        Ok(this)
    }

    /// Has an event written; it never waits.
    pub fn note(&self, entry: EventEntry) {
        match self.sender.try_send(entry) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counted.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What was counted.
    pub fn counts(&self) -> EventCounts {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counted { written, dropped, failed } = &*self.counted;
        EventCounts { written: now(written), dropped: now(dropped), failed: now(failed) }
    }
}

struct Writer {
    folder: PathBuf,
    header: EventHeader,
    bytes_max: u64,
    /// The newest file, with its bytes.
    open: Option<(File, u64)>,
    /// The header of this start is in the newest file.
    has_begun: bool,
}

impl Writer {
    fn run(mut self, events: &Receiver<EventEntry>, counted: &Counted, faulty: &dyn Fn(&EventLogFault)) {
        let mut is_faulty = false;
        for entry in events {
            match self.write(&entry) {
                Ok(()) => {
                    is_faulty = false;
                    counted.written.fetch_add(1, Ordering::Relaxed);
                }
                Err(source) => {
                    counted.failed.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut is_faulty, true) {
                        faulty(&EventLogFault { path: self.folder.join(EVENTS_FILE), source });
                    }
                }
            }
        }
    }

    fn write(&mut self, entry: &EventEntry) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(_, bytes)| *bytes >= self.bytes_max) {
            self.open = None;
            self.rotate()?;
        }
        let (file, bytes) = match &mut self.open {
            Some(open) => open,
            None => {
                self.has_begun = false;
                self.open.insert(opened(&self.folder.join(EVENTS_FILE))?)
            }
        };
        let begin = if self.has_begun { String::new() } else { self.header.line() };
        let line = begin + &entry.line();
        if let Err(error) = file.write_all(line.as_bytes()) {
            // What was written of the line would damage the next one; if this fails too, a reader passes over one line.
            let _ = file.set_len(*bytes);
            self.open = None;
            return Err(error);
        }
        (*bytes, self.has_begun) = (*bytes + line.len() as u64, true);
        Ok(())
    }

    /// Makes room for a new file; the oldest one goes.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..EARLIER_MAX).rev() {
            renamed(&numbered(&self.folder, number), &numbered(&self.folder, number + 1))?;
        }
        renamed(&self.folder.join(EVENTS_FILE), &numbered(&self.folder, 1))
    }
}

fn renamed(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file to write behind its last whole line. It names clients, so only its owner may read it.
fn opened(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    (&file).take(END_BYTES).read_to_end(&mut end)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at as u64 + 1);
    if whole < length {
        file.set_len(whole)?;
    }
    Ok((file, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::files::{event_files, read_events};
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    fn header() -> EventHeader {
        EventHeader::new("n1", "boot")
    }

    fn wait_until(done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "it takes too long");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn files_are_bounded_in_size_and_number_and_each_says_who_wrote_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = EventLog::with_bound(folder.path(), header(), 2_000, |fault| panic!("{fault}")).expect("starts");
        for number in 0..200 {
            log.note(EventEntry::now(What::Up).of(format!("n{number}")));
        }
        wait_until(|| log.counts().written == 201);
        let files = event_files(folder.path());
        assert_eq!(files.len(), 4);
        for path in &files {
            let text = fs::read_to_string(path).expect("is read");
            let read = read_events(&text);
            assert!(text.len() < 2_300 && read.unreadable == 0, "{} bytes", text.len());
            assert!(read.parts.len() == 1 && read.parts[0].header == Some(header()));
        }
        let newest = fs::read_to_string(files.last().expect("is there")).expect("is read");
        assert!(newest.contains("\"n199\""), "{newest}");
    }

    #[test]
    fn a_line_that_was_cut_is_removed_by_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(EVENTS_FILE);
        fs::write(&path, format!("{}{{\"at_us\":1", header().line())).expect("writes");
        let log = EventLog::start(folder.path(), header(), |fault| panic!("{fault}")).expect("starts");
        wait_until(|| log.counts().written == 1);
        let read = read_events(&fs::read_to_string(&path).expect("is read"));
        assert!(read.unreadable == 0 && read.parts.len() == 2 && read.parts[1].entries[0].what == What::Started);
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_once_and_counted_and_holds_nothing_up() {
        let folder = tempfile::tempdir().expect("a folder");
        // Writing to this device fails as a full disk does (full(4)).
        std::os::unix::fs::symlink("/dev/full", folder.path().join(EVENTS_FILE)).expect("a link");
        let told = Arc::new(Mutex::new(Vec::new()));
        let of_log = Arc::clone(&told);
        let hear = move |fault: &EventLogFault| of_log.lock().expect("is whole").push(fault.to_string());
        let log = EventLog::start(folder.path(), header(), hear).expect("starts");
        (0..50).for_each(|_| log.note(EventEntry::now(What::Up)));
        wait_until(|| log.counts().failed == 51);
        assert_eq!(told.lock().expect("is whole").len(), 1);
        fs::remove_file(folder.path().join(EVENTS_FILE)).expect("removes");
        log.note(EventEntry::now(What::Down));
        wait_until(|| log.counts().written == 1);
    }
}
