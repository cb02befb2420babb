//! The line of a slow client over HTTP/3: what is on its way, in both directions.

use crate::schedule::scheduler::NEVER;
use crate::slow::Link;
use crate::slow::datagrams::Datagrams;
use crate::slow::tokens::Limit;

/// What a line holds beside what the server's windows let come: handshakes, acknowledgements, what is sent again.
const SPARE_BYTES: usize = 64 << 10;
/// What a line without a limit holds in each direction.
const UNLIMITED_BYTES: usize = 16 << 20;

/// A datagram that came, with its congestion bits.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) ecn: u8,
}

impl AsRef<[u8]> for Arrived {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The line of one client.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) inbound: Datagrams<Arrived>,
    pub(crate) outbound: Datagrams<Vec<u8>>,
    pub(crate) is_limited: bool,
    /// Whether QUIC was not asked for a datagram, as the line was not free.
    pub(crate) is_held_back: bool,
    /// When a datagram last came through, in either direction.
    pub(crate) progress_ns: u64,
}

impl Line {
    /// The line of a client; `None` where it is not slow.
    pub(crate) fn new(link: &Link) -> Option<Box<Self>> {
        if *link == Link::default() {
            return None;
        }
        // At most an hour.
        let way_ns = link.latency.as_nanos() as u64 / 2;
        let inbound_bytes = link.line_bytes().map_or(UNLIMITED_BYTES, |bytes| bytes as usize + SPARE_BYTES);
        Some(Box::new(Self {
            inbound: Datagrams::new(link.read_bytes_per_s.map(Limit::new), way_ns, inbound_bytes),
            outbound: Datagrams::new(link.write_bytes_per_s.map(Limit::new), way_ns, UNLIMITED_BYTES),
            is_limited: link.read_bytes_per_s.is_some() || link.write_bytes_per_s.is_some(),
            is_held_back: false,
            progress_ns: 0,
        }))
    }

    /// Makes it that of another connection.
    pub(crate) fn reset(&mut self) {
        self.inbound.reset();
        self.outbound.reset();
        (self.is_held_back, self.progress_ns) = (false, 0);
    }

    /// Its client moves: what was on its way to the place before is lost.
    pub(crate) fn moves(&mut self) {
        self.inbound.reset();
    }

    /// When it is to be looked at.
    pub(crate) fn next_ns(&self, now_ns: u64) -> u64 {
        let free_ns = self.outbound.free_ns();
        self.inbound.next_ns().min(self.outbound.next_ns()).min(if free_ns > now_ns { free_ns } else { NEVER })
    }
}
