//! Checks: how often each held, and what came the first time it did not.

use std::collections::HashMap;
use std::sync::Arc;

/// The most different checks; more are counted together.
const CHECKS_MAX: usize = 10_000;
/// The longest text of what came instead, in characters.
const WORDS_MAX: usize = 200;

/// A check within its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The group, `""` outside of all.
    pub group: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// How often it held.
    pub passes: u64,
    /// How often it did not.
    pub fails: u64,
    /// What came the first time it did not, if that was said.
    pub first: Option<String>,
}

/// All checks, in the order in which they were first made.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    list: Vec<Checked>,
    places: HashMap<(Arc<str>, Arc<str>), usize>,
    beyond: u64,
}

impl Checks {
    /// Counts a check; `words` say what came instead where it did not hold, and are asked for the first time only.
    pub fn count(&mut self, group: &Arc<str>, name: &Arc<str>, holds: bool, words: impl FnOnce() -> Option<String>) {
        let key = (Arc::clone(group), Arc::clone(name));
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.list.len() >= CHECKS_MAX => {
                self.beyond += 1;
                return;
            }
            None => {
                let (group, name) = (Arc::clone(group), Arc::clone(name));
                self.list.push(Checked { group, name, passes: 0, fails: 0, first: None });
                self.places.insert(key, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let checked = &mut self.list[place];
        if holds {
            checked.passes += 1;
            return;
        }
        if checked.fails == 0 {
            checked.first = words().map(|words| words.chars().take(WORDS_MAX).collect());
        }
        checked.fails += 1;
    }

    /// All, in the order in which they were first made.
    #[must_use]
    pub fn list(&self) -> &[Checked] {
        &self.list
    }

    /// Checks that were made, but are not listed, as there are too many different ones.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }
}
