//! What rules for starts say where no session is known: among which nodes new ones are to choose, and by what.

use super::evaluation::Evaluation;
use super::intake::Engine;
use crate::decision::Cited;
use crate::policy::{Act, To};
use crate::reading::{NodeId, Resource};
use crate::state::{Seen, State};

/// The choice of the first rule for starts that applies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Start {
    /// The rule's number.
    pub(crate) rule: usize,
    /// What is compared.
    pub(crate) by: Resource,
    /// The nodes to choose among, in the order of the rule.
    pub(crate) nodes: Vec<NodeId>,
    /// What its condition has read.
    pub(crate) readings: Vec<Cited>,
}

impl Engine {
    /// What rules for starts of the atoms with this pattern say now; none where none of them applies, or what their
    /// conditions read is unknown.
    pub(crate) fn start_choice(&self, state: &mut State, pattern: &str) -> Option<Start> {
        let block = self.policy.blocks.iter().find(|block| block.glob.text() == pattern)?;
        let mut none = Vec::new();
        let mut evaluation = Evaluation::begin(self, state, &mut none);
        let seen = Seen::default();
        block.start_rules.iter().find_map(|&number| {
            let rule = &self.policy.rules[number];
            let branch = evaluation.branch(rule, &seen).ok().flatten()?;
            let (by, targets) = rule.branches[branch].acts.iter().find_map(|act| match act {
                Act::Place { by, targets, .. } => Some((*by, targets)),
                _ => None,
            })?;
            let mut nodes = Vec::new();
            for target in targets {
                match target {
                    To::Node { node, .. } => nodes.push(*node),
                    To::AnyOf(pool) => nodes.extend(&self.policy.pools[*pool].nodes),
                }
            }
            let readings = evaluation.cited(rule, Some(branch), &seen);
            Some(Start { rule: number, by, nodes, readings })
        })
    }
}
