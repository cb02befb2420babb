//! Of two directors only the newer one counts: what an earlier one answers late is not heard, and the newer one learns what
//! this node has.

use super::Mover;
use crate::message::Decline;
use crate::moving::parts::{Directing, DirectingError, SessionError};
use crate::pair::{Holding, SURVEY_FLOWS_MAX, Surveyed};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use weir_keeper::Flow;

impl Mover {
    /// The newest epoch that anything here has told; the director of an earlier one is asked no more.
    pub(super) fn newest_epoch(&self) -> u64 {
        let told = self.directing.epoch();
        let newest = self.epoch.fetch_max(told, Ordering::AcqRel).max(told);
        if newest > told {
            self.directing.learn_epoch(newest);
        }
        newest
    }

    /// Asks the director. Its answer counts only if no newer one has begun meanwhile: that one may have learnt what this
    /// node has, and decided by it. `goes_on` tells whether by this answer the flow goes on here.
    pub(super) fn directed<T>(
        &self,
        flow: &Flow,
        ask: impl FnOnce(&dyn Directing) -> Result<T, DirectingError>,
        goes_on: impl FnOnce(&T) -> bool,
    ) -> Result<T, DirectingError> {
        let asked = self.newest_epoch();
        let answer = ask(&*self.directing);
        // A survey holds the same lock: it sees what counts here, and nothing counts later that it has not seen.
        let mut flows = self.flows();
        let newest = self.newest_epoch();
        // A director that declines as its own epoch is newer is itself the one that has begun.
        let is_of_newest = matches!(answer, Err(DirectingError::Declined(Decline::Epoch(epoch))) if epoch == newest);
        if newest != asked && !is_of_newest {
            return Err(DirectingError::Silent("a newer epoch has begun meanwhile".to_owned()));
        }
        let answer = answer?;
        if goes_on(&answer) {
            flows.granted.insert(*flow);
        }
        Ok(answer)
    }

    /// What this node has, for the director that has begun this epoch.
    ///
    /// # Errors
    /// [`SessionError`], if the server does not say.
    pub fn survey(&self, epoch: u64) -> Result<Surveyed, SessionError> {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
        self.newest_epoch();
        // Moves neither begin nor end meanwhile, so that no session is missed on its way in or out of the server.
        let flows = self.flows();
        let mut told: HashMap<Flow, Holding> = HashMap::new();
        for (flow, id) in &flows.under_way {
            let holding = match (flows.granted.contains(flow), id.giver == self.settings.node) {
                (true, _) => Holding::Has,
                (false, true) => Holding::Gives(*id),
                (false, false) => Holding::Takes(*id),
            };
            told.insert(flow.canonical(), holding);
        }
        for flow in self.sessions.flows()? {
            told.insert(flow.canonical(), Holding::Has);
        }
        drop(flows);
        let left_out = u32::try_from(told.len().saturating_sub(SURVEY_FLOWS_MAX)).unwrap_or(u32::MAX);
        Ok(Surveyed { flows: told.into_iter().take(SURVEY_FLOWS_MAX).collect(), left_out })
    }
}
