//! Whether a request that failed is sent once more.
//!
//! It must be safe: no byte of it went out, or its method is idempotent (RFC 9110 section 9.2.2) and no byte of a
//! response came. It must be possible: its body is still held whole. And it must not make an overload worse: requests
//! sent again have a budget, a share of all requests of the last seconds (see the chapter "Handling Overload" of Site
//! Reliability Engineering, <https://sre.google/sre-book/handling-overload/>).

use super::settings::RetryRules;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that a budget looks back.
const WINDOW_S: u64 = 10;
/// Slots of one second each; more than the window has, so that one can be begun anew.
const SLOTS: usize = 16;
/// Bits of each of the two counts of a slot; the rest is the second that it is of.
const COUNT_BITS: u32 = 22;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// How far a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// There was no connection, or no byte of the request was written.
    NotSent,
    /// A connection that was kept closed before any byte of a response: the server closed it as the request went out.
    KeptClosed,
    /// Bytes were written, and no byte of a response came.
    Sent,
    /// A head with this status came, and nothing of it has been passed on.
    Answered(u16),
    /// A part of the response has been passed on.
    PassedOn,
}

/// A request that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed<'r> {
    pub(crate) method: &'r str,
    pub(crate) came: Came,
    /// How often it was sent, or was to be; from 1.
    pub(crate) tries: u32,
    pub(crate) body: Body,
}

/// What is left of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// There is none, or all bytes so far are held.
    Held,
    /// Bytes were let go.
    Gone,
}

/// Why a request is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAgain {
    /// It may have been carried out, and twice is not the same as once.
    #[error("the upstream may have carried it out")]
    Unsafe,
    /// Its body is not held any more.
    #[error("its body is not held")]
    BodyGone,
    /// It was sent as often as the configuration says.
    #[error("it was sent often enough")]
    TriesSpent,
    /// Too many requests are sent again.
    #[error("too many requests are sent again")]
    BudgetSpent,
}

/// Whether a method means the same when it is carried out twice (RFC 9110 section 9.2.2).
pub(crate) fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// Whether a request may be sent again; the budget is charged if so. A connection that was kept and closed is no sign
/// of an overload, and is not charged.
///
/// # Errors
///
/// Why not.
pub(crate) fn again(rules: &RetryRules, failed: &Failed<'_>, budget: &Budget, now_ms: u64) -> Result<(), NotAgain> {
    let is_safe = match failed.came {
        Came::NotSent => true,
        Came::KeptClosed | Came::Sent => is_idempotent(failed.method),
        Came::Answered(status) => rules.statuses.contains(&status) && is_idempotent(failed.method),
        Came::PassedOn => false,
    };
    if !is_safe {
        return Err(NotAgain::Unsafe);
    }
    if failed.body == Body::Gone {
        return Err(NotAgain::BodyGone);
    }
    if failed.tries >= rules.tries_max {
        return Err(NotAgain::TriesSpent);
    }
    if failed.came == Came::KeptClosed || budget.spend(rules, now_ms) { Ok(()) } else { Err(NotAgain::BudgetSpent) }
}

/// Requests and those sent again of the last seconds; all loops share it.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    slots: [AtomicU64; SLOTS],
}

/// What a slot holds.
#[derive(Debug, Clone, Copy)]
struct Slot {
    second: u64,
    requests: u64,
    again: u64,
}

impl Slot {
    fn of(packed: u64) -> Self {
        Self {
            second: packed >> (2 * COUNT_BITS),
            requests: (packed >> COUNT_BITS) & COUNT_MAX,
            again: packed & COUNT_MAX,
        }
    }

    fn packed(self) -> u64 {
        self.second << (2 * COUNT_BITS) | self.requests.min(COUNT_MAX) << COUNT_BITS | self.again.min(COUNT_MAX)
    }
}

/// A second as a slot has it: its lowest bits, not 0.
fn second_of(now_ms: u64) -> u64 {
    (now_ms / 1000 + 1) & ((1 << (64 - 2 * COUNT_BITS)) - 1)
}

impl Budget {
    /// Counts a request that is sent for the first time.
    pub(crate) fn count(&self, now_ms: u64) {
        self.change(now_ms, |slot| Slot { requests: slot.requests + 1, ..slot });
    }

    /// Charges one request that is sent again, if the budget has it. Loops that ask at once may both be refused.
    fn spend(&self, rules: &RetryRules, now_ms: u64) -> bool {
        self.change(now_ms, |slot| Slot { again: slot.again + 1, ..slot });
        let (requests, again) = self.sums(now_ms);
        let is_within = again <= u64::from(rules.budget_min) + requests * u64::from(rules.budget_percent) / 100;
        if !is_within {
            self.change(now_ms, |slot| Slot { again: slot.again.saturating_sub(1), ..slot });
        }
        is_within
    }

    /// Requests of the window, and how many of them were sent again.
    fn sums(&self, now_ms: u64) -> (u64, u64) {
        let second = second_of(now_ms);
        let (mut requests, mut again) = (0, 0);
        for slot in &self.slots {
            let slot = Slot::of(slot.load(Ordering::Relaxed));
            if slot.second <= second && second - slot.second < WINDOW_S && slot.second != 0 {
                requests += slot.requests;
                again += slot.again;
            }
        }
        (requests, again)
    }

    fn change(&self, now_ms: u64, change: impl Fn(Slot) -> Slot) {
        let second = second_of(now_ms);
        let slot = &self.slots[second as usize % SLOTS];
        let next = |packed| {
            let slot = Slot::of(packed);
            let slot = if slot.second == second { slot } else { Slot { second, requests: 0, again: 0 } };
            Some(change(slot).packed())
        };
        // The closure always gives a value.
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failed(method: &str, came: Came) -> Failed<'_> {
        Failed { method, came, tries: 1, body: Body::Held }
    }

    #[test]
    fn only_what_is_safe_is_sent_again() {
        let rules = RetryRules { statuses: vec![503], ..RetryRules::default() };
        for (method, came, expected) in [
            ("POST", Came::NotSent, Ok(())),
            ("POST", Came::KeptClosed, Err(NotAgain::Unsafe)),
            ("POST", Came::Sent, Err(NotAgain::Unsafe)),
            ("PATCH", Came::Answered(503), Err(NotAgain::Unsafe)),
            ("GET", Came::KeptClosed, Ok(())),
            ("GET", Came::Sent, Ok(())),
            ("PUT", Came::Sent, Ok(())),
            ("get", Came::Sent, Err(NotAgain::Unsafe)),
            ("GET", Came::Answered(503), Ok(())),
            ("GET", Came::Answered(502), Err(NotAgain::Unsafe)),
            ("GET", Came::PassedOn, Err(NotAgain::Unsafe)),
        ] {
            assert_eq!(again(&rules, &failed(method, came), &Budget::default(), 5), expected, "{method} {came:?}");
        }
        let budget = Budget::default();
        let gone = Failed { body: Body::Gone, ..failed("GET", Came::NotSent) };
        assert_eq!(again(&rules, &gone, &budget, 5), Err(NotAgain::BodyGone));
        let often = Failed { tries: 3, ..failed("GET", Came::NotSent) };
        assert_eq!(again(&rules, &often, &budget, 5), Err(NotAgain::TriesSpent));
    }

    #[test]
    fn a_budget_is_a_share_and_comes_back() {
        let (rules, budget) =
            (RetryRules { budget_percent: 20, budget_min: 2, ..RetryRules::default() }, Budget::default());
        let spent = |now_ms| {
            (0..1000).take_while(|_| again(&rules, &failed("GET", Came::Sent), &budget, now_ms).is_ok()).count()
        };
        assert_eq!(spent(500), 2);
        (0..50).for_each(|_| budget.count(1500));
        assert_eq!(spent(1500), 10);
        assert_eq!(again(&rules, &failed("GET", Came::KeptClosed), &budget, 1500), Ok(()));
        assert_eq!(spent(10_400), 2, "those of the first second are over");
        assert_eq!(spent(40_000), 2);
    }

    proptest! {
        #[test]
        fn the_budget_is_never_exceeded(
            percent in 0_u32..100,
            least in 0_u32..20,
            steps in proptest::collection::vec((any::<bool>(), 0_u64..2000), 1..500),
        ) {
            let rules = RetryRules { budget_percent: percent, budget_min: least, ..RetryRules::default() };
            let (budget, mut now_ms) = (Budget::default(), 0_u64);
            let mut log: Vec<(u64, bool)> = Vec::new();
            for (is_again, later_ms) in steps {
                now_ms += later_ms;
                if !is_again {
                    budget.count(now_ms);
                    log.push((now_ms / 1000, false));
                } else {
                    let within = |log: &[(u64, bool)], again: bool| {
                        let of = log.iter().filter(|(second, was)| *was == again && now_ms / 1000 - second < WINDOW_S);
                        of.count() as u64
                    };
                    let allowed = u64::from(least) + within(&log, false) * u64::from(percent) / 100;
                    let is_ok = again(&rules, &failed("GET", Came::Sent), &budget, now_ms).is_ok();
                    prop_assert_eq!(is_ok, within(&log, true) < allowed);
                    if is_ok {
                        log.push((now_ms / 1000, true));
                    }
                }
            }
        }
    }

    #[test]
    fn loops_that_spend_at_once_stay_within_the_budget() {
        let (rules, budget) =
            (RetryRules { budget_percent: 0, budget_min: 100, ..RetryRules::default() }, Budget::default());
        let spent: usize = std::thread::scope(|scope| {
            let spend = || (0..1000).filter(|_| budget.spend(&rules, 7)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
            threads.into_iter().map(|thread| thread.join().expect("ends")).sum()
        });
        assert!((90..=100).contains(&spent), "{spent}");
    }
}
