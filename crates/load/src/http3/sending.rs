//! What goes out: requests given to QUIC, and its datagrams given to the kernel.

use crate::connect::connection::Phase;
use crate::connect::kernel::monotonic_ns;
use crate::engine::state::Engine;
use crate::http3::malformed::code;
use crate::http3::state::Http3;
use crate::http3::streams::{Exchange, Link};
use crate::http3::wire::{Own, PreparedRequest};
use crate::schedule::scheduler::NEVER;
use bytes::Bytes;
use quinn_proto::{StreamId, VarInt, WriteError};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::SystemTime;

/// Calls that send for one connection before others have their turn.
const SENDS_MAX: usize = 64;

/// What came of sending.
pub(crate) enum Sent {
    /// Something went out; there may be more.
    Some,
    /// There is nothing to send now, or no room for it.
    Nothing,
    /// The connection is no longer there.
    Gone,
}

impl Engine<'_, Http3<'_>> {
    /// Gives a request that was just placed to QUIC, as far as the server's windows allow.
    #[inline]
    pub(crate) fn write_request(&mut self, slot: usize, place: u32, stream: StreamId) {
        let wire = self.http.wire;
        let connection = &mut self.connections[slot];
        let exchange = connection.http.at(place);
        let prepared = &wire.requests[exchange.request as usize];
        let mut own = Own::default();
        if wire.cookie_jar {
            self.http.cookies.clear();
            if let Some(url) = self.plan.requests.url(exchange.request) {
                connection.jar.write(url, SystemTime::now(), &mut self.http.cookies);
            }
            own.cookies = &self.http.cookies;
        }
        if let Some(traces) = &mut self.tally.traces {
            let number = traces.tracer.take();
            connection.http.at(place).traced = number;
            own.trace = Some(traces.tracer.ids(number));
        }
        let head = if own.cookies.is_empty() && own.trace.is_none() {
            prepared.head.clone()
        } else {
            prepared.compose(own, &mut self.http.head);
            Bytes::copy_from_slice(&self.http.head)
        };
        connection.http.at(place).head_bytes = head.len() as u32;
        self.write_pieces(slot, place, stream, [head, prepared.body.clone()]);
    }

    /// The server's windows have grown: more of a body goes out.
    pub(crate) fn write_more(&mut self, slot: usize, place: u32, stream: StreamId) {
        let exchange = self.connections[slot].http.at(place);
        if exchange.is_sent {
            return;
        }
        let since_ns = std::mem::take(&mut exchange.held_since_ns);
        let prepared: &PreparedRequest = &self.http.wire.requests[exchange.request as usize];
        let sent = exchange.written.saturating_sub(exchange.head_bytes as usize);
        let body = prepared.body.slice(sent.min(prepared.body.len())..);
        self.count_held(since_ns);
        self.write_pieces(slot, place, stream, [Bytes::new(), body]);
    }

    /// Gives QUIC what is left of a request.
    fn write_pieces(&mut self, slot: usize, place: u32, stream: StreamId, mut pieces: [Bytes; 2]) {
        let now_ns = self.now_ns;
        let http = &mut self.connections[slot].http;
        let Some(link) = &mut http.link else { return };
        let mut send = link.quic.send_stream(stream);
        let mut left: usize = pieces.iter().map(Bytes::len).sum();
        let mut written = 0;
        let mut is_held = false;
        while left > 0 {
            match send.write_chunks(&mut pieces) {
                Ok(count) if count.bytes > 0 => {
                    written += count.bytes;
                    left -= count.bytes;
                }
                Ok(_) | Err(WriteError::Blocked) => {
                    is_held = true;
                    break;
                }
                // The server wants no more of it, or the connection is over, which QUIC tells by itself.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => left = 0,
            }
        }
        if left == 0 {
            // It fails for a stream that the server has stopped, of which it is told then.
            let _ = send.finish();
        }
        let exchange = http.at(place);
        exchange.written += written;
        exchange.is_sent = left == 0;
        if is_held {
            exchange.held_since_ns = now_ns;
            self.tally.http3.counts.bodies_held += 1;
        }
    }

    /// The server wants no more of a request's body (RFC 9114 4.1).
    pub(crate) fn stop_writing(&mut self, slot: usize, place: u32, stream: StreamId) {
        let http = &mut self.connections[slot].http;
        let exchange = http.at(place);
        exchange.is_sent = true;
        let since_ns = std::mem::take(&mut exchange.held_since_ns);
        if let Some(link) = &mut http.link {
            reset(link, stream, code::NO_ERROR);
        }
        self.count_held(since_ns);
    }

    /// Has a connection written before the loop goes on.
    #[inline]
    pub(crate) fn touch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.http.listed_touched {
            connection.http.listed_touched = true;
            self.http.touched.push(slot as u32);
        }
    }

    #[inline]
    pub(crate) fn flush_touched(&mut self) {
        while let Some(slot) = self.http.touched.pop() {
            self.connections[slot as usize].http.listed_touched = false;
            self.flush(slot as usize);
        }
    }

    /// Sends what a connection has to say, as far as QUIC and the kernel let it, and finds out when it is to be asked
    /// again.
    pub(crate) fn flush(&mut self, slot: usize) {
        for _ in 0..SENDS_MAX {
            match self.send_some(slot) {
                Sent::Some => {}
                Sent::Nothing => return self.enter_deadline(slot),
                Sent::Gone => return,
            }
        }
        // The others have their turn, and then this one goes on.
        self.enter_deadline(slot);
        self.enter(slot, self.now_ns);
    }

    /// Gives the kernel what goes out with one call.
    #[inline]
    fn send_some(&mut self, slot: usize) -> Sent {
        let connection = &mut self.connections[slot];
        let Some(stream) = &mut connection.stream else { return Sent::Gone };
        let (fd, http) = (stream.fd().as_raw_fd(), &mut connection.http);
        if !http.blocked.is_empty() {
            return Sent::Nothing;
        }
        if http.line.is_some() {
            return self.send_on_line(slot);
        }
        let Some(link) = &mut http.link else { return Sent::Gone };
        self.now_ns = monotonic_ns();
        let transport = &mut self.http.transport;
        let now = transport.clock.instant(self.now_ns);
        transport.out.clear();
        let Some(transmit) = link.quic.poll_transmit(now, transport.segments_max, &mut transport.out) else {
            return Sent::Nothing;
        };
        for place in http.unsent.drain(..) {
            let exchange: &mut Exchange = &mut http.table[place as usize];
            if exchange.sent_ns == 0 {
                exchange.sent_ns = self.now_ns;
            }
        }
        if link.sets_ecn && transmit.ecn.is_none() {
            link.sets_ecn = false;
            self.connector.kernel.stop_ecn(fd, transmit.destination.is_ipv6());
        }
        stream.sent += transmit.size as u64;
        let datagram_bytes = transmit.segment_size.and_then(|size| u16::try_from(size).ok());
        match self.connector.kernel.send_datagrams(fd, &transport.out[..transmit.size], datagram_bytes) {
            Ok(()) => Sent::Some,
            Err(error) => self.not_sent(slot, &error, datagram_bytes),
        }
    }

    /// The kernel did not take datagrams.
    #[cold]
    pub(crate) fn not_sent(&mut self, slot: usize, error: &io::Error, datagram_bytes: Option<u16>) -> Sent {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => {
                let http = &mut self.connections[slot].http;
                http.blocked.extend_from_slice(&self.http.transport.out);
                http.blocked_datagram_bytes = datagram_bytes;
            }
            Some(libc::ECONNREFUSED) => {
                self.refused(slot, error);
                return Sent::Gone;
            }
            cause => {
                // As if they were lost on their way: QUIC sends again what was in them.
                self.tally.http3.counts.datagrams_refused += 1;
                if datagram_bytes.is_some() && matches!(cause, Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)) {
                    self.http.transport.segments_max = 1;
                }
            }
        }
        Sent::Some
    }

    /// The socket has room: what it had none for goes out first.
    pub(crate) fn send_blocked(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Some(stream) = &connection.stream else { return };
        let (fd, http): (RawFd, _) = (stream.fd().as_raw_fd(), &mut connection.http);
        if http.blocked.is_empty() {
            return;
        }
        let datagram_bytes = http.blocked_datagram_bytes;
        match self.connector.kernel.send_datagrams(fd, &http.blocked, datagram_bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => self.tally.http3.counts.datagrams_refused += 1,
            Ok(()) => {}
        }
        http.blocked.clear();
        self.touch(slot);
    }

    /// Finds out when a connection is to be asked again.
    #[inline]
    fn enter_deadline(&mut self, slot: usize) {
        let transport = &mut self.http.transport;
        let http = &mut self.connections[slot].http;
        let deadline = http.link.as_mut().and_then(|link| link.quic.poll_timeout());
        http.deadline_ns = deadline.map_or(NEVER, |at| transport.clock.nanoseconds(at));
        if let Some(line) = http.line.as_ref().filter(|_| http.blocked.is_empty()) {
            http.deadline_ns = http.deadline_ns.min(line.next_ns(self.now_ns));
        }
        let deadline_ns = http.deadline_ns;
        self.enter(slot, deadline_ns);
    }

    /// Has a connection asked at this time, if not sooner.
    #[inline]
    fn enter(&mut self, slot: usize, at_ns: u64) {
        let http = &mut self.connections[slot].http;
        http.deadline_ns = http.deadline_ns.min(at_ns);
        if at_ns < http.entered_ns {
            http.entered_ns = at_ns;
            self.http.transport.timers.enter(at_ns, slot);
        }
    }

    /// Has the connections asked whose time has come.
    pub(crate) fn wake_connections(&mut self) {
        while let Some((at_ns, slot)) = self.http.transport.timers.take_due(self.now_ns) {
            let http = &mut self.connections[slot].http;
            if at_ns != http.entered_ns {
                // An earlier time was entered since, which has come, too.
                continue;
            }
            http.entered_ns = NEVER;
            if http.line.is_some() {
                self.take_from_line(slot);
                self.process(slot);
                self.touch(slot);
            }
            let http = &mut self.connections[slot].http;
            let Some(link) = http.link.as_mut().filter(|_| http.deadline_ns <= self.now_ns) else {
                self.enter_deadline(slot);
                continue;
            };
            link.quic.handle_timeout(self.http.transport.clock.instant(self.now_ns));
            self.process(slot);
            self.touch(slot);
        }
        self.flush_touched();
    }

    /// Ends a connection, of which the server is told with one datagram.
    pub(crate) fn say_goodbye(&mut self, slot: usize, code: u64) {
        let now = self.http.transport.clock.instant(self.now_ns);
        let connection = &mut self.connections[slot];
        let (Some(link), Some(stream)) = (&mut connection.http.link, &connection.stream) else { return };
        if connection.phase == Phase::Connecting || link.quic.is_closed() {
            return;
        }
        link.quic.close(now, VarInt::from_u64(code).unwrap_or(VarInt::MAX), Bytes::new());
        let out = &mut self.http.transport.out;
        out.clear();
        if let Some(transmit) = link.quic.poll_transmit(now, 1, out) {
            // Whether it arrives changes nothing: the connection is over either way.
            let _ = self.connector.kernel.send_datagrams(stream.fd().as_raw_fd(), &out[..transmit.size], None);
        }
    }
}

/// Gives a stream of ours up.
pub(crate) fn reset(link: &mut Link, stream: StreamId, code: u64) {
    // It fails where the stream is over already, and then there is nothing to give up.
    let _ = link.quic.send_stream(stream).reset(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
}
