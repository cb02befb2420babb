//! The responses of a loop that take long, and the copies of their connections.

use super::client::copying::Progress;
use crate::files::held::Held;
use crate::io::connection_facts::ConnectionFacts;
use crate::policy::session_copies::{COPIED_AFTER, COPIED_AGAIN_BYTES};
use crate::process::session::Session;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The responses that a loop follows, by the tokens of their connections.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) responses: HashMap<u64, Response>,
    pub(super) looks: u64,
}

/// A response that is followed.
#[derive(Debug)]
pub(super) struct Response {
    since: Instant,
    /// The look at which it was seen last, and when that was.
    pub(super) look: u64,
    pub(super) seen: Instant,
    progress: Progress,
    pub(super) copied: Option<Copied>,
}

/// A connection that was copied, and how far its response had come.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) offset: u64,
    /// Whether the copy is lost.
    pub(super) is_lost: bool,
}

/// A copy, without the digest of its content.
#[derive(Debug)]
pub(super) struct LoopCopy {
    pub(super) session: Session,
    pub(super) content: Option<Held>,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) progress: Progress,
    pub(super) facts: ConnectionFacts,
    /// Another descriptor of the socket, where one more can be made.
    pub(super) socket: Option<OwnedFd>,
}

/// What one look has found.
#[derive(Debug, Default)]
pub(super) struct LoopCopies {
    pub(super) copies: Vec<LoopCopy>,
    pub(super) ended: Vec<(SocketAddr, SocketAddr)>,
    pub(super) left_out: BTreeMap<&'static str, u64>,
}

impl Followed {
    /// All copies are lost: each is to be made again.
    pub(super) fn lose(&mut self) {
        let copied = self.responses.values_mut().filter_map(|response| response.copied.as_mut());
        copied.for_each(|copied| copied.is_lost = true);
    }

    /// Notes that a connection sends.
    pub(super) fn note(
        &mut self,
        token: u64,
        progress: Progress,
        now: Instant,
        found: &mut LoopCopies,
    ) -> &mut Response {
        let fresh = || Response { since: now, look: self.looks, seen: now, progress, copied: None };
        let response = self.responses.entry(token).or_insert_with(fresh);
        // A response of other bytes, or one that began anew.
        if response.progress.bytes != progress.bytes || progress.offset < response.progress.offset {
            found.ended.extend(response.copied.take().map(|copied| (copied.peer, copied.local)));
            response.since = now;
        }
        (response.look, response.seen, response.progress) = (self.looks, now, progress);
        response
    }
}

impl Response {
    pub(super) fn is_long(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= COPIED_AFTER
    }

    pub(super) fn is_to_be_copied(&self) -> bool {
        let far = |copied: &Copied| self.progress.offset.saturating_sub(copied.offset) >= COPIED_AGAIN_BYTES;
        self.copied.as_ref().is_none_or(|copied| copied.is_lost || far(copied))
    }
}
