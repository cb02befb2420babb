//! The way of a request of a slow client: what the loop does otherwise.
//!
//! ```text
//! connected, a round trip later -> half of one, and the write limit -> sent
//! received, half a round trip later, and the read limit -> read
//! ```
//!
//! A slot is looked at when its alarm says so or when epoll does, and then does all that is due.

use crate::connect::connection::Phase;
use crate::connect::kernel::{HANGUP, READABLE, monotonic_ns};
use crate::connect::read_ahead::ReadAhead;
use crate::engine::state::Engine;
use crate::http1::state::Http1;
use crate::schedule::scheduler::NEVER;
use std::io;
use std::os::fd::AsRawFd;
use weir_wire::client::Outcome;

/// Reads from one connection before the others have their turn, where only the latency is added.
const READS_IN_A_ROW: u32 = 16;

impl Engine<'_, Http1> {
    /// When the first slow client is to be looked at.
    #[inline]
    pub(crate) fn next_slow_ns(&self) -> u64 {
        self.http.slow.as_ref().and_then(|slow| slow.alarms.first()).map_or(NEVER, |(_, time_ns)| time_ns)
    }

    /// Looks at the slow clients whose time has come.
    pub(crate) fn wake_slow(&mut self) {
        // Each client at most once, so that events have their turn even if alarms are due all the time.
        for _ in 0..self.connections.len() {
            match self.http.slow.as_ref().and_then(|slow| slow.alarms.first()) {
                Some((slot, time_ns)) if time_ns <= self.now_ns => self.wake(slot),
                _ => return,
            }
        }
    }

    /// A connection is being opened.
    pub(crate) fn slow_opens(&mut self, slot: usize) {
        let Some(slow) = &mut self.http.slow else { return };
        slow.begin_connection(slot, self.connections[slot].http.batch.intended_ns, self.now_ns);
        self.set_alarm(slot);
    }

    /// A connection is closed, or carries no more requests.
    pub(crate) fn slow_closes(&mut self, slot: usize) {
        if let Some(slow) = &mut self.http.slow {
            slow.alarms.set(slot, NEVER);
        }
    }

    /// Whether a connection has read or written something within the time that a response may take: a limited one may take
    /// longer for all of it, until the run is over.
    pub(crate) fn is_slowly_moving(&self, slot: usize) -> bool {
        self.http.slow.as_ref().is_some_and(|slow| {
            let is_limited = slow.read.is_some() || slow.write.is_some();
            let still_ns = self.now_ns.saturating_sub(slow.clients[slot].progress_ns);
            is_limited && still_ns <= self.plan.timeout_ns && self.now_ns < self.scheduler.give_up_ns
        })
    }

    /// Sends the batch that a connection holds, which is prepared, when its line lets it through.
    pub(crate) fn send_slowly(&mut self, slot: usize) {
        self.now_ns = monotonic_ns();
        let Some(slow) = &mut self.http.slow else { return };
        let connection = &mut self.connections[slot];
        let sent = connection.http.batch.request_offset;
        if let Some(stream) = &mut connection.stream {
            slow.clients[slot].record_start = stream.received;
            if slow.ahead > 0 && stream.ahead.is_none() {
                stream.ahead = Some(Box::new(ReadAhead::new(slow.ahead)));
            }
        }
        slow.begin_batch(slot, self.now_ns, sent, connection.http.batch_bytes, connection.encrypted);
        connection.http.batch.sent_ns = 0;
        if connection.http.batch.started_ns == 0 {
            connection.http.batch.started_ns = self.now_ns;
        }
        // Patience runs from the intended time. A batch that opened its connection has its patience already.
        if !connection.http.batch.opened {
            slow.clients[slot].patience_ns = slow.draw_patience(connection.http.batch.intended_ns);
        }
        if slow.write_due_ns(slot, sent) <= self.now_ns {
            self.write_slowly(slot);
        }
        self.set_alarm(slot);
    }

    /// Takes the event of a slow client's connection, if its line makes a difference to it.
    pub(crate) fn on_slow_event(&mut self, token: u64, flags: u32) -> bool {
        let Some(slow) = &mut self.http.slow else { return false };
        let slot = (token & 0xffff_ffff) as usize;
        if self.connections[slot].generation != (token >> 32) as u32 {
            return false;
        }
        self.now_ns = monotonic_ns();
        let (now_ns, latency_ns) = (self.now_ns, slow.latency_ns);
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return false };
        match connection.phase {
            Phase::Connecting | Phase::Handshaking => {
                let is_handshake = connection.phase == Phase::Handshaking && slow.read.is_some();
                let unread = is_handshake.then(|| self.connector.kernel.unread(stream.fd().as_raw_fd()));
                slow.on_making(slot, flags, unread, now_ns);
            }
            Phase::Open => {
                let client = &mut slow.clients[slot];
                connection.hung_up |= flags & HANGUP != 0;
                if flags & libc::EPOLLOUT as u32 != 0 {
                    client.blocked = false;
                }
                if flags & READABLE != 0 {
                    let was_dry = match &mut stream.ahead {
                        None => !std::mem::replace(&mut client.readable, true),
                        Some(ahead) => {
                            ahead.expect_more();
                            ahead.is_dry()
                        }
                    };
                    stream.top_up(&mut self.connector.kernel, connection.hung_up);
                    if latency_ns > 0 {
                        let ahead = stream.ahead.as_ref().map_or(0, |ahead| ahead.len());
                        let all =
                            stream.received + (ahead + self.connector.kernel.unread(stream.fd().as_raw_fd())) as u64;
                        client.mark(now_ns + latency_ns / 2, if connection.hung_up { u64::MAX } else { all });
                    }
                    if was_dry && connection.http.batch.first_byte_ns == 0 {
                        client.read.start(now_ns + latency_ns / 2);
                    }
                }
            }
            Phase::Idle => {
                // The loop is to see what the socket has.
                if let Some(ahead) = &mut stream.ahead {
                    ahead.expect_more();
                }
                stream.top_up(&mut self.connector.kernel, flags & HANGUP != 0);
                return false;
            }
            Phase::Closed | Phase::Leaving => return false,
        }
        self.wake(slot);
        true
    }

    /// Does what is due on a connection, and sets its alarm for what comes next.
    fn wake(&mut self, slot: usize) {
        let Some(slow) = &mut self.http.slow else { return };
        let client = &mut slow.clients[slot];
        let phase = self.connections[slot].phase;
        let is_waiting = matches!(phase, Phase::Connecting | Phase::Handshaking | Phase::Open);
        if is_waiting && client.patience_ns <= self.now_ns {
            return self.click_stop(slot);
        }
        match phase {
            Phase::Connecting | Phase::Handshaking if client.event_ns <= self.now_ns => {
                self.shake_hands_slowly(slot);
            }
            Phase::Open => {
                let generation = self.connections[slot].generation;
                if self.write_is_due(slot) {
                    self.write_slowly(slot);
                }
                let connection = &self.connections[slot];
                let is_same = connection.generation == generation && connection.phase == Phase::Open;
                if is_same && self.read_due_ns(slot) <= self.now_ns {
                    self.read_slowly(slot);
                }
            }
            _ => {}
        }
        self.set_alarm(slot);
    }

    /// Sets a slot's alarm to the time of what is due first.
    fn set_alarm(&mut self, slot: usize) {
        let Some(slow) = &self.http.slow else { return };
        let connection = &self.connections[slot];
        let client = &slow.clients[slot];
        let due_ns = match (connection.phase, &connection.stream) {
            (Phase::Connecting | Phase::Handshaking, _) => client.patience_ns.min(client.event_ns),
            (Phase::Open, Some(stream)) => {
                let to_write = connection.http.unsent > 0 || stream.is_clogged();
                let write_ns = if to_write { slow.write_due_ns(slot, stream.sent) } else { NEVER };
                client.patience_ns.min(write_ns).min(self.read_due_ns(slot))
            }
            _ => NEVER,
        };
        if let Some(slow) = &mut self.http.slow {
            slow.alarms.set(slot, due_ns);
        }
    }

    /// When a connection can be read on.
    fn read_due_ns(&self, slot: usize) -> u64 {
        let connection = &self.connections[slot];
        let (Some(slow), Some(stream)) = (&self.http.slow, &connection.stream) else { return NEVER };
        let input = match &stream.ahead {
            None if slow.clients[slot].readable => usize::MAX,
            None => 0,
            Some(ahead) if ahead.is_dry() => 0,
            Some(ahead) => {
                // The end of a response does not wait for what may follow.
                let rest = connection.http.parser.remaining().filter(|_| !connection.encrypted);
                let rest = rest.map_or(usize::MAX, |rest| usize::try_from(rest).unwrap_or(usize::MAX));
                ahead.len().min(rest).max(1)
            }
        };
        slow.read_due_ns(slot, stream.received, input)
    }

    /// Goes on with a connection that is being made; what a handshake brings costs its time.
    fn shake_hands_slowly(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let (Some(slow), Some(stream)) = (&mut self.http.slow, &connection.stream) else { return };
        let is_handshake = connection.phase == Phase::Handshaking && slow.read.is_some();
        let unread = is_handshake.then(|| self.connector.kernel.unread(stream.fd().as_raw_fd()));
        let flags = slow.take_making(slot, unread, self.now_ns);
        self.on_rare_event(slot, flags);
    }

    fn write_is_due(&self, slot: usize) -> bool {
        let connection = &self.connections[slot];
        let (Some(slow), Some(stream)) = (&self.http.slow, &connection.stream) else { return false };
        let to_write = connection.http.unsent > 0 || stream.is_clogged();
        to_write && slow.write_due_ns(slot, stream.sent) <= self.now_ns
    }

    /// Writes of a batch what the limit lets through.
    fn write_slowly(&mut self, slot: usize) {
        let Some(slow) = &mut self.http.slow else { return };
        let client = &mut slow.clients[slot];
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return };
        let room = slow.write.map_or(usize::MAX, |limit| client.write.earned(limit, self.now_ns));
        if room == 0 {
            return;
        }
        self.now_ns = monotonic_ns();
        if connection.http.batch.sent_ns == 0 {
            connection.http.batch.sent_ns = self.now_ns;
        }
        let bytes = match connection.http.composed.is_empty() {
            true => self.plan.requests.wire(connection.http.batch.request, connection.http.batch_bytes),
            false => connection.http.composed.as_slice(),
        };
        let before = stream.sent;
        let written = loop {
            let left = room - (stream.sent - before) as usize;
            if left == 0 {
                break Ok(());
            }
            let rest = &bytes[bytes.len() - connection.http.unsent..];
            // Encrypted, the records are limited and not what is in them.
            let part = if connection.encrypted { rest } else { &rest[..rest.len().min(left)] };
            stream.room_to_write = left;
            match stream.write(&mut self.connector.kernel, part) {
                Ok(count) => connection.http.unsent -= count,
                Err(error) => break Err(error),
            }
            if connection.http.unsent == 0 && !stream.is_clogged() {
                break Ok(());
            }
            if stream.is_clogged() {
                break Err(io::ErrorKind::WouldBlock.into());
            }
        };
        stream.room_to_write = usize::MAX;
        let count = (stream.sent - before) as usize;
        if let Some(limit) = slow.write {
            client.write.take(limit, count);
        }
        client.progress_ns = self.now_ns;
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => client.blocked = count < room,
            Err(error) if connection.is_unsent() => self.broken(slot, &error),
            Err(_) => {
                // The server may have answered early and closed: its answer is still to be had.
                client.blocked = true;
                client.readable = true;
                client.mark(self.now_ns, u64::MAX);
                connection.hung_up = true;
            }
        }
    }

    /// Reads what the limit lets through, and finishes the requests that it completes.
    fn read_slowly(&mut self, slot: usize) {
        for _ in 0..READS_IN_A_ROW {
            let Some(slow) = &mut self.http.slow else { return };
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let before = stream.received;
            let room = slow.room(slot, self.now_ns, before).min(self.buffer.len());
            if room == 0 {
                break;
            }
            let read = stream.read_at_most(&mut self.connector.kernel, &mut self.buffer, room);
            stream.top_up(&mut self.connector.kernel, connection.hung_up);
            let taken = (stream.received - before) as usize;
            self.now_ns = monotonic_ns();
            let client = &mut slow.clients[slot];
            if let Some(limit) = slow.read {
                client.read.take(limit, taken);
            }
            client.progress_ns = self.now_ns;
            let begins = std::mem::replace(&mut client.record_start, stream.received);
            let count = match read {
                Ok(0) => return self.stream_ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    client.readable &= taken >= room;
                    // Of a record that is not whole nothing is read.
                    client.record_start = begins;
                    break;
                }
                Err(error) => return self.broken(slot, &error),
            };
            let drained = stream.drained && taken < room && stream.ahead.is_none();
            connection.hung_up |= stream.ended;
            if connection.http.batch.sent_ns == 0 {
                // It answers before it was asked.
                connection.http.batch.sent_ns = self.now_ns;
            }
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            let open = self.take(slot, begins, &buffer[..count]);
            self.buffer = buffer;
            if !open {
                break;
            }
            if drained && !self.connections[slot].hung_up {
                if let Some(slow) = &mut self.http.slow {
                    slow.clients[slot].readable = false;
                }
                break;
            }
        }
    }

    /// A user has waited long enough: the requests under way end with their connection.
    fn click_stop(&mut self, slot: usize) {
        let connection = &self.connections[slot];
        let (host, session) = (connection.host, connection.http.batch.session);
        self.count_failures(slot, Outcome::Stopped);
        self.close(slot);
        self.session_stopped(session);
        self.replace(host);
    }
}
