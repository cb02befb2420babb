//! The loop of one thread, and in it the way of a request: sent, received, over.
//!
//! What happens rarely (connections made and lost, timeouts) is in [`crate::lifecycle`].

use crate::LoadError;
use crate::connection::{Batch, Connection, Phase};
use crate::events::Events;
use crate::kernel::{HANGUP, Kernel, READABLE, monotonic_ns};
use crate::options::Control;
use crate::plan::{Plan, Share};
use crate::schedule::Arrivals;
use crate::slices::Slices;
use crate::tally::{Durations, Tally};
use std::collections::VecDeque;
use std::io;
use weir_wire::client::{ClientRequest, Outcome};

/// What one read takes at most.
const BUFFER_BYTES: usize = 128 * 1024;
/// Reads from one connection before the others have their turn: a response without end must not starve them.
const READS_IN_A_ROW: u32 = 16;
/// Events taken in one wait.
const EVENTS: usize = 256;
/// An arrival that is issued later than this after its time is a late one.
const LATE_NS: u64 = 1_000_000;
/// The time of an arrival that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The state of one loop.
pub(crate) struct Engine<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) control: &'a Control,
    pub(crate) kernel: Kernel,
    pub(crate) connections: Vec<Connection>,
    /// Slots that are closed; always at least as many as connections may still be opened.
    pub(crate) free: Vec<u32>,
    pub(crate) idle: Vec<u32>,
    /// Tokens of connections that were left with more to read.
    unread: Vec<u64>,
    /// Connections that are open or being opened, lingering ones apart.
    pub(crate) live: u32,
    pub(crate) live_max: u32,
    /// Connections made so far.
    pub(crate) numbered: u64,
    pub(crate) lane: u32,
    /// Which of the host's addresses is in use.
    pub(crate) address: usize,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) next_arrival_ns: u64,
    /// Intended times of the arrivals that wait for a connection.
    pub(crate) queue: VecDeque<u64>,
    pub(crate) queue_max: usize,
    /// Requests begun or queued so far, and the most that may be.
    pub(crate) issued: u64,
    pub(crate) limit: u64,
    pub(crate) end_ns: u64,
    /// Requests begun that are not over.
    pub(crate) outstanding: u64,
    /// The clock when it was last read.
    pub(crate) now_ns: u64,
    pub(crate) next_sweep_ns: u64,
    /// When waiting for what is under way is given up.
    pub(crate) give_up_ns: u64,
    pub(crate) stopped: bool,
    /// What the shared counters hold of this loop: requests, errors, drops, connections.
    pub(crate) published: [u64; 4],
    pub(crate) fatal: Option<LoadError>,
    pub(crate) buffer: Box<[u8]>,
    pub(crate) tally: Tally,
    pub(crate) events: Events,
    pub(crate) slices: Slices,
}

/// What is known of a request whose response is whole, or that failed.
#[derive(Debug, Clone, Copy)]
struct Over {
    connection: u64,
    connect_start_ns: u64,
    batch: Batch,
    done_ns: u64,
    response_end: u64,
    status: u16,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(plan: &'a Plan, control: &'a Control, share: Share) -> Result<Self, LoadError> {
        let kernel = Kernel::new().map_err(|cause| LoadError::System { what: "epoll_create1", cause })?;
        let slots = share.connections + share.connections.min(1024);
        let next_arrival_ns = share.arrivals.as_ref().map_or(NEVER, Arrivals::next_ns);
        let queue = if share.arrivals.is_some() { share.queue } else { 0 };
        Ok(Self {
            plan,
            control,
            kernel,
            connections: (0..slots).map(|_| Connection::new(plan.head_only)).collect(),
            free: (0..slots).rev().collect(),
            idle: Vec::with_capacity(slots as usize),
            unread: Vec::with_capacity(slots as usize),
            live: 0,
            live_max: share.connections,
            numbered: 0,
            lane: share.lane,
            address: 0,
            arrivals: share.arrivals,
            next_arrival_ns: if share.limit == 0 { NEVER } else { next_arrival_ns },
            // A large bound is a bound, not a wish for memory.
            queue: VecDeque::with_capacity(queue.min(100_000)),
            queue_max: queue,
            issued: 0,
            limit: share.limit,
            end_ns: share.end_ns,
            outstanding: 0,
            now_ns: monotonic_ns(),
            next_sweep_ns: 0,
            give_up_ns: share.end_ns.saturating_add(plan.timeout_ns),
            stopped: false,
            published: [0; 4],
            fatal: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tally: Tally::new(),
            events: Events::new(share.events, share.observer, share.lane),
            slices: share.slices,
        })
    }

    /// Runs until the stop rule is met and what is under way is over; gives the counts and when nothing more was begun.
    pub(crate) fn run(mut self, start_ns: u64) -> Result<(Tally, u64), LoadError> {
        self.events.begins(start_ns);
        // The loop was made before the common start: a clock read then would lengthen the first latencies.
        self.now_ns = monotonic_ns();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let open_loop = self.arrivals.is_some();
        self.sweep();
        while self.fatal.is_none() && !self.is_over() {
            if open_loop {
                self.now_ns = monotonic_ns();
                self.issue_due();
            }
            let until_ns = if self.unread.is_empty() { self.next_arrival_ns.min(self.next_sweep_ns) } else { 0 };
            let count = self
                .kernel
                .wait(&mut events, until_ns.saturating_sub(self.now_ns))
                .map_err(|cause| LoadError::System { what: "epoll_pwait2 (Linux 5.11 and later have it)", cause })?;
            if count == 0 {
                self.now_ns = monotonic_ns();
            }
            for event in &events[..count] {
                self.on_event(event.u64, event.events);
                if self.now_ns >= self.next_arrival_ns {
                    self.issue_due();
                }
            }
            self.read_on();
            if self.now_ns >= self.next_sweep_ns {
                self.sweep();
            }
        }
        self.finish()
    }

    /// Goes on with the connections that were left with more to read: their watch tells of nothing that was there before.
    #[inline]
    fn read_on(&mut self) {
        let count = self.unread.len();
        for index in 0..count {
            let token = self.unread[index];
            self.connections[(token & 0xffff_ffff) as usize].listed_unread = false;
            self.on_event(token, libc::EPOLLIN as u32);
        }
        self.unread.drain(..count);
    }

    fn on_event(&mut self, token: u64, flags: u32) {
        let slot = (token & 0xffff_ffff) as usize;
        let connection = &self.connections[slot];
        if connection.generation != (token >> 32) as u32 {
            return;
        }
        match connection.phase {
            Phase::Busy => {
                let clogged = connection.unsent > 0
                    || connection.stream.as_ref().is_some_and(crate::transport::Stream::is_clogged);
                if flags & libc::EPOLLOUT as u32 != 0 && clogged {
                    self.send_rest(slot);
                }
                if flags & READABLE != 0 && self.connections[slot].phase == Phase::Busy {
                    self.receive(slot, flags);
                }
            }
            _ => self.on_rare_event(slot, flags),
        }
    }

    /// Issues every arrival whose time has come: over an idle connection, a new one, or through the queue.
    pub(crate) fn issue_due(&mut self) {
        while self.next_arrival_ns <= self.now_ns {
            let intended_ns = self.next_arrival_ns;
            self.issued += 1;
            self.next_arrival_ns = match &mut self.arrivals {
                Some(arrivals) if self.issued < self.limit => {
                    arrivals.advance();
                    let next = arrivals.next_ns();
                    if next < self.end_ns { next } else { NEVER }
                }
                _ => NEVER,
            };
            let batch = Batch { left: 1, intended_ns, ..Batch::default() };
            if let Some(slot) = self.idle.pop() {
                self.outstanding += 1;
                self.begin(slot as usize, batch);
            } else if self.live < self.live_max {
                self.outstanding += 1;
                self.open(batch);
            } else if self.queue.len() < self.queue_max {
                self.queue.push_back(intended_ns);
                self.tally.queued += 1;
                continue;
            } else {
                self.tally.dropped += 1;
                self.events.dropped(self.now_ns, 1, intended_ns);
                continue;
            }
            self.tally.late += u64::from(self.now_ns.saturating_sub(intended_ns) > LATE_NS);
        }
    }

    /// Sends a batch on a connection that is free.
    #[inline]
    fn begin(&mut self, slot: usize, batch: Batch) {
        self.connections[slot].batch = batch;
        self.send_batch(slot);
    }

    /// Sends the batch that a connection holds.
    #[inline]
    pub(crate) fn send_batch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Busy;
        connection.unsent = connection.batch.left as usize * self.plan.request_bytes;
        connection.batch.request_offset = connection.stream.as_ref().map_or(0, |stream| stream.sent);
        self.now_ns = monotonic_ns();
        connection.batch.sent_ns = self.now_ns;
        if connection.batch.started_ns == 0 {
            connection.batch.started_ns = self.now_ns;
        }
        self.send_rest(slot);
    }

    /// Sends what is left of a batch, as far as there is room.
    #[inline]
    fn send_rest(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return };
        let total = (connection.batch.left + connection.batch.answered) as usize * self.plan.request_bytes;
        let failed = loop {
            match stream.write(&mut self.kernel, &self.plan.wire[total - connection.unsent..total]) {
                Ok(count) => connection.unsent -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => break error,
            }
            if connection.unsent == 0 {
                return;
            }
        };
        if connection.is_unsent() {
            self.broken(slot, &failed);
        } else {
            // The server may have answered early and closed: its answer is still to be had.
            self.receive(slot, HANGUP);
        }
    }

    /// Takes what a connection has received and finishes the requests that it completes.
    #[inline]
    fn receive(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let before = stream.received;
            let read = stream.read(&mut self.kernel, &mut self.buffer);
            self.now_ns = monotonic_ns();
            let count = match read {
                Ok(0) => return self.stream_ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(slot, &error),
            };
            let drained = stream.drained;
            connection.hung_up |= stream.ended;
            self.tally.bytes += count as u64;
            let mut at = 0;
            while at < count {
                let connection = &mut self.connections[slot];
                if connection.batch.first_byte_ns == 0 {
                    connection.batch.first_byte_ns = self.now_ns;
                    connection.batch.response_offset = if self.plan.encrypted() { before } else { before + at as u64 };
                }
                match connection.parser.feed(&self.buffer[at..count]) {
                    Ok(progress) => {
                        self.events.received(connection.number, &self.buffer[at..at + progress.consumed]);
                        at += progress.consumed;
                        if !progress.complete {
                            break;
                        }
                    }
                    Err(_) => {
                        self.events.received(connection.number, &self.buffer[at..count]);
                        return self.fail(slot, Outcome::Malformed);
                    }
                }
                let end = match &connection.stream {
                    Some(stream) if self.plan.encrypted() => stream.received,
                    _ => before + at as u64,
                };
                // Bytes behind the last response belong to nothing: such a connection carries no more requests.
                let reusable = !connection.hung_up && (at == count || connection.batch.left > 1);
                self.answered(slot, end, reusable);
                let connection = &self.connections[slot];
                if connection.generation != generation
                    || connection.phase != Phase::Busy
                    || connection.batch.answered == 0
                {
                    return;
                }
            }
            if drained && !self.connections[slot].hung_up {
                return;
            }
        }
        let connection = &mut self.connections[slot];
        if !connection.listed_unread {
            connection.listed_unread = true;
            self.unread.push(u64::from(generation) << 32 | slot as u64);
        }
    }

    /// A response is whole: goes on with the connection at once, and only then counts.
    #[inline]
    pub(crate) fn answered(&mut self, slot: usize, response_end: u64, reusable: bool) {
        let connection = &mut self.connections[slot];
        let over = Over {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            batch: connection.batch,
            done_ns: self.now_ns,
            response_end,
            status: connection.parser.status(),
        };
        let keep = connection.parser.keep_alive() && connection.unsent == 0;
        connection.responses += 1;
        connection.batch.left -= 1;
        connection.batch.answered += 1;
        connection.batch.first_byte_ns = 0;
        self.outstanding -= 1;
        if connection.batch.left > 0 {
            if !keep {
                self.fail(slot, Outcome::Closed);
            }
        } else if keep && reusable && self.plan.keep_alive {
            match self.next_batch() {
                Some(batch) => self.begin(slot, batch),
                None => self.rest(slot),
            }
        } else {
            self.retire(slot);
            self.replace();
        }
        self.count_answer(&over);
    }

    /// What is to be sent next over a connection that became free now, if anything is.
    #[inline]
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        if self.arrivals.is_some() {
            let intended_ns = self.queue.pop_front()?;
            self.outstanding += 1;
            return Some(Batch { left: 1, intended_ns, ..Batch::default() });
        }
        if self.issued >= self.limit || self.now_ns >= self.end_ns {
            return None;
        }
        let left = u64::from(self.plan.pipeline).min(self.limit - self.issued);
        self.issued += left;
        self.outstanding += left;
        Some(Batch { left: left as u32, intended_ns: self.now_ns, started_ns: self.now_ns, ..Batch::default() })
    }

    #[inline]
    fn count_answer(&mut self, over: &Over) {
        let batch = &over.batch;
        let from_ns = if batch.opened { over.connect_start_ns } else { batch.sent_ns };
        let durations = Durations {
            latency_ns: over.done_ns.saturating_sub(batch.intended_ns),
            uncorrected_ns: over.done_ns.saturating_sub(from_ns),
            first_byte_ns: batch.first_byte_ns.saturating_sub(batch.sent_ns),
        };
        self.tally.success(over.status, over.done_ns <= self.end_ns, durations);
        self.tally.last_done_ns = over.done_ns;
        if self.events.wanted() {
            self.tell(over, Outcome::Done, self.plan.request_bytes as u32);
        }
    }

    /// Counts the requests of a batch that will have no response.
    pub(crate) fn count_failures(&mut self, slot: usize, outcome: Outcome) {
        let connection = &self.connections[slot];
        let mut batch = connection.batch;
        let (sent, received) = connection.stream.as_ref().map_or((0, 0), |stream| (stream.sent, stream.received));
        let mut over = Over {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            batch,
            done_ns: self.now_ns,
            response_end: received,
            status: 0,
        };
        self.outstanding -= u64::from(batch.left);
        self.tally.errors[outcome as usize] += u64::from(batch.left);
        self.tally.last_done_ns = self.now_ns;
        let request_bytes = self.plan.request_bytes as u64;
        while self.events.wanted() && batch.left > 0 {
            if batch.first_byte_ns == 0 {
                batch.response_offset = received;
            }
            over.batch = batch;
            let begin = batch.request_offset + u64::from(batch.answered) * request_bytes;
            self.tell(&over, outcome, sent.saturating_sub(begin).min(request_bytes) as u32);
            (batch.left, batch.answered, batch.first_byte_ns) = (batch.left - 1, batch.answered + 1, 0);
        }
    }

    fn tell(&mut self, over: &Over, outcome: Outcome, request_bytes: u32) {
        let batch = &over.batch;
        let encrypted = self.plan.encrypted();
        // Encrypted, only the whole write has a place in the stream, not each request in it.
        let within = if encrypted { 0 } else { u64::from(batch.answered) * self.plan.request_bytes as u64 };
        self.events.request(ClientRequest {
            connection: over.connection,
            intended_ns: batch.intended_ns,
            started_ns: batch.started_ns,
            sent_ns: batch.sent_ns,
            first_byte_ns: batch.first_byte_ns,
            done_ns: over.done_ns,
            request_offset: batch.request_offset + within,
            request_bytes,
            response_offset: batch.response_offset,
            response_bytes: over.response_end.saturating_sub(batch.response_offset),
            status: over.status,
            name: self.plan.name,
            outcome,
            opened_connection: batch.opened,
            encrypted,
            retried: batch.retried,
            http_version: 1,
        });
    }
}

/// How a failed call on a connection counts.
pub(crate) fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Outcome::Reset,
        io::ErrorKind::UnexpectedEof => Outcome::Closed,
        io::ErrorKind::TimedOut => Outcome::TimedOut,
        _ if crate::transport::tls_error(error).is_some() => Outcome::Tls,
        _ => Outcome::Other,
    }
}
