//! The search for a plan: the fewest nodes with which an objective is met, and among plans for so many the least storage.

use crate::policy::{Partition, Policy, TopOrder};
use crate::{Cluster, Over, Repeated, Scenario};

/// Shares of the objects that are tried as those that lie on several nodes.
const SHARES: [f64; 22] = [
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6,
    0.7, 0.8, 0.9,
];
/// More nodes than needed that are looked at, too: they may need less storage.
const NODES_MORE: u32 = 2;

/// What is asked: of the responses this share must take less than a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The share, 0 to 1.
    pub share: f64,
    /// The time, nanoseconds.
    pub limit_ns: u64,
    /// The most nodes.
    pub nodes_max: u32,
}

/// A plan that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// How many nodes.
    pub nodes: u32,
    /// What lies where.
    pub policy: Policy,
    /// What came of it.
    pub figures: Repeated,
    /// Whether the objective is met by every seed.
    pub is_met: bool,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Every plan that was tried, by nodes and storage.
    pub tried: Vec<Tried>,
    /// The place of the best in `tried`; `None` where no plan meets the objective.
    pub best: Option<usize>,
}

/// Looks for a plan. Which nodes serve, and how, is said by `cluster`, whose number of nodes and limit do not count.
#[must_use]
pub fn search(scenario: &Scenario<'_>, cluster: &Cluster, limits: Limits) -> Found {
    let mut search = Search { scenario, cluster, limits, tried: Vec::new() };
    let Some(fewest) = search.fewest_nodes() else {
        return search.finish(None);
    };
    for nodes in fewest..=(fewest + NODES_MORE).min(limits.nodes_max) {
        search.least_storage(nodes);
    }
    search.finish(Some(fewest))
}

struct Search<'a> {
    scenario: &'a Scenario<'a>,
    cluster: &'a Cluster,
    limits: Limits,
    tried: Vec<Tried>,
}

impl Search<'_> {
    /// Whether a plan meets the objective; each is tried once.
    fn is_met(&mut self, nodes: u32, policy: Policy) -> bool {
        if let Some(known) = self.tried.iter().find(|tried| tried.nodes == nodes && tried.policy == policy) {
            return known.is_met;
        }
        let cluster = Cluster { nodes, limit_ns: Some(self.limits.limit_ns), ..*self.cluster };
        let figures = self.scenario.repeat(&cluster, &policy, Some(self.limits.share));
        let is_met = is_within(figures.missed_share, self.limits.share);
        self.tried.push(Tried { nodes, policy, figures, is_met });
        is_met
    }

    /// With everything on every node no plan needs fewer; more nodes never wait longer.
    fn fewest_nodes(&mut self) -> Option<u32> {
        // Fewer cannot do the work. A log may be shorter than its requests take: then they go on behind its end.
        let servers = self.scenario.servers_min(self.limits.share, self.limits.limit_ns);
        let needed = (servers / f64::from(self.cluster.servers.max(1))).floor().max(1.0);
        let (mut low, mut high) = ((needed as u32).min(self.limits.nodes_max), self.limits.nodes_max);
        // Upwards by doubled steps: small clusters are the rule, and each try of a large one takes as long.
        let mut step = 1;
        let mut at = low;
        while !self.is_met(at, Policy::Full) {
            if at == self.limits.nodes_max {
                return None;
            }
            low = at + 1;
            at = (at + step).min(self.limits.nodes_max);
            step *= 2;
            high = at;
        }
        high = high.min(at);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_met(middle, Policy::Full) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(high)
    }

    /// The plans of so many nodes that need little storage.
    fn least_storage(&mut self, nodes: u32) {
        let by = Partition::Balanced;
        self.is_met(nodes, Policy::Full);
        if nodes == 1 || self.is_met(nodes, Policy::Partition(by)) {
            return;
        }
        self.is_met(nodes, Policy::HotNode(by));
        let some = [2, 4].into_iter().filter(|copies| *copies < nodes).map(Some);
        for copies in some.chain([None]) {
            let top = |share| Policy::Top { share, copies, order: TopOrder::WorkPerByte, by };
            let (mut low, mut high) = (0, SHARES.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if self.is_met(nodes, top(SHARES[middle])) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
        }
    }

    fn finish(mut self, fewest: Option<u32>) -> Found {
        self.tried.sort_by(|one, other| {
            one.nodes.cmp(&other.nodes).then(one.figures.storage.mean.total_cmp(&other.figures.storage.mean))
        });
        let best = fewest.and_then(|nodes| self.tried.iter().position(|tried| tried.nodes == nodes && tried.is_met));
        Found { tried: self.tried, best }
    }
}

/// Whether no seed missed more than an objective for a share of the requests allows; a billionth is forgiven, as shares
/// are not exact in binary.
#[must_use]
pub fn is_within(missed_share: Over, share: f64) -> bool {
    missed_share.high <= 1.0 - share + 1e-9
}
