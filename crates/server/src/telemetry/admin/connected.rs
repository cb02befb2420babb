//! What the admin address asks loops: who is connected, and to end connections and requests.

use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Connections that one loop tells of at most.
pub(crate) const CONNECTIONS_MAX: usize = 1000;

/// Bits of a connection's number that count the connections of a loop.
const COUNT_BITS: u32 = 48;

/// The part of the server that has the connections.
pub(crate) trait Connected: fmt::Debug + Send + Sync {
    /// Those that are open: the busy ones first, then the oldest.
    fn connections(&self, of: Option<IpAddr>) -> Connections;
    /// Ends what is meant.
    fn stop(&self, what: Stop) -> Ended;
}

/// A connection's number, written as `LOOP-COUNT`; no two connections of a server have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionId(pub(crate) u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0 >> COUNT_BITS, self.0 & ((1 << COUNT_BITS) - 1))
    }
}

impl FromStr for ConnectionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (index, count) = text.split_once('-').ok_or(())?;
        let (index, count): (u16, u64) = (index.parse().map_err(drop)?, count.parse().map_err(drop)?);
        if count >> COUNT_BITS != 0 { Err(()) } else { Ok(Self(u64::from(index) << COUNT_BITS | count)) }
    }
}

impl Serialize for ConnectionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A connection, with all that is under way on it.
    Connection(ConnectionId),
    /// One request of a connection of HTTP/2 or HTTP/3, by the number of its stream; of one of HTTP/1 the connection
    /// ends with it.
    Request(ConnectionId, u64),
    /// All connections of an address.
    Client(IpAddr),
}

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Ended {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Loops that have not answered in time; they end it later.
    pub(crate) silent_loops: usize,
}

/// Who is connected.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Connections {
    pub(crate) connections: Vec<ConnectionNow>,
    /// Connections of which nothing is told, as a loop tells of 1,000 at most.
    pub(crate) left_out: usize,
    /// Loops that have not answered in time.
    pub(crate) silent_loops: usize,
}

/// An open connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConnectionNow {
    pub(crate) id: ConnectionId,
    /// The client, also where a proxy passes it on; of a Unix socket the unspecified address.
    pub(crate) client: SocketAddr,
    pub(crate) protocol: &'static str,
    pub(crate) is_secure: bool,
    /// Since it was accepted, or came from another server.
    pub(crate) age_ms: u64,
    /// What it is about: reading, idle, body, sending, password, closing.
    pub(crate) state: &'static str,
    /// Requests so far; none where they are not counted (HTTP/1 of a server without history and log).
    pub(crate) requests: Option<u64>,
    /// Bytes that the client has sent, and that it has acknowledged, those of TLS included; none where the kernel does not
    /// say.
    pub(crate) received_bytes: Option<u64>,
    pub(crate) sent_bytes: Option<u64>,
    /// Requests under way; `path` is known of a server with a history.
    pub(crate) under_way: Vec<UnderWay>,
}

impl ConnectionNow {
    /// The busy ones stand first, then the oldest.
    pub(crate) fn rank(&self) -> (bool, std::cmp::Reverse<u64>) {
        (self.under_way.is_empty(), std::cmp::Reverse(self.age_ms))
    }
}

/// A request under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UnderWay {
    /// The number of its stream; none for HTTP/1.
    pub(crate) stream: Option<u64>,
    /// Method and path, where the server keeps a history.
    pub(crate) request: Option<String>,
    /// Bytes that the system has taken of the response.
    pub(crate) sent_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_number_is_read_as_it_is_written(index in 0_u64..1 << 16, count in 0_u64..1 << 48) {
            let id = ConnectionId(index << 48 | count);
            proptest::prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["", "1", "-", "1-", "-1", "65536-1", "0-281474976710656", "1-2-3", "a-1"] {
            assert!(bad.parse::<ConnectionId>().is_err(), "{bad}");
        }
    }
}
