//! How a connection ends: by its deadline, by an answer to something unreadable, and after its last response.

use super::{After, Connection, Phase, Turn};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::eviction::Yields;
use crate::files::head::Persistence;
use crate::http::limits::Timeouts;
use crate::io::epoll::Readiness;
use crate::loop_state::LoopState;
use crate::telemetry::watching::Network;
use std::io;
use std::time::Duration;

/// Bytes that are read for nothing from a client that does not notice the close.
const LINGER_BYTES_MAX: usize = 1 << 20;

impl Connection {
    /// Ends a connection whose deadline has passed; a client in the middle of a head gets 408.
    pub(crate) fn expire(&mut self, state: &mut LoopState) {
        if self.phase != Phase::Linger {
            state.counts().timeouts.add(1);
        }
        if self.phase == Phase::Body && self.refuse_application(408, state) {
            let _ = self.send_queue(state);
        }
        if self.phase == Phase::Head && !self.saved.is_empty() {
            self.refuse(408, 0, state);
            // Best effort: what does not fit into the socket at once is not worth waiting for.
            let _ = self.send_batch(1, state);
        }
        self.abort(state);
    }

    /// Whether it may be closed for another one, and how readily: not while it has something to do that goes on.
    pub(crate) fn yields(&self, now_ms: u64, timeouts: &Timeouts) -> Option<Yields> {
        let since_ms =
            |timeout: Duration| self.deadline_ms.saturating_sub(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        match self.phase {
            // It began anew with the last byte that was taken.
            Phase::Stall => Yields::stalled(since_ms(timeouts.stall), now_ms),
            _ if self.is_sending() || self.saved_for.is_parked() => None,
            Phase::Idle => Yields::idle(since_ms(timeouts.idle), now_ms),
            Phase::Head => Yields::slow(since_ms(timeouts.head)),
            Phase::Body => Yields::stalled(since_ms(timeouts.body), now_ms),
            Phase::Linger | Phase::Parked | Phase::Application => None,
        }
    }

    /// Logs what was sent of unfinished responses.
    pub(crate) fn abort(&mut self, state: &mut LoopState) {
        for mut exchange in std::mem::take(&mut self.queue) {
            state.finish_one(&mut exchange);
        }
        // Whether it is parked or not: it is looked at again and again while it waits.
        state.remove_waiting(self.number, None);
        self.transport.say_goodbye();
    }

    /// Puts the answer to something unreadable into a place of the batch; the connection ends after it.
    pub(super) fn refuse(&mut self, status: u16, place: usize, state: &mut LoopState) {
        self.after = After::Linger;
        let exchange = &mut state.batch[place];
        error_page::write(exchange, status, Extra::default(), &state.clock, Persistence::Closes);
        state.counters.0[state.index].count(status);
        if let Some(log) = &mut state.log {
            log.begin(&mut exchange.record.log, None, self.peer.ip(), status, &state.clock);
        }
        let (client, port, session) = (self.peer.ip(), Some(self.peer.port()), self.number);
        let (protocol, tls) = ("HTTP/1.1", self.transport.is_secure());
        let network = Network { client, port, session, protocol, tls, ..Network::default() };
        state.watching.see_unfit(&network, exchange);
    }

    /// Ends our side, then reads until the client ends its own.
    pub(super) fn linger(&mut self, state: &mut LoopState) -> io::Result<Turn> {
        if self.lingered_bytes.is_none() {
            self.transport.end_output();
            self.socket.add(Readiness::INPUT);
            self.enter(Phase::Linger, state);
        }
        let mut lingered = self.lingered_bytes.unwrap_or(0);
        while self.socket.has(Readiness::INPUT) && lingered < LINGER_BYTES_MAX {
            match self.transport.receive(&mut state.input, &mut state.ring) {
                Ok(0) => return Ok(Turn::Close),
                Ok(received) => lingered += received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.remove(Readiness::INPUT),
                Err(_) => return Ok(Turn::Close),
            }
        }
        self.lingered_bytes = Some(lingered);
        Ok(if lingered < LINGER_BYTES_MAX { Turn::Wait } else { Turn::Close })
    }
}
