//! Ratios: all metrics in a table with their intervals drawn on one axis, and block by block.

use super::compare_pieces::{MOST_NAME, beside, by_subject, change, headed, named, word};
use super::escape::{escaped, extent, short, unbroken};
use super::plot::{Axis, Level, Line, Plot};
use super::tables::{framed, values};
use crate::compared::{ComparedCase, ComparedResult};
use weir_measure::comparison::Estimate;

/// Points of one plot at most; of more every so many are drawn.
const MOST_POINTS: usize = 400;

/// All metrics of a case.
pub(super) fn table(case: &ComparedCase, index: usize) -> String {
    if case.results.is_empty() {
        return String::new();
    }
    let effect = 1.0 + case.smallest_effect.max(0.0);
    let bounds = case.results.iter().flat_map(|result| [result.ratio, result.noise]).flatten();
    let (least, most) = bounds.fold((1.0 / effect, effect), |(least, most), estimate| {
        (least.min(estimate.interval.low), most.max(estimate.interval.high))
    });
    // What is many times as much is not worth that the others cannot be told apart.
    let axis = Axis::ratios(least.max(0.1), most.min(10.0));
    let several = by_subject(case).len() > 1;
    let rows: String = case.results.iter().map(|result| row(case, result, &axis, effect, several)).collect();
    let subject = if several { "<th scope=\"col\">Subject</th>" } else { "" };
    let (baseline, other) = match case.results.first() {
        Some(first) if !several => (case.baseline.as_str(), first.subject.as_str()),
        _ => (case.baseline.as_str(), "subject's"),
    };
    let name = if case.name.is_empty() { "All metrics".to_owned() } else { format!("All metrics of {}", case.name) };
    let body = format!(
        "{}<thead><tr><th scope=\"col\">Metric</th>{subject}<th scope=\"col\">Verdict</th><th scope=\"col\" class=\"n\">{}</th><th scope=\"col\" class=\"n\">{}</th>\
         <th scope=\"col\" class=\"n\">Ratio</th><th scope=\"col\" class=\"dots\">{}</th><th scope=\"col\" class=\"n\">95&nbsp;% interval</th>\
         <th scope=\"col\" class=\"n\">Noise floor</th><th scope=\"col\" class=\"n\">By chance</th><th scope=\"col\" class=\"n\">Would be found</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\
         <p class=\"note\">Ratios are medians over blocks, of the subject to {held}; the broad band is the smallest effect that interests, \
         the hatched one the noise floor ({held} against itself), the line the interval. By chance: how likely such blocks are without any \
         difference, corrected for all comparisons. Would be found: the smallest difference that so many blocks show about eight times of ten.</p>",
        framed(&name),
        short(baseline, MOST_NAME),
        short(other, MOST_NAME),
        axis_names(&axis),
        held = escaped(&case.baseline),
    );
    headed("metrics", index, "All metrics", &body)
}

fn row(case: &ComparedCase, result: &ComparedResult, axis: &Axis, effect: f64, several: bool) -> String {
    let subject =
        if several { format!("<td class=\"name\">{}</td>", short(&result.subject, MOST_NAME)) } else { String::new() };
    let cell = |text: Option<String>| {
        format!("<td class=\"n\">{}</td>", text.map_or_else(|| "-".to_owned(), |text| unbroken(&text)))
    };
    let (verdict, class) = word(result.verdict);
    format!(
        "<tr><th scope=\"row\">{}</th>{subject}<td class=\"verdict {class}\">{verdict}</td>{}{}{}<td class=\"dots\">{}</td>{}{}{}{}</tr>\n",
        escaped(&result.metric),
        cell(Some(result.baseline_value.clone())),
        cell(Some(result.value.clone())),
        cell(result.ratio.map(|ratio| format!("{:.3}", ratio.point))),
        drawn(case, result, axis, effect),
        cell(result.ratio.map(interval)),
        cell(result.noise.map(interval)),
        cell(result.chance.map(probability)),
        cell(result.smallest_found.map(|smallest| format!("{:.1} %", smallest * 100.0))),
    )
}

fn interval(estimate: Estimate) -> String {
    format!("{:.3} to {:.3}", estimate.interval.low, estimate.interval.high)
}

fn probability(probability: f64) -> String {
    match probability {
        probability if probability < 0.0001 => "<0.0001".to_owned(),
        probability if probability < 0.01 => format!("{probability:.4}"),
        probability => format!("{probability:.2}"),
    }
}

/// How far apart the names of the table's axis are at least, as a share of its width.
const APART: f64 = 0.4;

/// The names of the table's axis.
fn axis_names(axis: &Axis) -> String {
    // A column has room for a few names; the one that says that both are the same comes first.
    let mut ticks: Vec<(f64, &str)> = axis.ticks().iter().map(|(at, name)| (*at, name.as_str())).collect();
    ticks.sort_by(|(one, _), (other, _)| (one - 1.0).abs().total_cmp(&(other - 1.0).abs()));
    let mut shown: Vec<(f64, &str)> = Vec::new();
    for (at, name) in ticks {
        if shown.iter().all(|(other, _)| (axis.place(at) - axis.place(*other)).abs() >= APART) {
            shown.push((at, name));
        }
    }
    let labels: String = shown
        .into_iter()
        .map(|(at, name)| format!("<text x=\"{}\" y=\"14\">{}</text>", extent(axis.place(at)), escaped(name)))
        .collect();
    format!(
        "<span class=\"unseen\">The interval as a drawing</span><svg class=\"plot\" aria-hidden=\"true\" width=\"100%\" height=\"18\">{labels}</svg>"
    )
}

/// An interval on the table's axis.
fn drawn(case: &ComparedCase, result: &ComparedResult, axis: &Axis, effect: f64) -> String {
    let place = |ratio: f64| extent(axis.place(ratio));
    let band = |class: &str, low: f64, high: f64| {
        let width = extent(axis.place(high) - axis.place(low));
        format!("<rect class=\"level {class}\" x=\"{}\" width=\"{width}\" height=\"100%\"/>", place(low))
    };
    let lines: String = axis
        .ticks()
        .iter()
        .map(|(at, _)| format!("<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"100%\"/>", place(*at)))
        .collect();
    let noise = result.noise.map_or(String::new(), |noise| band("noise", noise.interval.low, noise.interval.high));
    let (mark, told) = match result.ratio {
        None => (String::new(), "no ratio".to_owned()),
        Some(ratio) => {
            let (low, high) = (place(ratio.interval.low), place(ratio.interval.high));
            let mark = format!(
                "<line class=\"reach\" x1=\"{low}\" x2=\"{high}\" y1=\"50%\" y2=\"50%\"/><circle cx=\"{}\" cy=\"50%\" r=\"4.5\"/>",
                place(ratio.point)
            );
            let told = format!(
                "{}, from {} to {}",
                change(ratio.point),
                change(ratio.interval.low),
                change(ratio.interval.high)
            );
            (mark, told)
        }
    };
    let title = escaped(&format!("{} of {} against {}: {told}", result.metric, result.subject, case.baseline));
    format!(
        "<svg class=\"plot {}\" role=\"img\" width=\"100%\" height=\"26\"><title>{title}</title>{}{noise}{lines}{mark}</svg>",
        word(result.verdict).1,
        band("effect", 1.0 / effect, effect),
    )
}

/// The ratios block by block.
pub(super) fn plots(case: &ComparedCase, index: usize) -> String {
    let drawn: Vec<String> = case
        .results
        .iter()
        .enumerate()
        .filter(|(_, result)| result.ratios.len() > 1)
        .map(|(number, result)| plot(case, result, &format!("blocks-{index}-{number}")))
        .collect();
    if drawn.is_empty() {
        return String::new();
    }
    headed("blocks", index, "Ratios block by block", &beside(&drawn))
}

fn plot(case: &ComparedCase, result: &ComparedResult, id: &str) -> String {
    let effect = 1.0 + case.smallest_effect.max(0.0);
    let all = || result.ratios.iter().chain(&result.repeated).map(|(_, ratio)| *ratio);
    let (least, most) = reach(all().collect(), result, effect);
    let beyond = all().filter(|ratio| *ratio < least || *ratio > most).count();
    let blocks = result.ratios.iter().chain(&result.repeated).map(|(block, _)| *block).max().unwrap_or(1);
    let each = result.ratios.len().div_ceil(MOST_POINTS).max(1);
    let thinned = |ratios: &[(usize, f64)]| -> Vec<(f64, Option<f64>)> {
        ratios.iter().step_by(each).map(|(block, ratio)| (*block as f64, Some(*ratio))).collect()
    };
    let level = |name: String, look, from, to| Level { name, look, from, to };
    let smallest = case.smallest_effect * 100.0;
    let mut levels = vec![level(format!("less than the {smallest} % that interest"), "effect", 1.0 / effect, effect)];
    levels.extend(result.noise.map(|noise| {
        level(format!("noise floor {}", interval(noise)), "noise", noise.interval.low, noise.interval.high)
    }));
    levels.extend(result.ratio.iter().flat_map(|ratio| {
        [
            level(format!("95 % interval {}", interval(*ratio)), "interval", ratio.interval.low, ratio.interval.high),
            level(format!("median {:.3}", ratio.point), "middle", ratio.point, ratio.point),
        ]
    }));
    let dots = result.ratios.len() <= MOST_POINTS / 2;
    let mut lines = Vec::new();
    if !result.repeated.is_empty() {
        let name = format!("{} again over itself", named(&case.baseline));
        lines.push(Line { name, look: "again", points: thinned(&result.repeated), dots });
    }
    let name = format!("{} over {}", named(&result.subject), named(&case.baseline));
    lines.push(Line { name, look: "l0", points: thinned(&result.ratios), dots });
    let again = |block: usize| result.repeated.iter().find(|(other, _)| *other == block).map(|(_, ratio)| *ratio);
    let hint = |(block, ratio): &(usize, f64)| {
        let again = again(*block).map_or(String::new(), |ratio| format!("; the baseline again: {ratio:.3}"));
        (*block as f64, format!("block {block}: {ratio:.3} ({}){again}", change(*ratio)))
    };
    let title = format!("{} of {} over {}", result.metric, named(&result.subject), named(&case.baseline));
    let markup = Plot {
        id,
        label: &format!("{title}, block by block"),
        x: Axis::numbers(blocks),
        y: Axis::ratios(least, most),
        x_name: "block",
        lines,
        band: None,
        levels,
        limit: None,
        hints: result.ratios.iter().step_by(each).map(hint).collect(),
    }
    .markup();
    let beyond = match beyond {
        0 => String::new(),
        1 => "<p class=\"note\">One ratio lies beyond the plot and is drawn at its edge.</p>".to_owned(),
        beyond => format!("<p class=\"note\">{beyond} ratios lie beyond the plot and are drawn at its edge.</p>"),
    };
    let rows = result.ratios.iter().map(|(block, ratio)| {
        let again = again(*block).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}"));
        vec![block.to_string(), format!("{ratio:.4}"), again]
    });
    let table = values(&title, &["block", "ratio", "baseline again"], rows);
    format!("<div class=\"card figure\"><h4>{}</h4>{markup}{beyond}{table}</div>", escaped(&title))
}

/// The ends of a plot's axis: around all that is judged and nearly all ratios, but not around what is far from them.
fn reach(mut ratios: Vec<f64>, result: &ComparedResult, effect: f64) -> (f64, f64) {
    ratios.sort_unstable_by(f64::total_cmp);
    let (mut least, mut most) = (1.0 / effect, effect);
    for estimate in [result.ratio, result.noise].into_iter().flatten() {
        (least, most) = (least.min(estimate.interval.low), most.max(estimate.interval.high));
    }
    let cut = ratios.len() / 20;
    if let (Some(low), Some(high)) = (ratios.get(cut), ratios.get(ratios.len().saturating_sub(1 + cut))) {
        (least, most) = (least.min(*low), most.max(*high));
    }
    // As much again on either side is taken in if it reaches the last ones.
    let span = (most / least).sqrt();
    let (low, high) = (least / span, most * span);
    for ratio in ratios.into_iter().filter(|ratio| (low..=high).contains(ratio)) {
        (least, most) = (least.min(ratio), most.max(ratio));
    }
    (least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::comparison::{Interval, Verdict};

    #[test]
    fn an_axis_holds_what_is_judged_and_leaves_far_ones_out() {
        let result = ComparedResult {
            subject: "B".to_owned(),
            metric: "CPU".to_owned(),
            baseline_value: String::new(),
            value: String::new(),
            ratio: Some(Estimate { point: 1.1, interval: Interval { low: 1.08, high: 1.12 }, blocks: 20 }),
            noise: None,
            verdict: Verdict::Worse,
            words: String::new(),
            chance: None,
            smallest_found: None,
            ratios: Vec::new(),
            repeated: Vec::new(),
        };
        let mut ratios: Vec<f64> = (0..40).map(|index| 1.05 + 0.0025 * f64::from(index)).collect();
        ratios.push(9.0);
        let (least, most) = reach(ratios, &result, 1.02);
        assert!((0.97..0.99).contains(&least) && (1.14..1.2).contains(&most), "{least} {most}");
        assert_eq!(reach(Vec::new(), &result, 1.02), (1.0 / 1.02, 1.12));
    }

    #[test]
    fn changes_and_chances_read_well() {
        assert_eq!([change(1.1071), change(0.9), change(1.0001), change(f64::NAN)], ["+10.7 %", "-10.0 %", "0 %", "-"]);
        assert_eq!([0.00001, 0.0042, 0.5].map(probability), ["<0.0001", "0.0042", "0.50"]);
        assert_eq!(named(&"x".repeat(100)).chars().count(), MOST_NAME);
    }
}
