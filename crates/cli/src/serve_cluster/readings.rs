//! The readings of a node: what its server counts anyway, asked for once a second and gossiped to the other members.

use super::gate::{Asked, Counted, Strained};
use super::sites::Sites;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_adapt::Resource;
use weir_cluster::{Gossip, Reading, Strain};
use weir_policy_runtime::Monitor;
use weir_server::{Control, Counters};

/// How often it is asked for paths: each so many readings.
const PATHS_EACH: u64 = 2;
/// How often paths are gossiped: with a reading that comes so long after the last ones, at least.
const GOSSIPED_EACH: Duration = Duration::from_secs(10);
/// How much of a new rate counts beside what was known.
const NEWNESS: f64 = 0.3;
/// Rates below this one are none.
const RATE_MIN: f64 = 0.05;
/// A path that the server does not tell of any more is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Paths that are followed.
const PATHS_MAX: usize = 4_096;
const US_PER_S: f64 = 1e6;
const PERCENT: f64 = 100.0;

/// What a server counts, for its node process.
#[derive(Debug, Clone)]
pub(super) struct Counting {
    counters: Counters,
    cpus: u32,
    /// What the rules of one node read too.
    monitor: Arc<Mutex<Monitor>>,
}

impl Counting {
    /// Of a server, before it is confined.
    pub(super) fn new(counters: Counters) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX));
        let monitor = Arc::new(Mutex::new(Monitor::open(counters.clone())));
        Self { counters, cpus, monitor }
    }

    pub(super) fn now(&self) -> Counted {
        let counts = self.counters.read();
        // What it knows is whole also where another thread panicked.
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        Counted {
            requests: counts.requests,
            sent_bytes: counts.bytes_sent,
            open: self.counters.open(),
            sending: self.counters.active(),
            cpu_us: cpu_us(),
            cpus: self.cpus,
            strain: strain(&monitor.look(counts.advice_refused)),
        }
    }
}

/// The part of a monitor's readings that the server's counts do not have; none if one of them is missing.
fn strain(readings: &[(Resource, f64)]) -> Option<Strained> {
    let of = |wanted| readings.iter().find(|(resource, _)| *resource == wanted).map(|(_, value)| *value);
    Some(Strained {
        queue: of(Resource::Queue)?,
        wait_s: of(Resource::Wait)?,
        mem_bytes: of(Resource::Mem)?,
        mem_percent: of(Resource::MemShare)?,
        errors_per_s: of(Resource::Errors)?,
        error_percent: of(Resource::ErrorShare)?,
    })
}

/// CPU time of this process.
fn cpu_us() -> u64 {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure, which lives over it.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let us = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// The files that a server is asked for most, as a list of [`Asked`] in JSON; names that are no UTF-8 are left out.
pub(super) fn paths(control: &Control) -> io::Result<Vec<u8>> {
    let asked = control.asked().into_iter().filter_map(|asked| {
        Some(Asked { path: String::from_utf8(asked.path).ok()?, requests_per_s: asked.requests_per_s })
    });
    Ok(serde_json::to_vec(&asked.collect::<Vec<_>>())?)
}

/// Asks the server each so often, and gossips what it says.
pub(super) fn gossip(
    interval: Duration,
    ask: impl Fn(bool) -> anyhow::Result<(Counted, Vec<Asked>)>,
    gossip: &Gossip,
    drains: &AtomicBool,
    sites: Option<&Arc<Sites>>,
    proxied: impl Fn() -> Vec<Asked>,
) {
    let (mut before, mut popularity) = (None, Popularity::default());
    let mut told = Instant::now();
    for number in 1.. {
        let next = Instant::now() + interval;
        let with_paths = number % PATHS_EACH == 0;
        match ask(with_paths) {
            Ok((counted, asked)) => {
                let now = (Instant::now(), counted);
                if let Some(before) = before.replace(now) {
                    let is_draining = drains.load(Ordering::Relaxed);
                    gossip.set_reading(&Reading { number, is_draining, ..reading(&before, &now) });
                }
                if with_paths {
                    popularity.take(&together(asked, proxied()), now.0);
                }
            }
            // What was gossiped grows old, and is shown so.
            Err(error) => tracing::debug!(%error, "the server gives no reading"),
        }
        if with_paths && (told.elapsed() + interval > GOSSIPED_EACH || !popularity.is_told) {
            told = Instant::now();
            gossip.set_popular(&popularity.told());
        }
        if let Some(sites) = sites {
            let sites = sites.status().sites.into_iter().filter(|site| site.version > 0);
            gossip.set_sites(&weir_cluster::Sites(sites.map(|site| (site.site, site.version)).collect()));
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// What the server has answered itself, and what was passed on for it.
fn together(asked: Vec<Asked>, proxied: Vec<Asked>) -> Vec<Asked> {
    let mut rates: HashMap<String, f64> = asked.into_iter().map(|asked| (asked.path, asked.requests_per_s)).collect();
    for Asked { path, requests_per_s } in proxied {
        *rates.entry(path).or_default() += requests_per_s;
    }
    rates.into_iter().map(|(path, requests_per_s)| Asked { path, requests_per_s }).collect()
}

/// What happened between two looks, in a second.
fn reading(before: &(Instant, Counted), now: &(Instant, Counted)) -> Reading {
    let seconds = now.0.saturating_duration_since(before.0).as_secs_f64().max(1e-3);
    let (before, now) = (&before.1, &now.1);
    let per_s = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
    Reading {
        number: 0,
        requests_per_s: per_s(before.requests, now.requests),
        open: now.open,
        sending: now.sending,
        sent_bytes_per_s: per_s(before.sent_bytes, now.sent_bytes) as u64,
        cpu_share: (per_s(before.cpu_us, now.cpu_us) / US_PER_S / f64::from(now.cpus.max(1))).min(1.0),
        is_draining: false,
        strain: now.strain.as_ref().map(|strain| Strain {
            queue: strain.queue,
            wait_s: strain.wait_s,
            mem_bytes: strain.mem_bytes as u64,
            mem_share: strain.mem_percent / PERCENT,
            errors_per_s: strain.errors_per_s,
            error_share: strain.error_percent / PERCENT,
        }),
    }
}

/// How often paths are asked for, evened out over some seconds.
#[derive(Debug, Default)]
struct Popularity {
    rates: HashMap<String, (f64, Instant)>,
    /// Whether any was gossiped.
    is_told: bool,
}

impl Popularity {
    fn take(&mut self, asked: &[Asked], now: Instant) {
        for Asked { path, requests_per_s } in asked {
            let has_room = self.rates.len() < PATHS_MAX;
            match self.rates.get_mut(path) {
                Some((rate, at)) => (*rate, *at) = (*rate + (requests_per_s - *rate) * NEWNESS, now),
                None if has_room && *requests_per_s >= RATE_MIN => {
                    self.rates.insert(path.clone(), (*requests_per_s, now));
                }
                None => {}
            }
        }
        self.rates.retain(|_, (rate, at)| *rate >= RATE_MIN && now.saturating_duration_since(*at) < FORGOTTEN);
    }

    fn told(&mut self) -> Vec<weir_cluster::Asked> {
        self.is_told |= !self.rates.is_empty();
        let asked = |(path, (rate, _)): (&String, &(f64, Instant))| weir_cluster::Asked {
            path: path.clone(),
            requests_per_s: *rate,
        };
        self.rates.iter().map(asked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_what_happened_in_a_second() {
        let begun = Instant::now();
        let strained = Strained { queue: 3.0, mem_percent: 40.0, error_percent: 2.0, ..Strained::default() };
        let before = Counted { requests: 100, sent_bytes: 1_000, cpu_us: 500_000, cpus: 2, ..Counted::default() };
        let strain = Some(strained);
        let now = Counted { requests: 300, sent_bytes: 5_000, open: 4, sending: 2, cpu_us: 1_500_000, cpus: 2, strain };
        let reading = reading(&(begun, before), &(begun + Duration::from_secs(2), now));
        assert_eq!((reading.requests_per_s, reading.open, reading.sending), (100.0, 4, 2));
        assert_eq!((reading.sent_bytes_per_s, reading.cpu_share), (2_000, 0.25));
        let strain = reading.strain.expect("the server has told it");
        assert_eq!((strain.queue, strain.mem_share, strain.error_share), (3.0, 0.4, 0.02));
    }

    #[test]
    fn paths_come_and_go() {
        let (mut popularity, begun) = (Popularity::default(), Instant::now());
        let asked = |path: &str, requests_per_s| Asked { path: path.to_owned(), requests_per_s };
        popularity.take(&[asked("/a", 10.0), asked("/b", 0.01)], begun);
        assert_eq!(popularity.told(), [weir_cluster::Asked { path: "/a".to_owned(), requests_per_s: 10.0 }]);
        popularity.take(&[asked("/a", 20.0)], begun);
        assert_eq!(popularity.told()[0].requests_per_s, 13.0);
        for _ in 0..20 {
            popularity.take(&[asked("/a", 0.0)], begun);
        }
        assert_eq!(popularity.told(), []);
        popularity.take(&[asked("/c", 5.0)], begun);
        popularity.take(&[], begun + FORGOTTEN);
        assert_eq!(popularity.told(), []);
    }
}
