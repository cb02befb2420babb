//! io_uring in place of a system call for each reception and each transmission (io_uring(7)).
//!
//! Each connection on the ring has one reception that stays armed; the kernel chooses the buffers that it fills
//! ([`buffers`]). Small responses are collected until the loop has nothing else to do, and go out together, in the call
//! that also waits. That call returns only when each socket has taken its response or refused it, so that no bytes have
//! to live longer than the round that made them. All else stays with epoll, whose descriptor the ring watches.

mod buffers;
pub(crate) mod upstreams;

use crate::io::epoll::Epoll;
use crate::transport::lane::Lane;
use buffers::{ClientBuffers, UpstreamBuffers};
use io_uring::register::Restriction;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;

/// Submissions that wait; further ones go out at once.
const SUBMISSIONS: u32 = 1024;
/// Responses that wait, and their bytes; further ones go out by calls of their own.
const STAGED_MAX: usize = 512;
const STAGED_BYTES_MAX: usize = 1 << 20;
/// Completions that are not yet taken: as many as there are buffers and what was submitted may bring at once.
const COMPLETIONS: u32 = 4096;
/// Connections on the ring; further ones stay with epoll.
const CONNECTIONS_MAX: usize = 1 << 16;
/// Calls in a row that do not take what is submitted, after which the ring counts as broken.
const TRIES_MAX: usize = 1000;
/// What a completion belongs to, beside the token of its connection: bits that no index of a connection has.
const SEND: u64 = 1 << 31;
const CANCEL: u64 = 1 << 30;
/// That of the epoll instance.
const EPOLL: u64 = u64::MAX;

/// A ring of one loop.
pub(crate) struct Ring {
    ring: IoUring,
    buffers: ClientBuffers,
    upstream_buffers: UpstreamBuffers,
    /// Whether a connection with an upstream was ever here.
    has_upstreams: bool,
    epoll: RawFd,
    /// Whether the epoll instance is watched, and whether it has events.
    is_watching: bool,
    is_told: bool,
    /// Receptions that have not had their last completion.
    armed: usize,
    /// Counts the calls; never 0, which is the round in which nothing was staged.
    round: u32,
    staged: Vec<Staged>,
    bytes: Vec<u8>,
    pub(crate) receptions: Vec<cqueue::Entry>,
    pub(crate) unsent: Vec<Unsent>,
    pub(crate) arrival: Arrival,
}

/// A response, or several of one connection, until the next call.
#[derive(Debug, Clone, Copy)]
struct Staged {
    token: u64,
    fd: RawFd,
    start: usize,
    len: usize,
}

/// What a socket did not take at once.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) token: u64,
    /// The bytes, and how many of them the socket has taken; or why it never will.
    pub(crate) rest: Result<Vec<u8>, io::Error>,
}

/// What a reception has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Nothing,
    /// Bytes of a buffer that are not taken yet.
    Bytes {
        buffer: u16,
        taken: usize,
        len: usize,
    },
    End,
    Failed(i32),
}

/// A completion of a connection's reception.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reception {
    pub(crate) token: u64,
    /// No more will come of it.
    pub(crate) is_last: bool,
    /// It only ended because all buffers were in use.
    pub(crate) is_starved: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("armed", &self.armed).field("round", &self.round).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring that watches an epoll instance, and does nothing yet: the thread whose it is calls
    /// [`enable`](Self::enable). It takes no operations but those that are made here, for ever.
    ///
    /// # Errors
    ///
    /// Where the kernel has none (before 6.1), or forbids it (`kernel.io_uring_disabled`, a filter of system calls).
    pub(crate) fn new(epoll: RawFd) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)?;
        let (buffers, upstream_buffers) = (ClientBuffers::new(&ring)?, UpstreamBuffers::new(&ring)?);
        let operations = [opcode::Recv::CODE, opcode::Send::CODE, opcode::PollAdd::CODE, opcode::AsyncCancel::CODE];
        let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::SKIP_SUCCESS;
        let mut only: Vec<Restriction> = operations.into_iter().map(Restriction::sqe_op).collect();
        only.push(Restriction::sqe_flags_allowed(flags.bits()));
        ring.submitter().register_restrictions(&mut only)?;
        Ok(Self {
            ring,
            buffers,
            upstream_buffers,
            has_upstreams: false,
            epoll,
            is_watching: false,
            is_told: false,
            armed: 0,
            round: 1,
            staged: Vec::new(),
            bytes: Vec::new(),
            receptions: Vec::new(),
            unsent: Vec::new(),
            arrival: Arrival::Nothing,
        })
    }

    /// Gives it to this thread; no other one can use it from then on.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Whether anything is under way in it, so that the loop has to wait by it.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        self.armed > 0 || !self.staged.is_empty()
    }

    /// Whether it takes another connection.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.armed < CONNECTIONS_MAX
    }

    /// The number of this round; see [`crate::transport::channel::Transport::is_staged`].
    #[inline]
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// Arms the reception of a connection.
    pub(crate) fn arm(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(types::Fd(fd), ClientBuffers::GROUP).build().user_data(token))?;
        self.armed += 1;
        Ok(())
    }

    /// Ends the reception of a connection; its last completion is still to come.
    pub(crate) fn cancel(&mut self, token: u64) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(token).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&cancel.user_data(token | CANCEL))
    }

    /// Takes bytes for a connection, to go out with the next call; whether there was room. `follows` says that others
    /// of this connection are waiting: then they must be the last ones, as what goes out in two pieces may fail between
    /// them.
    #[inline]
    pub(crate) fn stage(&mut self, fd: RawFd, token: u64, pieces: &[IoSlice<'_>], follows: bool) -> bool {
        let start = self.bytes.len();
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if start + len > STAGED_BYTES_MAX {
            return false;
        }
        if follows {
            match self.staged.last_mut().filter(|last| last.token == token) {
                Some(last) => last.len += len,
                None => return false,
            }
        } else {
            if self.staged.len() == STAGED_MAX {
                return false;
            }
            self.staged.push(Staged { token, fd, start, len });
        }
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        true
    }

    /// Hands over what waits, and waits for a completion, at most `timeout_ms`, without end if that is negative. Then
    /// everything that was staged has gone, or is to be had from [`take_unsent`](Self::take_unsent).
    pub(crate) fn enter(&mut self, timeout_ms: i32) -> io::Result<()> {
        self.buffers.publish();
        // Only upstreams' receptions give some back.
        if self.has_upstreams {
            self.upstream_buffers.publish();
        }
        if !self.is_watching {
            let poll = opcode::PollAdd::new(types::Fd(self.epoll), libc::POLLIN as u32).build().user_data(EPOLL);
            self.push_at_length(&poll)?;
            self.is_watching = true;
        }
        for index in 0..self.staged.len() {
            let Staged { token, fd, start, len } = self.staged[index];
            let bytes = &self.bytes[start..start + len];
            // With both flags it is over when it was handed over: MSG_DONTWAIT has the kernel never keep it, and
            // MSG_WAITALL makes what was taken in part a failure, which is told.
            let send = opcode::Send::new(types::Fd(fd), bytes.as_ptr(), len as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(token | SEND);
            self.push_at_length(&send)?;
        }
        // What calls have brought until here is not waited for.
        self.call(if self.has_news() { 0 } else { timeout_ms })?;
        if !self.is_settled() {
            self.settle()?;
        }
        self.staged.clear();
        self.bytes.clear();
        self.round = self.round.wrapping_add(1).max(1);
        Ok(())
    }

    /// Whether all that was submitted was taken, and each completion had a place.
    #[inline]
    fn is_settled(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.is_empty() && !queue.cq_overflow()
    }

    /// Calls again until that is so.
    #[cold]
    fn settle(&mut self) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            if self.ring.submission().is_empty() {
                break;
            }
            // Memory was short, or completions had to be taken first.
            self.call(0)?;
        }
        if !self.ring.submission().is_empty() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        for _ in 0..TRIES_MAX {
            if !self.ring.submission().cq_overflow() {
                break;
            }
            // Some completions had no place: what a socket did not take may be among them.
            self.call(0)?;
        }
        if self.ring.submission().cq_overflow() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(())
    }

    /// Whether calls have brought anything since the last round.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.is_told || !self.receptions.is_empty() || !self.unsent.is_empty()
    }

    /// How many receptions the last call has brought.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.receptions.len()
    }

    /// Whether the epoll instance had events.
    #[inline]
    pub(crate) fn take_told(&mut self) -> bool {
        std::mem::take(&mut self.is_told)
    }

    pub(crate) fn take_unsent(&mut self) -> Vec<Unsent> {
        std::mem::take(&mut self.unsent)
    }

    /// Receives for the connection whose turn it is what its reception has brought; see [`crate::io::epoll::receive`].
    pub(crate) fn receive(&mut self, buffer: &mut [u8], lane: Lane) -> Option<io::Result<usize>> {
        match self.arrival {
            Arrival::Bytes { buffer: number, taken, len } => {
                let bytes = &self.buffers.bytes(number)[taken..len];
                let now = bytes.len().min(buffer.len());
                buffer[..now].copy_from_slice(&bytes[..now]);
                self.arrival = if taken + now == len {
                    self.buffers.give_back(number);
                    Arrival::Nothing
                } else {
                    Arrival::Bytes { buffer: number, taken: taken + now, len }
                };
                Some(Ok(now))
            }
            Arrival::End => Some(Ok(0)),
            Arrival::Failed(number) => Some(Err(io::Error::from_raw_os_error(number))),
            Arrival::Nothing if lane == Lane::Socket => None,
            Arrival::Nothing => Some(Err(io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Begins with a reception: what it brought is what [`receive`](Self::receive) gives from now on.
    #[inline]
    pub(crate) fn begin(&mut self, index: usize) -> Option<Reception> {
        let entry = self.receptions.get(index)?;
        let (token, result) = (entry.user_data(), entry.result());
        let is_last = !cqueue::more(entry.flags());
        self.armed -= usize::from(is_last);
        let buffer = cqueue::buffer_select(entry.flags());
        self.arrival = match (result, buffer) {
            (1.., Some(buffer)) => Arrival::Bytes { buffer, taken: 0, len: result.unsigned_abs() as usize },
            (0, _) => Arrival::End,
            _ if matches!(-result, libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN) => Arrival::Nothing,
            _ => Arrival::Failed(-result),
        };
        if let Some(buffer) = buffer.filter(|_| result <= 0) {
            self.buffers.give_back(buffer);
        }
        Some(Reception { token, is_last, is_starved: result == -libc::ENOBUFS })
    }

    /// Ends with it; what was not taken of its bytes.
    #[inline]
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.arrival, Arrival::Bytes { .. }) {
            self.arrival = Arrival::Nothing;
            return None;
        }
        self.rest_of_bytes()
    }

    #[cold]
    fn rest_of_bytes(&mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.arrival, Arrival::Nothing) {
            Arrival::Bytes { buffer, taken, len } => {
                let rest = self.buffers.bytes(buffer)[taken..len].to_vec();
                self.buffers.give_back(buffer);
                Some(rest)
            }
            _ => None,
        }
    }

    /// One call, and a look at what it has brought.
    fn call(&mut self, timeout_ms: i32) -> io::Result<()> {
        let millis = timeout_ms.unsigned_abs();
        let time = types::Timespec::new().sec(u64::from(millis / 1000)).nsec(millis % 1000 * 1_000_000);
        let arguments = match timeout_ms {
            ..0 => types::SubmitArgs::new(),
            _ => types::SubmitArgs::new().timespec(&time),
        };
        let waits_for = u32::from(timeout_ms != 0);
        let waiting = self.ring.submission().len() as u32;
        // Completions are made by this thread, and only while it waits for some.
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        // SAFETY: the arguments live over the call; so do the bytes of what is submitted, which is over with it.
        let called = unsafe { self.ring.submitter().enter(waiting, waits_for, flags, Some(&arguments)) };
        if let Err(error) = called
            && !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
        {
            return Err(error);
        }
        for entry in self.ring.completion() {
            let of = entry.user_data();
            if of == EPOLL {
                (self.is_watching, self.is_told) = (false, true);
            } else if of & SEND != 0 {
                let (token, result) = (of & !SEND, entry.result());
                let staged = self.staged.iter().find(|staged| staged.token == token);
                let taken = usize::try_from(result).unwrap_or(0);
                let rest = match -result {
                    ..=0 | libc::EAGAIN | libc::EINTR => {
                        let rest = staged.and_then(|of| self.bytes.get(of.start + taken..of.start + of.len));
                        Ok(rest.unwrap_or_default().to_vec())
                    }
                    number => Err(io::Error::from_raw_os_error(number)),
                };
                self.unsent.push(Unsent { token, rest });
            } else if of & CANCEL == 0 {
                self.receptions.push(entry);
            }
        }
        Ok(())
    }

    /// The same where completions may be taken, without which the kernel may take nothing more.
    fn push_at_length(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            if self.push(entry).is_ok() {
                return Ok(());
            }
            self.call(0)?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..2 {
            // SAFETY: responses are submitted by `enter` only, which leaves their bytes where they are until they were
            // handed over; the other operations name no memory, and descriptors are only numbers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

/// A ring for each epoll instance, after one was tried out.
///
/// # Errors
///
/// As for [`Ring::new`].
pub(crate) fn for_each(instances: &[Epoll]) -> io::Result<Vec<Ring>> {
    let make = || {
        let trial = Epoll::new()?;
        let mut ring = Ring::new(trial.fd())?;
        ring.enable()?;
        ring.enter(0)?;
        instances.iter().map(|epoll| Ring::new(epoll.fd())).collect()
    };
    // In a thread that ends: when a ring is closed the kernel interrupts the thread that made it.
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    made.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::require;

    #[test]
    fn a_ring_does_nothing_but_what_the_server_does() {
        let epoll = Epoll::new().expect("an instance");
        // In a thread of its own, as the loops' are.
        let tried = std::thread::spawn(move || {
            let Ok(mut ring) = Ring::new(epoll.fd()) else {
                return false;
            };
            ring.enable().expect("is enabled");
            let path = c"/etc/passwd".as_ptr();
            let others = [
                opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path).build(),
                opcode::Nop::new().build(),
                opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build(),
                opcode::Recv::new(types::Fd(0), std::ptr::null_mut(), 0).build().flags(squeue::Flags::IO_LINK),
            ];
            for (token, entry) in others.into_iter().enumerate() {
                ring.push(&entry.user_data(token as u64)).expect("there is room");
                ring.enter(0).expect("is called");
                let results: Vec<i32> = ring.receptions.drain(..).map(|entry| entry.result()).collect();
                assert_eq!(results, [-libc::EACCES], "{token}");
            }
            assert!(ring.ring.submitter().register_files(&[0]).is_err(), "and registers nothing more");
            true
        });
        let _ = require::or_skip(tried.join().expect("no panic"), "no io_uring");
    }

    #[test]
    fn what_a_socket_did_not_take_is_told_also_where_completions_have_no_place() {
        let epoll = Epoll::new().expect("an instance");
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        drop(theirs);
        let tried = std::thread::spawn(move || {
            let Ok(mut ring) = Ring::new(epoll.fd()) else {
                return false;
            };
            ring.enable().expect("is enabled");
            // Each of them fails, and says so: more than there are places for.
            let mut refused = 0;
            for token in 0..2 * COMPLETIONS {
                refused += u32::from(ring.cancel(u64::from(token) + 1000).is_err());
            }
            assert!(ring.stage(std::os::fd::AsRawFd::as_raw_fd(&ours), 7, &[IoSlice::new(b"answer")], false));
            ring.enter(0).expect("goes on");
            let unsent = ring.take_unsent();
            assert_eq!(unsent.iter().map(|one| one.token).collect::<Vec<_>>(), [7], "{refused} were refused");
            assert_eq!(unsent[0].rest.as_ref().expect_err("a closed peer").raw_os_error(), Some(libc::EPIPE));
            // And the next round is as any other.
            ring.enter(0).expect("goes on");
            assert!(ring.take_unsent().is_empty());
            true
        });
        let _ = require::or_skip(tried.join().expect("no panic"), "no io_uring");
    }
}
