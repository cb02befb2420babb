//! What a move needs of others: the keeper of sockets, the server's sessions, the director, and a way to the other node.

use crate::message::{Claim, Decline, Message, Owner};
use crate::name::NodeNumber;
use crate::record::{MoveId, Record, Span};
use crate::replicas::Position;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use weir_keeper::{Birth, Flow, Frozen, Seen, TcpState};
use zeroize::Zeroizing;

/// The keeper does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum KeeperFault {
    /// It refuses, in its own words.
    #[error("the keeper refuses: {0}")]
    Refused(String),
    /// It does not know of what was begun: its time is over, or another keeper has begun it.
    #[error("the keeper refuses: {0}")]
    HoldIsOver(String),
    /// It cannot be reached.
    #[error("the keeper does not answer: {0}; see that `weir keeper` runs")]
    Gone(#[from] io::Error),
}

/// Reads, holds and restores sockets; the keeper process of this node.
pub trait Keeper: Send + Sync {
    /// Holds the flow, then reads the connection, which stands still from now on.
    ///
    /// # Errors
    /// [`KeeperFault`]; the connection goes on then.
    fn freeze(&self, socket: BorrowedFd<'_>, epoch: u64) -> Result<Frozen, KeeperFault>;

    /// The first `bytes` unacknowledged bytes of a frozen connection.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn send_queue(&self, socket: BorrowedFd<'_>, bytes: u32) -> Result<Vec<u8>, KeeperFault>;

    /// Lets a frozen connection go on here.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn thaw(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault>;

    /// Closes a connection that stands still; the client sees nothing of it.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn discard(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault>;

    /// Holds packets of a flow that is to come.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn hold(&self, flow: &Flow, epoch: u64) -> Result<(), KeeperFault>;

    /// Has a hold last longer that was begun by `freeze`, `hold` or `restore`; it ends by itself otherwise.
    ///
    /// # Errors
    /// [`KeeperFault`]; the hold may be over.
    fn renew(&self, flow: &Flow) -> Result<(), KeeperFault>;

    /// Ends a hold.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn release(&self, flow: &Flow) -> Result<(), KeeperFault>;

    /// Makes a connection that stands still.
    ///
    /// # Errors
    /// [`KeeperFault`]; there is no connection then.
    fn restore(&self, tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64) -> Result<OwnedFd, KeeperFault>;

    /// Lets a restored connection go on, and ends its hold.
    ///
    /// # Errors
    /// [`KeeperFault`].
    fn activate(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault>;
}

/// The server does not give or take a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It has none on this flow.
    #[error("the server has no session on this flow; see `weir cluster sessions` for which it has")]
    NoSession,
    /// The session cannot be moved now.
    #[error("the session cannot be moved: {0}")]
    NotMovable(String),
    /// The other node's content differs.
    #[error("this node has other content at the session's path; publish one version to all nodes")]
    OtherContent,
    /// The bytes are no session.
    #[error("the session's bytes cannot be understood: {0}; run the same version of weir on all nodes")]
    NotUnderstood(String),
    /// There are too many.
    #[error("the server takes no more sessions: {0}")]
    Full(String),
}

/// A session that stands still.
pub struct Taken {
    /// Its socket.
    pub fd: OwnedFd,
    /// What another server needs to go on with it.
    pub session: Zeroizing<Vec<u8>>,
    /// So many of the bytes last given to the kernel the session can make again.
    pub known_bytes: u64,
    /// By these comes what the server goes on making of its responses, or another one.
    pub relays: Vec<TakenRelay>,
}

/// A response that is made elsewhere than where its session goes.
pub struct TakenRelay {
    /// By this it comes: of the server's own, or one of [`Relaying::take_in`], if another node makes it.
    pub socket: OwnedFd,
    /// What stands before what is still in the socket.
    pub before: Vec<u8>,
}

impl fmt::Debug for TakenRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenRelay").field("socket", &self.socket).field("before_bytes", &self.before.len()).finish()
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the session's bytes, which may have keys.
        let mut shown = f.debug_struct("Taken");
        shown.field("fd", &self.fd).field("session_bytes", &self.session.len()).field("known_bytes", &self.known_bytes);
        shown.finish()
    }
}

/// What the server is to the cluster; a session's bytes are not understood here.
pub trait Sessions: Send + Sync {
    /// The flows of all sessions that go on here.
    ///
    /// # Errors
    /// [`SessionError`], if the server does not say.
    fn flows(&self) -> Result<Vec<Flow>, SessionError> {
        Ok(Vec::new())
    }

    /// What the session on a flow has under way, while it goes on: another node looks for that before the session stops.
    /// Empty where there is nothing to look for.
    ///
    /// # Errors
    /// [`SessionError`], if the session cannot be moved.
    fn preview(&self, flow: &Flow) -> Result<Vec<u8>, SessionError> {
        let _ = flow;
        Ok(Vec::new())
    }

    /// Stops the session on a flow: nothing is written any more.
    ///
    /// # Errors
    /// [`SessionError`]; the session goes on then.
    fn take(&self, flow: &Flow) -> Result<Taken, SessionError>;

    /// The move did not happen: the session goes on here.
    fn give_back(&self, taken: Taken);

    /// The session as it was before the last `bytes` bytes were given to the kernel: another node writes them again, which
    /// costs less than to carry megabytes that were never sent. `None` if it cannot be told, and they are carried.
    fn rewind(&self, session: &[u8], bytes: u64) -> Option<Vec<u8>> {
        let _ = (session, bytes);
        None
    }

    /// The session of a replica with its response having come so far. `None` if it cannot be told.
    fn place(&self, session: &[u8], offset: u64) -> Option<Zeroizing<Vec<u8>>> {
        let _ = (session, offset);
        None
    }

    /// The bytes of the spans, from this node's own content; refuses if that is not the session's.
    ///
    /// # Errors
    /// [`SessionError`].
    fn prepare(&self, session: &[u8], spans: &[Span]) -> Result<Vec<u8>, SessionError>;

    /// How many responses of a session the node goes on making that gives it away.
    fn relays(&self, session: &[u8]) -> u16 {
        let _ = session;
        0
    }

    /// Goes on with a session of another node; by `relays` comes what that one goes on making of it.
    ///
    /// # Errors
    /// [`SessionError`]; the session is lost then.
    fn adopt(
        &self,
        session: Zeroizing<Vec<u8>>,
        socket: OwnedFd,
        relays: Vec<OwnedFd>,
        peer: SocketAddr,
    ) -> Result<(), SessionError>;
}

/// Carries responses that the old node of a session goes on making.
pub trait Relaying: Send + Sync {
    /// The session of this move is at another node: what comes by these sockets goes there.
    fn give(&self, id: MoveId, to: NodeNumber, relays: Vec<TakenRelay>);

    /// The session of this move comes: sockets by which so many responses come. One that is closed is not waited for.
    ///
    /// # Errors
    /// What the system says.
    fn take_in(&self, id: MoveId, count: u16) -> io::Result<Vec<OwnedFd>>;
}

/// The director does not say what it is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectingError {
    /// It declines.
    #[error("the director declines: {0}")]
    Declined(#[from] Decline),
    /// It does not answer, so it may have done it or not.
    #[error("the director does not answer: {0}")]
    Silent(String),
}

/// The director, as nodes ask it.
pub trait Directing: Send + Sync {
    /// Asks for the packets of a flow.
    ///
    /// # Errors
    /// [`DirectingError`].
    fn steer(&self, id: MoveId, flow: &Flow, epoch: u64) -> Result<Option<Seen>, DirectingError>;

    /// Asks to go on with the flow.
    ///
    /// # Errors
    /// [`DirectingError`].
    fn confirm(&self, id: MoveId, flow: &Flow) -> Result<(), DirectingError>;

    /// Asks that the giver has the flow again, unless it was confirmed.
    ///
    /// # Errors
    /// [`DirectingError`].
    fn reclaim(&self, claim: Claim) -> Result<Owner, DirectingError>;

    /// Asks for a flow of a node that is down; what the director knows of the connection.
    ///
    /// # Errors
    /// [`DirectingError`].
    fn take_over(
        &self,
        id: MoveId,
        flow: &Flow,
        epoch: u64,
        position: &Position,
    ) -> Result<(Seen, Option<Birth>), DirectingError> {
        let _ = (id, flow, epoch, position);
        Err(DirectingError::Declined(Decline::NotAllowed))
    }

    /// The epoch that is known here.
    fn epoch(&self) -> u64;

    /// A newer epoch is known: no earlier director is asked any more.
    fn learn_epoch(&self, epoch: u64) {
        let _ = epoch;
    }
}

/// Nothing was heard from the other node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The record was not sent at all.
    #[error("node {node} cannot be reached: {why}")]
    NotSent {
        /// The node.
        node: NodeNumber,
        /// Why.
        why: String,
    },
    /// It says that it does not take the session; nothing was sent of that.
    #[error("node {node} does not take the session: {why}")]
    Refused {
        /// The node.
        node: NodeNumber,
        /// Why.
        why: String,
    },
    /// It may have arrived.
    #[error("node {node} does not answer: {why}")]
    NoAnswer {
        /// The node.
        node: NodeNumber,
        /// Why.
        why: String,
    },
}

/// The way to other nodes.
pub trait Transport: Send + Sync {
    /// Has a node look for what a session has under way, which is to come.
    ///
    /// # Errors
    /// Why the session cannot go there.
    fn expect(&self, to: NodeNumber, preview: Vec<u8>) -> Result<(), TransportError> {
        let _ = (to, preview);
        Ok(())
    }

    /// Sends a record and waits for `Done` or `Refused`, for a bounded time. A record may be sent again.
    ///
    /// # Errors
    /// [`TransportError`].
    fn send(&self, to: NodeNumber, record: &Arc<Record>) -> Result<Message, TransportError>;
}
