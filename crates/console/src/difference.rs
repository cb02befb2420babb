//! What differs between runs, and in which part.
//!
//! A run tells its own noise (`noise_floor`, half the 95 % interval of its mean as a share of it). A difference of two
//! means beyond the root of the sum of the squares of both is told as one; within it is none. One run each shows nothing
//! of how much a repetition differs: that is what `weir compare` measures.

use crate::figures::{Figures, Response};
use serde::Serialize;
use weir_measure::part::Part;
use weir_report::{nanoseconds, percent};

/// Parts below this share of the difference are not told in words.
const LEAST_SHARE: f64 = 0.1;
/// Parts that are told in words.
const MOST_PARTS: usize = 3;

/// How far a difference can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The mean response is longer, beyond the noise.
    Longer,
    /// The mean response is shorter, beyond the noise.
    Shorter,
    /// The noise of the runs is as large as the difference.
    WithinNoise,
    /// At least one of the runs was too short to tell its noise, or has no responses.
    NotKnown,
}

/// A run among others.
#[derive(Debug, Serialize)]
pub(crate) struct Side<'a> {
    pub(crate) run: &'a str,
    pub(crate) host: &'a str,
    pub(crate) requests: u64,
    pub(crate) rate_per_s: f64,
    pub(crate) errors: u64,
    pub(crate) response_ns: Option<Response>,
    pub(crate) noise_floor: Option<f64>,
    /// Mean parts of a response, of one around the median, and of one of the slowest 1 %.
    pub(crate) parts_ns: &'a std::collections::BTreeMap<String, f64>,
    pub(crate) median_parts_ns: &'a std::collections::BTreeMap<String, f64>,
    pub(crate) slow_parts_ns: &'a std::collections::BTreeMap<String, f64>,
    /// Against the first run; absent of that itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<Difference>,
}

/// A run against the first one.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    pub(crate) verdict: Verdict,
    /// Its mean response less that of the first run, nanoseconds.
    pub(crate) mean_ns: f64,
    /// How large a difference of the means noise alone makes (95 %), nanoseconds; null where it is not known.
    pub(crate) noise_ns: Option<f64>,
    /// The parts by which the means differ, the largest difference first.
    pub(crate) parts: Vec<PartDifference>,
    /// All in a sentence.
    pub(crate) text: String,
}

/// A part in two runs.
#[derive(Debug, Serialize)]
pub(crate) struct PartDifference {
    pub(crate) part: &'static str,
    /// Its mean less that in the first run, nanoseconds.
    pub(crate) ns: f64,
    /// Of the whole difference, where that goes the same way; null where it is none of it.
    pub(crate) share: Option<f64>,
    /// Who it was spent on mostly, in the run where it is longer.
    pub(crate) who: Option<String>,
}

/// All runs beside each other, compared with the first.
pub(crate) fn sides<'a>(runs: &[(&'a str, &'a Figures)]) -> Vec<Side<'a>> {
    let first = runs.first().map(|(_, figures)| *figures);
    let side = |(index, (run, figures)): (usize, &(&'a str, &'a Figures))| Side {
        run,
        host: &figures.host,
        requests: figures.requests,
        rate_per_s: figures.rate_per_s,
        errors: figures.errors.values().sum(),
        response_ns: figures.response_ns,
        noise_floor: figures.noise_floor,
        parts_ns: &figures.parts_ns,
        median_parts_ns: &figures.median_parts_ns,
        slow_parts_ns: &figures.slow_parts_ns,
        difference: first.filter(|_| index > 0).map(|first| difference(first, figures)),
    };
    runs.iter().enumerate().map(side).collect()
}

fn difference(base: &Figures, other: &Figures) -> Difference {
    let mean = |figures: &Figures| figures.response_ns.map(|response| response.mean);
    let (Some(before), Some(after)) = (mean(base), mean(other)) else {
        let text = "one of the runs has no responses".to_owned();
        return Difference { verdict: Verdict::NotKnown, mean_ns: 0.0, noise_ns: None, parts: Vec::new(), text };
    };
    let mean_ns = after - before;
    let noise_ns = base.noise_floor.zip(other.noise_floor).map(|(a, b)| (a * before).hypot(b * after));
    let verdict = match noise_ns {
        None => Verdict::NotKnown,
        Some(noise) if mean_ns.abs() <= noise => Verdict::WithinNoise,
        Some(_) if mean_ns > 0.0 => Verdict::Longer,
        Some(_) => Verdict::Shorter,
    };
    let parts = parts(base, other, mean_ns);
    let text = words(verdict, (before, after), noise_ns, &parts);
    let text = if base.boundary == other.boundary {
        text
    } else {
        format!("{text}; the runs count from different times: {} and {}", base.boundary, other.boundary)
    };
    Difference { verdict, mean_ns, noise_ns, parts, text }
}

fn parts(base: &Figures, other: &Figures, mean_ns: f64) -> Vec<PartDifference> {
    let of = |figures: &Figures, part: Part| figures.parts_ns.get(part.name()).copied().unwrap_or(0.0);
    let mut parts: Vec<PartDifference> = Part::ALL
        .into_iter()
        .map(|part| {
            let ns = of(other, part) - of(base, part);
            let longer = if ns > 0.0 { other } else { base };
            let cause = longer.causes.iter().find(|cause| cause.part == part.name());
            let who = cause.and_then(|cause| cause.who.first()).map(|(who, _)| who.clone());
            let share = ns / mean_ns;
            let share = (share.is_finite() && share > 0.0).then_some(share);
            PartDifference { part: part.name(), ns, share, who }
        })
        .filter(|part| part.ns != 0.0)
        .collect();
    parts.sort_by(|a, b| b.ns.abs().total_cmp(&a.ns.abs()));
    parts
}

fn words(verdict: Verdict, (before, after): (f64, f64), noise_ns: Option<f64>, parts: &[PartDifference]) -> String {
    let apart = nanoseconds((after - before).abs());
    let way = if after > before { "longer" } else { "shorter" };
    let means = format!("{} against {}", nanoseconds(after), nanoseconds(before));
    let told = match (verdict, noise_ns) {
        (Verdict::WithinNoise, Some(noise)) => {
            return format!(
                "no difference beyond the noise: the mean response is {apart} {way} ({means}), and the noise of the two \
                 runs makes {}",
                nanoseconds(noise)
            );
        }
        (Verdict::NotKnown, _) => format!(
            "the mean response is {apart} {way} ({means}); whether that is noise is not known, as a run was too short \
             to tell its own"
        ),
        (_, noise) => format!(
            "the mean response is {apart} {way} ({means}; noise {})",
            noise.map_or("not known".to_owned(), nanoseconds)
        ),
    };
    let large = parts.iter().filter(|part| part.share.is_some_and(|share| share >= LEAST_SHARE)).take(MOST_PARTS);
    let large: Vec<String> = large
        .map(|part| {
            let who = part.who.as_ref().map(|who| format!(", mostly {who}")).unwrap_or_default();
            format!(
                "{} of it is {} ({}{who})",
                percent(part.share.unwrap_or(0.0)),
                part.part,
                nanoseconds(part.ns.abs())
            )
        })
        .collect();
    if large.is_empty() { told } else { format!("{told}; {}", large.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Blamed;

    fn figures(run_ns: f64, wait_ns: f64, noise: Option<f64>) -> Figures {
        let mean = run_ns + wait_ns;
        let response = Response { mean, p50: mean, p90: mean, p99: mean, p99_9: mean, max: mean };
        let parts = [("run".to_owned(), run_ns), ("wait_cpu".to_owned(), wait_ns)];
        Figures {
            requests: 1000,
            rate_per_s: 10.0,
            errors: std::collections::BTreeMap::new(),
            response_ns: Some(response),
            noise_floor: noise,
            parts_ns: parts.into_iter().collect(),
            median_parts_ns: std::collections::BTreeMap::new(),
            slow_parts_ns: std::collections::BTreeMap::new(),
            causes: vec![Blamed { part: "wait_cpu".to_owned(), who: vec![("hog (7)".to_owned(), 0.9)] }],
            boundary: "b".to_owned(),
            host: "h".to_owned(),
        }
    }

    #[test]
    fn a_difference_is_told_with_its_part_and_its_culprit() {
        let (a, b) = (figures(100e3, 100e3, Some(0.05)), figures(110e3, 290e3, Some(0.05)));
        let told = difference(&a, &b);
        assert_eq!(told.verdict, Verdict::Longer);
        assert_eq!(told.parts.iter().map(|part| part.part).collect::<Vec<_>>(), ["wait_cpu", "run"]);
        assert_eq!(
            told.text,
            "the mean response is 200 us longer (400 us against 200 us; noise 22.4 us); 95 % of it is wait_cpu (190 us, \
             mostly hog (7))"
        );
        assert_eq!(difference(&b, &a).verdict, Verdict::Shorter);
    }

    #[test]
    fn noise_is_no_difference_and_unknown_noise_is_told() {
        let told = difference(&figures(100e3, 0.0, Some(0.1)), &figures(110e3, 0.0, Some(0.1)));
        assert_eq!(told.verdict, Verdict::WithinNoise);
        assert!(told.text.starts_with("no difference beyond the noise"), "{}", told.text);
        let told = difference(&figures(100e3, 0.0, None), &figures(900e3, 0.0, Some(0.1)));
        assert_eq!(told.verdict, Verdict::NotKnown);
        let sides =
            [("a", &figures(1.0, 1.0, None)), ("b", &figures(1.0, 1.0, None))].map(|(run, one)| (run, one.clone()));
        let sides: Vec<(&str, &Figures)> = sides.iter().map(|(run, one)| (*run, one)).collect();
        let sides = super::sides(&sides);
        assert!(sides[0].difference.is_none() && sides[1].difference.is_some());
    }
}
