//! What the load generator says of its connections and requests.

use crate::socket::{address_slot, addresses_from_slot};
use crate::{Kind, Record, Slot};
use std::net::SocketAddr;

/// Flag of [`Kind::ClientConnection`]: it was never established.
pub const FAILED: u8 = 1;
/// Flag of [`Kind::ClientRequest`]: the request opened its connection and waited for it.
pub const OPENED_CONNECTION: u8 = 1;
/// Flag of [`Kind::ClientRequest`]: the connection is encrypted, so offsets count the bytes of TLS records.
pub const ENCRYPTED: u8 = 2;
/// Flag of [`Kind::ClientRequest`]: it was sent before, on a connection that ended without its response.
pub const RETRIED: u8 = 4;

/// Bits of a generator's lane that say that it is on another host than the first, where several hosts' recordings are
/// read as one: a generator's own lanes are made of its process's number, which leaves them.
const ON_OTHER_HOST: u32 = 3 << 30;
const HOST_SHIFT: u32 = 24;

/// The lane of a generator on another host than the first: `number` counts those of its host.
#[must_use]
pub fn lane_of_other_host(host: u32, number: u32) -> u32 {
    ON_OTHER_HOST | host << HOST_SHIFT | number
}

/// The host of a generator's lane, where several hosts' recordings are read as one.
#[must_use]
pub fn host_of_client_lane(lane: u32) -> u32 {
    if lane & ON_OTHER_HOST == ON_OTHER_HOST { (lane & !ON_OTHER_HOST) >> HOST_SHIFT } else { 0 }
}

/// A [`Kind::ClientConnection`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientConnection {
    /// The generator's own number of the connection, unique in its run.
    pub connection: u64,
    /// When the connect call was made.
    pub connect_start_ns: u64,
    /// When it was established, or given up.
    pub connected_ns: u64,
    /// Whether it failed.
    pub failed: bool,
    /// The generator's end.
    pub local: SocketAddr,
    /// The server's end.
    pub remote: SocketAddr,
}

impl ClientConnection {
    /// The record and its slots.
    #[must_use]
    pub fn write(self, lane: u32) -> (Record, [Slot; 2]) {
        let record = Record {
            time_ns: self.connected_ns,
            kind: Kind::ClientConnection as u16,
            flags: if self.failed { FAILED } else { 0 },
            slots: 2,
            lane,
            a: self.connection,
            b: self.connect_start_ns,
        };
        let ports = [u64::from(self.local.port()) | u64::from(self.remote.port()) << 16, 0, 0, 0];
        (record, [ports, address_slot(self.local.ip(), self.remote.ip())])
    }

    /// The connection of a record, if it is one and carries its slots.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        if record.kind != Kind::ClientConnection as u16 || slots.len() < 2 {
            return None;
        }
        let (local, remote) = addresses_from_slot(slots[1]);
        Some(Self {
            connection: record.a,
            connect_start_ns: record.b,
            connected_ns: record.time_ns,
            failed: record.flags & FAILED != 0,
            local: SocketAddr::new(local, slots[0][0] as u16),
            remote: SocketAddr::new(remote, (slots[0][0] >> 16) as u16),
        })
    }
}

/// How a request ended. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// A whole response came, with any status.
    Done = 0,
    /// No connection could be made, for another reason than those that have an outcome of their own.
    ConnectFailed = 1,
    /// The server closed before the head of a response had come.
    Closed = 2,
    /// The connection was reset.
    Reset = 3,
    /// The connection was there, but no whole response came in time.
    TimedOut = 4,
    /// What came is not HTTP.
    Malformed = 5,
    /// The TLS session failed.
    Tls = 6,
    /// Any other failure of a system call.
    Other = 7,
    /// The server's host refused the connection: no process listens, or no more.
    Refused = 8,
    /// No connection could be made in time.
    ConnectTimedOut = 9,
    /// The server closed in the middle of a response's body.
    ShortBody = 10,
    /// The proxy did not let the connection through.
    Proxy = 11,
    /// The generator's host has no descriptor left for a connection.
    NoDescriptors = 12,
    /// The generator's host has no port left for a connection to this address.
    NoPorts = 13,
    /// The server gave up the request's stream, of HTTP/2; the connection goes on.
    StreamReset = 14,
    /// The user did not wait any longer and clicked stop, which is no error.
    Stopped = 15,
    /// The next event of a streamed answer did not come in time.
    Stalled = 16,
    /// The server did not agree to a WebSocket.
    Upgrade = 17,
    /// The name of the server's host could not be resolved, while the run went on.
    Unresolved = 18,
}

impl Outcome {
    /// Every outcome, by its number.
    pub const ALL: [Self; 19] = [
        Self::Done,
        Self::ConnectFailed,
        Self::Closed,
        Self::Reset,
        Self::TimedOut,
        Self::Malformed,
        Self::Tls,
        Self::Other,
        Self::Refused,
        Self::ConnectTimedOut,
        Self::ShortBody,
        Self::Proxy,
        Self::NoDescriptors,
        Self::NoPorts,
        Self::StreamReset,
        Self::Stopped,
        Self::Stalled,
        Self::Upgrade,
        Self::Unresolved,
    ];

    /// The outcome of a number; unknown ones are [`Outcome::Other`].
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Other)
    }

    /// Its name in reports and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        [
            "done",
            "connect",
            "closed",
            "reset",
            "timeout",
            "malformed",
            "tls",
            "other",
            "refused",
            "connect_timeout",
            "short_body",
            "proxy",
            "no_descriptors",
            "no_ports",
            "stream_reset",
            "stopped",
            "stalled",
            "upgrade",
            "unresolved",
        ][self as usize]
    }

    /// Whether something failed, unlike a whole response or a user's wish.
    #[must_use]
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Done | Self::Stopped)
    }

    /// Whether it says something of the generator's host instead of the server.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Self::NoDescriptors | Self::NoPorts)
    }
}

/// A [`Kind::ClientRequest`]: one request from the intention to the last byte of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRequest {
    /// The generator's number of the connection it went over.
    pub connection: u64,
    /// When the schedule wanted it sent; equal to `ready_ns` in a closed loop.
    pub intended_ns: u64,
    /// When the generator began with it: took a connection, or began to open one; of a request that was sent again, the
    /// first time that it did.
    pub started_ns: u64,
    /// Just before the system call that gave its first byte to the kernel; 0 if it never came so far.
    pub sent_ns: u64,
    /// Just after the system call that brought the first byte of its response; 0 if none came.
    pub first_byte_ns: u64,
    /// Just after the system call that brought the last byte of its response, or the failure.
    pub done_ns: u64,
    /// Bytes of the connection before the request's first, in the direction to the server.
    pub request_offset: u64,
    /// Bytes of the request.
    pub request_bytes: u32,
    /// Bytes of the connection before the response's first, in the direction from the server.
    pub response_offset: u64,
    /// Bytes of the response, head and body.
    pub response_bytes: u64,
    /// Status code, 0 if none came.
    pub status: u16,
    /// Dictionary id of its name: method and path.
    pub name: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it opened its connection and waited for that.
    pub opened_connection: bool,
    /// Whether offsets count bytes of TLS records.
    pub encrypted: bool,
    /// Whether it was sent before, on a connection that ended without its response.
    pub retried: bool,
    /// The major version of HTTP that was spoken: 1, 2, 3; 0 where the client does not tell.
    pub http_version: u8,
    /// The number of its stream of HTTP/2, 0 where there is none or the client does not tell.
    pub stream: u32,
}

impl ClientRequest {
    /// The record and its slots.
    #[must_use]
    pub fn write(self, lane: u32) -> (Record, [Slot; 3]) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(self.opened_connection, OPENED_CONNECTION)
            | flag(self.encrypted, ENCRYPTED)
            | flag(self.retried, RETRIED);
        let record = Record {
            time_ns: self.done_ns,
            kind: Kind::ClientRequest as u16,
            flags,
            slots: 3,
            lane,
            a: self.connection,
            b: self.request_offset,
        };
        let times = [self.intended_ns, self.started_ns, self.sent_ns, self.first_byte_ns];
        let sizes = [self.response_offset, self.response_bytes, u64::from(self.request_bytes), u64::from(self.stream)];
        let how = (self.outcome as u64) << 16 | u64::from(self.http_version) << 24;
        let what = [u64::from(self.status) | how | u64::from(self.name) << 32, 0, 0, 0];
        (record, [times, sizes, what])
    }

    /// The request of a record, if it is one and carries its slots.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        if record.kind != Kind::ClientRequest as u16 || slots.len() < 3 {
            return None;
        }
        let ([intended_ns, started_ns, sent_ns, first_byte_ns], sizes, what) = (slots[0], slots[1], slots[2][0]);
        Some(Self {
            connection: record.a,
            intended_ns,
            started_ns,
            sent_ns,
            first_byte_ns,
            done_ns: record.time_ns,
            request_offset: record.b,
            request_bytes: sizes[2] as u32,
            response_offset: sizes[0],
            response_bytes: sizes[1],
            status: what as u16,
            name: (what >> 32) as u32,
            outcome: Outcome::from_code((what >> 16) as u8),
            opened_connection: record.flags & OPENED_CONNECTION != 0,
            encrypted: record.flags & ENCRYPTED != 0,
            retried: record.flags & RETRIED != 0,
            http_version: (what >> 24) as u8,
            stream: sizes[3] as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_round_trip() {
        let request = ClientRequest {
            connection: 3,
            intended_ns: 10,
            started_ns: 11,
            sent_ns: 12,
            first_byte_ns: 20,
            done_ns: 21,
            request_offset: 1 << 40,
            request_bytes: 70_000,
            response_offset: 1 << 41,
            response_bytes: 1 << 33,
            status: 404,
            name: 77,
            outcome: Outcome::Reset,
            opened_connection: true,
            encrypted: true,
            retried: true,
            http_version: 2,
            stream: 4_000_000_001,
        };
        let (record, slots) = request.write(5);
        assert_eq!(ClientRequest::read(&record, &slots), Some(request));
        assert_eq!(ClientRequest::read(&record, &slots[..2]), None);
        // Each flag is one of its own.
        let plain = ClientRequest { opened_connection: false, encrypted: false, retried: false, ..request };
        for flagged in [
            ClientRequest { opened_connection: true, ..plain },
            ClientRequest { encrypted: true, ..plain },
            ClientRequest { retried: true, ..plain },
        ] {
            let (record, slots) = flagged.write(5);
            assert_eq!(ClientRequest::read(&record, &slots), Some(flagged));
        }
    }

    #[test]
    fn a_connection_survives_the_round_trip() {
        let connection = ClientConnection {
            connection: 9,
            connect_start_ns: 1,
            connected_ns: 2,
            failed: true,
            local: "127.0.0.1:4000".parse().expect("an address"),
            remote: "[2001:db8::1]:80".parse().expect("an address"),
        };
        let (record, slots) = connection.write(0);
        assert_eq!(ClientConnection::read(&record, &slots), Some(connection));
    }

    #[test]
    fn outcomes_keep_their_numbers() {
        for (code, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(*outcome as usize, code);
            assert_eq!(Outcome::from_code(code as u8), *outcome);
        }
        assert_eq!(Outcome::from_code(200), Outcome::Other);
    }
}
