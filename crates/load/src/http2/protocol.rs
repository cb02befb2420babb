//! What HTTP/2 does of its own in the loop.

use crate::LoadError;
use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::READABLE;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::state::Engine;
use crate::engine::wanted::Wanted;
use crate::error::tls_words::tls_error;
use crate::http2::called::not_http2;
use crate::http2::failing::NO_STREAM;
use crate::http2::state::Http2;
use crate::http2::streams::{Exchange, STREAMS_AT_FIRST};
use crate::requests::cookies::CookieJar;
use crate::schedule::scheduler::NEVER;
use rustls::{AlertDescription, ClientConfig};
use std::io;
use std::sync::Arc;
use weir_wire::client::Outcome;

/// How HTTP/2 is called in a TLS handshake (RFC 9113 3.2).
const ALPN: &[u8] = b"h2";

impl ProtocolLoop for Engine<'_, Http2<'_>> {
    /// The session that the connection is of, from 1; 0 = none.
    type Purpose = u32;

    fn begins(&mut self, _start_ns: u64) {}

    fn is_timed(&self) -> bool {
        self.http.users.is_some() || self.http.line.is_some() || self.http.patience.is_some()
    }

    fn wake(&mut self) {
        self.wake_sessions();
        self.wake_lines();
        self.wake_impatient();
    }

    #[inline]
    fn next_wake_ns(&self) -> u64 {
        let thinks_ns = self.http.users.as_ref().map_or(NEVER, |users| users.next_wake_ns());
        let stops_ns = self.http.patience.as_ref().map_or(NEVER, |patience| patience.next_ns());
        thinks_ns.min(stops_ns).min(self.next_line_ns())
    }

    #[inline]
    fn turn(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError> {
        self.turn_of_epoll(events, until_ns.saturating_sub(self.now_ns))
    }

    #[inline]
    fn holds_events_back(&self) -> bool {
        self.http.line.is_some()
    }

    #[inline]
    fn hold_back(&mut self, token: u64, flags: u32) -> bool {
        self.on_line_event(token, flags)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each event is one call of it")]
    fn on_event(&mut self, token: u64, flags: u32) {
        let (slot, generation) = slot_of(token);
        let connection = &self.connections[slot];
        if connection.generation != generation {
            return;
        }
        match connection.phase {
            Phase::Open | Phase::Leaving => {
                if flags & libc::EPOLLOUT as u32 != 0 {
                    self.flush(slot);
                }
                if flags & READABLE != 0 {
                    self.receive(slot, flags);
                }
            }
            Phase::Connecting | Phase::Handshaking => self.on_connect_event(slot, flags),
            Phase::Closed | Phase::Idle => {}
        }
        self.flush_touched();
    }

    /// Puts it on a stream, has a connection made for it, or has it wait.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp {
        if self.http.users.is_some() {
            return self.session_arrives(intended_ns);
        }
        let exchange = Exchange { intended_ns, ..Exchange::default() };
        if let Some(slot) = self.roomy_one() {
            self.scheduler.outstanding += 1;
            let request = self.choose();
            self.begin(slot, Exchange { request, ..exchange });
        } else if self.http.held.len() < self.http.connecting as usize * self.http.wire.streams as usize {
            self.scheduler.outstanding += 1;
            self.hold_new(exchange);
        } else if self.connector.live < self.connector.live_max {
            self.scheduler.outstanding += 1;
            self.hold_new(exchange);
            self.open(0);
        } else if self.http.queue.len() < self.scheduler.queue_max {
            self.http.queue.push_back(Wanted::at(intended_ns, self.now_ns));
            return TakenUp::Queued;
        } else {
            // It would have asked for this one: those after it ask for theirs.
            let request = self.choose();
            count_unanswered(self.plan, &mut self.tally, request, Unanswered::Dropped);
            return TakenUp::Dropped;
        }
        TakenUp::Begun
    }

    #[inline]
    fn took_up(&mut self) {
        self.flush_touched();
    }

    #[inline]
    fn queued(&self) -> usize {
        self.http.queue.len()
    }

    fn abandon_queued(&mut self) {
        let waiting = self.http.queue.len();
        self.tally.abandoned += waiting as u64;
        self.http.queue.clear();
        if self.plan.followed.is_some() && self.http.users.is_none() {
            // They would have asked for these. Of sessions no request has begun.
            for _ in 0..waiting {
                let request = self.choose();
                count_unanswered(self.plan, &mut self.tally, request, Unanswered::Abandoned);
            }
        }
    }

    #[inline]
    fn sessions_under_way(&self) -> usize {
        self.http.users.as_ref().map_or(0, |users| users.under_way())
    }

    fn host_of(&self, _session: &u32) -> u32 {
        0
    }

    fn network_of(&self, _session: &u32) -> Option<u64> {
        None
    }

    fn opening(&mut self, slot: usize, session: u32) {
        self.http.connecting += 1;
        let streams = self.http.wire.streams.min(self.http.streams_known.unwrap_or(STREAMS_AT_FIRST));
        if self.http.wire.cookie_jar {
            let jar = if session == 0 { self.http.jars.pop() } else { self.jar_of_session(session) };
            self.connections[slot].jar = jar.unwrap_or_else(|| CookieJar::new(&self.plan.requests.cookies));
        }
        self.session_opens(session, slot);
        self.line_opens(slot);
        let connection = &mut self.connections[slot];
        connection.http.session = session;
        connection.http.streams_max = streams;
    }

    fn own_encryption(&mut self, _slot: usize) -> Option<Arc<ClientConfig>> {
        None
    }

    fn agrees(&mut self, slot: usize) -> bool {
        let Some(stream) = &self.connections[slot].stream else { return false };
        // Without TLS, behind a proxy, there is nothing to agree on.
        let cause = match stream.agreed_protocol() {
            _ if !self.http.encrypted => return true,
            Some(ALPN) => return true,
            None => "in the TLS handshake it chose no protocol".to_owned(),
            Some(other) => format!("in the TLS handshake it chose {}", String::from_utf8_lossy(other)),
        };
        self.fatal = Some(not_http2(self.plan, self.http.host.url.host.clone(), cause));
        self.not_made(slot, Outcome::Tls, None);
        false
    }

    fn ready(&mut self, slot: usize) {
        let share = self.share_of(slot);
        self.http.connecting -= 1;
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        connection.http.heard_ns = self.now_ns;
        // A proxy may have been spoken to before.
        connection.http.out_offset = connection.stream.as_ref().map_or(0, |stream| stream.sent);
        self.line_is_ready(slot);
        let connection = &mut self.connections[slot];
        connection.http.out.extend_from_slice(&self.http.wire.preface);
        for _ in 0..share {
            if !self.connections[slot].has_room() {
                break;
            }
            let Some(exchange) = self.next_held(slot) else { break };
            self.begin(slot, Exchange { opened: true, ..exchange });
        }
        self.go_on(slot);
        self.touch(slot);
    }

    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>) {
        let session = self.connections[slot].http.session;
        if let Some(words) = words {
            self.tally.reasons.note(outcome, words, self.share_of(slot) as u64);
        }
        for _ in 0..self.share_of(slot) {
            let Some(exchange) = self.next_held(slot) else { break };
            self.count_failure(0, &exchange, outcome);
            self.session_failed(session);
        }
        self.close(slot);
        // The next one is begun by the sweep: at once would be in a tight loop.
        self.end_burst(session);
    }

    fn not_made_in_time(&mut self, slot: usize) {
        self.connect_failed(slot, io::ErrorKind::TimedOut.into());
    }

    fn no_handshake(&self, host: String, cause: String, error: &io::Error) -> LoadError {
        // RFC 7301 3.2: what a server says that knows none of the protocols that it was offered.
        match tls_error(error) {
            Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                not_http2(self.plan, host, "in the TLS handshake it refused".to_owned())
            }
            _ => LoadError::Tls { host, cause },
        }
    }

    fn take_purpose(&mut self, slot: usize) -> u32 {
        self.connections[slot].http.session
    }

    fn closing(&mut self, slot: usize, _was_counted: bool) {
        self.line_closes(slot);
        let connection = &mut self.connections[slot];
        self.events.closes(connection.number);
        self.http.connecting -= u32::from(matches!(connection.phase, Phase::Connecting | Phase::Handshaking));
        let (session, jar) = (connection.http.session, std::mem::take(&mut connection.jar));
        if session != 0 {
            self.session_closes(session, jar);
        } else if self.http.wire.cookie_jar {
            self.http.jars.push(jar);
        }
    }

    fn closed(&mut self, slot: usize) {
        self.connections[slot].http.reset();
    }

    #[inline]
    fn waits_since_ns(&self, slot: usize) -> u64 {
        self.connections[slot].connect_start_ns
    }

    fn look_at_held(&mut self, now_ns: u64) {
        while let Some(exchange) = self.http.held.front().copied()
            && now_ns.saturating_sub(exchange.started_ns) >= self.plan.timeout_ns
        {
            self.http.held.pop_front();
            self.tally.reasons.note(Outcome::TimedOut, NO_STREAM, 1);
            self.count_failure(0, &exchange, Outcome::TimedOut);
        }
    }

    fn look_at(&mut self, slot: usize, now_ns: u64) {
        self.look_at_streams(slot, now_ns);
    }

    fn begin_more(&mut self, now_ns: u64) {
        self.look_at_sessions(now_ns, self.plan.timeout_ns);
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for _ in self.connector.live..self.connector.live_max {
            self.replace();
        }
        self.flush_touched();
    }

    fn finished(&mut self) {
        self.count_cut_scopes();
        self.tally.sessions = self.http.users.take().map(|users| (*users).tally());
    }
}

impl Engine<'_, Http2<'_>> {
    /// The next request that waits for this connection to be made.
    fn next_held(&mut self, slot: usize) -> Option<Exchange> {
        match self.connections[slot].http.session {
            0 => self.http.held.pop_front(),
            session => self.next_of_session(session),
        }
    }
}
