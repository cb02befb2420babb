//! Addresses to listen on, and the listening sockets: one for each loop and address.

use crate::error::{BindError, ListenAddrError};
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Connections that the kernel holds for a loop that is busy; the kernel may lower it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// An address to listen on: `127.0.0.1:8080`, `[::1]:80`, `localhost:8080`, or `:8080` for every interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    /// Every interface, over IPv6 and IPv4 where the machine has both.
    Every {
        /// The port; 0 lets the system choose.
        port: u16,
    },
    /// These addresses; a name may stand for several.
    Each(Vec<SocketAddr>),
}

impl Default for ListenAddr {
    fn default() -> Self {
        Self::Each(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))])
    }
}

impl From<SocketAddr> for ListenAddr {
    fn from(addr: SocketAddr) -> Self {
        Self::Each(vec![addr])
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every { port } => write!(f, ":{port}"),
            Self::Each(addrs) => {
                for (i, addr) in addrs.iter().enumerate() {
                    write!(f, "{}{addr}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return Ok(addr.into());
        }
        let bad_port = || ListenAddrError::Port { text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(bad_port)?;
        let port: u16 = port.parse().map_err(|_| bad_port())?;
        if host.is_empty() || host == "*" {
            return Ok(Self::Every { port });
        }
        let bad_host = |source| ListenAddrError::Host { text: text.to_owned(), source };
        let addrs: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(bad_host)?.collect();
        if addrs.is_empty() {
            return Err(bad_host(io::ErrorKind::NotFound.into()));
        }
        Ok(Self::Each(addrs))
    }
}

/// Opens the sockets of `loops` loops; the result has a list for each loop, in the order of `listen`.
pub(crate) fn open(listen: &[ListenAddr], loops: usize) -> Result<Vec<Vec<Socket>>, BindError> {
    let mut sockets: Vec<Vec<Socket>> = (0..loops).map(|_| Vec::new()).collect();
    for wanted in listen {
        match wanted {
            ListenAddr::Every { port } => {
                let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                match open_one(both, &mut sockets) {
                    // A machine without IPv6 says one of these; then IPv4 alone is every interface.
                    Err(BindError::Listen { .. } | BindError::AddressNotHere { .. }) => {
                        open_one(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)), &mut sockets)?;
                    }
                    outcome => outcome?,
                }
            }
            ListenAddr::Each(addrs) => {
                for addr in addrs {
                    open_one(*addr, &mut sockets)?;
                }
            }
        }
    }
    if sockets.first().is_none_or(Vec::is_empty) {
        return Err(BindError::NoAddress);
    }
    Ok(sockets)
}

fn open_one(addr: SocketAddr, sockets: &mut [Vec<Socket>]) -> Result<(), BindError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::AddressTaken { addr },
        io::ErrorKind::PermissionDenied => BindError::NoPermission { addr },
        io::ErrorKind::AddrNotAvailable => BindError::AddressNotHere { addr },
        _ => BindError::Listen { addr, source },
    };
    let mut bound = addr;
    for (i, of_loop) in sockets.iter_mut().enumerate() {
        let socket = open_socket(bound, i == 0).map_err(failed)?;
        if i == 0 {
            // Port 0 is resolved once; the other loops share the port that the system chose.
            bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(addr);
        }
        of_loop.push(socket);
    }
    Ok(())
}

fn open_socket(addr: SocketAddr, first: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if first {
        // The first socket is bound without SO_REUSEPORT, so that a port which another server has shared out
        // is reported as taken instead of silently splitting its clients with us.
        socket.bind(&addr.into())?;
        socket.set_reuse_port(true)?;
    } else {
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
    }
    // Accepted sockets inherit this; a response goes out in whole writes, so Nagle could only delay its end.
    socket.set_tcp_nodelay(true)?;
    defer_accept(&socket, Duration::from_secs(1));
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Asks for connections only once their first bytes are here: saves a wake-up and a registration for each.
///
/// The kernel hands a silent client over after about this time all the same, so that its timeout runs.
fn defer_accept(socket: &Socket, after: Duration) {
    let seconds = i32::try_from(after.as_secs()).unwrap_or(1);
    // A refusal is harmless: connections then arrive without their first bytes.
    let _ = crate::epoll::set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_in_every_documented_form() {
        let each = |text: &str| ListenAddr::Each(vec![text.parse().expect("an address")]);
        assert_eq!("127.0.0.1:8080".parse::<ListenAddr>().expect("v4"), each("127.0.0.1:8080"));
        assert_eq!("[::1]:80".parse::<ListenAddr>().expect("v6"), each("[::1]:80"));
        assert_eq!("0.0.0.0:0".parse::<ListenAddr>().expect("any"), each("0.0.0.0:0"));
        assert_eq!(":8080".parse::<ListenAddr>().expect("every"), ListenAddr::Every { port: 8080 });
        for bad in ["", "8080", "127.0.0.1", "127.0.0.1:99999", ":http"] {
            assert!(matches!(bad.parse::<ListenAddr>(), Err(ListenAddrError::Port { .. })), "{bad}");
        }
    }

    #[test]
    fn a_port_that_another_server_shares_is_reported_as_taken() {
        let any: ListenAddr = "127.0.0.1:0".parse().expect("an address");
        let ours = open(&[any], 2).expect("two loops");
        let addr = ours[0][0].local_addr().expect("bound").as_socket().expect("TCP");
        assert_eq!(ours[1][0].local_addr().expect("bound").as_socket(), Some(addr));
        assert!(matches!(open(&[addr.into()], 2), Err(BindError::AddressTaken { .. })));
    }
}
