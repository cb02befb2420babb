//! The recording: it appends lines to a file, up to a bound. The file holds whole lines only, even after a full disk or
//! a kill of the writer.

use crate::persister::Places;
use crate::started::unix_ms;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;
use weir_adapt::log::{Entry, HEADER_BEGINS, Recorded, parse_header};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes of lines that wait while nothing can be written; further lines are lost and counted.
const WAITING_MAX: usize = 256 << 10;
/// From one try to the next, then.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes of a file's end that are looked at at once.
const END_BYTES: u64 = 16 << 10;

/// Why no recording can be kept at a path.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// Something else than a file bears the name.
    #[error("{path} is no regular file, so that no recording can be kept in it; name another one", path = path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// A file bears the name that holds something else.
    #[error(
        "{path} holds something else than a recording of weir's, and is left as it is; name another file, or move this \
         one away", path = path.display()
    )]
    Other {
        /// The path as given.
        path: PathBuf,
    },
    /// The directory is not there.
    #[error("{path} cannot be made, as its directory is not there; make that first", path = path.display())]
    NoDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The system does not let it be read.
    #[error("{path}: {source}; give a file that can be read and written", path = path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Whether a recording can be kept at a path: what is there is one already, or nothing is.
///
/// # Errors
/// Why not.
pub fn check_recording(path: &Path) -> Result<(), RecordingError> {
    let unreadable = |source| RecordingError::Unreadable { path: path.to_owned(), source };
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let is_there = folder.is_none_or(Path::is_dir);
            return if is_there { Ok(()) } else { Err(RecordingError::NoDirectory { path: path.to_owned() }) };
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !found.is_file() {
        return Err(RecordingError::NotAFile { path: path.to_owned() });
    }
    let mut begin = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(HEADER_BEGINS.len() as u64).read_to_end(&mut begin).map_err(unreadable)?;
    // Of one that was cut in its first line the beginning is as good.
    if HEADER_BEGINS.as_bytes().starts_with(&begin) {
        return Ok(());
    }
    Err(RecordingError::Other { path: path.to_owned() })
}

/// A recording: `FILE` becomes `FILE.1` when it is full, that `FILE.2`, and so on.
#[derive(Debug)]
pub(crate) struct Recording<'p> {
    path: &'p Path,
    places: &'p Places,
    header: String,
    /// The header is to stand before what comes next.
    owes_header: bool,
    file: Option<File>,
    /// Bytes of the file, all of them of whole lines.
    bytes: u64,
    /// Whole lines that are not in the file yet.
    waiting: Vec<u8>,
    /// Lines that were lost since the last one that was not; a line of the recording says so.
    unsaid: u64,
    /// Lines that were lost in all.
    pub(crate) lost: u64,
    /// Why nothing can be written at the moment, and when that was tried last.
    pub(crate) failing: Option<String>,
    tried: Instant,
    lost_before: u64,
}

impl<'p> Recording<'p> {
    pub(crate) fn new(path: &'p Path, places: &'p Places) -> Self {
        Self {
            path,
            places,
            header: String::new(),
            owes_header: false,
            file: None,
            bytes: 0,
            waiting: Vec::new(),
            unsaid: 0,
            lost: 0,
            failing: None,
            tried: Instant::now(),
            lost_before: 0,
        }
    }

    /// Another part begins; what stands there already stays.
    pub(crate) fn header(&mut self, header: &str) -> Option<String> {
        header.clone_into(&mut self.header);
        self.owes_header = true;
        self.flush()
    }

    /// Takes a line; what there is to tell, if that is something.
    pub(crate) fn line(&mut self, line: &str, now_ms: u64) -> Option<String> {
        if self.waiting.len() + line.len() + 1 > WAITING_MAX {
            (self.lost, self.unsaid) = (self.lost + 1, self.unsaid + 1);
            return None;
        }
        self.put_header();
        if self.unsaid > 0 {
            let lines = std::mem::take(&mut self.unsaid);
            self.put(&Entry { at_ms: now_ms, what: Recorded::Lost { lines } }.to_line());
        }
        self.put(line);
        if self.waiting.len() >= WRITE_BYTES { self.flush() } else { None }
    }

    /// Lines that wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// Writes what waits, where it is time to try; a word when that begins to fail, and when it does not any more.
    pub(crate) fn flush(&mut self) -> Option<String> {
        if self.failing.is_some() && self.tried.elapsed() < RETRY {
            return None;
        }
        self.put_header();
        self.tried = Instant::now();
        let path = self.path.display();
        match self.write() {
            Ok(()) => self.failing.take().map(|_| {
                let lost = self.lost - self.lost_before;
                format!("the recording {path} goes on; {lost} lines were lost meanwhile")
            }),
            Err(error) => {
                let has_begun = self.failing.replace(error.to_string()).is_none();
                has_begun.then(|| {
                    self.lost_before = self.lost;
                    format!(
                        "the recording {path} cannot be written: {error}; it is tried again each second, and what comes \
                         meanwhile is lost beyond 256 KiB"
                    )
                })
            }
        }
    }

    /// What could not be written in the end is lost.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.failing = None;
        let word = self.flush();
        self.lost += self.waiting();
        self.waiting.clear();
        word
    }

    fn put_header(&mut self) {
        if std::mem::take(&mut self.owes_header) {
            let header = std::mem::take(&mut self.header);
            self.put(&header);
            self.header = header;
        }
    }

    fn put(&mut self, line: &str) {
        self.waiting.extend_from_slice(line.as_bytes());
        self.waiting.push(b'\n');
    }

    fn write(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.open()?;
        }
        if self.bytes > self.places.recording_bytes_max {
            self.turn()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let (mut done, mut written) = (0, Ok(()));
        while done < self.waiting.len() && written.is_ok() {
            match file.write(&self.waiting[done..]) {
                Ok(0) => written = Err(ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => written = Err(error),
            }
        }
        let whole = self.waiting[..done].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.bytes += whole as u64;
        self.waiting.drain(..whole);
        // The next line must not follow half a line, so the half is cut off: now, or else when the file is opened
        // again.
        if whole < done && file.set_len(self.bytes).is_err() {
            self.file = None;
        }
        written
    }

    /// Opens the file behind its last whole line.
    fn open(&mut self) -> io::Result<()> {
        // Another process may have put something else there meanwhile.
        check_recording(self.path).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(self.path)?;
        // SAFETY: the call takes a descriptor that is open, and a number.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(io::Error::other("another server keeps its recording in it; name another file"));
        }
        let len = file.metadata()?.len();
        let whole = whole_lines(&mut file, len)?;
        if whole < len {
            file.set_len(whole)?;
            if whole > 0 {
                // The line that was cut is one of the part before.
                let at_ms = unix_ms();
                let lost = Entry { at_ms, what: Recorded::Lost { lines: 1 } }.to_line() + "\n";
                self.waiting.splice(0..0, lost.into_bytes());
            }
        }
        if whole == 0
            && !self.waiting.starts_with(HEADER_BEGINS.as_bytes())
            && let Ok(mut header) = parse_header(&self.header)
        {
            // The part has begun in another file.
            header.continues = true;
            self.waiting.splice(0..0, (header.to_line() + "\n").into_bytes());
        }
        (self.file, self.bytes) = (Some(file), whole);
        Ok(())
    }

    /// Begins another file, in which the part goes on.
    fn turn(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        let keep = self.places.recording_keep;
        for number in (1..keep).rev() {
            // What is not there yet is no loss.
            let _ = std::fs::rename(numbered(number), numbered(number + 1));
        }
        if keep > 0 {
            std::fs::rename(self.path, numbered(1))?;
        } else {
            std::fs::remove_file(self.path)?;
        }
        self.file = None;
        self.open()
    }
}

/// Bytes of a file up to the end of its last whole line.
fn whole_lines(file: &mut File, len: u64) -> io::Result<u64> {
    let mut end = len;
    while end > 0 {
        let begin = end.saturating_sub(END_BYTES);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(begin))?;
        file.take(end - begin).read_to_end(&mut bytes)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_adapt::log::Header;
    use weir_store::Limits;

    fn places(path: &Path, bytes_max: u64) -> Places {
        let limits = Limits::default();
        let (recording, database) = (Some(path.to_owned()), None);
        Places { recording, recording_bytes_max: bytes_max, recording_keep: 2, database, limits }
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).expect("a file")
    }

    #[test]
    fn a_restart_goes_on_behind_the_last_whole_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("log.jsonl");
        let (places, header) = (places(&path, 1 << 20), Header::new("n1", 3000).to_line());
        let tick = |at_ms| Entry { at_ms, what: Recorded::Tick }.to_line();
        let run = |at_ms| {
            let mut recording = Recording::new(&path, &places);
            assert_eq!(recording.header(&header), None);
            assert_eq!((recording.line(&tick(at_ms), at_ms), recording.flush()), (None, None));
        };
        run(1000);
        run(2000);
        let two = format!("{header}\n{}\n{header}\n{}\n", tick(1000), tick(2000));
        assert_eq!(text(&path), two);
        // Killed within a line: that is cut off, and said to be lost.
        std::fs::write(&path, &two[..two.len() - 4]).expect("writes");
        run(3000);
        let lines: Vec<String> = text(&path).lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), &lines[2], &lines[4], &lines[5]), (6, &header, &header, &tick(3000)));
        assert!(lines[3].ends_with("\"lost\":1}"), "{lines:?}");
        // Cut in the very first line it begins with the next one.
        std::fs::write(&path, &header[..20]).expect("writes");
        run(4000);
        assert_eq!(text(&path), format!("{header}\n{}\n", tick(4000)));
    }

    #[test]
    fn a_full_file_goes_on_in_another_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("log.jsonl");
        let (places, header) = (places(&path, 200), Header::new("n1", 3000).to_line());
        let mut recording = Recording::new(&path, &places);
        recording.header(&header);
        for at_ms in 0..40 {
            let line = Entry { at_ms, what: Recorded::Tick }.to_line();
            assert_eq!((recording.line(&line, at_ms), recording.flush()), (None, None));
        }
        let names = ["log.jsonl", "log.jsonl.1", "log.jsonl.2", "log.jsonl.3"].map(|name| folder.path().join(name));
        assert!(names[..3].iter().all(|name| text(name).lines().next().is_some_and(|line| line.contains("continues"))));
        assert!(!names[3].exists() && text(&names[1]).len() < 400);
    }

    #[test]
    fn only_what_is_a_recording_is_gone_on_with() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("notes"), "mine").expect("writes");
        std::fs::write(path("empty"), "").expect("writes");
        for good in ["empty", "new"] {
            check_recording(&path(good)).unwrap_or_else(|error| panic!("{error}"));
        }
        for (bad, word) in [("notes", "something else"), (".", "no regular file"), ("a/b", "directory is not there")] {
            let said = check_recording(&path(bad)).expect_err(bad).to_string();
            assert!(said.contains(word), "{said}");
        }
        let notes = path("notes");
        let places = places(&notes, 1 << 20);
        let mut recording = Recording::new(&notes, &places);
        let word = recording.header(&Header::new("n1", 1).to_line());
        assert!(word.is_some_and(|word| word.contains("something else")) && text(&notes) == "mine");
    }
}
