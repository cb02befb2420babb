//! Connections that have switched protocols (RFC 9110 15.2.2): what comes over them is the director's, and so is what
//! goes out.

use crate::connect::connection::Phase;
use crate::connect::kernel::{HANGUP, READABLE, monotonic_ns};
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::error::outcomes::outcome_of;
use crate::http1::state::Http1;
use std::io;
use weir_wire::client::Outcome;

/// The status of an answer behind which its connection has switched.
pub(crate) const SWITCHED: u16 = 101;
/// What may wait to be written on a connection: a server that reads less is given up, in bytes.
const UNSENT_BYTES_MAX: usize = 16 << 20;

impl Engine<'_, Http1> {
    /// Whether a connection that rests has switched: an answer that switches is the last one of its connection.
    pub(crate) fn is_switched(&self, slot: usize) -> bool {
        self.is_directed() && self.connections[slot].http.parser.status() == SWITCHED
    }

    /// Keeps what came behind the head of an answer that switches.
    pub(crate) fn keep_behind(&mut self, bytes: &[u8]) {
        if let Some(stage) = self.stage() {
            stage.behind.extend_from_slice(bytes);
        }
    }

    /// The connection of a link has switched, as its director knows.
    pub(crate) fn switched(&mut self, slot: usize, link: u32) {
        let generation = self.connections[slot].generation;
        let Some(stage) = self.stage() else { return };
        let behind = std::mem::take(&mut stage.behind);
        if !behind.is_empty() {
            stage.given.director.came(link, &behind, &mut stage.orders);
            self.carry_out();
        }
        let connection = &self.connections[slot];
        let is_drained = connection.stream.as_ref().is_none_or(|stream| stream.drained) && !connection.hung_up;
        if connection.generation == generation && !is_drained {
            self.unread.list(connection.token(slot));
        }
    }

    /// An event of a connection that has switched.
    pub(crate) fn on_switched(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        if flags & libc::EPOLLOUT as u32 != 0 {
            self.write_switched(slot);
        }
        if flags & READABLE != 0 && self.connections[slot].generation == generation {
            self.read_switched(slot, flags);
        }
    }

    fn read_switched(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        let link = self.connections[slot].http.batch.session - 1;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let read = stream.read(&mut self.connector.kernel, &mut self.buffer);
            self.now_ns = monotonic_ns();
            let count = match read {
                Ok(0) => return self.lose_switched(slot, Outcome::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if connection.encrypted && error.kind() == io::ErrorKind::UnexpectedEof => {
                    return self.lose_switched(slot, Outcome::Closed);
                }
                Err(error) => return self.lose_switched(slot, outcome_of(&error)),
            };
            let is_drained = stream.drained;
            connection.hung_up |= stream.ended;
            self.tally.received(count as u64, self.now_ns <= self.scheduler.end_ns);
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            if let Some(stage) = self.stage() {
                stage.given.director.came(link, &buffer[..count], &mut stage.orders);
            }
            self.buffer = buffer;
            self.carry_out();
            let connection = &self.connections[slot];
            if connection.generation != generation || is_drained && !connection.hung_up {
                return;
            }
        }
        self.unread.list(self.connections[slot].token(slot));
    }

    /// Writes what a director has ordered for a link whose connection has switched.
    pub(crate) fn send_raw(&mut self, link: u32) {
        let Some(stage) = self.stage() else { return };
        let Some(place) = stage.orders.links.get_mut(link as usize) else { return };
        let bytes = std::mem::take(&mut place.raw);
        let Some(slot) = place.slot.map(|slot| slot as usize) else { return };
        if self.connections[slot].phase != Phase::Idle || !self.is_switched(slot) {
            return;
        }
        let http = &mut self.connections[slot].http;
        if http.unsent == 0 {
            http.composed.clear();
        }
        if http.unsent + bytes.len() > UNSENT_BYTES_MAX.max(bytes.len()) {
            return self.lose_switched(slot, Outcome::TimedOut);
        }
        http.composed.extend_from_slice(&bytes);
        http.unsent += bytes.len();
        self.write_switched(slot);
    }

    /// Writes as far as there is room.
    fn write_switched(&mut self, slot: usize) {
        loop {
            let connection = &mut self.connections[slot];
            let (http, Some(stream)) = (&mut connection.http, &mut connection.stream) else { return };
            let is_empty = http.unsent == 0;
            if is_empty && !stream.is_clogged() {
                return http.composed.clear();
            }
            let begin = http.composed.len() - http.unsent;
            match stream.write(&mut self.connector.kernel, &http.composed[begin..]) {
                Ok(count) => http.unsent -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The server may have said why it closed: that is still to be had, at the next turn.
                    connection.hung_up = true;
                    (http.unsent, connection.http.was_reset) = (0, true);
                    return self.unread.list(connection.token(slot));
                }
            }
            if is_empty {
                return;
            }
        }
    }

    /// The connection of a link that has switched is of no use any more.
    fn lose_switched(&mut self, slot: usize, outcome: Outcome) {
        let link = self.connections[slot].http.batch.session - 1;
        self.close(slot);
        self.link_failed(link + 1, outcome);
    }
}
