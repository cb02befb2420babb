//! Which nodes new connections go to, by the rules for starts. A connection has a node before its request names a path,
//! so that these are rules for all paths.

use super::intake::Intake;
use crate::decision::Cited;
use crate::engine::Start;
use crate::reading::Resource;
use std::collections::BTreeSet;

/// The pattern of all paths.
pub(super) const ALL_PATHS: &str = "/**";

/// How new connections choose their node.
#[derive(Debug, Clone, PartialEq)]
pub struct Choosing {
    /// The rule that says so.
    pub rule: String,
    /// Its policy.
    pub file: String,
    /// Its line there.
    pub line: usize,
    /// What is compared, of which the least is best.
    pub by: Resource,
    /// The nodes to choose among.
    pub nodes: BTreeSet<String>,
    /// What its condition has read.
    pub readings: Vec<Cited>,
}

impl Choosing {
    /// Whether both come from the same rule and send new connections to the same nodes by the same reading. What their
    /// conditions have read is not compared.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.rule.clone(), one.line, one.by, one.nodes.clone());
        of(self) == of(other)
    }

    /// What the rules say now.
    pub(super) fn of(intake: &mut Intake) -> Option<Self> {
        let Intake { engine, state, .. } = intake;
        let Start { rule, by, nodes, readings } = engine.start_choice(state, ALL_PATHS)?;
        let policy = engine.policy();
        let rule = &policy.rules[rule];
        Some(Self {
            rule: rule.name.clone(),
            file: policy.file.clone(),
            line: rule.line,
            by,
            nodes: nodes.iter().map(|node| policy.nodes[node.0 as usize].clone()).collect(),
            readings,
        })
    }
}
