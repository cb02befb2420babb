//! What each subject did and used under a load: a pure function of an outcome, for every report.
use std::collections::BTreeMap;

use serde::Serialize;
use weir_measure::comparison::median;

use crate::curve::Curve;
use crate::fairness::{Fairness, TypicalFairness};
use crate::measured_slice::Slice;
use crate::observed::Parts;
use crate::outcome::Outcome;
use crate::schedule::Role;

/// What a subject did and used under a load, over its slices (those of the baseline against itself left out). Figures are
/// medians over slices where nothing else is said, and `None` where no slice tells them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubjectFacts {
    /// Its index in the plan.
    #[serde(skip)]
    pub subject: usize,
    /// Its name.
    #[serde(rename = "subject")]
    pub name: String,
    /// How many slices.
    pub slices: usize,
    /// Requests answered in all of them.
    pub requests: u64,
    /// Requests that failed or had an error status (400 and above), in all of them.
    pub errors: u64,
    /// Requests that failed, by the tool's names of the kinds, in all of them.
    pub failures: BTreeMap<String, u64>,
    /// Answers by status (`200`) or class of statuses (`2xx`), in all of them.
    pub statuses: BTreeMap<String, u64>,
    /// Requests answered each second.
    pub rate_per_s: Option<f64>,
    /// CPU time of the server for a request outside the kernel, in nanoseconds. Most kernels tell it from that within by
    /// looking at each tick (1 to 10 ms).
    pub user_ns_per_request: Option<f64>,
    /// CPU time of the server for a request within the kernel, in nanoseconds.
    pub system_ns_per_request: Option<f64>,
    /// Context switches of the server's threads that lived throughout a slice, for a request.
    pub switches_per_request: Option<f64>,
    /// Those of them that the kernel forced on a thread that could have gone on.
    pub involuntary_switches_per_request: Option<f64>,
    /// Bytes that the load received, heads included, each second.
    pub bytes_per_s: Option<f64>,
    /// The same for a request.
    pub bytes_per_request: Option<f64>,
    /// Mean memory of the server, in bytes.
    pub memory_bytes: Option<f64>,
    /// The largest of the looks at it, of all slices.
    pub peak_memory_bytes: Option<u64>,
    /// The part of its CPUs that the load used; 1 is all of it.
    pub generator_cpu_share: Option<f64>,
    /// How evenly the clients were served.
    pub fairness: Option<TypicalFairness>,
    /// The times of all responses of all slices by percentile.
    pub curve: Option<CurvePoints>,
    /// The parts of a response; `None` where none was observed.
    pub parts: Option<Parts>,
}

/// A curve for plots.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct CurvePoints(Vec<(f64, f64)>);

impl CurvePoints {
    /// Pairs of a percentile (0 to 100) and the time that so many in a hundred responses do not exceed, in nanoseconds.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }
}

/// What each subject of a case did and used, in the order of the subjects.
#[must_use]
pub fn subject_facts(outcome: &Outcome, case: usize) -> Vec<SubjectFacts> {
    let Some(planned) = outcome.plan.cases.get(case) else { return Vec::new() };
    planned.subjects().map(|subject| of_subject(outcome, case, subject)).collect()
}

fn of_subject(outcome: &Outcome, case: usize, subject: usize) -> SubjectFacts {
    let slices: Vec<&Slice> = outcome.blocks_of(case).filter_map(|block| block.of(Role::Subject(subject))).collect();
    let typical = |value: &dyn Fn(&Slice) -> Option<f64>| {
        median(&slices.iter().filter_map(|slice| value(slice)).collect::<Vec<f64>>())
    };
    let of_request = |value: &dyn Fn(&Slice) -> Option<u64>| {
        typical(&|slice| Some(value(slice)? as f64 / slice.requests.max(1) as f64))
    };
    let sum = |counts: fn(&Slice) -> &BTreeMap<String, u64>| {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in slices.iter().flat_map(|slice| counts(slice)) {
            *all.entry(name.clone()).or_default() += count;
        }
        all
    };
    let fairness: Vec<Fairness> = slices.iter().filter_map(|slice| slice.details.fairness).collect();
    let curves = slices.iter().filter_map(|slice| Some((slice.details.curve.as_ref()?, slice.requests)));
    let points = |curve: Curve| {
        CurvePoints(weir_measure::curve::PERCENTILES.into_iter().zip(curve.ns().iter().copied()).collect())
    };
    SubjectFacts {
        subject,
        name: outcome.plan.subject_name(subject),
        slices: slices.len(),
        requests: slices.iter().map(|slice| slice.requests).sum(),
        errors: slices.iter().map(|slice| slice.errors).sum(),
        failures: sum(|slice| &slice.details.failures),
        statuses: sum(|slice| &slice.details.statuses),
        rate_per_s: typical(&|slice| Some(slice.rate_per_s)),
        user_ns_per_request: of_request(&Slice::server_user_ns),
        system_ns_per_request: of_request(&|slice| slice.server_system_ns),
        switches_per_request: of_request(&|slice| slice.switches),
        involuntary_switches_per_request: of_request(&|slice| slice.involuntary_switches),
        bytes_per_s: typical(&|slice| {
            slice.details.bytes_told_per_s.or_else(|| Some(slice.bytes? as f64 / slice.duration_s))
        }),
        bytes_per_request: of_request(&|slice| slice.bytes),
        memory_bytes: typical(&|slice| Some(slice.memory?.mean_bytes)),
        peak_memory_bytes: slices.iter().filter_map(|slice| Some(slice.memory?.peak_bytes)).max(),
        generator_cpu_share: typical(&|slice| Some(slice.generator_cpu_share)),
        fairness: TypicalFairness::of(&fairness),
        curve: Curve::together(&curves.collect::<Vec<_>>()).map(points),
        parts: Parts::of(&outcome.observed, case, subject),
    }
}
