//! Keys whose last response could not be stored: requests for them neither wait for each other nor lose fields.

use super::freshness::Now;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that are remembered. A key takes the place of another with the same end of its hash, which costs a wait at most.
const PLACES: usize = 4096;
/// How long one is remembered, in seconds.
const MEMORY_S: u32 = 120;

/// A table without locks: each place has 32 bits of a hash and a time.
#[derive(Debug)]
pub(crate) struct Uncacheable(Box<[AtomicU64]>);

impl Default for Uncacheable {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Uncacheable {
    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % PLACES]
    }

    /// Seconds, which may go around in 136 years.
    fn seconds(now: Now) -> u32 {
        (now.mono_ms / 1000) as u32
    }

    pub(crate) fn add(&self, hash: u64, now: Now) {
        let until = Self::seconds(now).saturating_add(MEMORY_S);
        self.place(hash).store(hash & !0xffff_ffff | u64::from(until), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, hash: u64) {
        if self.place(hash).load(Ordering::Relaxed) >> 32 == hash >> 32 {
            self.place(hash).store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, hash: u64, now: Now) -> bool {
        let place = self.place(hash).load(Ordering::Relaxed);
        place >> 32 == hash >> 32 && place as u32 > Self::seconds(now)
    }
}
