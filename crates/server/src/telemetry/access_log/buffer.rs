//! A loop's side of the access log.

use super::block::Block;
use super::format::Format;
use super::queue::Sender;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::telemetry::access_log::block::BLOCK_BYTES;
use crate::telemetry::access_log::format;
use crate::telemetry::access_log::line::{self, LogLine};
use crate::telemetry::access_log::settings::{AccessLog, LogFormat};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that a loop keeps while the writer is behind.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Bytes that the numbers take which are known at the end only.
const LATE_BYTES: usize = 20 * format::LATE_MAX;

/// How long the end of the server waits for the last lines.
pub(super) const END_WAIT: Duration = Duration::from_secs(2);

/// A loop's side of the log.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    options: AccessLog,
    format: Format,
    clients: line::Clients,
    sender: Sender,
    /// Lines of all loops that were handed over and are not written yet.
    waiting: Arc<AtomicU64>,
    text: Vec<u8>,
    lines: u64,
}

impl LogBuffer {
    pub(super) fn new(options: AccessLog, sender: Sender, waiting: Arc<AtomicU64>) -> Self {
        let format = format_of(&options.format);
        let clients = line::Clients::default();
        Self { options, format, clients, sender, waiting, text: Vec::new(), lines: 0 }
    }

    /// Takes up another form of lines.
    pub(crate) fn change(&mut self, options: &AccessLog) {
        self.options = options.clone();
        self.format = format_of(&options.format);
    }

    /// Writes everything that is known when a response begins. Without a request its head was unreadable.
    pub(crate) fn begin(
        &mut self,
        line: &mut LogLine,
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        line.begin((&self.options, &self.format, &mut self.clients), request, peer, status, clock);
    }

    /// Completes a line; whether there was room for it.
    pub(crate) fn end(&mut self, line: &LogLine, body_bytes: u64, all_bytes: u64) -> bool {
        if line.is_empty() {
            return true;
        }
        if self.text.len() + line.len() + LATE_BYTES > KEPT_BYTES_MAX {
            self.hand_over();
            if self.text.len() + line.len() + LATE_BYTES > KEPT_BYTES_MAX {
                return false;
            }
        }
        let before = self.text.len();
        line.end(body_bytes, all_bytes, &mut self.text);
        self.lines += 1;
        // Once for each block's worth: where the writer is behind, asking for each line is of no use.
        if before / BLOCK_BYTES != self.text.len() / BLOCK_BYTES {
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
        // Before the writer can have it, which takes them off again.
        self.waiting.fetch_add(self.lines, Ordering::Relaxed);
        match self.sender.try_send(block) {
            Ok(spare) => {
                self.lines = 0;
                self.text = spare;
                self.text.reserve(BLOCK_BYTES + 4096);
            }
            Err(block) => {
                self.waiting.fetch_sub(self.lines, Ordering::Relaxed);
                self.text = block.text;
            }
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
        if self.text.is_empty() { 0 } else { self.lines }
    }
}

fn format_of(format: &LogFormat) -> Format {
    match format {
        LogFormat::Common => Format::common(),
        LogFormat::Combined => Format::combined(),
        LogFormat::Json => Format::json(),
        LogFormat::Own(own) => own.0.clone(),
    }
}
