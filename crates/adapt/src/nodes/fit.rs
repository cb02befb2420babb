//! What of a policy a cluster cannot do, in words.

use super::choosing::ALL_PATHS;
use crate::check::Level;
use crate::policy::{Act, Policy, Rule, Scope, Test, To};
use crate::reading::{NodeId, Resource};
use std::collections::BTreeSet;

/// A rule, or a pool, that a cluster cannot do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfit {
    /// The rule's line, from 1; 0 for what is of no rule.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub remedy: &'static str,
}

impl Policy {
    /// What a cluster of these nodes cannot do of it, in the order of the lines.
    pub fn unfit_for(&self, members: &BTreeSet<&str>) -> Vec<Unfit> {
        let mut unfit = Vec::new();
        let unknown = self.nodes.iter().filter(|node| !members.contains(node.as_str()));
        unfit.extend(unknown.map(|node| Unfit {
            line: 0,
            what: format!("`{node}` is no node of the cluster"),
            remedy: "name a [[node]] of members.toml, or add it there",
        }));
        self.check_reserves(members, &mut unfit);
        for rule in &self.rules {
            let mut wrong = |what: String, remedy| unfit.push(Unfit { line: rule.line, what, remedy });
            self.check_acts(rule, &mut wrong);
            self.check_readings(rule, &mut wrong);
        }
        unfit.sort();
        unfit.dedup();
        unfit
    }

    /// The numbers of pools that rules grow or shrink.
    pub(super) fn reserve_pools(&self) -> BTreeSet<usize> {
        let acts = self.rules.iter().flat_map(|rule| &rule.branches).flat_map(|branch| &branch.acts);
        acts.filter_map(|act| match act {
            Act::Grow { pool, .. } | Act::Shrink { pool, .. } => Some(*pool),
            _ => None,
        })
        .collect()
    }

    /// The nodes that serve only while a rule has grown their pool, by the order of the pools.
    pub fn reserve_nodes(&self) -> Vec<&str> {
        let pools = self.reserve_pools();
        let nodes = pools.iter().flat_map(|pool| &self.pools[*pool].nodes);
        nodes.map(|node| self.nodes[node.0 as usize].as_str()).collect()
    }

    fn check_reserves(&self, members: &BTreeSet<&str>, unfit: &mut Vec<Unfit>) {
        let reserves = self.reserve_pools();
        for &reserve in &reserves {
            let name = &self.pools[reserve].name;
            let others = self.pools.iter().enumerate().filter(|(pool, _)| *pool != reserve);
            for (_, other) in others {
                let both = other.nodes.iter().find(|node| self.pools[reserve].nodes.contains(node));
                unfit.extend(both.map(|NodeId(node)| Unfit {
                    line: 0,
                    what: format!(
                        "node `{}` is in `{}` and in `{name}`, whose nodes sleep until a rule grows it",
                        self.nodes[*node as usize], other.name
                    ),
                    remedy: "name it in one of both pools",
                }));
            }
        }
        let asleep: BTreeSet<&str> = self.reserve_nodes().into_iter().collect();
        if !asleep.is_empty() && members.iter().all(|member| asleep.contains(member)) {
            unfit.push(Unfit {
                line: 0,
                what: "all nodes of the cluster sleep until a rule grows their pool".to_owned(),
                remedy: "leave one node at least out of the pools that rules grow",
            });
        }
    }

    fn check_acts(&self, rule: &Rule, wrong: &mut impl FnMut(String, &'static str)) {
        let name = &rule.name;
        for act in rule.branches.iter().flat_map(|branch| &branch.acts) {
            match act {
                Act::Place { .. } if rule.level == Level::Start && self.blocks[rule.block].glob.text() != ALL_PATHS => {
                    wrong(
                        format!(
                            "rule `{name}` chooses a node for a session that starts, and the director gives a connection to a node before the request says which path it is for"
                        ),
                        "write it for all paths, `atom \"/**\"`, or `during if … then switch …`, which moves the session once it is known",
                    );
                }
                Act::Place { .. } if rule.level == Level::Start && (rule.cooldown_ms > 0 || rule.limit.is_some()) => {
                    wrong(
                        format!("rule `{name}` is for each new connection, of which the director sees none by itself"),
                        "leave `cooldown` and `limit` away",
                    );
                }
                Act::Place { by: Resource::Bandwidth, .. } if rule.level == Level::Start => wrong(
                    format!(
                        "rule `{name}` has new connections go to the node that sends the most, which sends more by that"
                    ),
                    "compare nodes by `cpu`, `mem`, `queue`, `wait`, `rate`, `errors` or `active`",
                ),
                Act::Place { targets, .. }
                    if targets.iter().any(|to| matches!(to, To::Node { variant: Some(_), .. })) =>
                {
                    wrong(
                        format!("rule `{name}` moves sessions to another variant at another node"),
                        "leave the variant away, or choose it by `use` in the policy of weir serve --policy",
                    );
                }
                Act::Place { by, .. } if !is_gossiped(*by) => {
                    wrong(
                        format!("rule `{name}` compares nodes by `{}`, which nodes do not tell each other", by.name()),
                        TOLD,
                    );
                }
                Act::Place { .. }
                | Act::Replicate { .. }
                | Act::Spread { .. }
                | Act::Grow { .. }
                | Act::Shrink { .. } => {}
                Act::Alert(_) if !matches!(rule.level, Level::Session | Level::Start) => {}
                act => wrong(
                    format!("rule `{name}` has `{}`, which each server does by itself", word(act)),
                    "put the rule into the policy of weir serve --policy",
                ),
            }
        }
    }

    fn check_readings(&self, rule: &Rule, wrong: &mut impl FnMut(String, &'static str)) {
        let conditions = rule.branches.iter().filter_map(|branch| branch.condition.as_ref()).chain(&rule.until);
        let mut metrics = BTreeSet::new();
        conditions.for_each(|condition| collect(condition, &mut metrics));
        for metric in metrics.into_iter().map(|metric| &self.metrics[metric]) {
            let (name, text) = (&rule.name, &metric.text);
            match metric.scope {
                Scope::Client | Scope::Session => wrong(
                    format!("rule `{name}` reads `{text}` of clients, which only the server knows that serves them"),
                    "put the rule into the policy of weir serve --policy",
                ),
                Scope::Atom if metric.resource != Resource::Rate => wrong(
                    format!("rule `{name}` reads `{text}`, and of atoms nodes tell each other the rate alone"),
                    "read `rate@atom`",
                ),
                Scope::Here if rule.level != Level::Session => wrong(
                    format!("rule `{name}` reads `{text}`, and it is decided for the whole cluster, by its director"),
                    "name a pool or a node behind `@`, or `@all`",
                ),
                Scope::Atom => {}
                _ if !is_gossiped(metric.resource) => {
                    wrong(format!("rule `{name}` reads `{text}`, which nodes do not tell each other"), TOLD);
                }
                _ => {}
            }
        }
    }
}

const TOLD: &str = "read `cpu`, `mem`, `queue`, `wait`, `active`, `rate`, `errors` or `bandwidth` of nodes, which they tell each second";

/// Whether nodes tell each other of it.
fn is_gossiped(resource: Resource) -> bool {
    // `service` is that of an upstream, and `rtt` is no reading of a node.
    !matches!(resource, Resource::Service | Resource::Rtt)
}

fn word(act: &Act) -> &'static str {
    match act {
        Act::Down | Act::Up => "next",
        Act::Use(_) => "use",
        Act::Workers { .. } => "workers",
        Act::Shed(_) => "shed",
        Act::Stale(_) => "stale",
        Act::Alert(_) => "alert for each session",
        // The caller takes these.
        Act::Place { .. } | Act::Replicate { .. } | Act::Spread { .. } | Act::Grow { .. } | Act::Shrink { .. } => "",
    }
}

fn collect(test: &Test, metrics: &mut BTreeSet<usize>) {
    match test {
        Test::Not(inner) => collect(inner, metrics),
        Test::All(parts) | Test::Any(parts) => parts.iter().for_each(|part| collect(part, metrics)),
        Test::Metric { metric, .. } => drop(metrics.insert(*metric)),
    }
}
