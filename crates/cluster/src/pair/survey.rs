//! What nodes have, as they tell a director that has just begun: it corrects the table by that, and decides moves which an
//! earlier director has left open.

use crate::fields::{FieldError, Reader};
use crate::name::NodeNumber;
use crate::record::MoveId;
use std::collections::HashMap;
use weir_keeper::Flow;

/// Flows that a node tells: the size of the director's table.
pub const SURVEY_FLOWS_MAX: usize = 262_144;

/// What a node has of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// Its session: it goes on here.
    Has,
    /// It stands still, and is to go to another node by this move.
    Gives(MoveId),
    /// It is to come by this move, and does not go on yet.
    Takes(MoveId),
}

/// What a node tells. It has learnt the epoch before it looked: no word of an earlier director counts behind this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Its flows.
    pub flows: Vec<(Flow, Holding)>,
    /// Flows that did not fit.
    pub left_out: u32,
}

impl Surveyed {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flows = &self.flows[..self.flows.len().min(SURVEY_FLOWS_MAX)];
        // At most the bound.
        out.extend((flows.len() as u32).to_be_bytes());
        for (flow, holding) in flows {
            flow.encode(out);
            match holding {
                Holding::Has => out.push(0),
                Holding::Gives(id) => {
                    out.push(1);
                    id.put(out);
                }
                Holding::Takes(id) => {
                    out.push(2);
                    id.put(out);
                }
            }
        }
        out.extend(self.left_out.to_be_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let count = reader.u32()? as usize;
        if count > SURVEY_FLOWS_MAX {
            return Err(FieldError::Bound { what: "flows", bytes: count, max: SURVEY_FLOWS_MAX });
        }
        let mut flows = Vec::new();
        for _ in 0..count {
            let flow = reader.flow()?;
            let holding = match reader.u8()? {
                0 => Holding::Has,
                1 => Holding::Gives(MoveId::take(reader)?),
                2 => Holding::Takes(MoveId::take(reader)?),
                _ => return Err(FieldError::Unknown("holding")),
            };
            flows.push((flow, holding));
        }
        Ok(Self { flows, left_out: reader.u32()? })
    }
}

/// What was heard of the nodes in this epoch.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    nodes: HashMap<NodeNumber, HashMap<Flow, Holding>>,
}

impl Survey {
    /// Notes what a node tells.
    pub fn note(&mut self, node: NodeNumber, surveyed: &Surveyed) {
        self.nodes.insert(node, surveyed.flows.iter().copied().collect());
    }

    /// Whether a node was heard.
    pub fn knows(&self, node: NodeNumber) -> bool {
        self.nodes.contains_key(&node)
    }

    /// What a node has of a flow; `None` also if it was not heard.
    pub fn holding(&self, node: NodeNumber, flow: &Flow) -> Option<Holding> {
        self.nodes.get(&node)?.get(flow).copied()
    }

    /// Whether a flow goes on at a node besides this one.
    pub fn goes_on_elsewhere(&self, flow: &Flow, besides: NodeNumber) -> bool {
        self.is_elsewhere(flow, besides, |holding| holding == Holding::Has)
    }

    /// Whether a flow stands still at a node besides this one, which gives it away.
    pub fn is_given_elsewhere(&self, flow: &Flow, besides: NodeNumber) -> bool {
        self.is_elsewhere(flow, besides, |holding| matches!(holding, Holding::Gives(_)))
    }

    fn is_elsewhere(&self, flow: &Flow, besides: NodeNumber, is_one: impl Fn(Holding) -> bool) -> bool {
        self.nodes
            .iter()
            .any(|(node, flows)| *node != besides && flows.get(flow).is_some_and(|holding| is_one(*holding)))
    }

    /// All nodes are to be heard anew.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }
}
