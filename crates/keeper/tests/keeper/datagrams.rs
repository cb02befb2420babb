//! What comes to the director and is no TCP: datagrams of QUIC, and what routers say about packets of nodes.

use crate::network::{Family, Network, PATIENCE, service};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use weir_keeper::{Flow, maglev};
use weir_testkit::require;

/// A short header (RFC 9000, section 17.3.1) with an id that names a node.
fn short(node: u16) -> Vec<u8> {
    let number = (u32::from(node) << 14 | 0x2a5).to_be_bytes();
    let mut datagram = vec![0x40, 0xaa, 0xbb];
    datagram.extend(&number[1..]);
    datagram.extend([9; 24]);
    datagram
}

/// A long header with an id that a client has made up; it names node 1 as well, which says nothing.
fn long() -> Vec<u8> {
    let mut datagram = vec![0xc0, 0, 0, 0, 1, 8];
    datagram.extend(&short(1)[1..9]);
    datagram.extend([9; 24]);
    datagram
}

/// The node at whose socket the next datagram comes.
fn came_to(sockets: &[UdpSocket; 2]) -> u16 {
    let (mut buffer, begun) = ([0; 100], Instant::now());
    loop {
        for (node, socket) in (1..).zip(sockets) {
            if socket.recv_from(&mut buffer).is_ok() {
                return node;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "no datagram comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn quic_goes_by_ids(name: &str, family: Family) {
    let network = Network::new(name, family);
    let table = network.table(&Network::places());
    let at = service(family);
    let sockets = [0, 1].map(|node: usize| {
        let socket = network.nodes[node].within(|| UdpSocket::bind(at)).expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        socket
    });
    let client = |port| {
        let own = SocketAddr::new(family.host(2), port);
        network.client.within(|| UdpSocket::bind(own)).expect("a free port")
    };
    let entries = maglev::table(&[1, 2]);
    for port in 2000..2008 {
        let (client, by_hash) = (client(port), entries[maglev::entry(SocketAddr::new(family.host(2), port))]);
        client.send_to(&long(), at).expect("sends");
        assert_eq!(came_to(&sockets), by_hash, "a handshake goes by the client's address");
        for node in [1, 2, 2, 1] {
            client.send_to(&short(node), at).expect("sends");
            assert_eq!(came_to(&sockets), node, "by its id, wherever the client is");
        }
        // A node of this number is not known.
        client.send_to(&short(77), at).expect("sends");
        assert_eq!(came_to(&sockets), by_hash);
    }
    // A handshake that is under way stays, also if its node gets no new ones any more.
    let (first, port) = (client(3000), 3000);
    first.send_to(&long(), at).expect("sends");
    let node = came_to(&sockets);
    assert_eq!(node, entries[maglev::entry(SocketAddr::new(family.host(2), port))]);
    let other = Network::places()[usize::from(2 - node)];
    table.set_nodes(&[other]).expect("valid");
    first.send_to(&long(), at).expect("sends");
    assert_eq!(came_to(&sockets), node);
    client(3001).send_to(&long(), at).expect("sends");
    assert_eq!(came_to(&sockets), other.number);
    let counts = table.counts().expect("read");
    assert_eq!((counts.datagrams, counts.packets), (8 * 6 + 3, 8 * 6 + 3));
    let of_nodes = [1, 2].map(|node| table.packets_to(node).expect("read"));
    assert_eq!(of_nodes[0] + of_nodes[1], counts.packets);
    assert!(of_nodes.iter().all(|packets| *packets >= 16), "{of_nodes:?}");
}

#[test]
fn datagrams_of_quic_go_by_their_ids() {
    if require::root_and_bpf().is_some() {
        quic_goes_by_ids("kquic", Family::V4);
    }
}

#[test]
fn datagrams_of_quic_go_by_their_ids_over_ipv6() {
    if require::root_and_bpf().is_some() {
        quic_goes_by_ids("kquicsix", Family::V6);
    }
}

/// "Packet too big" about the last segment of a connection of node and client (RFC 792 with RFC 1191, RFC 4443).
fn too_big(flow: &Flow, sequence: u32, mtu: u32) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(flow.service.port().to_be_bytes());
    tcp.extend(flow.client.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0; 12]);
    let mut inner = match (flow.service, flow.client) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let mut ip = vec![0x45, 0, 0x05, 0xdc, 0, 1, 0x40, 0, 64, 6, 0, 0];
            ip.extend(from.ip().octets());
            ip.extend(to.ip().octets());
            ip
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            let mut ip = vec![0x60, 0, 0, 0, 0x05, 0xb4, 6, 64];
            ip.extend(from.ip().octets());
            ip.extend(to.ip().octets());
            ip
        }
        _ => panic!("two families"),
    };
    inner.extend(tcp);
    let kind: [u8; 2] = if flow.service.is_ipv4() { [3, 4] } else { [2, 0] };
    let mut message = [&kind[..], &[0, 0], &mtu.to_be_bytes(), &inner].concat();
    if flow.service.is_ipv4() {
        // The kernel fills in that of IPv6 alone.
        let sum: u32 = message.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    }
    message
}

/// Sends it from the client's machine, as a router there would.
fn send_raw(network: &Network, message: &[u8], to: SocketAddr) {
    network.client.within(|| {
        let (domain, protocol) =
            if to.is_ipv4() { (libc::AF_INET, libc::IPPROTO_ICMP) } else { (libc::AF_INET6, libc::IPPROTO_ICMPV6) };
        // SAFETY: numbers only; the descriptor is ours from then on.
        let socket = unsafe {
            let fd = libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let socket = UdpSocket::from(socket);
        socket.send_to(message, SocketAddr::new(to.ip(), 0)).expect("sends");
    });
}

fn mtu(socket: &impl AsRawFd, is_v4: bool) -> i32 {
    let (level, name) = if is_v4 { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
    let (mut value, mut bytes) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes a number of this length into the variable, which lives over the call.
    let read = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut bytes) };
    assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
    value
}

fn a_smaller_way_is_told(name: &str, family: Family) {
    let network = Network::new(name, family);
    let table = network.table(&Network::places()[..1]);
    let listener = network.listener(1);
    let (client, served) = network.connect(&listener);
    let flow = Flow { client: client.local_addr().expect("bound"), service: client.peer_addr().expect("connected") };
    let begun = Instant::now();
    let seen = loop {
        if let Some(seen) = table.seen(&flow).expect("read") {
            break seen;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is seen");
        std::thread::sleep(Duration::from_millis(5));
    };
    let is_v4 = family == Family::V4;
    assert_eq!(mtu(&served, is_v4), 1500);
    // The node gets no new connections any more: the entry of the connection counts.
    table.set_nodes(&Network::places()[1..]).expect("valid");
    // About no connection of the service: it stays at the director.
    let other = Flow { service: SocketAddr::new(flow.service.ip(), 81), ..flow };
    send_raw(&network, &too_big(&other, seen.ack, 1300), flow.service);
    send_raw(&network, &too_big(&flow, seen.ack, 1300), flow.service);
    while mtu(&served, is_v4) != 1300 {
        assert!(begun.elapsed() < PATIENCE, "the node does not hear it: {:?}", table.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(table.counts().expect("read").icmp_errors, 1);
}

#[test]
fn packet_too_big_comes_to_the_node_of_the_connection() {
    if require::root_and_bpf().is_some() {
        a_smaller_way_is_told("kicmp", Family::V4);
    }
}

#[test]
fn packet_too_big_comes_to_the_node_over_ipv6() {
    if require::root_and_bpf().is_some() {
        a_smaller_way_is_told("kicmpsix", Family::V6);
    }
}
