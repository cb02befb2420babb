//! What all connections of a script server share: whom they believe, where runners are asked, counts and the log.

use crate::counts::Counts;
use crate::error::ServerError;
use crate::journal::Journal;
use crate::mounts::Mounts;
use crate::settings::{Mount, Settings};
use crate::trust::Trust;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What holds for requests from now on.
    current: Mutex<Arc<Configured>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) journal: Journal,
    /// At its end when the program is to end.
    pub(crate) stop: UnixStream,
}

/// What a configuration says of connections and requests.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) trust: Option<Trust>,
    pub(crate) mounts: Mounts,
    pub(crate) places: Vec<Arc<Place>>,
    pub(crate) accept: Vec<String>,
    pub(crate) idle: Duration,
    pub(crate) connections_max: usize,
    /// An eventfd(2) that can be read once another configuration holds: a confined program makes no pairs of sockets.
    superseded: OwnedFd,
}

/// A configuration that can be taken up.
#[derive(Debug)]
pub(crate) struct Next {
    configured: Configured,
    /// Whether the certificate and its key are those of before, as they may not be read any more.
    pub(crate) keeps_key: bool,
}

impl Next {
    /// Reads the files of TLS. The certificate and key that were read from the same files before stay where this process has
    /// no right to read them now: it was root then.
    pub(crate) fn of(settings: &Settings, before: Option<&Configured>) -> Result<Self, ServerError> {
        let kept = before.and_then(|before| before.trust.as_ref());
        let loaded = settings.tls.as_ref().map(|files| Trust::load(files, kept)).transpose()?;
        let (trust, keeps_key) = loaded.map_or((None, false), |(trust, keeps_key)| (Some(trust), keeps_key));
        let place = |mount: &Mount| {
            let (socket, requests_max) = (mount.socket.clone(), mount.requests_max);
            Arc::new(Place { socket, requests_max, requests: AtomicUsize::new(0) })
        };
        let configured = Configured {
            trust,
            mounts: Mounts::new(&settings.mounts),
            places: settings.mounts.iter().map(place).collect(),
            accept: settings.accept.clone(),
            idle: settings.idle,
            connections_max: settings.connections_max,
            superseded: event()?,
        };
        Ok(Self { configured, keeps_key })
    }
}

impl Configured {
    /// Whether peers that an earlier configuration has believed are believed by this one.
    pub(crate) fn believes_as(&self, before: &Self) -> bool {
        match (&self.trust, &before.trust) {
            (Some(own), Some(before)) => own.believes_as(before),
            (own, before) => own.is_none() && before.is_none(),
        }
    }

    pub(crate) fn superseded_fd(&self) -> RawFd {
        self.superseded.as_raw_fd()
    }
}

impl Shared {
    pub(crate) fn new(next: Next, notice: fn(&str), stop: UnixStream) -> Self {
        let current = Mutex::new(Arc::new(next.configured));
        Self { current, counts: Arc::default(), journal: Journal::new(notice), stop }
    }

    /// What holds now.
    pub(crate) fn now(&self) -> Arc<Configured> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has another configuration hold for requests from now on. Places that both have keep their count.
    pub(crate) fn take_up(&self, Next { mut configured, .. }: Next) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        for place in &mut configured.places {
            let is_same =
                |other: &&Arc<Place>| (&other.socket, other.requests_max) == (&place.socket, place.requests_max);
            if let Some(same) = current.places.iter().find(is_same) {
                *place = Arc::clone(same);
            }
        }
        let before = std::mem::replace(&mut *current, Arc::new(configured));
        drop(current);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the kernel reads these bytes. The counter is far from its bound, so the call does not wait.
        unsafe { libc::write(before.superseded_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(crate) fn tell(&self, line: &str) {
        self.journal.tell(&self.counts, line);
    }

    pub(crate) fn stop_fd(&self) -> RawFd {
        self.stop.as_raw_fd()
    }
}

/// A counter of events that is 0, and cannot be read until it is not.
fn event() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no memory.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it is open, and of no one else.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
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
