//! One server follows another at sockets of UDP: datagrams of connections that the former one has begun are handed on to
//! it, until the last of them is over.
//!
//! Both have the same sockets, so that no datagram is lost between them, and a connection's datagrams come to whoever
//! reads. That is the newer server alone, once it has said so. It sees by a connection's id which server gave it, and hands
//! what is not its own on through a pair of sockets of the Unix domain that each loop has ready for this, for each of its
//! sockets. The names of the pairs tell a successor what it has to know: which socket of UDP each belongs to, and the tag
//! in the ids of its connections. Nobody else can send into a pair, as both ends are connected.

use crate::epoll::check;
use quinn_udp::{EcnCodepoint, RecvMeta};
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, IoSlice, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

/// Bytes that may wait for the former server, of one socket.
const WAITING_BYTES: usize = 2 << 20;
/// What stands in front of a datagram that is handed on.
const HEAD_BYTES: usize = 41;
/// What says that somebody has taken the sockets over, and hands datagrams on from now on.
const HELLO: &[u8] = &[0];
/// The kind of a message that is a datagram.
const DATAGRAM: u8 = 1;
/// Tags that may be others' before it is given up.
const TAGS_MAX: usize = 64;

/// Which of the sockets of an address somebody has, and the tag of the ids that lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// 24 bits in each id of this server's connections at the address.
    pub(super) tag: u32,
    /// The socket's number among those of its address, in the order in which they were bound.
    pub(super) index: u16,
    /// How many there are.
    pub(super) count: u16,
}

/// What the name of an end of a pair tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    place: Place,
    /// The socket of UDP, as the kernel numbers sockets (SO_COOKIE).
    cookie: u64,
    /// It is the end that the server itself reads from.
    is_own: bool,
}

impl Name {
    /// As the name of a socket in the abstract namespace (unix(7)).
    fn addr(&self) -> io::Result<SockAddr> {
        let Place { tag, index, count } = self.place;
        let end = if self.is_own { "own" } else { "next" };
        SockAddr::unix(Path::new(&format!("\0weir-quic/{tag:06x}/{index}/{count}/{:016x}/{end}", self.cookie)))
    }

    fn parse(name: &[u8]) -> Option<Self> {
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

    fn of(socket: &Socket) -> Option<Self> {
        Self::parse(socket.local_addr().ok()?.as_abstract_namespace()?)
    }
}

/// A tag that is most likely nobody's.
fn new_tag() -> u32 {
    let mut bytes = [0; 4];
    // Linux has randomness from the start.
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_be_bytes(bytes) >> 8
}

/// How the kernel numbers a socket, the same in each process that has it.
fn cookie(socket: &Socket) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: both pointers are to variables that live over the call, the second one says how long the first is.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    })?;
    Ok(cookie)
}

/// The pair of one socket of this server.
#[derive(Debug)]
pub(super) struct Handover {
    own: Socket,
    /// A successor gets a copy of it, and what it sends comes out at the other.
    _next: Socket,
}

impl Handover {
    /// Makes the pairs of all sockets of an address, and chooses a tag that is none of those that are known.
    pub(super) fn for_each(sockets: &[Socket], known: &[u32]) -> io::Result<(u32, Vec<Self>)> {
        let narrow = |number: usize| u16::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
        for _ in 0..TAGS_MAX {
            let tag = new_tag();
            if known.contains(&tag) {
                continue;
            }
            let pairs = sockets.iter().enumerate().map(|(index, socket)| {
                Self::new(socket, Place { tag, index: narrow(index)?, count: narrow(sockets.len())? })
            });
            return pairs.collect::<io::Result<Vec<_>>>().map(|pairs| (tag, pairs));
        }
        // Without randomness.
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn new(socket: &Socket, place: Place) -> io::Result<Self> {
        let (own, next) = Socket::pair(Domain::UNIX, Type::DGRAM.nonblocking().cloexec(), None)?;
        let cookie = cookie(socket)?;
        own.bind(&Name { place, cookie, is_own: true }.addr()?)?;
        next.bind(&Name { place, cookie, is_own: false }.addr()?)?;
        // As much as the system allows.
        let _ = next.set_send_buffer_size(WAITING_BYTES);
        Ok(Self { own, _next: next })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.own.as_raw_fd()
    }

    /// What a successor has handed on: none if nothing more is there.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<Handed<'a>> {
        // Nothing else than that nothing is there can go wrong, as the other end is ours.
        let length = (&self.own).read(buffer).ok()?;
        Some(Handed::read(&buffer[..length]))
    }
}

/// What comes from a successor.
#[derive(Debug)]
pub(super) enum Handed<'a> {
    /// It has the sockets now.
    Hello,
    /// A datagram, as from the socket.
    Datagram(RecvMeta, &'a [u8]),
}

impl<'a> Handed<'a> {
    /// A message in its form; whatever has none says no more than that there is a successor.
    fn read(message: &'a [u8]) -> Self {
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
fn head(what: &RecvMeta) -> [u8; HEAD_BYTES] {
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

/// Whether too much waits at the other end; anything else is that nobody is there.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// What became of a datagram of somebody else's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandedOn {
    /// It is no former server's, or that one is gone.
    No,
    /// It is on its way.
    Yes,
    /// Too much waits there already: as if it was lost on its way.
    Dropped,
}

/// The servers that had the sockets before, as long as they are there.
#[derive(Debug, Default)]
pub(crate) struct Former(Vec<Group>);

/// The sockets of one address, as one server had them.
#[derive(Debug)]
struct Group {
    tag: u32,
    /// Where each socket's loop reads, by the socket's number.
    ends: Vec<Option<Socket>>,
    /// It still reads from the sockets, until it is told.
    is_to_be_told: bool,
}

impl Former {
    /// Whether there is nobody.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells the former server that its sockets are read by another one from now on.
    pub(crate) fn tell(&self) {
        for end in self.0.iter().filter(|group| group.is_to_be_told).flat_map(|group| group.ends.iter().flatten()) {
            // Who is gone need not know.
            let _ = end.send(HELLO);
        }
    }

    /// Hands a datagram on if a former server has given out the id that it is for.
    pub(super) fn hand_on(&self, what: &RecvMeta, datagram: &[u8]) -> HandedOn {
        let Some((tag, number)) = super::ids::address_of(datagram) else { return HandedOn::No };
        let Some(group) = self.0.iter().find(|group| group.tag == tag) else { return HandedOn::No };
        let Some(end) = &group.ends[usize::from(number) % group.ends.len()] else { return HandedOn::No };
        match end.send_vectored(&[IoSlice::new(&head(what)), IoSlice::new(datagram)]) {
            Ok(_) => HandedOn::Yes,
            Err(error) if is_full(&error) => HandedOn::Dropped,
            Err(_) => HandedOn::No,
        }
    }
}

/// What another process has of QUIC: its sockets of UDP, and the pairs that lead to it and to those before it.
#[derive(Debug, Default)]
pub(crate) struct Estate {
    sockets: Vec<Socket>,
    /// Both ends of its own pairs are there, and one of those of its predecessors.
    ends: Vec<(Name, Socket)>,
    /// The tags of the addresses that were taken.
    taken: Vec<u32>,
}

impl Estate {
    /// Notes a socket of the process, if it is of any use here; else it is given back.
    pub(crate) fn note(&mut self, socket: Socket) -> Option<Socket> {
        if !socket.r#type().is_ok_and(|kind| kind == Type::DGRAM) {
            return Some(socket);
        }
        match Name::of(&socket) {
            Some(name) => self.ends.push((name, socket)),
            None => self.sockets.push(socket),
        }
        None
    }

    /// The sockets at an address, in the order in which they were bound; none if it has no socket there.
    ///
    /// # Errors
    ///
    /// It has sockets there, and nothing tells how datagrams are handed on to it: it is no server like this one.
    pub(crate) fn at(&mut self, addr: SocketAddr) -> io::Result<Option<Vec<Socket>>> {
        let is_there = |socket: &Socket| socket.local_addr().is_ok_and(|local| local.as_socket() == Some(addr));
        let (found, left) = std::mem::take(&mut self.sockets).into_iter().partition::<Vec<_>, _>(is_there);
        self.sockets = left;
        if found.is_empty() {
            return Ok(None);
        }
        let own = |name: &&Name| name.is_own;
        let mut placed = Vec::new();
        for socket in found {
            let cookie = cookie(&socket)?;
            let name = self.ends.iter().map(|(name, _)| name).filter(own).find(|name| name.cookie == cookie);
            placed.push((name.ok_or(io::ErrorKind::NotFound)?.place, socket));
        }
        placed.sort_by_key(|(place, _)| place.index);
        let first = placed[0].0;
        let is_whole = placed.len() == usize::from(first.count)
            && placed.iter().zip(0..).all(|((place, _), index)| *place == Place { index, ..first });
        if !is_whole {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.taken.push(first.tag);
        Ok(Some(placed.into_iter().map(|(_, socket)| socket).collect()))
    }

    /// Tags that somebody has.
    pub(crate) fn tags(&self) -> Vec<u32> {
        self.ends.iter().map(|(name, _)| name.place.tag).collect()
    }

    /// All who are to get what is theirs and are still there, once every address was asked for.
    pub(crate) fn former(&mut self) -> Former {
        let own: Vec<u32> = self.ends.iter().filter(|(name, _)| name.is_own).map(|(name, _)| name.place.tag).collect();
        let mut groups: Vec<Group> = Vec::new();
        for (name, socket) in self.ends.drain(..).filter(|(name, _)| !name.is_own) {
            let Place { tag, index, count } = name.place;
            let is_taken = self.taken.contains(&tag);
            // Who was before the process itself knows already that it was followed: so it is seen whether it is there.
            let is_gone = || !own.contains(&tag) && socket.send(HELLO).is_err_and(|error| !is_full(&error));
            if (own.contains(&tag) && !is_taken) || is_gone() {
                continue;
            }
            let known = groups.iter().position(|group| group.tag == tag).unwrap_or_else(|| {
                let ends = (0..count).map(|_| None).collect();
                groups.push(Group { tag, ends, is_to_be_told: is_taken });
                groups.len() - 1
            });
            if let Some(end) = groups[known].ends.get_mut(usize::from(index)) {
                *end = Some(socket);
            }
        }
        Former(groups)
    }

    /// Gives back the sockets that nobody wanted; where they were bound.
    pub(crate) fn give_back(&mut self) -> impl Iterator<Item = SocketAddr> {
        let left = std::mem::take(&mut self.sockets);
        let addrs = left.into_iter().filter_map(|socket| socket.local_addr().ok()?.as_socket());
        addrs.filter(|addr| addr.port() != 0).collect::<Vec<_>>().into_iter()
    }
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
            let addr = name.addr().expect("short enough");
            prop_assert_eq!(Name::parse(addr.as_abstract_namespace().expect("abstract")), Some(name));
        }
    }

    #[test]
    fn a_pair_is_found_by_its_socket_and_leads_to_who_made_it() {
        let sockets: Vec<Socket> = (0..3)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
                socket.set_reuse_port(true).expect("shares");
                socket
            })
            .collect();
        sockets[0].bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
        let addr = sockets[0].local_addr().expect("bound").as_socket().expect("of UDP");
        sockets[1..].iter().for_each(|socket| socket.bind(&addr.into()).expect("binds"));
        let (tag, pairs) = Handover::for_each(&sockets, &[]).expect("pairs");
        let mut estate = Estate::default();
        let copy = |socket: &Socket| socket.try_clone().expect("copies");
        // In another order than that of their making.
        for socket in sockets.iter().rev().chain(pairs.iter().flat_map(|pair| [&pair.own, &pair._next])) {
            assert!(estate.note(copy(socket)).is_none());
        }
        let taken = estate.at(addr).expect("whole").expect("are there");
        let numbers = |sockets: &[Socket]| sockets.iter().map(|one| cookie(one).expect("a number")).collect::<Vec<_>>();
        assert_eq!(numbers(&taken), numbers(&sockets));
        assert!(estate.at(addr).expect("nothing is wrong").is_none(), "taken once");
        let former = estate.former();
        let mut buffer = [0; 2000];
        assert!(pairs.iter().all(|pair| pair.receive(&mut buffer).is_none()));
        former.tell();
        assert!(pairs.iter().all(|pair| matches!(pair.receive(&mut buffer), Some(Handed::Hello))));
        let what = some_meta(addr, None, 2);
        // A short header, the number of a row and a loop, the tag.
        let [_, high, middle, low] = tag.to_be_bytes();
        let datagram = [0x40, 0, 5, high, middle, low, 1, 2, 3, 4];
        assert_eq!(former.hand_on(&what, &datagram), HandedOn::Yes);
        assert!(matches!(pairs[2].receive(&mut buffer), Some(Handed::Datagram(_, bytes)) if bytes == datagram));
        let mut foreign = datagram;
        foreign[5] ^= 1;
        assert_eq!(former.hand_on(&what, &foreign), HandedOn::No);
        drop(pairs);
        assert_eq!(former.hand_on(&what, &datagram), HandedOn::No, "it is gone");
    }

    #[test]
    fn sockets_that_nobody_hands_on_to_are_told_apart() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
        let addr = socket.local_addr().expect("bound").as_socket().expect("of UDP");
        let mut estate = Estate::default();
        assert!(estate.note(socket).is_none());
        assert!(estate.at(addr).is_err());
        let again = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        again.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
        let addr = again.local_addr().expect("bound").as_socket().expect("of UDP");
        assert!(estate.note(again).is_none());
        assert_eq!(estate.give_back().collect::<Vec<_>>(), [addr]);
        std::net::UdpSocket::bind(addr).expect("it was given back");
    }

    #[test]
    fn too_much_that_waits_is_dropped_and_said() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
        let (tag, pairs) = Handover::for_each(std::slice::from_ref(&socket), &[]).expect("pairs");
        let end = pairs[0]._next.try_clone().expect("copies");
        let former = Former(vec![Group { tag, ends: vec![Some(end)], is_to_be_told: true }]);
        let [_, high, middle, low] = tag.to_be_bytes();
        let mut datagram = vec![0; 1200];
        datagram[..6].copy_from_slice(&[0x40, 0, 0, high, middle, low]);
        let what = some_meta(SocketAddr::from(([127, 0, 0, 1], 9)), None, 0);
        let outcomes: Vec<HandedOn> = (0..10_000).map(|_| former.hand_on(&what, &datagram)).collect();
        assert_eq!((outcomes[0], outcomes[9_999]), (HandedOn::Yes, HandedOn::Dropped));
    }
}
