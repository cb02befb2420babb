//! Which servers of an upstream are fit for requests: by what requests tell (passive) and by probes (active).
//!
//! A server that failed too often is out for a time that doubles. After it one request tries the server: its success
//! brings the server back, its failure puts it out for longer. If all servers are out, all get requests as if none
//! was: answers that may fail are better than none (Envoy calls this panic mode).
//!
//! All loops share a [`Health`] and agree by atomics; two reports at the same time may count as one, which shifts a
//! decision by one request.

use super::settings::{HealthRules, SERVERS_MAX};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The share of a server that gets all requests that its weight says.
pub(crate) const FULL_SHARE: u32 = 256;
/// The share with which a server comes back, where it starts slowly.
const FIRST_SHARE: u32 = 26;
/// Doublings of the time that a server is out.
const DOUBLINGS_MAX: u32 = 16;
/// The time of a probe varies by one part of so many, so that several programs do not probe at once.
const JITTER_PARTS: u64 = 5;

/// How a request came to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Usual,
    /// It tries a server that was out.
    Trial,
}

/// What a request tells of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It answered, be it with an error of the request's own.
    Success,
    /// It could not be reached, did not answer in time or not as its protocol says, or answered 502, 503 or 504.
    Failure,
}

/// The health of an upstream's servers. Times are milliseconds of a clock that only goes forward.
#[derive(Debug)]
pub(crate) struct Health {
    rules: HealthRules,
    servers: Box<[Server]>,
    /// Reasons for which servers are out; 0 = none is.
    reasons: AtomicU32,
    /// Until then a server's share may still grow.
    growing_until_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Server {
    failures_in_row: AtomicU32,
    window_began_ms: AtomicU64,
    /// Requests of the window in the upper half, failures in the lower one.
    window: AtomicU64,
    /// 0 = it is not out by what requests told. Once the time is over, one request may try it.
    out_until_ms: AtomicU64,
    /// How often it went out without a good time between.
    outs: AtomicU32,
    /// When it came back; 0 = it was never out.
    returned_ms: AtomicU64,
    /// 0 = by probes it is well.
    out_by_probes: AtomicU32,
    /// Probes one after the other that say the opposite of `out_by_probes`.
    contrary_probes: AtomicU32,
    next_probe_ms: AtomicU64,
}

impl Health {
    /// Of so many servers, all of which are well at first.
    pub(crate) fn new(rules: HealthRules, servers: usize) -> Self {
        let servers = (0..servers.min(SERVERS_MAX)).map(|_| Server::default()).collect();
        Self { rules, servers, reasons: AtomicU32::new(0), growing_until_ms: AtomicU64::new(0) }
    }

    /// Shares of the servers, of [`FULL_SHARE`]; 0 = it gets no request. If no server would get any, all get their full
    /// share.
    pub(crate) fn shares(&self, now_ms: u64) -> [u32; SERVERS_MAX] {
        let mut shares = [0; SERVERS_MAX];
        let own = &mut shares[..self.servers.len()];
        let is_quiet =
            self.reasons.load(Ordering::Relaxed) == 0 && now_ms >= self.growing_until_ms.load(Ordering::Relaxed);
        if !is_quiet {
            for (share, server) in own.iter_mut().zip(&self.servers) {
                *share = self.share(server, now_ms);
            }
        }
        if own.iter().all(|share| *share == 0) {
            own.fill(FULL_SHARE);
        }
        shares
    }

    fn share(&self, server: &Server, now_ms: u64) -> u32 {
        if server.is_out() {
            return 0;
        }
        let (returned_ms, ramp_ms) = (server.returned_ms.load(Ordering::Relaxed), millis(self.rules.slow_start));
        let since_ms = now_ms.saturating_sub(returned_ms);
        if returned_ms == 0 || since_ms >= ramp_ms {
            return FULL_SHARE;
        }
        // Below FULL_SHARE, as less than the whole time has gone.
        let grown = u64::from(FULL_SHARE - FIRST_SHARE) * since_ms / ramp_ms;
        FIRST_SHARE + grown as u32
    }

    /// A server that a request may try, as its time out is over; none but this request gets it until another time out
    /// is over. Ask it for requests that can be sent elsewhere if this one fails, and report with
    /// [`Admission::Trial`].
    pub(crate) fn claim_trial(&self, now_ms: u64) -> Option<usize> {
        if self.reasons.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.servers.iter().position(|server| {
            let until_ms = server.out_until_ms.load(Ordering::Relaxed);
            let is_due = until_ms != 0 && now_ms >= until_ms && server.out_by_probes.load(Ordering::Relaxed) == 0;
            // A trial that is never reported is followed by another one.
            let next_ms = now_ms + self.back_off_ms(server).max(1);
            let exchange =
                |to| server.out_until_ms.compare_exchange(until_ms, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            is_due && exchange(next_ms)
        })
    }

    /// Whether a request may go to this server (as one that a cookie names).
    pub(crate) fn is_in(&self, server: usize) -> bool {
        self.servers.get(server).is_some_and(|server| !server.is_out())
    }

    /// Takes note of how a request ended.
    pub(crate) fn report(&self, server: usize, admission: Admission, outcome: Outcome, now_ms: u64) {
        let Some(server) = self.servers.get(server) else { return };
        match (outcome, admission) {
            (Outcome::Success, Admission::Trial) => self.bring_back(server, now_ms),
            (Outcome::Failure, Admission::Trial) => self.put_out(server, now_ms),
            (outcome, Admission::Usual) => {
                let (requests, failures) = self.count(server, outcome, now_ms);
                // What began before it went out tells nothing new.
                let is_known = server.out_until_ms.load(Ordering::Relaxed) != 0;
                if outcome == Outcome::Failure && !is_known && self.is_too_much(server, requests, failures) {
                    self.put_out(server, now_ms);
                }
            }
        }
    }

    /// Counts an outcome; the requests and failures of the window with it.
    fn count(&self, server: &Server, outcome: Outcome, now_ms: u64) -> (u64, u64) {
        let began_ms = server.window_began_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(began_ms) >= millis(self.rules.passive.window) {
            server.window_began_ms.store(now_ms, Ordering::Relaxed);
            server.window.store(0, Ordering::Relaxed);
        }
        let failed = match outcome {
            Outcome::Success => {
                // A store only where it changes something, as loops share the line of cache.
                if server.failures_in_row.load(Ordering::Relaxed) != 0 {
                    server.failures_in_row.store(0, Ordering::Relaxed);
                }
                0
            }
            Outcome::Failure => {
                server.failures_in_row.fetch_add(1, Ordering::Relaxed);
                1
            }
        };
        let added = (1 << 32) | failed;
        let window = server.window.fetch_add(added, Ordering::Relaxed).wrapping_add(added);
        (window >> 32, window & u64::from(u32::MAX))
    }

    fn is_too_much(&self, server: &Server, requests: u64, failures: u64) -> bool {
        let passive = &self.rules.passive;
        let in_row = server.failures_in_row.load(Ordering::Relaxed);
        let of_row = passive.failures > 0 && in_row >= passive.failures;
        let of_window = passive.percent > 0
            && requests >= u64::from(passive.requests_min)
            && failures * 100 >= requests * u64::from(passive.percent);
        of_row || of_window
    }

    fn back_off_ms(&self, server: &Server) -> u64 {
        let doublings = server.outs.load(Ordering::Relaxed).saturating_sub(1).min(DOUBLINGS_MAX);
        let passive = &self.rules.passive;
        (millis(passive.back_off) << doublings).min(millis(passive.back_off_max))
    }

    fn put_out(&self, server: &Server, now_ms: u64) {
        let returned_ms = server.returned_ms.load(Ordering::Relaxed);
        let was_out = server.out_until_ms.load(Ordering::Relaxed) != 0;
        // A server that was well for long begins anew.
        let well_ms = now_ms.saturating_sub(returned_ms);
        if !was_out && well_ms >= millis(self.rules.passive.back_off_max) {
            server.outs.store(0, Ordering::Relaxed);
        }
        server.outs.fetch_add(1, Ordering::Relaxed);
        let until_ms = (now_ms + self.back_off_ms(server)).max(1);
        if server.out_until_ms.swap(until_ms, Ordering::Relaxed) == 0 {
            self.reasons.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn bring_back(&self, server: &Server, now_ms: u64) {
        if server.out_until_ms.swap(0, Ordering::Relaxed) != 0 {
            self.reasons.fetch_sub(1, Ordering::Relaxed);
        }
        server.failures_in_row.store(0, Ordering::Relaxed);
        server.window.store(0, Ordering::Relaxed);
        server.returned_ms.store(now_ms.max(1), Ordering::Relaxed);
        self.growing_until_ms.fetch_max(now_ms + millis(self.rules.slow_start), Ordering::Relaxed);
    }

    /// A server that is to be probed now; none but the caller gets it until the next time. `random` is any number.
    pub(crate) fn claim_probe(&self, now_ms: u64, random: u64) -> Option<usize> {
        let every_ms = millis(self.rules.probe.as_ref()?.every).max(1);
        let spread_ms = every_ms / JITTER_PARTS;
        self.servers.iter().position(|server| {
            let due_ms = server.next_probe_ms.load(Ordering::Relaxed);
            let next_ms = now_ms + every_ms - spread_ms / 2 + random % (spread_ms + 1);
            let exchange =
                || server.next_probe_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            now_ms >= due_ms && exchange()
        })
    }

    /// When the next probe is due; None without probes.
    #[cfg(test)]
    pub(crate) fn next_probe_ms(&self) -> Option<u64> {
        self.rules.probe.as_ref()?;
        self.servers.iter().map(|server| server.next_probe_ms.load(Ordering::Relaxed)).min()
    }

    /// Takes note of the answer to a probe.
    pub(crate) fn report_probe(&self, server: usize, outcome: Outcome, now_ms: u64) {
        let (Some(server), Some(rules)) = (self.servers.get(server), &self.rules.probe) else { return };
        let is_out = server.out_by_probes.load(Ordering::Relaxed) != 0;
        if is_out != (outcome == Outcome::Success) {
            server.contrary_probes.store(0, Ordering::Relaxed);
            return;
        }
        let needed = if is_out { rules.rise } else { rules.fall };
        if server.contrary_probes.fetch_add(1, Ordering::Relaxed) + 1 < needed {
            return;
        }
        server.contrary_probes.store(0, Ordering::Relaxed);
        if is_out {
            if server.out_by_probes.swap(0, Ordering::Relaxed) != 0 {
                self.reasons.fetch_sub(1, Ordering::Relaxed);
            }
            self.bring_back(server, now_ms);
        } else if server.out_by_probes.swap(1, Ordering::Relaxed) == 0 {
            self.reasons.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Server {
    fn is_out(&self) -> bool {
        self.out_until_ms.load(Ordering::Relaxed) != 0 || self.out_by_probes.load(Ordering::Relaxed) != 0
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::super::settings::{PassiveRules, ProbeRules};
    use super::*;
    use proptest::prelude::*;

    fn rules() -> HealthRules {
        let seconds = Duration::from_secs;
        HealthRules {
            passive: PassiveRules { back_off: seconds(2), back_off_max: seconds(10), ..PassiveRules::default() },
            probe: Some(ProbeRules {
                path: "/".to_owned(),
                every: seconds(5),
                timeout: seconds(1),
                rise: 2,
                fall: 3,
                statuses: (200, 399),
            }),
            slow_start: seconds(10),
        }
    }

    fn fail(health: &Health, server: usize, times: usize, now_ms: u64) {
        (0..times).for_each(|_| health.report(server, Admission::Usual, Outcome::Failure, now_ms));
    }

    #[test]
    fn failures_in_a_row_put_a_server_out_for_longer_each_time() {
        let health = Health::new(rules(), 2);
        fail(&health, 0, 2, 100_000);
        health.report(0, Admission::Usual, Outcome::Success, 100_000);
        fail(&health, 0, 2, 100_000);
        assert!(health.is_in(0));
        fail(&health, 0, 1, 100_000);
        assert!(!health.is_in(0) && health.is_in(1));
        assert_eq!(&health.shares(100_000)[..3], [0, FULL_SHARE, 0]);
        // What was under way already changes nothing.
        fail(&health, 0, 10, 100_500);
        let mut at_ms = 100_000;
        for out_ms in [2000, 4000, 8000, 10_000, 10_000] {
            assert_eq!(health.claim_trial(at_ms + out_ms - 1), None, "{out_ms}");
            at_ms += out_ms;
            assert_eq!(health.claim_trial(at_ms), Some(0));
            assert_eq!(health.claim_trial(at_ms), None, "one trial at a time");
            health.report(0, Admission::Trial, Outcome::Failure, at_ms);
        }
        at_ms += 10_000;
        assert_eq!(health.claim_trial(at_ms), Some(0));
        health.report(0, Admission::Trial, Outcome::Success, at_ms);
        assert_eq!(health.shares(at_ms)[0], FIRST_SHARE);
        assert_eq!(health.shares(at_ms + 5000)[0], FIRST_SHARE + (FULL_SHARE - FIRST_SHARE) / 2);
        assert_eq!(health.shares(at_ms + 10_000)[0], FULL_SHARE);
        // It fails again at once: the time goes on to be long; after a good time it is short.
        fail(&health, 0, 3, at_ms + 1000);
        assert_eq!(health.claim_trial(at_ms + 10_999), None);
        assert_eq!(health.claim_trial(at_ms + 11_000), Some(0));
        health.report(0, Admission::Trial, Outcome::Success, at_ms + 11_000);
        fail(&health, 0, 3, at_ms + 60_000);
        assert_eq!(health.claim_trial(at_ms + 62_000), Some(0));
    }

    #[test]
    fn a_share_of_failures_puts_a_server_out() {
        let health = Health::new(rules(), 2);
        for number in 0..19 {
            let outcome = if number % 2 == 0 { Outcome::Failure } else { Outcome::Success };
            health.report(1, Admission::Usual, outcome, 50_000);
        }
        assert!(health.is_in(1), "too few requests");
        fail(&health, 1, 1, 50_000);
        assert!(!health.is_in(1));
    }

    #[test]
    fn probes_fall_and_rise() {
        let health = Health::new(rules(), 2);
        assert_eq!((health.claim_probe(0, 7), health.claim_probe(0, 7)), (Some(0), Some(1)));
        assert_eq!(health.claim_probe(0, 7), None);
        assert!((4500..=5500).contains(&health.next_probe_ms().expect("probes")));
        for (outcomes, is_in) in [("--+--", true), ("-", false), ("+-+", false), ("+", true)] {
            for letter in outcomes.chars() {
                let outcome = if letter == '+' { Outcome::Success } else { Outcome::Failure };
                health.report_probe(0, outcome, 9000);
            }
            assert_eq!(health.is_in(0), is_in, "{outcomes}");
        }
        assert_eq!(health.reasons.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #[test]
        fn an_upstream_never_has_no_candidate(
            servers in 1_usize..5,
            steps in proptest::collection::vec((0_usize..5, 0_u8..6, 0_u64..20_000), 1..300),
        ) {
            let health = Health::new(rules(), servers);
            let mut now_ms = 1;
            for (server, what, later_ms) in steps {
                now_ms += later_ms;
                match what {
                    0 | 1 => fail(&health, server, 3, now_ms),
                    2 => health.report(server, Admission::Usual, Outcome::Success, now_ms),
                    3 => health.report_probe(server, Outcome::Failure, now_ms),
                    4 => health.report_probe(server, Outcome::Success, now_ms),
                    _ => {
                        if let Some(server) = health.claim_trial(now_ms) {
                            prop_assert!(!health.is_in(server));
                            let outcome = if later_ms % 2 == 0 { Outcome::Success } else { Outcome::Failure };
                            health.report(server, Admission::Trial, outcome, now_ms);
                        }
                    }
                }
                let shares = health.shares(now_ms);
                prop_assert!(shares[..servers].iter().any(|share| *share > 0) && shares[servers..].iter().all(|share| *share == 0));
                let is_any_in = (0..servers).any(|server| health.is_in(server));
                for (server, share) in shares[..servers].iter().enumerate() {
                    prop_assert!(!is_any_in || (*share > 0) == health.is_in(server));
                }
                let out = (0..servers).filter(|server| !health.is_in(*server)).count() as u32;
                let reasons = health.reasons.load(Ordering::Relaxed);
                prop_assert!(reasons >= out && reasons <= 2 * out);
            }
        }
    }
}
