//! What HTTP/3 does of its own in the loop.

use crate::LoadError;
use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::READABLE;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::state::Engine;
use crate::engine::wanted::Wanted;
use crate::error::tls_words::tls_error;
use crate::http3::failing::NO_STREAM;
use crate::http3::malformed::code;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;
use crate::requests::cookies::CookieJar;
use crate::schedule::scheduler::NEVER;
use rustls::{AlertDescription, ClientConfig};
use std::io;
use std::sync::Arc;
use weir_wire::client::Outcome;

impl ProtocolLoop for Engine<'_, Http3<'_>> {
    type Purpose = ();

    fn begins(&mut self, _start_ns: u64) {}

    fn is_timed(&self) -> bool {
        // QUIC has times of its own: for packets that are lost, and for those that wait for their turn.
        true
    }

    fn wake(&mut self) {
        self.wake_connections();
        self.wake_impatient();
    }

    #[inline]
    fn next_wake_ns(&self) -> u64 {
        let stops_ns = self.http.patience.as_ref().map_or(NEVER, |patience| patience.next_ns());
        self.http.transport.timers.next_ns().min(stops_ns)
    }

    #[inline]
    fn turn(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError> {
        self.turn_of_epoll(events, until_ns.saturating_sub(self.now_ns))
    }

    #[inline]
    fn holds_events_back(&self) -> bool {
        false
    }

    #[inline]
    fn hold_back(&mut self, _token: u64, _flags: u32) -> bool {
        false
    }

    #[inline]
    fn on_event(&mut self, token: u64, flags: u32) {
        let (slot, generation) = slot_of(token);
        let connection = &self.connections[slot];
        if connection.generation != generation || matches!(connection.phase, Phase::Closed | Phase::Idle) {
            return;
        }
        if connection.http.link.is_none() {
            self.begin_handshake(slot);
        }
        if flags & libc::EPOLLOUT as u32 != 0 {
            self.send_blocked(slot);
        }
        if flags & READABLE != 0 {
            self.receive(slot);
        }
        self.flush_touched();
    }

    /// Puts it on a stream, has a connection made for it, or has it wait.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp {
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
            self.open(());
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
        if self.plan.followed.is_some() {
            // They would have asked for these.
            for _ in 0..waiting {
                let request = self.choose();
                count_unanswered(self.plan, &mut self.tally, request, Unanswered::Abandoned);
            }
        }
    }

    #[inline]
    fn sessions_under_way(&self) -> usize {
        0
    }

    fn host_of(&self, (): &()) -> u32 {
        0
    }

    fn network_of(&self, (): &()) -> Option<u64> {
        None
    }

    fn opening(&mut self, slot: usize, (): ()) {
        self.http.connecting += 1;
        if self.http.wire.cookie_jar {
            let jar = self.http.jars.pop();
            self.connections[slot].jar = jar.unwrap_or_else(|| CookieJar::new(&self.plan.requests.cookies));
        }
    }

    fn own_encryption(&mut self, _slot: usize) -> Option<Arc<ClientConfig>> {
        None
    }

    fn agrees(&mut self, _slot: usize) -> bool {
        // QUIC's handshake is TLS's, and looked at when it is over.
        true
    }

    fn ready(&mut self, slot: usize) {
        let share = self.share_of_held();
        self.http.connecting -= 1;
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        connection.http.heard_ns = self.now_ns;
        for _ in 0..share {
            if !self.has_room(slot) {
                break;
            }
            let Some(exchange) = self.http.held.pop_front() else { break };
            self.begin(slot, Exchange { opened: true, ..exchange });
        }
        self.go_on(slot);
        self.touch(slot);
    }

    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>) {
        self.take_back(slot);
        let share = self.share_of_held();
        if let Some(words) = words {
            self.tally.reasons.note(outcome, words, share as u64);
        }
        for _ in 0..share {
            let Some(exchange) = self.http.held.pop_front() else { break };
            self.count_failure(0, &exchange, outcome);
        }
        // The next one is begun by the sweep: at once would be in a tight loop.
        self.close(slot);
    }

    fn not_made_in_time(&mut self, slot: usize) {
        self.connect_failed(slot, io::ErrorKind::TimedOut.into());
    }

    fn no_handshake(&self, host: String, cause: String, error: &io::Error) -> LoadError {
        match tls_error(error) {
            Some(
                rustls::Error::NoApplicationProtocol
                | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol),
            ) => LoadError::NotHttp3 { host, cause: "in the TLS handshake it refused".to_owned() },
            _ => LoadError::Tls { host, cause },
        }
    }

    fn take_purpose(&mut self, slot: usize) {
        self.take_back(slot);
    }

    fn closing(&mut self, slot: usize, _was_counted: bool) {
        self.say_goodbye(slot, code::NO_ERROR);
        self.count_link(slot);
        let connection = &mut self.connections[slot];
        self.events.closes(connection.number);
        self.http.connecting -= u32::from(matches!(connection.phase, Phase::Connecting | Phase::Handshaking));
        if let Some(link) = connection.http.link.take()
            && link.is_known
        {
            self.http.transport.forget(link.handle);
        }
        if self.http.wire.cookie_jar {
            self.http.jars.push(std::mem::take(&mut connection.jar));
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
        self.move_if_due(slot, now_ns);
    }

    fn begin_more(&mut self, _now_ns: u64) {
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for _ in self.connector.live..self.connector.live_max {
            self.replace();
        }
        self.flush_touched();
    }

    fn finished(&mut self) {
        self.count_cut_scopes();
        // The servers are told, so that they need not wait for what never comes.
        for slot in 0..self.connections.len() {
            self.say_goodbye(slot, code::NO_ERROR);
            self.count_link(slot);
        }
    }
}

impl Engine<'_, Http3<'_>> {
    /// Counts what QUIC counted of a connection that is over, and what the server's windows still held up.
    fn count_link(&mut self, slot: usize) {
        let http = &mut self.connections[slot].http;
        let Some(link) = &http.link else { return };
        let stats = link.quic.stats();
        let counts = &mut self.tally.http3.counts;
        counts.packets_lost += stats.path.lost_packets;
        counts.windows_told += stats.frame_rx.data_blocked + stats.frame_rx.stream_data_blocked;
    }
}
