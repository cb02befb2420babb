//! The thread that writes a log and rotates its files. It reports a failure once.

use super::queue::{Nothing, Receiver, Sender, queue};
use crate::counters::Counters;
use crate::error::BindError;
use crate::io::user::{self, User};
use crate::telemetry::access_log::block::Block;
use crate::telemetry::access_log::buffer::{END_WAIT, LogBuffer};
use crate::telemetry::access_log::settings::{AccessLog, LogTarget, Rotation};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// What the writer is to do; a reload of the configuration changes it.
type Wanted = Arc<Mutex<AccessLog>>;

/// The thread before it runs.
#[derive(Debug)]
pub(crate) struct LogWriter {
    wanted: Wanted,
    sender: Sender,
    receiver: Receiver,
    output: Output,
    reopen: Arc<AtomicBool>,
    /// Lines on their way to the thread.
    waiting: Arc<AtomicU64>,
    /// Called with a message when lines cannot be written.
    notice: fn(&str),
}

#[derive(Debug)]
enum Output {
    Stdout,
    File { file: File, path: PathBuf, bytes: u64, since: SystemTime },
}

impl LogWriter {
    pub(crate) fn open(options: &AccessLog, reopen: Arc<AtomicBool>, notice: fn(&str)) -> Result<Self, BindError> {
        let output = Output::open(&options.target).map_err(|source| {
            let path = if let LogTarget::File(path) = &options.target { path.clone() } else { PathBuf::new() };
            BindError::AccessLog { path, source }
        })?;
        let (sender, receiver) = queue();
        let wanted = Arc::new(Mutex::new(options.clone()));
        Ok(Self { wanted, sender, receiver, output, reopen, waiting: Arc::default(), notice })
    }

    /// Has the file belong to the user who will write it from now on. Where that is refused, what is open stays open.
    pub(crate) fn give_to(&self, user: &User) {
        if let Output::File { file, .. } = &self.output {
            let _ = user::give_to(file, user);
        }
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Arc::clone(&self.wanted)
    }

    pub(crate) fn buffer(&self) -> LogBuffer {
        let options = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LogBuffer::new(options, self.sender.clone(), Arc::clone(&self.waiting))
    }

    /// Starts the thread; it ends after every buffer has gone.
    pub(crate) fn start(self, counters: Counters) -> io::Result<LogThread> {
        let Self { wanted, sender, receiver, output, reopen, waiting, notice } = self;
        drop(sender);
        let mut writing = Writing {
            wanted,
            output,
            reopen,
            waiting: Arc::clone(&waiting),
            notice,
            counters: counters.clone(),
            torn: false,
            is_failing: false,
        };
        let thread = std::thread::Builder::new().name("weir-log".to_owned()).spawn(move || writing.run(&receiver))?;
        Ok(LogThread { thread, waiting, counters })
    }
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct LogThread {
    thread: JoinHandle<()>,
    waiting: Arc<AtomicU64>,
    counters: Counters,
}

impl LogThread {
    /// Waits for the last line, but not for a reader that has stopped reading: what it is not known to have taken
    /// counts as dropped.
    pub(crate) fn join(self) {
        let deadline = Instant::now() + END_WAIT;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(first) = self.counters.0.first().filter(|_| !self.thread.is_finished()) {
            first.log_dropped.add_shared(self.waiting.load(Ordering::Relaxed));
        }
    }
}

struct Writing {
    wanted: Wanted,
    output: Output,
    reopen: Arc<AtomicBool>,
    waiting: Arc<AtomicU64>,
    notice: fn(&str),
    counters: Counters,
    /// Whether the last line that was begun has no end yet, so that it must not run into the next one.
    torn: bool,
    is_failing: bool,
}

impl Writing {
    fn run(&mut self, receiver: &Receiver) {
        loop {
            let block = match receiver.receive(Duration::from_secs(1)) {
                Ok(block) => Some(block),
                Err(Nothing::Yet) => None,
                Err(Nothing::More) => return,
            };
            let rotation = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).rotation;
            if self.reopen.swap(false, Ordering::Relaxed) {
                let target = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).target.clone();
                self.open_again(&target);
            }
            if let Some(rotation) = rotation {
                let coming_bytes = block.as_ref().map_or(0, |block| block.text.len() as u64);
                self.rotate(rotation, coming_bytes);
            }
            if let Some(block) = block {
                self.write(&block);
                receiver.give_back(block.text);
            }
        }
    }

    fn open_again(&mut self, target: &LogTarget) {
        match Output::open(target) {
            Ok(output) => self.output = output,
            Err(error) => (self.notice)(&format!("the access log goes on where it was: {error}")),
        }
    }

    /// Starts a new file if the present one is too large or too old for what comes.
    fn rotate(&mut self, rotation: Rotation, coming_bytes: u64) {
        let Output::File { path, bytes, since, .. } = &self.output else { return };
        let is_large = rotation.bytes_max.is_some_and(|bytes_max| *bytes > 0 && bytes + coming_bytes > bytes_max);
        let is_old =
            rotation.age_max.is_some_and(|age_max| since.elapsed().is_ok_and(|age| age >= age_max)) && *bytes > 0;
        if !is_large && !is_old {
            return;
        }
        let path = path.clone();
        let turned = turn_round(&path, rotation.keep).and_then(|()| Output::open(&LogTarget::File(path)));
        match turned {
            Ok(output) => self.output = output,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                (self.notice)(&format!("the access log cannot be turned round: {error}"));
            }
            Err(_) => {}
        }
    }

    /// Writes a block, counts what of it was written and what was not, and says when that changes.
    fn write(&mut self, block: &Block) {
        let (written, error) = write_lines(&mut self.output, block, &mut self.torn);
        self.waiting.fetch_sub(block.lines, Ordering::Relaxed);
        let dropped = block.lines.saturating_sub(written);
        if let Some(first) = self.counters.0.first() {
            first.log_lines.add_shared(written);
            first.log_dropped.add_shared(dropped);
        }
        match (error, self.is_failing) {
            (Some(error), false) => {
                (self.notice)(&format!("lines of the access log are lost: {error}; serving goes on"));
            }
            (None, true) => (self.notice)("the access log is written again"),
            _ => return,
        }
        self.is_failing = dropped > 0;
    }
}

/// `access.log.2` becomes `access.log.3` and so on; so many are kept, the others go.
fn turn_round(path: &Path, keep: u32) -> io::Result<()> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if keep == 0 {
        return std::fs::remove_file(path);
    }
    for number in (1..keep).rev() {
        match std::fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, numbered(1))
}

/// Writes as many lines as can be written; returns how many that is and what stood in the way.
fn write_lines(output: &mut Output, Block { text, lines }: &Block, torn: &mut bool) -> (u64, Option<io::Error>) {
    if *torn && let Err(error) = output.write_all(b"\n") {
        return (0, Some(error));
    }
    *torn = false;
    let mut at = 0;
    let mut failed = None;
    while at < text.len() {
        match output.write(&text[at..]) {
            Ok(0) => failed = Some(io::ErrorKind::WriteZero.into()),
            Ok(written) => at += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => failed = Some(error),
        }
        if failed.is_some() {
            break;
        }
    }
    // What standard output keeps for later belongs to the block too.
    let flushed = output.flush();
    *torn = at > 0 && text[at - 1] != b'\n';
    let written = if at == text.len() { *lines } else { memchr::memchr_iter(b'\n', &text[..at]).count() as u64 };
    (written, failed.or(flushed.err()))
}

impl Output {
    fn open(target: &LogTarget) -> io::Result<Self> {
        let LogTarget::File(path) = target else { return Ok(Self::Stdout) };
        let file = File::options().append(true).create(true).open(path)?;
        let metadata = file.metadata()?;
        // Where the file system does not tell when a file was made, its age begins now.
        let since = metadata.created().unwrap_or_else(|_| SystemTime::now());
        Ok(Self::File { file, path: path.clone(), bytes: metadata.len(), since })
    }
}

impl Write for Output {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(text),
            Self::File { file, bytes, .. } => {
                let written = file.write(text)?;
                *bytes += written as u64;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}
