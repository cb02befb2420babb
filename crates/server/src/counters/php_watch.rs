//! What the server knows of its own PHP: requests under way, pools, and workers that are stuck.

use crate::io::clock;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stuck workers that are known at once; the oldest is forgotten beyond that.
const STUCK_MAX: usize = 64;
/// Requests under way that are known; more have no number in messages.
const RUNNING_MAX: usize = 16_384;
/// Letters of a path that a message names.
const PATH_LETTERS_MAX: usize = 200;
/// How much later than the server php-fpm may see the beginning of a request, in milliseconds.
const TOLERANCE_MS: u64 = 1_500;

/// What the server knows of its own PHP. Copies share what they know.
#[derive(Debug, Clone, Default)]
pub struct PhpWatch(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    next: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    running: HashMap<u64, Running>,
    pools: Vec<PhpPoolStatus>,
    stuck: Vec<Stuck>,
}

/// A request that a script answers.
#[derive(Debug)]
struct Running {
    method: Box<str>,
    /// What the client has asked for, and what was put in its place.
    target: Box<str>,
    asked: Box<str>,
    since_ms: u64,
}

#[derive(Debug)]
struct Stuck {
    request: Option<u64>,
    told: StuckWorker,
    until_ms: u64,
}

/// A pool of PHP, as the process says that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PhpPoolStatus {
    /// Its name.
    pub name: String,
    /// Processes that answer requests.
    pub workers: u32,
    /// The main process of php-fpm; 0 while there is none.
    pub pid: u32,
    /// How often it was started again after it had died.
    pub restarts: u64,
}

impl Running {
    /// Whether php-fpm means it, which says method, path of the script and query.
    fn is(&self, line: &str) -> bool {
        let Some((method, uri)) = line.split_once(' ') else { return false };
        let split = |text: &'_ str| -> (String, String) {
            let (path, query) = text.split_once('?').unwrap_or((text, ""));
            (path.to_owned(), query.to_owned())
        };
        let ((script, query), (path, asked_query)) = (split(uri), split(&self.asked));
        // php-fpm has the path decoded.
        *method == *self.method && query == asked_query && (path.contains('%') || path.starts_with(&script))
    }
}

impl PhpPoolStatus {
    /// A pool as it is now.
    pub fn new(name: String, workers: u32, pid: u32, restarts: u64) -> Self {
        Self { name, workers, pid, restarts }
    }
}

/// A worker that has run one request for longer than `slow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StuckWorker {
    /// The pool of the worker.
    pub pool: String,
    /// Its process.
    pub pid: u32,
    /// The file that it runs.
    pub script: String,
    /// Method and target of the request.
    pub request: String,
    /// The number of the request (REQUEST_ID), where it is known.
    pub request_id: Option<String>,
    /// Functions, the innermost first, each with its file and line; empty where there is no stack.
    pub stack: Vec<String>,
    /// Why there is no stack.
    pub no_stack: Option<String>,
}

impl StuckWorker {
    /// A worker, as php-fpm tells of it.
    pub fn new(pool: String, pid: u32, script: String, request: String) -> Self {
        Self { pool, pid, script, request, request_id: None, stack: Vec::new(), no_stack: None }
    }
}

/// Pools and stuck workers, for the status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PhpReading {
    pub(crate) pools: Vec<PhpPoolStatus>,
    pub(crate) running: usize,
    pub(crate) stuck: Vec<StuckWorker>,
}

/// A request that a script answers; it is over once this is dropped.
#[derive(Debug)]
pub(crate) struct Underway {
    watch: PhpWatch,
    id: u64,
}

impl Underway {
    /// The number of the request.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Method and path of the request, without its query, which may hold what no log should.
    pub(crate) fn request(&self) -> Option<String> {
        let state = self.watch.locked();
        let Running { method, asked, .. } = state.running.get(&self.id)?;
        let path = asked.split('?').next().unwrap_or_default();
        Some(format!("{method} {}", path.chars().take(PATH_LETTERS_MAX).collect::<String>()))
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.watch.locked().running.remove(&self.id);
    }
}

/// The number of a request as scripts and messages have it.
pub(crate) fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

impl PhpWatch {
    /// One for scripts of other kinds, whose requests have other numbers than those of PHP.
    pub fn of_scripts() -> Self {
        let watch = Self::default();
        watch.0.next.store(1 << 31, Ordering::Relaxed);
        watch
    }

    /// A request begins.
    pub(crate) fn begin(&self, method: &str, target: &str, asked: &str) -> Underway {
        let count = self.0.next.fetch_add(1, Ordering::Relaxed);
        // Unlike those of another process, and of this one after so many requests.
        let id = u64::from(std::process::id()) << 32 | u64::from(count);
        let mut state = self.locked();
        if state.running.len() < RUNNING_MAX {
            let (method, target, asked) = (method.into(), target.into(), asked.into());
            state.running.insert(id, Running { method, target, asked, since_ms: clock::now_ms() });
        }
        drop(state);
        Underway { watch: self.clone(), id }
    }

    /// Takes note of the pools.
    pub fn set_pools(&self, pools: Vec<PhpPoolStatus>) {
        self.locked().pools = pools;
    }

    /// Takes note of a stuck worker, whose request has run for so many milliseconds; with the number of that request if
    /// one fits. Told again, it counts once.
    pub fn stuck(&self, mut worker: StuckWorker, for_ms: u64, timeout_ms: u64) -> StuckWorker {
        let now_ms = clock::now_ms();
        let mut state = self.locked();
        let begun_ms = now_ms.saturating_sub(for_ms);
        let fits = |running: &Running| running.is(&worker.request) && running.since_ms <= begun_ms + TOLERANCE_MS;
        let is_told =
            |id: u64| state.stuck.iter().any(|stuck| stuck.request == Some(id) && stuck.told.pid != worker.pid);
        let found = state.running.iter().filter(|(id, running)| fits(running) && !is_told(**id));
        // The one that has begun at the time that php-fpm says.
        let found = found.min_by_key(|(id, running)| (running.since_ms.abs_diff(begun_ms), **id)).map(|(id, _)| *id);
        worker.request_id = found.map(id_text);
        if let Some(running) = found.and_then(|id| state.running.get(&id)) {
            worker.request = format!("{} {}", running.method, running.target);
        }
        state.stuck.retain(|stuck| stuck.told.pid != worker.pid);
        if state.stuck.len() >= STUCK_MAX {
            state.stuck.remove(0);
        }
        let until_ms = if timeout_ms == 0 { u64::MAX } else { begun_ms.saturating_add(timeout_ms) };
        state.stuck.push(Stuck { request: found, told: worker.clone(), until_ms });
        worker
    }

    /// Pools, and workers that are still stuck.
    pub(crate) fn read(&self) -> PhpReading {
        let now_ms = clock::now_ms();
        let mut state = self.locked();
        let State { running, stuck, .. } = &mut *state;
        stuck.retain(|stuck| match stuck.request {
            Some(id) => running.contains_key(&id),
            None => now_ms < stuck.until_ms,
        });
        PhpReading {
            pools: state.pools.clone(),
            running: state.running.len(),
            stuck: state.stuck.iter().map(|stuck| stuck.told.clone()).collect(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held left whole entries.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pid: u32) -> StuckWorker {
        StuckWorker::new("php".to_owned(), pid, "/srv/a.php".to_owned(), "GET /a.php?x".to_owned())
    }

    #[test]
    fn a_stuck_worker_is_known_by_its_request_until_that_is_over() {
        let watch = PhpWatch::default();
        let (other, slow) = (watch.begin("GET", "/b", "/b.php"), watch.begin("GET", "/a?x", "/a.php/info?x"));
        let told = watch.stuck(worker(7), 0, 0);
        assert_eq!(told.request_id, Some(id_text(slow.id())));
        let again = watch.stuck(worker(7), 0, 0);
        assert_eq!((again.request_id, watch.read().stuck.len()), (told.request_id, 1));
        // Each request has one worker.
        assert_eq!(watch.stuck(worker(8), 0, 1_000_000).request_id, None);
        assert_eq!((watch.read().stuck.len(), watch.read().running), (2, 2));
        drop(slow);
        assert_eq!(other.request().as_deref(), Some("GET /b.php"));
        assert_eq!(watch.read().stuck.iter().map(|stuck| stuck.pid).collect::<Vec<_>>(), [8]);
        drop(other);
        assert_eq!(watch.read().running, 0);
    }

    #[test]
    fn stuck_workers_have_a_bound() {
        let watch = PhpWatch::default();
        (0..200).for_each(|pid| drop(watch.stuck(worker(pid), 0, 1_000_000)));
        assert_eq!(watch.read().stuck.len(), STUCK_MAX);
    }
}
