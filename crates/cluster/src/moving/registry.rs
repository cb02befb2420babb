//! Counts moves and why they failed, and tells each that succeeded to a bounded channel.

use crate::message::Timings;
use crate::name::NodeNumber;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use weir_keeper::Flow;

/// Reasons that are kept.
const REASONS_MAX: usize = 32;
/// The longest duration that is told apart, microseconds.
const LONGEST_US: u64 = 600_000_000;

/// A session has moved away from this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The connection.
    pub flow: Flow,
    /// The node that had it.
    pub from: NodeNumber,
    /// The node that has it now.
    pub to: NodeNumber,
    /// When it had moved.
    pub at: SystemTime,
    /// From the hold at the old node until the new node said that it goes on.
    pub freeze: Duration,
    /// From the order to move until then.
    pub total: Duration,
    /// How long the steps at the new node took, and how many bytes it made again.
    pub timings: Timings,
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

    pub(super) fn given(&self, event: Event) {
        let mut kept = self.kept();
        kept.counts.given += 1;
        kept.freeze_us.saturating_record(us(event.freeze));
        kept.total_us.saturating_record(us(event.total));
        match self.events.try_send(event) {
            Err(TrySendError::Full(_)) => kept.counts.events_dropped += 1,
            // Without a receiver, events are not wanted.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Counts one, with its reason if there is one.
    pub(super) fn count(&self, field: impl FnOnce(&mut Counts) -> &mut u64, why: Option<String>) {
        let mut kept = self.kept();
        *field(&mut kept.counts) += 1;
        if let Some(why) = why {
            if kept.reasons.len() == REASONS_MAX {
                kept.reasons.pop_front();
            }
            kept.reasons.push_back(why);
        }
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
