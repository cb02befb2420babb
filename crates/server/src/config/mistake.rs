//! A mistake in a configuration.

use std::fmt;

/// Something wrong in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in its line, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.line, self.column, self.what, self.remedy)
    }
}
