//! The way of slow clients' bytes: what the loop does otherwise over HTTP/2.
//!
//! A connection is one client's line, which the bytes of all its streams share. What is to be written goes out half a round
//! trip later, and at the write limit; what was received is taken half a round trip later, and at the read limit. Users who
//! click stop cancel the stream of their request, and the connection lives on.
//!
//! A slot is looked at when its alarm says so or when epoll does, and then does all that is due.

use crate::connect::connection::{Phase, slot_of};
use crate::connect::kernel::{HANGUP, READABLE, monotonic_ns};
use crate::connect::read_ahead::ReadAhead;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::http2::state::Http2;
use crate::schedule::scheduler::NEVER;
use std::io;
use std::os::fd::AsRawFd;

/// What came of writing.
enum Written {
    /// Some bytes: there may be more.
    Some,
    /// Nothing is due, or there is no room for it.
    Nothing,
    /// The connection takes nothing any more.
    Broken,
}

impl Engine<'_, Http2<'_>> {
    /// When the first line is to be looked at.
    #[inline]
    pub(crate) fn next_line_ns(&self) -> u64 {
        self.http.line.as_ref().and_then(|line| line.alarms.first()).map_or(NEVER, |(_, at_ns)| at_ns)
    }

    /// Looks at the lines whose time has come.
    pub(crate) fn wake_lines(&mut self) {
        // Each at most once, so that events have their turn even if alarms are due all the time.
        for _ in 0..self.connections.len() {
            match self.http.line.as_ref().and_then(|line| line.alarms.first()) {
                Some((slot, at_ns)) if at_ns <= self.now_ns => self.wake_line(slot),
                _ => return,
            }
            self.flush_touched();
        }
    }

    /// A connection is being opened.
    pub(crate) fn line_opens(&mut self, slot: usize) {
        if let Some(line) = &mut self.http.line {
            line.begin_connection(slot, self.now_ns, self.now_ns);
            let client = &mut line.clients[slot];
            (client.blocked, client.send_end) = (false, 0);
            line.alarms.set(slot, NEVER);
        }
    }

    /// A connection is closed.
    pub(crate) fn line_closes(&mut self, slot: usize) {
        if let Some(line) = &mut self.http.line {
            line.alarms.set(slot, NEVER);
        }
    }

    /// A connection can carry requests: what came with the end of its handshake has paid for its way.
    pub(crate) fn line_is_ready(&mut self, slot: usize) {
        let Some(line) = &mut self.http.line else { return };
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return };
        let unread = self.connector.kernel.unread(stream.fd().as_raw_fd()) as u64;
        if line.ahead > 0 {
            stream.ahead = Some(Box::new(ReadAhead::new(line.ahead)));
            stream.top_up(&mut self.connector.kernel, false);
        }
        let (has_latency, is_limited, client) = (line.latency_ns > 0, line.read.is_some(), &mut line.clients[slot]);
        client.readable = true;
        client.incoming.begin(if has_latency { stream.received + unread } else { u64::MAX });
        let takes_time = has_latency || is_limited;
        client.outgoing.begin(if takes_time { connection.http.out_offset } else { u64::MAX });
        // A handshake may have brought more than it has paid for.
        client.send_ns = client.read.paid_ns();
        client.send_end = connection.http.out_offset;
    }

    /// Whether a limited line has carried something within the time that a response may take: all of it may take longer,
    /// until the run is over.
    pub(crate) fn is_slowly_moving(&self, slot: usize) -> bool {
        self.http.line.as_ref().is_some_and(|line| {
            let is_limited = line.read.is_some() || line.write.is_some();
            let still_ns = self.now_ns.saturating_sub(line.clients[slot].progress_ns);
            is_limited && still_ns <= self.plan.timeout_ns && self.now_ns < self.scheduler.give_up_ns
        })
    }

    /// Takes the event of a connection, if its line makes a difference to it.
    pub(crate) fn on_line_event(&mut self, token: u64, flags: u32) -> bool {
        let Some(line) = &mut self.http.line else { return false };
        let (slot, generation) = slot_of(token);
        let connection = &mut self.connections[slot];
        if connection.generation != generation {
            return false;
        }
        let Some(stream) = &mut connection.stream else { return false };
        self.now_ns = monotonic_ns();
        match connection.phase {
            Phase::Connecting | Phase::Handshaking => {
                let is_handshake = connection.phase == Phase::Handshaking && line.read.is_some();
                let unread = is_handshake.then(|| self.connector.kernel.unread(stream.fd().as_raw_fd()));
                line.on_making(slot, flags, unread, self.now_ns);
            }
            Phase::Open | Phase::Leaving => {
                let client = &mut line.clients[slot];
                connection.hung_up |= flags & HANGUP != 0;
                if flags & libc::EPOLLOUT as u32 != 0 {
                    client.blocked = false;
                }
                if flags & READABLE != 0 {
                    let was_dry = match &stream.ahead {
                        None => !client.readable,
                        Some(ahead) => ahead.is_dry(),
                    };
                    client.readable = true;
                    if let Some(ahead) = &mut stream.ahead {
                        ahead.expect_more();
                    }
                    stream.top_up(&mut self.connector.kernel, connection.hung_up);
                    let comes_ns = self.now_ns + line.latency_ns / 2;
                    if line.latency_ns > 0 {
                        let ahead = stream.ahead.as_ref().map_or(0, |ahead| ahead.len());
                        let unread = self.connector.kernel.unread(stream.fd().as_raw_fd());
                        let all = stream.received + (ahead + unread) as u64;
                        client.mark(comes_ns, if connection.hung_up { u64::MAX } else { all });
                    }
                    if was_dry {
                        // Nothing was to be had before.
                        client.read.start(comes_ns);
                    }
                }
            }
            Phase::Idle | Phase::Closed => return false,
        }
        self.wake_line(slot);
        self.flush_touched();
        true
    }

    /// Does what is due on a connection, and sets its alarm for what comes next.
    fn wake_line(&mut self, slot: usize) {
        let Some(line) = &mut self.http.line else { return };
        let connection = &self.connections[slot];
        match connection.phase {
            Phase::Connecting | Phase::Handshaking if line.clients[slot].event_ns <= self.now_ns => {
                let Some(stream) = &connection.stream else { return line.alarms.set(slot, NEVER) };
                let is_handshake = connection.phase == Phase::Handshaking && line.read.is_some();
                let unread = is_handshake.then(|| self.connector.kernel.unread(stream.fd().as_raw_fd()));
                let flags = line.take_making(slot, unread, self.now_ns);
                self.on_connect_event(slot, flags);
            }
            Phase::Open | Phase::Leaving => {
                let generation = connection.generation;
                self.flush(slot);
                let connection = &self.connections[slot];
                let is_made = matches!(connection.phase, Phase::Open | Phase::Leaving);
                if is_made && connection.generation == generation && self.line_reads_ns(slot) <= self.now_ns {
                    self.read_slowly(slot);
                }
            }
            _ => {}
        }
        self.set_line_alarm(slot);
    }

    /// Sets a slot's alarm to the time of what is due first.
    fn set_line_alarm(&mut self, slot: usize) {
        let Some(line) = &self.http.line else { return };
        let due_ns = match self.connections[slot].phase {
            Phase::Connecting | Phase::Handshaking => line.clients[slot].event_ns,
            Phase::Open | Phase::Leaving => self.line_writes_ns(slot).min(self.line_reads_ns(slot)),
            Phase::Closed | Phase::Idle => NEVER,
        };
        if let Some(line) = &mut self.http.line {
            line.alarms.set(slot, due_ns);
        }
    }

    /// When a connection can write on.
    fn line_writes_ns(&self, slot: usize) -> u64 {
        let connection = &self.connections[slot];
        let (Some(line), Some(stream)) = (&self.http.line, &connection.stream) else { return NEVER };
        let (client, http) = (&line.clients[slot], &connection.http);
        let (is_clogged, left) = (stream.is_clogged(), http.out.len() - http.out_at);
        if http.broken || client.blocked || left == 0 && !is_clogged {
            return NEVER;
        }
        let shows_ns = if is_clogged { 0 } else { client.outgoing.shows_ns(http.out_offset + http.out_at as u64) };
        match line.write {
            None => shows_ns,
            Some(limit) => client.write.due_ns(limit, left.clamp(1, limit.portion())).max(shows_ns),
        }
    }

    /// When a connection can be read on.
    fn line_reads_ns(&self, slot: usize) -> u64 {
        let (Some(line), Some(stream)) = (&self.http.line, &self.connections[slot].stream) else { return NEVER };
        let input = match &stream.ahead {
            None if line.clients[slot].readable => usize::MAX,
            None => 0,
            Some(ahead) if ahead.is_dry() => 0,
            Some(ahead) => ahead.len().max(1),
        };
        line.read_due_ns(slot, stream.received, input)
    }

    /// Writes what a connection has to say, as far as its line lets it through.
    pub(crate) fn flush_slowly(&mut self, slot: usize) {
        if self.connections[slot].stream.is_none() {
            return;
        }
        self.note_departures(slot);
        loop {
            match self.write_slowly(slot) {
                Written::Some => {}
                Written::Nothing => break,
                Written::Broken => {
                    // The server may have answered, or said farewell, and closed: that is still to be had.
                    let Some(line) = &mut self.http.line else { return };
                    let connection = &mut self.connections[slot];
                    (connection.http.broken, connection.hung_up) = (true, true);
                    let client = &mut line.clients[slot];
                    client.readable = true;
                    client.incoming.begin(u64::MAX);
                    if let Some(stream) = &mut connection.stream {
                        if let Some(ahead) = &mut stream.ahead {
                            ahead.expect_more();
                        }
                        stream.top_up(&mut self.connector.kernel, true);
                    }
                    break;
                }
            }
            // What there was no room for until now follows at once.
            let connection = &mut self.connections[slot];
            connection.fill(&self.http.wire.requests);
            let end = connection.out_end();
            if let Some(line) = &mut self.http.line {
                let client = &mut line.clients[slot];
                client.outgoing.mark(self.now_ns, end);
                client.send_end = end;
            }
        }
        self.set_line_alarm(slot);
    }

    /// Notes when what a connection has to say since the last time goes out.
    fn note_departures(&mut self, slot: usize) {
        let Some(line) = &mut self.http.line else { return };
        let connection = &mut self.connections[slot];
        if connection.http.broken {
            return;
        }
        connection.fill(&self.http.wire.requests);
        let (written, end) = (connection.http.out_offset + connection.http.out_at as u64, connection.out_end());
        let (half_ns, client) = (line.latency_ns / 2, &mut line.clients[slot]);
        if end == client.send_end {
            return;
        }
        let goes_ns = (self.now_ns + half_ns).max(client.send_ns);
        if written == client.send_end {
            // Nothing waited before: for the time until now nothing is earned.
            client.write.start(goes_ns);
            client.progress_ns = self.now_ns;
        }
        client.outgoing.mark(goes_ns, end);
        client.send_end = end;
    }

    /// Writes once what is due.
    fn write_slowly(&mut self, slot: usize) -> Written {
        let Some(line) = &mut self.http.line else { return Written::Nothing };
        let connection = &mut self.connections[slot];
        let client = &mut line.clients[slot];
        let Some(stream) = &mut connection.stream else { return Written::Nothing };
        let position = connection.http.out_offset + connection.http.out_at as u64;
        let shown = client.outgoing.shown(self.now_ns).saturating_sub(position);
        let shown =
            usize::try_from(shown).unwrap_or(usize::MAX).min(connection.http.out.len() - connection.http.out_at);
        let is_clogged = stream.is_clogged();
        if connection.http.broken || client.blocked || shown == 0 && !is_clogged {
            return Written::Nothing;
        }
        let room = line.write.map_or(usize::MAX, |limit| client.write.earned(limit, self.now_ns));
        if room == 0 {
            return Written::Nothing;
        }
        self.now_ns = monotonic_ns();
        let before = stream.sent;
        // Encrypted, the records are limited and not what is in them.
        let part = if connection.encrypted { shown } else { shown.min(room) };
        stream.room_to_write = room;
        let from = connection.http.out_at;
        let written = stream.write(&mut self.connector.kernel, &connection.http.out[from..from + part]);
        stream.room_to_write = usize::MAX;
        let count = (stream.sent - before) as usize;
        let offset = connection.encrypted.then_some(before);
        if let Some(limit) = line.write {
            client.write.take(limit, count);
        }
        if count > 0 {
            client.progress_ns = self.now_ns;
        }
        match written {
            Ok(taken) => {
                // Records that the kernel has no room for wait.
                client.blocked = stream.is_clogged() && count < room;
                connection.stamp_before(position + taken as u64, self.now_ns, offset);
                connection.written(taken);
                if taken + count > 0 { Written::Some } else { Written::Nothing }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                client.blocked = count < room;
                Written::Nothing
            }
            Err(_) => Written::Broken,
        }
    }

    /// Reads what the limit lets through, and takes the frames that it completes.
    fn read_slowly(&mut self, slot: usize) {
        let generation = self.connections[slot].generation;
        for _ in 0..READS_IN_A_ROW {
            let Some(line) = &mut self.http.line else { return };
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let before = stream.received;
            let shows_ns = line.clients[slot].incoming.shows_ns(before);
            if shows_ns <= self.now_ns {
                // Until then all that had come along the line was read.
                line.clients[slot].read.start(shows_ns);
            }
            let room = line.room(slot, self.now_ns, before).min(self.buffer.len());
            if room == 0 {
                return;
            }
            let read = stream.read_at_most(&mut self.connector.kernel, &mut self.buffer, room);
            stream.top_up(&mut self.connector.kernel, connection.hung_up);
            let taken = (stream.received - before) as usize;
            self.now_ns = monotonic_ns();
            let client = &mut line.clients[slot];
            if let Some(limit) = line.read {
                client.read.take(limit, taken);
            }
            if taken > 0 {
                client.progress_ns = self.now_ns;
            }
            let count = match read {
                Ok(0) => return self.ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    client.readable &= taken >= room;
                    return;
                }
                Err(error) => return self.failed(slot, &error),
            };
            if stream.drained && taken < room && stream.ahead.is_none() && !connection.hung_up {
                client.readable = false;
            }
            connection.hung_up |= stream.ended;
            connection.http.heard_ns = self.now_ns;
            self.tally.received(count as u64, self.now_ns <= self.scheduler.end_ns);
            if !self.take(slot, generation, count, before) {
                return;
            }
            self.flush_touched();
            if self.connections[slot].generation != generation {
                return;
            }
        }
    }
}
