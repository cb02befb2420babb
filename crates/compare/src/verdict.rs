//! What follows from an outcome: pure functions of it.
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use weir_measure::comparison::{self, BLOCKS_FOR_A_VERDICT, Bootstrap, Estimate, PairedRatios, Verdict};
use weir_measure::family::holm;
use weir_measure::power::{Power, smallest_found};
use weir_measure::signed_rank;

use crate::false_verdicts::{FALSE_VERDICTS, blocks_for_a_verdict};
use crate::measured_slice::Slice;
use crate::metric::{Measured, Metric};
use crate::outcome::{Block, BlockSlice, Outcome};
use crate::plan::{Case, Plan};
use crate::request_errors::{Errors, errors};
use crate::schedule::Role;

/// Above this part of its CPU the generator, not the server, set the throughput.
pub(crate) const GENERATOR_LIMIT: f64 = 0.95;

/// A subject judged against its case's baseline in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Index of the case.
    pub case: usize,
    /// Index of the subject that is judged.
    pub subject: usize,
    /// What was compared.
    pub metric: Metric,
    /// Median over the blocks of the baseline's slices, in the metric's unit; `None` without blocks.
    pub baseline_median: Option<f64>,
    /// The same of the subject's.
    pub median: Option<f64>,
    /// The ratio of the subject to the baseline; `None` when no block has one.
    #[serde(serialize_with = "estimate")]
    pub ratio: Option<Estimate>,
    /// The ratio of the baseline to itself; `None` when it was not measured.
    #[serde(serialize_with = "estimate")]
    pub noise: Option<Estimate>,
    /// The probability that subjects that do not differ give such pairs, by the signed-rank test.
    pub probability: Option<f64>,
    /// The same, corrected for all comparisons of the experiment (Holm).
    pub corrected_probability: Option<f64>,
    /// The smallest difference, as a fraction, that so many blocks on this machine would have shown about eight times of
    /// ten; `None` when the blocks do not tell.
    pub smallest_found: Option<f64>,
    /// What can be said; by the rule of [`comparison::verdict`], and better or worse only with a corrected probability of
    /// at most [`FALSE_VERDICTS`], except where [`generator_limited`](Self::generator_limited) says why not.
    #[serde(serialize_with = "verdict_in_words")]
    pub verdict: Verdict,
    /// The generator used more than 95 % of its CPU, in the median, on one of both, so the metric
    /// says what the generator can do. If it was so on one side only, the difference is at least
    /// what was measured, and a clear verdict stands; otherwise it becomes `cannot_tell`.
    pub generator_limited: bool,
    /// In every slice of the subject or of the baseline all requests failed or had an error status: nothing is said of
    /// it.
    pub only_failures: bool,
    /// The shares of requests that failed or had an error status differ by more than the smallest effect: a figure of
    /// unlike work says nothing for the side that does less of it, and such a verdict becomes `cannot_tell`.
    pub errors_differ: bool,
    /// The fewest blocks with which this comparison can have a verdict of better or worse among all of the experiment.
    pub blocks_needed: usize,
}

/// Judges every metric of every subject but the baseline of every case, in the order of cases, subjects and metrics. A
/// metric that was never measured is left out.
#[must_use]
pub fn verdicts(outcome: &Outcome) -> Vec<Judgement> {
    let mut judgements = judged(outcome, &Bootstrap::with_seed(outcome.plan.seed));
    let level = FALSE_VERDICTS / judgements.len().max(1) as f64;
    let mut found: Vec<(usize, Metric, Option<f64>)> = Vec::new();
    for judgement in &mut judgements {
        // The noise is the baseline's, so it is the same for all subjects.
        let known = found.iter().find(|known| (known.0, known.1) == (judgement.case, judgement.metric));
        judgement.smallest_found = match known {
            Some(known) => known.2,
            None => {
                let noise = noise_of(outcome, judgement.case, judgement.metric);
                let blocks = judgement.ratio.map_or(0, |ratio| ratio.blocks);
                let (smallest_effect, seed) = (outcome.plan.smallest_effect, outcome.plan.seed);
                let smallest = smallest_found(noise.ratios(), &Power { blocks, smallest_effect, level, seed });
                found.push((judgement.case, judgement.metric, smallest));
                smallest
            }
        };
    }
    judgements
}

/// The same with intervals by another bootstrap, and without the smallest difference that would have been found: for
/// those who judge experiments by the thousand, such as simulations.
#[must_use]
pub fn judged(outcome: &Outcome, bootstrap: &Bootstrap) -> Vec<Judgement> {
    let mut judgements: Vec<Judgement> = Vec::new();
    for (case, planned) in outcome.plan.cases.iter().enumerate() {
        for subject in planned.subjects().skip(1) {
            let judged = Metric::concerning(outcome.plan.measured).iter();
            judgements.extend(judged.filter_map(|metric| judge(outcome, case, subject, *metric, bootstrap)));
        }
    }
    let needed = blocks_for_a_verdict(judgements.len());
    let errors = errors(outcome);
    for judgement in &mut judgements {
        judgement.blocks_needed = needed;
        let found = errors.iter().find(|found| (found.case, found.index) == (judgement.case, judgement.subject));
        let Some((own, baseline)) = found.map(Errors::shares) else { continue };
        judgement.errors_differ = (own - baseline).abs() > outcome.plan.smallest_effect;
        let unfair: &[Verdict] =
            if own > baseline { &[Verdict::Better, Verdict::TheSame] } else { &[Verdict::Worse, Verdict::TheSame] };
        if judgement.errors_differ && unfair.contains(&judgement.verdict) {
            judgement.verdict = Verdict::CannotTell;
        }
    }
    let probabilities: Vec<Option<f64>> = judgements.iter().map(|judgement| judgement.probability).collect();
    for (judgement, corrected) in judgements.iter_mut().zip(holm(&probabilities)) {
        judgement.corrected_probability = corrected;
        let by_chance = corrected.is_none_or(|probability| probability > FALSE_VERDICTS);
        if by_chance && matches!(judgement.verdict, Verdict::Better | Verdict::Worse) {
            judgement.verdict = Verdict::CannotTell;
        }
    }
    judgements
}

fn judge(outcome: &Outcome, case: usize, subject: usize, metric: Metric, bootstrap: &Bootstrap) -> Option<Judgement> {
    let plan = &outcome.plan;
    let pairs = outcome.pairs(case, subject);
    let values = |side: fn(&(&Slice, &Slice)) -> f64| comparison::median(&pairs.iter().map(side).collect::<Vec<f64>>());
    let measured: Vec<f64> = pairs.iter().filter_map(|(_, slice)| metric.of(slice)).collect();
    if measured.is_empty() && !pairs.is_empty() {
        return None;
    }
    let base: Vec<f64> = pairs.iter().filter_map(|(slice, _)| metric.of(slice)).collect();
    let ratios = if metric.is_of_a_life() && !outcome.restarted {
        let baseline = by_life(outcome, case, Role::Subject(planned_baseline(plan, case)), metric);
        let subject = by_life(outcome, case, Role::Subject(subject), metric);
        paired(baseline.iter().filter_map(|(life, value)| Some((*value, *subject.get(life)?))))
    } else {
        ratios_of(metric, &pairs)
    };
    let repeated = noise_of(outcome, case, metric);
    let (ratio, noise) = (ratios.snapshot(bootstrap).ok(), repeated.snapshot(bootstrap).ok());
    let only_failures = !pairs.is_empty()
        && (pairs.iter().all(|(slice, _)| slice.only_failures())
            || pairs.iter().all(|(_, slice)| slice.only_failures()));
    let plain = ratio.filter(|_| !only_failures).map_or(Verdict::CannotTell, |ratio| {
        comparison::verdict(&ratio, noise.as_ref(), plan.smallest_effect, metric.direction())
    });
    let shares =
        [values(|(baseline, _)| baseline.generator_cpu_share), values(|(_, subject)| subject.generator_cpu_share)];
    let limited = shares.map(|share| share.is_some_and(|share| share > GENERATOR_LIMIT));
    // With generators as the subjects their speed is what is asked for.
    let concerned = metric.depends_on_the_generator() && plan.measured == Measured::Server;
    let verdict = match (limited, plain) {
        ([false, false], verdict) => verdict,
        (_, verdict) if !concerned => verdict,
        // The limited side could do more than was seen: only what it already won by stands.
        ([true, false], Verdict::Worse) => Verdict::Worse,
        ([false, true], Verdict::Better) => Verdict::Better,
        _ => Verdict::CannotTell,
    };
    Some(Judgement {
        case,
        subject,
        metric,
        baseline_median: comparison::median(&base),
        median: comparison::median(&measured),
        ratio,
        noise,
        probability: signed_rank::probability(ratios.ratios()),
        corrected_probability: None,
        smallest_found: None,
        verdict,
        generator_limited: concerned && limited.contains(&true),
        only_failures,
        errors_differ: false,
        blocks_needed: BLOCKS_FOR_A_VERDICT,
    })
}

fn ratios_of(metric: Metric, pairs: &[(&Slice, &Slice)]) -> PairedRatios {
    paired(pairs.iter().filter_map(|(baseline, subject)| metric.of(baseline).zip(metric.of(subject))))
}

fn paired(values: impl Iterator<Item = (f64, f64)>) -> PairedRatios {
    let mut ratios = PairedRatios::default();
    for (baseline, subject) in values {
        // A slice in which a subject used no measurable CPU has no ratio; `warnings` counts those.
        let _no_ratio = ratios.push(baseline, subject);
    }
    ratios
}

/// What the baseline differs from itself: twice in a block, or, of what is told once by each start, from one life to the
/// next.
fn noise_of(outcome: &Outcome, case: usize, metric: Metric) -> PairedRatios {
    if !metric.is_of_a_life() || outcome.restarted {
        return ratios_of(metric, &outcome.repeated(case, false));
    }
    let baseline = Role::Subject(planned_baseline(&outcome.plan, case));
    let lives: Vec<f64> = by_life(outcome, case, baseline, metric).into_values().collect();
    paired(lives.windows(2).map(|two| (two[0], two[1])))
}

fn planned_baseline(plan: &Plan, case: usize) -> usize {
    plan.cases.get(case).map_or(0, Case::baseline)
}

/// The median over each life of the servers; lives in which the role has no slice with the metric are left out.
///
/// Of the baseline, which is measured twice in a block, as many slices count as there are blocks, the first of the life:
/// memory grows with use, and so all are looked at after equally many loads.
fn by_life(outcome: &Outcome, case: usize, role: Role, metric: Metric) -> BTreeMap<usize, f64> {
    let is_baseline = role == Role::Subject(planned_baseline(&outcome.plan, case));
    let mut lives: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut blocks: BTreeMap<usize, usize> = BTreeMap::new();
    for block in outcome.blocks_of(case) {
        *blocks.entry(block.life).or_default() += 1;
        let of_role = |found: &&BlockSlice| found.role == role || (is_baseline && found.role == Role::Again);
        let values = block.slices.iter().filter(of_role).filter_map(|found| metric.of(&found.slice));
        lives.entry(block.life).or_default().extend(values);
    }
    for (life, values) in &mut lives {
        values.truncate(blocks.get(life).copied().unwrap_or(0));
    }
    lives.into_iter().filter_map(|(life, values)| Some((life, comparison::median(&values)?))).collect()
}

/// Whether the interval of CPU per request of every subject of a case reaches no further than `until` from its median;
/// never where there is nothing to compare.
///
/// The width decides, never the verdict: to stop as soon as a difference shows would find some in mere noise.
pub(crate) fn is_precise(plan: &Plan, blocks: &[Block], case: usize, until: f64) -> bool {
    let planned = &plan.cases[case];
    let baseline = planned.baseline();
    let bootstrap = Bootstrap { resamples: 1000, ..Bootstrap::with_seed(plan.seed) };
    let others: Vec<usize> = planned.subjects().skip(1).collect();
    let fewest = blocks_for_a_verdict(others.len() * plan.cases.len() * Metric::concerning(plan.measured).len());
    !others.is_empty()
        && others.into_iter().all(|subject| {
            let of_case = blocks.iter().filter(|block| block.case == case);
            let pairs: Vec<_> = of_case.filter_map(|block| block.pair(baseline, subject)).collect();
            let found = ratios_of(Metric::CpuNsPerRequest, &pairs).snapshot(&bootstrap);
            found.is_ok_and(|found| {
                let reach = (found.interval.high / found.point).max(found.point / found.interval.low);
                found.blocks >= fewest && reach <= 1.0 + until
            })
        })
}

/// Whether the generator was short of CPU in the median of these slices.
pub(crate) fn generator_was_limit(shares: &[f64]) -> bool {
    comparison::median(shares).is_some_and(|share| share > GENERATOR_LIMIT)
}

/// The verdict as a word of reports.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::TheSame => "the_same",
        Verdict::CannotTell => "cannot_tell",
    }
}

// Serde hands references to these.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn verdict_in_words<S: Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*verdict))
}

fn estimate<S: Serializer>(estimate: &Option<Estimate>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields {
        median: f64,
        low: f64,
        high: f64,
        blocks: usize,
    }
    let fields = estimate.map(|estimate| Fields {
        median: estimate.point,
        low: estimate.interval.low,
        high: estimate.interval.high,
        blocks: estimate.blocks,
    });
    fields.serialize(serializer)
}
