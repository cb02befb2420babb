//! How many requests a client's network may make: a bucket for each, in a table of bounded size.

use crate::http::access::masked;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the table, so that loops seldom meet.
const SHARDS: usize = 16;
/// Networks of one rate; what comes beyond them while all are in use is let through and counted.
const NETWORKS_MAX: usize = 65_536;
/// How often a full part is searched for buckets that are full again.
const SWEEP_NS: u64 = 100_000_000;

/// What a rate is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// Nanoseconds for each request in the long run, at least 1.
    pub(crate) interval_ns: u64,
    /// Requests that may come at once, at least 1.
    pub(crate) burst: u32,
    /// Bits of an address of IPv4 and of IPv6 that make a network.
    pub(crate) bits: [u32; 2],
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_s = 1e9 / self.interval_ns as f64;
        let [v4, v6] = self.bits;
        write!(f, "{} requests a second, {} at once, for each /{v4} or /{v6}", (per_s * 1e3).round() / 1e3, self.burst)
    }
}

/// A limit with its buckets, which all loops share.
///
/// A bucket is kept as the time at which it would be full again: a request moves it by its interval, and is refused
/// where that would lie further ahead than the burst reaches (the generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct Rate {
    limit: RateLimit,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    full_at_ns: HashMap<IpAddr, u64>,
    swept_ns: u64,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Through,
    /// There is no place in the table for its network, so it is let through.
    Untracked,
    /// The next one would be let through after so many seconds, at least 1.
    Wait {
        seconds: u64,
    },
}

impl Rate {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self { limit, hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// What it lets through.
    pub(crate) fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Takes a request off its network's bucket.
    pub(crate) fn take(&self, client: IpAddr, now_ns: u64) -> Verdict {
        let network = self.network(client);
        let mut shard = self.shard(network);
        let full_at_ns = shard.full_at_ns.get(&network).copied().unwrap_or(0).max(now_ns);
        if let Some(seconds) = self.wait_seconds(full_at_ns, now_ns) {
            return Verdict::Wait { seconds };
        }
        let place = NETWORKS_MAX / SHARDS;
        if shard.full_at_ns.len() >= place && !shard.full_at_ns.contains_key(&network) {
            if now_ns.saturating_sub(shard.swept_ns) >= SWEEP_NS {
                shard.swept_ns = now_ns;
                // A full bucket is the same as none.
                shard.full_at_ns.retain(|_, full_at_ns| *full_at_ns > now_ns);
            }
            if shard.full_at_ns.len() >= place {
                return Verdict::Untracked;
            }
        }
        shard.full_at_ns.insert(network, full_at_ns.saturating_add(self.limit.interval_ns));
        Verdict::Through
    }

    /// Whether a request would be refused now; nothing is taken.
    pub(crate) fn is_used_up(&self, client: IpAddr, now_ns: u64) -> bool {
        let network = self.network(client);
        let full_at_ns = self.shard(network).full_at_ns.get(&network).copied().unwrap_or(0).max(now_ns);
        self.wait_seconds(full_at_ns, now_ns).is_some()
    }

    fn wait_seconds(&self, full_at_ns: u64, now_ns: u64) -> Option<u64> {
        let reach_ns = self.limit.interval_ns.saturating_mul(u64::from(self.limit.burst) - 1);
        let wait_ns = (full_at_ns - now_ns).checked_sub(reach_ns).filter(|wait_ns| *wait_ns > 0)?;
        Some(wait_ns.div_ceil(1_000_000_000))
    }

    fn network(&self, client: IpAddr) -> IpAddr {
        let [v4, v6] = self.limit.bits;
        masked(client, if client.is_ipv4() { v4 } else { v6 })
    }

    fn shard(&self, network: IpAddr) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(network) as usize % SHARDS;
        // A thread that panicked with the lock held left whole entries.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rate(burst: u32) -> Rate {
        Rate::new(RateLimit { interval_ns: SECOND / 10, burst, bits: [24, 64] })
    }

    #[test]
    fn a_burst_and_then_the_rate_for_each_network() {
        let rate = rate(5);
        let client = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let through = |text: &str, now_ns| rate.take(client(text), now_ns) == Verdict::Through;
        assert_eq!((0..20).filter(|_| through("10.0.0.1", SECOND)).count(), 5);
        assert_eq!(rate.take(client("10.0.0.99"), SECOND), Verdict::Wait { seconds: 1 });
        assert!(rate.is_used_up(client("10.0.0.7"), SECOND));
        assert!(through("10.0.1.1", SECOND));
        // Ten more in each second, however many requests come.
        let let_in = (0..3000).filter(|i| through("10.0.0.1", SECOND + i * SECOND / 1000)).count();
        assert!((29..=31).contains(&let_in), "{let_in}");
        // After a pause the burst is there again, and no more.
        assert_eq!((0..20).filter(|_| through("10.0.0.1", 100 * SECOND)).count(), 5);
        assert!(through("2001:db8::1", SECOND) && !rate.is_used_up(client("2001:db8::2"), SECOND));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_buckets_that_are_full_again() {
        let rate = rate(1);
        let client = |number: u32| IpAddr::from((number << 8).to_be_bytes());
        let verdicts: Vec<_> = (0..200_000).map(|number| rate.take(client(number), SECOND)).collect();
        let untracked = verdicts.iter().filter(|verdict| **verdict == Verdict::Untracked).count();
        assert!(untracked >= 200_000 - NETWORKS_MAX, "{untracked}");
        let held = |rate: &Rate| {
            rate.shards.iter().map(|shard| shard.lock().expect("no panic").full_at_ns.len()).sum::<usize>()
        };
        assert!(held(&rate) <= NETWORKS_MAX);
        assert_eq!(rate.take(client(199_999), 5 * SECOND), Verdict::Through);
        assert!(held(&rate) < NETWORKS_MAX);
    }
}
