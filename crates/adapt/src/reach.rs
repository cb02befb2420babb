//! What a policy reaches: which paths it is for, and what of it one node cannot do.

use crate::policy::{Act, Policy, To};
use crate::reading::NodeId;

/// A rule that needs other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The rule's name.
    pub rule: String,
    /// Its line, from 1.
    pub line: usize,
}

impl Policy {
    /// The file that it was read from, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The number of the most specific pattern that fits a path; `None`: no rule is for it.
    pub fn pattern_of(&self, path: &str) -> Option<usize> {
        self.block_of(path)
    }

    /// The patterns by their numbers, from the most specific on.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().map(|block| block.glob.text())
    }

    /// Whether rules of a pattern are looked at for each session, at its start or later.
    pub fn decides_for_sessions(&self, pattern: usize) -> bool {
        let block = &self.blocks[pattern];
        !(block.start_rules.is_empty() && block.session_rules.is_empty())
    }

    /// The variants of a pattern, the best one first.
    pub fn variants(&self, pattern: usize) -> &[String] {
        &self.blocks[pattern].variants
    }

    /// The nodes of all pools and rules, by their names.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// How many nodes a pool has; `None`: there is none of this name.
    pub fn pool_nodes(&self, name: &str) -> Option<usize> {
        self.pools.iter().find(|pool| pool.name == name).map(|pool| pool.nodes.len())
    }

    /// The names of a pool's nodes.
    pub fn pool_members(&self, name: &str) -> impl Iterator<Item = &str> {
        let pool = self.pools.iter().find(|pool| pool.name == name);
        pool.into_iter().flat_map(|pool| &pool.nodes).map(|node| self.nodes[node.0 as usize].as_str())
    }

    /// Whether a node is in some pool.
    pub fn has_in_pools(&self, node: &str) -> bool {
        let Some(number) = self.nodes.iter().position(|name| name == node) else { return false };
        self.pools.iter().any(|pool| pool.nodes.contains(&NodeId(number as u32)))
    }

    /// Rules that would serve a session at another node than this one.
    pub fn elsewhere(&self, here: &str) -> Vec<Elsewhere> {
        let is_other = |node: &NodeId| self.nodes[node.0 as usize] != here;
        let leads_away = |target: &To| match target {
            To::Node { node, .. } => is_other(node),
            To::AnyOf(pool) => self.pools[*pool].nodes.iter().any(is_other),
        };
        self.rules_that(|act| matches!(act, Act::Place { targets, .. } if targets.iter().any(leads_away)))
    }

    /// Rules that ask for more copies or nodes, or give nodes back.
    pub fn asks_for_nodes(&self) -> Vec<Elsewhere> {
        self.rules_that(|act| {
            // One copy is here: it is kept in memory, and no other node is asked for.
            matches!(
                act,
                Act::Replicate { copies: 2.., .. } | Act::Spread { .. } | Act::Grow { .. } | Act::Shrink { .. }
            )
        })
    }

    /// The nodes that rules order workers of, with the most that they order.
    pub fn ordered_workers(&self) -> Vec<(&str, u32)> {
        let mut all: Vec<(&str, u32)> = Vec::new();
        let acts = self.rules.iter().flat_map(|rule| &rule.branches).flat_map(|branch| &branch.acts);
        for act in acts {
            let Act::Workers { pool, workers } = act else { continue };
            for node in &self.pools[*pool].nodes {
                let name = self.nodes[node.0 as usize].as_str();
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, most)) => *most = (*most).max(*workers),
                    None => all.push((name, *workers)),
                }
            }
        }
        all
    }

    fn rules_that(&self, does: impl Fn(&Act) -> bool) -> Vec<Elsewhere> {
        let rules = self.rules.iter().filter(|rule| rule.branches.iter().any(|branch| branch.acts.iter().any(&does)));
        let mut rules: Vec<_> = rules.map(|rule| Elsewhere { rule: rule.name.clone(), line: rule.line }).collect();
        rules.sort_by_key(|rule| rule.line);
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_lead_to_other_nodes_are_told_from_those_that_do_not() {
        let text = "pool main = { n1, n2 };\n\
                    atom \"/a\" { variants full > half; rule pick: select best by cpu (n1.half); }\n\
                    atom \"/b\" { rule away: select best by cpu (n1, n2); rule any: during if cpu > 90% then switch any of main until cpu < 50%; }\n\
                    atom \"/c/*\" { rule hot: every 5s if cpu > 90% then shed 5% until cpu < 50%; }\n";
        let (policy, _) = Policy::read("x.policy", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        let away: Vec<_> = policy.elsewhere("n1").into_iter().map(|rule| (rule.rule, rule.line)).collect();
        assert_eq!(away, [("away".to_owned(), 3), ("any".to_owned(), 3)]);
        assert_eq!(policy.elsewhere("n2").len(), 3);
        let pattern = |path: &str| policy.pattern_of(path);
        assert!(policy.decides_for_sessions(pattern("/a").expect("a pattern")));
        assert!(!policy.decides_for_sessions(pattern("/c/d").expect("a pattern")));
        assert_eq!((pattern("/d"), policy.pool_nodes("main"), policy.pool_nodes("x")), (None, Some(2), None));
        assert!(policy.asks_for_nodes().is_empty());
        let copies = |number: u32| {
            let text = format!(
                "pool main = {{ n1, n2 }};\natom \"/a\" {{ rule keep: every 5s if cpu > 90% then replicate to {number} on main hold 5s; }}"
            );
            let (policy, _) = Policy::read("x.policy", &text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
            policy.asks_for_nodes().len()
        };
        assert_eq!([copies(1), copies(2)], [0, 1], "one copy is here");
        assert!(policy.has_in_pools("n2") && !policy.has_in_pools("n3"));
        let text = "pool apps = { php, shop };\npool more = { shop };\natom \"/a\" {\n\
                    rule few: every 5s if cpu > 90% then workers 4 of apps hold 5s;\n\
                    rule many: every 5s if cpu > 95% then workers 9 of more hold 5s; }";
        let (policy, _) = Policy::read("x.policy", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        assert_eq!(policy.ordered_workers(), [("php", 4), ("shop", 9)]);
        assert_eq!(policy.pool_members("apps").collect::<Vec<_>>(), ["php", "shop"]);
        assert!(policy.asks_for_nodes().is_empty());
    }
}
