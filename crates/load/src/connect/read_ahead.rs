//! Bytes that were taken from a socket before their time.
//!
//! The kernel merges segments, and frees a merged piece only when all of it was read: a receive buffer that is read in
//! small portions therefore opens its window only when it is empty, and then nothing is there for a round trip.
//! So the kernel's small buffer is emptied into this one while that still has half of its bytes.

use crate::connect::kernel::Kernel;
use std::io;
use std::os::fd::RawFd;

/// A bounded buffer behind a socket.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
    /// Whether the socket may have more.
    more: bool,
    over: Option<Over>,
}

/// How the stream ended.
#[derive(Debug, Clone, Copy)]
enum Over {
    Ended,
    /// The error's number.
    Failed(i32),
}

impl ReadAhead {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), begin: 0, end: 0, more: true, over: None }
    }

    /// Bytes that can be read.
    pub(crate) fn len(&self) -> usize {
        self.end - self.begin
    }

    /// Whether nothing can be read, neither bytes nor the end.
    pub(crate) fn is_dry(&self) -> bool {
        self.begin == self.end && self.over.is_none()
    }

    /// The socket has something.
    pub(crate) fn expect_more(&mut self) {
        self.more = self.over.is_none();
    }

    /// Takes what the socket has, where half of the room is free; `hung_up` if its end is known to follow.
    pub(crate) fn top_up(&mut self, kernel: &mut Kernel, fd: RawFd, hung_up: bool) {
        // With the bytes at its end the end itself is taken, too.
        for _ in 0..2 {
            if !self.more || self.len() > self.bytes.len() / 2 {
                return;
            }
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.len());
            let room = self.bytes.len() - self.end;
            match kernel.receive(fd, &mut self.bytes[self.end..]) {
                Ok(0) => self.over = Some(Over::Ended),
                Ok(count) => {
                    self.end += count;
                    self.more = count == room || hung_up;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A call on a socket fails with a number.
                Err(error) => self.over = Some(Over::Failed(error.raw_os_error().unwrap_or(libc::EIO))),
            }
            self.more = false;
        }
    }

    /// Reads what is here, as from the socket.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.len().min(buffer.len());
        if count == 0 {
            return match self.over {
                None => Err(io::ErrorKind::WouldBlock.into()),
                Some(Over::Ended) => Ok(0),
                Some(Over::Failed(code)) => Err(io::Error::from_raw_os_error(code)),
            };
        }
        buffer[..count].copy_from_slice(&self.bytes[self.begin..self.begin + count]);
        self.begin += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    proptest! {
        /// Bytes written in any pieces come out once, in order, with their end, and are held within the bound.
        #[test]
        fn bytes_pass_in_their_order(
            pieces in prop::collection::vec((0usize..3000, 1usize..700), 0..40), hung_up: bool,
        ) {
            let (mut writer, reader) = UnixStream::pair().expect("a pair");
            reader.set_nonblocking(true).expect("a socket");
            let mut kernel = Kernel::new(&crate::Sockets::default()).expect("epoll");
            let mut ahead = ReadAhead::new(1024);
            let (mut written, mut read, mut next) = (0usize, 0usize, 0u8);
            let mut buffer = [0; 1000];
            let mut take = |ahead: &mut ReadAhead, most: usize| {
                let count = ahead.read(&mut buffer[..most]).ok();
                for byte in &buffer[..count.unwrap_or(0)] {
                    assert_eq!(*byte, next);
                    next = next.wrapping_add(1);
                }
                read += count.unwrap_or(0);
                (count, read)
            };
            for (bytes, most) in pieces {
                // Less than the socket's buffer holds of it, or the write would wait.
                if bytes > 0 && written - take(&mut ahead, 1).1 < 60_000 {
                    let piece: Vec<u8> = (written..written + bytes).map(|at| at as u8).collect();
                    writer.write_all(&piece).expect("room");
                    written += bytes;
                    ahead.expect_more();
                }
                ahead.top_up(&mut kernel, reader.as_raw_fd(), false);
                prop_assert!(ahead.len() <= 1024);
                take(&mut ahead, most);
            }
            drop(writer);
            loop {
                ahead.expect_more();
                ahead.top_up(&mut kernel, reader.as_raw_fd(), hung_up);
                let (count, read) = take(&mut ahead, 700);
                if count == Some(0) {
                    prop_assert_eq!(read, written);
                    break;
                }
            }
            prop_assert!(!ahead.is_dry() && !ahead.more);
        }
    }
}
