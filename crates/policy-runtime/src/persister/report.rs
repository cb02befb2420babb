//! What the persister reports to the server.

use serde::{Deserialize, Serialize};

/// Letters of a reason that are told: a report is one piece in a pipe.
const WHY_LETTERS_MAX: usize = 250;

/// What the persister has done so far. It goes to the server as a line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Lines of the recording that were taken out of the pipe, those of them that wait for the disk, and those that
    /// were lost.
    pub lines_taken: u64,
    /// See above.
    pub lines_waiting: u64,
    /// See above.
    pub lines_lost: u64,
    /// Looks and decisions that were to be kept in the database and were not.
    pub records_lost: u64,
    /// Alerts that were not delivered.
    pub alerts_lost: u64,
    /// What cannot be done at the moment, and why.
    pub failing: Vec<Failing>,
}

/// Something that cannot be done at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// `recording`, `environment`, `webhook` or `clerk`.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl Failing {
    pub(crate) fn new(what: &str, why: &str) -> Self {
        Self { what: what.to_owned(), why: why.chars().take(WHY_LETTERS_MAX).collect() }
    }
}
