//! Addresses to listen on, and the listening sockets: one for each loop and address. Sockets of files and those that
//! were open already are shared by all loops.

use crate::error::{BindError, ListenAddrError};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Connections that the kernel holds for a loop that is busy; the kernel may lower it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// An address to listen on: `127.0.0.1:8080`, `[::1]:80`, `localhost:8080`, `:8080` for every interface, `unix:PATH`
/// for a socket in the file system, or `fd:3` for a listening socket that this process was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    /// Every interface, over IPv6 and IPv4 where the machine has both.
    Every {
        /// The port; 0 lets the system choose.
        port: u16,
    },
    /// These addresses; a name may stand for several.
    Each(Vec<SocketAddr>),
    /// A Unix socket of this path. What is left there by a server that has gone is removed first.
    Unix(PathBuf),
    /// A listening socket that is open already, by its number. It is used as it is, and belongs to the server then.
    Inherited(RawFd),
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The address, with the port that the system chose for port 0.
    pub addr: LocalAddr,
    /// Whether TLS is spoken there.
    pub is_secure: bool,
    /// Whether it is HTTP/3 that is spoken, over UDP.
    pub is_quic: bool,
}

/// An address of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalAddr {
    /// An address and a port, of UDP where HTTP/3 is spoken.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl Local {
    /// The address and port, unless it is a Unix socket.
    pub(crate) fn ip(&self) -> Option<SocketAddr> {
        if let LocalAddr::Tcp(addr) = self.addr { Some(addr) } else { None }
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addr {
            LocalAddr::Tcp(addr) if self.is_quic => write!(f, "https://{addr}/ (HTTP/3)"),
            LocalAddr::Tcp(addr) => write!(f, "{}://{addr}/", if self.is_secure { "https" } else { "http" }),
            LocalAddr::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket of one loop.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    /// Whether TLS is spoken.
    pub(crate) is_secure: bool,
    /// Each connection begins with a header of the PROXY protocol.
    pub(crate) is_passed_on: bool,
    /// Other loops or processes have the socket too: connections that wait there can be left to them.
    pub(crate) is_inherited: bool,
}

impl Listener {
    pub(crate) fn local_addr(&self) -> Option<Local> {
        let addr = self.socket.local_addr().ok()?;
        let unix = || addr.as_pathname().map(|path| LocalAddr::Unix(path.to_owned()));
        let addr = addr.as_socket().map(LocalAddr::Tcp).or_else(unix)?;
        Some(Local { addr, is_secure: self.is_secure, is_quic: false })
    }
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
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inherited(fd) => write!(f, "fd:{fd}"),
        }
    }
}

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return Ok(addr.into());
        }
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        if let Some(fd) = text.strip_prefix("fd:").and_then(|fd| fd.parse().ok()).filter(|&fd: &RawFd| fd > 2) {
            return Ok(Self::Inherited(fd));
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

/// Where listening sockets come from other than from the kernel: another server whose place this one takes.
pub(crate) trait SocketSource {
    /// Its sockets at an address and port.
    fn at(&mut self, addr: SocketAddr) -> Vec<Socket>;
    /// Its socket at a path.
    fn at_path(&mut self, path: &Path) -> Option<Socket>;
}

/// Opens the sockets of `loops` loops; the result has a list for each loop, in the order of `listen`, which says of
/// each address whether TLS is spoken there. What `predecessor` has at an address is taken in place of a new socket.
pub(crate) fn open(
    listen: &[(&ListenAddr, bool, bool)],
    loops: usize,
    predecessor: &mut Option<impl SocketSource>,
) -> Result<Vec<Vec<Listener>>, BindError> {
    let mut opened: Vec<Vec<Listener>> = (0..loops).map(|_| Vec::new()).collect();
    for (wanted, is_secure, is_passed_on) in listen {
        let mut sockets: Vec<Vec<Socket>> = Vec::new();
        match wanted {
            ListenAddr::Every { port } => {
                let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
                let taken = [both, v4].into_iter().flat_map(|addr| take(addr, loops, predecessor).transpose());
                let taken: Vec<_> = taken.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
                if !taken.is_empty() {
                    sockets.extend(taken);
                } else {
                    sockets.push(match open_each(both, loops) {
                        // A machine without IPv6 says one of these; then IPv4 alone is every interface.
                        Err(BindError::Listen { .. } | BindError::AddressNotHere { .. }) => open_each(v4, loops)?,
                        outcome => outcome?,
                    });
                }
            }
            ListenAddr::Each(addrs) => {
                for addr in addrs {
                    match take(*addr, loops, predecessor)? {
                        Some(taken) => sockets.extend(taken),
                        None => sockets.push(open_each(*addr, loops)?),
                    }
                }
            }
            ListenAddr::Unix(path) => {
                let failed = |source| BindError::ListenUnix { path: path.clone(), source };
                let taken = predecessor.as_mut().and_then(|predecessor| predecessor.at_path(path));
                let socket = taken.map_or_else(|| open_unix(path), Ok).map_err(failed)?;
                sockets.push(share(socket, loops).map_err(failed)?);
            }
            ListenAddr::Inherited(fd) => {
                let failed = |source| BindError::Inherited { fd: *fd, source };
                sockets.push(take_inherited(*fd).and_then(|socket| share(socket, loops)).map_err(failed)?);
            }
        }
        for of_address in sockets {
            for (of_loop, socket) in opened.iter_mut().zip(of_address) {
                of_loop.push(Listener {
                    socket,
                    is_secure: *is_secure,
                    is_passed_on: *is_passed_on,
                    is_inherited: matches!(wanted, ListenAddr::Inherited(_)),
                });
            }
        }
    }
    if opened.first().is_none_or(Vec::is_empty) {
        return Err(BindError::NoAddress);
    }
    Ok(opened)
}

/// Further sockets at the addresses of TCP of a loop, for so many loops that rest: they are bound, and listen later.
pub(crate) fn open_reserve(steady: &[Listener], loops: usize) -> Result<Vec<Vec<Listener>>, BindError> {
    let at = |listener: &Listener| listener.socket.local_addr().ok()?.as_socket().filter(|_| !listener.is_inherited);
    let of_loop = || {
        let of = |listener| at(listener).map(|addr| (addr, listener.is_secure, listener.is_passed_on));
        let open = |(addr, is_secure, is_passed_on)| {
            let socket = bind_socket(addr, false).map_err(|source| failure(addr, source))?;
            Ok(Listener { socket, is_secure, is_passed_on, is_inherited: false })
        };
        steady.iter().filter_map(of).map(open).collect()
    };
    (0..loops).map(|_| of_loop()).collect()
}

/// A socket for each loop at one address.
fn open_each(addr: SocketAddr, loops: usize) -> Result<Vec<Socket>, BindError> {
    let failed = |source| failure(addr, source);
    let mut bound = addr;
    let mut sockets = Vec::new();
    for i in 0..loops {
        let socket = open_socket(bound, i == 0).map_err(failed)?;
        if i == 0 {
            // Port 0 is resolved once; the other loops share the port that the system chose.
            bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(addr);
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

/// The sockets of another server at an address, as rows of one socket for each loop. Connections may wait at each of
/// them, so none may be left out. None if there are no such sockets.
fn take(
    addr: SocketAddr,
    loops: usize,
    predecessor: &mut Option<impl SocketSource>,
) -> Result<Option<Vec<Vec<Socket>>>, BindError> {
    let mut taken = predecessor.as_mut().map(|predecessor| predecessor.at(addr)).unwrap_or_default();
    if taken.is_empty() {
        return Ok(None);
    }
    let failed = |source| failure(addr, source);
    for socket in &taken {
        socket.set_nonblocking(true).map_err(failed)?;
    }
    let missing = taken.len().next_multiple_of(loops) - taken.len();
    for place in 0..missing {
        // Where the other one does not share its port, a loop has to share a socket.
        let fresh = open_socket(addr, false).or_else(|_| taken[place % taken.len()].try_clone());
        taken.push(fresh.map_err(failed)?);
    }
    let mut rows: Vec<Vec<Socket>> = Vec::new();
    for socket in taken {
        match rows.last_mut().filter(|row| row.len() < loops) {
            Some(row) => row.push(socket),
            None => rows.push(vec![socket]),
        }
    }
    Ok(Some(rows))
}

/// Why an address cannot be listened on.
pub(crate) fn failure(addr: SocketAddr, source: io::Error) -> BindError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::AddressTaken { addr },
        io::ErrorKind::PermissionDenied => BindError::NoPermission { addr },
        io::ErrorKind::AddrNotAvailable => BindError::AddressNotHere { addr },
        _ => BindError::Listen { addr, source },
    }
}

/// Binds a socket of one of the loops, which share the address.
pub(crate) fn join(socket: &Socket, addr: SocketAddr, first: bool) -> io::Result<()> {
    if first {
        // The first socket is bound without SO_REUSEPORT, so that a port which another server has shared out
        // is reported as taken instead of silently splitting its clients with us.
        socket.bind(&addr.into())?;
        socket.set_reuse_port(true)
    } else {
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())
    }
}

/// The same socket for each loop: the loop that comes first accepts.
fn share(socket: Socket, loops: usize) -> io::Result<Vec<Socket>> {
    let mut sockets: Vec<Socket> = (1..loops).map(|_| socket.try_clone()).collect::<io::Result<_>>()?;
    sockets.push(socket);
    Ok(sockets)
}

fn open_unix(path: &Path) -> io::Result<Socket> {
    let addr = SockAddr::unix(path)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        // No process listens at it: a server that was killed has left it.
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&addr)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn take_inherited(fd: RawFd) -> io::Result<Socket> {
    let mut listens: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    // SAFETY: the kernel writes at most `len` bytes into `listens`; both live over the call.
    crate::io::epoll::check(unsafe { libc::getsockopt(fd, level, name, (&raw mut listens).cast(), &raw mut len) })?;
    if listens == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen"));
    }
    // A copy of our own, so that a number that is given twice is closed once by each of its owners.
    // SAFETY: the call takes no pointers; the descriptor is new and has no other owner.
    let socket = unsafe { Socket::from_raw_fd(crate::io::epoll::check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?) };
    socket.set_nonblocking(true)?;
    // Of a Unix socket this is refused, and needs not be.
    let _ = socket.set_tcp_nodelay(true);
    Ok(socket)
}

fn open_socket(addr: SocketAddr, first: bool) -> io::Result<Socket> {
    let socket = bind_socket(addr, first)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The same, which does not listen yet.
fn bind_socket(addr: SocketAddr, first: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    join(&socket, addr, first)?;
    // Accepted sockets inherit this; a response goes out in whole writes, so Nagle could only delay its end.
    socket.set_tcp_nodelay(true)?;
    defer_accept(&socket, Duration::from_secs(1));
    Ok(socket)
}

/// Asks for connections only once their first bytes are here: saves a wake-up and a registration for each.
///
/// The kernel hands a silent client over after about this time all the same, so that its timeout runs.
fn defer_accept(socket: &Socket, after: Duration) {
    let seconds = i32::try_from(after.as_secs()).unwrap_or(1);
    // A refusal is harmless: connections then arrive without their first bytes.
    let _ = crate::io::epoll::set_int_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where no other server's sockets are taken.
    enum NoOther {}

    impl SocketSource for NoOther {
        fn at(&mut self, _: SocketAddr) -> Vec<Socket> {
            match *self {}
        }

        fn at_path(&mut self, _: &Path) -> Option<Socket> {
            match *self {}
        }
    }

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
        let ours = open(&[(&any, false, false)], 2, &mut None::<NoOther>).expect("two loops");
        let addr = ours[0][0].socket.local_addr().expect("bound").as_socket().expect("TCP");
        assert_eq!(ours[1][0].socket.local_addr().expect("bound").as_socket(), Some(addr));
        assert!(matches!(
            open(&[(&addr.into(), false, false)], 2, &mut None::<NoOther>),
            Err(BindError::AddressTaken { .. })
        ));
    }
}
