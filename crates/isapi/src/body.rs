//! The body of a request: its first part is read before the extension runs, the rest as the extension asks.

use crate::streams::read;
use std::io;
use std::os::fd::RawFd;

/// Bytes of the body that the control block has at once, at most.
pub(crate) const AHEAD_BYTES: usize = 48 << 10;

/// Reads exactly as many bytes of the descriptor as the request has.
#[derive(Debug)]
pub(crate) struct Body {
    from: RawFd,
    /// The number of the request, as in its control block.
    serial: usize,
    ahead: Vec<u8>,
    /// Bytes that stand in the pipe, or will.
    remaining: u64,
}

impl Body {
    pub(crate) fn new(from: RawFd) -> Self {
        Self { from, serial: 0, ahead: Vec::new(), remaining: 0 }
    }

    /// A request begins: waits for the first [`AHEAD_BYTES`] of the body, or for all if it is shorter.
    pub(crate) fn begin(&mut self, serial: usize, length: u64) -> io::Result<&mut [u8]> {
        self.serial = serial;
        self.remaining = length;
        let wanted = usize::try_from(length).map_or(AHEAD_BYTES, |length| length.min(AHEAD_BYTES));
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.resize(wanted, 0);
        let count = self.fill(&mut ahead);
        self.ahead = ahead;
        self.ahead.truncate(count?);
        Ok(&mut self.ahead)
    }

    /// Whether this is the body of that request.
    pub(crate) fn is_of(&self, serial: usize) -> bool {
        self.serial == serial
    }

    /// Reads until the memory is full or the body has ended, and returns how many bytes were read.
    pub(crate) fn fill(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.remaining).map_or(to.len(), |remaining| remaining.min(to.len()));
        let mut filled = 0;
        while filled < wanted {
            match read(self.from, &mut to[filled..wanted]) {
                // The runner has closed the stream: no more comes for any request.
                Ok(0) => {
                    self.remaining = 0;
                    break;
                }
                Ok(count) => {
                    filled += count;
                    self.remaining -= count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads what is there of the body, but waits for at least a byte; 0 at the end.
    pub(crate) fn some(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.remaining).map_or(to.len(), |remaining| remaining.min(to.len()));
        loop {
            if wanted == 0 {
                return Ok(0);
            }
            match read(self.from, &mut to[..wanted]) {
                Ok(count) => {
                    self.remaining = if count == 0 { 0 } else { self.remaining - count as u64 };
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether bytes of the request are left, which would be taken for the next one's.
    pub(crate) fn is_unread(&self) -> bool {
        self.remaining > 0
    }

    /// Reads and drops what is left.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        let mut dropped = [0; 16 << 10];
        while self.some(&mut dropped)? > 0 {}
        Ok(())
    }

    /// The request is over: what still asks for its body gets an error.
    pub(crate) fn end(&mut self) {
        self.serial = 0;
    }
}
