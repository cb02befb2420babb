//! What policies want of the placement: for paths how many copies there are to be, and on which nodes.

use crate::name::NodeNumber;
use std::collections::BTreeMap;

/// Says whether a path from the root of a site, which begins with a slash, fits a glob.
pub type Fits<'f> = &'f dyn Fn(&str, &str) -> bool;

/// Copies that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// How many; more than there are nodes = on each.
    pub count: u32,
    /// The nodes among which they are to be; empty = all.
    pub pool: Vec<NodeNumber>,
}

/// The wishes of policies, by the glob of the paths that each is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes(pub BTreeMap<String, Copies>);

impl Wishes {
    /// What is wanted for a path: of several wishes that with the most copies, and of equal ones the first glob's.
    #[must_use]
    pub fn of(&self, path: &str, fits: Fits<'_>) -> Option<&Copies> {
        let fitting = self.0.iter().filter(|(glob, _)| fits(glob, path)).map(|(_, copies)| copies);
        fitting.reduce(|best, other| if other.count > best.count { other } else { best })
    }
}
