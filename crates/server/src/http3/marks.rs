//! Marks by which a tracer follows requests of HTTP/3, which no socket tells apart: datagrams of all clients come and go
//! over one, and are sealed. A mark costs nothing that can be measured unless a tracer is there.
//!
//! What sets a mark is never inlined: where all its callers have it within them, the linker drops the function itself, but
//! not the note that says where its mark is, and that leads nowhere then.

use super::stream::number_of;
use quinn_proto::StreamId;
use weir_wire::static_probe;

/// How much shorter than a full datagram one can be although more was to be sent: QUIC begins no frame in the last bytes.
const SLACK_BYTES: usize = 32;

/// Where among the datagrams that were received by one call a connection's first one stood; a tracer knows when each of
/// them arrived.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenIn {
    /// Nothing was received since the connection's last turn.
    #[default]
    Nothing,
    /// The first one stood here, from 0 on, among so many.
    At { index: u16, of: u16 },
    /// Others were received since, or another server did it.
    Earlier,
}

impl TakenIn {
    /// As marks tell it: how many datagrams, and from 1 on the place; 0 where it is not known.
    fn told(self) -> u64 {
        match self {
            Self::At { index, of } => u64::from(of) << 16 | (u64::from(index) + 1),
            Self::Nothing | Self::Earlier => 0,
        }
    }
}

/// Whether QUIC holds the end of a response that no datagram has carried for certain yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    #[default]
    Nothing,
    /// A response was begun or ended since QUIC had nothing more to send.
    Some,
}

/// The head of a request was read; method and path are told as two pieces.
#[inline(never)]
pub(super) fn request(connection: u64, id: StreamId, name: [&str; 2], taken_in: TakenIn) {
    let pieces = name.map(|piece| std::io::IoSlice::new(piece.as_bytes()));
    static_probe!("quic_request", connection, stream_of(id) | taken_in.told() << 32, pieces.as_ptr(), pieces.len());
}

/// QUIC was given the first bytes of a response.
#[inline(never)]
pub(super) fn begun(connection: u64, id: StreamId, status: u16) {
    static_probe!("quic_begun", connection, stream_of(id), u64::from(status), 0_u64);
}

/// QUIC was given the last bytes of a response, so many in all.
#[inline(never)]
pub(super) fn ended(connection: u64, id: StreamId, status: u16, bytes: u64) {
    static_probe!("quic_ended", connection, stream_of(id), u64::from(status), bytes);
}

/// A stream was given up by one of the two sides.
#[inline(never)]
pub(super) fn given_up(connection: u64, id: StreamId) {
    static_probe!("quic_given_up", connection, stream_of(id), 0_u64, 0_u64);
}

/// The client has acknowledged all of a response.
#[inline(never)]
pub(super) fn acknowledged(connection: u64, id: StreamId) {
    static_probe!("quic_acknowledged", connection, stream_of(id), 0_u64, 0_u64);
}

/// A connection serves nothing more.
#[inline(never)]
pub(super) fn closed(connection: u64) {
    static_probe!("quic_closed", connection, 0_u64, 0_u64, 0_u64);
}

/// The datagrams that go out next carry content of a connection's streams: all that it has, or not.
#[inline(never)]
fn carried(connection: u64, all: bool) {
    if all {
        static_probe!("quic_emptied", connection, 0_u64, 0_u64, 0_u64);
    } else {
        static_probe!("quic_carried", connection, 0_u64, 0_u64, 0_u64);
    }
}

/// What the datagrams carry that QUIC has just made, if they carry content: called before they go out. `content` is how
/// many frames with content had been made before them.
pub(super) fn made(
    quic: &quinn_proto::Connection,
    connection: u64,
    content: u64,
    transmit: &quinn_proto::Transmit,
) -> Held {
    let stats = quic.stats();
    if stats.frame_tx.stream == content {
        return Held::Some;
    }
    // QUIC fills each datagram as long as it has something for it.
    let last_bytes = transmit.segment_size.map_or(transmit.size, |size| match transmit.size % size.max(1) {
        0 => size,
        rest => rest,
    });
    let all = last_bytes + SLACK_BYTES < usize::from(stats.path.current_mtu);
    carried(connection, all);
    if all { Held::Nothing } else { Held::Some }
}

/// The stream as marks tell it: which request of its connection it is, from 1 on.
fn stream_of(id: StreamId) -> u64 {
    (number_of(id) / 4 + 1) & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_among_datagrams_is_told_from_one_on() {
        assert_eq!(TakenIn::At { index: 0, of: 1 }.told(), 0x1_0001);
        assert_eq!(TakenIn::At { index: 15, of: 16 }.told(), 0x10_0010);
        assert_eq!(TakenIn::Earlier.told(), TakenIn::Nothing.told());
    }
}
