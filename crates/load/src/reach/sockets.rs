//! How the sockets of connections are made.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The first port that is no system's own (RFC 6335 6).
const FIRST_PORT: u16 = 1024;

/// How the sockets of connections are made; by default as the system makes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sockets {
    /// The size that is asked for of a socket's send buffer, in bytes; the kernel doubles it for its own needs.
    pub send_buffer: Option<u32>,
    /// The same of its receive buffer.
    pub receive_buffer: Option<u32>,
    /// Whether connections are closed by a reset, which keeps no port busy and may cut what is under way.
    pub reset: bool,
    /// Whether all ports from 1024 on are used in turn, not just the system's range for outgoing connections.
    pub all_ports: bool,
    /// How long a connection may take to be made, if not as long as a response.
    pub connect_timeout: Option<Duration>,
}

/// The same, with where it stands.
#[derive(Debug, Clone)]
pub(crate) struct SocketMaker {
    wanted: Sockets,
    next_port: u16,
}

impl SocketMaker {
    /// `None` where nothing is wanted.
    pub(crate) fn new(wanted: &Sockets) -> Option<Box<Self>> {
        let Sockets { send_buffer, receive_buffer, reset, all_ports, connect_timeout: _ } = wanted;
        let any = send_buffer.is_some() || receive_buffer.is_some() || *reset || *all_ports;
        any.then(|| Box::new(Self { wanted: wanted.clone(), next_port: FIRST_PORT }))
    }

    /// Prepares a socket that is to be connected to `to` and, if it has no source yet, finds it a port.
    pub(crate) fn prepare(
        &mut self,
        fd: BorrowedFd<'_>,
        to: Option<SocketAddr>,
        source: Option<SocketAddr>,
    ) -> io::Result<()> {
        let socket = socket2::SockRef::from(&fd);
        if let Some(bytes) = self.wanted.send_buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = self.wanted.receive_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        if self.wanted.reset {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        match to {
            Some(to) if self.wanted.all_ports => self.bind(fd, to, source),
            _ => Ok(()),
        }
    }

    /// Binds to the next port that is free.
    fn bind(&mut self, fd: BorrowedFd<'_>, to: SocketAddr, source: Option<SocketAddr>) -> io::Result<()> {
        let mut own = source.unwrap_or_else(|| match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        });
        for _ in FIRST_PORT..=u16::MAX {
            own.set_port(self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            match socket2::SockRef::from(&fd.as_fd()).bind(&own.into()) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                other => return other,
            }
        }
        Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
    }

    /// Whether the source is bound here.
    pub(crate) fn binds(&self) -> bool {
        self.wanted.all_ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn ports_go_round_and_busy_ones_are_passed_over() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("an address");
        let wanted = Sockets { all_ports: true, send_buffer: Some(8192), reset: true, ..Sockets::default() };
        let mut maker = SocketMaker::new(&wanted).expect("something is wanted");
        let mut connect = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
            maker.prepare(socket.as_fd(), Some(to), Some("127.0.0.1:0".parse().expect("an address"))).expect("a port");
            socket.connect(&to.into()).expect("a connection");
            assert_eq!(socket.linger().expect("known"), Some(Duration::ZERO));
            // The kernel tells twice what was asked for.
            assert_eq!(socket.send_buffer_size().expect("known"), 16_384);
            TcpStream::from(socket)
        };
        let all: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
        let ports: Vec<u16> = all.iter().map(|one| one.local_addr().expect("an address").port()).collect();
        // Other programs may have the first thousands of them: a generator that takes all ports, for one.
        assert!(ports.is_sorted_by(|one, next| one < next) && ports[0] >= FIRST_PORT, "{ports:?}");
        assert_eq!(maker.next_port, ports[19] + 1, "it goes on behind the last one");
        maker.next_port = ports[0];
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        maker.prepare(socket.as_fd(), Some(to), Some("127.0.0.1:0".parse().expect("an address"))).expect("a port");
        let port = socket.local_addr().expect("an address").as_socket().expect("of IP").port();
        assert!(!ports.contains(&port), "{port} is taken: {ports:?}");
        assert!(SocketMaker::new(&Sockets::default()).is_none());
    }
}
