//! A bound on the requests under way at a server, found by measuring: as many as raise its throughput, and no more.
//!
//! A server works on some requests at once; what is sent beyond that waits within it, where it cannot be sent to
//! another server, or refused. By Little's law requests under way = throughput * time. While a server has room, more
//! under way is more throughput at the same time; once it has none, more under way is the same throughput at a longer
//! time. So the limit is moved up and down between two values a quarter apart, and the throughput of both is compared:
//! if it grew by more than half of the quarter, the limit rises, else it falls.
//!
//! TCP Vegas (Brakmo, Peterson: TCP Vegas, 1995) and the limits of Netflix's concurrency-limits and Envoy's gradient
//! compare the time with the shortest one, which they find by holding load back now and then; here no such probe is
//! needed, and a service whose time changes by itself does not mislead. The response to a change of its own input, as
//! here, is that of extremum seeking.
//!
//! Only windows count in which the limit holds requests back; with less load it stays. All loops share one limit: a
//! loop that raised its own would gain throughput from the others, and all would rise without end. The same holds for
//! other clients of the server, which is why the configuration's bound stays above it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The lowest limit. Below it nothing could be compared.
pub(crate) const LIMIT_MIN: u32 = 2;
/// The limit at first.
const LIMIT_FIRST: u32 = 16;
/// The upper value is a part of so many above the lower one.
const STEP_PARTS: u32 = 4;
/// Completions of a window: the throughput of so many is known well enough to tell a quarter more from as much. Those
/// of a Poisson process vary by their square root, here 5 %.
const WINDOW_COMPLETIONS: u64 = 400;
/// A window with less time than this says nothing.
const WINDOW_MIN_US: u64 = 20_000;
/// Completions of a window, in percent, that found the limit reached.
const REACHED_PERCENT: u64 = 80;
/// Or requests of it that found no place.
const REFUSED_PERCENT: u64 = 20;

/// A limit that all loops share. Times are microseconds of a clock that only goes forward.
#[derive(Debug)]
pub(crate) struct MeasuredLimit {
    limit: AtomicU32,
    under_way: AtomicU32,
    completed: AtomicU64,
    /// Of them, those that found the limit reached.
    reached: AtomicU64,
    /// Requests that found no place.
    refused: AtomicU64,
    /// Completions at which a window is judged.
    judged_at: AtomicU64,
    search: Mutex<Search>,
}

/// How the search stands.
#[derive(Debug)]
struct Search {
    /// The lower of both values.
    low: u32,
    max: u32,
    phase: Phase,
    began_us: u64,
    began_completed: u64,
    began_reached: u64,
    began_refused: u64,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing until the requests that were under way at the change have ended.
    Settling(Value),
    /// The throughput of the lower value, or that of the upper one.
    Measuring(Value),
}

/// One of both values.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Low,
    /// With the throughput of the lower one, in requests per second.
    High(f64),
}

impl MeasuredLimit {
    /// Up to `max` requests.
    pub(crate) fn new(max: u32) -> Self {
        let max = max.max(LIMIT_MIN);
        let low = LIMIT_FIRST.min(max);
        let search = Search {
            low,
            max,
            phase: Phase::Settling(Value::Low),
            began_us: 0,
            began_completed: 0,
            began_reached: 0,
            began_refused: 0,
        };
        Self {
            limit: AtomicU32::new(low),
            under_way: AtomicU32::new(0),
            completed: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            judged_at: AtomicU64::new(0),
            search: Mutex::new(search),
        }
    }

    /// Requests that may be under way now.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Takes a place for a request; false if there is none. One that waits asks again with [`Self::begin_waiting`].
    #[cfg(test)]
    pub(crate) fn begin(&self) -> bool {
        let has_begun = self.begin_waiting();
        if !has_begun {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        has_begun
    }

    /// Takes a place for a request that found none before.
    pub(crate) fn begin_waiting(&self) -> bool {
        let limit = self.limit();
        let next = |under_way| if under_way < limit { Some(under_way + 1) } else { None };
        self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Gives the place of a request back that failed or was cancelled: it says nothing of throughput.
    pub(crate) fn cancel(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives the place of a request back whose response is whole.
    pub(crate) fn complete(&self, now_us: u64) {
        let under_way = self.under_way.fetch_sub(1, Ordering::Relaxed);
        if under_way >= self.limit() {
            self.reached.fetch_add(1, Ordering::Relaxed);
        }
        let completed = self.completed.fetch_add(1, Ordering::Relaxed) + 1;
        if completed < self.judged_at.load(Ordering::Relaxed) {
            return;
        }
        // Once for a window; a loop that finds another one judging leaves it to that.
        if let Ok(mut search) = self.search.try_lock()
            && completed >= self.judged_at.load(Ordering::Relaxed)
        {
            let held = (self.reached.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
            let (limit, further) = search.judge(now_us, completed, held);
            self.limit.store(limit, Ordering::Relaxed);
            self.judged_at.store(completed + further, Ordering::Relaxed);
        }
    }
}

impl Search {
    /// Ends a phase; the limit of the next one and how many completions it takes.
    fn judge(&mut self, now_us: u64, completed: u64, (reached, refused): (u64, u64)) -> (u32, u64) {
        match self.phase {
            Phase::Settling(value) => {
                self.phase = Phase::Measuring(value);
                (self.began_us, self.began_completed) = (now_us, completed);
                (self.began_reached, self.began_refused) = (reached, refused);
                (self.limit(value), WINDOW_COMPLETIONS)
            }
            Phase::Measuring(value) => {
                let (took_us, count) = (now_us.saturating_sub(self.began_us), completed - self.began_completed);
                if took_us < WINDOW_MIN_US {
                    return (self.limit(value), WINDOW_COMPLETIONS);
                }
                let refused = refused - self.began_refused;
                let is_held_back = (reached - self.began_reached) * 100 >= count * REACHED_PERCENT
                    || refused * 100 >= (count + refused) * REFUSED_PERCENT;
                let next =
                    if is_held_back { self.next(value, count as f64 * 1e6 / took_us as f64) } else { Value::Low };
                self.phase = Phase::Settling(next);
                // As many as were under way before it.
                (self.limit(next), u64::from(self.high()))
            }
        }
    }

    /// The value to measure next, once the throughput of one is known.
    fn next(&mut self, value: Value, rate_per_s: f64) -> Value {
        let Value::High(low_per_s) = value else { return Value::High(rate_per_s) };
        let grew = rate_per_s / low_per_s.max(f64::MIN_POSITIVE) - 1.0;
        let raised = f64::from(self.high()) / f64::from(self.low) - 1.0;
        if grew > raised / 2.0 {
            self.low = self.high();
            // Its throughput was just measured.
            if self.low < self.max { Value::High(rate_per_s) } else { Value::Low }
        } else {
            let step = (self.low / (STEP_PARTS + 1)).max(1);
            self.low = (self.low - step).max(LIMIT_MIN.min(self.max));
            Value::Low
        }
    }

    fn high(&self) -> u32 {
        self.low.saturating_add((self.low / STEP_PARTS).max(1)).min(self.max)
    }

    fn limit(&self, value: Value) -> u32 {
        match value {
            Value::Low => self.low,
            Value::High(_) => self.high(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, VecDeque};
    use weir_testkit::seeded::Choice;

    /// A server that works on `servers` requests at once, each for an exponential time; further ones wait within it.
    struct Simulated {
        choice: Choice,
        now_us: f64,
        servers: usize,
        mean_us: f64,
        /// When requests in service end, in nanoseconds.
        ends: BinaryHeap<Reverse<u64>>,
        waiting: VecDeque<()>,
    }

    impl Simulated {
        fn new(seed: u64, servers: usize, mean_us: f64) -> Self {
            let (ends, waiting) = (BinaryHeap::new(), VecDeque::new());
            Self { choice: Choice::from_seed(seed), now_us: 0.0, servers, mean_us, ends, waiting }
        }

        fn exponential(&mut self, mean_us: f64) -> f64 {
            let part = (self.choice.below(1 << 40) as f64 + 0.5) / (1_u64 << 40) as f64;
            -mean_us * part.ln()
        }

        fn serve(&mut self) {
            while self.ends.len() < self.servers && self.waiting.pop_front().is_some() {
                let time_us = self.exponential(self.mean_us);
                self.ends.push(Reverse(((self.now_us + time_us) * 1000.0) as u64));
            }
        }

        /// Runs for a time with as much load as the limit lets in, or with arrivals a mean time apart that are refused
        /// where there is no place; the limits, one for each millisecond.
        fn run(&mut self, limit: &MeasuredLimit, for_us: f64, arrival_us: Option<f64>) -> Vec<u32> {
            let (end_us, mut limits) = (self.now_us + for_us, Vec::new());
            let mut next_us = arrival_us.map(|mean_us| self.now_us + self.exponential(mean_us));
            while self.now_us < end_us {
                if arrival_us.is_none() {
                    while limit.begin() {
                        self.waiting.push_back(());
                    }
                }
                self.serve();
                let ends_us = self.ends.peek().map_or(f64::INFINITY, |Reverse(ns)| *ns as f64 / 1000.0);
                match next_us.zip(arrival_us).filter(|(next_us, _)| *next_us < ends_us) {
                    Some((at_us, mean_us)) => {
                        self.now_us = at_us;
                        if limit.begin() {
                            self.waiting.push_back(());
                        }
                        next_us = Some(at_us + self.exponential(mean_us));
                    }
                    None => {
                        self.ends.pop();
                        self.now_us = ends_us;
                        limit.complete(self.now_us as u64);
                    }
                }
                if limits.len() < (self.now_us / 1000.0) as usize {
                    limits.push(limit.limit());
                }
            }
            limits
        }
    }

    /// The mean, and whether nearly all are within twice and half of it.
    fn is_near(limits: &[u32], servers: usize, what: &str) {
        let mean = f64::from(limits.iter().sum::<u32>()) / limits.len() as f64;
        let wanted = servers as f64;
        assert!(mean > wanted / 2.0 && mean < wanted * 2.0, "{what}: {mean} for {servers}");
        let lowest = limits.iter().min().copied().unwrap_or(0);
        assert!(f64::from(lowest) >= wanted / 4.0, "{what}: {lowest} for {servers}");
    }

    #[test]
    fn it_finds_how_many_a_server_works_on() {
        for servers in [4, 10, 32, 100, 300] {
            for seed in 1..4 {
                let limit = MeasuredLimit::new(10_000);
                let mut server = Simulated::new(seed, servers, 10_000.0);
                // So long that it completes 100,000 requests.
                let found_us = 100_000.0 / servers as f64 * 10_000.0;
                server.run(&limit, found_us, None);
                let limits = server.run(&limit, found_us, None);
                is_near(&limits, servers, &format!("closed, seed {seed}"));
                // Half more than it can do arrives.
                let limits = server.run(&limit, found_us, Some(10_000.0 / servers as f64 / 1.5));
                is_near(&limits, servers, &format!("open, seed {seed}"));
            }
        }
    }

    #[test]
    fn it_follows_changes() {
        let limit = MeasuredLimit::new(10_000);
        let mut server = Simulated::new(5, 10, 5000.0);
        for servers in [10, 80, 20, 5] {
            server.servers = servers;
            server.run(&limit, 40e6, None);
            let limits = server.run(&limit, 40e6, None);
            is_near(&limits, servers, "changed");
        }
        // Its time grows fivefold while it works on as many: the limit stays.
        server.mean_us = 25_000.0;
        server.run(&limit, 60e6, None);
        is_near(&server.run(&limit, 60e6, None), 5, "slower");
    }

    #[test]
    fn it_stays_where_the_load_is_low_and_within_its_bounds() {
        let limit = MeasuredLimit::new(10_000);
        let mut server = Simulated::new(6, 50, 10_000.0);
        server.run(&limit, 60e6, None);
        let found = limit.limit();
        // The window that the load ends in may be judged yet.
        server.run(&limit, 10e6, Some(10_000.0));
        let limits = server.run(&limit, 60e6, Some(10_000.0));
        let kept = limits[0];
        assert!(limits.iter().all(|limit| *limit == kept) && kept >= found / 2 && kept <= found * 2, "{found} {kept}");
        let limit = MeasuredLimit::new(8);
        let mut server = Simulated::new(7, 50, 10_000.0);
        let limits = server.run(&limit, 60e6, None);
        assert!(limits.iter().all(|limit| (LIMIT_MIN..=8).contains(limit)));
        assert!(limit.limit() >= 6, "{}", limit.limit());
        let limit = MeasuredLimit::new(0);
        assert!(limit.begin() && limit.begin() && !limit.begin());
        limit.cancel();
        assert!(limit.begin());
    }

    #[test]
    fn one_worker_gets_two_at_most_three() {
        let limit = MeasuredLimit::new(100);
        let mut server = Simulated::new(8, 1, 1000.0);
        server.run(&limit, 30e6, None);
        let limits = server.run(&limit, 30e6, None);
        assert!(limits.iter().all(|limit| (LIMIT_MIN..=3).contains(limit)));
    }
}
