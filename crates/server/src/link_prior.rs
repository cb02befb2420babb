//! What is expected of a client that has not shown yet how fast it is: what others of its address or its network did.

use crate::advice::Link;
use crate::front::access::masked;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Addresses, and as many networks, of which something is kept.
const PLACES_MAX: usize = 32_768;
/// What was found out weighs half as much after this time.
const HALF_LIFE_MS: f64 = 180_000.0;
/// So long after the last reading something is expected; then it is found out anew. A client that is slow is measured
/// with whatever it takes; one that has become fast is not, while it gets small files only: it has its way back by this.
const HOLD_MS: u64 = 120_000;
/// However much was found out, later readings count.
const WEIGHT_MAX: f64 = 20.0;
/// Bits of an address of IPv4 and of IPv6 that make a network.
const NETWORK_BITS: [u32; 2] = [24, 48];

/// Expectations by address and by network; all loops share them.
#[derive(Debug, Default)]
pub(crate) struct Priors(Mutex<[Places; 2]>);

#[derive(Debug, Default)]
struct Places {
    of: HashMap<IpAddr, Prior>,
    evicted: u64,
}

/// A mean of logarithms, as bandwidths differ by factors.
#[derive(Debug, Clone, Copy)]
struct Prior {
    log_bps: f64,
    rtt_s: Option<f64>,
    weight: f64,
    at_ms: u64,
}

impl Prior {
    fn weight(&self, now_ms: u64) -> f64 {
        self.weight * (-(now_ms.saturating_sub(self.at_ms) as f64) / HALF_LIFE_MS).exp2()
    }
}

impl Priors {
    /// Takes note of what a client's connection showed.
    pub(crate) fn learn(&self, client: IpAddr, link: Link, now_ms: u64) {
        let Some(bps) = link.bandwidth_bps.filter(|bps| *bps > 0.0 && bps.is_finite() && !client.is_unspecified())
        else {
            return;
        };
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, places) in [client, network(client)].into_iter().zip(places.iter_mut()) {
            places.learn(place, bps.ln(), link.rtt_s, now_ms);
        }
    }

    /// A client that is expected to be slower is at least so fast. Its network may be as it was.
    pub(crate) fn raise(&self, client: IpAddr, bps: f64, now_ms: u64) {
        if client.is_unspecified() || !bps.is_finite() {
            return;
        }
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match places[0].of.get_mut(&client) {
            Some(prior) => {
                (prior.log_bps, prior.weight, prior.at_ms) = (prior.log_bps.max(bps.ln()), 1.0, now_ms);
            }
            None => places[0].learn(client, bps.ln(), None, now_ms),
        }
    }

    /// What is expected of a client: by its address, else by its network.
    pub(crate) fn of(&self, client: IpAddr, now_ms: u64) -> Link {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = [client, network(client)].into_iter().zip(places.iter()).find_map(|(place, places)| {
            places.of.get(&place).filter(|prior| now_ms.saturating_sub(prior.at_ms) <= HOLD_MS)
        });
        known.map_or_else(Link::default, |prior| Link { bandwidth_bps: Some(prior.log_bps.exp()), rtt_s: prior.rtt_s })
    }

    /// Addresses and networks of which something is kept, and those that were given up for others.
    pub(crate) fn fill(&self) -> (u64, u64) {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().fold((0, 0), |(kept, evicted), places| (kept + places.of.len() as u64, evicted + places.evicted))
    }
}

impl Places {
    fn learn(&mut self, place: IpAddr, log_bps: f64, rtt_s: Option<f64>, now_ms: u64) {
        if let Some(prior) = self.of.get_mut(&place) {
            let before = prior.weight(now_ms).min(WEIGHT_MAX - 1.0);
            prior.log_bps = (prior.log_bps * before + log_bps) / (before + 1.0);
            prior.rtt_s = rtt_s.or(prior.rtt_s);
            (prior.weight, prior.at_ms) = (before + 1.0, now_ms);
            return;
        }
        if self.of.len() >= PLACES_MAX {
            // The one that says least, among some: to look for the least of all would hold the others up.
            let least = |some: &HashMap<IpAddr, Prior>| {
                let some = some.iter().take(32);
                some.min_by(|a, b| a.1.weight(now_ms).total_cmp(&b.1.weight(now_ms))).map(|(place, _)| *place)
            };
            if let Some(least) = least(&self.of) {
                self.of.remove(&least);
                self.evicted += 1;
            }
        }
        self.of.insert(place, Prior { log_bps, rtt_s, weight: 1.0, at_ms: now_ms });
    }
}

fn network(client: IpAddr) -> IpAddr {
    let [v4, v6] = NETWORK_BITS;
    masked(client, if client.is_ipv4() { v4 } else { v6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bps: f64) -> Link {
        Link { bandwidth_bps: Some(bps), rtt_s: Some(0.05) }
    }

    #[test]
    fn an_address_counts_before_its_network_and_both_fade() {
        let priors = Priors::default();
        let client = |text: &str| -> IpAddr { text.parse().expect("an address") };
        priors.learn(client("10.0.0.1"), of(1e5), 0);
        priors.learn(client("10.0.0.2"), of(1e7), 0);
        let bps = |text, now_ms| priors.of(client(text), now_ms).bandwidth_bps.map(f64::round);
        assert_eq!(bps("10.0.0.1", 0), Some(1e5));
        assert_eq!(bps("10.0.0.9", 0), Some(1e6), "the mean of factors");
        assert_eq!(bps("10.0.1.1", 0), None);
        assert_eq!(bps("10.0.0.1", 120_000), Some(1e5));
        priors.learn(client("10.0.0.2"), of(1e6), 100_000);
        assert_eq!(bps("10.0.0.1", 121_000), bps("10.0.0.9", 121_000), "of the network there is more, and newer");
        assert!(bps("10.0.0.9", 121_000) > Some(9e5) && bps("10.0.0.1", 221_000).is_none());
        priors.raise(client("10.0.0.2"), 5e7, 100_000);
        priors.raise(client("10.0.0.2"), 5e4, 100_000);
        assert_eq!(bps("10.0.0.2", 100_000), Some(5e7));
        assert!(bps("10.0.0.9", 100_000) < Some(2e6), "its network is as it was");
        priors.learn(client("2001:db8:1:2::3"), of(5e4), 0);
        assert_eq!(bps("2001:db8:1:9::9", 0), Some(5e4));
        priors.learn(client("0.0.0.0"), of(5e4), 0);
        assert_eq!(bps("0.0.0.0", 0), None, "of a Unix socket nothing is known");
    }

    #[test]
    fn the_table_is_bounded_and_counts_what_it_gives_up() {
        let priors = Priors::default();
        for number in 0..40_000_u32 {
            priors.learn(IpAddr::from((number << 8 | 1).to_be_bytes()), of(1e5), u64::from(number));
        }
        let (kept, evicted) = priors.fill();
        assert_eq!((kept, kept + evicted), (2 * PLACES_MAX as u64, 80_000));
    }
}
