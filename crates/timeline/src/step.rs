//! A stretch of a response's time, and whom it was spent on.

use crate::blocked::Hold;
use std::net::{IpAddr, SocketAddr};
use weir_measure::part::Part;

/// What [`Detail::EndedConnection`] is, in words.
pub const ENDED_CONNECTION: &str = "a kept-alive connection that ended without an answer";

/// What [`Detail::HeldBack`] is, in words.
pub const HELD_BACK: &str = "Nagle's algorithm until the client acknowledged the piece before (TCP_NODELAY is off)";

/// Who or what a stretch was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detail {
    /// None that is known.
    None,
    /// This task: it had the CPU that was waited for, or ended the wait.
    Task(u32),
    /// The peer that was waited for.
    Peer(SocketAddr),
    /// The client that takes its response slowly: its address, and its task where that is of this host (else 0).
    Reader(IpAddr, u32),
    /// The client that sends its request slowly: its address, and its task where that is of this host (else 0).
    Sender(IpAddr, u32),
    /// A file, a lock, a query: the text is the joiner's of this number ([`crate::Joiner::text`]).
    Named(u32),
    /// A lock: the text is the joiner's of the first number, and this task had it.
    Lock(u32, u32),
    /// This task was held from outside.
    Held(u32, Hold),
    /// The way to this peer, whose host is recorded too, or back from it.
    Way(SocketAddr),
    /// The peer to which a connection was being made, and was not.
    Unconnected(SocketAddr),
    /// The connection that was being made did not come about at once: this server's host did not answer the SYN, so that it
    /// was sent again.
    LateSyn(SocketAddr),
    /// The client had its connection, but this server's host did not take it: as many waited already as its listening
    /// socket has room for.
    FullBacklog(SocketAddr),
    /// The connection's TLS handshake was with this task.
    Handshake(u32),
    /// Earlier requests of the same connection, which were at this part of theirs.
    Behind(Part),
    /// A connection that ended without the response, so that the request was sent again on another.
    EndedConnection,
    /// The last piece of the response was held back by the server's host (Nagle's algorithm) until the client would
    /// acknowledge the piece before.
    HeldBack,
}

/// A stretch of a response's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its begin, nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What it was.
    pub part: Part,
    /// Whose time it was: the task that handled the request then, 0 where it was none's.
    pub pid: u32,
    /// The task that waited for that one meanwhile, 0 for the server's own time.
    pub waiter: u32,
    /// Who or what it was spent on.
    pub detail: Detail,
}

/// What [`Detail::Unconnected`] is, in words.
#[must_use]
pub fn unconnected_words(peer: SocketAddr) -> String {
    format!("{peer}, to which no connection was made")
}

/// What [`Detail::LateSyn`] is, in words.
#[must_use]
pub fn late_syn_words(peer: SocketAddr) -> String {
    format!("a SYN that {peer} did not answer, so that it was sent again")
}

/// What [`Detail::FullBacklog`] begins with, in words.
pub const FULL_BACKLOG: &str = "the full backlog of";

/// What [`Detail::FullBacklog`] is, in words.
#[must_use]
pub fn full_backlog_words(peer: SocketAddr) -> String {
    format!("{FULL_BACKLOG} {peer}")
}

/// What [`Detail::Handshake`] begins with, in words.
pub const HANDSHAKE: &str = "the TLS handshake in";

/// What [`Detail::Way`] is, in words.
#[must_use]
pub fn way_words(peer: SocketAddr) -> String {
    format!("the network to {peer} and back")
}

/// What [`Detail::Behind`] is, in words.
#[must_use]
pub fn behind_words(part: Part) -> String {
    format!("earlier requests of its connection: {}", part.words())
}

/// Appends a step that no other task or peer caused, unless it is empty.
pub(crate) fn push_step(steps: &mut Vec<Step>, from_ns: u64, to_ns: u64, part: Part, pid: u32) {
    if to_ns > from_ns {
        steps.push(Step { from_ns, to_ns, part, pid, waiter: 0, detail: Detail::None });
    }
}
