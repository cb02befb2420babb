//! Figures with what their noise allows to say.

use serde_json::{Value, json};
use weir_measure::comparison::{
    BLOCKS_FOR_A_VERDICT, Bootstrap, Direction, Estimate, PairedRatios, Verdict, median, verdict,
};

/// Resamples for an interval: enough for two digits of its ends.
const RESAMPLES: usize = 2000;

fn bootstrap() -> Bootstrap {
    Bootstrap { resamples: RESAMPLES, ..Bootstrap::with_seed(1) }
}

/// The median over the slices of a run with its interval of 95 %; null with too few slices.
pub(crate) fn of_slices(values: &[f64]) -> Value {
    if values.len() < BLOCKS_FOR_A_VERDICT {
        return Value::Null;
    }
    bootstrap().median_ratio(values).map_or(Value::Null, |found| {
        json!({ "median": found.point, "low": found.interval.low, "high": found.interval.high, "slices": found.blocks })
    })
}

/// A figure of two sides.
pub(crate) struct Figure {
    /// Its name, with its unit at the end.
    pub(crate) name: &'static str,
    /// Which way is good.
    pub(crate) direction: Direction,
}

/// The figures that are compared.
pub(crate) const FIGURES: [Figure; 3] = [
    Figure { name: "p50_ns", direction: Direction::LowerIsBetter },
    Figure { name: "p99_ns", direction: Direction::LowerIsBetter },
    Figure { name: "rate_per_s", direction: Direction::HigherIsBetter },
];

/// B beside A where blocks of both alternate, and A was measured twice in each.
pub(crate) fn by_blocks(figure: &Figure, blocks: &[[f64; 3]], smallest_effect: f64) -> Value {
    let (mut effect, mut noise) = (PairedRatios::default(), PairedRatios::default());
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for [a, b, again] in blocks {
        // A block in which nothing succeeded has no ratio, and is not counted.
        if effect.push(*a, *b).is_ok() {
            of_a.push(*a);
            of_b.push(*b);
        }
        let _ = noise.push(*a, *again);
    }
    let effect = effect.snapshot(&bootstrap()).ok();
    let noise = noise.snapshot(&bootstrap()).ok();
    told(figure, (median(&of_a), median(&of_b)), effect, noise, smallest_effect)
}

/// B beside A where each is a series of slices of a run of its own.
pub(crate) fn by_runs(figure: &Figure, a: &[f64], b: &[f64], smallest_effect: f64) -> Value {
    let effect = bootstrap().ratio_of_medians(a, b).ok();
    told(figure, (median(a), median(b)), effect, None, smallest_effect)
}

fn told(
    figure: &Figure,
    (a, b): (Option<f64>, Option<f64>),
    effect: Option<Estimate>,
    noise: Option<Estimate>,
    smallest_effect: f64,
) -> Value {
    let said = effect
        .map_or(Verdict::CannotTell, |effect| verdict(&effect, noise.as_ref(), smallest_effect, figure.direction));
    let interval = |estimate: Option<Estimate>| {
        estimate.map(|found| {
            json!({ "ratio": found.point, "low": found.interval.low, "high": found.interval.high, "blocks": found.blocks })
        })
    };
    json!({
        "figure": figure.name,
        "a": a,
        "b": b,
        "b_over_a": interval(effect),
        "a_over_a": interval(noise),
        "verdict": match said {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::TheSame => "the_same",
            Verdict::CannotTell => "cannot_tell",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_beyond_the_noise_has_a_verdict_and_one_within_has_none() {
        let blocks =
            |b: f64| (0..10).map(|at| [100.0 + f64::from(at % 3), b + f64::from(at % 4), 100.0]).collect::<Vec<_>>();
        assert_eq!(by_blocks(&FIGURES[0], &blocks(150.0), 0.05)["verdict"], "worse");
        assert_eq!(by_blocks(&FIGURES[2], &blocks(150.0), 0.05)["verdict"], "better");
        assert_eq!(by_blocks(&FIGURES[0], &blocks(150.0)[..3], 0.05)["verdict"], "cannot_tell");
        assert_eq!(by_blocks(&FIGURES[0], &[[0.0, 1.0, 0.0]; 8], 0.05)["verdict"], "cannot_tell");
        assert_eq!(of_slices(&[1.0, 2.0]), Value::Null);
        assert_eq!(of_slices(&[2.0; 6])["low"], 2.0);
    }
}
