//! Moves that an earlier director has left open, decided by what the nodes tell the one that has taken over.
//!
//! Its table may lag behind that of the director before, which may even live on and not know that it is none any more. So
//! nothing of an earlier epoch is decided by the table. A node that was surveyed hears no earlier director any more: what it
//! has then changes only by decisions of this one, or by its own word to the other node of the move.

use super::{Control, Decided, Steering};
use crate::message::{Claim, Decline, Owner};
use crate::name::NodeNumber;
use crate::pair::{Holding, Survey, Surveyed};
use crate::record::MoveId;
use weir_keeper::Flow;

impl Control {
    /// Begins an epoch with a table that may lag. Draining nodes stay so.
    pub fn after_takeover(epoch: u64, nodes: impl IntoIterator<Item = NodeNumber>, draining: &[NodeNumber]) -> Self {
        let mut this = Self::new(epoch, nodes);
        this.draining.extend(draining);
        this.survey = Some(Survey::default());
        this
    }

    /// Whether it waits for what a node has to tell.
    pub fn awaits(&self, node: NodeNumber) -> bool {
        self.survey.as_ref().is_some_and(|survey| !survey.knows(node))
    }

    /// A node tells what it has; how many flows went elsewhere by the table until now.
    pub fn surveyed(&mut self, node: NodeNumber, told: &Surveyed, table: &mut dyn Steering) -> usize {
        let Some(survey) = &mut self.survey else { return 0 };
        survey.note(node, told);
        let (mut corrected, mut is_open) = (0, false);
        for (flow, holding) in &told.flows {
            let is_here = match holding {
                Holding::Has => true,
                // Of two that give it, one has it and the other was not told yet: both are asked again.
                Holding::Gives(_) if survey.is_given_elsewhere(flow, node) => {
                    is_open = true;
                    false
                }
                Holding::Gives(_) => !survey.goes_on_elsewhere(flow, node),
                Holding::Takes(_) => false,
            };
            // What was decided in this epoch is newer than what the node has told.
            if is_here && !self.newest.contains_key(flow) && table.goes_to(flow) != Some(node) {
                corrected += usize::from(table.steer(flow, node, self.epoch).is_ok());
            }
        }
        if is_open {
            survey.clear();
        }
        corrected
    }

    /// Decides an earlier director's move for a taker that may go on, or never will.
    ///
    /// # Errors
    /// [`Decline::Unknown`], if too little is known yet; the taker asks again.
    pub(super) fn settle_confirm(
        &mut self,
        asker: NodeNumber,
        id: MoveId,
        flow: &Flow,
        table: &mut dyn Steering,
    ) -> Result<(), Decline> {
        // In its own epoch each move was steered before.
        if !self.is_of_earlier(id) || asker == id.giver {
            return Ok(());
        }
        let is_decided = self.newest.contains_key(flow);
        let Some(survey) = &mut self.survey else { return Ok(()) };
        let is_complete = self.nodes.iter().all(|node| survey.knows(*node));
        let may = match survey.holding(id.giver, flow) {
            // Another move of the flow was decided in this epoch.
            _ if is_decided => Some(false),
            Some(Holding::Gives(of)) => Some(of == id),
            Some(Holding::Has | Holding::Takes(_)) => Some(false),
            None if survey.goes_on_elsewhere(flow, asker) => Some(false),
            // The giver was told that the taker has the flow, or its session is over.
            None if is_complete && !survey.is_given_elsewhere(flow, asker) => Some(true),
            None => {
                // The one that gives it may have been told more by now.
                if is_complete {
                    survey.clear();
                }
                None
            }
        };
        match may {
            Some(true) => {
                table.steer(flow, asker, self.epoch).map_err(|fault| Decline::Table(fault.0))?;
                self.remember(id, flow, Decided::Steered(asker));
                Ok(())
            }
            Some(false) => {
                self.remember(id, flow, Decided::Closed);
                Ok(())
            }
            None => {
                self.counts.unknown += 1;
                Err(Decline::Unknown)
            }
        }
    }

    /// Decides an earlier director's move for the giver, or for a taker that failed; `None` if the claim is to be answered
    /// as any other.
    pub(super) fn settle_claim(&mut self, asker: NodeNumber, claim: &Claim, table: &mut dyn Steering) -> Option<Owner> {
        let Claim { id, taker, flow, epoch, .. } = *claim;
        let is_party = asker == id.giver || asker == taker;
        if !is_party || !self.is_of_earlier(id) {
            return None;
        }
        let survey = self.survey.as_ref()?;
        let owner = if epoch >= self.epoch {
            // It was never steered. Where the giver was heard, the table has the flow where it is; until then it may lag.
            if epoch == self.epoch && survey.knows(id.giver) {
                return None;
            }
            Owner::Unknown
        } else if self.newest.contains_key(&flow) || survey.goes_on_elsewhere(&flow, id.giver) {
            Owner::Taker
        } else if asker == taker {
            // It may speak of a move that was over long ago: only a giver that still waits for it gets the packets.
            match survey.holding(id.giver, &flow) {
                Some(Holding::Gives(of)) if of == id => self.steer_back(claim, table),
                _ if survey.knows(id.giver) => Owner::Giver,
                _ => Owner::Unknown,
            }
        } else if claim.is_refused || survey.holding(taker, &flow) == Some(Holding::Takes(id)) {
            self.steer_back(claim, table)
        } else {
            // The giver sends the record again: the taker knows whether it has gone on, or refuses the old epoch.
            Owner::Unknown
        };
        match owner {
            Owner::Giver => self.remember(id, &flow, Decided::Closed),
            Owner::Taker => self.remember(id, &flow, Decided::Confirmed(taker)),
            Owner::Unknown => {
                self.counts.unknown += 1;
                return Some(Owner::Unknown);
            }
        }
        // What is remembered is answered as usual.
        None
    }

    fn is_of_earlier(&self, id: MoveId) -> bool {
        self.survey.is_some() && !self.moves.contains_key(&id) && !self.is_forgotten(id)
    }
}
