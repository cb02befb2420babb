//! What goes between the sampler's thread and the collector.

use std::sync::{Mutex, PoisonError};
use weir_wire::{Record, Slot};

/// A record with its payload, on its way to the collector.
pub(super) type Told = (Record, Vec<Slot>);

/// Processes of whose new program the sampler has not heard yet.
const MOST_CHANGED: usize = 1 << 14;

/// Processes that run another program than before, or have ended.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    changed: Mutex<Vec<u32>>,
}

impl Inbox {
    pub(super) fn put(&self, tgid: u32) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is missed is met again with addresses that are in none of its mappings, and read anew.
        if changed.len() < MOST_CHANGED {
            changed.push(tgid);
        }
    }

    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
