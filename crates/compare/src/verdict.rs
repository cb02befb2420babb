//! What follows from an outcome: pure functions of it.
use serde::{Serialize, Serializer};
use weir_measure::comparison::{self, Bootstrap, Direction, Estimate, PairedRatios, Verdict};

use crate::outcome::{Block, Outcome, Slice};
use crate::plan::Measured;
use crate::schedule::BlockKind;

/// Above this part of its CPU the generator, not the server, set the throughput.
pub(crate) const GENERATOR_LIMIT: f64 = 0.95;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// CPU time for each request, in nanoseconds; less is better.
    CpuNsPerRequest,
    /// Requests answered each second; more is better.
    RatePerS,
}

impl Metric {
    /// Both.
    pub const ALL: [Self; 2] = [Self::CpuNsPerRequest, Self::RatePerS];

    /// For reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuNsPerRequest => "CPU per request",
            Self::RatePerS => "throughput",
        }
    }

    /// Which way is good.
    #[must_use]
    pub fn direction(self) -> Direction {
        match self {
            Self::CpuNsPerRequest => Direction::LowerIsBetter,
            Self::RatePerS => Direction::HigherIsBetter,
        }
    }

    /// The metric's value in a slice.
    pub(crate) fn of(self, slice: &Slice) -> f64 {
        match self {
            Self::CpuNsPerRequest => slice.cpu_ns_per_request,
            Self::RatePerS => slice.rate_per_s,
        }
    }
}

/// B judged against A in one metric of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Index of the case.
    pub case: usize,
    /// What was compared.
    pub metric: Metric,
    /// Median over the blocks of A's slices, in the metric's unit; `None` without blocks.
    pub a_median: Option<f64>,
    /// The same of B's.
    pub b_median: Option<f64>,
    /// The ratio B/A; `None` when no block has one.
    #[serde(serialize_with = "estimate")]
    pub ratio: Option<Estimate>,
    /// The ratio A/A; `None` when it was not measured.
    #[serde(serialize_with = "estimate")]
    pub noise: Option<Estimate>,
    /// What can be said; by the rule of [`comparison::verdict`], except where
    /// [`generator_limited`](Self::generator_limited) says why not.
    #[serde(serialize_with = "verdict_in_words")]
    pub verdict: Verdict,
    /// The generator used more than 95 % of its CPU, in the median, on A or on B, so throughput
    /// says what the generator can do. If it was so on one side only, the difference is at least
    /// what was measured, and a clear verdict stands; otherwise it becomes `cannot_tell`.
    pub generator_limited: bool,
}

/// Judges every metric of every case, in that order.
#[must_use]
pub fn verdicts(outcome: &Outcome) -> Vec<Judgement> {
    let cases = 0..outcome.plan.cases.len();
    cases.flat_map(|case| Metric::ALL.map(|metric| judge(outcome, case, metric))).collect()
}

fn judge(outcome: &Outcome, case: usize, metric: Metric) -> Judgement {
    let blocks: Vec<&Block> = outcome.blocks_of(case, BlockKind::Ab).collect();
    let median = |side: fn(&Block) -> &Slice| {
        comparison::median(&blocks.iter().map(|block| metric.of(side(block))).collect::<Vec<f64>>())
    };
    let bootstrap = Bootstrap::with_seed(outcome.plan.seed);
    let ratio = estimate_of(metric, &blocks, &bootstrap);
    let noise = estimate_of(metric, &outcome.blocks_of(case, BlockKind::Aa).collect::<Vec<_>>(), &bootstrap);
    let plain = ratio.map_or(Verdict::CannotTell, |ratio| {
        comparison::verdict(&ratio, noise.as_ref(), outcome.plan.smallest_effect, metric.direction())
    });
    let limited = [|block: &Block| block.a, |block: &Block| block.b].map(|side| generator_was_limit(&blocks, side));
    // With generators as the subjects their speed is what is asked for.
    let concerned = metric == Metric::RatePerS && outcome.plan.measured() == Measured::Server;
    let verdict = match (limited, plain) {
        ([false, false], verdict) => verdict,
        (_, verdict) if !concerned => verdict,
        // The limited side could do more than was seen: only what it already won by stands.
        ([true, false], Verdict::Worse) => Verdict::Worse,
        ([false, true], Verdict::Better) => Verdict::Better,
        _ => Verdict::CannotTell,
    };
    Judgement {
        case,
        metric,
        a_median: median(|block| &block.a),
        b_median: median(|block| &block.b),
        ratio,
        noise,
        verdict,
        generator_limited: concerned && limited.contains(&true),
    }
}

fn estimate_of(metric: Metric, blocks: &[&Block], bootstrap: &Bootstrap) -> Option<Estimate> {
    let mut ratios = PairedRatios::default();
    for block in blocks {
        // A slice in which a subject used no measurable CPU has no ratio; `warnings` counts those.
        let _no_ratio = ratios.push(metric.of(&block.a), metric.of(&block.b));
    }
    ratios.snapshot(bootstrap).ok()
}

/// Whether the generator was short of CPU in the median of these slices.
pub(crate) fn generator_was_limit(blocks: &[&Block], side: impl Fn(&Block) -> Slice) -> bool {
    let shares: Vec<f64> = blocks.iter().map(|block| side(block).generator_cpu_share).collect();
    comparison::median(&shares).is_some_and(|share| share > GENERATOR_LIMIT)
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
