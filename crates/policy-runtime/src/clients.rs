//! Clients as all loops together have seen them, over all their connections: how many requests a second each makes.
//!
//! Only where some rule asks for it. We track the busiest clients: without room, a newcomer takes the place of a client
//! that asks for less. A new entry starts at zero (unlike space-saving), so no client is over-counted.

use crate::loop_stats::Seen;
use crate::rulebook::Rulebook;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weir_adapt::{CLIENTS_MAX, Engine, Resource, Where};

/// Clients of one tick, of all loops; the requests of further clients go into `uncounted`.
const COUNTED_MAX: usize = 65_536;
/// Ticks for which a client is told of after the last window that some rule has of it.
const TICKS_AFTER: u64 = 3;
/// Marks the number of a client of IPv6.
const IPV6: u64 = 1 << 63;
/// The number of clients without an address, as those of a Unix socket: they cannot be told apart.
const UNSPECIFIED: u64 = 0;

/// A client's address and its network (IPv4 /24, IPv6 /48) as numbers.
#[inline]
pub(crate) fn identity(client: IpAddr) -> (u64, u64) {
    match client.to_canonical() {
        IpAddr::V4(addr) => (u64::from(addr.to_bits()), u64::from(addr.to_bits() >> 8)),
        IpAddr::V6(addr) => {
            let bits = addr.to_bits();
            // A household has a /64, within which addresses change. The mark keeps both kinds of networks apart.
            ((bits >> 64) as u64 | IPV6, (bits >> 80) as u64 | 1 << 62)
        }
    }
}

/// What people and recordings call the client of a number: its address, of IPv6 the network of 64 bits.
pub(crate) fn name(number: u64) -> String {
    if number & IPV6 == 0 {
        return Ipv4Addr::from_bits(number as u32).to_string();
    }
    // The mark stands in the place of the first bit, which is set in f000::/4 (local and multicast addresses), and in
    // no other assigned address.
    let is_local = number >> 60 == 0xf;
    let bits = if is_local { number } else { number & !IPV6 };
    format!("{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64))
}

/// The number of the client of a name; `None`: it is no name that [`name`] gives.
pub(crate) fn number(name: &str) -> Option<u64> {
    let address = name.strip_suffix("/64").unwrap_or(name);
    address.parse().ok().map(|address| identity(address).0)
}

/// All clients that are followed.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Whether some rule asks for them.
    is_asked: bool,
    quiet_after: u64,
    /// Requests since the last tick.
    counted: FxHashMap<u64, u64>,
    /// By their numbers, so that the rules are told of them in the same order whenever they are.
    followed: BTreeMap<u64, Followed>,
    /// Room for those who are new.
    newcomers: Vec<(u64, u64)>,
    /// Requests of clients who were not counted, and clients that gave their place to others or got none.
    pub(crate) uncounted: u64,
    pub(crate) evicted: u64,
}

#[derive(Debug)]
struct Followed {
    name: Arc<str>,
    /// Of the last tick.
    requests: u64,
    quiet_ticks: u64,
}

/// A reading of a client: its number, its name, and its requests a second.
pub(crate) type ClientReading = (u64, Arc<str>, f64);

impl Clients {
    /// Other rules ask for other readings: forgets all clients.
    pub(crate) fn ask(&mut self, engine: &Engine, tick_ms: u64) {
        let window_ms = engine.window_ms(Resource::Rate, Where::Client);
        self.is_asked = window_ms.is_some();
        self.quiet_after = window_ms.unwrap_or(0).div_ceil(tick_ms) + TICKS_AFTER;
        self.followed.clear();
        self.counted.clear();
    }

    /// Adds what a loop has seen.
    pub(crate) fn take(&mut self, seen: &[Seen]) {
        if !self.is_asked {
            return;
        }
        for Seen { client, requests, .. } in seen.iter().filter(|seen| seen.client != UNSPECIFIED) {
            let is_full = self.counted.len() >= COUNTED_MAX;
            match self.counted.get_mut(client) {
                Some(count) => *count += requests,
                None if is_full => self.uncounted += requests,
                None => drop(self.counted.insert(*client, *requests)),
            }
        }
    }

    /// The readings of a tick that took so many seconds. The rules forget a client that is quiet, or that has to make
    /// room.
    pub(crate) fn readings(
        &mut self,
        at_ms: u64,
        seconds: f64,
        rules: &mut Rulebook,
        readings: &mut Vec<ClientReading>,
    ) {
        readings.clear();
        if !self.is_asked {
            return;
        }
        let Self { counted, followed, newcomers, quiet_after, .. } = self;
        followed.retain(|number, client| {
            client.requests = counted.remove(number).unwrap_or(0);
            client.quiet_ticks = if client.requests == 0 { client.quiet_ticks + 1 } else { 0 };
            // As long as a rule is active for it, it is told that nothing comes.
            client.quiet_ticks <= *quiet_after || !rules.forget_client(at_ms, *number)
        });
        newcomers.clear();
        newcomers.extend(counted.drain());
        let room = CLIENTS_MAX.saturating_sub(followed.len());
        if newcomers.len() > room {
            // The busiest client comes first; the number decides between equal ones.
            newcomers.sort_unstable_by_key(|(number, requests)| (std::cmp::Reverse(*requests), *number));
            self.evicted += make_room(followed, newcomers, room, |number| rules.forget_client(at_ms, number));
        }
        for (number, requests) in newcomers.drain(..) {
            let name = Arc::from(name(number));
            followed.insert(number, Followed { name, requests, quiet_ticks: 0 });
        }
        let all = followed.iter();
        readings.extend(all.map(|(number, one)| (*number, Arc::clone(&one.name), one.requests as f64 / seconds)));
    }

    /// How many are followed.
    pub(crate) fn len(&self) -> usize {
        self.followed.len()
    }
}

/// Gives the busiest newcomers (they are sorted) the places of clients that ask for less, and cuts off the rest.
/// Returns the number of clients without a place, newcomers and former ones.
fn make_room(
    followed: &mut BTreeMap<u64, Followed>,
    newcomers: &mut Vec<(u64, u64)>,
    room: usize,
    mut forget: impl FnMut(u64) -> bool,
) -> u64 {
    let mut least: Vec<(u64, u64)> = followed.iter().map(|(number, client)| (client.requests, *number)).collect();
    least.sort_unstable();
    let mut least = least.into_iter();
    let mut places = room;
    while let Some((_, wants)) = newcomers.get(places) {
        let Some((_, number)) =
            least.find(|(has, number)| has >= wants || forget(*number)).filter(|(has, _)| has < wants)
        else {
            break;
        };
        followed.remove(&number);
        places += 1;
    }
    let without = newcomers.len() - places;
    newcomers.truncate(places);
    (without + places - room) as u64
}

/// The busiest clients, at most so many, the busiest first; clients without requests are left out.
pub(crate) fn most(readings: &[ClientReading], count: usize) -> Vec<&ClientReading> {
    let mut most: Vec<&ClientReading> = readings.iter().filter(|(_, _, rate_per_s)| *rate_per_s > 0.0).collect();
    let order = |one: &&ClientReading, other: &&ClientReading| other.2.total_cmp(&one.2).then(one.0.cmp(&other.0));
    if most.len() > count {
        most.select_nth_unstable_by(count, order);
        most.truncate(count);
    }
    most.sort_unstable_by(order);
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_adapt::Policy;
    use weir_adapt::forecast::Method;

    const POLICY: &str =
        "atom \"/**\" { rule greedy: during if rate@client > 50rps then shed 90% until rate@client < 20rps; }";

    fn world() -> (Clients, Rulebook) {
        let (policy, _) = Policy::read("x.policy", POLICY).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        let engine = Engine::new(policy, "n1", Method::default());
        let mut clients = Clients::default();
        clients.ask(&engine, 1000);
        (clients, Rulebook::new(engine, "n1", 1, 1000, 0, true))
    }

    /// A tick of a second in which these asked so often.
    fn tick(clients: &mut Clients, rules: &mut Rulebook, at_ms: u64, asked: &[(u64, u64)]) -> Vec<ClientReading> {
        let seen: Vec<_> = asked.iter().map(|&(client, requests)| Seen { client, network: 0, requests }).collect();
        clients.take(&seen);
        let mut readings = Vec::new();
        clients.readings(at_ms, 1.0, rules, &mut readings);
        for (number, name, rate_per_s) in &readings {
            assert!(rules.read_client(at_ms, *number, name, *rate_per_s), "there is room for who is followed");
        }
        rules.tick(at_ms);
        readings
    }

    #[test]
    fn a_name_leads_to_its_number_and_back() {
        for text in ["192.0.2.7", "0.0.0.1", "255.255.255.255", "2001:db8:1:2::9", "::1", "fe80::1", "fd00:1::2"] {
            let number = identity(text.parse().expect("an address")).0;
            assert_eq!(super::number(&name(number)), Some(number), "{text}: {}", name(number));
        }
        assert_eq!(name(identity("2001:db8:1:2::9".parse().expect("an address")).0), "2001:db8:1:2::/64");
        assert_eq!(name(identity("fe80::1".parse().expect("an address")).0), "fe80::/64");
        assert_eq!(number("h1"), None);
    }

    #[test]
    fn pieces_add_up_and_who_is_quiet_is_forgotten_unless_a_rule_is_active_for_it() {
        let (mut clients, mut rules) = world();
        let readings = tick(&mut clients, &mut rules, 1000, &[(1, 40), (2, 3), (1, 21), (UNSPECIFIED, 900)]);
        let rates: Vec<_> = readings.iter().map(|(number, _, rate)| (*number, *rate)).collect();
        assert_eq!(rates, [(1, 61.0), (2, 3.0)]);
        let fired = rules.take_decisions().0;
        assert_eq!(fired.len(), 1, "{fired:?}");
        assert_eq!(fired[0].subject.to_string(), "/** client 0.0.0.1");
        // It is told that nothing comes, so that the rule is released, and is forgotten behind that.
        for second in 2..=6 {
            tick(&mut clients, &mut rules, second * 1000, &[]);
        }
        assert_eq!((clients.len(), rules.state.clients()), (0, 0));
        let released = rules.take_decisions().0;
        assert_eq!(released.iter().map(|one| one.outcome.to_string()).collect::<Vec<_>>(), ["released"]);
    }

    #[test]
    fn the_busiest_clients_keep_their_places_and_a_new_entry_starts_at_zero() {
        let (mut clients, mut rules) = world();
        let many: Vec<(u64, u64)> = (1..=CLIENTS_MAX as u64).map(|number| (number, 2)).collect();
        tick(&mut clients, &mut rules, 1000, &many);
        assert_eq!((clients.len(), clients.evicted), (CLIENTS_MAX, 0));
        // One asks for much, one for as little as all.
        let mut more = many.clone();
        more.extend([(900_000, 60), (900_001, 1)]);
        let readings = tick(&mut clients, &mut rules, 2000, &more);
        assert_eq!((readings.len(), clients.evicted), (CLIENTS_MAX, 2));
        let rate = |readings: &[ClientReading], wanted: u64| {
            readings.iter().find(|(number, ..)| *number == wanted).map(|(_, _, rate)| *rate)
        };
        assert_eq!((rate(&readings, 900_000), rate(&readings, 900_001)), (Some(60.0), None));
        let fired = |rules: &mut Rulebook| rules.take_decisions().0.iter().filter(|one| one.outcome.is_fired()).count();
        assert_eq!(fired(&mut rules), 1);
        // For whom a rule is active stays, however little it asks for.
        let others: Vec<(u64, u64)> = (1..=2 * CLIENTS_MAX as u64).map(|number| (1_000_000 + number, 3)).collect();
        let readings = tick(&mut clients, &mut rules, 3000, &[&others[..], &[(900_000, 25)]].concat());
        assert_eq!((readings.len(), rate(&readings, 900_000)), (CLIENTS_MAX, Some(25.0)));
        assert_eq!(rules.state.clients(), CLIENTS_MAX);
        assert_eq!(rules.state.counts().clients_refused, 0);
        let most = most(&readings, 3);
        assert_eq!((most.len(), most[0].0, most[1].0), (3, 900_000, 1_000_001));
    }

    #[test]
    fn clients_of_one_tick_have_a_bound_and_what_is_beyond_it_is_counted() {
        let (mut clients, mut rules) = world();
        let many: Vec<(u64, u64)> = (1..=70_000).map(|number| (number, 2)).collect();
        tick(&mut clients, &mut rules, 1000, &many);
        assert_eq!(clients.uncounted, 2 * (70_000 - COUNTED_MAX as u64));
        assert_eq!((clients.len(), clients.evicted), (CLIENTS_MAX, (COUNTED_MAX - CLIENTS_MAX) as u64));
    }

    #[test]
    fn where_no_rule_asks_nothing_is_kept() {
        let (mut clients, mut rules) = world();
        let (policy, _) = Policy::read("x.policy", &POLICY.replace("@client", "@atom")).expect("no mistakes");
        clients.ask(&Engine::new(policy, "n1", Method::default()), 1000);
        assert!(tick(&mut clients, &mut rules, 1000, &[(1, 900)]).is_empty() && clients.counted.is_empty());
    }
}
