//! Observed slices: they tell the parts of responses, and are in no figure of the blocks, since observing costs something.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_measure::part::Part;

/// What one observed slice tells of a subject under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Index of the case.
    pub case: usize,
    /// Index of the subject.
    pub subject: usize,
    /// Responses whose parts are known.
    pub requests: u64,
    /// From what to what a response counts, in words.
    pub boundary: String,
    /// The mean of their times, in nanoseconds.
    pub response_ns: f64,
    /// The mean of each part of them by its name ([`Part::name`]), in nanoseconds; they add up to `response_ns`.
    pub parts_ns: BTreeMap<String, f64>,
}

impl Observed {
    /// The mean of a part, in nanoseconds.
    #[must_use]
    pub fn part_ns(&self, part: Part) -> f64 {
        self.parts_ns.get(part.name()).copied().unwrap_or(0.0)
    }
}

/// The parts of a subject's responses over its observed slices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parts {
    /// Observed slices.
    pub slices: usize,
    /// Responses in all of them.
    pub requests: u64,
    /// From what to what a response counts, in words.
    pub boundary: String,
    /// The mean over the slices of the responses' mean times, in nanoseconds.
    pub response_ns: f64,
    /// The mean over the slices of each part that occurred, in the order in which a response passes them; they add up
    /// to `response_ns`.
    pub parts: Vec<PartMean>,
}

/// A part of a response and how long it takes in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PartMean {
    /// [`Part::name`].
    pub part: &'static str,
    /// [`Part::words`].
    pub words: &'static str,
    /// Nanoseconds.
    pub mean_ns: f64,
}

impl Parts {
    /// The parts of a subject under a load; `None` where no slice of it was observed.
    pub(crate) fn of(observed: &[Observed], case: usize, subject: usize) -> Option<Self> {
        let slices: Vec<&Observed> =
            observed.iter().filter(|found| (found.case, found.subject) == (case, subject)).collect();
        let first = slices.first()?;
        let mean = |value: &dyn Fn(&Observed) -> f64| {
            slices.iter().map(|slice| value(slice)).sum::<f64>() / slices.len() as f64
        };
        let part = |part: Part| PartMean {
            part: part.name(),
            words: part.words(),
            mean_ns: mean(&|slice| slice.part_ns(part)),
        };
        Some(Self {
            slices: slices.len(),
            requests: slices.iter().map(|slice| slice.requests).sum(),
            boundary: first.boundary.clone(),
            response_ns: mean(&|slice| slice.response_ns),
            parts: Part::ALL.into_iter().map(part).filter(|part| part.mean_ns > 0.0).collect(),
        })
    }
}
