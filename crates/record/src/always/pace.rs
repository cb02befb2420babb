//! How long to pause between the windows of a recording that goes on for ever, so that its bounds hold.

use crate::cost::EVENT_NS;
use std::time::Duration;

/// A pause is never shorter.
const SHORTEST: Duration = Duration::from_secs(1);
/// Nor longer, however dear a window was: then it says so instead. The bound on disk space goes before.
const LONGEST: Duration = Duration::from_secs(600);
/// Of a server that uses hardly any CPU time a share would be nothing: a tenth of a CPU is what it counts as at least.
const LEAST_BUSY: f64 = 0.1;

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// Bytes an hour.
    pub(super) bytes_per_hour: f64,
    /// Share of the server's CPU time that observing may cost, the probes' and the collector's together.
    pub(super) cpu_share: f64,
}

/// What a window cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Spent {
    /// Bytes written.
    pub(super) bytes: u64,
    /// Events written.
    pub(super) events: u64,
    /// CPU time of this process, nanoseconds.
    pub(super) own_ns: u64,
    /// CPU time of the server, nanoseconds.
    pub(super) server_ns: u64,
    /// How long it is since the last window's end, this window included.
    pub(super) elapsed: Duration,
}

/// Debts of bytes and of CPU time, that pauses pay off.
#[derive(Debug)]
pub(super) struct Pace {
    bounds: Bounds,
    bytes: f64,
    cpu_ns: f64,
    /// CPU time that may be spent for each nanosecond that passes.
    cpu_rate: f64,
}

impl Pace {
    /// A pace that begins with the bytes that were written in the last hour: who is restarted again and again begins no
    /// new hour.
    pub(super) fn new(bounds: Bounds, bytes_of_last_hour: u64) -> Self {
        let bytes = (bytes_of_last_hour as f64 - bounds.bytes_per_hour).max(0.0);
        Self { bounds, bytes, cpu_ns: 0.0, cpu_rate: bounds.cpu_share * LEAST_BUSY }
    }

    /// How long to pause after a window.
    pub(super) fn after(&mut self, spent: Spent) -> Duration {
        let elapsed_ns = spent.elapsed.as_nanos() as f64;
        self.cpu_rate = self.bounds.cpu_share * LEAST_BUSY.max(spent.server_ns as f64 / elapsed_ns.max(1.0));
        // What passed since the last window has paid for that one.
        self.bytes = (self.bytes - elapsed_ns * self.bytes_per_ns()).max(0.0) + spent.bytes as f64;
        let cost_ns = spent.own_ns + spent.events * EVENT_NS;
        self.cpu_ns = (self.cpu_ns - elapsed_ns * self.cpu_rate).max(0.0) + cost_ns as f64;
        let by_bytes = self.bytes / self.bytes_per_ns();
        let by_cpu = (self.cpu_ns / self.cpu_rate).min(LONGEST.as_nanos() as f64);
        Duration::from_nanos(by_bytes.max(by_cpu) as u64).max(SHORTEST)
    }

    /// The longest time to wait before the first window, for bytes that were written before.
    pub(super) fn before_first(&self) -> Duration {
        Duration::from_nanos((self.bytes / self.bytes_per_ns()) as u64)
    }

    fn bytes_per_ns(&self) -> f64 {
        self.bounds.bytes_per_hour / 3.6e12
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::seeded::Choice;

    const BOUNDS: Bounds = Bounds { bytes_per_hour: 50e6, cpu_share: 0.01 };
    const WEEK_S: f64 = 7.0 * 86_400.0;

    /// Plays a week of windows on a server of any business, which restarts its recorder now and then.
    fn week(seed: u64, bounds: Bounds) -> (f64, f64, f64, u64, f64) {
        let mut choice = Choice::from_seed(seed);
        let mut pace = Pace::new(bounds, 0);
        let (mut at_s, mut bytes, mut cost_ns, mut server_ns) = (0.0, 0.0, 0.0, 0.0);
        let (mut windows, mut pause_s, mut largest) = (0, 0.0, 0.0f64);
        while at_s < WEEK_S {
            let window_s = 0.25;
            // From an idle server to two busy CPUs.
            let busy = choice.below(2_000) as f64 / 1e3;
            let events = (busy * 100_000.0 * window_s) as u64 + choice.below(100);
            let spent = Spent {
                bytes: events * 40,
                events,
                own_ns: 3_000_000 + events * 100,
                server_ns: (busy * (window_s + pause_s) * 1e9) as u64,
                elapsed: Duration::from_secs_f64(window_s + pause_s),
            };
            at_s += window_s + pause_s;
            bytes += spent.bytes as f64;
            largest = largest.max(spent.bytes as f64);
            cost_ns += (spent.own_ns + spent.events * EVENT_NS) as f64;
            server_ns += spent.server_ns as f64;
            pause_s = pace.after(spent).as_secs_f64();
            windows += 1;
        }
        (bytes, cost_ns, server_ns, windows, largest)
    }

    #[test]
    fn a_week_stays_within_its_bounds() {
        for seed in 0..20 {
            let (bytes, cost_ns, server_ns, windows, largest) = week(seed, BOUNDS);
            let hours = WEEK_S / 3_600.0;
            assert!(bytes <= BOUNDS.bytes_per_hour * hours + largest, "seed {seed}: {bytes} bytes in {hours} hours");
            let allowed = BOUNDS.cpu_share * (server_ns + LEAST_BUSY * WEEK_S * 1e9);
            assert!(cost_ns <= allowed, "seed {seed}: {:.3} % of the server", 100.0 * cost_ns / server_ns);
            // And it does look: as often as one of the bounds allows, each time at a quarter of a second.
            let most = (bytes / (BOUNDS.bytes_per_hour * hours)).max(cost_ns / allowed);
            assert!(most > 0.9, "seed {seed}: only {most} of what it may, {windows} windows");
        }
    }

    #[test]
    fn a_dear_window_is_paid_for_before_the_next() {
        let mut pace = Pace::new(BOUNDS, 0);
        let dear = Spent { bytes: 100_000_000, elapsed: Duration::from_secs(1), ..Spent::default() };
        let pause = pace.after(dear);
        assert!((7_190.0..7_210.0).contains(&pause.as_secs_f64()), "100 MB at 50 MB an hour are two hours: {pause:?}");
        let next = pace.after(Spent { elapsed: pause, ..Spent::default() });
        assert_eq!(next, SHORTEST);
    }

    #[test]
    fn a_restart_begins_no_new_hour() {
        assert_eq!(Pace::new(BOUNDS, 50_000_000).before_first(), Duration::ZERO);
        let waits = Pace::new(BOUNDS, 75_000_000).before_first();
        assert!((1_799.0..1_801.0).contains(&waits.as_secs_f64()), "{waits:?}");
    }
}
