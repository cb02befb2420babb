//! The way of a request where receptions and transmissions go through io_uring.

use crate::LoadError;
use crate::connect::connection::Phase;
use crate::connect::kernel::monotonic_ns;
use crate::engine::state::Engine;
use crate::error::outcomes::outcome_of;
use crate::http1::ring::{Completion, Filled};
use crate::http1::state::Http1;
use crate::plan::run_plan::RingWish;
use std::io;
use std::os::fd::AsRawFd;
use weir_client::Oddity;
use weir_wire::client::Outcome;

impl Engine<'_, Http1> {
    /// Lets what is queued go out, waits, and deals with what came.
    #[inline]
    pub(crate) fn turn_of_ring(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError> {
        self.stamp();
        if !self.http.ring.fits && self.http.ring.connections == 0 {
            self.http.ring.io = None;
            self.tally.through_ring = false;
            return self.turn_of_epoll(events, until_ns.saturating_sub(self.now_ns));
        }
        let Some(ring) = &mut self.http.ring.io else { return Ok(()) };
        self.connector.kernel.calls.wait += 1;
        ring.enter(until_ns.saturating_sub(self.now_ns))
            .map_err(|cause| LoadError::System { what: "io_uring_enter (--io epoll does without)", cause })?;
        let count = ring.count();
        self.now_ns = monotonic_ns();
        for index in 0..count {
            match self.http.ring.io.as_ref().and_then(|ring| ring.completion(index)) {
                None => {}
                Some(Completion::Received { token, result, armed }) => self.received(token, result, armed),
                Some(Completion::NotSent { token, error }) => {
                    if let Some(slot) = self.slot_of(token).filter(|slot| self.connections[*slot].phase == Phase::Open)
                    {
                        self.not_sent(slot, &io::Error::from_raw_os_error(error));
                    }
                }
                Some(Completion::Epoll) => {
                    self.turn_of_epoll(events, 0)?;
                    let epoll = self.connector.kernel.fd();
                    let again = self.http.ring.io.as_mut().map_or(Ok(()), |ring| ring.watch(epoll));
                    again.map_err(|cause| LoadError::System { what: "watching epoll by io_uring", cause })?;
                }
            }
        }
        Ok(())
    }

    /// The time at which what is queued goes out is now, just before the call.
    #[inline]
    fn stamp(&mut self) {
        self.now_ns = monotonic_ns();
        for index in 0..self.http.ring.waiting.len() {
            let token = self.http.ring.waiting[index];
            if let Some(slot) = self.slot_of(token) {
                self.connections[slot].http.batch.sent_ns = self.now_ns;
            }
        }
        self.http.ring.waiting.clear();
        for intended_ns in self.http.ring.due.drain(..) {
            self.tally.taken_up(intended_ns, self.now_ns);
        }
    }

    /// The slot of a token whose connection is still the same.
    #[inline]
    fn slot_of(&self, token: u64) -> Option<usize> {
        let slot = (token & 0xffff_ffff) as usize;
        self.connections
            .get(slot)
            .filter(|one| one.generation == (token >> 32) as u32 && one.http.in_ring)
            .map(|_| slot)
    }

    fn token(&self, slot: usize) -> u64 {
        u64::from(self.connections[slot].generation) << 32 | slot as u64
    }

    /// A connection that is made goes through the ring from now on, if there is one and nothing is encrypted.
    pub(crate) fn move_to_ring(&mut self, slot: usize) {
        let token = self.token(slot);
        let (Some(ring), Some(stream)) = (&mut self.http.ring.io, &self.connections[slot].stream) else { return };
        if self.connections[slot].encrypted || !self.http.ring.fits {
            return;
        }
        let fd = stream.fd().as_raw_fd();
        if ring.arm(fd, token).is_ok() {
            self.connector.kernel.forget(fd);
            self.connections[slot].http.in_ring = true;
            self.http.ring.connections += 1;
            self.tally.through_ring = true;
        }
    }

    /// Ends what is under way in the ring for a connection that is closed next.
    pub(crate) fn leave_ring(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.connections[slot].http.in_ring, false) {
            return;
        }
        self.http.ring.connections -= 1;
        // Its generation was counted up already: what still comes for the former one is passed over.
        let generation = self.connections[slot].generation.wrapping_sub(1);
        // What is queued goes out with the cancellation.
        self.stamp();
        if let Some(ring) = &mut self.http.ring.io {
            self.connector.kernel.calls.other += 1;
            // It fails where the queue is full for good, and then the closed socket ends what is armed.
            let _ = ring.cancel(u64::from(generation) << 32 | slot as u64);
        }
    }

    /// A connection on which nothing is under way leaves the ring: for long responses a call for each reception is cheaper,
    /// as all of them then pass through one buffer, which stays in the CPU's cache. Whether the connection still lives.
    #[cold]
    pub(crate) fn back_to_epoll(&mut self, slot: usize) -> bool {
        let token = self.token(slot);
        self.connections[slot].http.in_ring = false;
        self.http.ring.connections -= 1;
        self.stamp();
        let fd = self.connections[slot].stream.as_ref().map(|stream| stream.fd().as_raw_fd());
        if let (Some(ring), Some(fd)) = (&mut self.http.ring.io, fd) {
            self.connector.kernel.calls.other += 1;
            let moved = ring.cancel(token).and_then(|()| self.connector.kernel.watch(fd, token));
            if let Err(error) = moved {
                self.broken(slot, &error);
                return false;
            }
        }
        true
    }

    /// Queues the batch that a connection holds; it counts as sent from the call that hands it over.
    #[inline]
    pub(crate) fn queue_batch(&mut self, slot: usize) {
        let token = self.token(slot);
        let connection = &mut self.connections[slot];
        let (Some(ring), Some(stream)) = (&mut self.http.ring.io, &mut connection.stream) else { return };
        let bytes = self.plan.requests.wire(connection.http.batch.request, connection.http.batch_bytes);
        if connection.http.batch.started_ns == 0 {
            connection.http.batch.started_ns = self.now_ns;
        }
        // SAFETY: these are bytes of the plan, which outlives the loop and its ring: with one, all requests are ready made.
        let queued = unsafe { ring.send(stream.fd().as_raw_fd(), token, bytes) };
        match queued {
            Ok(()) => {
                stream.sent += bytes.len() as u64;
                connection.http.unsent = 0;
                self.http.ring.waiting.push(token);
            }
            Err(error) => {
                self.now_ns = monotonic_ns();
                self.broken(slot, &error);
            }
        }
    }

    /// Bytes, the end or an error came.
    #[inline]
    fn received(&mut self, token: u64, result: Result<Option<Filled>, i32>, armed: bool) {
        let slot = self.slot_of(token);
        match result {
            Ok(Some(filled)) => {
                if let (Some(slot), Some(ring)) = (slot, &self.http.ring.io) {
                    // SAFETY: the buffer is given back below, after the last look at it.
                    let bytes = unsafe { ring.bytes(filled) };
                    self.deliver(slot, bytes);
                }
                if let Some(ring) = &mut self.http.ring.io {
                    ring.give_back(filled);
                }
                self.http.ring.fits &= !filled.is_full() || self.plan.ring == RingWish::Only;
            }
            Ok(None) => {
                if let Some(slot) = slot {
                    self.ended(slot);
                }
                return;
            }
            // All buffers were in use: they are free by now.
            Err(libc::ENOBUFS) => {}
            Err(code) => {
                if let Some(slot) = slot {
                    self.reception_failed(slot, &io::Error::from_raw_os_error(code));
                }
                return;
            }
        }
        if !armed && let Some(slot) = self.slot_of(token) {
            let fd = self.connections[slot].stream.as_ref().map(|stream| stream.fd().as_raw_fd());
            if let (Some(ring), Some(fd)) = (&mut self.http.ring.io, fd)
                && let Err(error) = ring.arm(fd, token)
            {
                self.reception_failed(slot, &error);
            }
        }
    }

    #[inline]
    fn deliver(&mut self, slot: usize, bytes: &[u8]) {
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return };
        let before = stream.received;
        stream.received += bytes.len() as u64;
        match connection.phase {
            Phase::Open => {
                self.take(slot, before, bytes);
            }
            Phase::Idle => {
                connection.http.parser.count_odd(Oddity::Surplus);
                self.idle_readable(slot);
            }
            _ => {}
        }
    }

    /// The server ended its stream.
    fn ended(&mut self, slot: usize) {
        match self.connections[slot].phase {
            Phase::Open => self.stream_ended(slot),
            Phase::Idle => self.idle_readable(slot),
            _ => self.close(slot),
        }
    }

    /// The connection is gone.
    fn reception_failed(&mut self, slot: usize, error: &io::Error) {
        match self.connections[slot].phase {
            Phase::Open => self.broken(slot, error),
            Phase::Idle => self.idle_readable(slot),
            _ => self.close(slot),
        }
    }

    /// A request did not go out. What the server has answered before, if anything, comes by the reception; that its end
    /// or an error comes too is certain.
    fn not_sent(&mut self, slot: usize, error: &io::Error) {
        let connection = &mut self.connections[slot];
        connection.http.was_reset |= error.kind() == io::ErrorKind::ConnectionReset;
        if outcome_of(error) == Outcome::Other {
            self.fail_for(slot, Outcome::Other, &error.to_string());
        } else if let Some(stream) = connection.stream.as_mut().filter(|_| connection.http.batch.answered == 0) {
            stream.sent = connection.http.batch.request_offset;
        }
    }
}
