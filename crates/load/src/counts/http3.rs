//! What is counted of HTTP/3 alone.

use crate::carried::carried;
use crate::counts::remarks::CodeCounts;

/// What one loop counts of HTTP/3; loops' tallies add up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Http3Tally {
    pub(crate) counts: Http3Counts,
    /// The codes by which servers ended connections, but for the one that says that nothing is wrong.
    pub(crate) closes: CodeCounts,
}

/// What is counted of HTTP/3 alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Http3Counts {
    /// Requests that went out in 0-RTT, before the handshake was over, and that the server took so.
    pub early_accepted: u64,
    /// Those that it refused so, and that went out again behind the handshake.
    pub early_refused: u64,
    /// How often a connection moved to another port of this host.
    pub moves: u64,
    /// Requests that failed because nothing of the server's came after their connection had moved.
    pub moves_lost: u64,
    /// How often the server's flow window held up the body of a request, and for how long in all, in nanoseconds.
    pub bodies_held: u64,
    /// As above.
    pub bodies_held_ns: u64,
    /// How often the server's limit on streams held up requests, and for how long in all, in nanoseconds; a connection
    /// that waits with several requests counts once.
    pub streams_held: u64,
    /// As above.
    pub streams_held_ns: u64,
    /// How often the server said that this client's flow windows hold it up.
    pub windows_told: u64,
    /// Packets of this client's that were lost on their way, as QUIC sees it.
    pub packets_lost: u64,
    /// Datagrams that the kernel did not take, which QUIC treats as lost.
    pub datagrams_refused: u64,
    /// Datagrams that came and did not fit on a slow client's line, which QUIC treats as lost.
    pub datagrams_dropped: u64,
}

carried!(Http3Tally { counts, closes });
carried!(Http3Counts {
    early_accepted,
    early_refused,
    moves,
    moves_lost,
    bodies_held,
    bodies_held_ns,
    streams_held,
    streams_held_ns,
    windows_told,
    packets_lost,
    datagrams_refused,
    datagrams_dropped,
});

impl Http3Tally {
    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        let (own, more) = (&mut self.counts, &other.counts);
        own.early_accepted += more.early_accepted;
        own.early_refused += more.early_refused;
        own.moves += more.moves;
        own.moves_lost += more.moves_lost;
        own.bodies_held += more.bodies_held;
        own.bodies_held_ns += more.bodies_held_ns;
        own.streams_held += more.streams_held;
        own.streams_held_ns += more.streams_held_ns;
        own.windows_told += more.windows_told;
        own.packets_lost += more.packets_lost;
        own.datagrams_refused += more.datagrams_refused;
        own.datagrams_dropped += more.datagrams_dropped;
        self.closes.merge(&other.closes);
    }
}
