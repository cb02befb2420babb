//! What a node process counts and writes down about published content: what came, what was passed on, what was given up.

use super::gate::Asked;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::{EventEntry, EventLog, What};
use weir_exposition::{Families, Kind};

/// Paths that are followed; beyond it they are counted together.
const PATHS_MAX: usize = 4_096;
/// How often it is written down that the same path was passed on, or that the same is not to be had.
const EVENT_EACH: Duration = Duration::from_secs(60);

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct ContentsSeen {
    fetched: AtomicU64,
    fetched_bytes: AtomicU64,
    proxied: AtomicU64,
    proxied_bytes: AtomicU64,
    evicted: AtomicU64,
    evicted_bytes: AtomicU64,
    away: AtomicU64,
    untold_paths: AtomicU64,
    paths: Mutex<Paths>,
}

#[derive(Debug, Default)]
struct Paths {
    /// How often each was passed on since that was asked last.
    counts: HashMap<String, u64>,
    asked: Option<Instant>,
    /// What was written down, and when.
    written: HashMap<String, Instant>,
}

impl ContentsSeen {
    /// Contents have come, to stay.
    pub(super) fn fetched(&self, count: u64, bytes: u64, log: &EventLog) {
        if count > 0 {
            self.fetched.fetch_add(count, Ordering::Relaxed);
            self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
            log.note(EventEntry::now(What::Fetched).because(&format!("{count} contents of {bytes} bytes")));
        }
    }

    /// Contents were given up.
    pub(super) fn evicted(&self, count: u64, bytes: u64, log: &EventLog) {
        if count > 0 {
            self.evicted.fetch_add(count, Ordering::Relaxed);
            self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
            log.note(EventEntry::now(What::Evicted).because(&format!("{count} contents of {bytes} bytes")));
        }
    }

    /// A response is made of what another node has.
    pub(super) fn proxied(&self, path: &str, from: Option<&str>, log: &EventLog) {
        self.proxied.fetch_add(1, Ordering::Relaxed);
        let mut paths = self.lock();
        let has_room = paths.counts.len() < PATHS_MAX;
        match paths.counts.get_mut(path) {
            Some(count) => *count += 1,
            None if has_room => drop(paths.counts.insert(path.to_owned(), 1)),
            None => drop(self.untold_paths.fetch_add(1, Ordering::Relaxed)),
        }
        if paths.is_news(path) {
            let entry = EventEntry::now(What::Proxied).because(path);
            log.note(if let Some(from) = from { entry.of(from) } else { entry });
        }
    }

    /// So many bytes of such a response.
    pub(super) fn proxied_bytes(&self, bytes: u64) {
        self.proxied_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// No node sends some content.
    pub(super) fn away(&self, why: &str, log: &EventLog) {
        self.away.fetch_add(1, Ordering::Relaxed);
        if self.lock().is_news(why) {
            log.note(EventEntry::now(What::Away).because(why));
        }
    }

    /// How often paths were passed on in a second since this was asked last; each that was told before is told once more
    /// when it was not passed on any more.
    pub(super) fn rates(&self) -> Vec<Asked> {
        let (now, mut paths) = (Instant::now(), self.lock());
        let seconds = paths.asked.replace(now).map_or(1.0, |at| now.saturating_duration_since(at).as_secs_f64());
        let rate = |(path, count): (&String, &u64)| Asked {
            path: path.clone(),
            requests_per_s: *count as f64 / seconds.max(1e-3),
        };
        let told = paths.counts.iter().map(rate).collect();
        paths.counts.retain(|_, count| std::mem::take(count) > 0);
        told
    }

    /// All families.
    pub(super) fn tell(&self, out: &mut Families) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = |fetched, proxied, evicted| {
            [("fetched", read(fetched)), ("proxied", read(proxied)), ("evicted", read(evicted))]
        };
        let help = "Published contents that came to stay, were passed on from other nodes, and were given up.";
        let all = counts(&self.fetched, &self.proxied, &self.evicted);
        out.by("weir_cluster_contents_total", Kind::Counter, help, "result", &all);
        let help = "Their bytes.";
        let all = counts(&self.fetched_bytes, &self.proxied_bytes, &self.evicted_bytes);
        out.by("weir_cluster_content_bytes_total", Kind::Counter, help, "result", &all);
        let help = "Times that no node has sent content.";
        out.one("weir_cluster_contents_away_total", Kind::Counter, help, read(&self.away));
        let help = "Responses passed on whose path was not followed, as there were too many.";
        out.one("weir_cluster_content_paths_dropped_total", Kind::Counter, help, read(&self.untold_paths));
    }

    /// What the lock guards is whole after each statement.
    fn lock(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Paths {
    /// Whether something was not written down lately; it is from now on.
    fn is_news(&mut self, what: &str) -> bool {
        let now = Instant::now();
        if self.written.get(what).is_some_and(|at| now.saturating_duration_since(*at) < EVENT_EACH) {
            return false;
        }
        if self.written.len() >= PATHS_MAX {
            self.written.clear();
        }
        self.written.insert(what.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_with_their_rate_and_once_more_when_they_end() {
        let seen = ContentsSeen::default();
        seen.lock().counts.extend([("/a".to_owned(), 6), ("/b".to_owned(), 0)]);
        let told = seen.rates();
        assert_eq!(told.iter().find(|asked| asked.path == "/a").map(|asked| asked.requests_per_s), Some(6.0));
        assert_eq!(seen.rates(), [Asked { path: "/a".to_owned(), requests_per_s: 0.0 }]);
        assert!(seen.rates().is_empty());
        let mut paths = Paths::default();
        assert!(paths.is_news("a") && !paths.is_news("a") && paths.is_news("b"));
    }
}
