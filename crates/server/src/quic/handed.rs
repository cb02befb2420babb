//! The form of the messages by which a server hands datagrams on to the one before it, and of the names of the sockets
//! for them.

use quinn_udp::{EcnCodepoint, RecvMeta};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// What stands in front of a datagram that is handed on.
const HEAD_BYTES: usize = 41;
/// The message that a successor has taken the sockets over, and hands datagrams on from now on.
pub(crate) const HELLO: &[u8] = &[0];
/// The kind of a message that is a datagram.
const DATAGRAM: u8 = 1;
/// Bytes of an id that this server gives a connection.
pub(crate) const ID_BYTES: usize = 8;

/// A socket's place among those of its server at an address, and the tag of the connection ids that lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// 24 bits in each id of this server's connections at the address.
    pub(crate) tag: u32,
    /// The socket's number among those of its address, in the order in which they were bound.
    pub(crate) index: u16,
    /// How many there are.
    pub(crate) count: u16,
}

/// What the name of an end of a pair tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) place: Place,
    /// The socket of UDP, as the kernel numbers sockets (SO_COOKIE).
    pub(crate) cookie: u64,
    /// It is the end that the server itself reads from.
    pub(crate) is_own: bool,
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { tag, index, count } = self.place;
        let end = if self.is_own { "own" } else { "next" };
        write!(to, "weir-quic/{tag:06x}/{index}/{count}/{:016x}/{end}", self.cookie)
    }
}

impl Name {
    /// `None`: it is none of ours.
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(name).ok()?.strip_prefix("weir-quic/")?.split('/');
        let mut next = || words.next();
        let tag = u32::from_str_radix(next()?, 16).ok()?;
        let (index, count) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let cookie = u64::from_str_radix(next()?, 16).ok()?;
        let is_own = match next()? {
            "own" => true,
            "next" => false,
            _ => return None,
        };
        let is_whole = next().is_none() && index < count && tag < 1 << 24;
        is_whole.then_some(Self { place: Place { tag, index, count }, cookie, is_own })
    }
}

/// What comes from a successor.
#[derive(Debug)]
pub(crate) enum Handed<'a> {
    /// It has the sockets now.
    Hello,
    /// A datagram, as from the socket.
    Datagram(RecvMeta, &'a [u8]),
}

impl<'a> Handed<'a> {
    /// Reads a message. Any that is not a datagram in this form only says that there is a successor.
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let Some((head, datagram)) = message.split_first_chunk::<HEAD_BYTES>() else { return Self::Hello };
        if head[0] != DATAGRAM {
            return Self::Hello;
        }
        let ip = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&head[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        let port = u16::from_be_bytes([head[3], head[4]]);
        let scope = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let family_of = |ip: Ipv6Addr, is_v4: bool| match ip.to_ipv4_mapped().filter(|_| is_v4) {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(ip),
        };
        let addr = match family_of(ip(9), head[1] & FROM_V4 != 0) {
            IpAddr::V4(v4) => SocketAddr::from((v4, port)),
            IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, scope)),
        };
        let dst_ip = (head[1] & HAS_TO != 0).then(|| family_of(ip(25), head[1] & TO_V4 != 0));
        let (len, ecn) = (datagram.len(), EcnCodepoint::from_bits(head[2]));
        let what = RecvMeta { addr, dst_ip, ecn, len, stride: len };
        Self::Datagram(what, datagram)
    }
}

/// The client's address is one of IPv4, and not one of IPv6 that stands for it.
const FROM_V4: u8 = 1;
/// It is known which of our addresses was meant.
const HAS_TO: u8 = 2;
/// That one is of IPv4.
const TO_V4: u8 = 4;

/// What stands in front of a datagram.
pub(crate) fn head(what: &RecvMeta) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    head[0] = DATAGRAM;
    head[1] = u8::from(what.addr.is_ipv4()) * FROM_V4;
    head[2] = what.ecn.map_or(0, |ecn| ecn as u8);
    head[3..5].copy_from_slice(&what.addr.port().to_be_bytes());
    if let SocketAddr::V6(addr) = what.addr {
        head[5..9].copy_from_slice(&addr.scope_id().to_be_bytes());
    }
    head[9..25].copy_from_slice(&octets(what.addr.ip()));
    if let Some(to) = what.dst_ip {
        head[1] |= HAS_TO | (u8::from(to.is_ipv4()) * TO_V4);
        head[25..41].copy_from_slice(&octets(to));
    }
    head
}

/// Which server's connection a datagram is for, by its first packet, and which of that server's sockets: the tag, and a
/// number that leaves the socket's when it is divided by the count of sockets. What an id of a client's own would be
/// means something else by chance once in 16 million times.
pub(crate) fn address_of(datagram: &[u8]) -> Option<(u32, u16)> {
    // RFC 9000, 17.3.1: the id is at once behind the first byte; 17.2: behind the version and its own length.
    let at = match datagram.first()? & 0x80 {
        0 => 1,
        _ if *datagram.get(5)? as usize == ID_BYTES => 6,
        _ => return None,
    };
    let id = datagram.get(at..at + ID_BYTES)?;
    Some((u32::from_be_bytes([0, id[2], id[3], id[4]]), u16::from_be_bytes([id[0], id[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some_meta(addr: SocketAddr, dst_ip: Option<IpAddr>, ecn: u8) -> RecvMeta {
        RecvMeta { addr, dst_ip, ecn: EcnCodepoint::from_bits(ecn), ..RecvMeta::default() }
    }

    proptest! {
        #[test]
        fn what_is_handed_on_arrives_as_it_was(
            ip: IpAddr, port: u16, scope in 0_u32..9, to: Option<IpAddr>, ecn in 0_u8..4, datagram in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut addr = SocketAddr::new(ip, port);
            if let SocketAddr::V6(v6) = &mut addr {
                v6.set_scope_id(scope);
            }
            let what = some_meta(addr, to, ecn);
            let message = [head(&what).as_slice(), &datagram].concat();
            let Handed::Datagram(read, bytes) = Handed::read(&message) else { panic!("it is a datagram") };
            prop_assert_eq!((read.addr, read.dst_ip, read.ecn, bytes), (addr, to, what.ecn, datagram.as_slice()));
            prop_assert_eq!((read.len, read.stride), (datagram.len(), datagram.len()));
        }

        #[test]
        fn no_message_and_no_name_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Handed::read(&bytes);
            let _ = Handed::read(&[&[DATAGRAM], &bytes[..]].concat());
            let _ = Name::parse(&bytes);
            let _ = Name::parse(&[b"weir-quic/".as_slice(), &bytes].concat());
        }

        #[test]
        fn names_tell_what_they_were_made_of(tag in 0_u32..1 << 24, index in 0_u16..1024, more in 1_u16..1024, cookie: u64, is_own: bool) {
            let name = Name { place: Place { tag, index, count: index + more }, cookie, is_own };
            prop_assert_eq!(Name::parse(name.to_string().as_bytes()), Some(name));
        }
    }
}
