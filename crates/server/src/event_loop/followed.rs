//! The responses of a loop that take long, and the copies of their connections.

use super::client::copying::Progress;
use crate::files::held::Held;
use crate::io::connection_facts::ConnectionFacts;
use crate::policy::session_copies::{COPIED_AFTER, COPIED_AGAIN_BYTES, NotCopied};
use crate::process::session::Session;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Milliseconds between a response that outlasts a turn and the first look at it, while no other one was followed.
const FIRST_LOOK_MS: u64 = 5;
/// Milliseconds between two looks.
const LOOK_MS: u64 = 10;

/// The responses that a loop follows, by the tokens of their connections.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) responses: HashMap<u64, Response>,
    pub(super) looks: u64,
    watch: Watch,
    /// The ends of connections whose copied response is over, for the next one that asks. A response is copied for one
    /// that asks, so there are at most as many as were copied for it.
    pub(super) over: Vec<(SocketAddr, SocketAddr)>,
    /// How many cannot be copied, by the reason, as it was told last.
    pub(super) told_left_out: BTreeMap<&'static str, u64>,
}

/// Whether a loop looks at its responses by itself.
#[derive(Debug, Default, PartialEq, Eq)]
enum Watch {
    /// Its connections do not move.
    #[default]
    Off,
    /// No response outlasts a turn, so that a short request pays a look at this value and no more.
    Resting,
    /// It looks at this time of its clock, in milliseconds.
    At(u64),
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
    /// It cannot be copied as long as it lasts.
    pub(super) left_out: Option<NotCopied>,
}

/// A response of which a copy is due.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) token: u64,
    pub(super) progress: Progress,
    pub(super) why_not: Option<NotCopied>,
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

/// What is told to one that asks.
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

    /// Of a loop whose connections move.
    pub(super) fn moving() -> Self {
        Self { watch: Watch::Resting, ..Self::default() }
    }

    /// Whether a response that outlasts its turn is to be told of.
    #[inline]
    pub(super) fn is_resting(&self) -> bool {
        self.watch == Watch::Resting
    }

    /// A response has outlasted its turn, at this time of the loop's clock.
    #[cold]
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.watch = Watch::At(now_ms + FIRST_LOOK_MS);
    }

    /// When the loop looks next, if it does.
    #[inline]
    pub(super) fn next_look_ms(&self) -> Option<u64> {
        if let Watch::At(at_ms) = self.watch { Some(at_ms) } else { None }
    }

    /// A look is over: the next one follows, unless nothing is under way any more.
    pub(super) fn end_look(&mut self, now_ms: u64) {
        let has_told = self.responses.is_empty() && self.over.is_empty() && self.told_left_out.is_empty();
        self.watch = match self.watch {
            Watch::Off => Watch::Off,
            _ if has_told => Watch::Resting,
            _ => Watch::At(now_ms + LOOK_MS),
        };
    }

    /// Notes that a connection sends; what is to be done about it.
    pub(super) fn note(
        &mut self,
        token: u64,
        progress: Result<Progress, NotCopied>,
        now: Instant,
    ) -> Result<Option<Due>, NotCopied> {
        let (why_not, progress) = (progress.err(), progress.unwrap_or(Progress { offset: 0, bytes: 0 }));
        let fresh = || Response { since: now, look: self.looks, seen: now, progress, copied: None, left_out: None };
        let response = self.responses.entry(token).or_insert_with(fresh);
        // A response of other bytes, or one that began anew.
        if response.progress.bytes != progress.bytes || progress.offset < response.progress.offset {
            self.over.extend(response.copied.take().map(|copied| (copied.peer, copied.local)));
            (response.since, response.left_out) = (now, None);
        }
        (response.look, response.seen, response.progress) = (self.looks, now, progress);
        if let Some(why) = response.left_out {
            return Err(why);
        }
        let is_due = response.is_long(now) && response.is_to_be_copied();
        Ok(is_due.then_some(Due { token, progress, why_not }))
    }
}

impl Response {
    fn is_long(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= COPIED_AFTER
    }

    fn is_to_be_copied(&self) -> bool {
        let far = |copied: &Copied| self.progress.offset.saturating_sub(copied.offset) >= COPIED_AGAIN_BYTES;
        self.copied.as_ref().is_none_or(|copied| copied.is_lost || far(copied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESS: Progress = Progress { offset: 5, bytes: 9 };

    #[test]
    fn a_loop_looks_only_while_something_outlasts_its_turn() {
        let mut followed = Followed::moving();
        assert!(followed.is_resting() && followed.next_look_ms().is_none());
        followed.begin(100);
        assert!(!followed.is_resting());
        assert_eq!(followed.next_look_ms(), Some(105));
        // It was over by then.
        followed.end_look(105);
        assert!(followed.is_resting());
        followed.begin(200);
        let due = followed.note(7, Ok(PROGRESS), Instant::now()).expect("it can be copied");
        assert!(due.is_none(), "it is not long");
        followed.end_look(205);
        assert_eq!(followed.next_look_ms(), Some(215));
        followed.responses.clear();
        followed.told_left_out.insert("why", 1);
        followed.end_look(215);
        assert!(!followed.is_resting(), "that there are none any more is to be told");
    }

    #[test]
    fn a_loop_whose_connections_stay_never_looks() {
        let mut followed = Followed::default();
        assert!(!followed.is_resting());
        let _ = followed.note(7, Ok(PROGRESS), Instant::now());
        followed.end_look(100);
        assert!(!followed.is_resting() && followed.next_look_ms().is_none());
    }

    #[test]
    fn what_cannot_be_copied_is_not_due_until_another_response_begins() {
        let mut followed = Followed::moving();
        let begun = Instant::now();
        let _ = followed.note(7, Err(NotCopied::Made), begun);
        let later = begun + COPIED_AFTER;
        let due = followed.note(7, Err(NotCopied::Made), later).expect("it was not tried");
        assert_eq!(due.and_then(|due| due.why_not), Some(NotCopied::Made));
        followed.responses.values_mut().for_each(|response| response.left_out = Some(NotCopied::Made));
        assert_eq!(followed.note(7, Err(NotCopied::Made), later).err(), Some(NotCopied::Made));
        assert!(followed.note(7, Ok(PROGRESS), later).expect("another one").is_none());
        assert!(followed.note(7, Ok(PROGRESS), later + COPIED_AFTER).expect("it can be copied").is_some());
    }
}
