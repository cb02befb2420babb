//! What an objective, a check or a comparison says of a run.

use serde_json::Value;

/// What one objective or check says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    /// As it was written.
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// Why, in words.
    pub(super) words: String,
    /// The same in figures, for programs.
    pub(super) figures: Value,
}

/// What a finding is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Objective,
    Check,
    /// Of a figure with that of earlier runs.
    Comparison,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Met,
    Missed,
    /// The noise does not allow to say.
    Untold,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Objective => "objective",
            Self::Check => "check",
            Self::Comparison => "comparison",
        }
    }
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Untold => "cannot be told",
        }
    }
}

impl Finding {
    /// In one line: what was asked, what was found, and why.
    pub(super) fn line(&self) -> String {
        format!("{} {}: {}", self.name, self.outcome.name(), self.words)
    }
}
