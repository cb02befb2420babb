//! Pages that another part of the program serves at the admin address, and the way by which that part asks the server.
//!
//! The thread of the admin address reads the head of a request, decides whether it may be told figures, and hands the
//! connection over. It waits for nothing of what is done with the connection then.

use crate::io::epoll::Waker;
use socket2::{Domain, Socket, Type};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The path of the pages.
pub(super) const PAGES: &str = "/console/";
/// Below this a request needs the token, where there is one.
pub(super) const CALLS: &str = "/console/api/";
/// Questions from within the process that wait for the thread of the admin address.
const WAITING_MAX: usize = 16;

/// A connection to the admin address.
#[derive(Debug)]
pub enum AdminSocket {
    /// Over TCP.
    Tcp(TcpStream),
    /// At the Unix socket.
    Unix(UnixStream),
}

/// A connection with a request for a path below `/console/`.
#[derive(Debug)]
pub struct AdminVisit {
    /// The connection, which does not block.
    pub socket: AdminSocket,
    /// What the client has sent so far: the whole head of its request, and perhaps what follows it.
    pub read: Vec<u8>,
    /// Whether this request, and no further one of the connection, may be told figures and may order something: it brought
    /// the token, or the address needs none.
    pub may_ask: bool,
}

/// Serves pages at the admin address.
pub trait AdminPages: Send + Sync + fmt::Debug {
    /// Takes a connection over to answer one request, without waiting for anything.
    ///
    /// # Errors
    ///
    /// The connection itself: as many are open as may be. Its client is told so with status 503.
    fn take(&self, visit: AdminVisit, door: &AdminDoor) -> Result<(), AdminVisit>;
    /// The server answers at its admin address no more: ends all connections.
    fn end(&self);
}

/// Leads from within the process to the thread of the admin address, which asks for no token there.
#[derive(Clone)]
pub struct AdminDoor(Arc<Door>);

struct Door {
    address: String,
    /// None once the thread has ended.
    waiting: Mutex<Option<Vec<Socket>>>,
    waker: Arc<Waker>,
}

impl fmt::Debug for AdminDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdminDoor").field(&self.0.address).finish()
    }
}

impl AdminDoor {
    pub(super) fn new(address: String, waker: Arc<Waker>) -> Self {
        Self(Arc::new(Door { address, waiting: Mutex::new(Some(Vec::new())), waker }))
    }

    /// The admin address, `unix:PATH` or `ADDRESS:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// A connection for one request (HTTP/1.1), which the server answers as one with the token.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotConnected`] where the server has ended, [`io::ErrorKind::WouldBlock`] where 16 others wait, or
    /// the system's refusal of a socket.
    pub fn open(&self) -> io::Result<UnixStream> {
        // By calls that a confined server may make: the standard library makes a socket non-blocking by another one.
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM.cloexec(), None)?;
        theirs.set_nonblocking(true)?;
        {
            let mut waiting = self.waiting();
            let waiting = waiting.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            if waiting.len() >= WAITING_MAX {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            waiting.push(theirs);
        }
        self.0.waker.wake();
        Ok(ours.into())
    }

    /// Those that came since.
    pub(super) fn came(&self) -> Vec<Socket> {
        self.waiting().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Opens to none any more.
    pub(super) fn close(&self) {
        *self.waiting() = None;
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Vec<Socket>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_bounded_and_closes() {
        let door = AdminDoor::new("unix:a".to_owned(), Arc::new(Waker::new().expect("a descriptor")));
        let open: Vec<UnixStream> = (0..WAITING_MAX).map(|_| door.open().expect("room")).collect();
        assert_eq!(door.open().expect_err("full").kind(), io::ErrorKind::WouldBlock);
        assert_eq!((door.came().len(), door.came().len()), (WAITING_MAX, 0));
        drop(open);
        let mut waits = door.open().expect("room again");
        door.close();
        assert_eq!(io::Read::read(&mut waits, &mut [0]).expect("its end"), 0);
        assert_eq!(door.open().expect_err("closed").kind(), io::ErrorKind::NotConnected);
        assert_eq!(format!("{door:?}"), "AdminDoor(\"unix:a\")");
    }
}
