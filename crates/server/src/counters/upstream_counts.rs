//! What each upstream was asked, and how it answered. All loops count in one place, as their bounds are common as well.

use serde::Serialize;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The counts of an upstream.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCounts {
    pub(crate) name: String,
    /// Requests that may be under way at once hold a place.
    pub(crate) under_way: AtomicU32,
    pub(crate) waiting: AtomicU32,
    /// Open connections, idle ones included.
    pub(crate) open: AtomicU32,
    pub(crate) requests: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) tried_again: AtomicU64,
    /// Requests that the full queue has refused, or that waited in it for too long.
    pub(crate) refused: AtomicU64,
    pub(crate) connects: AtomicU64,
    /// Requests that were refused at once, as they would have had to wait for too long.
    pub(crate) shed: AtomicU64,
    /// Requests that had to wait for a place, those of them whose clients left meanwhile, and how long the others waited.
    pub(crate) queued: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    /// Requests that have given their place back, and how long they held it.
    pub(crate) served: AtomicU64,
    pub(crate) served_ns: AtomicU64,
}

/// The same as of a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UpstreamReading {
    pub(crate) name: String,
    pub(crate) under_way: u32,
    pub(crate) waiting: u32,
    pub(crate) connections: u32,
    /// Servers that are not asked, as they have failed.
    pub(crate) servers_out: u32,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) tried_again: u64,
    pub(crate) refused: u64,
    pub(crate) connects: u64,
    /// Places that there are.
    pub(crate) places: u32,
    /// Nanoseconds that the request has waited which has waited longest of those that wait now.
    pub(crate) oldest_wait_ns: u64,
    pub(crate) shed: u64,
    pub(crate) queued: u64,
    pub(crate) left: u64,
    pub(crate) waited_ns: u64,
    pub(crate) served: u64,
    pub(crate) served_ns: u64,
}

impl UpstreamCounts {
    pub(crate) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// One more of what a count is of.
    #[inline]
    pub(crate) fn add(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }

    /// So much more of a time.
    #[inline]
    pub(crate) fn add_time(of: &AtomicU64, ns: u64) {
        of.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> UpstreamReading {
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let gauge = |of: &AtomicU32| of.load(Ordering::Relaxed);
        UpstreamReading {
            name: self.name.clone(),
            under_way: gauge(&self.under_way),
            waiting: gauge(&self.waiting),
            connections: gauge(&self.open),
            servers_out: 0,
            requests: number(&self.requests),
            failed: number(&self.failed),
            tried_again: number(&self.tried_again),
            refused: number(&self.refused),
            connects: number(&self.connects),
            places: 0,
            oldest_wait_ns: 0,
            shed: number(&self.shed),
            queued: number(&self.queued),
            left: number(&self.left),
            waited_ns: number(&self.waited_ns),
            served: number(&self.served),
            served_ns: number(&self.served_ns),
        }
    }
}
