//! A response that this node passes on between two others, and how it gets out of their way.
//!
//! The session came from the first node, which makes the response, and moved on to the third one. The bytes that this node
//! has, or still gets, go to the third one, which learns by which name the first one knows the response. Then the first one
//! is asked to give it to the third one, and does so once that has said that it takes it in. Both nodes give the same bytes
//! for the same places meanwhile, so that the third one takes each in once, from the faster one. This node is done once the
//! third one has all that the first one had given here.

use super::word::{RelayId, RelayWord, SameRelay, Turning};
use crate::message::Message;
use crate::moving::TransportError;
use crate::name::NodeNumber;
use std::time::{Duration, Instant};

/// Questions without an answer after which nothing is asked any more.
const FAILURES_MAX: u32 = 8;
/// From one question to the next; behind one without an answer twice as long, and so on.
const PAUSE: Duration = Duration::from_millis(20);
/// After so long without success the response goes on through this node.
const PATIENCE: Duration = Duration::from_secs(15);

/// How far this node is with getting out of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The third node is to learn the other name.
    Naming,
    /// The first node is to turn to the third one.
    Asking,
    /// It has, from this byte on, as the first node counts.
    Turned(u64),
    /// The response goes through this node until its end.
    Stays,
}

/// Such a response.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) same: SameRelay,
    /// The name by which it came first, and the place of byte 0 there.
    first: (RelayId, i64),
    stage: Stage,
    /// Questions that had no answer.
    failures: u32,
    until: Instant,
    next: Instant,
}

/// What is to be said to a node about such a response.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) of: RelayId,
    /// The name by which the response came here.
    pub(super) came: RelayId,
    pub(super) node: NodeNumber,
    pub(super) word: RelayWord,
}

impl Passing {
    /// `of` begins with byte `first.1` of a response that comes by the name `first.0`.
    pub(super) fn new(of: RelayId, first: (RelayId, i64), now: Instant) -> Self {
        let same = SameRelay { of, is: first.0, ahead: first.1 };
        Self { same, first, stage: Stage::Naming, failures: 0, until: now + PATIENCE, next: now }
    }

    /// The name by which it came first.
    pub(super) fn came_as(&self) -> RelayId {
        self.first.0
    }

    /// The same, while it is not turned.
    pub(super) fn first_name(&self) -> Option<RelayId> {
        Some(self.came_as()).filter(|_| !self.is_turned())
    }

    /// The node that makes it knows it by this name, all places of which are so far ahead of those of the first one.
    pub(super) fn rename(&mut self, is: RelayId, further: i64, now: Instant) {
        let Some(ahead) = self.first.1.checked_add(further) else { return };
        if self.same.is != is {
            self.same = SameRelay { is, ahead, ..self.same };
            self.restart(now);
        }
    }

    /// It goes to another node than before, which is to learn its names.
    pub(super) fn restart(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::Turned(_)) {
            (self.stage, self.failures, self.until, self.next) = (Stage::Naming, 0, now + PATIENCE, now);
        }
    }

    /// Whether the first node has turned to the third one, which then says only what it is asked for of what came from here.
    pub(super) fn is_turned(&self) -> bool {
        matches!(self.stage, Stage::Turned(_))
    }

    /// Whether the third node, which has so many bytes, has all that it gets from here.
    pub(super) fn is_done(&self, come: u64) -> bool {
        let come = i128::from(come) + i128::from(self.same.ahead);
        matches!(self.stage, Stage::Turned(from) if come >= i128::from(from))
    }

    /// What is to be said now, of a response that goes to this node.
    pub(super) fn step(&mut self, to: NodeNumber, now: Instant) -> Option<Step> {
        if self.next > now || matches!(self.stage, Stage::Turned(_) | Stage::Stays) {
            return None;
        }
        self.next = now + PAUSE * (1 << self.failures.min(FAILURES_MAX));
        let (SameRelay { of, is, .. }, came) = (self.same, self.first.0);
        if now >= self.until {
            self.stage = Stage::Stays;
            return None;
        }
        Some(if self.stage == Stage::Naming {
            Step { of, came, node: to, word: RelayWord::Same(self.same) }
        } else {
            Step { of, came, node: is.id.giver, word: RelayWord::Turn { of: is, to, by: of } }
        })
    }

    /// The response goes through this node until its end.
    pub(super) fn stay(&mut self) {
        if !self.is_turned() {
            self.stage = Stage::Stays;
        }
    }

    /// Whether there is something to be said, now or later.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Naming | Stage::Asking)
    }

    /// What a node has answered; where it has turned, the response has come so far here.
    pub(super) fn hear(&mut self, answer: Result<Message, TransportError>, come: Option<u64>) {
        let failures = std::mem::take(&mut self.failures);
        self.stage = match (self.stage, answer) {
            (Stage::Naming, Ok(Message::Noted)) => Stage::Asking,
            (Stage::Asking, Ok(Message::Relay(word))) => match *word {
                RelayWord::Turning { of, now: Turning::Turned(from) } if of == self.same.is => {
                    Stage::Turned(come.map_or(from, |come| come.max(from)))
                }
                RelayWord::Turning { now: Turning::Stays, .. } => Stage::Stays,
                _ => Stage::Asking,
            },
            (Stage::Naming | Stage::Asking, Ok(_)) => Stage::Stays,
            // An older program does not know the question: its links are not to be broken by it again and again.
            (stage, Err(TransportError::NoAnswer { .. })) => {
                self.failures = failures + 1;
                // Once it may have turned it is asked until it says so, or this node has no more patience.
                if self.failures < FAILURES_MAX || stage == Stage::Asking { stage } else { Stage::Stays }
            }
            (stage, _) => stage,
        };
    }
}
