//! The nodes that are down, and the flows that others have of them.

use crate::name::NodeNumber;
use crate::record::MoveId;
use std::collections::{BTreeMap, BTreeSet};
use weir_keeper::{Birth, Flow};

/// Flows that are remembered of a node until it has discarded them.
pub(super) const TAKEN_MAX: usize = 1 << 16;
/// Flows that are told at once.
pub(super) const TOLD_MAX: usize = 4_096;

/// The nodes that are down, and the flows that others have of them.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    pub(super) down: BTreeSet<NodeNumber>,
    /// Connections that have lost their server, by the nodes that had them: no socket is left there.
    pub(super) orphans: BTreeMap<NodeNumber, BTreeSet<Flow>>,
    /// By the node that had them; a flow may be taken of a node again, before it has said that it has discarded it.
    pub(super) taken: BTreeMap<NodeNumber, BTreeMap<Flow, MoveId>>,
    /// What a granted takeover was given besides the place in the table.
    pub(super) births: BTreeMap<MoveId, Option<Birth>>,
}

impl Takeovers {
    /// Whether another node has taken a flow over from this one, which has not yet said that it has discarded it.
    pub(super) fn has_lost(&self, node: NodeNumber, flow: &Flow) -> bool {
        self.taken.get(&node).is_some_and(|taken| taken.contains_key(flow))
    }

    /// Whether no server of a node goes on with a flow, as far as its director knows.
    pub(super) fn is_lost(&self, node: NodeNumber, flow: &Flow) -> bool {
        self.down.contains(&node) || self.orphans.get(&node).is_some_and(|orphans| orphans.contains(flow))
    }

    /// Whether one more can be remembered. One that is not would be given back to its node.
    pub(super) fn has_room(&self, node: NodeNumber, flow: &Flow) -> bool {
        self.taken.get(&node).is_none_or(|taken| taken.len() < TAKEN_MAX || taken.contains_key(flow))
    }
}
