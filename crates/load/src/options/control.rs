//! The live side of a run.

use crate::counts::OwnSlice;
use crate::counts::series::{Series, Slice};
use crate::counts::slices::locked;
use crate::counts::tally::Published;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// The live side of a run: shared with the code that shows its progress or ends it early.
///
/// The counters are brought up to date about ten times a second.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) unexpected: AtomicU64,
    pub(crate) series: Mutex<Series>,
    /// Where each slice of a loop's figures goes, too.
    slices: Option<SyncSender<OwnSlice>>,
}

impl Control {
    /// One that hands out what each loop did in each interval, when that is over. While there is no room the loops go on
    /// with the interval that they have: nothing is lost.
    pub fn handing_out(slices: SyncSender<OwnSlice>) -> Self {
        Self { slices: Some(slices), ..Self::default() }
    }

    /// Adds what a loop handed out.
    pub(crate) fn collect(&self, slice: &Slice<'_>) {
        locked(&self.series).add(slice);
        if let Some(slices) = &self.slices {
            // If it is gone, the run was given up.
            let _ = slices.send(slice.owned());
        }
    }

    /// Adds what a worker's loop handed out.
    pub(crate) fn collect_own(&self, slice: &OwnSlice) {
        locked(&self.series).add_own(slice);
    }

    /// All counters as they are: requests, errors, drops, connections, unexpected statuses.
    #[must_use]
    pub fn published(&self) -> [u64; 5] {
        let counters = [&self.requests, &self.errors, &self.dropped, &self.connections, &self.unexpected];
        counters.map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Brings the shared counters up to date with one loop, of which they hold `published`.
    pub(crate) fn add(&self, published: &mut Published, now: Published) {
        let counters = [&self.requests, &self.errors, &self.dropped, &self.connections, &self.unexpected];
        for ((counter, now), before) in counters.into_iter().zip(now).zip(published) {
            counter.fetch_add(now.wrapping_sub(*before), Ordering::Relaxed);
            *before = now;
        }
    }

    /// Ends the run: nothing more is begun, what is under way has a second to finish.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whole responses of any status so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whole responses so far whose status is not expected.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.unexpected.load(Ordering::Relaxed)
    }

    /// Failed requests so far.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Arrivals so far that found the generator's queue full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Looks at the intervals that are over.
    ///
    /// The loops never wait for it: what they hand out meanwhile is added afterwards.
    pub fn look<R>(&self, at: impl FnOnce(&Series) -> R) -> R {
        at(&locked(&self.series))
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}
