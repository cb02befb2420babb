//! The last requests of all loops, in blocks of some fifty.

use super::entry::ENTRY_BYTES_MAX;
use super::past::{Past, entries};
use crate::telemetry::request_filter::RequestFilter;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a block after which a loop hands it over.
pub(super) const BLOCK_BYTES: usize = 8 << 10;
/// Bytes that there may be for each request of the bound: most need fewer.
const BYTES_PER_REQUEST: usize = 256;

/// Some whole entries of one loop, in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: usize,
}

/// The last requests.
#[derive(Debug)]
pub(crate) struct Recent {
    /// Requests that are kept, and somewhat more: whole blocks go.
    most: usize,
    ring: Mutex<Ring>,
    /// Requests that could not be noted, because the ring was being read for too long.
    missed: AtomicU64,
}

#[derive(Debug, Default)]
struct Ring {
    blocks: VecDeque<Block>,
    entries: usize,
    bytes: usize,
    /// Entries of blocks that went.
    gone: u64,
}

/// What a question about the last requests found.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Found {
    /// The latest first.
    pub(super) requests: Vec<Past>,
    /// Those that the filter lets pass, also beyond the limit.
    matching: usize,
    /// Those that are kept, those before them, and those that could not be noted.
    kept: usize,
    gone: u64,
    missed: u64,
}

impl Recent {
    /// Keeps at least so many requests where they are of usual size, else the last of them in 256 bytes for each.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), ring: Mutex::default(), missed: AtomicU64::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A thread that panicked with the lock held left whole blocks.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block for an empty one; it comes back while the ring is being read, as no loop waits for a reader.
    pub(super) fn try_put(&self, block: Block) -> Result<Vec<u8>, Block> {
        let Ok(mut ring) = self.ring.try_lock() else { return Err(block) };
        ring.entries += block.entries;
        ring.bytes += block.bytes.len();
        ring.blocks.push_back(block);
        let bytes_max = self.most * BYTES_PER_REQUEST + BLOCK_BYTES + ENTRY_BYTES_MAX;
        let mut spare = Vec::new();
        while let Some(first) = ring.blocks.front() {
            let has_enough = ring.entries - first.entries >= self.most;
            if ring.blocks.len() == 1 || !has_enough && ring.bytes <= bytes_max {
                break;
            }
            if let Some(first) = ring.blocks.pop_front() {
                ring.entries -= first.entries;
                ring.bytes -= first.bytes.len();
                ring.gone += first.entries as u64;
                spare = first.bytes;
            }
        }
        spare.clear();
        Ok(spare)
    }

    /// So many requests could not be noted.
    pub(super) fn miss(&self, requests: usize) {
        self.missed.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// The latest requests that a filter lets pass, as JSON.
    pub(crate) fn json(&self, filter: &RequestFilter, limit: usize) -> String {
        // Names are texts and numbers are finite, so that nothing in it has no form in JSON.
        serde_json::to_string(&self.find(filter, limit)).unwrap_or_default()
    }

    fn find(&self, filter: &RequestFilter, limit: usize) -> Found {
        // Copied, so that loops can hand over while it is looked through.
        let (blocks, kept, gone) = {
            let ring = self.ring();
            let blocks: Vec<Vec<u8>> = ring.blocks.iter().map(|block| block.bytes.clone()).collect();
            (blocks, ring.entries, ring.gone)
        };
        let mut found: Vec<Past> = blocks.iter().flat_map(|block| entries(block)).collect();
        found.sort_by_key(|past| std::cmp::Reverse(past.ended_ns()));
        // Those beyond the bound are there because whole blocks go.
        found.truncate(self.most);
        found.retain(|past| filter.is_for(&past.facts()));
        let matching = found.len();
        found.truncate(limit);
        Found {
            requests: found,
            matching,
            kept: kept.min(self.most),
            gone,
            missed: self.missed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::recent::entry::Noted;
    use std::net::Ipv4Addr;

    fn block(from: u64, entries: u64) -> Block {
        let mut bytes = Vec::new();
        for number in from..from + entries {
            let mut noted = Noted::default();
            noted.begin(None, Ipv4Addr::LOCALHOST.into(), 400, number * 1000);
            noted.end(number, number * 1000, &mut bytes);
        }
        Block { bytes, entries: entries as usize }
    }

    proptest::proptest! {
        #[test]
        fn the_last_ones_are_kept_and_the_others_counted(most in 1_usize..200, sizes in proptest::collection::vec(1_u64..60, 1..40)) {
            let (recent, mut all) = (Recent::new(most), 0);
            for size in sizes {
                let spare = recent.try_put(block(all, size));
                proptest::prop_assert!(spare.is_ok_and(|spare| spare.is_empty()));
                all += size;
            }
            let found = recent.find(&RequestFilter::default(), usize::MAX);
            let sent: Vec<u64> = found.requests.iter().map(|past| past.sent_bytes).collect();
            let wanted: Vec<u64> = (0..all).rev().take(most).collect();
            proptest::prop_assert_eq!(sent, wanted);
            proptest::prop_assert!(found.gone + found.kept as u64 <= all);
        }
    }

    #[test]
    fn while_it_is_read_a_block_comes_back() {
        let recent = Recent::new(10);
        let _reading = recent.ring();
        assert!(recent.try_put(block(0, 3)).is_err_and(|block| block.entries == 3));
    }
}
