//! How old answers may be, by what rules have ordered.

use rustc_hash::FxHashMap;
use weir_adapt::Policy;

/// Ages that hold, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    /// Of each pattern, by its number; empty where nothing at all was ordered.
    by_pattern: Vec<Option<u64>>,
    of_atoms: FxHashMap<String, u64>,
}

impl Stale {
    /// Of patterns and atoms by their texts.
    pub(crate) fn of(policy: &Policy, of_patterns: &FxHashMap<String, u64>, of_atoms: &FxHashMap<String, u64>) -> Self {
        if of_patterns.is_empty() && of_atoms.is_empty() {
            return Self::default();
        }
        let by_pattern = policy.patterns().map(|glob| of_patterns.get(glob).copied()).collect();
        Self { by_pattern, of_atoms: of_atoms.clone() }
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.by_pattern.is_empty()
    }

    /// How old an answer for a path of a pattern may be; of two that say so the longer counts. Mostly it is a look at an
    /// empty list.
    pub(crate) fn ms_max(&self, pattern: usize, path: &str) -> Option<u64> {
        let of_pattern = self.by_pattern.get(pattern)?;
        let of_atom = (!self.of_atoms.is_empty()).then(|| self.of_atoms.get(path)).flatten();
        (*of_pattern).max(of_atom.copied())
    }
}
