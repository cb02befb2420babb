//! What WebSockets do of their own in the loop.

use crate::LoadError;
use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::{READABLE, monotonic_ns};
use crate::connect::stream::Stream;
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::state::Engine;
use crate::websocket::state::{Ask, Sockets, Stage, Wanted};
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

impl ProtocolLoop for Engine<'_, Sockets<'_>> {
    /// The message that waits for the connection: in an open loop those that arrived wait for any.
    type Purpose = Option<Ask>;

    #[inline]
    fn turn(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError> {
        self.turn_of_epoll(events, until_ns.saturating_sub(self.now_ns))
    }

    fn on_event(&mut self, token: u64, flags: u32) {
        let (slot, generation) = slot_of(token);
        let connection = &self.connections[slot];
        if connection.generation != generation {
            return;
        }
        match connection.phase {
            Phase::Open => {
                let is_writable = flags & libc::EPOLLOUT as u32 != 0;
                let has_more = connection.http.out_at < connection.http.out.len();
                if is_writable && (has_more || connection.stream.as_ref().is_some_and(Stream::is_clogged)) {
                    self.flush(slot);
                }
                let connection = &self.connections[slot];
                if flags & READABLE != 0 && connection.generation == generation && connection.phase == Phase::Open {
                    self.receive(slot, flags);
                }
            }
            Phase::Connecting | Phase::Handshaking => self.on_connect_event(slot, flags),
            Phase::Closed | Phase::Idle | Phase::Leaving => {}
        }
    }

    /// Sends it over the connection that has rested longest, or has it wait.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp {
        if let Some(slot) = self.http.idle.pop_front() {
            self.scheduler.outstanding += 1;
            self.send(slot as usize, Ask { intended_ns, ..Ask::default() });
            TakenUp::Begun
        } else if self.http.queue.len() < self.scheduler.queue_max {
            self.http.queue.push_back(Wanted::at(intended_ns, self.now_ns));
            TakenUp::Queued
        } else {
            TakenUp::Dropped
        }
    }

    #[inline]
    fn took_up(&mut self) {}

    #[inline]
    fn queued(&self) -> usize {
        self.http.queue.len()
    }

    fn abandon_queued(&mut self) {
        self.tally.abandoned += self.http.queue.len() as u64;
        self.http.queue.clear();
    }

    fn host_of(&self, _ask: &Option<Ask>) -> u32 {
        0
    }

    fn network_of(&self, _ask: &Option<Ask>) -> Option<u64> {
        None
    }

    fn opening(&mut self, slot: usize, ask: Option<Ask>) {
        self.connections[slot].http.stage = Stage::Making(ask);
    }

    fn own_encryption(&mut self, _slot: usize) -> Option<Arc<ClientConfig>> {
        None
    }

    fn agrees(&mut self, slot: usize) -> bool {
        let Some(stream) = &self.connections[slot].stream else { return false };
        if let Some(other) = stream.agreed_protocol().filter(|name| !name.starts_with(b"http/1")) {
            let words = format!("the server agreed on the protocol {}", String::from_utf8_lossy(other));
            self.handshake_failed(slot, &io::Error::other(words));
            return false;
        }
        true
    }

    fn ready(&mut self, slot: usize) {
        self.ask_to_upgrade(slot);
    }

    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>) {
        self.not_opened(slot, outcome, words.unwrap_or(outcome.name()));
        self.close(slot);
    }

    fn not_made_in_time(&mut self, slot: usize) {
        if self.host(slot).reached.load(Ordering::Relaxed) {
            self.not_made(slot, Outcome::ConnectTimedOut, Some("the connection was not made in time"));
        } else {
            self.connect_failed(slot, io::ErrorKind::TimedOut.into());
        }
    }

    fn no_handshake(&self, host: String, cause: String, _error: &io::Error) -> LoadError {
        LoadError::Tls { host, cause }
    }

    fn take_purpose(&mut self, slot: usize) -> Option<Ask> {
        self.take_ask(slot)
    }

    fn closing(&mut self, slot: usize, _was_counted: bool) {
        if matches!(self.connections[slot].http.stage, Stage::Idle)
            && let Some(place) = self.http.idle.iter().position(|idle| *idle as usize == slot)
        {
            self.http.idle.remove(place);
        }
        let frames = self.connections[slot].http.reader.frames();
        self.websocket_tally().frames += frames;
    }

    fn closed(&mut self, slot: usize) {
        self.connections[slot].http.reset();
    }

    #[inline]
    fn waits_since_ns(&self, slot: usize) -> u64 {
        self.connections[slot].connect_start_ns
    }

    fn look_at_held(&mut self, _now_ns: u64) {}

    fn look_at(&mut self, slot: usize, now_ns: u64) {
        let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= self.plan.timeout_ns;
        match self.connections[slot].http.stage {
            Stage::Opening { since_ns, .. } if is_overdue(since_ns) => {
                self.fail(slot, Outcome::TimedOut, "the upgrade was not answered in time");
            }
            Stage::Awaiting(ask) if is_overdue(ask.sent_ns) => {
                self.fail(slot, Outcome::TimedOut, "no answer to the message came in time");
            }
            Stage::Closing { until_ns } if now_ns >= until_ns => self.close(slot),
            _ => {}
        }
    }

    fn begin_more(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for _ in self.connector.live..self.connector.live_max {
            self.replace();
        }
    }

    fn finished(&mut self) {
        self.close_all();
        for slot in 0..self.connections.len() {
            let frames = self.connections[slot].http.reader.frames();
            self.websocket_tally().frames += frames;
        }
        self.now_ns = monotonic_ns();
    }
}
