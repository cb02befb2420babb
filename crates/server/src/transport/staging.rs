//! Responses that wait for the ring's next call.

use crate::exchange::send::{COPIED_BYTES_MAX, Sink, Socket};
use crate::transport::ring::Ring;
use std::fs::File;
use std::io::{self, IoSlice};

/// The ring, for responses that may wait for its next call.
#[derive(Debug)]
pub(crate) struct Staging<'r> {
    pub(crate) ring: &'r mut Ring,
    /// Whether this response may; where not, those that wait already still come first.
    pub(crate) is_wanted: bool,
}

/// A socket whose small responses wait for the ring's next call.
#[derive(Debug)]
pub(super) struct RingSink<'c> {
    pub(super) socket: Socket<'c>,
    pub(super) token: u64,
    pub(super) ring: &'c mut Ring,
    pub(super) is_staged: bool,
    pub(super) may_stage: bool,
}

impl Sink for RingSink<'_> {
    fn send(&mut self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        if self.may_stage
            && !more
            && bytes <= COPIED_BYTES_MAX
            && self.ring.stage(self.socket.fd, self.token, pieces, self.is_staged)
        {
            self.is_staged = true;
            return Ok(bytes);
        }
        if self.is_staged {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.socket.send(pieces, more)
    }

    fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64> {
        if self.is_staged {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.socket.send_file(file, is_unchanged, start, len)
    }
}
