//! What waits to be sent: batches of encoded items, bounded, filled without ever waiting for the network.

use super::protobuf::Writer;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A batch is closed at so many bytes: receivers take some megabytes at a time.
const BATCH_BYTES: usize = 512 << 10;
/// Or at so many items.
const BATCH_ITEMS: u64 = 4096;
/// Or when it is so old.
const BATCH_AGE: Duration = Duration::from_secs(1);
/// Batches that wait; beyond, new items are dropped and counted: at most 8 MiB.
const MOST_BATCHES: usize = 16;
/// Groups of a batch; a batch with more is closed.
const MOST_GROUPS: usize = 256;

/// Items that are sent together, grouped by what produced them.
#[derive(Debug)]
pub(crate) struct Batch {
    /// For each group: what describes it, and its items, each written as a field already.
    pub(crate) groups: Vec<(Vec<u8>, Writer)>,
    by_key: HashMap<u64, usize>,
    /// How many items.
    pub(crate) items: u64,
    bytes: usize,
    since: Instant,
}

impl Batch {
    fn new() -> Self {
        Self { groups: Vec::new(), by_key: HashMap::new(), items: 0, bytes: 0, since: Instant::now() }
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.items >= BATCH_ITEMS || self.groups.len() >= MOST_GROUPS
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    dropped: u64,
    ending: bool,
}

/// The queue between those who tell and the one who sends.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    news: Condvar,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item to the group of this key; `describe` is asked once for each group of a batch. `false`: it was
    /// dropped, as the queue is full.
    pub(crate) fn push(&self, key: u64, describe: impl FnOnce() -> Vec<u8>, write: impl FnOnce(&mut Writer)) -> bool {
        let mut state = self.state();
        if state.waiting.back().is_none_or(Batch::is_full) {
            if state.waiting.len() >= MOST_BATCHES {
                state.dropped += 1;
                return false;
            }
            state.waiting.push_back(Batch::new());
        }
        let Some(batch) = state.waiting.back_mut() else { return false };
        let next = batch.groups.len();
        let index = *batch.by_key.entry(key).or_insert(next);
        if index == next {
            let described = describe();
            batch.bytes += described.len();
            batch.groups.push((described, Writer::default()));
        }
        let writer = &mut batch.groups[index].1;
        let before = writer.len();
        write(writer);
        batch.bytes += writer.len() - before;
        batch.items += 1;
        if batch.is_full() {
            self.news.notify_one();
        }
        true
    }

    /// The next batch that is to be sent; `None` after `patience` without one, or at the end when nothing is left.
    pub(crate) fn next(&self, patience: Duration) -> Option<Batch> {
        let until = Instant::now() + patience;
        let mut state = self.state();
        loop {
            let ending = state.ending;
            let due = |batch: &Batch| batch.is_full() || ending || batch.since.elapsed() >= BATCH_AGE;
            if state.waiting.front().is_some_and(due) {
                return state.waiting.pop_front();
            }
            let now = Instant::now();
            if ending || now >= until {
                return None;
            }
            let ripe = state.waiting.front().map_or(until, |batch| batch.since + BATCH_AGE).clamp(now, until);
            let pause = (ripe - now).max(Duration::from_millis(1));
            state = self.news.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits, but no longer than until the end begins. Whether it has.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = self.state();
        while !state.ending {
            let now = Instant::now();
            if now >= until {
                return false;
            }
            state = self.news.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.state().ending = true;
        self.news.notify_all();
    }

    /// Items that found no room.
    pub(crate) fn dropped(&self) -> u64 {
        self.state().dropped
    }

    /// Items that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.state().waiting.iter().map(|batch| batch.items).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(outbox: &Outbox, key: u64, bytes: usize) -> bool {
        outbox.push(key, || vec![key as u8], |writer| writer.content(1, &vec![7; bytes]))
    }

    #[test]
    fn items_of_one_sort_are_together_and_described_once() {
        let outbox = Outbox::default();
        for key in [1, 2, 1, 1] {
            assert!(item(&outbox, key, 10));
        }
        assert_eq!(outbox.waiting(), 4);
        outbox.end();
        let batch = outbox.next(Duration::ZERO).expect("what waits is given out at the end");
        let sizes: Vec<_> = batch.groups.iter().map(|(told, items)| (told.clone(), items.len())).collect();
        assert_eq!((batch.items, sizes), (4, vec![(vec![1], 36), (vec![2], 12)]));
        assert!(outbox.next(Duration::from_secs(5)).is_none(), "nothing is left, and `next` does not wait for more");
    }

    #[test]
    fn a_batch_waits_for_more_but_not_for_long() {
        let outbox = Outbox::default();
        item(&outbox, 1, 10);
        assert!(outbox.next(Duration::from_millis(5)).is_none());
        let begin = Instant::now();
        assert!(outbox.next(Duration::from_secs(20)).is_some());
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn unfetched_items_are_dropped_and_counted_and_take_no_more_memory() {
        let outbox = Outbox::default();
        let kept = (0..30_000u64).filter(|number| item(&outbox, number % 3, 1000)).count() as u64;
        assert_eq!((outbox.waiting(), outbox.dropped()), (kept, 30_000 - kept));
        let bytes: usize = outbox.state().waiting.iter().map(|batch| batch.bytes).sum();
        assert!((BATCH_BYTES * (MOST_BATCHES - 1)..=(BATCH_BYTES + 2000) * MOST_BATCHES).contains(&bytes), "{bytes}");
        // As soon as one is fetched there is room again.
        assert!(outbox.next(Duration::ZERO).is_some_and(|batch| batch.is_full()));
        assert!(item(&outbox, 1, 1000));
    }
}
