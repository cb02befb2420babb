//! The sessions of one loop, and the burst that each is at.

use crate::counts::sessions::SessionTally;
use crate::engine::sessions::{ActiveSessions, End};
use crate::http2::streams::Exchange;
use crate::plan::run_plan::Plan;
use std::collections::VecDeque;

/// The sessions of one loop.
#[derive(Debug)]
pub(crate) struct Users {
    pub(crate) sessions: Box<ActiveSessions>,
    /// The burst that each session under way is at.
    pub(crate) bursts: Vec<Burst>,
}

/// A burst under way.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// Requests of it that have no stream yet, or none any more.
    pub(crate) waiting: VecDeque<Exchange>,
    /// Requests of it that are not over.
    pub(crate) left: u32,
    /// How the session ends with it, if a request of it was not answered.
    pub(crate) ends: Option<End>,
}

impl Users {
    /// The sessions of loop `lane` of `lanes`, at most `most` at a time; `None` where there are none.
    pub(crate) fn new(plan: &Plan, lane: u32, lanes: u32, most: u32) -> Option<Box<Self>> {
        let sessions = ActiveSessions::new(plan, lane, lanes, most)?;
        let bursts = std::iter::repeat_with(Burst::default).take(most as usize).collect();
        Some(Box::new(Self { sessions, bursts }))
    }

    /// When the first of the users that think goes on.
    #[inline]
    pub(crate) fn next_wake_ns(&self) -> u64 {
        self.sessions.next_wake_ns()
    }

    /// How many sessions are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.sessions.under_way()
    }

    /// How many requests of a session wait for a stream.
    pub(crate) fn waiting(&self, session: u32) -> usize {
        session.checked_sub(1).map_or(0, |id| self.bursts[id as usize].waiting.len())
    }

    /// What became of them, those under way included.
    pub(crate) fn tally(self) -> SessionTally {
        let under_way = self.under_way() as u64;
        let mut tally = self.sessions.tally;
        tally.unfinished += under_way;
        tally
    }
}
