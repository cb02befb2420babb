//! The agent's socket: a thread for each caller, as many as there is room for.

use crate::accept::accepted;
use crate::asker::Asker;
use crate::directory::Directory;
use crate::protocol::{Answer, Ask, Filter, MOST_QUESTION_BYTES, SOCKET_NAME};
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Callers at a time.
pub const MOST_CALLERS: usize = 64;
/// Transactions that wait for a slow follower.
const MOST_WAITING: usize = 4096;
const MOST_WRITE: Duration = Duration::from_secs(10);
const LOOK_ROUND: Duration = Duration::from_millis(500);
/// The socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another agent answers there.
    #[error("an agent is listening in {0} already; stop it, or name another directory by WEIR_ARM_DIR")]
    Taken(String),
    /// It cannot be made.
    #[error("{0}/{SOCKET_NAME}: {1}; another user's may stand there, which only that user and root can remove")]
    Make(String, #[source] io::Error),
}

/// Listens in the ARM directory.
pub(crate) fn listen(directory: &Directory, mode: u32) -> Result<UnixListener, SocketError> {
    let path = directory.entry(SOCKET_NAME);
    let shown = directory.path().display().to_string();
    if UnixStream::connect(&path).is_ok() {
        return Err(SocketError::Taken(shown));
    }
    let make = || {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    make().map_err(|error| SocketError::Make(shown, error))
}

/// The connected callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callers(Arc<Mutex<Vec<(u64, UnixStream)>>>);

impl Callers {
    /// Accepts all waiting connections.
    pub(crate) fn accept(&self, listener: &UnixListener, asker: &Asker) {
        for _ in 0..MOST_CALLERS {
            let Some(stream) = accepted(listener) else { return };
            // A caller without room, or that cannot be served, sees the connection close.
            let _ = self.serve(stream, asker.clone());
        }
    }

    fn serve(&self, stream: UnixStream, asker: Asker) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(MOST_WRITE))?;
        let own = stream.try_clone()?;
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= MOST_CALLERS {
            let message = format!("{MOST_CALLERS} callers are connected already; try again later");
            return write(&mut &stream, &Answer::Error { message });
        }
        let number = callers.last().map_or(0, |last| last.0 + 1);
        callers.push((number, own));
        drop(callers);
        let others = self.clone();
        std::thread::Builder::new().name("arm-caller".to_owned()).spawn(move || {
            let _ = talk(&stream, &asker);
            others.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|caller| caller.0 != number);
        })?;
        Ok(())
    }

    /// Closes the connections of all callers.
    pub(crate) fn hang_up(&self) {
        for (_, stream) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Answers one caller's questions until it goes.
fn talk(stream: &UnixStream, asker: &Asker) -> io::Result<()> {
    let may_switch = may_switch(stream);
    let mut reader = BufReader::new(stream);
    let mut writer = BufWriter::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(MOST_QUESTION_BYTES as u64).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        if !line.ends_with(b"\n") && length == MOST_QUESTION_BYTES {
            let message = format!("a question has at most {MOST_QUESTION_BYTES} bytes");
            return write(&mut writer, &Answer::Error { message });
        }
        match serde_json::from_slice::<Ask>(&line) {
            Err(error) => {
                let message = format!("this is no question: {error}");
                write(&mut writer, &Answer::Error { message })?;
            }
            Ok(Ask::Tail(filter)) => return follow(stream, &mut writer, asker, filter),
            Ok(Ask::Switch { .. }) if !may_switch => {
                let message = "only the agent's own user and root may set switches".to_owned();
                write(&mut writer, &Answer::Error { message })?;
            }
            Ok(ask) => write(&mut writer, &asker.ask(ask))?,
        }
    }
}

/// Sends transactions as they come.
fn follow(stream: &UnixStream, writer: &mut impl Write, asker: &Asker, filter: Filter) -> io::Result<()> {
    let Some(subscription) = asker.subscribe(filter, MOST_WAITING) else { return Ok(()) };
    while !subscription.is_over() && !has_gone(stream) {
        for transaction in subscription.take(LOOK_ROUND) {
            line(writer, &Answer::Transaction(Box::new((*transaction).clone())))?;
        }
        let missed = subscription.missed();
        if missed > 0 {
            line(writer, &Answer::Missed { transactions: missed })?;
        }
        writer.flush()?;
    }
    Ok(())
}

fn line(writer: &mut impl Write, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, answer)?;
    writer.write_all(b"\n")
}

fn write(writer: &mut impl Write, answer: &Answer) -> io::Result<()> {
    line(writer, answer)?;
    writer.flush()
}

/// Whether a caller is the agent's own user, or root.
fn may_switch(stream: &UnixStream) -> bool {
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    user_of(stream).is_some_and(|user| user == 0 || user == own)
}

/// The user at the other end.
pub(crate) fn user_of(stream: &UnixStream) -> Option<u32> {
    let mut other = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the structure is ours, and its length is told.
    let told = unsafe {
        let place = (&raw mut other).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut length)
    };
    (told == 0).then_some(other.uid)
}

/// Whether the other end has closed the connection.
fn has_gone(stream: &UnixStream) -> bool {
    let mut looked_at = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one structure of ours, and it does not wait.
    let found = unsafe { libc::poll(&raw mut looked_at, 1, 0) };
    found > 0 && looked_at.revents & (libc::POLLHUP | libc::POLLERR) != 0
}
