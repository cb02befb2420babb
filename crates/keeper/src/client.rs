//! The server's end of the keeper's socket.

use crate::counts::KeeperCounts;
use crate::encoding::DecodeError;
use crate::flow::Flow;
use crate::packets::{self, Message};
use crate::protocol::{FLOWS_MAX, Orphans, Refusal, Reply, Request};
use crate::tcp_state::{Frozen, TcpState};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The keeper answers within a millisecond; one that does not for so long is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the keeper did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// It says why.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be reached; nothing was asked.
    #[error("no keeper answers at {path} ({source}); start `weir keeper` on this node, as root")]
    Connect {
        /// Its socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The connection to it broke. What was asked may be done.
    #[error(
        "the keeper's connection broke ({0}); what was asked may be done: look at the connection before more is asked"
    )]
    Lost(io::Error),
    /// The message is longer than the keeper takes.
    #[error("the connection has more bytes under way than the keeper takes (16 MiB); let it go on here")]
    TooLong,
    /// Its answer cannot be read.
    #[error("the keeper's answer cannot be read: {0}")]
    Answer(#[from] DecodeError),
    /// Its answer belongs to another request.
    #[error("the keeper's answer does not belong to the request; run the same version of weir on both sides")]
    Unexpected,
}

/// A connection to the keeper of this node. Threads may share it; requests go one after the other.
#[derive(Debug)]
pub struct KeeperClient {
    path: PathBuf,
    /// Without after an error: an answer may still come then, so the next request connects anew.
    socket: Mutex<Option<Socket>>,
}

impl KeeperClient {
    /// Connects once something is asked: the keeper may start later.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), socket: Mutex::new(None) }
    }

    /// Connects to the keeper.
    ///
    /// # Errors
    /// [`KeeperError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, KeeperError> {
        let client = Self::at(path);
        let socket = client.open()?;
        Ok(Self { socket: Mutex::new(Some(socket)), ..client })
    }

    /// Holds what comes in for a connection, brings it to a stand, and reads its state and unread input.
    ///
    /// # Errors
    /// [`KeeperError`]; if it is refused the connection goes on as before.
    pub fn freeze(&self, fd: BorrowedFd<'_>, epoch: u64) -> Result<Frozen, KeeperError> {
        match self.call(&Request::Freeze { epoch }.encode(), Some(fd))? {
            (Reply::Frozen(frozen), _) => Ok(frozen),
            _ => Err(KeeperError::Unexpected),
        }
    }

    /// The first so many unacknowledged bytes of a frozen connection.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn send_queue(&self, fd: BorrowedFd<'_>, bytes: u32) -> Result<Vec<u8>, KeeperError> {
        match self.call(&Request::SendQueue { bytes }.encode(), Some(fd))? {
            (Reply::Bytes(bytes), _) => Ok(bytes),
            _ => Err(KeeperError::Unexpected),
        }
    }

    /// Has a frozen connection go on here: the move did not happen.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn thaw(&self, fd: BorrowedFd<'_>) -> Result<(), KeeperError> {
        self.done(&Request::Thaw, Some(fd))
    }

    /// Ends a frozen connection without a word to the client: another node has it. The descriptor is to be closed.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn discard(&self, fd: BorrowedFd<'_>) -> Result<(), KeeperError> {
        self.done(&Request::Discard, Some(fd))
    }

    /// Drops what comes in on a connection that will be restored here. The hold ends by itself after a few seconds.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn hold(&self, flow: &Flow, epoch: u64) -> Result<(), KeeperError> {
        self.done(&Request::Hold { flow: *flow, epoch }, None)
    }

    /// Has a hold of any kind last for another few seconds.
    ///
    /// # Errors
    /// [`KeeperError`]; the hold may be over.
    pub fn renew(&self, flow: &Flow) -> Result<(), KeeperError> {
        self.done(&Request::Renew { flow: *flow }, None)
    }

    /// Ends such a hold, and forgets what was restored.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn release(&self, flow: &Flow) -> Result<(), KeeperError> {
        self.done(&Request::Release { flow: *flow }, None)
    }

    /// Makes a socket with the state of a connection, of which `sent` are the bytes from the first unacknowledged one to
    /// the last one written. It stands still, blocks, and has the options of a new socket.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn restore(&self, tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64) -> Result<OwnedFd, KeeperError> {
        match self.call(&Request::restore(tcp, unread, sent, epoch), None)? {
            (Reply::Restored, Some(socket)) => Ok(socket),
            _ => Err(KeeperError::Unexpected),
        }
    }

    /// Ends the hold of a restored connection and has it go on.
    ///
    /// # Errors
    /// [`KeeperError`]; the descriptor is to be closed then, which tells the client nothing.
    pub fn activate(&self, fd: BorrowedFd<'_>) -> Result<(), KeeperError> {
        self.done(&Request::Activate, Some(fd))
    }

    /// Has it guard sockets of a server, whose process the descriptor names (pidfd_open(2)).
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn guard(&self, process: BorrowedFd<'_>, server: u64) -> Result<(), KeeperError> {
        self.done(&Request::Guard { server }, Some(process))
    }

    /// Has it keep a socket of that server: the connection is not ended by the server's end.
    ///
    /// # Errors
    /// [`KeeperError`]; the connection ends with its server.
    pub fn keep(&self, fd: BorrowedFd<'_>, server: u64) -> Result<(), KeeperError> {
        self.done(&Request::Keep { server }, Some(fd))
    }

    /// Has it let go of connections, of which some may not be kept.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn let_go(&self, flows: &[Flow]) -> Result<(), KeeperError> {
        flows.chunks(FLOWS_MAX).try_for_each(|flows| self.done(&Request::LetGo { flows: flows.to_vec() }, None))
    }

    /// Which servers live of those that it guards sockets of, and which connections have lost theirs.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn orphans(&self) -> Result<Orphans, KeeperError> {
        match self.call(&Request::Orphans.encode(), None)? {
            (Reply::Orphans(orphans), _) => Ok(orphans),
            _ => Err(KeeperError::Unexpected),
        }
    }

    /// Tells it that another node goes on with a connection that had lost its server.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn adopted(&self, flow: &Flow) -> Result<(), KeeperError> {
        self.done(&Request::Adopted { flow: *flow }, None)
    }

    /// What the keeper has counted.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn counts(&self) -> Result<KeeperCounts, KeeperError> {
        match self.call(&Request::Counts.encode(), None)? {
            (Reply::Counts(counts), _) => Ok(counts),
            _ => Err(KeeperError::Unexpected),
        }
    }

    fn done(&self, request: &Request, fd: Option<BorrowedFd<'_>>) -> Result<(), KeeperError> {
        match self.call(&request.encode(), fd)? {
            (Reply::Done, _) => Ok(()),
            _ => Err(KeeperError::Unexpected),
        }
    }

    fn open(&self) -> Result<Socket, KeeperError> {
        let connected = Socket::new(Domain::UNIX, Type::SEQPACKET, None).and_then(|socket| {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.connect(&SockAddr::unix(&self.path)?)?;
            Ok(socket)
        });
        connected.map_err(|source| KeeperError::Connect { path: self.path.clone(), source })
    }

    fn send_anew(&self, request: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<Socket, KeeperError> {
        let socket = self.open()?;
        packets::send(socket.as_fd(), request, fd).map_err(KeeperError::Lost)?;
        Ok(socket)
    }

    fn call(&self, request: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(Reply, Option<OwnedFd>), KeeperError> {
        if request.len() > crate::protocol::MESSAGE_BYTES_MAX {
            return Err(KeeperError::TooLong);
        }
        // The socket is taken out while it is used, so that one with half an exchange is never used again.
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = match place.take() {
            // A keeper that has started anew since: nothing of the request has reached one.
            Some(socket) => match packets::send(socket.as_fd(), request, fd) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.send_anew(request, fd)?,
                sent => sent.map(|()| socket).map_err(KeeperError::Lost)?,
            },
            None => self.send_anew(request, fd)?,
        };
        let answer = packets::receive(socket.as_fd()).map_err(KeeperError::Lost)?;
        let Message { bytes, descriptor } =
            answer.ok_or_else(|| KeeperError::Lost(io::ErrorKind::UnexpectedEof.into()))?;
        *place = Some(socket);
        match Reply::decode(&bytes)? {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok((reply, descriptor)),
        }
    }
}
