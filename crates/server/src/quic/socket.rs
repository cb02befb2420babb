//! UDP sockets that listen: one for each loop and address.

use super::ids;
use crate::error::BindError;
use crate::listen::{ListenAddr, failure, join};
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
}

impl QuicSocket {
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// The same socket once more, which keeps its place among those of its address.
    pub(crate) fn keep(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// Datagrams of one size that one call may send.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Whether datagrams that are too large for the way are lost in place of being taken apart, which lets QUIC find out
    /// what is not too large.
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

/// Opens the sockets of `loops` loops; the result has a list for each loop, in the order of `listen`.
pub(crate) fn open(listen: &[ListenAddr], loops: usize) -> Result<Vec<Vec<QuicSocket>>, BindError> {
    let mut opened: Vec<Vec<QuicSocket>> = (0..loops).map(|_| Vec::new()).collect();
    for wanted in listen {
        let sockets = match wanted {
            ListenAddr::Every { port } => {
                let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                vec![match open_each(both, loops) {
                    // A machine without IPv6 says one of these; then IPv4 alone is every interface.
                    Err(BindError::Listen { .. } | BindError::AddressNotHere { .. }) => {
                        open_each(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)), loops)?
                    }
                    outcome => outcome?,
                }]
            }
            ListenAddr::Each(addrs) => {
                addrs.iter().map(|addr| open_each(*addr, loops)).collect::<Result<Vec<_>, _>>()?
            }
            ListenAddr::Unix(_) | ListenAddr::Inherited(_) => {
                return Err(BindError::NotForQuic { addr: wanted.to_string() });
            }
        };
        for of_address in sockets {
            for (of_loop, socket) in opened.iter_mut().zip(of_address) {
                of_loop.push(socket);
            }
        }
    }
    Ok(opened)
}

/// A socket for each loop at one address.
fn open_each(addr: SocketAddr, loops: usize) -> Result<Vec<QuicSocket>, BindError> {
    let failed = |source| failure(addr, source);
    let mut bound = addr;
    let mut sockets: Vec<QuicSocket> = Vec::new();
    for _ in 0..loops {
        let socket = open_socket(bound, sockets.is_empty()).map_err(failed)?;
        if sockets.is_empty() {
            // Port 0 is resolved once; the other loops share the port that the system chose.
            bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(addr);
        }
        let state = UdpSocketState::new((&socket).into()).map_err(failed)?;
        sockets.push(QuicSocket { socket, state });
    }
    if let [first, _, ..] = sockets.as_slice() {
        ids::lead_to_loops(first, loops).map_err(failed)?;
    }
    Ok(sockets)
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
