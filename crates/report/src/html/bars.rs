//! Stacked bars: what the median and the slowest 1 % are made of.

use super::escape::{escaped, extent, time};
use super::headline::slow_over_median;
use crate::Explanation;
use crate::units::{nanoseconds, percent, share};
use weir_measure::part::Part;

/// A part of a bar below this share is narrower than what a screen shows.
const VISIBLE: f64 = 0.0004;
/// From this share on a segment is wide enough to be set apart from the next by a gap.
pub(super) const WIDE: f64 = 0.006;
/// A part belongs into the legend if it is this share of one of the bars.
const IN_LEGEND: f64 = 0.002;

/// A piece of a bar.
pub(super) struct Segment {
    /// Whose colour it has; none for time whose steps are left out.
    pub(super) part: Option<Part>,
    /// Its begin and its length as shares of the bar.
    pub(super) from: f64,
    pub(super) length: f64,
    /// What is written on it if there is room, the second line only where the drawing is high enough.
    pub(super) label: String,
    pub(super) figure: String,
    /// What hovering tells, not escaped.
    pub(super) hint: String,
    /// It is the largest of its bar, and stands out.
    pub(super) leads: bool,
}

/// The section with both bars, the lens between them, and the legend.
pub(super) fn section(explanation: &Explanation) -> String {
    if explanation.response_ns.is_none() {
        return String::new();
    }
    let (median, slow) = (explanation.median_response_ns, explanation.slow_response_ns);
    let times = slow_over_median(explanation)
        .map_or(String::new(), |times| format!(" <span class=\"aside\">{} the median</span>", escaped(&times)));
    format!(
        "<section aria-labelledby=\"where-h\"><h2 id=\"where-h\">Where the time goes</h2><div class=\"card figure\">\
         <p class=\"bar-name\"><span>Median</span> <b>{}</b></p>{}{}{}\
         <p class=\"bar-name\"><span>Slowest 1&nbsp;%</span> <b>{}</b>{times}</p>{}</div></section>\n",
        time(median),
        stacked("Median", &explanation.median_parts_ns, median, 48),
        lens(share(median, slow)),
        stacked("Slowest 1 %", &explanation.slow_parts_ns, slow, 48),
        time(slow),
        legend(explanation)
    )
}

/// A stacked bar of parts, filled to its whole length.
pub(super) fn stacked(name: &str, parts: &[f64; Part::COUNT], time_ns: f64, height: u32) -> String {
    let total: f64 = parts.iter().sum();
    let mut from = 0.0;
    let mut segments = Vec::new();
    for part in Part::ALL {
        let (ns, length) = (parts[part as usize], share(parts[part as usize], total));
        let hint = format!("{}: {}, {} ({})", part.name(), nanoseconds(ns), percent(length), part.words());
        segments.push(Segment {
            part: Some(part),
            from,
            length,
            label: part.name().to_owned(),
            figure: percent(length),
            hint,
            leads: false,
        });
        from += length;
    }
    if let Some(largest) = segments.iter_mut().max_by(|a, b| a.length.total_cmp(&b.length)) {
        largest.leads = largest.length > 0.0;
    }
    let mut named: Vec<&Segment> = segments.iter().filter(|segment| segment.length >= 0.01).collect();
    named.sort_by(|a, b| b.length.total_cmp(&a.length));
    let list: Vec<String> = named.iter().map(|one| format!("{} {}", one.label, percent(one.length))).collect();
    let summary = format!("{name}, {}: {}", nanoseconds(time_ns), list.join(", "));
    drawing(&summary, &segments, height)
}

/// Segments as SVG whose lengths follow the page's width, while heights and letters keep theirs.
pub(super) fn drawing(summary: &str, segments: &[Segment], height: u32) -> String {
    // The one that leads comes last, so that its frame lies over its neighbours.
    let visible = |leads: bool| segments.iter().filter(move |one| one.length >= VISIBLE && one.leads == leads);
    let drawn: String = visible(false).chain(visible(true)).map(|one| segment(one, height)).collect();
    format!(
        "<svg class=\"bar\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"{height}\">{drawn}</svg>",
        escaped(summary)
    )
}

fn segment(one: &Segment, height: u32) -> String {
    let (x, width) = (extent(one.from), extent(one.length));
    let class = one.part.map_or("rest", Part::name);
    let gap = match one {
        one if one.leads => " lead",
        one if one.length >= WIDE => " gap",
        _ => "",
    };
    let hint = escaped(&one.hint);
    let label = match fits(one) {
        Some(class) if height >= 20 => label(one, class, height >= 40 && !one.figure.is_empty()),
        _ => String::new(),
    };
    format!(
        "<g class=\"p-{class}{gap}\" data-part=\"{class}\"><title>{hint}</title>\
         <rect x=\"{x}\" width=\"{width}\" height=\"100%\"/>{label}</g>"
    )
}

fn label(one: &Segment, class: &str, with_figure: bool) -> String {
    let x = extent(one.from + one.length / 2.0);
    let line = |y: &str, text: &str| format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
    if with_figure { line("34%", &one.label) + &line("68%", &one.figure) } else { line("50%", &one.label) }
}

/// On how wide a bar the label has room: a class that the style sheet shows from that width on.
fn fits(one: &Segment) -> Option<&'static str> {
    let needed = (one.label.chars().count() as f64 * 7.4 + 10.0) / one.length;
    match needed {
        needed if needed <= 400.0 => Some("l0"),
        needed if needed <= 640.0 => Some("l1"),
        needed if needed <= 900.0 => Some("l2"),
        _ => None,
    }
}

/// Shows how long the median is on the scale of the slow bar: the upper bar is the lower one's beginning, enlarged.
fn lens(median_over_slow: f64) -> String {
    let foot = 100.0 * median_over_slow.clamp(0.0, 1.0);
    format!(
        "<svg class=\"lens\" aria-hidden=\"true\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" width=\"100%\" \
         height=\"26\"><path d=\"M0 0H100L{foot:.2} 10H0Z\"/></svg>"
    )
}

/// The parts that the bars show, with their colours; the colours are the same everywhere below.
fn legend(explanation: &Explanation) -> String {
    let columns = [&explanation.median_parts_ns, &explanation.slow_parts_ns];
    let of = |part: Part| columns.map(|column| share(column[part as usize], column.iter().sum()));
    let items: String = Part::ALL
        .into_iter()
        .filter(|part| of(*part).iter().any(|share| *share >= IN_LEGEND))
        .map(|part| {
            format!(
                "<li data-part=\"{0}\">{1}<span>{0} <span class=\"aside\">{2}</span></span></li>",
                part.name(),
                swatch(part),
                part.words()
            )
        })
        .collect();
    format!(
        "<ul class=\"legend\" aria-label=\"Colours of the parts\">{items}</ul>\
         <p class=\"note\">Each bar fills the width; the wedge between them shows how long the median is on the scale of the slowest.</p>"
    )
}

/// A patch of a part's colour beside its name.
pub(super) fn swatch(part: Part) -> String {
    format!(
        "<svg class=\"swatch p-{}\" aria-hidden=\"true\" width=\"12\" height=\"12\"><rect width=\"12\" height=\"12\" rx=\"2\"/></svg>",
        part.name()
    )
}
