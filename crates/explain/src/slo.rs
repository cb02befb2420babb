//! Objectives as users write them.

use weir_measure::objective::{Objective, ObjectiveError};

/// An objective, as it was given and as it is meant.
#[derive(Debug, Clone)]
pub struct Slo {
    /// As it was given.
    pub text: String,
    /// As it is meant.
    pub objective: Objective,
}

/// Reads an objective.
///
/// # Errors
/// [`ObjectiveError`].
pub fn slo(text: &str) -> Result<Slo, ObjectiveError> {
    text.parse().map(|objective| Slo { text: text.to_owned(), objective })
}
