//! The process that starts the node process, and starts it again where that ends: the confined server starts nothing.
//!
//! Each node process has a socket of its own to the server, which gets it from here: what the one before had not sent to
//! its end is not taken for what the next one says.

use super::gate::{self, Ask, Begin, Part};
use anyhow::Context;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The pause before the first new start.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// When it ran for so long, the next pause is short again.
const STEADY: Duration = Duration::from_secs(30);
/// Between two looks whether it still runs.
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
        if has_ended(server, pause) {
            return Ok(ExitCode::SUCCESS);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Starts a node process, and gives the server its sockets.
fn start(begin: &Begin, server: &UnixStream, process: Option<&OwnedFd>) -> io::Result<Child> {
    let (of_server, of_node) = UnixStream::pair()?;
    let (content_of_server, content_of_node) = UnixStream::pair()?;
    let fds: Vec<_> = [content_of_node.as_fd()].into_iter().chain(process.map(AsFd::as_fd)).collect();
    gate::send(&of_server, begin, &[], &fds)?;
    let child = Command::new(PROGRAM).arg("serve-node").stdin(OwnedFd::from(of_node)).stdout(Stdio::null()).spawn()?;
    // Only the server has the other end then: the node process ends with it.
    gate::send(server, &Ask::Node, &[], &[of_server.as_fd(), content_of_server.as_fd()])?;
    Ok(child)
}

fn wait(node: &mut Child, server: &UnixStream) -> Ended {
    loop {
        match node.try_wait() {
            Ok(Some(status)) => return Ended::Node(status.to_string()),
            Ok(None) => {}
            Err(error) => return Ended::Node(error.to_string()),
        }
        if has_ended(server, LOOK) {
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

/// Waits for so long, or until the server has closed its end; whether it has.
fn has_ended(server: &UnixStream, time: Duration) -> bool {
    let mut polled = libc::pollfd { fd: server.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the structure lives over the call, which fills it.
    let ready = unsafe { libc::poll(&raw mut polled, 1, ms) };
    ready > 0 && polled.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
