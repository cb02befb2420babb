//! The access log: lines are collected by each loop and written by a thread of their own, so that no full disk
//! and no slow reader ever holds up a loop. What cannot be kept is dropped and counted.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::error::BindError;
use crate::options::{AccessLog, LogFormat, LogTarget};
use crate::request::Request;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that a loop collects before it hands them over.
const BLOCK_BYTES: usize = 32 << 10;
/// Bytes that a loop keeps while the writer is behind.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Blocks on their way to the writer, of all loops.
const BLOCKS_MAX: usize = 16;
/// Bytes of a request line, referrer or user agent that are logged.
const TEXT_BYTES_MAX: usize = 1024;
/// How long the end of the server waits for the last lines.
const END_WAIT: Duration = Duration::from_secs(2);

/// A line that lacks the count of bytes only.
#[derive(Debug, Default)]
pub(crate) struct LogLine {
    text: Vec<u8>,
    bytes_at: usize,
}

impl LogLine {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }
}

struct Block {
    text: Vec<u8>,
    lines: u64,
}

/// A loop's side of the log.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    options: AccessLog,
    sender: SyncSender<Block>,
    text: Vec<u8>,
    lines: u64,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl LogBuffer {
    /// Writes everything that is known when a response begins. Without a request its head was unreadable.
    pub(crate) fn begin(
        &self,
        line: &mut LogLine,
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        let out = &mut line.text;
        out.clear();
        // Writing to memory does not fail.
        let _ = write!(out, "{} - - ", if self.options.addresses { peer } else { network(peer) });
        out.extend_from_slice(&clock.log_time);
        out.extend_from_slice(b" \"");
        match request {
            Some(request) => {
                escape(request.method_text.as_bytes(), out);
                out.push(b' ');
                self.address(request.target.as_bytes(), out);
                out.push(b' ');
                out.extend_from_slice(request.version().as_bytes());
            }
            None => out.push(b'-'),
        }
        let _ = write!(out, "\" {status} ");
        line.bytes_at = out.len();
        if self.options.format == LogFormat::Combined {
            out.extend_from_slice(b" \"");
            match request.and_then(|request| request.referrer) {
                Some(referrer) => self.address(referrer, out),
                None => out.push(b'-'),
            }
            out.extend_from_slice(b"\" \"");
            escape(request.and_then(|request| request.user_agent).unwrap_or(b"-"), out);
            out.push(b'"');
        }
        out.push(b'\n');
    }

    /// Completes a line; whether there was room for it.
    pub(crate) fn end(&mut self, line: &LogLine, body_bytes: u64) -> bool {
        if line.text.is_empty() {
            return true;
        }
        if self.text.len() + line.text.len() + 20 > KEPT_BYTES_MAX {
            self.hand_over();
            if self.text.len() + line.text.len() + 20 > KEPT_BYTES_MAX {
                return false;
            }
        }
        let (before, after) = line.text.split_at(line.bytes_at);
        self.text.extend_from_slice(before);
        if body_bytes == 0 {
            self.text.push(b'-');
        } else {
            let _ = write!(self.text, "{body_bytes}");
        }
        self.text.extend_from_slice(after);
        self.lines += 1;
        if self.text.len() >= BLOCK_BYTES && self.text.len() - before.len() - after.len() - 20 < BLOCK_BYTES {
            self.hand_over();
        }
        true
    }

    /// Whether every line was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Gives the lines to the writer if it can take them now.
    pub(crate) fn hand_over(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let block = Block { text: std::mem::take(&mut self.text), lines: self.lines };
        match self.sender.try_send(block) {
            Ok(()) => {
                self.lines = 0;
                self.text.reserve(BLOCK_BYTES + 4096);
            }
            Err(TrySendError::Full(block) | TrySendError::Disconnected(block)) => self.text = block.text,
        }
    }

    /// The same at the end, with some patience; returns how many lines are lost.
    pub(crate) fn finish(mut self) -> u64 {
        let deadline = Instant::now() + END_WAIT;
        while !self.text.is_empty() && Instant::now() < deadline {
            self.hand_over();
            if !self.text.is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.lines_kept()
    }

    fn lines_kept(&self) -> u64 {
        if self.text.is_empty() { 0 } else { self.lines }
    }

    /// A target or address, without its query unless that was asked for.
    fn address(&self, text: &[u8], out: &mut Vec<u8>) {
        match memchr::memchr(b'?', text) {
            Some(at) if !self.options.queries => {
                escape(&text[..at], out);
                out.extend_from_slice(b"?-");
            }
            _ => escape(text, out),
        }
    }
}

/// The network that an address is in, as far as a redacted log says it.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(addr) => IpAddr::V4(Ipv4Addr::from(u32::from(addr) & 0xffff_ff00)),
        IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from(u128::from(addr) & !0 << 80)),
    }
}

/// Appends text so that it can neither end its quotes nor its line.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text.iter().take(TEXT_BYTES_MAX) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct LogWriter {
    options: AccessLog,
    sender: SyncSender<Block>,
    receiver: Receiver<Block>,
    output: Output,
    pub(crate) reopen: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Output {
    Stdout,
    File(File),
}

impl LogWriter {
    pub(crate) fn open(options: &AccessLog, reopen: Arc<AtomicBool>) -> Result<Self, BindError> {
        let output = match &options.target {
            LogTarget::Stdout => Output::Stdout,
            LogTarget::File(path) => {
                Output::File(append(path).map_err(|source| BindError::AccessLog { path: path.clone(), source })?)
            }
        };
        let (sender, receiver) = sync_channel(BLOCKS_MAX);
        Ok(Self { options: options.clone(), sender, receiver, output, reopen })
    }

    pub(crate) fn buffer(&self) -> LogBuffer {
        LogBuffer { options: self.options.clone(), sender: self.sender.clone(), text: Vec::new(), lines: 0 }
    }

    /// Starts the thread; it ends after every buffer has gone.
    pub(crate) fn start(self, counters: Counters) -> io::Result<LogThread> {
        let Self { options, sender, receiver, output, reopen } = self;
        drop(sender);
        let name = "weir-log".to_owned();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || write_blocks(&receiver, output, &options.target, &reopen, &counters))?;
        Ok(LogThread(thread))
    }
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct LogThread(JoinHandle<()>);

impl LogThread {
    /// Waits for the last line, but not for a reader that has stopped reading.
    pub(crate) fn join(self) {
        let deadline = Instant::now() + END_WAIT;
        while !self.0.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn append(path: &std::path::Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

fn write_blocks(
    receiver: &Receiver<Block>,
    mut output: Output,
    target: &LogTarget,
    reopen: &AtomicBool,
    counters: &Counters,
) {
    // Whether the last line that was begun has no end yet, so that it must not run into the next one.
    let mut torn = false;
    loop {
        let block = match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(block) => Some(block),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if reopen.swap(false, Ordering::Relaxed)
            && let LogTarget::File(path) = target
            && let Ok(file) = append(path)
        {
            output = Output::File(file);
        }
        let Some(block) = block else { continue };
        let written = write_block(&mut output, &block.text, &mut torn);
        let dropped = block.lines.saturating_sub(written);
        if let Some(first) = counters.0.first() {
            first.log_lines.add_shared(written);
            first.log_dropped.add_shared(dropped);
        }
    }
}

/// Writes as many lines as can be written, and returns how many that is.
fn write_block(output: &mut Output, text: &[u8], torn: &mut bool) -> u64 {
    if *torn && output.write_all(b"\n").is_err() {
        return 0;
    }
    *torn = false;
    let mut at = 0;
    while at < text.len() {
        match output.write(&text[at..]) {
            Ok(0) => break,
            Ok(written) => at += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // What standard output keeps for later belongs to the block too.
    let _ = output.flush();
    *torn = at > 0 && text[at - 1] != b'\n';
    memchr::memchr_iter(b'\n', &text[..at]).count() as u64
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::File(file) => file.flush(),
        }
    }
}
