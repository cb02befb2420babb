//! What is expected of a client whose speed is not measured yet: what other clients of its address or network did.

use crate::http::access::masked;
use crate::policy::advice::Link;
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Addresses, and as many networks, of which something is kept.
const PLACES_MAX: usize = 32_768;
/// What was found out weighs half as much after this time.
const HALF_LIFE_MS: f64 = 180_000.0;
/// An expectation holds for so long after the last reading; then the bandwidth is measured anew. Every response
/// measures a slow client. A client that has become fast is not measured while it gets small files only: the expiry
/// lets it recover.
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
    /// By a hash that is seeded anew with each start, and takes a third of SipHash's time; how many there are is
    /// bounded.
    of: HashMap<IpAddr, Prior, RandomState>,
    evicted: u64,
}

/// What is expected of a place; either is learnt by itself.
#[derive(Debug, Clone, Copy, Default)]
struct Prior {
    bandwidth_bps: Option<Mean>,
    rtt_s: Option<Mean>,
}

/// A mean of logarithms, as bandwidths and round trips differ by factors.
#[derive(Debug, Clone, Copy)]
struct Mean {
    log: f64,
    weight: f64,
    at_ms: u64,
}

impl Mean {
    fn weight(&self, now_ms: u64) -> f64 {
        self.weight * (-(now_ms.saturating_sub(self.at_ms) as f64) / HALF_LIFE_MS).exp2()
    }

    /// The mean as long as it holds.
    fn value(&self, now_ms: u64) -> Option<f64> {
        (now_ms.saturating_sub(self.at_ms) <= HOLD_MS).then(|| self.log.exp())
    }

    fn learn(mean: &mut Option<Self>, value: f64, now_ms: u64) {
        let before = mean.map_or(0.0, |mean| mean.weight(now_ms).min(WEIGHT_MAX - 1.0));
        let log = mean.map_or(0.0, |mean| mean.log);
        *mean = Some(Self { log: (log * before + value.ln()) / (before + 1.0), weight: before + 1.0, at_ms: now_ms });
    }
}

impl Prior {
    fn weight(&self, now_ms: u64) -> f64 {
        let weight = |mean: Option<Mean>| mean.map_or(0.0, |mean| mean.weight(now_ms));
        weight(self.bandwidth_bps).max(weight(self.rtt_s))
    }

    /// When something was learnt last.
    fn at_ms(&self) -> u64 {
        let at_ms = |mean: Option<Mean>| mean.map_or(0, |mean| mean.at_ms);
        at_ms(self.bandwidth_bps).max(at_ms(self.rtt_s))
    }
}

/// What is expected of places of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Places of which something is kept.
    pub kept: u64,
    /// The 10th, 50th and 90th of hundred bandwidths that hold, bits a second; none where none does.
    pub bandwidth_bps: Option<[f64; 3]>,
    /// The same of round trips, seconds.
    pub rtt_s: Option<[f64; 3]>,
    /// Those of which something was learnt last, the latest first.
    pub freshest: Vec<ExpectedOf>,
}

/// What is expected of one place.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedOf {
    /// The network, an address, or a name made up for it.
    pub place: String,
    /// Bits a second, as long as that holds.
    pub bandwidth_bps: Option<f64>,
    /// Round trip in seconds, likewise.
    pub rtt_s: Option<f64>,
    /// How long ago something was learnt, milliseconds.
    pub age_ms: u64,
}

/// What is kept of a client's address and of its network, looked up once for all that is asked of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known([Option<Prior>; 2]);

impl Known {
    /// What is expected where the link itself has not shown it: by the address, else by the network.
    pub(crate) fn fill_up(&self, link: Link, now_ms: u64) -> Link {
        self.0.iter().flatten().fold(link, |link, prior| Link {
            bandwidth_bps: link.bandwidth_bps.or_else(|| prior.bandwidth_bps?.value(now_ms)),
            rtt_s: link.rtt_s.or_else(|| prior.rtt_s?.value(now_ms)),
        })
    }

    /// Whether a round trip of the address is known that still holds.
    pub(crate) fn holds_rtt(&self, now_ms: u64) -> bool {
        let rtt_s = self.0[0].and_then(|prior| prior.rtt_s);
        rtt_s.is_some_and(|mean| now_ms.saturating_sub(mean.at_ms) <= HOLD_MS)
    }
}

impl Priors {
    /// Takes note of what a client's connection showed. Bandwidth and round trip are noted independently, as a client
    /// that takes small files only shows no bandwidth.
    pub(crate) fn learn(&self, client: IpAddr, link: Link, now_ms: u64) {
        let known = |value: Option<f64>| value.filter(|value| *value > 0.0 && value.is_finite());
        let (bandwidth_bps, rtt_s) = (known(link.bandwidth_bps), known(link.rtt_s));
        if client.is_unspecified() || (bandwidth_bps.is_none() && rtt_s.is_none()) {
            return;
        }
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, places) in [client, network(client)].into_iter().zip(places.iter_mut()) {
            places.learn(place, bandwidth_bps, rtt_s, now_ms);
        }
    }

    /// A client that is expected to be slower is at least so fast. Its network may be as it was.
    pub(crate) fn raise(&self, client: IpAddr, bps: f64, now_ms: u64) {
        if client.is_unspecified() || !bps.is_finite() {
            return;
        }
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match places[0].of.get_mut(&client).and_then(|prior| prior.bandwidth_bps.as_mut()) {
            Some(mean) => *mean = Mean { log: mean.log.max(bps.ln()), weight: 1.0, at_ms: now_ms },
            None => places[0].learn(client, Some(bps), None, now_ms),
        }
    }

    /// What is known of a client's address and of its network.
    pub(crate) fn known(&self, client: IpAddr) -> Known {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Known([places[0].of.get(&client).copied(), places[1].of.get(&network(client)).copied()])
    }

    /// Addresses and networks of which something is kept, and those that were given up for others.
    pub(crate) fn fill(&self) -> (u64, u64) {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().fold((0, 0), |(kept, evicted), places| (kept + places.of.len() as u64, evicted + places.evicted))
    }

    /// What is expected of addresses, and of networks, with at most so many of each by name. Loops may wait for it some
    /// tenths of a millisecond, so it is not to be asked often.
    pub(crate) fn expected(&self, most: usize, now_ms: u64, name: impl Fn(IpAddr) -> String) -> [Expected; 2] {
        std::array::from_fn(|kind| {
            let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all: Vec<(IpAddr, Prior)> = places[kind].of.iter().map(|(place, prior)| (*place, *prior)).collect();
            drop(places);
            expected(all, most, now_ms, |place| if kind == 0 { name(place) } else { network_name(place) })
        })
    }
}

fn expected(mut all: Vec<(IpAddr, Prior)>, most: usize, now_ms: u64, name: impl Fn(IpAddr) -> String) -> Expected {
    let values = |mean: fn(&Prior) -> Option<Mean>| {
        let mut values: Vec<f64> = all.iter().filter_map(|(_, prior)| mean(prior)?.value(now_ms)).collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some([0.1, 0.5, 0.9].map(|share| values[(last as f64 * share).round() as usize]))
    };
    let (kept, bandwidth_bps) = (all.len() as u64, values(|prior| prior.bandwidth_bps));
    let rtt_s = values(|prior| prior.rtt_s);
    // Of equal ones always the same.
    let order = |(place, prior): &(IpAddr, Prior)| (std::cmp::Reverse(prior.at_ms()), *place);
    if all.len() > most {
        all.select_nth_unstable_by_key(most, order);
        all.truncate(most);
    }
    all.sort_unstable_by_key(order);
    let freshest = all.into_iter().map(|(place, prior)| ExpectedOf {
        place: name(place),
        bandwidth_bps: prior.bandwidth_bps.and_then(|mean| mean.value(now_ms)),
        rtt_s: prior.rtt_s.and_then(|mean| mean.value(now_ms)),
        age_ms: now_ms.saturating_sub(prior.at_ms()),
    });
    Expected { kept, bandwidth_bps, rtt_s, freshest: freshest.collect() }
}

/// A network as people write it.
fn network_name(network: IpAddr) -> String {
    let [v4, v6] = NETWORK_BITS;
    format!("{network}/{}", if network.is_ipv4() { v4 } else { v6 })
}

impl Places {
    fn learn(&mut self, place: IpAddr, bandwidth_bps: Option<f64>, rtt_s: Option<f64>, now_ms: u64) {
        if self.of.len() >= PLACES_MAX && !self.of.contains_key(&place) {
            // The one that says least, among some: to look for the least of all would hold the others up.
            let least = |some: &HashMap<IpAddr, Prior, RandomState>| {
                let some = some.iter().take(32);
                some.min_by(|a, b| a.1.weight(now_ms).total_cmp(&b.1.weight(now_ms))).map(|(place, _)| *place)
            };
            if let Some(least) = least(&self.of) {
                self.of.remove(&least);
                self.evicted += 1;
            }
        }
        let prior = self.of.entry(place).or_default();
        bandwidth_bps.into_iter().for_each(|bps| Mean::learn(&mut prior.bandwidth_bps, bps, now_ms));
        rtt_s.into_iter().for_each(|rtt_s| Mean::learn(&mut prior.rtt_s, rtt_s, now_ms));
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
        let bps =
            |text, now_ms| priors.known(client(text)).fill_up(Link::default(), now_ms).bandwidth_bps.map(f64::round);
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
    fn a_round_trip_is_learnt_without_a_bandwidth_and_each_holds_by_itself() {
        let priors = Priors::default();
        let client = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let rtt = |rtt_s| Link { bandwidth_bps: None, rtt_s: Some(rtt_s) };
        priors.learn(client("10.0.0.1"), rtt(0.02), 0);
        priors.learn(client("10.0.0.2"), rtt(0.08), 0);
        let of = |text, now_ms| priors.known(client(text)).fill_up(Link::default(), now_ms);
        let close = |link: Link, wanted: f64| link.rtt_s.is_some_and(|rtt_s| (rtt_s - wanted).abs() < 1e-9);
        assert!(close(of("10.0.0.1", 0), 0.02) && of("10.0.0.1", 0).bandwidth_bps.is_none());
        assert!(close(of("10.0.0.9", 0), 0.04), "the mean of factors: {:?}", of("10.0.0.9", 0));
        // An address of which only the bandwidth is known has the round trip of its network.
        priors.learn(client("10.0.0.3"), Link { bandwidth_bps: Some(1e5), rtt_s: None }, 100_000);
        let link = of("10.0.0.3", 100_000);
        assert!(close(link, 0.04) && link.bandwidth_bps.map(f64::round) == Some(1e5));
        assert_eq!(of("10.0.0.3", 130_000).rtt_s, None, "the bandwidth is fresher, and does not keep it up");
    }

    #[test]
    fn what_is_told_is_the_freshest_with_shares_of_all_and_networks_are_cut() {
        let priors = Priors::default();
        for number in 0..100_u8 {
            let client = IpAddr::from([10, 0, number % 4, number]);
            priors.learn(client, Link { bandwidth_bps: Some(f64::from(number) + 1.0), rtt_s: None }, u64::from(number));
        }
        let [addresses, networks] = priors.expected(3, 100, |_| "hidden".to_owned());
        assert_eq!((addresses.kept, networks.kept), (100, 4));
        let shares = addresses.bandwidth_bps.expect("known").map(f64::round);
        assert_eq!((shares, addresses.rtt_s), ([11.0, 51.0, 90.0], None));
        let ages: Vec<_> = addresses.freshest.iter().map(|one| (one.place.as_str(), one.age_ms)).collect();
        assert_eq!(ages, [("hidden", 1), ("hidden", 2), ("hidden", 3)]);
        assert_eq!(networks.freshest[0].place, "10.0.3.0/24");
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
