//! What is told of a part of a file.

use std::fmt;

/// Something that is not in the scenario, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What it is, and what becomes of it.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.line, self.what, self.remedy)
    }
}
