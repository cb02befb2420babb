//! Operands of the sockets' events.

use crate::{Kind, Record, Slot};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Flag of [`Kind::SocketReady`]: no task has accepted the connection yet.
pub const NOT_ACCEPTED: u8 = 1;
/// Flag of [`Kind::SocketRecv`] and [`Kind::SocketSend`]: end of stream.
pub const END_OF_STREAM: u8 = 1;
/// Flag of [`Kind::SocketRecv`] and [`Kind::SocketSend`]: the call failed.
pub const ERROR: u8 = 2;
/// Flag of [`Kind::SocketRecv`]: the data was looked at, not taken.
pub const PEEK: u8 = 4;
/// Flag of [`Kind::SocketRecv`] and [`Kind::SocketSend`]: not TCP, so the position is a length.
pub const NO_POSITION: u8 = 8;
/// Flag of [`Kind::SocketRecv`]: these were the connection's first bytes, and they were the preface of HTTP/2
/// (RFC 9113, section 3.4).
pub const HTTP2: u8 = 16;
/// Flag of [`Kind::SocketRecv`]: these were the connection's first bytes, and they were a TLS handshake's.
pub const TLS: u8 = 32;

/// Flag of [`Kind::SocketSend`]: what was given stays with the sender until the receiver acknowledges what was sent before
/// (Nagle's algorithm, RFC 9293, section 3.7.4).
pub const HELD_BACK: u8 = 16;

/// Flag of [`Kind::SocketOpen`]: the socket is older than this event, and has been used before.
pub const OLDER: u8 = 1;

/// Flag of [`Kind::SocketPeer`]: the first end is the one that was accepted.
pub const ACCEPTED: u8 = 1;
/// Flag of [`Kind::SocketPeer`]: the ends are sockets of two hosts, whose recordings are read as one. No run holds it.
pub const FAR: u8 = 2;

/// Bits of a network namespace's number below those that tell its host, where several hosts' recordings are read as one.
/// The kernel gives numbers from 0xe000_0000 on.
const NAMESPACE_BITS: u32 = 29;
/// Hosts whose recordings can be read as one: as many as the bits above tell apart.
pub const MOST_HOSTS: u32 = 8;

/// The number of a network namespace among those of several hosts; that of the first host (0) stays as it is.
#[must_use]
pub fn namespace_on_host(netns: u32, host: u32) -> u32 {
    if netns == 0 { 0 } else { netns ^ (host % MOST_HOSTS) << NAMESPACE_BITS }
}

/// Whether two network namespaces are of one host, as far as their numbers tell; 0 is a namespace that is not known.
#[must_use]
pub fn same_host(one: u32, other: u32) -> bool {
    one == 0 || other == 0 || (one ^ other) >> NAMESPACE_BITS == 0
}

/// A [`Kind::SocketOpen`]: who a socket is, and where its byte streams begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOpen {
    /// The socket's short id: the low half of its cookie.
    pub socket: u32,
    /// TCP sequence number of the first byte to be received.
    pub receive_base: u32,
    /// TCP sequence number of the first byte to be sent.
    pub send_base: u32,
    /// The kernel's cookie of the socket, unique since boot.
    pub cookie: u64,
    /// Inode number of the network namespace, 0 where unknown.
    pub netns: u32,
    /// Our end, on the recorded host.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

/// Packs two socket addresses (ports apart) into two slots, IPv4 as mapped IPv6.
fn address_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// Reads what [`address_words`] wrote; mapped addresses come back as IPv4, so that both ends compare equal.
fn address_from_words(high: u64, low: u64) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

/// The slots of two addresses, shared by sockets and client connections.
pub(crate) fn address_slot(local: IpAddr, remote: IpAddr) -> Slot {
    let ([a, b], [c, d]) = (address_words(local), address_words(remote));
    [a, b, c, d]
}

/// Reads what [`address_slot`] wrote: (local, remote).
pub(crate) fn addresses_from_slot(slot: Slot) -> (IpAddr, IpAddr) {
    (address_from_words(slot[0], slot[1]), address_from_words(slot[2], slot[3]))
}

impl SocketOpen {
    /// The record and its slots.
    #[must_use]
    pub fn write(self, time_ns: u64, lane: u32) -> (Record, [Slot; 2]) {
        let record = Record {
            time_ns,
            kind: Kind::SocketOpen as u16,
            slots: 2,
            lane,
            a: u64::from(self.socket) | u64::from(self.receive_base) << 32,
            b: u64::from(self.send_base) | u64::from(self.local.port()) << 32 | u64::from(self.remote.port()) << 48,
            ..Record::default()
        };
        let identity = [self.cookie, u64::from(self.netns), 0, 0];
        (record, [identity, address_slot(self.local.ip(), self.remote.ip())])
    }

    /// The socket of a record, if it is one and carries its slots.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        if record.kind != Kind::SocketOpen as u16 || slots.len() < 2 {
            return None;
        }
        let (socket, receive_base) = record.a_halves();
        let (local, remote) = addresses_from_slot(slots[1]);
        Some(Self {
            socket,
            receive_base,
            send_base: record.b as u32,
            cookie: slots[0][0],
            netns: slots[0][1] as u32,
            local: SocketAddr::new(local, (record.b >> 32) as u16),
            remote: SocketAddr::new(remote, (record.b >> 48) as u16),
        })
    }
}

/// A [`Kind::SocketState`] taken apart; the states are the kernel's (net/tcp_states.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketState {
    /// The socket's short id.
    pub socket: u32,
    /// The state before.
    pub old: u8,
    /// The state from now on.
    pub new: u8,
}

impl SocketState {
    /// The operands of a record, if it is a change of state.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (socket, _) = record.a_halves();
        (record.kind == Kind::SocketState as u16).then_some(Self {
            socket,
            old: record.b as u8,
            new: (record.b >> 8) as u8,
        })
    }

    /// Whether the running task begins to make a connection: TCP_SYN_SENT.
    #[must_use]
    pub fn begins_to_connect(self) -> bool {
        self.new == 2
    }
}

/// The upper half of an address that stands for a hash of a client's: of the block for local use (RFC 4193), `weir` in its
/// letters.
pub const HASHED_CLIENT: u64 = 0xfd77_6569_7200_0000;

/// A client by its address in a report: as it is, or where a hash stands for it by its first eight digits and how to have
/// the address.
#[must_use]
pub fn client_words(address: IpAddr) -> String {
    match address {
        IpAddr::V6(v6) if (v6.to_bits() >> 64) as u64 == HASHED_CLIENT => {
            format!("{:08x}… (address hashed; weir record --keep-addresses names it)", (v6.to_bits() as u64) >> 32)
        }
        _ => address.to_string(),
    }
}

/// The address of IPv6 with these bits, or the one of IPv4 that it stands for, and a port.
#[must_use]
pub fn socket_address(bits: u128, port: u16) -> SocketAddr {
    SocketAddr::new(address_from_words((bits >> 64) as u64, bits as u64), port)
}

/// The bits of an address that is written out, as one of IPv6; none of what is no address.
#[must_use]
pub fn address_bits(text: &str) -> Option<u128> {
    let [high, low] = address_words(text.parse().ok()?);
    Some(u128::from(high) << 64 | u128::from(low))
}

/// The same of an address with its port, `127.0.0.1:80` or `[::1]:80`.
#[must_use]
pub fn socket_address_bits(text: &str) -> Option<(u128, u16)> {
    let address: SocketAddr = text.parse().ok()?;
    let [high, low] = address_words(address.ip());
    Some((u128::from(high) << 64 | u128::from(low), address.port()))
}

/// An address that stands for "unknown".
#[must_use]
pub fn unknown_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hashed_client_says_so() {
        let hashed = Ipv6Addr::from_bits(u128::from(HASHED_CLIENT) << 64 | 0x0123_4567_89ab_cdef);
        assert_eq!(
            client_words(IpAddr::V6(hashed)),
            "01234567… (address hashed; weir record --keep-addresses names it)"
        );
        assert_eq!(client_words(IpAddr::from([198, 51, 100, 7])), "198.51.100.7");
    }

    proptest! {
        #[test]
        fn a_socket_survives_the_round_trip(socket: u32, receive_base: u32, send_base: u32, cookie: u64, netns: u32, local: SocketAddr, remote: SocketAddr) {
            // Flow labels and scopes of IPv6 are no part of who a TCP socket is to us.
            let plain = |address: SocketAddr| match address.ip() {
                IpAddr::V6(v6) => SocketAddr::new(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4), address.port()),
                ip => SocketAddr::new(ip, address.port()),
            };
            let open = SocketOpen { socket, receive_base, send_base, cookie, netns, local: plain(local), remote: plain(remote) };
            let (record, slots) = open.write(7, 1);
            prop_assert_eq!(SocketOpen::read(&record, &slots), Some(open));
            prop_assert_eq!(SocketOpen::read(&record, &slots[..1]), None);
            let (bits, port) = socket_address_bits(&plain(local).to_string()).expect("an address");
            prop_assert_eq!((socket_address(bits, port), address_bits(&local.ip().to_string())), (plain(local), Some(bits)));
        }
    }
}
