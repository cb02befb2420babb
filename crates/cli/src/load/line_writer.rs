//! Lines on their way to a reader that may take its time, or take none any more: what loads and ends is never held up.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait for the reader; beyond, they are dropped and counted.
const WAITING_MAX: usize = 4096;
/// A reader that takes nothing for so long at the end gets no more.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked at the end whether it takes something.
const LOOK: Duration = Duration::from_millis(20);

/// Why not all lines were written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// The system refused.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    /// The reader was too slow for some of them.
    #[error(
        "its reader took too long: {dropped} lines found no room and are missing; {left} more were not taken within \
         {} s after the end; a file takes them all",
        PATIENCE.as_secs()
    )]
    Stalled {
        /// Lines that found no room.
        dropped: u64,
        /// Lines that were left at the end.
        left: u64,
    },
}

/// Writes lines by a thread of its own.
#[derive(Debug)]
pub(super) struct LineWriter {
    lines: Option<SyncSender<String>>,
    sent: u64,
    dropped: u64,
    written: Arc<AtomicU64>,
    over: Receiver<std::io::Result<()>>,
}

impl LineWriter {
    /// Writes into a file, or to standard output for `-`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = match path.to_str() {
            // Without the lock of standard output, which a write that takes its time would hold.
            Some("-") => File::from(std::io::stdout().as_fd().try_clone_to_owned()?),
            _ => File::create(path)?,
        };
        Ok(Self::new(file))
    }

    fn new(to: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let (tell, over) = sync_channel(1);
        let written = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&written);
        std::thread::spawn(move || {
            // If there is no receiver any more, its patience is over.
            let _ = tell.send(write(to, &waiting, &count));
        });
        Self { lines: Some(lines), sent: 0, dropped: 0, written, over }
    }

    /// Hands a line on, with its end; one that finds no room is dropped and counted.
    pub(super) fn push(&mut self, line: String) {
        let Some(lines) = &self.lines else { return };
        match lines.try_send(line) {
            Ok(()) => self.sent += 1,
            Err(TrySendError::Full(_)) => self.dropped += 1,
            // The end says why.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Waits until all is written, for as long as the reader takes something.
    ///
    /// # Errors
    /// [`LineError`]. A reader that has seen enough, and closed its end, is none.
    pub(super) fn finish(mut self) -> Result<(), LineError> {
        drop(self.lines.take());
        let (mut written, mut since) = (0, Instant::now());
        let result = loop {
            match self.over.recv_timeout(LOOK) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Disconnected) => break Err(ErrorKind::Other.into()),
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.written.load(Ordering::Relaxed);
                    if std::mem::replace(&mut written, now) != now {
                        since = Instant::now();
                    }
                    if since.elapsed() >= PATIENCE {
                        return Err(LineError::Stalled { dropped: self.dropped, left: self.sent - now });
                    }
                }
            }
        };
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) if self.dropped > 0 => Err(LineError::Stalled { dropped: self.dropped, left: 0 }),
            Ok(()) => Ok(()),
        }
    }
}

/// Writes lines until there are no more.
fn write(mut to: impl Write, waiting: &Receiver<String>, written: &AtomicU64) -> std::io::Result<()> {
    while let Ok(line) = waiting.recv() {
        to.write_all(line.as_bytes())?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_a_stalled_reader_does_not_take_is_counted_and_holds_nothing_up() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut lines = LineWriter::new(writer);
        let (line, begin) = (format!("{}\n", "x".repeat(1023)), Instant::now());
        // A pipe takes 64 KiB, and the one that is being written is on neither side.
        let count = 64 + 1 + WAITING_MAX as u64 + 100;
        for _ in 0..count {
            lines.push(line.clone());
            std::thread::sleep(Duration::from_micros(50));
        }
        let dropped = lines.dropped;
        assert!((99..=164).contains(&dropped), "{dropped}");
        let error = lines.finish().expect_err("it is not whole");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        let LineError::Stalled { dropped: told, left } = error else { panic!("{error}") };
        assert!(told == dropped && left >= WAITING_MAX as u64 && left + 64 + dropped >= count - 1, "{told} {left}");
        let mut taken = vec![0; 64 << 10];
        reader.read_exact(&mut taken).expect("what the pipe holds");
    }

    #[test]
    fn a_reader_that_is_slow_gets_all_and_one_that_has_enough_is_no_mistake() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut lines = LineWriter::new(writer);
        (0..100).for_each(|number| lines.push(format!("{number}\n")));
        let taking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("it is read");
            text.lines().count()
        });
        lines.finish().expect("all is written");
        assert_eq!(taking.join().expect("no panic"), 100);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut lines = LineWriter::new(writer);
        lines.push("a\n".to_owned());
        lines.finish().expect("it has seen enough");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there is one");
        let mut lines = LineWriter::new(full);
        lines.push("a\n".to_owned());
        assert!(matches!(lines.finish(), Err(LineError::Write(_))));
    }
}
