//! The errors of subjects beside those of their baselines: a pure function of an outcome.
use std::fmt;

use serde::Serialize;
use weir_measure::binomial::upper_tail;

use crate::facts::{SubjectFacts, subject_facts};
use crate::outcome::Outcome;
use crate::schedule::Role;

/// More errors than chance explains: errors of equal servers differ as much in less than 5 % of experiments.
const CHANCE: f64 = 0.05;

/// The errors of a subject beside those of its case's baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Errors {
    /// Index of the case.
    #[serde(skip)]
    pub case: usize,
    /// Index of the subject.
    #[serde(skip)]
    pub index: usize,
    /// The name of the subject.
    pub subject: String,
    /// The name of the baseline.
    pub baseline: String,
    /// Requests of the subject that failed or had an error status.
    pub errors: u64,
    /// Requests of the subject, those that failed among them.
    pub requests: u64,
    /// As `errors`, of the baseline.
    pub baseline_errors: u64,
    /// As `requests`, of the baseline.
    pub baseline_requests: u64,
    /// Slices of the subject that failed, and are in no figure.
    pub failed_slices: usize,
    /// As `failed_slices`, of the baseline.
    pub baseline_failed_slices: usize,
    /// The probability that a subject with the baseline's share of errors has as many.
    pub probability: f64,
}

impl Errors {
    /// The part of the subject's requests that are errors, and the part of the baseline's.
    #[must_use]
    pub fn shares(&self) -> (f64, f64) {
        let share = |errors: u64, requests: u64| if requests == 0 { 0.0 } else { errors as f64 / requests as f64 };
        (share(self.errors, self.requests), share(self.baseline_errors, self.baseline_requests))
    }

    /// Whether the subject has more errors than the baseline, by more than chance.
    #[must_use]
    pub fn is_more(&self) -> bool {
        let (own, baseline) = self.shares();
        own > baseline && self.probability <= CHANCE
    }

    /// Whether nothing that the subject answered is a success.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.requests > 0 && self.errors >= self.requests
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, baseline, errors, requests, baseline_errors, baseline_requests, .. } = self;
        write!(
            f,
            "{subject} has {errors} errors in {requests} requests, {baseline} {baseline_errors} in {baseline_requests}"
        )
    }
}

/// The errors of each subject beside its baseline's, in the order of cases and subjects.
#[must_use]
pub fn errors(outcome: &Outcome) -> Vec<Errors> {
    let mut all = Vec::new();
    for (case, planned) in outcome.plan.cases.iter().enumerate() {
        let facts = subject_facts(outcome, case);
        let of = |subject: usize| facts.iter().find(|facts| facts.subject == subject);
        let Some(baseline) = of(planned.baseline()) else { continue };
        for subject in planned.subjects().skip(1) {
            all.extend(of(subject).map(|facts| compared(outcome, case, facts, baseline)));
        }
    }
    all
}

fn compared(outcome: &Outcome, case: usize, subject: &SubjectFacts, baseline: &SubjectFacts) -> Errors {
    // Answers and failures; some tools name no kinds of failures, and count them as errors only.
    let requests = |facts: &SubjectFacts| (facts.requests + facts.failures.values().sum::<u64>()).max(facts.errors);
    let failed = |index: usize| {
        let failed = outcome.blocks_of(case).flat_map(|block| &block.failed);
        failed.filter(|slice| slice.role == Some(Role::Subject(index))).count()
    };
    let (own, other) = (requests(subject), requests(baseline));
    let chance = own as f64 / (own + other).max(1) as f64;
    Errors {
        case,
        index: subject.subject,
        subject: subject.name.clone(),
        baseline: baseline.name.clone(),
        errors: subject.errors,
        requests: own,
        baseline_errors: baseline.errors,
        baseline_requests: other,
        failed_slices: failed(subject.subject),
        baseline_failed_slices: failed(baseline.subject),
        probability: upper_tail(subject.errors, subject.errors + baseline.errors, chance),
    }
}
