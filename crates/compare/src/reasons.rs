//! Why a subject is slower or faster than its baseline: the parts of its responses and of its CPU time that differ.
use serde::Serialize;
use weir_measure::comparison::{Bootstrap, PairedRatios, median};
use weir_measure::part::Part;

use crate::measured_slice::Slice;
use crate::metric::{Measured, Metric};
use crate::observed::Observed;
use crate::outcome::Outcome;

/// With fewer observed slices of either nothing is said.
const SLICES_LEAST: usize = 3;
/// A part counts if it differs by at least this share of the longer response.
const SHARE_LEAST: f64 = 0.01;
/// Draws of the bootstrap.
const RESAMPLES: usize = 2000;

/// Why a subject's responses or CPU time differ from its baseline's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reasons {
    /// Index of the subject in the plan.
    #[serde(skip)]
    pub subject: usize,
    /// Its name.
    #[serde(rename = "subject")]
    pub name: String,
    /// How much longer its observed responses are than the baseline's, in nanoseconds of the mean, and by which parts;
    /// `None` where too few slices of them were observed.
    pub response: Option<ResponseDifference>,
    /// How much more CPU time it takes for a request outside the kernel, in nanoseconds, from the timed blocks; `None`
    /// where that is not told apart or differs by no more than its noise.
    pub user_ns: Option<f64>,
    /// The same within the kernel.
    pub system_ns: Option<f64>,
}

/// How much longer responses are, and by what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResponseDifference {
    /// In all, in nanoseconds.
    pub difference_ns: f64,
    /// The parts that differ by more than their noise, the largest difference first.
    pub parts: Vec<PartDifference>,
    /// What is left for all others together: with the parts it adds up to the difference.
    pub others_ns: f64,
}

/// How much longer a part of a response is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PartDifference {
    /// [`Part::name`].
    #[serde(serialize_with = "name")]
    pub part: Part,
    /// In nanoseconds of the mean; below 0 where it is shorter.
    pub difference_ns: f64,
    /// The lower end of the 95 % interval, by the bootstrap over observed slices.
    pub low_ns: f64,
    /// Its upper end.
    pub high_ns: f64,
}

// Serde hands references to these.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn name<S: serde::Serializer>(part: &Part, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(part.name())
}

/// Why each subject of a case but the baseline differs from it, in the order of the subjects.
#[must_use]
pub fn reasons(outcome: &Outcome, case: usize) -> Vec<Reasons> {
    let Some(planned) = outcome.plan.cases.get(case) else { return Vec::new() };
    let of_subject = |subject: usize| Reasons {
        subject,
        name: outcome.plan.subject_name(subject),
        response: response(outcome, case, planned.baseline(), subject),
        user_ns: cpu(outcome, case, subject, Slice::server_user_ns),
        system_ns: cpu(outcome, case, subject, |slice| slice.server_system_ns),
    };
    planned.subjects().skip(1).map(of_subject).collect()
}

fn response(outcome: &Outcome, case: usize, baseline: usize, subject: usize) -> Option<ResponseDifference> {
    let slices_of = |subject: usize| -> Vec<&Observed> {
        outcome.observed.iter().filter(|found| (found.case, found.subject) == (case, subject)).collect()
    };
    let (a, b) = (slices_of(baseline), slices_of(subject));
    // From the client and from the server's side a response does not count alike.
    if a.len().min(b.len()) < SLICES_LEAST || a[0].boundary != b[0].boundary {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let response = |slices: &[&Observed]| mean(&slices.iter().map(|slice| slice.response_ns).collect::<Vec<_>>());
    let (a_ns, b_ns) = (response(&a), response(&b));
    let least_ns = a_ns.max(b_ns) * SHARE_LEAST;
    let mut parts: Vec<PartDifference> = Vec::new();
    for part in Part::ALL {
        let values = |slices: &[&Observed]| slices.iter().map(|slice| slice.part_ns(part)).collect::<Vec<f64>>();
        let (a, b) = (values(&a), values(&b));
        let difference_ns = mean(&b) - mean(&a);
        if difference_ns.abs() < least_ns {
            continue;
        }
        let (low_ns, high_ns) = interval(&a, &b, outcome.plan.seed);
        if low_ns > 0.0 || high_ns < 0.0 {
            parts.push(PartDifference { part, difference_ns, low_ns, high_ns });
        }
    }
    parts.sort_by(|one, other| other.difference_ns.abs().total_cmp(&one.difference_ns.abs()));
    let difference_ns = b_ns - a_ns;
    let others_ns = difference_ns - parts.iter().map(|part| part.difference_ns).sum::<f64>();
    Some(ResponseDifference { difference_ns, parts, others_ns })
}

/// The 95 % interval of the difference of two means: both sides are drawn anew with replacement.
fn interval(a: &[f64], b: &[f64], seed: u64) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = |values: &[f64]| {
        (0..values.len()).map(|_| values[random.usize(..values.len())]).sum::<f64>() / values.len() as f64
    };
    let mut differences: Vec<f64> = (0..RESAMPLES).map(|_| drawn(b) - drawn(a)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let cut = RESAMPLES / 40;
    (differences[cut], differences[RESAMPLES - 1 - cut])
}

/// The median over blocks of the difference in CPU time for a request, where the ratio differs by more than its noise.
fn cpu(outcome: &Outcome, case: usize, subject: usize, of: fn(&Slice) -> Option<u64>) -> Option<f64> {
    if outcome.plan.measured == Measured::Generator {
        return None;
    }
    let of_request = |slice: &Slice| Some(of(slice)? as f64 / slice.requests.max(1) as f64);
    let (mut ratios, mut differences) = (PairedRatios::default(), Vec::new());
    for (baseline, subject) in outcome.pairs(case, subject) {
        if let (Some(a), Some(b)) = (of_request(baseline), of_request(subject)) {
            // Without a ratio there is no noise to hold the difference against either.
            if ratios.push(a, b).is_ok() {
                differences.push(b - a);
            }
        }
    }
    let found = ratios.snapshot(&Bootstrap::with_seed(outcome.plan.seed)).ok()?;
    let is_clear = found.blocks >= weir_measure::comparison::BLOCKS_FOR_A_VERDICT && !found.interval.contains(1.0);
    median(&differences).filter(|_| is_clear)
}

impl Reasons {
    /// Why its responses take longer or shorter, in words; `None` where nothing is known.
    #[must_use]
    pub fn of_response(&self) -> Option<String> {
        let response = self.response.as_ref()?;
        if response.parts.is_empty() {
            return None;
        }
        let parts: Vec<String> = response.parts.iter().take(4).map(part_in_words).collect();
        let told: f64 = response.parts.iter().take(4).map(|part| part.difference_ns).sum();
        let others = longer(response.difference_ns - told);
        Some(format!(
            "{}'s response is {} when observed: {}; all else is {others}",
            self.name,
            longer(response.difference_ns),
            parts.join(", "),
        ))
    }

    /// Why it takes more or less CPU time for a request, in words; `None` where nothing is known.
    #[must_use]
    pub fn of_cpu(&self) -> Option<String> {
        let more =
            |ns: f64| format!("{} {}", Metric::P50Ns.with_unit(ns.abs()), if ns < 0.0 { "less" } else { "more" });
        let system = self.system_ns.map(|ns| format!("{} in the kernel", more(ns)));
        let user = self.user_ns.map(|ns| format!("{} in its own code", more(ns)));
        let parts: Vec<String> = [system, user].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{} runs {} for a request", self.name, parts.join(" and ")))
    }
}

fn longer(ns: f64) -> String {
    format!("{} {}", Metric::P50Ns.with_unit(ns.abs()), if ns < 0.0 { "shorter" } else { "longer" })
}

/// `waits 0.4 ms longer for a lock`.
fn part_in_words(part: &PartDifference) -> String {
    let (verb, of) = match part.part {
        Part::Generator => ("waits", " in the load generator"),
        Part::Connect => ("takes", " to connect"),
        Part::RequestTransit => ("takes", " until the request is there"),
        Part::AcceptQueue => ("waits", " to be accepted"),
        Part::WorkerQueue => ("waits", " behind other requests of its worker"),
        Part::Run => ("runs", ""),
        Part::WaitCpu => ("waits", " for a CPU"),
        Part::WaitDisk => ("waits", " for a disk"),
        Part::WaitLock => ("waits", " for a lock"),
        Part::WaitProcess => ("waits", " for another process"),
        Part::WaitNetwork => ("waits", " for the network"),
        Part::WaitTimer => ("sleeps", ""),
        Part::Stopped => ("is stopped", ""),
        Part::ResponseTransit => ("takes", " on its way to the client"),
        Part::ClientWakeup => ("waits", " for the client to take it"),
        Part::Unattributed => ("spends", " where nothing is known"),
    };
    format!("{verb} {}{of}", longer(part.difference_ns))
}
