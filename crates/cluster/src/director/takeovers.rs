//! Flows of nodes that are down, or whose server has ended there: another node gets each of them once, and the node that
//! had it hears so.

use super::taken::{TAKEN_MAX, TOLD_MAX};
use super::{Control, Decided, Steering};
use crate::message::Decline;
use crate::name::NodeNumber;
use crate::record::MoveId;
use crate::replicas::{Position, Word};
use std::collections::BTreeSet;
use weir_keeper::{Birth, Flow, Seen};

impl Control {
    /// A node is down, or lives again.
    pub fn set_down(&mut self, node: NodeNumber, is_down: bool) {
        if is_down {
            self.takeovers.down.insert(node)
        } else {
            self.takeovers.down.remove(&node)
        };
    }

    /// A node asks for a flow of one that is down. What is granted is final: the node that had it never gets it back.
    ///
    /// # Errors
    /// [`Decline`]; the flow goes where it went before.
    pub fn take_over(
        &mut self,
        asker: NodeNumber,
        (id, flow): (MoveId, &Flow),
        epoch: u64,
        position: &Position,
        table: &mut dyn Steering,
    ) -> Result<(Seen, Option<Birth>), Decline> {
        let granted = self.grant(asker, (id, flow), epoch, position, table);
        if granted.is_err() {
            self.counts.declined += 1;
        }
        granted
    }

    fn grant(
        &mut self,
        asker: NodeNumber,
        (id, flow): (MoveId, &Flow),
        epoch: u64,
        position: &Position,
        table: &mut dyn Steering,
    ) -> Result<(Seen, Option<Birth>), Decline> {
        if epoch != self.epoch {
            return Err(Decline::Epoch(self.epoch));
        }
        if asker == id.giver || !self.nodes.contains(&asker) {
            return Err(Decline::NotAllowed);
        }
        if let Some(birth) = self.takeovers.births.get(&id).copied() {
            // It asks again, for what the client has said since.
            return match (self.moves.get(&id), table.owner(flow)) {
                (Some(Decided::Confirmed(to)), Some(owner)) if *to == asker && owner == asker => {
                    Ok((table.known(flow).and_then(|known| known.seen).ok_or(Decline::Unknown)?, birth))
                }
                (_, Some(owner)) => Err(Decline::OtherOwner(owner)),
                (_, None) => Err(Decline::Unknown),
            };
        }
        if self.moves.contains_key(&id) {
            return Err(Decline::Closed);
        }
        if !self.takeovers.is_lost(id.giver, flow) {
            return Err(Decline::NotDown(id.giver));
        }
        match table.owner(flow) {
            Some(owner) if owner == id.giver => {}
            Some(owner) => return Err(Decline::OtherOwner(owner)),
            None => return Err(Decline::Unknown),
        }
        if !self.takeovers.has_room(id.giver, flow) {
            return Err(Decline::Table(format!("{TAKEN_MAX} flows of node {} were taken over already", id.giver)));
        }
        // Before anything changes: it may be a connection that its node goes on with, should that live.
        let known = table.known(flow).ok_or(Decline::Unknown)?;
        position.place(known.birth, known.seen.as_ref()).map_err(Decline::Unfit)?;
        let seen = table.steer(flow, asker, self.epoch).map_err(|fault| Decline::Table(fault.0))?;
        self.counts.taken_over += 1;
        self.remember(id, flow, Decided::Confirmed(asker));
        self.takeovers.births.insert(id, known.birth);
        while self.takeovers.births.len() > TAKEN_MAX {
            self.takeovers.births.pop_first();
        }
        self.takeovers.taken.entry(id.giver).or_default().insert(*flow, id);
        if let Some(orphans) = self.takeovers.orphans.get_mut(&id.giver) {
            orphans.remove(flow);
        }
        Ok((seen.or(known.seen).ok_or(Decline::Unknown)?, known.birth))
    }

    /// A node says which of its connections have lost their server; how many of them it had by the table.
    pub fn orphaned(&mut self, node: NodeNumber, flows: &[Flow], table: &dyn Steering) -> usize {
        let own = flows.iter().filter(|flow| table.owner(flow) == Some(node)).copied();
        let own: BTreeSet<Flow> = own.take(TAKEN_MAX).collect();
        let count = own.len();
        if own.is_empty() {
            self.takeovers.orphans.remove(&node);
        } else {
            self.takeovers.orphans.insert(node, own);
        }
        count
    }

    /// A node asks which nodes are down, and which of its flows others have.
    pub fn watch(&mut self, asker: NodeNumber, discarded: &[(MoveId, Flow)], table: &dyn Steering) -> Word {
        let mut told = Vec::new();
        if let Some(taken) = self.takeovers.taken.get_mut(&asker) {
            let is_discarded = |flow: &Flow, id: MoveId| discarded.contains(&(id, *flow));
            // A connection of the same ends that it has since is its own.
            taken.retain(|flow, id| !is_discarded(flow, *id) && table.owner(flow) != Some(asker));
            told.extend(taken.iter().take(TOLD_MAX).map(|(flow, id)| (*id, *flow)));
        }
        let orphans = self.takeovers.orphans.iter().filter(|(node, _)| **node != asker);
        let orphans = orphans.flat_map(|(node, flows)| flows.iter().map(|flow| (*node, *flow)));
        let orphans = orphans.filter(|(node, flow)| table.owner(flow) == Some(*node)).take(TOLD_MAX).collect();
        Word::Watched { down: self.takeovers.down.iter().copied().collect(), taken: told, orphans }
    }
}
