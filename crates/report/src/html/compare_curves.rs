//! Subjects beside each other: the curves of their latencies, the parts of their responses, what they did and used.

use super::bars::{stacked, swatch};
use super::compare_pieces::{headed, named};
use super::escape::{escaped, extent, short, time};
use super::plot::{Axis, Line, Plot};
use super::tables::{framed, values};
use super::ticks::tick;
use crate::compared::{ComparedCase, ComparedSubject};
use crate::units::{nanoseconds, share};
use weir_measure::part::Part;

/// Looks of lines; of more subjects than these some look alike, and only the table tells them apart.
const LOOKS: [&str; 16] =
    ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s0 d", "s1 d", "s2 d", "s3 d", "s4 d", "s5 d", "s6 d", "s7 d"];
/// Characters of a name.
const MOST_NAME: usize = 40;
/// A part belongs into the legend if it is this share of one of the bars.
const IN_LEGEND: f64 = 0.002;

/// Percentiles of the latencies on an axis on which each further nine has the same room.
pub(super) fn curves(case: &ComparedCase, index: usize) -> String {
    let subjects: Vec<(usize, &ComparedSubject)> =
        case.subjects.iter().enumerate().filter(|(_, subject)| subject.curve.len() > 1).collect();
    if subjects.is_empty() {
        return String::new();
    }
    let curves: Vec<Vec<(f64, f64)>> = subjects.iter().map(|(_, subject)| told(subject)).collect();
    let all = || curves.iter().flatten();
    let slower = |percentile: f64| 100.0 / (100.0 - percentile).max(1e-10);
    let most = all().map(|(percentile, _)| slower(*percentile)).fold(10.0, f64::max);
    let lines = subjects.iter().zip(&curves).map(|((number, subject), curve)| Line {
        name: named(&subject.name),
        look: LOOKS[number % LOOKS.len()],
        points: curve.iter().map(|(percentile, ns)| (slower(*percentile), Some(*ns))).collect(),
        dots: false,
    });
    let mut percentiles: Vec<f64> = all().map(|(percentile, _)| *percentile).collect();
    percentiles.sort_unstable_by(f64::total_cmp);
    percentiles.dedup();
    let of = |curve: &[(f64, f64)], at: f64| curve.iter().find(|(percentile, _)| *percentile == at).map(|(_, ns)| *ns);
    let hints = percentiles.iter().map(|at| {
        let times = subjects.iter().zip(&curves).filter_map(|((_, subject), curve)| {
            Some(format!("{} {}", named(&subject.name), nanoseconds(of(curve, *at)?)))
        });
        (slower(*at), format!("{} within: {}", percentile(*at), times.collect::<Vec<_>>().join(", ")))
    });
    let id = format!("curves-{index}");
    let markup = Plot {
        id: &id,
        label: "Percentiles of latency",
        x: Axis::nines(most),
        y: Axis::fitting(all().map(|(_, ns)| *ns), tick),
        x_name: "share of the requests that were answered within the time",
        lines: lines.collect(),
        band: None,
        levels: Vec::new(),
        limit: None,
        hints: hints.collect(),
    }
    .markup();
    let names: Vec<String> = subjects.iter().map(|(_, subject)| short(&subject.name, MOST_NAME)).collect();
    let columns: Vec<&str> = std::iter::once("answered").chain(names.iter().map(String::as_str)).collect();
    let rows = percentiles.iter().map(|at| {
        let times = curves.iter().map(|curve| of(curve, *at).map_or_else(|| "-".to_owned(), time));
        std::iter::once(escaped(&percentile(*at))).chain(times).collect()
    });
    let alone =
        if let [name] = names.as_slice() { format!("<p class=\"note\">Only of {name}.</p>") } else { String::new() };
    let table = values("Percentiles of latency", &columns, rows);
    headed(
        "percentiles",
        index,
        "Percentiles of latency",
        &format!("<div class=\"card figure\">{markup}{alone}{table}</div>"),
    )
}

/// A curve as far as so many requests tell it: the largest is the one in all of them, and nothing else lies beyond.
fn told(subject: &ComparedSubject) -> Vec<(f64, f64)> {
    let last = 100.0 * (1.0 - 1.0 / subject.requests.max(2) as f64);
    let place = |(percentile, ns): &(f64, f64)| {
        let inside = *percentile < last;
        (inside || *percentile >= 100.0).then_some((if inside { *percentile } else { last }, *ns))
    };
    subject.curve.iter().filter_map(place).collect()
}

/// `99.9 %`, with as many decimals as tell something.
fn percentile(percentile: f64) -> String {
    let decimals = if percentile < 99.0 { 1 } else { (2.0 - (100.0 - percentile).max(1e-9).log10()).round() as usize };
    let text = format!("{percentile:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// The parts of the mean response, as bars on one scale.
pub(super) fn parts(case: &ComparedCase, index: usize) -> String {
    let subjects: Vec<(&ComparedSubject, [f64; Part::COUNT])> =
        case.subjects.iter().filter_map(|subject| Some((subject, subject.parts_ns?))).collect();
    let longest = subjects.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let bars: String = subjects
        .iter()
        .map(|(subject, parts)| {
            let total: f64 = parts.iter().sum();
            format!(
                "<p class=\"bar-name\"><span>{}</span> <b>{}</b> <span class=\"aside\">{}</span></p><div class=\"scaled\" style=\"width:{}\">{}</div>",
                escaped(&subject.name),
                time(total),
                escaped(&subject.parts_words),
                extent(total / longest),
                stacked(&subject.name, parts, total, 40),
            )
        })
        .collect();
    let seen = |part: &Part| subjects.iter().any(|(_, parts)| share(parts[*part as usize], longest) >= IN_LEGEND);
    let legend: String = Part::ALL
        .into_iter()
        .filter(seen)
        .map(|part| {
            let (name, words) = (part.name(), part.words());
            format!(
                "<li data-part=\"{name}\">{}<span>{name} <span class=\"aside\">{words}</span></span></li>",
                swatch(part)
            )
        })
        .collect();
    let names: Vec<String> = subjects.iter().map(|(subject, _)| short(&subject.name, MOST_NAME)).collect();
    let columns: Vec<&str> = std::iter::once("part").chain(names.iter().map(String::as_str)).collect();
    let occurs = |part: &Part| subjects.iter().any(|(_, parts)| parts[*part as usize] > 0.0);
    let rows = Part::ALL.into_iter().filter(occurs).map(|part| {
        let times = subjects.iter().map(|(_, parts)| time(parts[part as usize]));
        std::iter::once(part.name().to_owned()).chain(times).collect()
    });
    let table = values("Parts of the mean response", &columns, rows);
    let body = format!(
        "<div class=\"card figure\">{bars}<ul class=\"legend\" aria-label=\"Colours of the parts\">{legend}</ul>\
         <p class=\"note\">All bars have one scale. The slices that tell the parts were observed, which costs something; they are in no other figure of this page.</p>{table}</div>"
    );
    headed("parts", index, "Parts of the mean response", &body)
}

/// What each subject did and used.
pub(super) fn facts(case: &ComparedCase, index: usize) -> String {
    if case.facts.is_empty() {
        return String::new();
    }
    let head: String = case
        .subjects
        .iter()
        .map(|subject| format!("<th scope=\"col\" class=\"n\">{}</th>", short(&subject.name, MOST_NAME)))
        .collect();
    let rows: String = case
        .facts
        .iter()
        .map(|(name, told)| {
            let cells: String = told.iter().map(|text| format!("<td class=\"n\">{}</td>", escaped(text))).collect();
            format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(name))
        })
        .collect();
    let body = format!(
        "{}<thead><tr><th scope=\"col\">Median over slices</th>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>",
        framed("What each did and used")
    );
    headed("facts", index, "What each did and used", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_as_far_out_as_requests_were() {
        let curve = vec![(0.0, 1.0), (50.0, 2.0), (99.0, 3.0), (99.9, 4.0), (99.99, 5.0), (100.0, 6.0)];
        let subject = ComparedSubject { requests: 1000, curve, ..ComparedSubject::default() };
        let told: Vec<f64> = told(&subject).into_iter().map(|(percentile, _)| percentile).collect();
        assert_eq!(told, [0.0, 50.0, 99.0, 99.9]);
        assert_eq!(
            [0.0, 50.0, 92.5, 99.0, 99.9, 99.95, 99.99].map(percentile),
            ["0 %", "50 %", "92.5 %", "99 %", "99.9 %", "99.95 %", "99.99 %"]
        );
    }
}
