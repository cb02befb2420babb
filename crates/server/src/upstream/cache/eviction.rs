//! Which stored response goes when there is no room: S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need
//! for cache eviction", SOSP 2023).
//!
//! Most responses are asked for once. They enter a small queue with a tenth of the room and leave from there, so that
//! neither a scan nor a large body pushes out what is used: only what was used twice meanwhile, or comes back soon after
//! it left, enters the main queue. A use is one store to a byte, so that a hit takes no lock, which an LRU list would need.

use super::stored::{Body, Stored};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Responses that are passed over for one that goes, so that the lock is not held for long.
const PASSED_OVER_MAX: usize = 64;
/// Uses in the small queue that lead to the main one.
const USES_FOR_MAIN: u8 = 2;

/// How much there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes of memory, or of the disk.
    pub(crate) bytes: u64,
    /// Bytes of memory of the heads of what is on the disk.
    pub(crate) heads: u64,
    pub(crate) entries: usize,
}

/// The queues of what one shard keeps in memory, or on the disk.
#[derive(Debug)]
pub(crate) struct Queues {
    room: Room,
    small: VecDeque<Weak<Stored>>,
    main: VecDeque<Weak<Stored>>,
    ghosts: Ghosts,
    small_bytes: u64,
    main_bytes: u64,
    heads: u64,
    entries: usize,
}

impl Queues {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Ghosts::default(),
            small_bytes: 0,
            main_bytes: 0,
            heads: 0,
            entries: 0,
        }
    }

    /// Bytes of the largest response that is taken: one that is larger would push out too much of its shard.
    pub(crate) fn object_max(&self) -> u64 {
        self.room.bytes / 4
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.small_bytes + self.main_bytes
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Takes in a response.
    pub(crate) fn insert(&mut self, stored: &Arc<Stored>) {
        self.compact();
        let is_in_main = self.ghosts.take(stored.hash);
        stored.life.is_in_main.store(is_in_main, Ordering::Relaxed);
        if is_in_main {
            self.main.push_back(Arc::downgrade(stored));
            self.main_bytes += weight(stored);
        } else {
            self.small.push_back(Arc::downgrade(stored));
            self.small_bytes += weight(stored);
        }
        self.heads += stored.head_bytes();
        self.entries += 1;
    }

    /// Counts a response no more that was retired; its place in the queue is passed over.
    pub(crate) fn forget(&mut self, stored: &Stored) {
        if stored.life.is_in_main.load(Ordering::Relaxed) {
            self.main_bytes -= weight(stored);
        } else {
            self.small_bytes -= weight(stored);
        }
        self.heads -= stored.head_bytes();
        self.entries -= 1;
    }

    fn is_over(&self) -> bool {
        self.bytes() > self.room.bytes || self.heads > self.room.heads || self.entries > self.room.entries
    }

    /// The next response that has to go, if there is more than there may be. The caller retires and forgets it.
    pub(crate) fn victim(&mut self) -> Option<Arc<Stored>> {
        if !self.is_over() {
            return None;
        }
        let mut passed_over = 0;
        loop {
            let is_small = self.small_bytes > self.room.bytes / 10 || self.main_bytes == 0;
            let queue = if is_small { &mut self.small } else { &mut self.main };
            let Some(weak) = queue.pop_front() else {
                // The other queue has all there is, or none has anything.
                let other = if is_small { &mut self.main } else { &mut self.small };
                let stored = other.pop_front()?;
                match stored.upgrade().filter(|stored| !stored.life.is_retired()) {
                    Some(stored) => return Some(stored),
                    None => continue,
                }
            };
            let Some(stored) = weak.upgrade().filter(|stored| !stored.life.is_retired()) else { continue };
            passed_over += 1;
            if passed_over > PASSED_OVER_MAX {
                return Some(stored);
            }
            if is_small && stored.life.uses() >= USES_FOR_MAIN {
                self.small_bytes -= weight(&stored);
                self.main_bytes += weight(&stored);
                stored.life.is_in_main.store(true, Ordering::Relaxed);
                self.main.push_back(weak);
            } else if is_small {
                self.ghosts.add(stored.hash, self.entries);
                return Some(stored);
            } else if stored.life.uses() > 0 {
                stored.life.take_use();
                self.main.push_back(weak);
            } else {
                return Some(stored);
            }
        }
    }

    /// Removes the places of what was retired, once they are most.
    fn compact(&mut self) {
        if self.small.len() + self.main.len() > 2 * self.entries + 64 {
            self.small.retain(|stored| stored.strong_count() > 0);
            self.main.retain(|stored| stored.strong_count() > 0);
        }
    }
}

/// Bytes of the room that a response takes.
fn weight(stored: &Stored) -> u64 {
    match &stored.body {
        Body::Memory(_) => stored.memory_bytes(),
        Body::Disk(body) => body.bytes(),
    }
}

/// Hashes of what left the small queue not long ago.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u64>,
    known: HashSet<u64, foldhash::fast::RandomState>,
}

impl Ghosts {
    /// Remembers one more, and as many as there are entries.
    fn add(&mut self, hash: u64, entries: usize) {
        if self.known.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > entries.max(16) {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn take(&mut self, hash: u64) -> bool {
        // Its place in the order stays until it is the oldest; then nothing is removed.
        self.known.remove(&hash)
    }
}
