//! A new server takes over the UDP sockets of an old one, and hands datagrams of the old server's connections on to it,
//! until the last of these is over.
//!
//! Both have the same sockets, so that no datagram is lost between them. Once the new server has said so, it alone
//! reads. It tells from a connection id which server issued it. It hands datagrams that are not its own on through a
//! pair of Unix sockets; each loop has such a pair ready for each of its UDP sockets. The name of a pair tells the
//! successor which UDP socket it belongs to, and the tag in the ids of its connections. No third process can send into
//! a pair, as both ends are connected.

use super::handed::{HELLO, Handed, Name, Place, head};
use crate::io::epoll::check;
use quinn_udp::RecvMeta;
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

/// Bytes that may wait for the former server, of one socket.
const WAITING_BYTES: usize = 2 << 20;
/// Bits of a tag that are random where the ten above them are the number of a node.
const RANDOM_BITS: u32 = 14;
/// Tags that may be others' before it is given up.
const TAGS_MAX: usize = 64;

impl Name {
    /// As the name of a socket in the abstract namespace (unix(7)).
    fn addr(&self) -> io::Result<SockAddr> {
        SockAddr::unix(Path::new(&format!("\0{self}")))
    }

    fn of(socket: &Socket) -> Option<Self> {
        Self::parse(socket.local_addr().ok()?.as_abstract_namespace()?)
    }
}

/// A random tag, which most likely no other server has. That of a node of a cluster begins with the node's number, by which
/// the director's filter goes (`bpf/other.h` of the keeper).
fn new_tag(node: Option<u16>) -> u32 {
    let mut bytes = [0; 4];
    // Linux has randomness from the start.
    let _ = SystemRandom::new().fill(&mut bytes);
    let random = u32::from_be_bytes(bytes) >> 8;
    node.map_or(random, |node| (u32::from(node) << RANDOM_BITS | random & ((1 << RANDOM_BITS) - 1)) & ((1 << 24) - 1))
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
    pub(super) fn for_each(sockets: &[Socket], known: &[u32], node: Option<u16>) -> io::Result<(u32, Vec<Self>)> {
        let narrow = |number: usize| u16::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
        for _ in 0..TAGS_MAX {
            let tag = new_tag(node);
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

/// Whether too much waits at the other end; any other error means that the other process is gone.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// What became of a datagram for a connection that this server does not have.
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
    /// Whether there is no former server.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells the former server that its sockets are read by another one from now on.
    pub(crate) fn tell(&self) {
        for end in self.0.iter().filter(|group| group.is_to_be_told).flat_map(|group| group.ends.iter().flatten()) {
            // A server that is gone need not be told.
            let _ = end.send(HELLO);
        }
    }

    /// Hands a datagram on if a former server has given out the id that it is for.
    pub(super) fn hand_on(&self, what: &RecvMeta, datagram: &[u8]) -> HandedOn {
        let Some((tag, number)) = super::handed::address_of(datagram) else { return HandedOn::No };
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

    /// Tags that are in use by the process and those before it.
    pub(crate) fn tags(&self) -> Vec<u32> {
        self.ends.iter().map(|(name, _)| name.place.tag).collect()
    }

    /// The former servers that are still there and whose datagrams are to be handed on; to be called once every address
    /// was asked for.
    pub(crate) fn former(&mut self) -> Former {
        let own: Vec<u32> = self.ends.iter().filter(|(name, _)| name.is_own).map(|(name, _)| name.place.tag).collect();
        let mut groups: Vec<Group> = Vec::new();
        for (name, socket) in self.ends.drain(..).filter(|(name, _)| !name.is_own) {
            let Place { tag, index, count } = name.place;
            let is_taken = self.taken.contains(&tag);
            // A server before the process itself was told already that it was followed: a second hello is harmless, and
            // shows whether that server is still there.
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

    /// Closes the copies of sockets that were not taken; returns where they are bound.
    pub(crate) fn give_back(&mut self) -> impl Iterator<Item = SocketAddr> {
        let left = std::mem::take(&mut self.sockets);
        let addrs = left.into_iter().filter_map(|socket| socket.local_addr().ok()?.as_socket());
        addrs.filter(|addr| addr.port() != 0).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_node_begins_with_its_number() {
        for node in [1, 2, 517, 1023] {
            let tags: Vec<u32> = (0..50).map(|_| new_tag(Some(node))).collect();
            assert!(tags.iter().all(|tag| *tag < 1 << 24 && tag >> 14 == u32::from(node)), "{tags:x?}");
            assert!(tags.iter().any(|tag| *tag != tags[0]));
        }
        assert!((0..50).map(|_| new_tag(None)).all(|tag| tag < 1 << 24));
    }
    use quinn_udp::EcnCodepoint;
    use std::net::IpAddr;

    fn some_meta(addr: SocketAddr, dst_ip: Option<IpAddr>, ecn: u8) -> RecvMeta {
        RecvMeta { addr, dst_ip, ecn: EcnCodepoint::from_bits(ecn), ..RecvMeta::default() }
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
        let (tag, pairs) = Handover::for_each(&sockets, &[], None).expect("pairs");
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
    fn sockets_without_a_pair_for_handing_on_are_told_apart() {
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
        let (tag, pairs) = Handover::for_each(std::slice::from_ref(&socket), &[], None).expect("pairs");
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
