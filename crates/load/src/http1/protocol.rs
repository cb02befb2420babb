//! What HTTP/1 does of its own in the loop.

use crate::LoadError;
use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::{HANGUP, READABLE};
use crate::connect::stream::Stream;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::slowest::micros;
use crate::engine::state::Engine;
use crate::http1::connection::Batch;
use crate::http1::state::{Http1, Wanted};
use crate::requests::cookies::CookieJar;
use crate::schedule::scheduler::NEVER;
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

impl ProtocolLoop for Engine<'_, Http1> {
    type Purpose = Batch;

    fn begins(&mut self, start_ns: u64) {
        if let Some(sessions) = &mut self.http.sessions {
            sessions.begins(start_ns);
        }
    }

    fn is_timed(&self) -> bool {
        self.http.sessions.is_some() || self.http.slow.is_some()
    }

    #[inline]
    fn wake(&mut self) {
        self.wake_sessions();
        self.wake_slow();
    }

    #[inline]
    fn next_wake_ns(&self) -> u64 {
        let wake_ns = self.http.sessions.as_ref().map_or(NEVER, |sessions| sessions.next_wake_ns());
        wake_ns.min(self.next_slow_ns())
    }

    #[inline]
    fn turn(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError> {
        if self.http.ring.io.is_some() {
            self.turn_of_ring(events, until_ns)
        } else {
            if self.is_directed() {
                self.directed_turns();
            }
            self.turn_of_epoll(events, until_ns.saturating_sub(self.now_ns))
        }
    }

    #[inline]
    fn holds_events_back(&self) -> bool {
        self.http.slow.is_some()
    }

    fn hold_back(&mut self, token: u64, flags: u32) -> bool {
        self.on_slow_event(token, flags)
    }

    fn on_event(&mut self, token: u64, flags: u32) {
        let (slot, generation) = slot_of(token);
        let connection = &self.connections[slot];
        if connection.generation != generation {
            return;
        }
        match connection.phase {
            Phase::Open => {
                let clogged = connection.http.unsent > 0 || connection.stream.as_ref().is_some_and(Stream::is_clogged);
                if flags & libc::EPOLLOUT as u32 != 0 && clogged {
                    self.send_rest(slot);
                }
                if flags & READABLE != 0 && self.connections[slot].phase == Phase::Open {
                    self.receive(slot, flags);
                }
            }
            _ => self.on_rare_event(slot, flags),
        }
    }

    /// Sends it over an idle connection, a new one, or has it wait.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp {
        if self.http.sessions.is_some() {
            return self.session_arrives(intended_ns);
        }
        let request = self.plan.requests.choose(&mut self.chooser);
        let pool = &mut self.http.pools[self.plan.requests.entry(request).host as usize];
        let may_open = pool.live < self.connector.live_max && self.connector.may_open(self.now_ns);
        if !pool.idle.is_empty() || may_open {
            self.scheduler.outstanding += 1;
            let waiting = self.http.ring.waiting.len();
            self.issue(Batch { left: 1, request, intended_ns, ..Batch::default() });
            if self.http.ring.waiting.len() > waiting {
                // It goes out with all others, when the ring is entered.
                self.http.ring.due.push(intended_ns);
                return TakenUp::Elsewhere;
            }
            TakenUp::Begun
        } else if self.http.queued < self.scheduler.queue_max {
            let late_us = micros(self.now_ns.saturating_sub(intended_ns));
            pool.queue.push_back(Wanted { intended_ns, late_us, request });
            self.http.queued += 1;
            TakenUp::Queued
        } else {
            count_unanswered(self.plan, &mut self.tally, request, Unanswered::Dropped);
            TakenUp::Dropped
        }
    }

    #[inline]
    fn took_up(&mut self) {}

    #[inline]
    fn queued(&self) -> usize {
        self.http.queued
    }

    fn abandon_queued(&mut self) {
        for pool in &mut self.http.pools {
            self.tally.abandoned += pool.queue.len() as u64;
            // Of sessions no request has begun.
            let requests = pool.queue.drain(..).filter(|_| self.http.sessions.is_none());
            requests.for_each(|wanted| {
                count_unanswered(self.plan, &mut self.tally, wanted.request, Unanswered::Abandoned);
            });
        }
        self.http.queued = 0;
    }

    #[inline]
    fn sessions_under_way(&self) -> usize {
        self.http.sessions.as_ref().map_or(0, |sessions| sessions.under_way())
    }

    fn host_of(&self, batch: &Batch) -> u32 {
        self.plan.requests.entry(batch.request).host
    }

    fn network_of(&self, batch: &Batch) -> Option<u64> {
        self.http.sessions.as_ref().and_then(|sessions| sessions.network(batch.session))
    }

    fn opening(&mut self, slot: usize, mut batch: Batch) {
        if batch.intended_ns == 0 {
            batch.intended_ns = self.now_ns;
        }
        if batch.started_ns == 0 {
            batch.started_ns = self.now_ns;
        }
        let connection = &mut self.connections[slot];
        let pool = &mut self.http.pools[connection.host as usize];
        pool.live += 1;
        if self.plan.requests.cookie_jar {
            let jar = match (&mut self.http.sessions, batch.session) {
                (Some(sessions), 1..) => sessions.take_jar(batch.session),
                _ => pool.jars.pop(),
            };
            connection.jar = jar.unwrap_or_else(|| CookieJar::new(&self.plan.requests.cookies));
        }
        if let Some(sessions) = &mut self.http.sessions {
            sessions.tally.connections += 1;
        }
        if !self.plan.requests.is_constant {
            connection.take_chosen(&mut self.http.chosen, batch.request);
        }
        connection.http.unsent = 0;
        connection.http.was_reset = false;
        connection.http.batch = Batch {
            opened: true,
            answered: 0,
            sent_ns: 0,
            request_offset: 0,
            first_byte_ns: 0,
            response_offset: 0,
            ..batch
        };
        self.slow_opens(slot);
    }

    fn own_encryption(&mut self, slot: usize) -> Option<Arc<ClientConfig>> {
        self.encryption_of_user(slot)
    }

    fn agrees(&mut self, slot: usize) -> bool {
        let Some(stream) = &self.connections[slot].stream else { return false };
        // What this loop cannot speak must not be agreed on, and an answer to it would be no HTTP/1.
        if let Some(other) = stream.agreed_protocol().filter(|name| !name.starts_with(b"http/1")) {
            let words = format!("the server agreed on the protocol {}", String::from_utf8_lossy(other));
            self.handshake_failed(slot, &io::Error::other(words));
            return false;
        }
        self.events.secured(stream.session());
        true
    }

    fn ready(&mut self, slot: usize) {
        self.move_to_ring(slot);
        self.send_batch(slot);
    }

    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>) {
        if let Some(words) = words {
            self.note(slot, outcome, words);
        }
        self.count_failures(slot, outcome);
        let session = self.connections[slot].http.batch.session;
        self.close(slot);
        self.session_failed(session, outcome);
    }

    fn not_made_in_time(&mut self, slot: usize) {
        let address = self.connections[slot].address;
        if self.host(slot).reached_at[address].load(Ordering::Relaxed) {
            self.tell_connection(slot, true);
            self.fail(slot, Outcome::ConnectTimedOut);
        } else {
            self.connect_failed(slot, io::ErrorKind::TimedOut.into());
        }
    }

    fn no_handshake(&self, host: String, cause: String, _error: &io::Error) -> LoadError {
        LoadError::Tls { host, cause }
    }

    fn take_purpose(&mut self, slot: usize) -> Batch {
        let connection = &mut self.connections[slot];
        connection.give_back(&mut self.http.chosen);
        connection.http.batch
    }

    fn closing(&mut self, slot: usize, was_counted: bool) {
        if was_counted {
            self.leave_host(slot);
        }
    }

    fn closed(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.http.parser.reset();
        if let Some(seen) = &mut connection.http.seen {
            seen.reset();
        }
        if let Some(streamed) = &mut connection.http.streamed {
            streamed.reset();
        }
        connection.http.batch = Batch::default();
        self.leave_ring(slot);
        self.slow_closes(slot);
    }

    #[inline]
    fn waits_since_ns(&self, slot: usize) -> u64 {
        self.connections[slot].http.batch.started_ns
    }

    fn look_at_held(&mut self, _now_ns: u64) {}

    fn look_at(&mut self, slot: usize, now_ns: u64) {
        let connection = &self.connections[slot];
        match connection.phase {
            Phase::Open => {
                if self.plan.streaming.is_some() && !self.look_at_stream(slot, now_ns) {
                    return;
                }
                let connection = &self.connections[slot];
                let is_overdue = now_ns.saturating_sub(connection.http.batch.started_ns) >= self.plan.timeout_ns;
                if is_overdue && !self.is_slowly_moving(slot) {
                    self.fail(slot, Outcome::TimedOut);
                }
            }
            Phase::Leaving if now_ns >= connection.linger_until_ns => self.close(slot),
            _ => {}
        }
    }

    fn begin_more(&mut self, now_ns: u64) {
        if self.scheduler.is_past_end(now_ns) {
            self.cut_thinking();
        }
        self.begin_sessions();
        if self.http.sessions.is_some() {
            return;
        }
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for host in 0..self.http.pools.len() {
            for _ in self.at_work(host)..self.connector.live_max {
                self.replace(host as u32);
            }
        }
    }

    fn finished(&mut self) {
        if self.plan.followed.is_some() {
            (0..self.connections.len()).for_each(|slot| self.count_scopes(slot, Unanswered::Abandoned));
        }
        self.tally.sessions = self.http.sessions.take().map(|mut sessions| {
            self.tally.mix.came = sessions.came();
            sessions.tally.unfinished += sessions.under_way() as u64;
            sessions.tally
        });
        if self.plan.directed {
            self.tally.sessions = None;
        }
        for connection in &self.connections {
            self.tally.oddities.add(connection.http.parser.odd_responses());
        }
    }
}

impl Engine<'_, Http1> {
    /// An event of a connection that has no request under way.
    pub(crate) fn on_rare_event(&mut self, slot: usize, flags: u32) {
        match self.connections[slot].phase {
            Phase::Connecting | Phase::Handshaking => self.on_connect_event(slot, flags),
            Phase::Idle if self.is_switched(slot) => self.on_switched(slot, flags),
            Phase::Idle if flags & READABLE != 0 => self.idle_readable(slot),
            Phase::Leaving if flags & HANGUP != 0 => self.close(slot),
            Phase::Closed | Phase::Idle | Phase::Leaving | Phase::Open => {}
        }
    }
}
