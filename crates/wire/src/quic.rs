//! What is known of HTTP/3 at weir's own server: datagrams at its sockets, and what its marks tell.

use crate::{Kind, Record};

/// What a [`Kind::Quic`] tells: its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum QuicEvent {
    /// A datagram arrived at a socket.
    Arrival = 1,
    /// A socket was found empty.
    Empty = 2,
    /// The head of a request was read.
    Request = 3,
    /// A response was begun.
    Begun = 4,
    /// The last byte of a response was given to QUIC.
    Ended = 5,
    /// A stream was given up by one of the two sides.
    GivenUp = 6,
    /// The next datagrams carry content of the connection.
    Carried = 7,
    /// The same, and all that it has.
    Emptied = 8,
    /// The client has acknowledged a response.
    Acknowledged = 9,
    /// A connection is over.
    Closed = 10,
}

impl QuicEvent {
    /// All of them, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::Arrival,
        Self::Empty,
        Self::Request,
        Self::Begun,
        Self::Ended,
        Self::GivenUp,
        Self::Carried,
        Self::Emptied,
        Self::Acknowledged,
        Self::Closed,
    ];

    fn from_flags(flags: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|event| *event as u8 == flags)
    }
}

/// A [`Kind::Quic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quic {
    /// What it tells.
    pub event: QuicEvent,
    /// The socket, or the connection as the server's task numbers it.
    pub connection: u32,
    /// Which request of its connection it is, from 1 on; 0 = the connection itself.
    pub stream: u32,
    /// What else the event has.
    pub more: u64,
}

impl Quic {
    /// The record.
    #[must_use]
    pub fn write(self, time_ns: u64, lane: u32) -> Record {
        Record {
            time_ns,
            kind: Kind::Quic as u16,
            flags: self.event as u8,
            lane,
            a: u64::from(self.connection) | u64::from(self.stream) << 32,
            b: self.more,
            ..Record::default()
        }
    }

    /// What a record tells, if it is one.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        if record.kind != Kind::Quic as u16 {
            return None;
        }
        let (connection, stream) = record.a_halves();
        Some(Self { event: QuicEvent::from_flags(record.flags)?, connection, stream, more: record.b })
    }

    /// Whether it names a text of the dictionary, by the lower half of what else it has.
    #[must_use]
    pub fn is_named(self) -> bool {
        self.event == QuicEvent::Request
    }

    /// Whether its number is a socket's, and not a connection's.
    #[must_use]
    pub fn is_of_socket(self) -> bool {
        matches!(self.event, QuicEvent::Arrival | QuicEvent::Empty)
    }

    /// Of a request: which of the datagrams that were received at once brought its connection's first bytes, counted from
    /// the last one of them backwards from 0 on; `None` where it is not known.
    #[must_use]
    pub fn datagrams_back(self) -> Option<usize> {
        let (place, of) = ((self.more >> 32) as u16, (self.more >> 48) as u16);
        of.checked_sub(place).filter(|_| self.event == QuicEvent::Request && place > 0).map(usize::from)
    }

    /// Of a response: its status.
    #[must_use]
    pub fn status(self) -> u16 {
        self.more as u16
    }

    /// Of the end of a response: its bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.more >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_told_comes_back(event in 0usize..10, connection: u32, stream: u32, more: u64) {
            let told = Quic { event: QuicEvent::ALL[event], connection, stream, more };
            prop_assert_eq!(Quic::read(&told.write(7, 3)), Some(told));
        }

        #[test]
        fn no_record_breaks_it(flags: u8, a: u64, b: u64) {
            let record = Record { kind: Kind::Quic as u16, flags, a, b, ..Record::default() };
            if let Some(told) = Quic::read(&record) {
                prop_assert!(told.datagrams_back().is_none_or(|back| back < 1 << 16));
            }
        }
    }

    #[test]
    fn a_place_among_datagrams_is_counted_back_from_the_last() {
        let request = |place: u64, of: u64| Quic {
            event: QuicEvent::Request,
            connection: 1,
            stream: 1,
            more: 7 | place << 32 | of << 48,
        };
        assert_eq!(request(1, 3).datagrams_back(), Some(2));
        assert_eq!(request(3, 3).datagrams_back(), Some(0));
        assert_eq!(request(0, 0).datagrams_back(), None, "the server does not know");
        assert_eq!(request(4, 3).datagrams_back(), None, "damage");
        let ended = Quic { event: QuicEvent::Ended, more: 404 | 1 << 30, ..request(0, 0) };
        assert_eq!((ended.status(), ended.bytes()), (404, 1 << 14));
    }
}
