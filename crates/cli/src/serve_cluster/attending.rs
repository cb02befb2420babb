//! The process that starts the node process, and starts it again where that ends: the confined server starts nothing.
//!
//! Each node process has a socket of its own to the server, which gets it from here: what the one before had not sent to
//! its end is not taken for what the next one says.

use super::gate::{self, Ask, Begin, Part};
use super::signal::Signal;
use anyhow::Context;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The pause before the first new start.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// When it ran for so long, the next pause is short again.
const STEADY: Duration = Duration::from_secs(30);
/// Between two looks whether it still runs, where the kernel does not tell.
const LOOK: Duration = Duration::from_millis(20);
/// How long it may take to end with its server.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// This program, also where its file has been replaced meanwhile (proc(5)).
const PROGRAM: &str = "/proc/self/exe";

/// Why a node process is waited for no more.
enum Ended {
    /// The server has ended.
    Server,
    /// It has ended itself: how.
    Node(String),
}

/// Keeps a node process running until the server ends.
pub(super) fn attend(begin: &Begin, server: &UnixStream, process: Option<&OwnedFd>) -> anyhow::Result<ExitCode> {
    let begin = Begin { part: Part::Node, ..begin.clone() };
    let mut pause = PAUSE;
    loop {
        let started = Instant::now();
        let mut node = start(&begin, server, process).context("starting the node process")?;
        match wait(&mut node, server) {
            Ended::Server => return Ok(ExitCode::SUCCESS),
            Ended::Node(how) => tracing::warn!(how, pause_ms = pause.as_millis(), "the node process ended"),
        }
        if started.elapsed() >= STEADY {
            pause = PAUSE;
        }
        if has_ended(server, Some(pause), None) {
            return Ok(ExitCode::SUCCESS);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Starts a node process, and gives the server its sockets.
fn start(begin: &Begin, server: &UnixStream, process: Option<&OwnedFd>) -> io::Result<Child> {
    let (of_server, of_node) = UnixStream::pair()?;
    let (content_of_server, content_of_node) = UnixStream::pair()?;
    let signal = Signal::new()?;
    let fds = [content_of_node.as_fd(), signal.as_fd()].into_iter().chain(process.map(AsFd::as_fd));
    gate::send(&of_server, begin, &[], &fds.collect::<Vec<_>>())?;
    let child = Command::new(PROGRAM).arg("serve-node").stdin(OwnedFd::from(of_node)).stdout(Stdio::null()).spawn()?;
    // Only the server has the other end then: the node process ends with it.
    gate::send(server, &Ask::Node, &[], &[of_server.as_fd(), content_of_server.as_fd(), signal.as_fd()])?;
    Ok(child)
}

/// Sleeps until either ends.
fn wait(node: &mut Child, server: &UnixStream) -> Ended {
    let mut look = Look::of(node);
    loop {
        match node.try_wait() {
            Ok(Some(status)) => return Ended::Node(status.to_string()),
            Ok(None) => {}
            Err(error) => return Ended::Node(error.to_string()),
        }
        if look.has_ended(server) {
            break;
        }
    }
    // It has seen the end as well.
    let until = Instant::now() + END_PATIENCE;
    while Instant::now() < until && matches!(node.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK);
    }
    // One that has ended already is no error.
    let _ = node.kill();
    let _ = node.wait();
    Ended::Server
}

/// How the end of a child process is noticed.
enum Look {
    /// By its descriptor (pidfd_open(2)), for which nothing is done as long as it runs.
    Told(OwnedFd),
    /// Again and again, where the kernel gives no such descriptor.
    Often,
}

impl Look {
    fn of(child: &Child) -> Self {
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        match RawFd::try_from(fd) {
            // SAFETY: the descriptor is new and has no other owner.
            Ok(fd) if fd >= 0 => Self::Told(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Self::Often,
        }
    }

    /// Waits until the child may have ended, or the server has closed its end; whether the server has.
    fn has_ended(&mut self, server: &UnixStream) -> bool {
        match self {
            Self::Often => has_ended(server, Some(LOOK), None),
            Self::Told(child) => has_ended(server, None, Some(child.as_fd())),
        }
    }
}

/// Waits for so long, until the server has closed its end, or until there is something to be read; whether the server has.
fn has_ended(server: &UnixStream, time: Option<Duration>, or: Option<BorrowedFd<'_>>) -> bool {
    let polled = |fd, events| libc::pollfd { fd, events, revents: 0 };
    // A negative number is passed over (poll(2)).
    let or = or.map_or(-1, |fd| fd.as_raw_fd());
    let mut both = [polled(server.as_raw_fd(), libc::POLLRDHUP), polled(or, libc::POLLIN)];
    let ms = time.map_or(-1, |time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: the structures live over the call, which fills them.
    let ready = unsafe { libc::poll(both.as_mut_ptr(), both.len() as libc::nfds_t, ms) };
    ready > 0 && both[0].revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
