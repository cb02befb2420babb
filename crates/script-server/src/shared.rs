//! What all connections of a script server share: whom they believe, where runners are asked, counts and the log.

use crate::counts::Counts;
use crate::journal::Journal;
use crate::mounts::Mounts;
use crate::trust::Trust;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) trust: Option<Trust>,
    pub(crate) mounts: Mounts,
    pub(crate) places: Vec<Arc<Place>>,
    pub(crate) accept: Vec<String>,
    pub(crate) idle: Duration,
    pub(crate) counts: Arc<Counts>,
    pub(crate) journal: Journal,
    /// At its end when the program is to end.
    pub(crate) stop: UnixStream,
}

impl Shared {
    pub(crate) fn tell(&self, line: &str) {
        self.journal.tell(&self.counts, line);
    }

    pub(crate) fn stop_fd(&self) -> RawFd {
        self.stop.as_raw_fd()
    }
}

/// Where the runners of a pool are asked, and how many requests are there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) socket: PathBuf,
    pub(crate) requests_max: usize,
    pub(crate) requests: AtomicUsize,
}

/// A place of a request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Place>);

impl Place {
    /// Takes a place if one is free.
    pub(crate) fn enter(place: &Arc<Self>) -> Option<Permit> {
        let before = place.requests.fetch_add(1, Ordering::AcqRel);
        let permit = Permit(Arc::clone(place));
        (before < place.requests_max).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
