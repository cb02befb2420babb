//! The way of slow clients' datagrams: what the loop does otherwise over HTTP/3.
//!
//! A connection is one client's line. What the kernel received is put on it, and QUIC takes each datagram when its bytes are
//! through the read limit and over half of the way. QUIC is asked for a datagram when those before it are through the write
//! limit, and the kernel is given it when it is over its half of the way. QUIC's own windows let come what the line holds,
//! as the receive buffer of TCP does: what does not fit is dropped as a router drops it, and counted.

use crate::connect::kernel::monotonic_ns;
use crate::engine::state::Engine;
use crate::http3::line::Arrived;
use crate::http3::sending::Sent;
use crate::http3::state::Http3;
use std::os::fd::AsRawFd;

impl Engine<'_, Http3<'_>> {
    /// Puts what the kernel received on a connection's line.
    pub(crate) fn put_on_line(&mut self, slot: usize, count: usize) {
        let now_ns = self.now_ns;
        let Some(line) = &mut self.connections[slot].http.line else { return };
        for place in 0..count {
            let (reception, bytes) = self.http.transport.inbox.reception(place);
            for datagram in bytes.chunks(reception.datagram_bytes.max(1)) {
                let arrived = Arrived { bytes: datagram.into(), ecn: reception.ecn };
                if !line.inbound.put(now_ns, now_ns, arrived) {
                    self.tally.http3.counts.datagrams_dropped += 1;
                }
            }
        }
        self.take_from_line(slot);
        self.touch(slot);
    }

    /// Hands what has come through a connection's line to QUIC.
    pub(crate) fn take_from_line(&mut self, slot: usize) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[slot];
        let endpoint = &self.http.host.route.endpoints[connection.address];
        let http = &mut connection.http;
        let (Some(line), Some(link), Some(from)) = (&mut http.line, &mut http.link, endpoint.address()) else { return };
        let transport = &mut self.http.transport;
        let now = transport.clock.instant(now_ns);
        let (mut is_heard, mut bytes) = (false, 0);
        while let Some(arrived) = line.inbound.take_due(now_ns) {
            bytes += arrived.bytes.len() as u64;
            is_heard |= transport.take_one((&arrived.bytes, arrived.ecn), from, link.handle, &mut link.quic, now);
        }
        if bytes > 0 {
            line.progress_ns = now_ns;
            // How long it lay in the kernel says nothing of a client whose line takes its time.
            self.taken_in(slot, bytes, is_heard.then_some(0));
        }
    }

    /// Gives the kernel what is over a connection's line, and puts the next datagram of QUIC on it.
    pub(crate) fn send_on_line(&mut self, slot: usize) -> Sent {
        self.now_ns = monotonic_ns();
        let now_ns = self.now_ns;
        let connection = &mut self.connections[slot];
        let (http, Some(stream)) = (&mut connection.http, &mut connection.stream) else { return Sent::Gone };
        let Some(line) = &mut http.line else { return Sent::Gone };
        if let Some(datagram) = line.outbound.take_due(now_ns) {
            line.progress_ns = now_ns;
            return match self.connector.kernel.send_datagrams(stream.fd().as_raw_fd(), &datagram, None) {
                Ok(()) => Sent::Some,
                Err(error) => {
                    self.http.transport.out = datagram;
                    self.not_sent(slot, &error, None)
                }
            };
        }
        let Some(link) = &mut http.link else { return Sent::Gone };
        if !line.outbound.is_free(now_ns) {
            line.is_held_back = true;
            return Sent::Nothing;
        }
        let was_held_back = std::mem::take(&mut line.is_held_back);
        let transport = &mut self.http.transport;
        let mut datagram = Vec::new();
        let Some(transmit) = link.quic.poll_transmit(transport.clock.instant(now_ns), 1, &mut datagram) else {
            return Sent::Nothing;
        };
        for place in http.unsent.drain(..) {
            let exchange = &mut http.table[place as usize];
            if exchange.sent_ns == 0 {
                exchange.sent_ns = now_ns;
            }
        }
        datagram.truncate(transmit.size);
        stream.sent += transmit.size as u64;
        let since_ns = if was_held_back { line.outbound.waits_since_ns(now_ns) } else { now_ns };
        // There was room just above.
        line.outbound.put(since_ns, now_ns, datagram);
        Sent::Some
    }

    /// Whether a limited line has carried something within the time that a response may take: all of it may take longer,
    /// until the run is over.
    pub(crate) fn is_slowly_moving(&self, slot: usize) -> bool {
        self.connections[slot].http.line.as_ref().is_some_and(|line| {
            let still_ns = self.now_ns.saturating_sub(line.progress_ns);
            line.is_limited && still_ns <= self.plan.timeout_ns && self.now_ns < self.scheduler.give_up_ns
        })
    }
}
