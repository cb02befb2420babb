//! Tells a flash crowd from a denial of service (after Jung, Krishnamurthy and Rabinovich 2002).
//!
//! Both are more requests than before. In a flash crowd the clients grow with the requests while the rate of each does
//! not, most of the clients' networks were seen before, and few files take most requests; an attack differs in all
//! three. The server counts requests here, in bounded memory, and asks at the end of each interval.
//!
//! The usual load is the median of the last intervals, surges included. It follows lasting growth, so a site that has
//! grown is not in a crowd for ever, and a short surge does not move it.

use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt;

/// Registers of the count of clients: within 3.3 % (standard error) for any number of clients.
const REGISTERS: usize = 1024;
/// Bits of the memory of networks; it forgets the older half when a quarter of them is set.
const NETWORK_BITS: usize = 1 << 18;
/// Files whose requests are counted at once; the least asked gives its place to a new one.
const FILES_MAX: usize = 128;
/// The files that are few.
const FEW_FILES: usize = 10;
/// So many times the requests of before are a surge.
const SURGE: f64 = 2.0;
/// Requests of an interval below which it counts as one of so many. A share of fewer is known to no better than 14 points
/// (two standard errors of a half), and what a file and a client have of them is chance; no server is in need of help then.
const REQUESTS_LEAST: f64 = 50.0;
/// Intervals of which the usual one is the median. A surge becomes usual once it fills more than half of them: with
/// intervals of ten seconds after five minutes. By then people were alerted long ago, as floods rise within one minute.
const REMEMBERED: usize = 60;
/// A client's rate that grows by more is no crowd's.
const RATE_GROWTH_MAX: f64 = 2.0;
/// The least share that is most.
const MOST: f64 = 0.5;

/// Counts the requests of an interval, and remembers networks of those before.
#[derive(Debug, Clone)]
pub struct Crowd {
    requests: u64,
    clients: Box<[u8; REGISTERS]>,
    /// Networks of this interval, and how many of them were seen before.
    networks: FxHashMap<u64, bool>,
    /// Two generations, so that forgetting one loses no more than what is old.
    seen: [Vec<u64>; 2],
    set: usize,
    files: FxHashMap<u64, u64>,
    /// Networks beyond those that an interval has room for.
    networks_dropped: u64,
    /// Requests of whose file nothing was told, and of whose client.
    fileless: u64,
    clientless: u64,
    /// Requests and clients of the last intervals, the oldest first.
    before: VecDeque<(u64, f64)>,
}

/// Networks of an interval that are looked at; more are counted as dropped.
const NETWORKS_MAX: usize = 16_384;

/// What was seen in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Requests.
    pub requests: u64,
    /// Different clients, estimated.
    pub clients: f64,
    /// Share of the clients' networks that earlier calm intervals had, 0 to 1.
    pub networks_known: f64,
    /// Share of the requests that the ten most asked files took, 0 to 1.
    pub few_files: f64,
    /// Networks that were not looked at, as there were too many.
    pub networks_dropped: u64,
    /// Requests among them whose client or file was not looked at: with many, the clients are too few.
    pub passed_over: u64,
}

/// What is usual, by the intervals before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usual {
    /// Requests of an interval: the median.
    pub requests: f64,
    /// Requests of one client in an interval, at least one.
    pub requests_of_client: f64,
}

/// What an interval is, compared with the usual one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Not more than twice the usual requests, which count as 50 if they are fewer, or nothing to compare with.
    Calm,
    /// All three signs speak for a crowd.
    FlashCrowd,
    /// None of them does.
    Attack,
    /// Some do and some do not.
    Unclear,
}

/// A judgement with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// What it is.
    pub kind: Kind,
    /// The three signs, empty in a calm interval.
    pub signs: Vec<Sign>,
}

/// A sign, and for what it speaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sign {
    /// Whether it speaks for a flash crowd.
    pub crowd: bool,
    /// The sign in words, with its figures.
    pub what: String,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            requests: 0,
            clients: Box::new([0; REGISTERS]),
            networks: FxHashMap::default(),
            seen: [vec![0; NETWORK_BITS / 64], vec![0; NETWORK_BITS / 64]],
            set: 0,
            files: FxHashMap::default(),
            networks_dropped: 0,
            fileless: 0,
            clientless: 0,
            before: VecDeque::new(),
        }
    }
}

impl Crowd {
    /// Counts a request of a client in a network (such as the first 24 bits of an IPv4 address) for a file: any
    /// numbers that are the same for the same ones.
    pub fn push(&mut self, client: u64, network: u64, file: u64) {
        self.came(client, network);
        self.asked(file, 1);
    }

    /// A client in a network asked for something: once or more often.
    pub fn came(&mut self, client: u64, network: u64) {
        let hash = mixed(client);
        let register = &mut self.clients[(hash % REGISTERS as u64) as usize];
        *register = (*register).max((hash / REGISTERS as u64).trailing_zeros().min(53) as u8 + 1);
        if self.networks.len() < NETWORKS_MAX || self.networks.contains_key(&network) {
            let seen = &self.seen;
            self.networks.entry(network).or_insert_with(|| {
                seen.iter().any(|generation| bits(network).all(|(word, bit)| generation[word] & bit != 0))
            });
        } else {
            self.networks_dropped += 1;
        }
    }

    /// A file was asked for so many times.
    pub fn asked(&mut self, file: u64, times: u64) {
        self.requests += times;
        if let Some(count) = self.files.get_mut(&file) {
            *count += times;
            return;
        }
        // The newcomer inherits the count of the file that it displaces, so that no count is too low (Metwally 2005).
        let least = if self.files.len() < FILES_MAX {
            None
        } else {
            self.files.iter().map(|(file, count)| (*count, *file)).min()
        };
        let inherited = least.map_or(0, |(count, file)| {
            self.files.remove(&file);
            count
        });
        self.files.insert(file, inherited + times);
    }

    /// Counts requests whose file is unknown, and requests whose client is unknown; a request may be among both.
    pub fn passed_over(&mut self, fileless: u64, clientless: u64) {
        self.requests += fileless;
        self.fileless += fileless;
        self.clientless += clientless;
    }

    /// The interval is over: what it was, beside the usual one. The next one begins.
    pub fn judge(&mut self) -> (Interval, Judgement) {
        let interval = self.interval();
        let judgement = judge(self.usual().as_ref(), &interval);
        if self.before.len() == REMEMBERED {
            self.before.pop_front();
        }
        self.before.push_back((interval.requests, interval.clients));
        if judgement.kind == Kind::Calm {
            self.remember();
        }
        // In a surge networks are as new as they were when it began.
        self.networks.clear();
        self.requests = 0;
        self.networks_dropped = 0;
        (self.fileless, self.clientless) = (0, 0);
        self.clients.fill(0);
        self.files.clear();
        (interval, judgement)
    }

    /// What is usual; `None` if there was no interval yet.
    pub fn usual(&self) -> Option<Usual> {
        let mut requests: Vec<u64> = self.before.iter().map(|(requests, _)| *requests).collect();
        requests.sort_unstable();
        // Of two in the middle the lower one, as what is new is not usual yet.
        let requests = *requests.get(requests.len().checked_sub(1)? / 2)? as f64;
        // A surge among them says nothing of how much a client asks for.
        let ordinary = self.before.iter().filter(|(of_it, _)| *of_it as f64 <= surge_beyond(requests));
        let (asked, clients) = ordinary
            .fold((0.0, 0.0), |(asked, clients), (requests, of_it)| (asked + *requests as f64, clients + of_it));
        // If no client came in these intervals, one request a client is assumed.
        let requests_of_client = if clients > 0.0 { (asked / clients).max(1.0) } else { 1.0 };
        Some(Usual { requests, requests_of_client })
    }

    fn interval(&self) -> Interval {
        let known = self.networks.values().filter(|known| **known).count();
        let mut files: Vec<u64> = self.files.values().copied().collect();
        files.sort_unstable_by(|one, other| other.cmp(one));
        let few: u64 = files.iter().take(FEW_FILES).sum();
        Interval {
            requests: self.requests,
            clients: distinct(&self.clients),
            networks_known: known as f64 / self.networks.len().max(1) as f64,
            // Inherited counts can make it too high, never more than all.
            few_files: (few as f64 / (self.requests - self.fileless).max(1) as f64).min(1.0),
            networks_dropped: self.networks_dropped,
            // One of which neither is known counts twice.
            passed_over: (self.fileless + self.clientless).min(self.requests),
        }
    }

    fn remember(&mut self) {
        for network in std::mem::take(&mut self.networks).into_keys() {
            for (word, bit) in bits(network) {
                self.set += usize::from(self.seen[0][word] & bit == 0);
                self.seen[0][word] |= bit;
            }
            if self.set > NETWORK_BITS / 4 {
                self.seen.swap(0, 1);
                self.seen[0].fill(0);
                self.set = 0;
            }
        }
    }
}

/// More requests than these are a surge.
fn surge_beyond(usual_requests: f64) -> f64 {
    SURGE * usual_requests.max(REQUESTS_LEAST)
}

/// What an interval is, beside what is usual.
pub fn judge(usual: Option<&Usual>, now: &Interval) -> Judgement {
    let Some(usual) = usual.filter(|usual| now.requests as f64 > surge_beyond(usual.requests)) else {
        return Judgement { kind: Kind::Calm, signs: Vec::new() };
    };
    let requests = now.requests as f64 / usual.requests.max(1.0);
    let clients = now.clients / (usual.requests / usual.requests_of_client).max(1.0);
    let of_client = now.requests as f64 / now.clients.max(1.0);
    let signs = vec![
        Sign {
            crowd: of_client <= RATE_GROWTH_MAX * usual.requests_of_client,
            what: format!("{requests:.1} times the requests come from {clients:.1} times the clients"),
        },
        Sign {
            crowd: now.networks_known > MOST,
            what: format!("{:.0}% of the networks were seen before", 100.0 * now.networks_known),
        },
        Sign {
            crowd: now.few_files > MOST,
            what: format!("{FEW_FILES} files take {:.0}% of the requests", 100.0 * now.few_files),
        },
    ];
    let kind = match signs.iter().filter(|sign| sign.crowd).count() {
        3 => Kind::FlashCrowd,
        0 => Kind::Attack,
        _ => Kind::Unclear,
    };
    Judgement { kind, signs }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Calm => "calm",
            Kind::FlashCrowd => "a flash crowd",
            Kind::Attack => "a denial of service",
            Kind::Unclear => "a surge, crowd or attack",
        })?;
        for (at, sign) in self.signs.iter().enumerate() {
            let side = if sign.crowd { "for" } else { "against" };
            write!(f, "{} {} ({side} a crowd)", if at == 0 { ":" } else { ";" }, sign.what)?;
        }
        Ok(())
    }
}

/// SplitMix64's last step: numbers that are near each other are far apart behind it.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The two bits of a network: (word, bit in it).
fn bits(network: u64) -> impl Iterator<Item = (usize, u64)> {
    let hash = mixed(network);
    [hash, hash >> 32].into_iter().map(|hash| {
        let bit = (hash % NETWORK_BITS as u64) as usize;
        (bit / 64, 1 << (bit % 64))
    })
}

/// HyperLogLog's estimate, and linear counting below it (Flajolet 2007).
fn distinct(registers: &[u8; REGISTERS]) -> f64 {
    let count = REGISTERS as f64;
    let empty = registers.iter().filter(|register| **register == 0).count() as f64;
    let sum: f64 = registers.iter().map(|register| (-f64::from(*register)).exp2()).sum();
    let estimate = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    if estimate <= 2.5 * count && empty > 0.0 { count * (count / empty).ln() } else { estimate }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of a site: 2,000 clients of 400 networks, 300 files of which some are asked more.
    fn calm(crowd: &mut Crowd) {
        for n in 0..10_000u64 {
            let client = mixed(n) % 2_000;
            crowd.push(client, client % 400, mixed(n + 7) % (1 + mixed(n + 9) % 300));
        }
    }

    #[test]
    fn a_crowd_is_told_from_an_attack() {
        let mut crowd = Crowd::default();
        calm(&mut crowd);
        assert_eq!(crowd.judge().1.kind, Kind::Calm);
        calm(&mut crowd);
        let (interval, judgement) = crowd.judge();
        assert_eq!(judgement.kind, Kind::Calm);
        assert!((1_800.0..2_200.0).contains(&interval.clients), "{interval:?}");
        assert!(interval.networks_known > 0.99, "{interval:?}");
        // Ten times the clients of known networks want the same page.
        for n in 0..100_000u64 {
            let client = mixed(n) % 20_000;
            crowd.push(client, client % 500, if n % 4 == 0 { n % 300 } else { 5 });
        }
        let (_, judgement) = crowd.judge();
        assert_eq!(judgement.kind, Kind::FlashCrowd, "{judgement}");
        assert!(judgement.to_string().contains("10.0 times the requests come from"), "{judgement}");
        // Clients as many as before, from anywhere, ask for everything.
        for n in 0..100_000u64 {
            crowd.push(5_000_000 + mixed(n) % 2_000, 9_000_000 + mixed(n) % 2_000, mixed(n) % 4_000);
        }
        let (interval, judgement) = crowd.judge();
        assert_eq!(judgement.kind, Kind::Attack, "{judgement} {interval:?}");
        // Unknown networks want the same page.
        for n in 0..100_000u64 {
            crowd.push(mixed(n) % 20_000, 70_000_000 + mixed(n) % 3_000, 5);
        }
        assert_eq!(crowd.judge().1.kind, Kind::Unclear);
    }

    /// An interval: so many requests of so many clients in so many networks, for few files (`is_for_few`) or for all
    /// alike.
    fn asks(crowd: &mut Crowd, (requests, clients, networks): (u64, u64, u64), is_for_few: bool) -> Kind {
        for n in 0..requests {
            let client = n % clients;
            crowd.push(client, client % networks, if is_for_few && n % 4 > 0 { n % 5 } else { mixed(n) % 300 });
        }
        crowd.judge().1.kind
    }

    /// An attack: few clients of unknown networks ask for everything.
    fn attack(crowd: &mut Crowd, requests: u64) -> Kind {
        for n in 0..requests {
            crowd.push(1_000_000 + n % 20, 1_000_000 + n % 20, mixed(n) % 300);
        }
        crowd.judge().1.kind
    }

    #[test]
    fn one_request_after_idle_intervals_is_no_surge() {
        for idle in [0, 1, 5, 200] {
            let mut crowd = Crowd::default();
            (0..idle).for_each(|_| assert_eq!(asks(&mut crowd, (0, 1, 1), false), Kind::Calm));
            for requests in [1, 2, 0, 40, 1, 100] {
                assert_eq!(asks(&mut crowd, (requests, 1, 1), true), Kind::Calm, "{requests} after {idle}");
            }
        }
    }

    /// After how many intervals of the same kind of load it is calm again.
    fn until_calm(crowd: &mut Crowd, load: (u64, u64, u64)) -> usize {
        let calm = (1..1000).find(|_| asks(crowd, load, false) == Kind::Calm).expect("it lasts long enough");
        for _ in 0..200 {
            assert_eq!(asks(crowd, load, false), Kind::Calm, "and stays so");
        }
        calm
    }

    #[test]
    fn what_lasts_becomes_the_usual_thing() {
        for (idle, intervals) in [(1, 3), (20, 22), (REMEMBERED, REMEMBERED / 2 + 2), (1000, REMEMBERED / 2 + 2)] {
            let mut crowd = Crowd::default();
            (0..idle).for_each(|_| assert_eq!(asks(&mut crowd, (0, 1, 1), false), Kind::Calm));
            // Twenty requests a second.
            assert_eq!(until_calm(&mut crowd, (200, 20, 10)), intervals, "after {idle}");
        }
        let mut crowd = Crowd::default();
        (0..100).for_each(|_| assert_eq!(asks(&mut crowd, (500, 100, 50), false), Kind::Calm));
        // It grows by a tenth an interval to ten times of what it was: for a while it is more than twice the usual.
        let mut surges = 0;
        for interval in 0..25 {
            let requests = (500.0 * 1.1f64.powi(interval)).min(5000.0) as u64;
            surges += usize::from(asks(&mut crowd, (requests, requests / 5, 50), false) != Kind::Calm);
        }
        assert!(surges > 5, "{surges}");
        let calm = until_calm(&mut crowd, (5000, 1000, 50));
        assert!(calm <= REMEMBERED / 2 + 2, "{calm}");
        // What is less than that again is calm at once, and what was usual once is a surge after as long.
        assert_eq!(until_calm(&mut crowd, (500, 100, 50)), 1);
        assert_ne!(asks(&mut crowd, (5000, 1000, 50), false), Kind::Calm);
    }

    #[test]
    fn a_crowd_and_an_attack_are_told_from_a_low_beginning_for_as_long_as_they_are_new() {
        // So few that an interval by itself would say nothing, and some intervals without requests.
        for low in [20, 4] {
            let calm = |crowd: &mut Crowd| {
                for interval in 0..100 {
                    let requests = if interval % 3 == 0 { 0 } else { low };
                    assert_eq!(asks(crowd, (requests, low / 2, low / 2), false), Kind::Calm);
                }
            };
            let mut crowd = Crowd::default();
            calm(&mut crowd);
            for interval in 0..REMEMBERED / 2 {
                // Twice the usual requests of a client, from known networks.
                let kind = asks(&mut crowd, (5000, 2500, low / 2), true);
                assert_eq!(kind, Kind::FlashCrowd, "in interval {interval}: {:?}", crowd.usual());
            }
            // The surge leaves what is usual as it was.
            let mut crowd = Crowd::default();
            calm(&mut crowd);
            for interval in 0..REMEMBERED / 3 {
                assert_eq!(attack(&mut crowd, 5000), Kind::Attack, "in interval {interval}");
            }
            (0..3).for_each(|_| assert_eq!(asks(&mut crowd, (low, low / 2, low / 2), false), Kind::Calm));
            assert_eq!(asks(&mut crowd, (5000, 2500, low / 2), true), Kind::FlashCrowd);
            assert_eq!(attack(&mut crowd, 150), Kind::Attack);
            assert_eq!(attack(&mut crowd, 100), Kind::Calm, "of so few nothing is said");
        }
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let mut crowd = Crowd::default();
        for n in 0..100_000u64 {
            crowd.push(n, n, n);
        }
        assert!(crowd.networks.len() <= NETWORKS_MAX && crowd.files.len() <= FILES_MAX);
        let (interval, _) = crowd.judge();
        assert!((90_000.0..110_000.0).contains(&interval.clients), "{interval:?}");
        assert_eq!(interval.networks_dropped, 100_000 - NETWORKS_MAX as u64);
        (0..1000).for_each(|_| drop(crowd.judge()));
        assert_eq!(crowd.before.len(), REMEMBERED);
    }
}
