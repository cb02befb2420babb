//! What the thread that runs a server does while its loops serve.

use crate::certificates::Certificates;
use crate::config::options::Options;
use crate::counters::Counters;
use crate::error::{RunError, TlsError};
use crate::event_loop::start::Start;
use crate::event_loop::stopping::Stopping;
use crate::io::epoll::Waker;
use crate::io::open::Open;
use crate::process::reload::Reloader;
use crate::process::succession::{Succession, Under};
use crate::telemetry::access_log::settings::AccessLog;
use crate::telemetry::admin::AdminThread;
use crate::telemetry::admin::reloads::Reloading;
use crate::telemetry::admin::response_cache::Purge;
use crate::telemetry::notices::Notices;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the caller's stop flag is looked at.
const STOP_POLL: Duration = Duration::from_millis(50);

/// The same for the ends of loops, at first.
const END_POLL: Duration = Duration::from_millis(5);
/// So often.
const END_POLLS_FIRST: u32 = 200;

/// Looks at the caller's stop flag from one look at the files of certificates to the next: a second.
const CERTIFICATE_POLLS: u32 = 20;

/// The same for the paths of the roots.
const ROOT_POLLS: u32 = 20;

/// The same for what loops have to tell.
const NOTICE_POLLS: u32 = 20;

/// What the thread that runs a server looks after while the loops serve: another configuration, roots that have moved,
/// certificates that were changed.
pub(super) struct Supervision<'s> {
    pub(super) options: &'s Options,
    pub(super) counters: &'s Counters,
    /// This server among those that follow each other.
    pub(super) succession: &'s Succession,
    /// Set once another server has followed this one.
    pub(super) is_followed: &'s AtomicBool,
    pub(super) admin: Option<AdminThread>,
    pub(super) reloader: &'s Reloader,
    pub(super) certificates: Option<Certificates>,
    /// The log that another configuration wants.
    pub(super) log_wanted: Option<Arc<Mutex<AccessLog>>>,
    /// Set by the caller where the log's file was renamed.
    pub(super) reopen: &'s AtomicBool,
    /// Has the log's file opened again.
    pub(super) opens_log: &'s AtomicBool,
    /// How often a successor has wanted that.
    pub(super) log_openings: u64,
    pub(super) wakers: Vec<Arc<Waker>>,
    /// What the loops have to tell.
    pub(super) notices: Arc<Notices>,
    pub(super) polls: u32,
    /// Of the configuration that was taken up last.
    pub(super) generation: u64,
}

impl Supervision<'_> {
    /// Looks at all of it that is due.
    fn poll(&mut self) {
        if let Some(newer) = self.reloader.0.newer(&mut self.generation) {
            if let (Some(wanted), Some(log)) = (&self.log_wanted, &newer.access_log) {
                wanted.lock().unwrap_or_else(PoisonError::into_inner).clone_from(log);
                self.opens_log.store(true, Ordering::Relaxed);
            }
            let replaced = self.certificates.as_mut().and_then(|used| used.replace(&newer.certificates));
            tell_of_certificates(replaced, self.reloader, newer.notice);
            self.succession.promise(&newer.timeouts);
            if let Some(certificates) = &self.certificates {
                certificates.keys().ask(newer.hosts.as_ref().and_then(|hosts| hosts.0.asked_hosts()));
            }
            self.wake_loops();
        }
        if self.reopen.swap(false, Ordering::Relaxed) {
            self.opens_log.store(true, Ordering::Relaxed);
            self.succession.open_logs_again();
        }
        self.polls = self.polls.wrapping_add(1);
        let notice = self.options.notice;
        if self.polls.is_multiple_of(NOTICE_POLLS) {
            self.notices.take().iter().for_each(|line| notice(line));
        }
        if self.polls.is_multiple_of(ROOT_POLLS) {
            self.reloader.0.follow_roots(false).iter().for_each(|told| notice(told));
        }
        if let Some(certificates) = self.certificates.as_mut().filter(|_| self.polls.is_multiple_of(CERTIFICATE_POLLS))
        {
            tell_of_certificates(certificates.reload(), self.reloader, notice);
            for file in certificates.outdated() {
                let remedy = "put a newer one in its place";
                notice(&format!("{} is out of date and not sent any more; {remedy}", file.display()));
            }
        }
    }

    /// Has the loops end what is under way; with a successor they keep their tunnels. Without one the servers before this
    /// one end as well; how long they may take.
    fn begin_end(&mut self, stopping: &Stopping) -> Option<Duration> {
        let is_followed = self.succession.is_followed();
        stopping.begin(is_followed);
        self.wake_loops();
        if is_followed {
            self.is_followed.store(true, Ordering::Relaxed);
            // Its socket is the successor's as well, who tells of both servers.
            self.end_admin();
            return None;
        }
        let (former, time) = self.succession.end_former();
        if former > 0 {
            let servers = if former == 1 { "former server is" } else { "former servers are" };
            (self.options.notice)(&format!(
                "{former} {servers} asked to end, and waited for {} s at most",
                time.as_secs()
            ));
        }
        (former > 0).then_some(time)
    }

    /// Looks after what is due while the loops end.
    fn poll_end(&mut self, stopping: &Stopping) {
        if stopping.keeps_tunnels() && self.succession.must_end() {
            stopping.end_tunnels();
            self.wake_loops();
        }
        self.poll_succession();
        let openings = self.succession.log_openings();
        if std::mem::replace(&mut self.log_openings, openings) != openings {
            self.opens_log.store(true, Ordering::Relaxed);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(NOTICE_POLLS) {
            self.notices.take().iter().for_each(|line| (self.options.notice)(line));
        }
    }

    /// Tells the successor what is under way, and does what it wants of caches.
    fn poll_succession(&mut self) {
        let census = self.counters.census();
        let connections = census.states.iter().sum();
        self.succession.note(Under { connections, tunnels: census.tunnels, responses: census.responses });
        while let Some(words) = self.succession.next_purge() {
            let responses = match words.as_deref().map(Purge::read) {
                Some(Some(what)) => self.reloader.0.purge(&what),
                Some(None) => 0,
                None => self.reloader.0.purge_all(),
            };
            self.succession.purged(responses);
        }
    }

    fn end_admin(&mut self) {
        self.admin.take().into_iter().for_each(AdminThread::end);
    }

    fn wake_loops(&self) {
        self.wakers.iter().for_each(|waker| waker.wake());
    }
}

/// What all loops of a server run with.
pub(super) struct RunningLoops<'s> {
    pub(super) options: &'s Options,
    pub(super) counters: &'s Counters,
    pub(super) open: &'s Arc<Open>,
    pub(super) files_max: usize,
}

impl RunningLoops<'_> {
    /// Runs each loop in its thread until `stop` is set or a loop ends early.
    pub(super) fn run(
        &self,
        starts: Vec<Start>,
        mut supervision: Supervision<'_>,
        stop: &AtomicBool,
        mut beside: impl FnMut(),
    ) -> Result<(), RunError> {
        let stopping = Stopping::default();
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            let mut outcome = Ok(());
            for start in starts {
                let (options, counters, open, files_max) = (self.options, self.counters, self.open, self.files_max);
                let (name, stopping) = (format!("weir-loop-{}", start.hosts.index), &stopping);
                let body = move || start.run(options, counters, open, stopping, files_max);
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(thread) => running.push(thread),
                    Err(source) => outcome = Err(RunError::Thread { source }),
                }
            }
            // A loop that ends early has failed, and half a server is worse than a clear end.
            let is_running = || running.iter().all(|thread| !thread.is_finished());
            while outcome.is_ok() && !stop.load(Ordering::Relaxed) && is_running() {
                std::thread::park_timeout(STOP_POLL);
                beside();
                supervision.poll();
            }
            let former = supervision.begin_end(&stopping);
            if stopping.keeps_tunnels() {
                beside();
            }
            let mut polls = END_POLLS_FIRST;
            while running.iter().any(|thread| !thread.is_finished()) {
                std::thread::park_timeout(if polls > 0 { END_POLL } else { STOP_POLL });
                polls = polls.saturating_sub(1);
                supervision.poll_end(&stopping);
            }
            supervision.end_admin();
            for thread in running {
                let ended = thread.join().map_err(|_| RunError::Panicked);
                let ended = ended.and_then(|ended| ended.map_err(|source| RunError::Wait { source }));
                outcome = outcome.and(ended);
            }
            if former.is_some_and(|time| supervision.succession.wait_for_former(time) > 0) {
                (self.options.notice)("not all former servers have ended; they go on, and keep nothing up");
            }
            outcome
        })
    }
}

fn tell_of_certificates(changed: Option<Result<(), TlsError>>, reloader: &Reloader, notice: fn(&str)) {
    if let Some(outcome) = &changed {
        reloader.0.note_certificates(outcome);
    }
    match changed {
        Some(Ok(())) => notice("certificates were changed and are in use"),
        Some(Err(error)) => notice(&format!("changed certificates are not used: {error}")),
        None => {}
    }
}
