//! Which server of an upstream gets a request. Each loop has a [`Balancer`] of its own; what it knows of load is its
//! own requests, of which a loop of many has a fair sample.
//!
//! - *waiting*: the fewest requests under way for the weight, of equal ones the one that answers first.
//! - *round robin*: smooth weighted round robin: at each turn every server gains its weight, and the one that has the
//!   most gives up the sum of all.
//! - *hash*: rendezvous hashing (Thaler, Ravishankar: A name-based mapping scheme for rendezvous, 1996) with weights
//!   (Schindelhauer, Schomaker: Weighted distributed hash tables, 2005) and bounded loads (Mirrokni, Thorup,
//!   Zadimoghaddam: Consistent hashing with bounded loads, 2018): a server that has a quarter more than its share
//!   under way leaves further requests to the next one of their order.
//! - *sticky*: a cookie names the server by a keyed hash, which tells nothing of its address.

use super::settings::{Balance, HashOf, SERVERS_MAX, UpstreamServer};
use crate::http::access::masked;
use ring::hmac;
use std::net::IpAddr;

/// How much more than its share a server may have under way until a hash leads elsewhere: one part of so many.
const SLACK_PARTS: u64 = 4;
/// Requests under way beyond its share that a hash bears at each server.
const SLACK_MIN: u64 = 1;
/// Bits of an address of IPv6 that stand for one client.
const CLIENT_BITS: u32 = 64;
/// Hexadecimal digits of a cookie's value.
const ID_BYTES: usize = 16;
/// A new reading counts one part of so many in the mean time to the first byte.
const MEAN_PARTS: u32 = 8;

/// What of a request chooses its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Nothing.
    None,
    /// A hash of what the configuration names.
    Hash(u64),
    /// The server that the client's cookie names; None without a cookie that names one.
    Sticky(Option<usize>),
}

/// What a request is asked for its key.
#[derive(Debug)]
pub(crate) struct Asked<'r, F> {
    /// Names and values of its fields.
    pub(crate) fields: F,
    /// Its path without the query.
    pub(crate) path: &'r [u8],
    pub(crate) client: IpAddr,
}

/// Chooses servers for the requests of one loop.
#[derive(Debug)]
pub(crate) struct Balancer {
    balance: Balance,
    servers: Vec<Server>,
    under_way: u64,
    /// The server that was chosen last, so that equal ones take turns.
    last: usize,
}

#[derive(Debug)]
struct Server {
    weight: u32,
    /// Of its place, so that the order of a configuration does not matter.
    hash: u64,
    id: [u8; ID_BYTES],
    under_way: u32,
    /// Mean time to the first byte; 0 = there was none yet.
    first_byte_us: u32,
    /// What it has gained at turns of round robin.
    gained: i64,
}

impl Balancer {
    /// `secret` keys the values of cookies: as long as it stays the same, clients stay with their servers.
    pub(crate) fn new(balance: Balance, servers: &[UpstreamServer], secret: &[u8; 32]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let servers = servers.iter().take(SERVERS_MAX).map(|server| {
            let place = server.place.to_string();
            Server {
                weight: server.weight,
                hash: hash(place.as_bytes()),
                id: hexadecimal(hmac::sign(&key, place.as_bytes()).as_ref()),
                under_way: 0,
                first_byte_us: 0,
                gained: 0,
            }
        });
        Self { balance, servers: servers.collect(), under_way: 0, last: 0 }
    }

    /// What of a request chooses its server.
    pub(crate) fn key<'r, F>(&self, asked: Asked<'r, F>) -> Key
    where
        F: Iterator<Item = (&'r str, &'r [u8])>,
    {
        let mut fields = asked.fields;
        let text = match &self.balance {
            Balance::Waiting | Balance::RoundRobin => return Key::None,
            Balance::Hash(HashOf::Client) => return Key::Hash(hash_of_client(asked.client)),
            Balance::Hash(HashOf::Path) => return Key::Hash(hash(asked.path)),
            Balance::Hash(HashOf::Header(name)) => {
                fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            }
            Balance::Hash(HashOf::Cookie(name)) => cookie(fields, name),
            Balance::Sticky(name) => {
                let value = cookie(fields, name);
                let server = value.and_then(|value| self.servers.iter().position(|server| server.id == *value));
                return Key::Sticky(server);
            }
        };
        text.map_or(Key::None, |text| Key::Hash(hash(text)))
    }

    /// The server for a request. `shares` are of [`super::health::Health::shares`]; servers whose bit is in `tried`
    /// failed for this request and come last. None only without servers.
    pub(crate) fn choose(&mut self, key: Key, shares: &[u32; SERVERS_MAX], tried: u64) -> Option<usize> {
        let count = self.servers.len();
        let is_open = |server: usize| shares[server] > 0 && tried & (1 << server) == 0;
        let has_open = (0..count).any(is_open);
        let is_candidate = |server: usize| shares[server] > 0 && (!has_open || is_open(server));
        let chosen = match key {
            Key::Hash(hash) => self.by_hash(hash, is_candidate),
            Key::Sticky(Some(server)) if server < count && is_candidate(server) => Some(server),
            _ if self.balance == Balance::RoundRobin => self.by_turn(shares, is_candidate),
            _ => self.by_load(shares, is_candidate),
        };
        self.last = chosen.unwrap_or(self.last);
        chosen
    }

    /// Takes note that a request goes to a server.
    pub(crate) fn begin(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.under_way += 1;
            self.under_way += 1;
        }
    }

    /// Takes note that one has ended, and how long its first byte took if it came.
    pub(crate) fn end(&mut self, server: usize, first_byte_us: Option<u32>) {
        let Some(server) = self.servers.get_mut(server) else { return };
        server.under_way = server.under_way.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(us) = first_byte_us {
            let us = us.max(1);
            server.first_byte_us = match server.first_byte_us {
                0 => us,
                // Both parts fit, as each is at most its own share of the type.
                mean => mean - mean / MEAN_PARTS + us / MEAN_PARTS,
            };
        }
    }

    /// Requests of this loop under way at a server.
    #[cfg(test)]
    pub(crate) fn under_way(&self, server: usize) -> u32 {
        self.servers.get(server).map_or(0, |server| server.under_way)
    }

    /// Writes the line of Set-Cookie that keeps a client with a server; nothing where no cookie does.
    pub(crate) fn set_cookie(&self, server: usize, is_secure: bool, out: &mut Vec<u8>) {
        let (Balance::Sticky(name), Some(server)) = (&self.balance, self.servers.get(server)) else { return };
        out.extend_from_slice(b"Set-Cookie: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        out.extend_from_slice(&server.id);
        out.extend_from_slice(b"; Path=/; HttpOnly; SameSite=Lax");
        out.extend_from_slice(if is_secure { b"; Secure\r\n" } else { b"\r\n" });
    }

    fn by_load(&self, shares: &[u32; SERVERS_MAX], is_candidate: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.servers.len();
        // From the one behind the last, so that equal ones take turns.
        let turns = (1..=count).map(|turn| (self.last + turn) % count);
        turns.filter(|server| is_candidate(*server)).min_by(|one, other| {
            let load = |index: usize| {
                let server = &self.servers[index];
                (u64::from(server.under_way) + 1, u64::from(server.weight) * u64::from(shares[index]))
            };
            let ((one_load, one_weight), (other_load, other_weight)) = (load(*one), load(*other));
            let by_load = (one_load * other_weight).cmp(&(other_load * one_weight));
            by_load.then_with(|| self.servers[*one].first_byte_us.cmp(&self.servers[*other].first_byte_us))
        })
    }

    fn by_turn(&mut self, shares: &[u32; SERVERS_MAX], is_candidate: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut sum, mut best): (i64, Option<usize>) = (0, None);
        for (index, share) in shares.iter().enumerate().take(self.servers.len()) {
            if !is_candidate(index) {
                // What it gained before would have it catch up all at once.
                self.servers[index].gained = 0;
                continue;
            }
            let gain = i64::from(self.servers[index].weight) * i64::from(*share);
            self.servers[index].gained += gain;
            sum += gain;
            if best.is_none_or(|best| self.servers[index].gained > self.servers[best].gained) {
                best = Some(index);
            }
        }
        self.servers[best?].gained -= sum;
        best
    }

    fn by_hash(&self, hash: u64, is_candidate: impl Fn(usize) -> bool) -> Option<usize> {
        let candidates = || (0..self.servers.len()).filter(|server| is_candidate(*server));
        let weights: u64 = candidates().map(|server| u64::from(self.servers[server].weight)).sum();
        let has_room = |server: &usize| {
            let server = &self.servers[*server];
            let share = (self.under_way + 1) * u64::from(server.weight);
            // Of what is under way, its share and the slack.
            let bound = (share + share / SLACK_PARTS).div_ceil(weights.max(1)) + SLACK_MIN;
            u64::from(server.under_way) < bound
        };
        let rank = |server: &usize| score(hash, &self.servers[*server]);
        let first = |one: &usize, other: &usize| rank(one).total_cmp(&rank(other));
        // If none had room, their sum would be more than what is under way.
        candidates().filter(has_room).max_by(first).or_else(|| candidates().max_by(first))
    }
}

/// The rank of a server for a value: the largest gets it, and each is the largest as often as its weight says.
fn score(hash: u64, server: &Server) -> f64 {
    // 53 bits are what a number of this type holds; between 0 and 1, without both.
    let part = ((mixed(hash ^ server.hash) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -f64::from(server.weight) / part.ln()
}

/// FNV-1a, mixed: the same in all loops, versions and processes, so that they agree.
fn hash(bytes: &[u8]) -> u64 {
    let folded = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mixed(folded)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn hash_of_client(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => hash(&address.octets()),
        client => match masked(client, CLIENT_BITS) {
            IpAddr::V4(address) => hash(&address.octets()),
            IpAddr::V6(address) => hash(&address.octets()),
        },
    }
}

/// The value of a cookie, from the first line that has it (RFC 6265 section 4.2; HTTP/2 splits the line).
fn cookie<'r>(fields: impl Iterator<Item = (&'r str, &'r [u8])>, name: &str) -> Option<&'r [u8]> {
    let lines = fields.filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
    let mut pairs = lines.flat_map(|(_, value)| value.split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

fn hexadecimal(bytes: &[u8]) -> [u8; ID_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [b'0'; ID_BYTES];
    for (at, digit) in id.iter_mut().enumerate() {
        let byte = bytes.get(at / 2).copied().unwrap_or(0);
        *digit = DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 0xf })];
    }
    id
}

#[cfg(test)]
mod tests {
    use super::super::health::FULL_SHARE;
    use super::super::settings::Place;
    use super::*;
    use proptest::prelude::*;

    fn servers(weights: &[u32]) -> Vec<UpstreamServer> {
        let of = |(number, weight): (usize, &u32)| UpstreamServer {
            place: Place::Name(format!("server{number}"), 80),
            weight: *weight,
            tls_name: None,
        };
        weights.iter().enumerate().map(of).collect()
    }

    fn balancer(balance: Balance, weights: &[u32]) -> Balancer {
        Balancer::new(balance, &servers(weights), &[7; 32])
    }

    fn shares(count: usize) -> [u32; SERVERS_MAX] {
        std::array::from_fn(|server| if server < count { FULL_SHARE } else { 0 })
    }

    fn asked<'r>(fields: &'r [(&'r str, &'r [u8])]) -> Asked<'r, impl Iterator<Item = (&'r str, &'r [u8])>> {
        Asked { fields: fields.iter().copied(), path: b"/", client: [192, 0, 2, 1].into() }
    }

    #[test]
    fn the_least_loaded_gets_a_request_and_of_equal_ones_the_fastest() {
        let mut balancer = balancer(Balance::Waiting, &[1, 1, 2]);
        let mut given = [0; 3];
        for _ in 0..40 {
            let server = balancer.choose(Key::None, &shares(3), 0).expect("a server");
            balancer.begin(server);
            given[server] += 1;
        }
        assert_eq!(given, [10, 10, 20]);
        for _ in 0..20 {
            balancer.end(0, Some(9000));
            balancer.end(1, Some(100));
            balancer.end(2, Some(9000));
        }
        (0..3).for_each(|server| assert_eq!(balancer.under_way(server), 0));
        // Equal load by weight: one at each of weight 1, three at the one of weight 2.
        (0..3).for_each(|_| balancer.begin(2));
        (0..2).for_each(|server| balancer.begin(server));
        assert_eq!(balancer.choose(Key::None, &shares(3), 0), Some(1));
        assert_eq!(balancer.choose(Key::None, &shares(3), 0b010), Some(2), "equal ones take turns");
        assert!(balancer.choose(Key::None, &shares(3), 0b111).is_some(), "all were tried: all are tried again");
        assert_eq!(balancer.choose(Key::None, &[0; SERVERS_MAX], 0), None);
    }

    #[test]
    fn round_robin_is_smooth() {
        let mut balancer = balancer(Balance::RoundRobin, &[5, 1, 1]);
        let turns: Vec<_> = (0..7).filter_map(|_| balancer.choose(Key::None, &shares(3), 0)).collect();
        assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn a_cookie_keeps_a_client_and_tells_no_address() {
        let mut sticky = balancer(Balance::Sticky("to".to_owned()), &[1, 1, 1]);
        assert_eq!(sticky.key(asked(&[])), Key::Sticky(None));
        let server = sticky.choose(Key::Sticky(None), &shares(3), 0).expect("a server");
        let mut line = Vec::new();
        sticky.set_cookie(server, true, &mut line);
        let line = String::from_utf8(line).expect("text");
        let value = line.strip_prefix("Set-Cookie: to=").and_then(|rest| rest.split_once(';')).expect("a cookie").0;
        assert!(value.len() == ID_BYTES && line.ends_with("; Secure\r\n") && !line.contains("server"), "{line}");
        let cookie = format!("a=b; to={value}; tox=1");
        let key = sticky.key(asked(&[("Accept", b"*/*"), ("cookie", cookie.as_bytes())]));
        assert_eq!(key, Key::Sticky(Some(server)));
        (0..100).for_each(|_| sticky.begin(server));
        assert_eq!(sticky.choose(key, &shares(3), 0), Some(server));
        let mut out = shares(3);
        out[server] = 0;
        assert_ne!(sticky.choose(key, &out, 0), Some(server));
        let other = Balancer::new(Balance::Sticky("to".to_owned()), &servers(&[1, 1, 1]), &[8; 32]);
        assert_eq!(other.key(asked(&[("cookie", cookie.as_bytes())])), Key::Sticky(None));
    }

    #[test]
    fn a_hash_is_of_what_the_configuration_names() {
        let header = balancer(Balance::Hash(HashOf::Header("x-user".to_owned())), &[1, 1]);
        let one = header.key(asked(&[("X-User", b"anna")]));
        assert_eq!(one, header.key(asked(&[("x-user", b"anna"), ("x-user", b"other")])));
        assert_ne!(one, header.key(asked(&[("x-user", b"berta")])));
        assert_eq!(header.key(asked(&[])), Key::None);
        let client = |text: &str| hash_of_client(text.parse().expect("an address"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }

    #[test]
    fn one_hot_key_does_not_overload_its_server() {
        let mut hashed = balancer(Balance::Hash(HashOf::Path), &[1, 1, 1, 1]);
        for _ in 0..400 {
            let server = hashed.choose(Key::Hash(42), &shares(4), 0).expect("a server");
            hashed.begin(server);
        }
        let most = (0..4).map(|server| hashed.under_way(server)).max();
        assert!(most.is_some_and(|most| most <= 400 / 4 * 5 / 4 + 2), "{most:?}");
    }

    proptest! {
        #[test]
        fn shares_converge_to_weights(
            weights in proptest::collection::vec(1_u32..20, 1..8),
            is_hashed in any::<bool>(),
        ) {
            let balance = if is_hashed { Balance::Hash(HashOf::Path) } else { Balance::RoundRobin };
            let mut balancer = balancer(balance, &weights);
            let sum: u32 = weights.iter().sum();
            let rounds = if is_hashed { 20_000 } else { sum * 10 };
            let mut given = vec![0_u32; weights.len()];
            for round in 0..rounds {
                let key = if is_hashed { Key::Hash(hash(&round.to_be_bytes())) } else { Key::None };
                given[balancer.choose(key, &shares(weights.len()), 0).expect("a server")] += 1;
            }
            for (given, weight) in given.iter().zip(&weights) {
                let expected = f64::from(rounds) * f64::from(*weight) / f64::from(sum);
                // Four standard deviations and a half of a binomial distribution; turns are exact.
                let slack = if is_hashed { 4.5 * expected.sqrt() + 5.0 } else { 1e-9 };
                prop_assert!((f64::from(*given) - expected).abs() <= slack, "{given} {expected}");
            }
        }

        #[test]
        fn a_server_that_goes_moves_only_its_own_keys(count in 2_usize..12, gone in 0_usize..12) {
            let gone = gone % count;
            let mut balancer = balancer(Balance::Hash(HashOf::Path), &vec![1; count]);
            let mut without = shares(count);
            without[gone] = 0;
            let mut moved = 0;
            for number in 0..2000_u32 {
                let key = Key::Hash(hash(&number.to_be_bytes()));
                let (before, after) = (balancer.choose(key, &shares(count), 0), balancer.choose(key, &without, 0));
                if before == Some(gone) { moved += 1 } else { prop_assert_eq!(before, after) }
            }
            let expected = 2000.0 / count as f64;
            prop_assert!(f64::from(moved) <= expected + 5.0 * expected.sqrt(), "{moved} of {expected}");
        }

        #[test]
        fn only_candidates_are_chosen(
            own in proptest::collection::vec(0_u32..3, 1..10),
            tried in any::<u64>(),
            kind in 0..4,
            hash in any::<u64>(),
        ) {
            let mut shares = [0; SERVERS_MAX];
            shares[..own.len()].copy_from_slice(&own);
            let (balance, key) = match kind {
                0 => (Balance::Waiting, Key::None),
                1 => (Balance::RoundRobin, Key::None),
                2 => (Balance::Hash(HashOf::Path), Key::Hash(hash)),
                _ => (Balance::Sticky("x".to_owned()), Key::Sticky(Some(hash as usize % 12))),
            };
            let mut balancer = balancer(balance, &vec![3; own.len()]);
            let chosen = balancer.choose(key, &shares, tried);
            prop_assert_eq!(chosen.is_some(), own.iter().any(|share| *share > 0));
            if let Some(chosen) = chosen {
                let has_open = (0..own.len()).any(|server| own[server] > 0 && tried >> server & 1 == 0);
                prop_assert!(own[chosen] > 0 && (!has_open || tried >> chosen & 1 == 0));
            }
        }
    }
}
