//! Lines on standard error, which one thread writes: a request never waits for a terminal or a pipe.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Lines that may wait for the thread; further ones are dropped and counted.
const LINES_MAX: usize = 4096;
/// Bytes of one line of a component; a longer one is cut into several.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes that one request may log; what follows is dropped, and counted in a last line.
const REQUEST_BYTES_MAX: u64 = 256 << 10;

/// The program's log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the thread that writes the lines.
    pub(crate) fn start() -> Self {
        let (lines, from) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let own = Self { lines, dropped: dropped.clone() };
        // Without the thread all lines are dropped, and requests are answered as before.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(move || write(&from, &dropped));
        own
    }

    /// Writes a line.
    pub(crate) fn line(&self, text: &str) {
        if self.lines.try_send(plain(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(from: &Receiver<String>, dropped: &AtomicU64) {
    while let Ok(line) = from.recv() {
        eprintln!("{line}");
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            eprintln!("weir-wasm: {count} lines of the log are missing here: they came too fast");
        }
    }
}

/// The text without control characters, which could forge lines or move a terminal's cursor.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\t' {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Standard output or standard error of one instance, line by line.
#[derive(Clone)]
pub(crate) struct GuestText(Arc<Mutex<Lines>>);

struct Lines {
    log: Log,
    /// What stands before each line: component, request, stream.
    origin: String,
    begun: Vec<u8>,
    left: u64,
    dropped: u64,
}

impl GuestText {
    /// A stream whose lines begin with `origin`.
    pub(crate) fn new(log: Log, origin: String) -> Self {
        Self(Arc::new(Mutex::new(Lines { log, origin, begun: Vec::new(), left: REQUEST_BYTES_MAX, dropped: 0 })))
    }

    fn push(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(piece.len());
            self.left -= room as u64;
            self.dropped += (piece.len() - room) as u64;
            for part in piece[..room].chunks(LINE_BYTES_MAX) {
                self.begun.extend_from_slice(part);
                if part.ends_with(b"\n") || self.begun.len() >= LINE_BYTES_MAX {
                    self.finish_line();
                }
            }
        }
    }

    fn finish_line(&mut self) {
        let text = String::from_utf8_lossy(&self.begun);
        self.log.line(&format!("{}: {}", self.origin, text.trim_end_matches(['\n', '\r'])));
        self.begun.clear();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.finish_line();
        }
        if self.dropped > 0 {
            self.log.line(&format!("{}: {} more bytes are dropped", self.origin, self.dropped));
        }
    }
}

impl IsTerminal for GuestText {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestText {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only components of later versions of WASI ask for it, which are not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for GuestText {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 << 10)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestText {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(write: impl FnOnce(&GuestText)) -> Vec<String> {
        let (lines, from) = sync_channel(LINES_MAX);
        let log = Log { lines, dropped: Arc::default() };
        let text = GuestText::new(log, "app".to_owned());
        write(&text);
        drop(text);
        from.try_iter().collect()
    }

    #[test]
    fn lines_are_put_together_and_cannot_forge_others() {
        let told = lines(|text| {
            text.push(b"one\ntw");
            text.push(b"o\x1b[2J\rx\nthree");
        });
        assert_eq!(told, ["app: one", "app: two\\u{1b}[2J\\rx", "app: three"]);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let told = lines(|text| (0..1000).for_each(|_| text.push(&[b'x'; 1000])));
        let bytes: usize = told.iter().map(String::len).sum();
        assert!(bytes < REQUEST_BYTES_MAX as usize + 4096, "{bytes}");
        assert_eq!(told.last().map(String::as_str), Some("app: 737856 more bytes are dropped"));
    }
}
