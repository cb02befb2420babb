//! What came of the checks of responses.

use crate::carried::carried;
use crate::checks::Check;

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The check, as it was written.
    pub check: String,
    /// Whole responses that were looked at.
    pub responses: u64,
    /// Those of them that failed it.
    pub failed: u64,
    /// What one of those was, in words.
    pub example: Option<String>,
}

/// What one loop counts; loops' tallies add up.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckTally {
    checks: Vec<Counted>,
    /// Responses that failed a check, of any status.
    unfit: u64,
    /// What looking at responses took, nanoseconds.
    pub(crate) took_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    responses: u64,
    failed: u64,
    example: Option<String>,
}

impl CheckTally {
    /// For so many checks.
    pub(crate) fn new(checks: usize) -> Self {
        Self { checks: vec![Counted::default(); checks], ..Self::default() }
    }

    /// A response was looked at by a check and is as it asks, or came so; `example` says what it was of the first.
    pub(crate) fn count(&mut self, check: usize, failure: Option<String>, example: impl FnOnce(&str) -> String) {
        let Some(counted) = self.checks.get_mut(check) else { return };
        counted.responses += 1;
        if let Some(words) = failure {
            counted.failed += 1;
            counted.example.get_or_insert_with(|| example(&words));
        }
    }

    /// A response failed one of them, or several.
    pub(crate) fn count_unfit(&mut self) {
        self.unfit += 1;
    }

    /// Responses that failed a check, of any status.
    pub(crate) fn unfit(&self) -> u64 {
        self.unfit
    }

    /// Adds another loop's tally.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.checks.is_empty() {
            self.checks.resize(other.checks.len(), Counted::default());
        }
        self.unfit += other.unfit;
        self.took_ns += other.took_ns;
        for (counted, more) in self.checks.iter_mut().zip(&other.checks) {
            counted.responses += more.responses;
            counted.failed += more.failed;
            if counted.example.is_none() {
                counted.example.clone_from(&more.example);
            }
        }
    }

    /// What came of these checks, in their order.
    pub(crate) fn report(&self, checks: &[Check]) -> Vec<CheckReport> {
        let told = |(check, counted): (&Check, &Counted)| CheckReport {
            check: check.text().to_owned(),
            responses: counted.responses,
            failed: counted.failed,
            example: counted.example.clone(),
        };
        checks.iter().zip(&self.checks).map(told).collect()
    }
}

carried!(CheckTally { checks, unfit, took_ns });
carried!(Counted { responses, failed, example });
