//! What became of directives that are not in the written file.

use crate::place::Place;
use std::fmt;

/// A directive that was not carried over, or only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Where it stands.
    pub place: Place,
    /// What is lost, and what that means.
    pub what: String,
    /// What to do in its place.
    pub remedy: String,
    /// Whether the written file refuses in its place, as it keeps clients away.
    pub is_refused: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = if self.is_refused { " (refused with 403 until then)" } else { "" };
        write!(f, "{}: {}; {}{refused}", self.place, self.what, self.remedy)
    }
}

/// A directive that weir does without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// Where it stands.
    pub place: Place,
    /// Its name.
    pub name: String,
}
