//! The few system calls of the loop that the standard library does not offer.
//!
//! The calls that every request needs bypass the C library's functions. Those are cancellation points: in a program
//! with several threads each takes two locked instructions more.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What a descriptor became ready for, or what is known of it without asking: a set of [`Self::INPUT`], [`Self::END`]
/// and [`Self::ROOM`] in one byte, so that an event is added to what is known by one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readiness(u8);

impl Readiness {
    /// Nothing: an event without one, for a connection that was not finished in its turn.
    pub(crate) const NONE: Self = Self(0);
    /// There is or may be input, the peer has ended its side, or the connection failed.
    pub(crate) const INPUT: Self = Self(1);
    /// The peer will send nothing more: its end is to be read after the last byte.
    pub(crate) const END: Self = Self(1 << 1);
    /// There is or may be room for output, or the connection failed.
    pub(crate) const ROOM: Self = Self(1 << 2);

    pub(crate) fn of(event: &libc::epoll_event) -> Self {
        let has = |bits: i32| event.events & bits.cast_unsigned() != 0;
        let failed = has(libc::EPOLLERR | libc::EPOLLHUP);
        Self::NONE
            .with(Self::INPUT, failed || has(libc::EPOLLIN | libc::EPOLLRDHUP))
            .with(Self::END, failed || has(libc::EPOLLRDHUP))
            .with(Self::ROOM, failed || has(libc::EPOLLOUT))
    }

    /// The same, and this as well if it is so.
    #[inline]
    pub(crate) const fn with(self, what: Self, is_so: bool) -> Self {
        Self(self.0 | if is_so { what.0 } else { 0 })
    }

    #[inline]
    pub(crate) const fn has(self, what: Self) -> bool {
        self.0 & what.0 != 0
    }

    /// Adds what an event tells.
    #[inline]
    pub(crate) fn add(&mut self, more: Self) {
        self.0 |= more.0;
    }

    #[inline]
    pub(crate) fn remove(&mut self, what: Self) {
        self.0 &= !what.0;
    }

    /// Adds it or removes it.
    #[inline]
    pub(crate) fn set(&mut self, what: Self, is_so: bool) {
        *self = Self(self.0 & !what.0).with(what, is_so);
    }
}

/// What to be told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Input as long as there is some (level-triggered); for listening sockets.
    Level,
    /// The same, and room for output as long as there is some.
    LevelAndRoom,
    /// Nothing for now.
    Paused,
    /// New input (edge-triggered).
    Input,
    /// New input and new room for output (edge-triggered).
    InputAndRoom,
    /// Room for much output, as long as there is some (level-triggered), and nothing else: a connection that sends a
    /// long response in turns gets an event for each turn without asking again.
    Room,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Self::Level => libc::EPOLLIN,
            Self::LevelAndRoom => libc::EPOLLIN | libc::EPOLLOUT,
            Self::Paused => 0,
            Self::Input => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET,
            Self::InputAndRoom => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET,
            Self::Room => libc::EPOLLOUT,
        };
        bits.cast_unsigned()
    }
}

/// An epoll instance.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub(crate) fn modify(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Tells nothing more of a descriptor.
    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Paused)
    }

    fn control(&self, operation: i32, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: `event` lives over the call, which only reads it.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &raw mut event) }).map(drop)
    }

    /// Fills `events`, waiting at most `timeout_ms`; an interrupted wait counts as one without events.
    pub(crate) fn wait(&self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        let (fd, room) = (self.0.as_raw_fd(), i32::try_from(events.len()).unwrap_or(i32::MAX));
        let no_mask = std::ptr::null::<libc::sigset_t>();
        let mask_bytes = 8_usize;
        // SAFETY: the kernel writes at most `room` events into the slice, and is given no mask of signals.
        let count = unsafe {
            libc::syscall(libc::SYS_epoll_pwait, fd, events.as_mut_ptr(), room, timeout_ms, no_mask, mask_bytes)
        };
        match count_of(count) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            count => count,
        }
    }
}

/// Wakes a loop from another thread.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer lives over the call. It fails only when the counter is full, and then the loop is awake.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes all wakes so far, for those that wait by poll(2), which tells of them again and again.
    pub(crate) fn take(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the kernel writes at most the buffer's length; it fails only when there were none.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// Of an eventfd(2) that does not block.
impl From<OwnedFd> for Waker {
    fn from(eventfd: OwnedFd) -> Self {
        Self(eventfd)
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Accepts one connection; the socket is non-blocking, and the peer's address without its port comes along.
pub(crate) fn accept(listener: &impl AsRawFd) -> io::Result<(OwnedFd, SocketAddr)> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes at most `len` bytes into `storage`; both live over the call.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut storage).cast(), &raw mut len, flags) })?;
    // SAFETY: the descriptor is new and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let addr = match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds this structure, which is smaller.
            let v4 = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in>() };
            let addr = IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)));
            SocketAddr::new(addr, u16::from_be(v4.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds this structure, which is smaller.
            let v6 = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in6>() };
            let addr = IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)).to_canonical();
            SocketAddr::new(addr, u16::from_be(v6.sin6_port))
        }
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    };
    Ok((fd, addr))
}

/// Which of the descriptors have something to be read or accepted. To ask takes 0.35 us; a call of `accept4` that finds
/// no connection takes many times as long, as it makes a socket and a file before it looks, and has to give them back.
pub(crate) fn have_input<const N: usize>(descriptors: [Option<RawFd>; N]) -> [bool; N] {
    // The kernel passes over negative numbers.
    let mut asked = descriptors.map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    // SAFETY: the kernel reads and writes the structures, which live over the call. Where it fails nothing is told.
    unsafe { libc::poll(asked.as_mut_ptr(), N as libc::nfds_t, 0) };
    asked.map(|asked| asked.revents != 0)
}

/// Receives into `buffer` without waiting; 0 means that the peer has ended its side.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let no_peer = std::ptr::null_mut::<libc::c_void>();
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the kernel writes at most the slice's length into it, and is asked for no address.
    count_of(unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, len, libc::MSG_DONTWAIT, no_peer, no_peer) })
}

/// Looks at what is there to be received, which stays there; 0 means that the peer has ended its side.
pub(crate) fn peek(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let no_peer = std::ptr::null_mut::<libc::c_void>();
    let (at, len, flags) = (buffer.as_mut_ptr(), buffer.len(), libc::MSG_DONTWAIT | libc::MSG_PEEK);
    // SAFETY: the kernel writes at most the slice's length into it, and is asked for no address.
    count_of(unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, len, flags, no_peer, no_peer) })
}

/// Sends some of the bytes without waiting.
pub(crate) fn send_bytes(fd: RawFd, bytes: &[u8], flags: i32) -> io::Result<usize> {
    let flags = flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let no_peer = std::ptr::null::<libc::c_void>();
    // SAFETY: the kernel reads only the slice, which lives over the call, and is given no address.
    count_of(unsafe { libc::syscall(libc::SYS_sendto, fd, bytes.as_ptr(), bytes.len(), flags, no_peer, 0_usize) })
}

/// Sends some of a file without waiting; 0 means that it ends before `start`.
pub(crate) fn send_file(fd: RawFd, file: RawFd, start: libc::off64_t, len: usize) -> io::Result<usize> {
    let mut offset = start;
    // SAFETY: the offset lives over the call, which updates it.
    count_of(unsafe { libc::syscall(libc::SYS_sendfile, fd, file, &raw mut offset, len) })
}

/// Sends some of the pieces without waiting.
pub(crate) fn send(fd: RawFd, pieces: &[IoSlice<'_>], flags: i32) -> io::Result<usize> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSlice has the layout of an iovec, and sendmsg does not write through it.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len();
    let flags = flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the structure and the pieces live over the call, which only reads them.
    count_of(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
}

/// Begins to connect a socket that does not block; whether it is connected already. A Unix socket whose queue is full
/// answers `WouldBlock`, and no event tells when it is not.
pub(crate) fn connect(socket: &OwnedFd, to: &socket2::SockAddr) -> io::Result<bool> {
    // SAFETY: the address and its length are those of a valid address, which the call only reads.
    let result = unsafe { libc::connect(socket.as_raw_fd(), to.as_ptr().cast(), to.len()) };
    match check(result) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Why a connection that was begun has failed, if it has (SO_ERROR, socket(7)).
pub(crate) fn socket_error(socket: RawFd) -> io::Result<()> {
    let mut code: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw mut code).cast();
    // SAFETY: the kernel writes at most `len` bytes into `code`; both live over the call.
    check(unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_ERROR, value, &raw mut len) })?;
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Ends our side of a connection.
pub(crate) fn end_side(socket: RawFd) {
    // SAFETY: the call takes no pointers. It fails where the connection has ended, which is told otherwise.
    unsafe { libc::shutdown(socket, libc::SHUT_WR) };
}

/// Ends both sides of a connection, of which other processes may have descriptors.
#[cold]
pub(crate) fn end_both(socket: RawFd) {
    // SAFETY: the call takes no pointers. It fails where the connection has ended already.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Another descriptor of a socket.
///
/// # Errors
/// The kernel's, where the process may have no more.
#[cold]
pub(crate) fn duplicate(socket: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is that of an open socket, and is not used beyond the call.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    socket.try_clone_to_owned()
}

/// Has the kernel reset the connection when its socket is closed (SO_LINGER of no time, socket(7)).
#[cold]
pub(crate) fn reset_on_close(socket: RawFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    let value = std::ptr::from_ref(&linger).cast();
    // SAFETY: the value lives over the call. Where it fails the connection ends as others do.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_LINGER, value, len) };
}

/// Ends our side of a connection; the peer still can send.
pub(crate) fn end_output(fd: RawFd) {
    // SAFETY: the call takes no pointers. It fails when the peer has gone, which the next receive tells us too.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Sets an integer socket option.
pub(crate) fn set_int_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, which lives over the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Has the kernel take at most so many bytes of a TCP connection beyond those that are on their way, or little more
/// (`TCP_NOTSENT_LOWAT`, tcp(7)).
///
/// # Errors
///
/// The kernel's, as for what is no TCP socket.
pub(crate) fn bound_unsent(socket: RawFd, bytes: i32) -> io::Result<()> {
    set_int_option(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// The same for calls that answer with a number of bytes or of other things.
fn count_of(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Turns the C convention of -1 into an error.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_events_tell_adds_up_until_it_is_removed() {
        let of = |bits: i32| Readiness::of(&libc::epoll_event { events: bits.cast_unsigned(), u64: 0 });
        let all = [Readiness::INPUT, Readiness::END, Readiness::ROOM];
        let told = |readiness: Readiness| all.map(|what| readiness.has(what));
        assert_eq!(told(of(0)), [false, false, false]);
        assert_eq!(told(of(libc::EPOLLIN)), [true, false, false]);
        assert_eq!(told(of(libc::EPOLLRDHUP)), [true, true, false]);
        assert_eq!(told(of(libc::EPOLLOUT)), [false, false, true]);
        assert_eq!(told(of(libc::EPOLLHUP)), [true, true, true]);
        assert_eq!(told(of(libc::EPOLLERR)), [true, true, true]);
        let mut known = Readiness::NONE;
        known.add(of(libc::EPOLLIN));
        known.add(of(libc::EPOLLOUT));
        assert_eq!(told(known), [true, false, true]);
        known.remove(Readiness::INPUT);
        assert_eq!(told(known), [false, false, true]);
        known.set(Readiness::ROOM, false);
        known.set(Readiness::END, true);
        assert_eq!(told(known), [false, true, false]);
        assert_eq!(told(known.with(Readiness::INPUT, false)), told(known));
    }
}
