//! How far a rule is with one subject.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How far a rule is with one subject. Nearly all of them have never done anything, so that they are small.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Instance {
    /// When it is to be looked at next.
    pub(crate) due_ms: u64,
    pub(crate) said: Said,
    past: Option<Box<Past>>,
}

/// What a rule remembers of what it did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Past {
    /// The branch whose condition holds, and since when, if it has not held for long enough.
    pub(crate) pending: Option<(u32, u64)>,
    /// The branch that fired, and when, until it is released.
    pub(crate) active: Option<(u32, u64)>,
    /// The branch that has acted and whose condition has held since, of a rule that is not active.
    #[serde(default)]
    pub(crate) claimed: Option<u32>,
    /// When it fired, or was released, the last time.
    pub(crate) rest_ms: Option<u64>,
    /// Its firings within the time of its limit.
    pub(crate) fired: VecDeque<u64>,
}

impl Past {
    /// It is active no longer.
    pub(crate) fn rest(&mut self, now_ms: u64) {
        (self.active, self.rest_ms) = (None, Some(now_ms));
    }
}

impl Instance {
    /// One that is looked at for the first time then.
    pub(crate) fn due_at(due_ms: u64) -> Self {
        Self { due_ms, ..Self::default() }
    }

    /// The branch that fired, and when, until it is released.
    pub(crate) fn active(&self) -> Option<(u32, u64)> {
        self.past.as_ref()?.active
    }

    /// Whether it has fired and was not released.
    pub(crate) fn is_active(&self) -> bool {
        self.active().is_some()
    }

    /// When it fired, or was released, the last time.
    pub(crate) fn rest_ms(&self) -> Option<u64> {
        self.past.as_ref()?.rest_ms
    }

    /// When it fired, as far as its limit counts it, the oldest first.
    pub(crate) fn fired_ms(&self) -> impl Iterator<Item = u64> + '_ {
        self.past.iter().flat_map(|past| past.fired.iter().copied())
    }

    /// What it remembers, to be changed.
    pub(crate) fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// No branch is about to fire.
    pub(crate) fn forget_pending(&mut self) {
        if let Some(past) = &mut self.past {
            past.pending = None;
        }
    }

    /// The same, if there is something.
    pub(crate) fn some_past(&mut self) -> Option<&mut Past> {
        self.past.as_deref_mut()
    }

    /// The branch that has acted and still claims what it decided, of a rule that is not active.
    pub(crate) fn claimed(&self) -> Option<u32> {
        self.past.as_ref()?.claimed
    }

    /// Has a branch claim what it decided, or none.
    pub(crate) fn claim(&mut self, branch: Option<u32>) {
        match &mut self.past {
            Some(past) => past.claimed = branch,
            None if branch.is_some() => self.past().claimed = branch,
            None => {}
        }
    }

    /// Nothing lasts and nothing was said, so that a condition which is false changes nothing but when it is looked at.
    pub(crate) fn is_idle(&self) -> bool {
        self.said == Said::Nothing
            && (self.past.as_ref())
                .is_none_or(|past| past.active.is_none() && past.pending.is_none() && past.claimed.is_none())
    }
}

/// Why it did not fire, as it was told the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    #[default]
    Nothing,
    Unknown,
    Outranked,
    Limited,
    Cooling,
}
