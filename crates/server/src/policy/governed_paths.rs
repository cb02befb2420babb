//! Paths that no file answers, as the rules have them: whether there are any for a path is remembered, as it is for a file
//! in the cache.

use std::collections::HashMap;

/// Paths that a loop remembers; it forgets all of them when there are more.
const PATHS_MAX: usize = 1024;

/// What a loop knows of paths that were asked for.
#[derive(Debug, Default)]
pub(crate) struct GovernedPaths {
    /// Of the rules that all of it is by.
    edition: u64,
    known: HashMap<Box<str>, Governed>,
}

/// Whether rules are for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Governed {
    No,
    /// They are; the number is what the next question gives back.
    Yes(u64),
}

impl GovernedPaths {
    /// What is known of a path by these rules.
    pub(super) fn find(&mut self, path: &str, edition: u64) -> Option<Governed> {
        if std::mem::replace(&mut self.edition, edition) != edition {
            self.known.clear();
        }
        self.known.get(path).copied()
    }

    pub(super) fn remember(&mut self, path: &str, what: Governed) {
        if let Some(known) = self.known.get_mut(path) {
            *known = what;
            return;
        }
        if self.known.len() >= PATHS_MAX {
            self.known.clear();
        }
        self.known.insert(path.into(), what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_paths_is_bounded_and_of_one_edition() {
        let mut paths = GovernedPaths::default();
        assert_eq!(paths.find("/a", 1), None);
        paths.remember("/a", Governed::No);
        paths.remember("/b", Governed::Yes(7));
        assert_eq!((paths.find("/a", 1), paths.find("/b", 1)), (Some(Governed::No), Some(Governed::Yes(7))));
        assert_eq!(paths.find("/b", 2), None, "others hold");
        (0..3 * PATHS_MAX).for_each(|number| paths.remember(&format!("/{number}"), Governed::No));
        assert!(paths.known.len() <= PATHS_MAX);
    }
}
