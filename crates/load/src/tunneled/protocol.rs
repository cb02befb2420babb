//! What WebSockets on streams do of their own in the loop.

use crate::LoadError;
use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::{READABLE, monotonic_ns};
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::state::Engine;
use crate::error::tls_words::tls_error;
use crate::tunneled::state::{Stage, Tunnels};
use crate::websocket::{Ask, Wanted};
use rustls::{AlertDescription, ClientConfig};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

/// How HTTP/2 is called in a TLS handshake (RFC 9113 3.2).
const ALPN: &[u8] = b"h2";

impl ProtocolLoop for Engine<'_, Tunnels<'_>> {
    type Purpose = ();

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
                if flags & libc::EPOLLOUT as u32 != 0 {
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
        self.flush_touched();
    }

    /// Sends it over the WebSocket that has rested longest, or has it wait.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp {
        if let Some((slot, place)) = self.next_idle() {
            self.scheduler.outstanding += 1;
            self.send(slot, place, Ask { intended_ns, ..Ask::default() });
            TakenUp::Begun
        } else if self.http.queue.len() < self.scheduler.queue_max {
            self.http.queue.push_back(Wanted::at(intended_ns, self.now_ns));
            TakenUp::Queued
        } else {
            TakenUp::Dropped
        }
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
        self.tally.abandoned += self.http.queue.len() as u64;
        self.http.queue.clear();
    }

    fn host_of(&self, (): &()) -> u32 {
        0
    }

    fn network_of(&self, (): &()) -> Option<u64> {
        None
    }

    fn opening(&mut self, _slot: usize, (): ()) {}

    fn own_encryption(&mut self, _slot: usize) -> Option<Arc<ClientConfig>> {
        None
    }

    fn agrees(&mut self, slot: usize) -> bool {
        let connection = &self.connections[slot];
        let Some(stream) = &connection.stream else { return false };
        // Without TLS, behind a proxy, there is nothing to agree on.
        let cause = match stream.agreed_protocol() {
            _ if !connection.encrypted => return true,
            Some(ALPN) => return true,
            None => "in the TLS handshake it chose no protocol".to_owned(),
            Some(other) => format!("in the TLS handshake it chose {}", String::from_utf8_lossy(other)),
        };
        self.fatal = Some(LoadError::NotHttp2 { host: self.host(slot).url.host.clone(), cause });
        self.not_made(slot, Outcome::Tls, None);
        false
    }

    fn ready(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.phase = Phase::Open;
        connection.http.out.extend_from_slice(&self.http.opening.preface);
        self.touch(slot);
    }

    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>) {
        self.not_opened(None, outcome, words.unwrap_or(outcome.name()));
        self.close(slot);
    }

    fn not_made_in_time(&mut self, slot: usize) {
        if self.host(slot).reached.load(Ordering::Relaxed) {
            self.not_made(slot, Outcome::ConnectTimedOut, Some("the connection was not made in time"));
        } else {
            self.connect_failed(slot, io::ErrorKind::TimedOut.into());
        }
    }

    fn no_handshake(&self, host: String, cause: String, error: &io::Error) -> LoadError {
        // RFC 7301 3.2: what a server says that knows none of the protocols that it was offered.
        match tls_error(error) {
            Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                LoadError::NotHttp2 { host, cause: "in the TLS handshake it refused".to_owned() }
            }
            _ => LoadError::Tls { host, cause },
        }
    }

    fn take_purpose(&mut self, _slot: usize) {}

    fn closing(&mut self, _slot: usize, _was_counted: bool) {}

    fn closed(&mut self, slot: usize) {
        let frames = self.connections[slot].http.reset();
        self.websocket_tally().frames += frames;
    }

    #[inline]
    fn waits_since_ns(&self, slot: usize) -> u64 {
        self.connections[slot].connect_start_ns
    }

    fn look_at_held(&mut self, _now_ns: u64) {}

    fn look_at(&mut self, slot: usize, now_ns: u64) {
        let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= self.plan.timeout_ns;
        let (generation, http) = (self.connections[slot].generation, &self.connections[slot].http);
        if !http.is_offered && is_overdue(self.connections[slot].connect_start_ns) {
            return self.lost(slot, Outcome::TimedOut, "the server's settings of HTTP/2 did not come in time");
        }
        for place in 0..self.connections[slot].http.tunnels.len() as u32 {
            let is_overdue = |since_ns: u64| now_ns.saturating_sub(since_ns) >= self.plan.timeout_ns;
            match self.connections[slot].http.tunnels[place as usize].stage {
                Stage::Opening { since_ns, .. } if is_overdue(since_ns) => {
                    self.give_up(slot, place, Outcome::TimedOut, "the extended CONNECT was not answered in time");
                }
                Stage::Awaiting(ask) if is_overdue(ask.sent_ns) => {
                    self.give_up(slot, place, Outcome::TimedOut, "no answer to the message came in time");
                }
                Stage::Closing { until_ns } if now_ns >= until_ns => {
                    self.give_up(slot, place, Outcome::Closed, "the server did not close the WebSocket");
                }
                _ => {}
            }
            if self.connections[slot].generation != generation {
                return;
            }
        }
        self.open_tunnels(slot);
    }

    fn begin_more(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        // Bounded by the connections: each turn opens one, or makes `live` no smaller by failing.
        for _ in self.connector.live..self.connector.live_max {
            self.replace();
        }
        self.flush_touched();
    }

    fn finished(&mut self) {
        self.close_all();
        self.now_ns = monotonic_ns();
    }
}
