//! The system calls on a TCP socket that the standard library does not have.

use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SIOCOUTQNSD` of linux/sockios.h: bytes not sent yet.
pub(crate) const UNSENT_BYTES: libc::c_ulong = 0x894B;
/// `SIOCOUTQ`: bytes not acknowledged.
pub(crate) const UNACKNOWLEDGED_BYTES: libc::c_ulong = libc::TIOCOUTQ;
/// `SIOCINQ`: bytes not read.
pub(crate) const UNREAD_BYTES: libc::c_ulong = libc::FIONREAD;

fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Plain numbers without padding, which setsockopt(2) and getsockopt(2) may read and write as bytes.
pub(crate) trait Plain: Copy + Default {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for [u32; 5] {}
impl Plain for [u8; 8] {}
impl Plain for [u64; 19] {}

/// Sets an option of the socket.
pub(crate) fn set<T: Plain>(socket: BorrowedFd<'_>, level: i32, option: i32, value: T) -> io::Result<()> {
    set_all(socket, level, option, &[value])
}

/// Sets an option that takes a list.
pub(crate) fn set_all<T: Plain>(socket: BorrowedFd<'_>, level: i32, option: i32, values: &[T]) -> io::Result<()> {
    let bytes = size_of_val(values) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` of the values, which are that long and live through the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, values.as_ptr().cast(), bytes) }).map(drop)
}

/// An option of the socket at the level of TCP, or as much of its beginning as the type holds.
pub(crate) fn get<T: Plain>(socket: BorrowedFd<'_>, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `bytes` to the value, which is that long; any bytes are a value of it.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, place, &raw mut bytes) })?;
    Ok(value)
}

/// A number of bytes that ioctl(2) tells.
pub(crate) fn queue_bytes(socket: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: each of these requests writes one int.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) })?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// Bytes of a queue, which stay there. At most so many; fewer if fewer are there.
pub(crate) fn peek(socket: BorrowedFd<'_>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; bytes_max];
    if bytes_max == 0 {
        return Ok(bytes);
    }
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most so many bytes into the vector, which is that long.
    let got = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(got as usize);
    Ok(bytes)
}

/// Appends to a queue; the number of bytes taken.
pub(crate) fn append(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the kernel reads the slice within its length.
    let put = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if put < 0 { Err(io::Error::last_os_error()) } else { Ok(put as usize) }
}

/// Connects a socket to nothing (connect(2), `AF_UNSPEC`), which ends its connection.
pub(crate) fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
    address.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let bytes = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads the address within its length.
    checked(unsafe { libc::connect(socket.as_raw_fd(), &raw const address, bytes) }).map(drop)
}

/// Both ends of a connection as the socket shows them: its own, and the other.
pub(crate) fn ends(socket: BorrowedFd<'_>) -> io::Result<(SocketAddr, SocketAddr)> {
    let socket = SockRef::from(&socket);
    let internet = |address: socket2::SockAddr| address.as_socket().ok_or(io::ErrorKind::Unsupported.into());
    Ok((socket.local_addr().and_then(internet)?, socket.peer_addr().and_then(internet)?))
}

/// How far a connection has come since its socket was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether it is established, and neither side has closed it.
    pub is_established: bool,
    /// Bytes that its other end has acknowledged (`tcpi_bytes_acked`).
    pub acknowledged_bytes: u64,
    /// Whether bytes wait to be acknowledged, or to be sent.
    pub has_more: bool,
}

/// How far a connection has come (`struct tcp_info`, linux/tcp.h; Linux 4.6).
///
/// # Errors
/// Those of getsockopt(2).
pub fn progress(socket: BorrowedFd<'_>) -> io::Result<Progress> {
    const ESTABLISHED: u8 = 1;
    let info: [u64; 19] = get(socket, libc::TCP_INFO)?;
    let bytes = |at: usize| info[at / 8].to_ne_bytes();
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes(at)[at % 8 + byte]));
    Ok(Progress {
        is_established: bytes(0)[0] == ESTABLISHED,
        acknowledged_bytes: info[15],
        has_more: number(24) > 0 || number(144) > 0,
    })
}
