//! What a configuration says of rules.

use std::path::PathBuf;
use std::time::Duration;

/// Rules and how they are used, as a configuration says it: for the program that makes the adviser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOptions {
    /// The file of the rules.
    pub file: PathBuf,
    /// From one look at them to the next.
    pub tick: Option<Duration>,
    /// The name that they have for this node.
    pub node: Option<Placed<String>>,
    /// How forecasts are made.
    pub forecast: Option<Placed<String>>,
    /// The recording of what they were told and decided.
    pub decisions: Option<Placed<PathBuf>>,
    /// The database of readings and decisions.
    pub environment: Option<Placed<PathBuf>>,
    /// Where alerts are posted.
    pub webhook: Option<Placed<String>>,
}

impl PolicyOptions {
    /// Of a file of rules, with nothing else said.
    pub fn new(file: PathBuf) -> Self {
        let (forecast, decisions, environment, webhook) = (None, None, None, None);
        Self { file, tick: None, node: None, forecast, decisions, environment, webhook }
    }
}

/// A value of a configuration with its place there, for a mistake that is found later; equal to another one whose value
/// is, wherever that stands.
#[derive(Debug, Clone, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in its line, counted from 1.
    pub column: usize,
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
