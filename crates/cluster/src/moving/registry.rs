//! Counts moves and why they failed, and tells how each ended to a bounded channel.

use crate::message::Timings;
use crate::name::NodeNumber;
use crate::record::MoveId;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use weir_keeper::Flow;

/// Reasons that are kept.
const REASONS_MAX: usize = 32;
/// The longest duration that is told apart, microseconds.
const LONGEST_US: u64 = 600_000_000;

/// How a move ended for this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The session went to another node.
    Given,
    /// It came from another node.
    Taken,
    /// It was not stopped.
    NotBegun,
    /// It goes on at its old node, this one.
    CameBack,
    /// This node does not take it in.
    Refused,
    /// It was confirmed here and could not go on.
    Lost,
    /// This node stops without the director's word.
    Undecided,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Given, Self::Taken, Self::NotBegun, Self::CameBack, Self::Refused, Self::Lost, Self::Undecided];

    /// Its name in figures.
    pub fn word(self) -> &'static str {
        ["given", "taken", "not_begun", "came_back", "refused", "lost", "undecided"][self as usize]
    }
}

/// A move has ended for this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The move.
    pub id: MoveId,
    /// How it ended.
    pub outcome: Outcome,
    /// The connection.
    pub flow: Flow,
    /// The node that had it.
    pub from: NodeNumber,
    /// The node that has it now.
    pub to: NodeNumber,
    /// When it was over.
    pub at: SystemTime,
    /// From the hold at the old node until the new node said that it goes on; zero but for `Given`.
    pub freeze: Duration,
    /// From the order to move until then; at the new node, how long it took there.
    pub total: Duration,
    /// Whether a response was under way, as far as this node knows it.
    pub is_under_way: Option<bool>,
    /// Responses that the old node goes on making (`Given`).
    pub relays: u64,
    /// Why it did not move; empty if it did.
    pub why: String,
    /// How long the steps at the new node took, and how many bytes it made again.
    pub timings: Timings,
}

impl Event {
    /// A move that ended now, without durations.
    pub(super) fn of(outcome: Outcome, id: MoveId, flow: &Flow, to: NodeNumber, why: impl Into<String>) -> Self {
        Self {
            id,
            outcome,
            flow: *flow,
            from: id.giver,
            to,
            at: SystemTime::now(),
            freeze: Duration::ZERO,
            total: Duration::ZERO,
            is_under_way: None,
            relays: 0,
            why: why.into(),
            timings: Timings::default(),
        }
    }
}

/// What has been counted since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions that went to another node.
    pub given: u64,
    /// Sessions that came from another node.
    pub taken: u64,
    /// Moves that this node refused as the old one, before anything was sent.
    pub not_begun: u64,
    /// Sessions that went on here, as the new node or the director said.
    pub came_back: u64,
    /// Sessions that this node did not take in.
    pub refused: u64,
    /// Sessions that were confirmed here and could not go on.
    pub lost: u64,
    /// Moves that stopped without the director's word.
    pub undecided: u64,
    /// Questions to the director about moves without an answer.
    pub asked: u64,
    /// Events that did not fit into the channel.
    pub events_dropped: u64,
    /// The last reasons, the newest last.
    pub reasons: Vec<String>,
    /// How many moves ended so for a reason, which is one of a bounded set of words.
    pub by_reason: BTreeMap<(Outcome, &'static str), u64>,
}

struct Kept {
    counts: Counts,
    reasons: VecDeque<String>,
    freeze_us: Histogram<u64>,
    total_us: Histogram<u64>,
}

/// The counts of a node's moves.
pub struct Registry {
    kept: Mutex<Kept>,
    events: SyncSender<Event>,
}

impl Registry {
    /// Begins to count; at most `events_max` events wait in the channel.
    pub fn new(events_max: usize) -> (Self, Receiver<Event>) {
        let (sender, receiver) = sync_channel(events_max);
        // The bounds are constants that hdrhistogram accepts: low >= 1, high >= 2 * low, digits <= 5.
        let empty = Histogram::new_with_bounds(1, LONGEST_US, 2).expect("constant bounds are valid");
        let kept =
            Kept { counts: Counts::default(), reasons: VecDeque::new(), freeze_us: empty.clone(), total_us: empty };
        (Self { kept: Mutex::new(kept), events: sender }, receiver)
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let kept = self.kept();
        Counts { reasons: kept.reasons.iter().cloned().collect(), ..kept.counts.clone() }
    }

    /// The durations of freezes and of whole moves, in microseconds.
    pub fn durations_us(&self) -> (Histogram<u64>, Histogram<u64>) {
        let kept = self.kept();
        (kept.freeze_us.clone(), kept.total_us.clone())
    }

    /// Counts how a move ended, and tells it; `reason` is why it did not move, in a word.
    pub(super) fn ended(&self, event: Event, reason: &'static str) {
        let mut kept = self.kept();
        let counts = &mut kept.counts;
        *match event.outcome {
            Outcome::Given => &mut counts.given,
            Outcome::Taken => &mut counts.taken,
            Outcome::NotBegun => &mut counts.not_begun,
            Outcome::CameBack => &mut counts.came_back,
            Outcome::Refused => &mut counts.refused,
            Outcome::Lost => &mut counts.lost,
            Outcome::Undecided => &mut counts.undecided,
        } += 1;
        if event.outcome == Outcome::Given {
            kept.freeze_us.saturating_record(us(event.freeze));
            kept.total_us.saturating_record(us(event.total));
        } else if event.outcome != Outcome::Taken {
            *kept.counts.by_reason.entry((event.outcome, reason)).or_default() += 1;
            if kept.reasons.len() == REASONS_MAX {
                kept.reasons.pop_front();
            }
            kept.reasons.push_back(event.why.clone());
        }
        match self.events.try_send(event) {
            Err(TrySendError::Full(_)) => kept.counts.events_dropped += 1,
            // Without a receiver, events are not wanted.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Counts a question to the director about a move without an answer.
    pub(super) fn asked(&self) {
        self.kept().counts.asked += 1;
    }

    /// Counters hold after each statement, so that those of a thread that panicked are still right.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.kept().counts).finish()
    }
}

pub(super) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
