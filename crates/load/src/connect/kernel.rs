//! The thin layer over the system calls of a loop: each is counted, none is hidden.

use crate::connect::datagram_socket;
use crate::connect::endpoint::Endpoint;
use crate::counts::calls::Calls;
use crate::error::system::checked;
use crate::reach::sockets::{SocketMaker, Sockets};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Bits of an event: there is something to read (data, the end, or an error).
pub(crate) const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// Bits of an event: the other side has ended its stream, or the connection is gone.
pub(crate) const HANGUP: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// Bits of an event: the connection is gone.
pub(crate) const BROKEN: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// Sockets are watched once, for everything, edge-triggered: no call is ever needed to change the watch.
const WATCHED: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// The kernel's signal set, which is smaller than that of the C library.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result; both clocks exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Which sockets connections have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transport {
    /// TCP, or Unix sockets.
    #[default]
    Streams,
    /// UDP, each socket connected to its server.
    Datagrams,
}

/// One epoll instance and what was asked of the kernel through it.
#[derive(Debug)]
pub(crate) struct Kernel {
    epoll: OwnedFd,
    /// epoll cannot wait for less than milliseconds here.
    is_old: bool,
    /// The receive buffer of new connections, where it is not to be what the kernel makes it.
    pub(crate) receive_buffer: Option<i32>,
    /// Which sockets are made.
    pub(crate) transport: Transport,
    pub(crate) calls: Calls,
    /// How sockets are made, if not as the system makes them.
    sockets: Option<Box<SocketMaker>>,
}

impl Kernel {
    pub(crate) fn new(sockets: &Sockets) -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let epoll = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let sockets = SocketMaker::new(sockets);
        Ok(Self {
            epoll,
            is_old: false,
            receive_buffer: None,
            transport: Transport::default(),
            calls: Calls::default(),
            sockets,
        })
    }

    /// The epoll instance.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Watches a socket, which tells at once what there is.
    pub(crate) fn watch(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        self.calls.other += 1;
        let mut event = libc::epoll_event { events: WATCHED, u64: token };
        // SAFETY: `event` outlives the call.
        checked(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Watches a socket no more.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        self.calls.other += 1;
        // SAFETY: the call takes no pointer that it would read. It fails only for a socket that is not watched.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Waits for events, at most `timeout_ns`; fills `events` from its start and returns how many.
    #[inline]
    pub(crate) fn wait(&mut self, events: &mut [libc::epoll_event], timeout_ns: u64) -> io::Result<usize> {
        self.calls.wait += 1;
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        if self.is_old {
            return self.wait_by_ppoll(events, &timeout);
        }
        // SAFETY: `events` and `timeout` outlive the call, the count is that of `events`, and there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                KERNEL_SIGNAL_SET_BYTES,
            )
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error if error.raw_os_error() == Some(libc::ENOSYS) => {
                    self.is_old = true;
                    self.wait_by_ppoll(events, &timeout)
                }
                error => Err(error),
            },
        }
    }

    /// The same where epoll cannot wait for less than milliseconds (before Linux 5.11, and under some observers): by
    /// ppoll, which can, on the epoll instance.
    #[cold]
    fn wait_by_ppoll(&mut self, events: &mut [libc::epoll_event], timeout: &libc::timespec) -> io::Result<usize> {
        self.calls.wait += 1;
        let mut epoll = libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the descriptor's entry, the timeout and the events outlive the calls, and their numbers are given.
        let count = unsafe {
            match checked(libc::ppoll(&raw mut epoll, 1, timeout, std::ptr::null())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
                Err(error) => return Err(error),
                Ok(_) => libc::epoll_wait(epoll.fd, events.as_mut_ptr(), events.len() as libc::c_int, 0),
            }
        };
        checked(count).map(|count| count as usize)
    }

    /// Receives what is there, without waiting.
    ///
    /// Called without the C library's `recv`, as `send` is without its: those are points where a thread can be
    /// cancelled, and the bookkeeping for that takes 1.5 % of a loop's time.
    #[inline]
    pub(crate) fn receive(&mut self, fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls.receive += 1;
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the buffer is valid for its length, and the sender's address is not asked for.
        let count = unsafe { libc::syscall(libc::SYS_recvfrom, fd, buffer.as_mut_ptr(), buffer.len(), 0, none, none) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Gives what there is room for to the kernel, without waiting.
    #[inline]
    pub(crate) fn send(&mut self, fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        self.calls.send += 1;
        let (flags, none) = (libc::MSG_NOSIGNAL, std::ptr::null::<libc::c_void>());
        // SAFETY: the bytes are valid for their length, and no address is given.
        let count = unsafe { libc::syscall(libc::SYS_sendto, fd, bytes.as_ptr(), bytes.len(), flags, none, 0) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Begins to connect a new socket, from a source where one is given, and watches it under `token`.
    pub(crate) fn connect(
        &mut self,
        endpoint: &Endpoint,
        source: Option<SocketAddr>,
        token: u64,
    ) -> io::Result<OwnedFd> {
        self.calls.other += 4;
        let name = &endpoint.name;
        let is_unix = name.is_unix();
        let (kind, protocol) = match self.transport {
            Transport::Datagrams => (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
            Transport::Streams if is_unix => (libc::SOCK_STREAM, 0),
            Transport::Streams => (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        };
        let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let fd = checked(unsafe { libc::socket(libc::c_int::from(name.family()), kind, protocol) })?;
        // SAFETY: the descriptor was just made, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if protocol == libc::IPPROTO_UDP {
            self.calls.other += datagram_socket::PREPARE_CALLS;
            datagram_socket::prepare(fd.as_raw_fd(), name.is_ipv6());
        } else if !is_unix {
            let on: libc::c_int = 1;
            // A request that does not fit one segment must not wait for the acknowledgement of its beginning.
            // SAFETY: `on` outlives the call and its size is given.
            checked(unsafe {
                let value = (&raw const on).cast();
                libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, value, size_of_val(&on) as u32)
            })?;
        }
        if let Some(bytes) = self.receive_buffer.filter(|_| !is_unix) {
            self.calls.other += 1;
            // Before the connection is made, as its beginning agrees on how windows are counted.
            // SAFETY: `bytes` outlives the call and its size is given.
            checked(unsafe {
                let value = (&raw const bytes).cast();
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, value, size_of_val(&bytes) as u32)
            })?;
        }
        if let Some(maker) = &mut self.sockets {
            maker.prepare(fd.as_fd(), endpoint.address(), source)?;
        }
        if let Some(source) = source
            && !self.sockets.as_ref().is_some_and(|maker| maker.binds())
        {
            self.calls.other += 2;
            without_port(fd.as_raw_fd())?;
            let own = socket2::SockAddr::from(source);
            // SAFETY: the address is valid for the length that it gives.
            checked(unsafe { libc::bind(fd.as_raw_fd(), own.as_ptr().cast(), own.len()) })?;
        }
        // SAFETY: the address is valid for the length that it gives.
        if let Err(error) = checked(unsafe { libc::connect(fd.as_raw_fd(), name.as_ptr().cast(), name.len()) })
            && error.raw_os_error() != Some(libc::EINPROGRESS)
        {
            return Err(error);
        }
        let mut event = libc::epoll_event { events: WATCHED, u64: token };
        // SAFETY: `event` outlives the call.
        checked(unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)
        })?;
        Ok(fd)
    }

    /// Bytes that a socket has received and that have not been read.
    pub(crate) fn unread(&mut self, fd: RawFd) -> usize {
        self.calls.other += 1;
        let mut bytes: libc::c_int = 0;
        // SAFETY: `bytes` outlives the call. A socket that it fails for has nothing to read.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// How long ago a socket last received something, within the kernel's tick; `None` where it is none of TCP.
    pub(crate) fn came_ago_ns(&mut self, fd: RawFd) -> Option<u64> {
        self.calls.other += 1;
        // The beginning of `tcp_info` up to `tcpi_last_data_recv`, which stands behind 8 bytes and 11 words.
        let mut info = [0u32; 14];
        let mut length = size_of_val(&info) as libc::socklen_t;
        let value = info.as_mut_ptr().cast();
        // SAFETY: `info` and `length` outlive the call and the length is that of `info`.
        checked(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut length) }).ok()?;
        (length as usize == size_of_val(&info)).then(|| u64::from(info[13]) * 1_000_000)
    }

    /// The error that a socket is in, if it is.
    pub(crate) fn socket_error(&mut self, fd: RawFd) -> Option<io::Error> {
        self.calls.other += 1;
        let mut code: libc::c_int = 0;
        let mut length = size_of_val(&code) as libc::socklen_t;
        let value = (&raw mut code).cast();
        // SAFETY: `code` and `length` outlive the call and the length is that of `code`.
        match checked(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, value, &raw mut length) }) {
            Err(error) => Some(error),
            Ok(_) if code != 0 => Some(io::Error::from_raw_os_error(code)),
            Ok(_) => None,
        }
    }

    /// A socket's own address.
    pub(crate) fn local_address(&mut self, fd: &OwnedFd) -> Option<SocketAddr> {
        self.calls.other += 1;
        socket2::SockRef::from(fd).local_addr().ok()?.as_socket()
    }

    /// Makes a socket's close send a reset, so that its port does not stay in TIME_WAIT.
    pub(crate) fn reset_at_close(&mut self, fd: &OwnedFd) {
        self.calls.other += 1;
        // It fails for no open socket; one that it did fail for would be closed in order.
        let _ = socket2::SockRef::from(fd).set_linger(Some(std::time::Duration::ZERO));
    }

    /// Closes a socket, which ends its watch too.
    pub(crate) fn close(&mut self, fd: OwnedFd) {
        self.calls.other += 1;
        drop(fd);
    }
}

/// Leaves the choice of a port to the connect call: a port then serves one connection to each server's address, instead
/// of one connection at all.
pub(crate) fn without_port(fd: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` outlives the call and its size is given.
    checked(unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, value, size_of_val(&on) as u32)
    })?;
    Ok(())
}
