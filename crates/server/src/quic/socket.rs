//! UDP sockets that listen: one for each loop and address.

use super::handed::Place;
use super::handover::{Former, Handover};
use super::ids;
use crate::error::BindError;
use crate::io::listen::{ListenAddr, failure, join};
use crate::quic::predecessor::Predecessor;
use crate::quic::settings::QUIC_MAX;
use quinn_proto::Transmit;
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

/// Bytes that the kernel may hold for a loop that is busy, and of what is on its way out; `net.core.rmem_max` and
/// `wmem_max` may lower them.
const KERNEL_BYTES: usize = 2 << 20;
/// Receptions of one call. Each can be several datagrams of one client that came together (UDP_GRO).
pub(super) const RECEPTIONS: usize = 16;
/// Bytes of a reception: what one call of a client can send at once.
pub(super) const RECEPTION_BYTES: usize = 64 << 10;

/// A UDP socket of one loop.
#[derive(Debug)]
pub(crate) struct QuicSocket {
    socket: Socket,
    state: UdpSocketState,
    pub(super) place: Place,
    pub(super) handover: Handover,
}

impl QuicSocket {
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Has the kernel go by the ids of this server, if this is the first of several sockets of its address. Not before
    /// the server that had them is told: it has other ids, and it goes on should this one fail to start.
    pub(crate) fn lead(&self) -> io::Result<()> {
        match self.place {
            Place { index: 0, count: 2.., .. } => ids::lead_to_sockets(&self.socket, self.place.count),
            _ => Ok(()),
        }
    }

    /// The same socket once more, which keeps its place among those of its address.
    pub(crate) fn keep(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// Datagrams of one size that one call may send.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Whether datagrams that are too large for the way are lost in place of being taken apart, which lets QUIC find
    /// out what is not too large.
    pub(super) fn finds_size(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Receives what is there, up to a buffer for each of `what`; returns how many.
    pub(super) fn receive(&self, buffers: &mut [IoSliceMut<'_>], what: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv((&self.socket).into(), buffers, what)
    }

    /// Sends datagrams of one client.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.state.try_send((&self.socket).into(), &transmit)
    }
}

impl AsRawFd for QuicSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The sockets of `loops` loops, a list for each, and the servers that had them before.
pub(crate) struct Opened {
    pub(crate) of_loops: Vec<Vec<QuicSocket>>,
    pub(crate) former: Former,
}

/// The tags that are taken, and the number of this node in a cluster, which a tag begins with.
struct Tags {
    known: Vec<u32>,
    node: Option<u16>,
}

/// Opens the sockets of `loops` loops in the order of `listen`, or takes those that another server has there. A loop
/// has several of an address where that server had more loops. `node` is the number of this server in a cluster.
pub(crate) fn open(
    listen: &[ListenAddr],
    loops: usize,
    predecessor: &mut Option<Predecessor>,
    node: Option<u16>,
) -> Result<Opened, BindError> {
    let mut tags = Tags { known: predecessor.as_ref().map(Predecessor::tags).unwrap_or_default(), node };
    let mut of_loops: Vec<Vec<QuicSocket>> = (0..loops).map(|_| Vec::new()).collect();
    for wanted in listen {
        let addresses = match wanted {
            ListenAddr::Every { port } => {
                let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
                vec![match take(both, loops, predecessor, &mut tags)? {
                    Some(taken) => taken,
                    None => match take(v4, loops, predecessor, &mut tags)? {
                        Some(taken) => taken,
                        None => match open_each(both, loops, &mut tags) {
                            // A machine without IPv6 says one of these; then IPv4 alone is every interface.
                            Err(BindError::Listen { .. } | BindError::AddressNotHere { .. }) => {
                                open_each(v4, loops, &mut tags)?
                            }
                            outcome => outcome?,
                        },
                    },
                }]
            }
            ListenAddr::Each(addrs) => {
                let sockets = addrs.iter().map(|addr| match take(*addr, loops, predecessor, &mut tags)? {
                    Some(taken) => Ok(taken),
                    None => open_each(*addr, loops, &mut tags),
                });
                sockets.collect::<Result<Vec<_>, _>>()?
            }
            ListenAddr::Unix(_) | ListenAddr::Inherited(_) => {
                return Err(BindError::NotForQuic { addr: wanted.to_string() });
            }
        };
        for of_address in addresses {
            for (place, socket) in of_address.into_iter().enumerate() {
                of_loops[place % loops].push(socket);
            }
        }
    }
    if let Some(predecessor) = predecessor.as_ref().filter(|_| of_loops.iter().any(|of| of.len() > QUIC_MAX)) {
        return Err(BindError::TooManyForQuic { pid: predecessor.pid(), most: QUIC_MAX * loops });
    }
    let former = predecessor.as_mut().map(Predecessor::former).unwrap_or_default();
    Ok(Opened { of_loops, former })
}

/// A socket for each loop at one address.
fn open_each(addr: SocketAddr, loops: usize, tags: &mut Tags) -> Result<Vec<QuicSocket>, BindError> {
    let failed = |source| failure(addr, source);
    let mut bound = addr;
    let mut sockets: Vec<Socket> = Vec::new();
    for _ in 0..loops {
        let socket = open_socket(bound, sockets.is_empty()).map_err(failed)?;
        if sockets.is_empty() {
            // Port 0 is resolved once; the other loops share the port that the system chose.
            bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(addr);
        }
        sockets.push(socket);
    }
    with_places(sockets, tags).map_err(failed)
}

/// What another server has at an address, and more where this one has more loops. None if there is nothing.
fn take(
    addr: SocketAddr,
    loops: usize,
    predecessor: &mut Option<Predecessor>,
    tags: &mut Tags,
) -> Result<Option<Vec<QuicSocket>>, BindError> {
    let failed = |source| failure(addr, source);
    let Some(mut sockets) = predecessor.as_mut().map(|other| other.datagrams_at(addr)).transpose()?.flatten() else {
        return Ok(None);
    };
    // Sockets that are bound later have their places behind the others. Only the port's owner may share it: another
    // user uses the sockets that are there.
    sockets.extend((sockets.len()..loops).map_while(|_| open_socket(addr, false).ok()));
    with_places(sockets, tags).map(Some).map_err(failed)
}

fn with_places(sockets: Vec<Socket>, tags: &mut Tags) -> io::Result<Vec<QuicSocket>> {
    let (tag, pairs) = Handover::for_each(&sockets, &tags.known, tags.node)?;
    tags.known.push(tag);
    // As many as there are pairs, whose numbers are as narrow.
    let count = sockets.len() as u16;
    let places = (0..count).map(|index| Place { tag, index, count });
    let parts = sockets.into_iter().zip(pairs).zip(places);
    let with_state = parts.map(|((socket, handover), place)| {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(QuicSocket { socket, state, place, handover })
    });
    with_state.collect()
}

fn open_socket(addr: SocketAddr, first: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    join(&socket, addr, first)?;
    // As much as the system allows.
    let _ = socket.set_recv_buffer_size(KERNEL_BYTES);
    let _ = socket.set_send_buffer_size(KERNEL_BYTES);
    Ok(socket)
}
