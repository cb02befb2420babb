//! A loop's side of the adviser: it asks about requests, measures clients' links, and reports how responses ended.

use crate::counters::{Counters, LoopCounters};
use crate::files::shared_content::SharedContent;
use crate::policy::advice::Adviser;
use crate::policy::governed_paths::GovernedPaths;
use crate::policy::indexes::Indexes;
use crate::policy::insight::Contents;
use crate::policy::link::Links;
use crate::policy::link_prior::Priors;
use std::cell::RefCell;
use std::sync::Arc;

/// One loop's.
#[derive(Debug)]
pub(crate) struct PolicyClient {
    pub(super) adviser: Arc<dyn Adviser>,
    pub(super) links: RefCell<Links>,
    pub(super) priors: Arc<Priors>,
    pub(super) contents: Arc<Contents>,
    pub(super) shared_content: Arc<SharedContent>,
    indexes: RefCell<Indexes>,
    pub(super) paths: RefCell<GovernedPaths>,
    counters: Counters,
    /// Which of the counters are this loop's.
    index: usize,
}

impl PolicyClient {
    /// For the loop whose counters have this number.
    pub(crate) fn new(
        adviser: Arc<dyn Adviser>,
        (priors, contents, shared_content): (Arc<Priors>, Arc<Contents>, Arc<SharedContent>),
        counters: Counters,
        index: usize,
    ) -> Self {
        let (links, indexes, paths) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { adviser, links, priors, contents, shared_content, indexes, paths, counters, index }
    }

    /// Whether there are rules for a path; those that are no text have none.
    pub(crate) fn governs(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.adviser.governs(path))
    }

    /// Whether clients are to say of their links what they know, for a path that is governed.
    pub(crate) fn asks_hints(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.adviser.asks_hints(path))
    }

    /// Whether what has changed may be sent still as it was.
    pub(crate) fn may_be_stale(&self) -> bool {
        self.adviser.may_be_stale()
    }

    /// The number of the rules that hold.
    pub(crate) fn edition(&self) -> u64 {
        self.adviser.edition()
    }

    /// How many decisions the rules have made; none where that cannot be told without a wait.
    pub(crate) fn decisions(&self) -> Option<u64> {
        self.adviser.decisions()
    }

    pub(crate) fn counts(&self) -> &LoopCounters {
        &self.counters.0[self.index]
    }

    pub(crate) fn indexes(&self) -> &RefCell<Indexes> {
        &self.indexes
    }
}
