//! Processes beside a confined server, which do for it what it cannot do itself: both speak in lines of JSON over a pair
//! of sockets.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes of a line between the two processes: the status of all hosts, at most.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// How long the server waits for room in the socket.
const WRITE_PATIENCE: Duration = Duration::from_secs(1);

/// Starts this program once more with a command of its own, as these users; the socket to it.
pub(crate) fn start(command: &str, ids: Option<(libc::uid_t, libc::gid_t)>) -> io::Result<UnixStream> {
    let (link, of_process) = UnixStream::pair()?;
    link.set_write_timeout(Some(WRITE_PATIENCE))?;
    let mut process = Command::new(std::env::current_exe()?);
    process.arg(command).stdin(OwnedFd::from(of_process)).stdout(Stdio::null());
    if let Some((uid, gid)) = ids {
        process.uid(uid).gid(gid);
    }
    // Ctrl-C in a terminal is for the server; the process ends when the server has.
    process.process_group(0).spawn()?;
    Ok(link)
}

/// The socket to the server, within such a process.
pub(crate) fn link() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Sends a message as a line, whole or not at all as far as the other side is concerned: a part is no JSON.
pub(crate) fn send(mut link: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    link.write_all(&line)
}

/// The next message; none at the end, and where the other side does not speak as it should.
pub(crate) fn receive<T: for<'d> Deserialize<'d>>(from: &mut impl BufRead) -> Option<T> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}
