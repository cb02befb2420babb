//! Receptions of connections with upstreams, which have buffers of their own.

use super::Ring;
use super::buffers::UpstreamBuffers;
use io_uring::{cqueue, opcode, types};
use std::io;
use std::os::fd::RawFd;

/// Marks the tokens of connections with upstreams: a bit that no index of a connection has.
pub(crate) const UPSTREAM: u64 = 1 << 29;
/// Bytes that a reception brings at most.
pub(crate) const UPSTREAM_BUFFER_BYTES: usize = UpstreamBuffers::BYTES;

/// What a reception has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamArrival {
    Nothing,
    /// So many bytes.
    Bytes(usize),
    /// Nothing more comes; with the number of an error, or 0.
    End(i32),
}

/// A completion of such a reception.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpstreamReception {
    pub(crate) token: u64,
    /// No more will come of it.
    pub(crate) is_last: bool,
    /// It only ended because all buffers were in use.
    pub(crate) is_starved: bool,
    pub(crate) arrival: UpstreamArrival,
}

impl Ring {
    /// Arms the reception of a connection with an upstream.
    pub(crate) fn arm_upstream(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(types::Fd(fd), UpstreamBuffers::GROUP).build().user_data(token))?;
        self.armed += 1;
        self.has_upstreams = true;
        Ok(())
    }

    /// Whether a reception is that of a connection with an upstream.
    #[inline]
    pub(crate) fn is_of_upstream(&self, index: usize) -> bool {
        self.receptions.get(index).is_some_and(|entry| entry.user_data() & UPSTREAM != 0)
    }

    /// Takes a reception, and copies its bytes, for which there must be room.
    pub(crate) fn take_upstream(&mut self, index: usize, input: &mut [u8]) -> Option<UpstreamReception> {
        let entry = self.receptions.get(index)?;
        let (token, result) = (entry.user_data(), entry.result());
        let is_last = !cqueue::more(entry.flags());
        self.armed -= usize::from(is_last);
        let buffer = cqueue::buffer_select(entry.flags());
        let arrival = match (result, buffer) {
            (1.., Some(buffer)) => {
                let bytes = result.unsigned_abs() as usize;
                input[..bytes].copy_from_slice(&self.upstream_buffers.bytes(buffer)[..bytes]);
                UpstreamArrival::Bytes(bytes)
            }
            (0, _) => UpstreamArrival::End(0),
            _ if matches!(-result, libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {
                UpstreamArrival::Nothing
            }
            _ => UpstreamArrival::End(-result),
        };
        if let Some(buffer) = buffer {
            self.upstream_buffers.give_back(buffer);
        }
        Some(UpstreamReception { token, is_last, is_starved: result == -libc::ENOBUFS, arrival })
    }
}
