//! What the kernel tells of a TCP connection without any right: how far its bytes came, and what its ends agreed on.

use super::epoll::check;
use std::io;
use std::os::fd::RawFd;

/// Places of `struct tcp_info` (linux/tcp.h); bytes.
const OPTIONS: usize = 5;
const SCALES: usize = 6;
const ROUND_TRIP_US: usize = 68;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const INFO_BYTES: usize = 136;
/// An acknowledgement that comes between two readings has them read again.
const READS_MAX: usize = 8;
/// `TCP_TIMESTAMP` of linux/tcp.h.
const TCP_TIMESTAMP: libc::c_int = 24;

/// How far the bytes of a connection came since its socket was made, and what its ends agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// The kernel's own name of the socket (`SO_COOKIE`, socket(7)), which no other one has.
    pub cookie: u64,
    /// Bytes that were given to the kernel.
    pub written: u64,
    /// Of these, bytes that the client has acknowledged.
    pub acknowledged: u64,
    /// Bytes that have come of the client.
    pub received: u64,
    /// Whether some of these were not read.
    pub has_unread: bool,
    /// Options of the handshake, as bits `TCPI_OPT_*` of `struct tcp_info`.
    pub options: u8,
    /// The client's window scale, bits.
    pub send_scale: u8,
    /// The server's window scale, bits.
    pub receive_scale: u8,
    /// Largest segment, bytes.
    pub mss: u32,
    /// The clock of the timestamps in segments (`TCP_TIMESTAMP`); its lowest bit says whether it counts microseconds.
    pub timestamp: u32,
    /// The round trip as the kernel smooths it, microseconds.
    pub round_trip_us: u32,
}

impl ConnectionFacts {
    /// Those of an open socket, to which no other thread writes meanwhile.
    ///
    /// # Errors
    ///
    /// The kernel's; `WouldBlock` where acknowledgements come faster than they can be read.
    pub(crate) fn of(socket: RawFd) -> io::Result<Self> {
        let mut before = info(socket)?;
        for _ in 0..READS_MAX {
            let queued = queued_bytes(socket)?;
            let has_unread = has_unread(socket)?;
            let now = info(socket)?;
            let [acknowledged, received] = [BYTES_ACKED, BYTES_RECEIVED].map(|at| number(&now, at));
            if [acknowledged, received] != [BYTES_ACKED, BYTES_RECEIVED].map(|at| number(&before, at)) {
                before = now;
                continue;
            }
            let round_trip = now[ROUND_TRIP_US..].first_chunk().copied().unwrap_or_default();
            return Ok(Self {
                cookie: option(socket, libc::SOL_SOCKET, libc::SO_COOKIE)?,
                written: acknowledged + u64::from(queued),
                acknowledged,
                received,
                has_unread,
                options: now[OPTIONS],
                // Both are in one byte.
                send_scale: now[SCALES] & 15,
                receive_scale: now[SCALES] >> 4,
                mss: option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)?,
                timestamp: option(socket, libc::IPPROTO_TCP, TCP_TIMESTAMP)?,
                round_trip_us: u32::from_ne_bytes(round_trip),
            });
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Bytes that have come of a socket's client, and those that it has acknowledged; none where the kernel does not say.
pub(crate) fn moved_bytes(socket: RawFd) -> Option<(u64, u64)> {
    let info = info(socket).ok()?;
    Some((number(&info, BYTES_RECEIVED), number(&info, BYTES_ACKED)))
}

/// Bytes that a socket's client has not acknowledged; 0 where the kernel does not say.
pub(crate) fn unacknowledged_bytes(socket: RawFd) -> u32 {
    queued_bytes(socket).unwrap_or(0)
}

/// Whether a socket's client has acknowledged all that was given to the kernel; false where the kernel does not say.
pub(crate) fn has_arrived(socket: RawFd) -> bool {
    queued_bytes(socket).is_ok_and(|bytes| bytes == 0)
}

fn number(info: &[u8; INFO_BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(info[at..].first_chunk().copied().unwrap_or_default())
}

fn info(socket: RawFd) -> io::Result<[u8; INFO_BYTES]> {
    let mut info = [0_u8; INFO_BYTES];
    let mut len = INFO_BYTES as libc::socklen_t;
    let at = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes into the array, which is that long; both live over the call.
    check(unsafe { libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len) })?;
    // Linux before 4.1 has no counts of bytes.
    if len as usize == INFO_BYTES { Ok(info) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// An option that is a plain number.
fn option<T: Default>(socket: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<T>
where
    u64: From<T>,
{
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the number (only such have a way to `u64`), which is that long;
    // both live over the call.
    check(unsafe { libc::getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// `SIOCOUTQ` (tcp(7)): the filter of system calls lets it pass.
fn queued_bytes(socket: RawFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int, which lives over the call.
    check(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

fn has_unread(socket: RawFd) -> io::Result<bool> {
    let mut byte = [0_u8];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most one byte into the array, which lives over the call.
    let got = unsafe { libc::recv(socket, byte.as_mut_ptr().cast(), 1, flags) };
    match io::Error::last_os_error() {
        _ if got >= 0 => Ok(got > 0),
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn bytes_are_counted_from_the_first_one_on() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        let fresh = ConnectionFacts::of(server.as_raw_fd()).expect("is told");
        assert_eq!((fresh.written, fresh.acknowledged, fresh.received, fresh.has_unread), (0, 0, 0, false));
        client.write_all(b"question").expect("writes");
        server.write_all(b"an answer").expect("writes");
        let mut answer = [0; 9];
        client.read_exact(&mut answer).expect("reads");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let facts = loop {
            let facts = ConnectionFacts::of(server.as_raw_fd()).expect("is told");
            if (facts.received, facts.acknowledged) == (8, 9) {
                break facts;
            }
            assert!(std::time::Instant::now() < deadline, "{facts:?}");
            std::thread::yield_now();
        };
        assert_eq!((facts.written, facts.has_unread, unacknowledged_bytes(server.as_raw_fd())), (9, true, 0));
        assert!(facts.cookie != 0 && facts.cookie == fresh.cookie && facts.mss > 500 && facts.timestamp != 0);
        let other = ConnectionFacts::of(client.as_raw_fd()).expect("is told");
        assert_ne!(other.cookie, facts.cookie);
    }
}
