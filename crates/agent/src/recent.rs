//! What has finished lately, whole, so that relatives of a transaction are found when it turns out to be of interest.

use crate::finished::Finished;
use crate::transaction::{Transaction, TransactionId, Wanted};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Transactions that are kept.
pub const MOST_RECENT: usize = 16_384;
/// Bytes that they may take.
pub const MOST_RECENT_BYTES: usize = 8 << 20;
/// Traces of which everything that comes is kept.
const MOST_TRACES: usize = 4096;
/// Relatives of one transaction.
pub const MOST_RELATIVES: usize = 200;

/// A transaction of this host or of another.
#[derive(Debug, Clone)]
pub enum Lately {
    /// It finished here.
    Here(Finished),
    /// Another host's agent told of it.
    Elsewhere(Arc<Transaction>),
}

impl Lately {
    fn bytes(&self) -> usize {
        match self {
            Self::Here(finished) => finished.bytes(),
            // Its texts have bounds of their own where they are taken in; this is what a usual one takes.
            Self::Elsewhere(_) => 2 * size_of::<Transaction>(),
        }
    }
}

/// What has finished lately.
#[derive(Debug, Default)]
pub struct Recent {
    /// Ids apart from the rest: all of them are looked through.
    ids: VecDeque<TransactionId>,
    entries: VecDeque<Lately>,
    bytes: usize,
}

impl Recent {
    /// Takes one more; the oldest go.
    pub fn push(&mut self, id: TransactionId, lately: Lately) {
        self.bytes += lately.bytes();
        self.ids.push_back(id);
        self.entries.push_back(lately);
        while self.entries.len() > MOST_RECENT || self.bytes > MOST_RECENT_BYTES {
            self.ids.pop_front();
            let Some(gone) = self.entries.pop_front() else { break };
            self.bytes -= gone.bytes();
        }
    }

    /// Those that are wanted, the oldest first, at most `most`.
    pub fn find(&self, wanted: Wanted, most: usize) -> impl Iterator<Item = &Lately> {
        let places = self.ids.iter().enumerate().filter(move |(_, id)| wanted.is(id));
        places.take(most).filter_map(|(at, _)| self.entries.get(at))
    }

    /// How many there are, and how many bytes they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

/// Traces of which one was of interest, so that what comes of them later is as well.
#[derive(Debug, Default)]
pub struct Traces {
    order: VecDeque<[u64; 2]>,
    known: HashSet<[u64; 2]>,
}

impl Traces {
    /// Notes one; the oldest goes.
    pub fn note(&mut self, trace: [u64; 2]) {
        if self.known.insert(trace) {
            self.order.push_back(trace);
            if self.order.len() > MOST_TRACES
                && let Some(gone) = self.order.pop_front()
            {
                self.known.remove(&gone);
            }
        }
    }

    /// Whether it was noted.
    #[must_use]
    pub fn has(&self, trace: [u64; 2]) -> bool {
        self.known.contains(&trace)
    }
}
