//! How many connections all loops have, and whether there is room for one more.

use crate::io::per_address::PerAddress;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether there is room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is counted.
    Counted,
    /// All places are taken.
    Full,
    /// Its address has its share already.
    BeyondShare,
}

/// The connections of all loops.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) count: AtomicUsize,
    most: usize,
    pub(crate) per_address: PerAddress,
}

impl Open {
    pub(crate) fn new(most: usize, per_address: PerAddress) -> Self {
        Self { count: AtomicUsize::new(0), most, per_address }
    }

    /// Counts a connection, if there is room for it.
    pub(crate) fn enter(&self, peer: IpAddr) -> Entry {
        let entry = if self.count.fetch_add(1, Ordering::Relaxed) >= self.most {
            Entry::Full
        } else if !self.per_address.enter(peer) {
            Entry::BeyondShare
        } else {
            return Entry::Counted;
        };
        self.count.fetch_sub(1, Ordering::Relaxed);
        entry
    }

    /// Counts one that was counted before it was taken out for a while, whether there is room or not.
    pub(crate) fn enter_again(&self, peer: IpAddr) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.per_address.enter_again(peer);
    }

    /// One that was counted has ended.
    pub(crate) fn leave(&self, peer: IpAddr) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.per_address.leave(peer);
    }
}
