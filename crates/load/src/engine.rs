//! The loop of one thread, and in it the way of a request: sent, received, over.
//!
//! What happens rarely (connections made and lost, timeouts) is in [`crate::lifecycle`].

use crate::LoadError;
use crate::account::Over;
use crate::asks::Chooser;
use crate::clients::Clients;
use crate::connection::{Batch, Connection, Phase, Piece};
use crate::cookies::CookieJar;
use crate::events::Events;
use crate::failing;
use crate::kernel::{HANGUP, Kernel, READABLE, monotonic_ns};
use crate::options::{Control, Published};
use crate::plan::{Plan, Share};
use crate::ring::Ring;
use crate::schedule::Arrivals;
use crate::sessions::course::Courses;
use crate::slices::Slices;
use crate::slow::Slow;
use crate::tally::Tally;
use crate::unread::Unread;
use std::collections::VecDeque;
use std::io;
use weir_wire::client::Outcome;

/// What one read takes at most.
const BUFFER_BYTES: usize = 128 * 1024;
/// Reads from one connection before the others have their turn: a response without end must not starve them.
const READS_IN_A_ROW: u32 = 16;
/// Events taken in one wait.
const EVENTS: usize = 256;
/// The time of an arrival that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The state of one loop.
pub(crate) struct Engine<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) control: &'a Control,
    pub(crate) kernel: Kernel,
    /// Where receptions and transmissions go if not each by a call of its own.
    pub(crate) ring: Option<Ring>,
    /// Connections that go through the ring, and whether further ones are to.
    pub(crate) ring_connections: u32,
    pub(crate) ring_fits: bool,
    /// Tokens of the connections whose batch waits in the ring to go out.
    pub(crate) in_ring: Vec<u64>,
    /// Intended times of the arrivals among those.
    pub(crate) due_in_ring: Vec<u64>,
    pub(crate) connections: Vec<Connection>,
    /// Slots that are closed; always at least as many as connections may still be opened.
    pub(crate) free: Vec<u32>,
    /// What is kept for each host.
    pub(crate) pools: Vec<Pool>,
    /// Connections in the pools that have nothing to do.
    pub(crate) resting: u32,
    /// Says what is asked next.
    chooser: Chooser,
    /// Different requests that were chosen for the batch that is begun next.
    pub(crate) chosen: Vec<Piece>,
    /// The sessions under way, if that is what is run.
    pub(crate) courses: Option<Box<Courses>>,
    /// The lines of slow clients, if that is what they are.
    pub(crate) slow: Option<Box<Slow>>,
    unread: Unread,
    /// Connections that are open or being opened, lingering ones apart.
    pub(crate) live: u32,
    /// The most that may be open to one host, and in a closed loop the most that may be at work.
    pub(crate) live_max: u32,
    /// Connections made so far.
    pub(crate) numbered: u64,
    pub(crate) lane: u32,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) next_arrival_ns: u64,
    /// Arrivals that wait for a connection, and the most that may.
    pub(crate) queued: usize,
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
    /// Until when no connection is opened, because this host has run out of something.
    pub(crate) hold_until_ns: u64,
    /// When waiting for what is under way is given up, and whether it was.
    pub(crate) give_up_ns: u64,
    pub(crate) gave_up: bool,
    pub(crate) stopped: bool,
    /// What the shared counters hold of this loop.
    pub(crate) published: Published,
    pub(crate) fatal: Option<LoadError>,
    pub(crate) buffer: Box<[u8]>,
    pub(crate) tally: Tally,
    pub(crate) events: Events,
    pub(crate) slices: Slices,
}

/// The connections to one host and what waits for them.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) idle: Vec<u32>,
    /// Connections that are open or being opened, lingering ones apart.
    pub(crate) live: u32,
    pub(crate) queue: VecDeque<Wanted>,
    /// Which of the host's addresses is in use.
    pub(crate) address: usize,
    /// The cookies of users that have no connection at the time.
    pub(crate) jars: Vec<CookieJar>,
}

/// An arrival that waits for a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) intended_ns: u64,
    pub(crate) ask: u32,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(plan: &'a Plan, control: &'a Control, share: Share) -> Result<Self, LoadError> {
        let mut kernel =
            Kernel::new(&plan.sockets).map_err(|cause| LoadError::System { what: "epoll_create1", cause })?;
        kernel.receive_buffer = plan.slow.link.receive_buffer();
        let open_at_once = share.connections * plan.hosts.len() as u32;
        let slots = open_at_once + share.connections.min(1024);
        let ring = match plan.ring.then(|| Ring::new(open_at_once, kernel.fd())) {
            Some(Err(cause)) if plan.ring_or_nothing => {
                return Err(LoadError::System {
                    what: "io_uring_setup (Linux 6.1 and later have what is needed)",
                    cause,
                });
            }
            other => other.and_then(Result::ok),
        };
        let is_closed = share.arrivals.is_none() && plan.hosts.len() == 1;
        let clients = Clients::new(plan.sources, is_closed.then_some(share.connections));
        let next_arrival_ns = share.arrivals.as_ref().map_or(NEVER, |arrivals| arrivals.next_before(share.end_ns));
        // A large bound is a bound, not a wish for memory.
        let queue = if share.arrivals.is_some() { share.queue.min(100_000) } else { 0 };
        let pool = || Pool {
            idle: Vec::with_capacity(share.connections as usize),
            live: 0,
            queue: VecDeque::with_capacity(queue / plan.hosts.len()),
            address: 0,
            jars: Vec::new(),
        };
        Ok(Self {
            plan,
            control,
            kernel,
            ring_connections: 0,
            ring_fits: ring.is_some(),
            ring,
            in_ring: Vec::with_capacity(slots as usize),
            due_in_ring: Vec::with_capacity(slots as usize),
            connections: (0..slots).map(|_| Connection::new(&plan.asks)).collect(),
            free: (0..slots).rev().collect(),
            pools: std::iter::repeat_with(pool).take(plan.hosts.len()).collect(),
            resting: 0,
            chooser: share.chooser,
            chosen: Vec::new(),
            courses: match share.directed {
                Some(directed) => Some(Courses::directed(directed)),
                None => Courses::new(plan, share.lane, share.lanes, share.connections),
            },
            slow: Slow::new(&plan.slow, slots as usize, share.lane),
            unread: Unread::new(slots as usize),
            live: 0,
            live_max: share.connections,
            numbered: 0,
            lane: share.lane,
            arrivals: share.arrivals,
            next_arrival_ns: if share.limit == 0 { NEVER } else { next_arrival_ns },
            queued: 0,
            queue_max: share.queue,
            issued: 0,
            limit: share.limit,
            end_ns: share.end_ns,
            outstanding: 0,
            now_ns: monotonic_ns(),
            next_sweep_ns: 0,
            hold_until_ns: 0,
            give_up_ns: share.end_ns.saturating_add(plan.timeout_ns),
            gave_up: false,
            stopped: false,
            published: Published::default(),
            fatal: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tally: Tally { clients, ..Tally::new(plan.expected.clone()) },
            events: Events::new(share.events, share.observer, share.lane),
            slices: share.slices,
        })
    }

    /// Runs until the stop rule is met and what is under way is over; gives the counts and when nothing more was begun.
    pub(crate) fn run(mut self, start_ns: u64) -> Result<(Tally, u64), LoadError> {
        self.events.begins(start_ns);
        if let Some(courses) = &mut self.courses {
            courses.begins(start_ns);
        }
        // The loop was made before the common start: a clock read then would lengthen the first latencies.
        self.now_ns = monotonic_ns();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let is_timed = self.arrivals.is_some() || self.courses.is_some() || self.slow.is_some();
        self.sweep();
        while self.fatal.is_none() && !self.is_over() {
            let mut next_ns = self.next_arrival_ns;
            if is_timed {
                self.now_ns = monotonic_ns();
                self.issue_due();
                self.wake_sessions();
                self.wake_slow();
                let wake_ns = self.courses.as_ref().map_or(NEVER, |courses| courses.next_wake_ns());
                next_ns = self.next_arrival_ns.min(wake_ns).min(self.next_slow_ns());
            }
            let until_ns = if self.unread.is_empty() { next_ns.min(self.next_sweep_ns) } else { 0 };
            if self.ring.is_some() {
                self.turn_of_ring(&mut events, until_ns)?;
            } else {
                self.turn_of_epoll(&mut events, until_ns.saturating_sub(self.now_ns))?;
            }
            self.read_on();
            if self.now_ns >= self.next_sweep_ns {
                self.sweep();
            }
        }
        self.finish()
    }

    /// Waits for events, and deals with them.
    #[inline]
    pub(crate) fn turn_of_epoll(&mut self, events: &mut [libc::epoll_event], timeout_ns: u64) -> Result<(), LoadError> {
        let count = self
            .kernel
            .wait(events, timeout_ns)
            .map_err(|cause| LoadError::System { what: "waiting for events (epoll_pwait2)", cause })?;
        if count == 0 {
            self.now_ns = monotonic_ns();
        }
        let is_slow = self.slow.is_some();
        for event in &events[..count] {
            if is_slow && self.on_slow_event(event.u64, event.events) {
                continue;
            }
            self.on_event(event.u64, event.events);
            if self.now_ns >= self.next_arrival_ns {
                self.issue_due();
            }
        }
        Ok(())
    }

    /// Goes on with the connections that were left with more to read.
    #[inline]
    fn read_on(&mut self) {
        self.unread.begin();
        while let Some(token) = self.unread.next() {
            self.on_event(token, libc::EPOLLIN as u32);
        }
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
                Some(arrivals) if self.issued < self.limit => arrivals.following(self.end_ns),
                _ => NEVER,
            };
            if self.courses.is_some() {
                self.session_arrives(intended_ns);
                continue;
            }
            let ask = self.plan.asks.choose(&mut self.chooser);
            let pool = &mut self.pools[self.plan.asks.entry(ask).host as usize];
            let may_open = pool.live < self.live_max && self.now_ns >= self.hold_until_ns;
            if !pool.idle.is_empty() || may_open {
                self.outstanding += 1;
                let in_ring = self.in_ring.len();
                self.issue(Batch { left: 1, ask, intended_ns, ..Batch::default() });
                if self.in_ring.len() > in_ring {
                    // It goes out with all others, when the ring is entered.
                    self.due_in_ring.push(intended_ns);
                    continue;
                }
            } else if self.queued < self.queue_max {
                pool.queue.push_back(Wanted { intended_ns, ask });
                self.queued += 1;
                self.tally.queued += 1;
            } else {
                self.tally.dropped += 1;
                self.events.dropped(self.now_ns, 1, intended_ns);
            }
            self.tally.taken_up(intended_ns, self.now_ns);
        }
    }

    /// Sends a batch on an idle connection to its host, or on a new one; there is one or the other.
    #[inline]
    pub(crate) fn issue(&mut self, batch: Batch) {
        let host = self.plan.asks.entry(batch.ask).host as usize;
        match self.pools[host].idle.pop() {
            Some(slot) => {
                self.resting -= 1;
                self.begin(slot as usize, batch);
            }
            None => self.open(batch),
        }
    }

    /// Sends a batch on a connection that is free.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize, batch: Batch) {
        let connection = &mut self.connections[slot];
        connection.batch = batch;
        if !self.plan.asks.is_constant {
            connection.take_chosen(&mut self.chosen, batch.ask);
        }
        self.send_batch(slot);
    }

    /// Sends the batch that a connection holds.
    #[inline]
    pub(crate) fn send_batch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Busy;
        connection.batch_bytes = match self.plan.asks.is_constant {
            true => connection.batch.left as usize * self.plan.asks.entry(0).bytes as usize,
            false => connection.compose(self.plan),
        };
        connection.unsent = connection.batch_bytes;
        connection.batch.request_offset = connection.stream.as_ref().map_or(0, |stream| stream.sent);
        if connection.in_ring {
            if self.ring_fits {
                return self.queue_batch(slot);
            }
            if !self.back_to_epoll(slot) {
                return;
            }
        }
        if self.slow.is_some() {
            return self.send_slowly(slot);
        }
        let connection = &mut self.connections[slot];
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
        let bytes = match connection.composed.is_empty() {
            true => self.plan.asks.wire(connection.batch.ask, connection.batch_bytes),
            false => connection.composed.as_slice(),
        };
        let failed = loop {
            match stream.write(&mut self.kernel, &bytes[bytes.len() - connection.unsent..]) {
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
            connection.was_reset |= failed.kind() == io::ErrorKind::ConnectionReset;
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
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            let open = self.take(slot, before, &buffer[..count]);
            self.buffer = buffer;
            if !open || drained && !self.connections[slot].hung_up {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Takes bytes that came at a position of the stream; whether more may come of what is under way.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize, before: u64, bytes: &[u8]) -> bool {
        let generation = self.connections[slot].generation;
        self.tally.received(bytes.len() as u64, self.now_ns <= self.end_ns);
        let mut at = 0;
        while at < bytes.len() {
            let connection = &mut self.connections[slot];
            if connection.batch.first_byte_ns == 0 {
                connection.batch.first_byte_ns = self.now_ns;
                connection.batch.response_offset = if connection.encrypted { before } else { before + at as u64 };
            }
            match connection.parser.feed(&bytes[at..]) {
                Ok(progress) => {
                    self.events.received(connection.number, || &bytes[at..at + progress.consumed]);
                    at += progress.consumed;
                    if connection.parser.status() == 400 {
                        failing::look_for_tls(&mut self.tally, connection.encrypted, bytes);
                    }
                    if !progress.complete {
                        return true;
                    }
                }
                Err(malformed) => {
                    self.events.received(connection.number, || &bytes[at..]);
                    self.not_understood(slot, &malformed);
                    return false;
                }
            }
            let end = match &connection.stream {
                Some(stream) if connection.encrypted => stream.received,
                _ => before + at as u64,
            };
            // Bytes behind the last response belong to nothing: such a connection carries no more requests.
            let hung_up = connection.hung_up;
            let is_clean = at == bytes.len() || connection.batch.left > 1 || self.came_behind(slot, &bytes[at..]);
            let reusable = is_clean && !hung_up;
            self.answered(slot, end, reusable);
            let connection = &self.connections[slot];
            if connection.generation != generation || connection.phase != Phase::Busy || connection.batch.answered == 0
            {
                return false;
            }
        }
        true
    }

    /// A response is whole: goes on with the connection at once, and only then counts.
    #[inline]
    pub(crate) fn answered(&mut self, slot: usize, response_end: u64, reusable: bool) {
        let connection = &mut self.connections[slot];
        let asked = self.plan.asks.entry(connection.batch.ask);
        let over = Over {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            batch: connection.batch,
            done_ns: self.now_ns,
            response_end,
            request_bytes: connection.awaited_bytes(asked),
            status: connection.parser.status(),
            encrypted: connection.encrypted,
        };
        if self.plan.asks.is_composed {
            connection.keep_cookies(self.plan);
            if let Some(files) = &self.plan.asks.files {
                let (ask, bytes) = (over.batch.ask, connection.parser.body_bytes());
                let is_expected = self.plan.expected.contains(over.status);
                self.tally.mix.count(files, ask, asked, (over.status, is_expected), bytes);
            }
        }
        if over.batch.session != 0
            && let Some(courses) = &mut self.courses
            && courses.count_answer(&over, self.plan.expected.contains(over.status))
        {
            // Each response of a director's has a time of its own to come.
            connection.batch.started_ns = self.now_ns;
        }
        let keeps_open = connection.parser.keep_alive() && connection.unsent == 0;
        let keep = keeps_open && reusable && asked.keep_alive;
        connection.responses += 1;
        connection.batch.left -= 1;
        connection.batch.answered += 1;
        connection.batch.first_byte_ns = 0;
        self.outstanding -= 1;
        if connection.batch.left > 0 {
            connection.await_next(&self.plan.asks);
            if !keeps_open {
                self.fail_for(slot, Outcome::Closed, "the server ended the connection with the response before");
            }
        } else if over.batch.session != 0 {
            self.burst_answered(slot, keep);
        } else if keep {
            let host = connection.host;
            match self.next_batch(host) {
                Some(batch) if batch.ask == over.batch.ask || self.plan.asks.entry(batch.ask).host == host => {
                    self.begin(slot, batch);
                }
                Some(batch) => {
                    self.rest(slot);
                    self.issue(batch);
                }
                None => self.rest(slot),
            }
        } else {
            let host = connection.host;
            self.retire(slot);
            self.replace(host);
        }
        self.count_answer(&over);
    }

    /// What is to be sent next, as a connection to this host became free now, if anything is; a closed loop may go on
    /// with another host.
    #[inline]
    pub(crate) fn next_batch(&mut self, host: u32) -> Option<Batch> {
        if self.arrivals.is_some() {
            let Wanted { intended_ns, ask } = self.pools[host as usize].queue.pop_front()?;
            self.queued -= 1;
            self.outstanding += 1;
            return Some(Batch { left: 1, ask, intended_ns, ..Batch::default() });
        }
        if self.issued >= self.limit || self.now_ns >= self.end_ns {
            return None;
        }
        let left = u64::from(self.plan.pipeline).min(self.limit - self.issued);
        self.issued += left;
        self.outstanding += left;
        let ask = self.plan.asks.choose(&mut self.chooser);
        if left > 1 && !self.plan.asks.is_constant {
            self.choose_more(ask, left);
        }
        Some(Batch { left: left as u32, ask, intended_ns: self.now_ns, started_ns: self.now_ns, ..Batch::default() })
    }

    /// Chooses the other requests of a batch.
    fn choose_more(&mut self, first: u32, count: u64) {
        self.chosen.clear();
        self.chosen.push(Piece { ask: first, bytes: 0 });
        for _ in 1..count {
            let ask = self.plan.asks.choose(&mut self.chooser);
            self.chosen.push(Piece { ask, bytes: 0 });
        }
    }
}
