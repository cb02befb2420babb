//! Sessions that outlive their server where only that dies: the keeper has a second descriptor of each that was replicated,
//! and ends it without a word to its client when the server's process ends; then the director is told of it.
//!
//! The keeper knows by itself when the server ends, also where this process ends with it. What it has orphaned the next
//! node process tells the director, if this one could not.

use super::gate;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_cluster::{Directing, RemoteDirector};
use weir_keeper::{Flow, KeeperClient};

/// How often the keeper is asked for orphans: of a server that has ended before, and whether it was started anew.
const PAUSE: Duration = Duration::from_millis(250);
/// The same while there are some.
const PAUSE_WITH_ORPHANS: Duration = Duration::from_millis(10);
/// New replicas displace those of an earlier server at the node that keeps them: they wait so long for its orphans.
const ORPHANS_FIRST_MAX: Duration = Duration::from_secs(1);
/// How long this process outlives its server for the sake of orphans.
const END_MAX: Duration = Duration::from_millis(300);
const END_PAUSE: Duration = Duration::from_millis(2);

/// A number of a server that no other one of this machine has: when it was started, microseconds since 1970.
pub(super) fn number() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(1)
}

/// What the keeper guards of this server.
pub(super) struct Guarding {
    keeper: Arc<KeeperClient>,
    director: Arc<RemoteDirector>,
    server: u64,
    /// Its process; without one nothing is guarded.
    process: Option<OwnedFd>,
    begun: Instant,
    orphans: Mutex<Orphaned>,
    /// The keeper does not know what it is to guard: all sockets are to be asked for again.
    is_lost: AtomicBool,
    /// Sockets that the keeper did not take.
    not_guarded: AtomicU64,
}

/// What is known of connections that have lost their server.
#[derive(Debug, Default)]
struct Orphaned {
    /// Those that the keeper holds.
    flows: BTreeSet<Flow>,
    /// In which epoch the director knows of these.
    told: Option<(u64, BTreeSet<Flow>)>,
    /// Whether the keeper was asked.
    is_asked: bool,
}

impl Guarding {
    pub(super) fn new(
        keeper: Arc<KeeperClient>,
        director: Arc<RemoteDirector>,
        (server, process): (u64, Option<OwnedFd>),
    ) -> Self {
        Self {
            keeper,
            director,
            server,
            process,
            begun: Instant::now(),
            orphans: Mutex::default(),
            // Of what an earlier node process has given away nothing is known.
            is_lost: AtomicBool::new(true),
            not_guarded: AtomicU64::new(0),
        }
    }

    /// Sockets that the keeper has now, of all servers of the node; 0 where it does not say it.
    pub(super) fn guarded(&self) -> u64 {
        self.keeper.counts().map_or(0, |counts| counts.guarded)
    }

    /// Sockets that the keeper did not take since the start.
    pub(super) fn not_guarded(&self) -> u64 {
        self.not_guarded.load(Ordering::Relaxed)
    }

    /// Whether replicas may be given: not while orphans of an earlier server wait to be taken over.
    pub(super) fn is_settled(&self) -> bool {
        let orphans = self.orphans();
        (orphans.is_asked && orphans.flows.is_empty()) || self.begun.elapsed() >= ORPHANS_FIRST_MAX
    }

    /// Whether there is something to be asked for that the server does not tell of.
    pub(super) fn has_to_ask(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || !self.is_settled()
    }

    /// Whether all sockets are to be asked for, as the keeper has none; it counts as done then.
    pub(super) fn take_lost(&self) -> bool {
        self.is_lost.swap(false, Ordering::Relaxed)
    }

    /// All sockets are to be asked for once more: they did not come.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Has the keeper guard a session's socket.
    pub(super) fn keep(&self, socket: Option<&OwnedFd>) {
        let kept = match (socket, &self.process) {
            (Some(socket), Some(_)) => self.keeper.keep(socket.as_fd(), self.server),
            _ => {
                self.not_guarded.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if let Err(error) = kept {
            tracing::debug!(%error, "a session ends with its server");
            self.not_guarded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has the keeper let go of sessions whose response is over.
    pub(super) fn let_go(&self, ended: &[Flow]) {
        if !ended.is_empty()
            && self.process.is_some()
            && let Err(error) = self.keeper.let_go(ended)
        {
            // A keeper that was started anew has none of them.
            tracing::debug!(%error, "sessions whose response is over are guarded still");
        }
    }

    /// Another node goes on with a flow: it may be one that had lost its server.
    pub(super) fn adopted(&self, flow: &Flow) {
        if self.orphans().flows.remove(flow)
            && let Err(error) = self.keeper.adopted(flow)
        {
            tracing::debug!(%flow, %error, "the keeper holds a flow that goes on elsewhere");
        }
    }

    /// Follows what the keeper says, as long as the process runs.
    pub(super) fn follow(&self) {
        loop {
            self.look();
            let has_orphans = !self.orphans().flows.is_empty();
            std::thread::sleep(if has_orphans { PAUSE_WITH_ORPHANS } else { PAUSE });
        }
    }

    fn look(&self) {
        let found = match self.keeper.orphans() {
            Ok(found) => found,
            Err(error) => return tracing::debug!(%error, "the keeper does not say what it guards"),
        };
        if !found.servers.contains(&self.server) {
            self.begin();
        }
        self.note(found.flows);
    }

    /// Names the server to a keeper that does not know it.
    fn begin(&self) {
        let Some(process) = &self.process else { return };
        match self.keeper.guard(process.as_fd(), self.server) {
            Ok(()) => self.lose(),
            // One of an earlier version, or with too many servers.
            Err(error) => tracing::warn!(%error, "sessions end with their server"),
        }
    }

    /// Tells the director of orphans, if it does not know of them.
    fn note(&self, flows: Vec<Flow>) {
        let (epoch, flows) = (self.director.epoch(), BTreeSet::from_iter(flows));
        let is_told = {
            let mut orphans = self.orphans();
            (orphans.flows, orphans.is_asked) = (flows.clone(), true);
            // A director that has just begun knows of none.
            let known = orphans.told.as_ref().filter(|(of, _)| *of == epoch);
            known.map_or(flows.is_empty() && orphans.told.is_none(), |(_, told)| *told == flows)
        };
        if is_told || epoch == 0 {
            return;
        }
        let all: Vec<Flow> = flows.iter().copied().collect();
        match self.director.orphaned(&all) {
            Ok(()) => self.orphans().told = Some((epoch, flows)),
            Err(error) => tracing::debug!(%error, "the director does not know of orphans"),
        }
    }

    /// The server has ended: waits until the keeper knows it, and tells the director, within a bound.
    pub(super) fn end(&self) {
        let until = Instant::now() + END_MAX;
        let Some(process) = &self.process else { return };
        wait_for_end(process, END_MAX);
        while Instant::now() < until {
            match self.keeper.orphans() {
                Ok(found) if !found.servers.contains(&self.server) => return self.note(found.flows),
                Ok(_) => std::thread::sleep(END_PAUSE),
                Err(_) => return,
            }
        }
    }

    /// Each change is whole before the lock is given back.
    fn orphans(&self) -> MutexGuard<'_, Orphaned> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptor of the server's process among those of the first frame: behind those for content and for signals.
pub(super) fn process_of(fds: &mut Vec<OwnedFd>, part: gate::Part) -> Option<OwnedFd> {
    let at = if part == gate::Part::Node { 2 } else { 0 };
    (fds.len() > at).then(|| fds.remove(at))
}

/// Waits for the end of a process, for so long at most.
fn wait_for_end(process: &OwnedFd, time: Duration) {
    let mut polled = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the structure lives over the call, which fills it.
    unsafe { libc::poll(&raw mut polled, 1, ms) };
}
