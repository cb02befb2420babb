//! The thread that answers at the admin address: a few clients at a time, each within bounds of time and bytes.

use super::address::{Admin, AdminToken};
use super::history::History;
use super::pages::{AdminDoor, AdminPages, AdminSocket, AdminVisit};
use super::status::View;
use crate::error::BindError;
use crate::io::epoll::{Waker, check};
use crate::io::listen::{Local, LocalAddr, SocketSource};
use crate::telemetry::admin::answer::{Answer, Asker, answer, busy};
use crate::telemetry::watching::{Subscription, Watchers};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients that are listened to at a time; the others wait in the kernel.
const VISITORS_MAX: usize = 16;
/// Those that the kernel lets wait.
const BACKLOG: i32 = 64;
/// How long a client may take.
const VISIT_MAX: Duration = Duration::from_secs(2);
/// Bytes of a request; more are none.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// From one sample to the next.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The listening socket.
#[derive(Debug)]
pub(crate) struct AdminServer {
    socket: Socket,
    token: Option<AdminToken>,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct AdminThread {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    pages: Option<Arc<dyn AdminPages>>,
}

impl AdminThread {
    /// Ends the thread; it drops clients that it is answering.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        // It has nothing to say, and its end is no reason for the server not to end.
        let _ = self.thread.join();
        if let Some(pages) = self.pages {
            pages.end();
        }
    }
}

/// A client.
#[derive(Debug)]
struct Visitor {
    socket: Socket,
    input: Vec<u8>,
    /// The answer, and how much of it was sent.
    output: Vec<u8>,
    sent: usize,
    until: Instant,
    origin: Origin,
    course: Course,
}

/// Where a client came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The listening socket.
    Outside,
    /// The door within the process.
    Within,
}

/// What becomes of a client.
#[derive(Debug)]
enum Course {
    /// It asks, and is answered.
    Answered,
    /// It watches from now on.
    Watches(Subscription),
    /// It asks for a page that another part of the program serves.
    HandedOver { may_ask: bool },
}

impl AdminServer {
    /// Opens the socket, or has that of a server which is to end: until then either of them answers.
    ///
    /// # Errors
    ///
    /// [`BindError::Admin`]: the system refuses the socket.
    pub(crate) fn bind(admin: &Admin, predecessor: Option<&mut impl SocketSource>) -> Result<Self, BindError> {
        let taken = predecessor.and_then(|predecessor| match admin {
            Admin::Unix { path, .. } => predecessor.at_path(path),
            Admin::Tcp { addr, .. } => predecessor.at(*addr).pop(),
        });
        let socket = match (admin, taken) {
            (_, Some(taken)) => taken.set_nonblocking(true).map(|()| taken),
            (Admin::Unix { path, .. }, None) => bind_unix(path),
            (Admin::Tcp { addr, .. }, None) => bind_tcp(&(*addr).into()),
        };
        let socket = socket.map_err(|source| BindError::Admin { addr: admin.to_string(), source })?;
        Ok(Self { socket, token: admin.token().cloned() })
    }

    /// Where it listens, with the port that the system chose for port 0.
    pub(crate) fn local(&self) -> Option<Local> {
        let addr = self.socket.local_addr().ok()?;
        let unix = || addr.as_pathname().map(|path| LocalAddr::Unix(path.to_owned()));
        let addr = addr.as_socket().map(LocalAddr::Tcp).or_else(unix)?;
        Some(Local { addr, is_secure: false, is_quic: false })
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system's refusal of a thread or a descriptor.
    pub(crate) fn start(self, view: View) -> io::Result<AdminThread> {
        let waker = Arc::new(Waker::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let pages = view.pages.clone();
        let door = AdminDoor::new(self.address(), Arc::clone(&waker));
        let told = (Arc::clone(&waker), Arc::clone(&stop));
        let body = move || {
            self.run(&view, (&told.0, &door), &told.1);
            door.close();
        };
        let thread = std::thread::Builder::new().name("weir-admin".to_owned()).spawn(body)?;
        Ok(AdminThread { thread, waker, stop, pages })
    }

    /// As it would be given by `--admin`.
    fn address(&self) -> String {
        let addr = self.local().map(|local| local.addr);
        addr.map_or_else(String::new, |addr| match addr {
            LocalAddr::Tcp(addr) => addr.to_string(),
            LocalAddr::Unix(path) => format!("unix:{}", path.display()),
        })
    }

    /// Answers until `stop` is set, of which `waker` tells.
    fn run(&self, view: &View, (waker, door): (&Waker, &AdminDoor), stop: &AtomicBool) {
        let mut visitors: Vec<Visitor> = Vec::new();
        let mut watchers = Watchers::new(Arc::clone(&view.watching));
        let mut history = History::default();
        let mut sample_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if sample_at <= now {
                history.sample(view);
                // After a pause of the whole machine there is nothing to be made up for.
                sample_at = (sample_at + SAMPLE_EVERY).max(now);
            }
            visitors.retain(|visitor| visitor.until > now);
            let next =
                visitors.iter().map(|visitor| visitor.until).chain(watchers.next()).fold(sample_at, Instant::min);
            let ready = self.wait(&visitors, &watchers, waker, next.saturating_duration_since(now));
            let mut ready = ready.into_iter();
            let (is_woken, is_visited) = (ready.next() == Some(true), ready.next() == Some(true));
            if is_woken {
                waker.take();
            }
            let mut looks = ready;
            visitors.retain_mut(|visitor| {
                looks.next() != Some(true)
                    || visitor.go_on(|input, asker| answer(input, asker, view, &history), self.token.as_ref())
            });
            // Behind those of the visitors, of whom none is skipped.
            watchers.turn(looks, Instant::now());
            for visitor in visitors.extract_if(.., |visitor| !matches!(visitor.course, Course::Answered)) {
                match visitor.course {
                    Course::Watches(asked) => watchers.admit(visitor.socket, asked, Instant::now()),
                    Course::HandedOver { may_ask } => visitor.hand_over(may_ask, view, door),
                    Course::Answered => {}
                }
            }
            visitors.extend(door.came().into_iter().map(|socket| Visitor::new(socket, Origin::Within)));
            if is_visited
                && let Ok((socket, _)) = self.socket.accept()
                && socket.set_nonblocking(true).is_ok()
            {
                visitors.push(Visitor::new(socket, Origin::Outside));
            }
        }
        watchers.end();
    }

    /// Waits at most so long; what is ready: the waker, the listening socket, then each client, then each watcher.
    fn wait(&self, visitors: &[Visitor], watchers: &Watchers, waker: &Waker, most: Duration) -> Vec<bool> {
        let poll = |fd, events| libc::pollfd { fd, events, revents: 0 };
        // Clients outside do not keep the program from asking, nor the program them from it.
        let outside = visitors.iter().filter(|visitor| visitor.origin == Origin::Outside).count();
        let room = if outside < VISITORS_MAX { libc::POLLIN } else { 0 };
        let mut polls = vec![poll(waker.as_raw_fd(), libc::POLLIN), poll(self.socket.as_raw_fd(), room)];
        polls.extend(visitors.iter().map(|visitor| {
            poll(visitor.socket.as_raw_fd(), if visitor.is_answering() { libc::POLLOUT } else { libc::POLLIN })
        }));
        polls.extend(watchers.polls());
        // Rounded up, so that nothing is waited for in a circle.
        let timeout_ms = i32::try_from(most.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes into the list, which lives over the call and has the length that is passed.
        let waited = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
        if check(waited).is_err() {
            polls.iter_mut().for_each(|poll| poll.revents = 0);
        }
        polls.iter().map(|poll| poll.revents != 0).collect()
    }
}

impl Visitor {
    fn new(socket: Socket, origin: Origin) -> Self {
        let until = Instant::now() + VISIT_MAX;
        Self { socket, input: Vec::new(), output: Vec::new(), sent: 0, until, origin, course: Course::Answered }
    }

    fn is_answering(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Does what can be done now; whether there is more to come.
    fn go_on(&mut self, answer: impl FnOnce(&[u8], Asker<'_>) -> Option<Answer>, token: Option<&AdminToken>) -> bool {
        if !self.is_answering() {
            let mut piece = [0; 4096];
            match self.socket.read(&mut piece) {
                Ok(0) => return false,
                // After the answer what comes is read for nothing: to close on it would take the answer away.
                Ok(_) if self.sent > 0 => return true,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(error) => return is_passing(&error),
            }
            if self.input.len() > REQUEST_BYTES_MAX {
                return false;
            }
            let asker = match self.origin {
                Origin::Outside => Asker::Client(token),
                Origin::Within => Asker::Within,
            };
            match answer(&self.input, asker) {
                Some(Answer::Whole(output)) => self.output = output,
                Some(Answer::Watch(asked)) => {
                    self.course = Course::Watches(asked);
                    return true;
                }
                Some(Answer::Pages { may_ask }) => {
                    self.course = Course::HandedOver { may_ask };
                    return true;
                }
                None => return true,
            }
        }
        match self.socket.write(&self.output[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) => return is_passing(&error),
        }
        self.is_answering() || self.socket.shutdown(Shutdown::Write).is_ok()
    }

    /// Gives the connection to the part of the program that serves the page; where that has too many, its client is told.
    fn hand_over(self, may_ask: bool, view: &View, door: &AdminDoor) {
        let Some(pages) = &view.pages else { return };
        let is_unix = self.socket.local_addr().is_ok_and(|addr| addr.is_unix());
        let socket = if is_unix {
            AdminSocket::Unix(UnixStream::from(self.socket))
        } else {
            let stream = TcpStream::from(self.socket);
            // A client that is gone needs no delay switched off.
            let _gone = stream.set_nodelay(true);
            AdminSocket::Tcp(stream)
        };
        let Err(back) = pages.take(AdminVisit { socket, read: self.input, may_ask }, door) else { return };
        // Nothing was written before, so that there is room; a client that has gone is not told.
        let _gone = match back.socket {
            AdminSocket::Tcp(mut stream) => stream.write_all(&busy()),
            AdminSocket::Unix(mut stream) => stream.write_all(&busy()),
        };
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn bind_tcp(addr: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(addr.domain(), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// A socket that only its owner can use; what a server that is gone has left is removed.
fn bind_unix(path: &Path) -> io::Result<Socket> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    // Before the file is there: the kernel gives it the socket's mode, so that at no moment it is open to others.
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::fchmod(socket.as_raw_fd(), 0o600) })?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
