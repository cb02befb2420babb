//! Listens, and gives each connection a thread.

use crate::connection::Connection;
use crate::counts::Counts;
use crate::error::ServerError;
use crate::relay::{END_PATIENCE, poll};
use crate::settings::Settings;
use crate::shared::{Next, Shared};
use crate::trust::Trust;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether the program is to end.
const TURN: Duration = Duration::from_millis(100);
/// How much longer than its requests a connection may take to end.
const END_MARGIN: Duration = Duration::from_secs(3);
/// A peer that is silent for so long is asked whether it is there, and so often, until it counts as gone (tcp(7)).
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_TRIES: u32 = 3;
/// How long it may take to acknowledge bytes or probes, or to open its window (TCP_USER_TIMEOUT of tcp(7)): this bound
/// holds in place of the number of tries, where the kernel has it.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes of the stack of a thread: nothing in it is deep.
const STACK_BYTES: usize = 512 << 10;

/// A script server that listens.
#[derive(Debug)]
pub struct Running {
    listener: TcpListener,
    shared: Arc<Shared>,
    stopper: UnixStream,
    connections: Arc<AtomicUsize>,
}

/// Gives a running script server another configuration.
#[derive(Debug, Clone)]
pub struct Reloader(Arc<Shared>);

/// A configuration that a running script server can take up.
#[derive(Debug)]
pub struct Prepared(Next);

impl Prepared {
    /// Whether certificate and key stay as they were read before, as their files may not be read any more.
    pub fn keeps_key(&self) -> bool {
        self.0.keeps_key
    }
}

impl Reloader {
    /// Reads the files of TLS of other settings; nothing has changed yet. Where they listen is not looked at.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn prepare(&self, settings: &Settings) -> Result<Prepared, ServerError> {
        Next::of(settings, Some(&self.0.now())).map(Prepared)
    }

    /// Has handshakes and requests from now on go by these settings; requests under way go on as they began. A
    /// connection whose peer other authorities or names have let in ends before its next request.
    pub fn take_up(&self, prepared: Prepared) {
        self.0.take_up(prepared.0);
    }
}

impl Running {
    /// Looks whether the files of TLS can be used.
    ///
    /// # Errors
    ///
    /// One of them cannot.
    pub fn check(settings: &Settings) -> Result<(), ServerError> {
        settings.tls.as_ref().map(|files| Trust::load(files, None)).transpose()?;
        Ok(())
    }

    /// Reads the files of TLS and listens; connections wait until [`Self::run`]. `notice` writes lines of the log.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or the address is taken.
    pub fn bind(settings: &Settings, notice: fn(&str)) -> Result<Self, ServerError> {
        let next = Next::of(settings, None)?;
        let of_listen = |error| ServerError::Listen(settings.listen, error);
        let listener = TcpListener::bind(settings.listen).map_err(of_listen)?;
        listener.set_nonblocking(true)?;
        let (stopper, stop) = UnixStream::pair()?;
        let shared = Arc::new(Shared::new(next, notice, stop));
        Ok(Self { listener, shared, stopper, connections: Arc::default() })
    }

    /// Gives it another configuration while it runs.
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.shared))
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system does not say it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is set, or `goes_on`, which is asked again and again, says no; requests under way may go on
    /// for some seconds then.
    pub fn run(self, stop: &AtomicBool, mut goes_on: impl FnMut() -> bool) -> Arc<Counts> {
        while !stop.load(Ordering::Acquire) && goes_on() {
            let mut fds = [libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
            poll(&mut fds, Some(Instant::now() + TURN));
            if fds[0].revents == 0 {
                continue;
            }
            match self.listener.accept() {
                Ok((socket, peer)) => self.take(socket, peer),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => {
                    // A lack of descriptors passes, and the connection waits meanwhile.
                    self.shared.tell(&format!("a connection cannot be accepted: {error}"));
                    std::thread::sleep(TURN);
                }
            }
        }
        let Self { listener, shared, stopper, connections, .. } = self;
        drop((listener, stopper));
        let until = Instant::now() + END_PATIENCE + END_MARGIN;
        while connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(TURN / 10);
        }
        Arc::clone(&shared.counts)
    }

    /// Gives a connection a thread, if there is room.
    fn take(&self, socket: TcpStream, peer: SocketAddr) {
        let counts = &self.shared.counts;
        Counts::add(&counts.connections);
        let refuse = |why: &str| {
            Counts::add(&counts.refused);
            self.shared.tell(&format!("connection from {peer} was closed: {why}"));
        };
        if self.connections.load(Ordering::Acquire) >= self.shared.now().connections_max {
            return refuse("there are as many as `connections` allows");
        }
        if let Err(error) = prepare(&socket) {
            return refuse(&error.to_string());
        }
        self.connections.fetch_add(1, Ordering::AcqRel);
        let guard = Guard(Arc::clone(&self.connections));
        let shared = Arc::clone(&self.shared);
        let body = move || {
            let _guard = guard;
            if let Some(connection) = Connection::new(socket, peer, shared) {
                connection.serve();
            }
        };
        let builder = std::thread::Builder::new().name("weir-peer".to_owned()).stack_size(STACK_BYTES);
        if let Err(error) = builder.spawn(body) {
            refuse(&format!("there is no thread for it: {error}"));
        }
    }
}

/// Counts a connection as long as it lives.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(socket);
    // By fcntl(2): the standard library's call, ioctl(2), is none that a confined program makes.
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // A host that loses its power says nothing, and its script would run on.
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_EVERY).with_retries(KEEPALIVE_TRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(SILENCE_MAX))
}
