//! io_uring in place of a system call for each reception and each transmission (io_uring(7)).
//!
//! Each connection has one reception that stays armed; what it brings lies in buffers that the kernel takes from a ring
//! of ours. Requests wait in the submission queue until the loop has nothing else to do, and go out together, in the
//! call that also waits. What is rare stays with epoll, whose descriptor the ring watches.

use crate::error::system::checked;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of a buffer: most responses fit one.
const BUFFER_BYTES: usize = 16 << 10;
/// The fewest and the most buffers, powers of two.
const BUFFERS: (u32, u32) = (64, 1024);
/// Their group.
const GROUP: u16 = 0;
/// The fewest and the most submissions that wait; further ones go out at once.
const SUBMISSIONS: (u32, u32) = (256, 1 << 15);
/// What a completion belongs to, beside the token of its connection: bits 28 to 31 of the slot's half.
const SEND: u64 = 1 << 31;
const CANCEL: u64 = 1 << 30;
const EPOLL: u64 = u64::MAX;

/// What has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Completion {
    /// The epoll instance has events.
    Epoll,
    /// A reception of the connection with this token: bytes in a buffer that goes back with [`Ring::give_back`], the end
    /// of the stream (nothing), or an error. Unless it is armed still, it must be armed again.
    Received { token: u64, result: Result<Option<Filled>, i32>, armed: bool },
    /// A transmission that did not go out whole: the error's number.
    NotSent { token: u64, error: i32 },
}

/// Bytes in a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    buffer: u16,
    length: u32,
}

impl Filled {
    /// Whether more may have come than there was room for.
    #[inline]
    pub(crate) fn is_full(self) -> bool {
        self.length as usize >= BUFFER_BYTES
    }
}

/// A ring with its buffers.
pub(crate) struct Ring {
    ring: IoUring,
    memory: Memory,
    /// Buffers that were given back, a power of two.
    entries: u32,
    tail: u16,
    given_back: u16,
    completions: Vec<cqueue::Entry>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for so many connections, used by the calling thread only, that watches an epoll instance.
    ///
    /// # Errors
    /// Where the kernel has none (before 6.1), or forbids it (`kernel.io_uring_disabled`, a filter of system calls).
    pub(crate) fn new(connections: u32, epoll: RawFd) -> io::Result<Self> {
        let entries = connections.saturating_mul(2).next_power_of_two().clamp(BUFFERS.0, BUFFERS.1);
        // A reception brings as many completions as there are buffers, and each connection may fail beside that.
        let completions = (2 * entries).max(connections.saturating_mul(2)).next_power_of_two().clamp(1024, 1 << 16);
        let submissions = connections.saturating_mul(2).next_power_of_two().clamp(SUBMISSIONS.0, SUBMISSIONS.1);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(completions)
            .dontfork()
            .build(submissions)?;
        let memory = Memory::new(entries as usize * (size_of::<types::BufRingEntry>() + BUFFER_BYTES))?;
        // SAFETY: the memory is page-aligned, large enough for the entries, and unmapped after the ring is closed: fields
        // are dropped in their order.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(memory.address as u64, entries as u16, GROUP, 0)?;
        }
        let mut own = Self {
            ring,
            memory,
            entries,
            tail: 0,
            given_back: 0,
            completions: Vec::with_capacity(completions as usize),
        };
        for buffer in 0..entries {
            own.put(buffer as u16);
        }
        own.publish();
        own.watch(epoll)?;
        Ok(own)
    }

    /// Watches the epoll instance, from now on or again.
    pub(crate) fn watch(&mut self, epoll: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(types::Fd(epoll), libc::POLLIN as u32).build().user_data(EPOLL);
        self.push(&poll)
    }

    /// Arms the reception of a connection.
    pub(crate) fn arm(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(types::Fd(fd), GROUP).build().user_data(token))
    }

    /// Queues bytes for a connection.
    ///
    /// # Safety
    /// The bytes must stay where they are until the ring is dropped.
    #[inline]
    pub(crate) unsafe fn send(&mut self, fd: RawFd, token: u64, bytes: &[u8]) -> io::Result<()> {
        // Waits for room within the kernel, so that a transmission is whole or has failed.
        let send = opcode::Send::new(types::Fd(fd), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(token | SEND);
        self.push(&send)
    }

    /// Ends what is armed or queued for a connection whose descriptor is closed next.
    pub(crate) fn cancel(&mut self, token: u64) -> io::Result<()> {
        for armed in [token, token | SEND] {
            self.push(
                &opcode::AsyncCancel::new(armed).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(token | CANCEL),
            )?;
        }
        // Queued entries name the descriptor by its number, which the next connection may get.
        self.ring.submit().map(drop)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..2 {
            // SAFETY: what entries point to is kept by the callers' promises; descriptors are only numbers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Hands over what is queued and waits for a completion, at most `timeout_ns`.
    #[inline]
    pub(crate) fn enter(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.publish();
        let timeout = types::Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
        let arguments = types::SubmitArgs::new().timespec(&timeout);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            // The time is over, a signal came, or completions must be taken first.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
        self.completions.clear();
        self.completions.extend(self.ring.completion());
        Ok(())
    }

    /// How many completions the last [`enter`](Self::enter) brought.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.completions.len()
    }

    /// One of them, unless it tells nothing.
    #[inline]
    pub(crate) fn completion(&self, index: usize) -> Option<Completion> {
        let entry = self.completions.get(index)?;
        let (token, result) = (entry.user_data(), entry.result());
        if token == EPOLL {
            return Some(Completion::Epoll);
        }
        if token & CANCEL != 0 {
            return None;
        }
        if token & SEND != 0 {
            // What went out in part was cut off by the connection's end.
            let error = if result < 0 { -result } else { libc::ECONNRESET };
            return Some(Completion::NotSent { token: token & !SEND, error });
        }
        // A stream that has ended brings no buffer.
        let filled = cqueue::buffer_select(entry.flags()).map(|buffer| Filled { buffer, length: result.max(0) as u32 });
        let result = if result < 0 { Err(-result) } else { Ok(filled) };
        Some(Completion::Received { token, result, armed: cqueue::more(entry.flags()) })
    }

    /// The bytes of a buffer.
    ///
    /// # Safety
    /// They may be read until the buffer is given back.
    #[inline]
    pub(crate) unsafe fn bytes<'b>(&self, filled: Filled) -> &'b [u8] {
        let length = (filled.length as usize).min(BUFFER_BYTES);
        // SAFETY: the buffer lies within the memory, and the kernel does not write to it while it is ours.
        unsafe { std::slice::from_raw_parts(self.place(filled.buffer), length) }
    }

    /// Lets the kernel have a buffer again.
    #[inline]
    pub(crate) fn give_back(&mut self, filled: Filled) {
        self.put(filled.buffer);
        self.given_back += 1;
        if u32::from(self.given_back) >= self.entries / 4 {
            self.publish();
        }
    }

    fn place(&self, buffer: u16) -> *mut u8 {
        let offset = self.entries as usize * size_of::<types::BufRingEntry>()
            + usize::from(buffer) % self.entries as usize * BUFFER_BYTES;
        self.memory.address.wrapping_add(offset)
    }

    #[inline]
    fn put(&mut self, buffer: u16) {
        let place = self.place(buffer) as u64;
        let index = usize::from(self.tail) & (self.entries as usize - 1);
        // SAFETY: the entry lies within the memory, and the kernel reads it only below the published tail.
        let entry = unsafe { &mut *self.memory.address.cast::<types::BufRingEntry>().add(index) };
        entry.set_addr(place);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel the buffers that were given back.
    #[inline]
    fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry (io_uring_register_buf_ring(3)), which is ours and aligned; the kernel
        // reads it with acquire.
        unsafe {
            let tail = types::BufRingEntry::tail(self.memory.address.cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
        self.given_back = 0;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Nothing may point to the requests' bytes any more when they go; a kernel that cannot do this ends it all when
        // the ring is closed.
        let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any().all());
    }
}

/// Pages of our own.
#[derive(Debug)]
struct Memory {
    address: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh private mapping touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: address.cast(), bytes })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing points to it any more. It can only fail for a wrong address.
        let _ = checked(unsafe { libc::munmap(self.address.cast(), self.bytes) });
    }
}
