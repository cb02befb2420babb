//! Which nodes get new connections, and how many each: nodes that are there, by their weights.

use super::director_rules;
use super::director_seen::{DirectorSeen, NodeNow};
use super::members::{BalanceBy, MembersFile};
use super::overview::{Overview, overview};
use super::pair::lock;
use super::tables::Tables;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_adapt::Resource;
use weir_adapt::nodes::Choosing;
use weir_cluster::{Balance, CONFIGURED_DEFAULT, FRESH, Gossip, HeardMember, Measure, NodeNumber, Quantity, Standing};
use weir_keeper::NodePlace;

/// A node whose heartbeats have not come so long after the start is down.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// Why a node gets no new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Away {
    Down,
    Draining,
    /// It is of the reserve, and no rule has woken it.
    Asleep,
}

/// Which nodes get new connections.
pub(super) struct Choice {
    tables: Arc<Tables>,
    members: MembersFile,
    away: BTreeMap<NodeNumber, BTreeSet<Away>>,
    balance: Balance,
    /// What a rule says of new connections.
    choosing: Option<Choosing>,
    /// What the tables have.
    applied: Vec<(NodePlace, u16)>,
    /// Packets of each node when they were looked at last, and in a second since the time before.
    packets: BTreeMap<NodeNumber, (u64, f64)>,
    looked_at: Instant,
    begun: Instant,
    seen: Arc<DirectorSeen>,
}

impl Choice {
    /// All nodes are there, with the weights that are configured.
    pub(super) fn new(tables: Arc<Tables>, members: MembersFile, seen: Arc<DirectorSeen>) -> Self {
        let fresh = members.pace.stretched(FRESH);
        let mut this = Self {
            tables,
            members,
            away: BTreeMap::new(),
            balance: Balance::with(fresh),
            choosing: None,
            applied: Vec::new(),
            packets: BTreeMap::new(),
            looked_at: Instant::now(),
            begun: Instant::now(),
            seen,
        };
        this.balance(&[]);
        this
    }

    pub(super) fn nodes(&self) -> Vec<NodeNumber> {
        self.members.nodes.keys().copied().collect()
    }

    pub(super) fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    /// The weights that the readings, or another director, have given.
    pub(super) fn weights(&self) -> &BTreeMap<NodeNumber, u16> {
        self.balance.weights()
    }

    /// Notes whether a node is away for a reason.
    pub(super) fn set(&mut self, node: NodeNumber, why: Away, is_so: bool) {
        let reasons = self.away.entry(node).or_default();
        let has_changed = if is_so { reasons.insert(why) } else { reasons.remove(&why) };
        if !has_changed {
            return;
        }
        if why == Away::Draining {
            self.seen.drained(node, is_so);
        }
        let what = match (why, is_so) {
            (Away::Down, true) => "is down: new connections go to the others",
            (Away::Down, false) => "is alive",
            (Away::Draining, true) => "is drained: new connections go to the others",
            (Away::Draining, false) => "takes new connections again",
            (Away::Asleep, true) => "sleeps: new connections go to the others",
            (Away::Asleep, false) => "is woken: it takes new connections",
        };
        eprintln!("weir cluster director: node {} {what}", self.name(node));
        if let (Away::Down, Some((_, place))) = (why, self.members.nodes.get(&node)) {
            self.tables.set_down(place, is_so);
        }
        self.apply();
    }

    /// Takes nodes that were not heard since the start for down: no change of theirs is told. To be called now and then.
    pub(super) fn look_for_unheard(&mut self) {
        if self.begun.elapsed() >= HEARD_WITHIN {
            let unheard = self.nodes().into_iter().filter(|node| !self.seen.is_up(*node)).collect::<Vec<_>>();
            unheard.into_iter().for_each(|node| self.set(node, Away::Down, true));
        }
    }

    /// Weighs the nodes that are there by what was heard of them; to be called once a second.
    pub(super) fn balance(&mut self, heard: &[HeardMember]) {
        let reading = |node: &NodeNumber| {
            let (reached, _) = self.members.nodes.get(node)?;
            let of = heard.iter().find(|heard| heard.name == reached.member.name)?;
            Some((of.reading?, of.age))
        };
        let follows = self.choosing.is_some() || self.members.balance == BalanceBy::Load;
        let standing = |node: NodeNumber| Standing {
            node,
            configured: self.configured(node),
            reading: reading(&node).filter(|_| follows),
        };
        let mut nodes: Vec<Standing> = self.there().into_iter().map(standing).collect();
        let measure = match &self.choosing {
            Some(choosing) => chosen(choosing, &self.members, &mut nodes),
            None => Measure::Load,
        };
        let balanced = self.balance.step(measure, &nodes);
        if follows {
            for node in balanced.stale {
                let fresh = self.members.pace.stretched(FRESH);
                self.tell_weight(node, &format!("no reading of the last {} s: the configured weight", fresh.as_secs()));
            }
            for node in balanced.fresh {
                self.tell_weight(node, "its readings come again");
            }
            for node in balanced.settled {
                let reading = nodes.iter().find(|standing| standing.node == node).and_then(|standing| standing.reading);
                let why = reading.map_or_else(String::new, |(reading, _)| {
                    format!("{:.0} % of its CPUs, {} responses under way", reading.cpu_share * 100.0, reading.sending)
                });
                self.seen.weighed(node, &format!("weight {}: {why}", self.weight(node)));
            }
        }
        self.apply();
    }

    /// The nodes that say by gossip that they drain.
    pub(super) fn draining_by(&self, heard: &[HeardMember]) -> Vec<NodeNumber> {
        let drains = |number: &NodeNumber| {
            let (reached, _) = self.members.nodes.get(number)?;
            let of = heard.iter().find(|heard| heard.name == reached.member.name)?;
            let is_fresh = of.age <= self.members.pace.stretched(FRESH);
            (is_fresh && of.reading?.is_draining).then_some(*number)
        };
        self.nodes().iter().filter_map(drains).collect()
    }

    /// Has a rule say which nodes get new connections, or none. Returns whether it is another one than before.
    pub(super) fn choose(&mut self, choosing: Option<Choosing>) -> bool {
        let is_same = match (&self.choosing, &choosing) {
            (Some(before), Some(now)) => before.is_like(now),
            (None, None) => true,
            _ => false,
        };
        self.choosing = choosing;
        !is_same
    }

    /// Takes the weights of the active director over.
    pub(super) fn follow(&mut self, weights: &BTreeMap<NodeNumber, u16>) {
        if weights.is_empty() || weights == self.balance.weights() {
            return;
        }
        let configured: Vec<(NodeNumber, u16)> =
            self.nodes().into_iter().map(|node| (node, self.configured(node))).collect();
        self.balance.take_over(weights, &configured);
        self.apply();
    }

    /// Counts what went to each node since the last look.
    pub(super) fn look_at_packets(&mut self) {
        let seconds = self.looked_at.elapsed().as_secs_f64().max(1e-3);
        self.looked_at = Instant::now();
        for node in self.nodes() {
            let packets = self.tables.packets_to(node);
            let before = self.packets.get(&node).map_or(packets, |(before, _)| *before);
            self.packets.insert(node, (packets, packets.saturating_sub(before) as f64 / seconds));
        }
    }

    /// How the nodes stand here.
    pub(super) fn now(&self) -> BTreeMap<NodeNumber, NodeNow> {
        let there = self.there();
        let now = |node: NodeNumber| {
            let (packets, packets_per_s) =
                (self.tables.packets_to(node), self.packets.get(&node).map_or(0.0, |(_, per_s)| *per_s));
            let weight = if there.contains(&node) { self.weight(node) } else { 0 };
            (node, NodeNow { weight, packets, packets_per_s })
        };
        self.nodes().into_iter().map(now).collect()
    }

    fn tell_weight(&self, node: NodeNumber, why: &str) {
        eprintln!("weir cluster director: node {}: {why}", self.name(node));
        self.seen.weighed(node, why);
    }

    fn name(&self, node: NodeNumber) -> &str {
        self.members.nodes.get(&node).map_or("", |(reached, _)| reached.member.name.as_str())
    }

    fn configured(&self, node: NodeNumber) -> u16 {
        self.members.weights.get(&node).copied().unwrap_or(CONFIGURED_DEFAULT)
    }

    /// The weight of a node that is there.
    fn weight(&self, node: NodeNumber) -> u16 {
        self.balance.weights().get(&node).copied().unwrap_or_else(|| Balance::configured_weight(self.configured(node)))
    }

    fn there(&self) -> BTreeSet<NodeNumber> {
        let is_there = |number: &&NodeNumber| self.away.get(*number).is_none_or(BTreeSet::is_empty);
        self.members.nodes.keys().filter(is_there).copied().collect()
    }

    /// Gives the tables the weights of the nodes that are there, if they are others than before.
    fn apply(&mut self) {
        let there = self.there();
        let place = |node: &NodeNumber| self.members.nodes.get(node).map(|(_, place)| *place);
        let mut places: Vec<(NodePlace, u16)> =
            there.iter().filter_map(|node| Some((place(node)?, self.weight(*node)))).collect();
        if places.iter().all(|(_, weight)| *weight == 0) {
            // Only nodes that are to get none are left: better they than none at all.
            places.iter_mut().for_each(|(_, weight)| *weight = 1);
        }
        // With none left, connections go where they went: a node that comes back still has them.
        if !places.is_empty() && places != self.applied {
            self.tables.set_weighted(&places);
            self.applied = places;
        }
    }
}

/// By what a rule has new connections spread. Nodes that it does not name get none, nor do those of which it is not known
/// what it compares, while it is known of others.
fn chosen(choosing: &Choosing, members: &MembersFile, nodes: &mut [Standing]) -> Measure {
    let quantity = match choosing.by {
        Resource::Mem | Resource::MemShare => Quantity::Memory,
        Resource::Queue => Quantity::Queue,
        Resource::Wait => Quantity::Wait,
        Resource::Rate => Quantity::Rate,
        Resource::Errors | Resource::ErrorShare => Quantity::Errors,
        Resource::Active => Quantity::Active,
        // The others are refused before a rule holds.
        Resource::Cpu | Resource::Bandwidth | Resource::Rtt | Resource::Service => Quantity::Cpu,
    };
    let is_named = |standing: &Standing| {
        let name = members.nodes.get(&standing.node).map(|(reached, _)| reached.member.name.as_str());
        name.is_some_and(|name| choosing.nodes.contains(name))
    };
    let is_known = |standing: &Standing| {
        let fresh = standing.reading.filter(|(_, age)| *age <= members.pace.stretched(FRESH));
        fresh.is_some_and(|(reading, _)| quantity.of(&reading, standing.configured).is_some())
    };
    let any_known = nodes.iter().any(|standing| is_named(standing) && is_known(standing));
    for standing in nodes {
        if !is_named(standing) || any_known && !is_known(standing) {
            standing.configured = 0;
        }
    }
    Measure::Best(quantity)
}

impl director_rules::Connections for Mutex<Choice> {
    fn is_down(&self, node: NodeNumber) -> bool {
        lock(self).away.get(&node).is_some_and(|reasons| reasons.contains(&Away::Down))
    }

    fn sleeps(&self, node: NodeNumber, is_so: bool) {
        lock(self).set(node, Away::Asleep, is_so);
    }

    fn choose(&self, choosing: Option<Choosing>) -> bool {
        lock(self).choose(choosing)
    }
}

/// Tells how all members stand, with what the director alone knows of the nodes.
pub(super) fn overview_of(
    choice: &Arc<Mutex<Choice>>,
    (own, gossip): (NodeNumber, &Arc<Gossip>),
) -> impl Fn() -> Overview + Clone + Send + Sync + 'static {
    let (choice, gossip) = (Arc::clone(choice), Arc::clone(gossip));
    move || {
        let choice = lock(&choice);
        let (mut overview, now) = (overview(&choice.members, own, &gossip), choice.now());
        for member in &mut overview.members {
            if let Some(now) = now.get(&member.number) {
                (member.weight, member.packets_per_s) = (Some(now.weight), Some(now.packets_per_s));
            }
        }
        overview
    }
}
