//! Listening sockets of another process, taken over while it serves (pidfd_getfd(2), Linux 5.6).
//!
//! UDP sockets are taken over with them, and so are the sockets that lead datagrams of connections under way back to
//! the old server (`quic/handover.rs`). Both processes then have the same sockets with the same queues, so that no
//! client is refused when the one ends or the other starts. New sockets at the same port would not do: when the old
//! server closes its sockets, the kernel resets the connections that wait there.

use crate::error::BindError;
use crate::io::epoll::check;
use crate::io::listen::SocketSource;
use crate::process::succession::is_record;
use crate::quic::{Estate, Former};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Sockets of one process that are looked at; a server has some for each loop and address.
const SOCKETS_MAX: usize = 65_536;

/// A server that is to end once this one serves.
#[derive(Debug)]
pub(crate) struct Predecessor {
    pid: u32,
    process: OwnedFd,
    /// Its listening sockets that were not taken yet.
    listening: Vec<Socket>,
    datagrams: Estate,
    /// Records of itself and of the servers before it.
    records: Vec<OwnedFd>,
    taken: usize,
}

impl SocketSource for Predecessor {
    fn at(&mut self, addr: SocketAddr) -> Vec<Socket> {
        self.take(|socket| socket.local_addr().is_ok_and(|local| local.as_socket() == Some(addr)))
    }

    fn at_path(&mut self, path: &Path) -> Option<Socket> {
        self.take(|socket| socket.local_addr().is_ok_and(|local| local.as_pathname() == Some(path))).pop()
    }
}

impl Predecessor {
    /// Gets a copy of every socket that the process listens at.
    ///
    /// # Errors
    ///
    /// [`BindError::Predecessor`]: there is no such process, or the kernel refuses us its sockets, because we may not
    /// debug that process (ptrace(2), "Ptrace access mode checking").
    pub(crate) fn of(pid: u32) -> Result<Self, BindError> {
        let failed = |source| BindError::Predecessor { pid, source };
        let number = i32::try_from(pid).map_err(|_| failed(io::ErrorKind::NotFound.into()))?;
        // SAFETY: the call takes no pointers.
        let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) }).map_err(failed)?;
        let (mut listening, mut datagrams) = (Vec::new(), Estate::default());
        let is_socket = |link: &Path| link.to_string_lossy().starts_with("socket:");
        for fd in descriptors(pid, is_socket).map_err(failed)? {
            // SAFETY: the call takes no pointers.
            match owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) }) {
                Ok(socket) => listening.extend(datagrams.note(Socket::from(socket)).filter(listens)),
                // It was closed since the list was read.
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        tracing::info!(pid, listening = listening.len(), "copied the listening sockets of the predecessor");
        let copied = descriptors(pid, is_record).map_err(failed)?.into_iter().map(|fd| {
            // SAFETY: the call takes no pointers.
            owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
        });
        // What was closed meanwhile is of a server that is over.
        let records = copied.filter_map(Result::ok).collect();
        Ok(Self { pid, process, listening, datagrams, records, taken: 0 })
    }

    /// Its sockets of UDP at an address and port, in the order in which they were bound.
    ///
    /// # Errors
    ///
    /// [`BindError::QuicTakenOver`]: it cannot be told what is for it.
    pub(crate) fn datagrams_at(&mut self, addr: SocketAddr) -> Result<Option<Vec<Socket>>, BindError> {
        let taken = self.datagrams.at(addr).map_err(|_| BindError::QuicTakenOver { pid: self.pid, addr })?;
        self.taken += taken.as_ref().map_or(0, Vec::len);
        Ok(taken)
    }

    /// Tags that its sockets of UDP, or those of the servers before it, have.
    pub(crate) fn tags(&self) -> Vec<u32> {
        self.datagrams.tags()
    }

    /// The servers that get datagrams of connections under way at the UDP sockets that were taken.
    pub(crate) fn former(&mut self) -> Former {
        self.datagrams.former()
    }

    /// What tells of it and of the servers before it.
    pub(crate) fn records(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.records)
    }

    fn take(&mut self, is_wanted: impl Fn(&Socket) -> bool) -> Vec<Socket> {
        let (taken, left) = std::mem::take(&mut self.listening).into_iter().partition(is_wanted);
        self.listening = left;
        self.taken += Vec::len(&taken);
        taken
    }

    /// Checks that something was taken, and returns a description of it; closes the copies of sockets that were not
    /// taken.
    ///
    /// # Errors
    ///
    /// [`BindError::NothingTaken`], with where it listens.
    pub(crate) fn finish(&mut self) -> Result<String, BindError> {
        let at = |socket: &Socket| {
            let addr = socket.local_addr().ok()?;
            let path = addr.as_pathname().map(|path| format!("unix:{}", path.display()));
            addr.as_socket().map(|addr| addr.to_string()).or(path)
        };
        let mut left: Vec<String> = self.listening.drain(..).filter_map(|socket| at(&socket)).collect();
        left.extend(self.datagrams.give_back().map(|addr| format!("{addr} (UDP)")));
        left.sort_unstable();
        left.dedup();
        let (pid, taken) = (self.pid, self.taken);
        tracing::info!(pid, taken, ?left, "chose among the sockets of the predecessor");
        if taken == 0 {
            let listens = if left.is_empty() { "nowhere".to_owned() } else { format!("at {}", left.join(", ")) };
            return Err(BindError::NothingTaken { pid, listens });
        }
        let sockets = if taken == 1 { "socket" } else { "sockets" };
        let rest = if left.is_empty() { String::new() } else { format!("; not those at {}", left.join(", ")) };
        Ok(format!("took {taken} {sockets} over from process {pid}, which is asked to end{rest}"))
    }

    /// Whether it may be asked to end; that it has ended already is no reason against it.
    ///
    /// # Errors
    ///
    /// The system's refusal.
    pub(crate) fn may_end(&self) -> io::Result<()> {
        self.signal(0)
    }

    /// Asks it to end by SIGTERM. The signal goes to its pidfd, so it cannot reach another process that got the same
    /// number meanwhile.
    ///
    /// # Errors
    ///
    /// The system's refusal; that it has ended already is none.
    pub(crate) fn end(&self) -> io::Result<()> {
        tracing::info!(pid = self.pid, "asks the predecessor to end");
        self.signal(libc::SIGTERM)
    }

    fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        let (fd, no_info) = (self.process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: the kernel makes the information itself where it is given none.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) };
        match owned_or_nothing(sent) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Numbers of the process's descriptors whose link is such a one, each file once however many descriptors it has.
fn descriptors(pid: u32, is_wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<RawFd>> {
    let mut found: Vec<(std::path::PathBuf, RawFd)> = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))?.take(SOCKETS_MAX) {
        let entry = entry?;
        let (Ok(link), Ok(fd)) = (std::fs::read_link(entry.path()), entry.file_name().to_string_lossy().parse()) else {
            continue;
        };
        // "socket:[INODE]" or "/memfd:NAME (deleted)", proc(5).
        if is_wanted(&link) {
            found.push((link, fd));
        }
    }
    found.sort();
    // All records have the same link.
    found.dedup_by(|one, other| one.0 == other.0 && !is_record(&one.0));
    // In the order in which the loops of the other one have them.
    let mut numbers: Vec<RawFd> = found.into_iter().map(|(_, fd)| fd).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether it is a stream socket that listens.
fn listens(socket: &Socket) -> bool {
    socket.r#type().is_ok_and(|kind| kind == socket2::Type::STREAM) && socket.is_listener().unwrap_or(false)
}

fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    let fd = owned_or_nothing(returned)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn owned_or_nothing(returned: libc::c_long) -> io::Result<RawFd> {
    // The kernel returns descriptors and errors in the range of i32.
    check(returned as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn sockets_that_listen_are_found_once_and_listed_with_their_addresses_when_none_is_taken() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("socket");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("binds");
        let again = tcp.try_clone().expect("clones");
        let unix = std::os::unix::net::UnixListener::bind(&path).expect("binds");
        let addr = tcp.local_addr().expect("bound");
        let mut own = Predecessor::of(std::process::id()).expect("is this process");
        assert_eq!(own.at(addr).len(), 1, "two descriptors are one socket");
        assert!(own.at(addr).is_empty(), "taken once");
        assert!(own.at_path(&path).is_some() && own.at_path(Path::new("/elsewhere")).is_none());
        let told = own.finish().expect("some were taken");
        assert!(told.starts_with("took 2 sockets over from process "), "{told}");
        drop((again, unix));
    }

    #[test]
    fn a_process_that_listens_nowhere_or_is_none_is_told() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let told = Predecessor::of(child.id()).expect("is there").finish().expect_err("listens nowhere").to_string();
        assert!(told.contains("listens nowhere"), "{told}");
        child.kill().expect("is ours");
        child.wait().expect("ends");
        let told = Predecessor::of(child.id()).expect_err("is gone").to_string();
        assert!(told.contains("No such process"), "{told}");
    }
}
