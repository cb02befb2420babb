//! What a run must hold: `p99<50ms`, `step NAME: p95<200ms`, `group NAME: errors<1%`, `tag a=b: rate>5/s`.

use crate::form::scope::{Scope, ScopeKind};
use weir_diagnostic::nearest;
use weir_measure::threshold::{Threshold, ThresholdError};

/// What the run must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    /// As it was written.
    pub text: String,
    /// Of which requests, by the place of a scope.
    pub scope: usize,
    /// What.
    pub threshold: Threshold,
}

/// Why a text is no objective of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SloError {
    /// What stands before the colon is nothing that is counted apart.
    #[error(
        "{given:?} is no step, group or tag: write \"p99<50ms\", \"step NAME: p95<200ms\", \"group NAME: errors<1%\" \
         or \"tag a=b: rate>5/s\""
    )]
    Kind {
        /// What stands there.
        given: String,
    },
    /// There is none of that name.
    #[error("there is no {kind} {name:?}: {remedy}")]
    Unknown {
        /// What it is to be.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Which are there.
        remedy: String,
    },
    /// It is of events of streamed answers, which scenarios do not tell apart.
    #[error("{given:?}: a scenario does not tell events of an answer apart; `weir load --stream` does")]
    Streams {
        /// What was given.
        given: String,
    },
    /// The threshold is wrong.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
}

impl Slo {
    /// Reads an objective of these scopes.
    ///
    /// # Errors
    /// [`SloError`].
    pub fn parse(text: &str, scopes: &[Scope]) -> Result<Self, SloError> {
        let (scope, threshold) = match text.split_once(": ") {
            None => (0, text),
            Some((of, threshold)) => (scope(of, scopes)?, threshold),
        };
        let threshold: Threshold = threshold.parse()?;
        if threshold.is_of_streams() {
            return Err(SloError::Streams { given: text.to_owned() });
        }
        Ok(Self { text: text.to_owned(), scope, threshold })
    }
}

fn scope(of: &str, scopes: &[Scope]) -> Result<usize, SloError> {
    let kinds = [ScopeKind::Step, ScopeKind::Group, ScopeKind::Tag];
    let found = kinds.into_iter().find_map(|kind| Some((kind, of.strip_prefix(kind.name())?.trim())));
    let no_kind = || SloError::Kind { given: of.to_owned() };
    let (kind, name) = found.filter(|(_, name)| !name.is_empty()).ok_or_else(no_kind)?;
    let of_kind = || scopes.iter().filter(|scope| scope.kind == kind).map(|scope| scope.name.as_str());
    scopes.iter().position(|scope| scope.kind == kind && scope.name == name).ok_or_else(|| {
        let remedy = match nearest(name, of_kind()) {
            Some(near) => format!("{near} is meant?"),
            None => format!("there are: {}", of_kind().collect::<Vec<_>>().join(", ")),
        };
        SloError::Unknown { kind: kind.name(), name: name.to_owned(), remedy }
    })
}
