//! The course of the run: response times, what they are made of, rate and errors, on one axis of time.

use super::bars::swatch;
use super::escape::{escaped, extent, time};
use super::plot::{Axis, Line, Plot};
use super::tables::values;
use crate::units::{count, decimal, figure, nanoseconds, share};
use crate::{Course, CourseSlice, Explanation};
use weir_measure::part::Part;

/// Slices from which on there is a course to speak of.
const LEAST: usize = 3;
/// Parts with an area of their own: the largest; the rest is one area.
const MOST_AREAS: usize = 7;

/// The patch of the rest, which is no part.
const REST: &str = "<svg class=\"swatch p-rest\" aria-hidden=\"true\" width=\"12\" height=\"12\"><rect width=\"12\" height=\"12\" rx=\"2\"/></svg>";

/// The section.
pub(super) fn section(explanation: &Explanation) -> String {
    let Some(course) = explanation.course.as_ref().filter(|course| course.slices.len() >= LEAST) else {
        return String::new();
    };
    format!(
        "<section aria-labelledby=\"course-h\"><h2 id=\"course-h\">The course of the run</h2>\
         <div class=\"card figure course\"><h3>Response times</h3><div>{}</div><h3>What the mean response is made of</h3><div>{}</div>\
         <h3>Requests a second</h3><div>{}</div>{}</div>\
         <p class=\"note\">By when responses ended, in slices of {}. Errors: requests that failed, and answers with a status of 400 or more.</p></section>\n",
        latency(course),
        areas(course),
        rate(course),
        table(course),
        time(1e9 * course.slice_s)
    )
}

/// From the begin of the first slice to the end of the last one.
fn axis(course: &Course) -> Axis {
    let end_s = course.slices.last().map_or(0.0, |slice| slice.at_s) + course.slice_s;
    Axis::linear(end_s / 1.03, |at| format!("{} s", decimal(at, 3).trim_end_matches('0').trim_end_matches('.')))
}

fn middle(course: &Course, slice: &CourseSlice) -> f64 {
    (slice.at_s + course.slice_s / 2.0).max(0.0)
}

fn at(slice: &CourseSlice) -> String {
    format!("at {} s", decimal(slice.at_s.max(0.0), 2))
}

fn latency(course: &Course) -> String {
    let of = |name: &str, look, value: fn(&CourseSlice) -> Option<u64>| Line {
        name: name.to_owned(),
        look,
        points: course.slices.iter().map(|slice| (middle(course, slice), value(slice).map(|ns| ns as f64))).collect(),
        dots: false,
    };
    let lines = vec![of("p99", "l2", |slice| slice.p99_ns), of("p50", "l0", |slice| slice.p50_ns)];
    let all = course.slices.iter().flat_map(|slice| [slice.p50_ns, slice.p99_ns]).flatten().map(|ns| ns as f64);
    let told = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| nanoseconds(ns as f64));
    let hint = |slice: &CourseSlice| format!("{}: p50 {}, p99 {}", at(slice), told(slice.p50_ns), told(slice.p99_ns));
    let plot = Plot {
        id: "course-times",
        label: "Median and 99th percentile of the response times over the run",
        x: axis(course),
        y: Axis::fitting(all, nanoseconds),
        x_name: "",
        lines,
        band: None,
        levels: vec![],
        limit: None,
        hints: course.slices.iter().map(|slice| (middle(course, slice), hint(slice))).collect(),
    };
    plot.markup()
}

fn rate(course: &Course) -> String {
    let each = |number: u64| share(number as f64, course.slice_s);
    let inner = 1..course.slices.len().saturating_sub(1);
    // The first and the last slice are not full: a rate of theirs would be too low.
    let points = |value: fn(&CourseSlice) -> u64| {
        let slices = course.slices.iter().enumerate();
        slices
            .map(|(index, slice)| (middle(course, slice), inner.contains(&index).then(|| each(value(slice)))))
            .collect()
    };
    let mut lines =
        vec![Line { name: "answered".to_owned(), look: "l5", points: points(|slice| slice.answered), dots: false }];
    if course.slices.iter().any(|slice| slice.errors > 0) {
        lines.push(Line { name: "errors".to_owned(), look: "l2", points: points(|slice| slice.errors), dots: false });
    }
    let most =
        course.slices[inner.clone()].iter().map(|slice| each(slice.answered.max(slice.errors))).fold(0.0, f64::max);
    let hint = |slice: &CourseSlice| {
        format!(
            "{}: {} answered, {} errors, a second",
            at(slice),
            figure(each(slice.answered)),
            figure(each(slice.errors))
        )
    };
    let plot = Plot {
        id: "course-rate",
        label: "Answered requests and errors a second over the run",
        x: axis(course),
        y: Axis::linear(most, figure),
        x_name: "since the first request",
        lines,
        band: None,
        levels: vec![],
        limit: None,
        hints: course.slices[inner].iter().map(|slice| (middle(course, slice), hint(slice))).collect(),
    };
    plot.markup()
}

/// The largest parts over the run as areas, one upon the other, in the colours that they have everywhere.
fn areas(course: &Course) -> String {
    let sum = |part: Part| course.slices.iter().map(|slice| slice.parts_ns[part as usize]).sum::<f64>();
    let mut parts: Vec<Part> = Part::ALL.into_iter().filter(|part| sum(*part) > 0.0).collect();
    parts.sort_by(|a, b| sum(*b).total_cmp(&sum(*a)));
    let rest = parts.split_off(parts.len().min(MOST_AREAS));
    let own = |slice: &CourseSlice, index: usize| match parts.get(index) {
        Some(part) => slice.parts_ns[*part as usize],
        None => rest.iter().map(|part| slice.parts_ns[*part as usize]).sum(),
    };
    let count = parts.len() + usize::from(!rest.is_empty());
    let highest = course.slices.iter().map(|slice| slice.parts_ns.iter().sum::<f64>()).fold(0.0, f64::max);
    let (x, y) = (axis(course), Axis::linear(highest, nanoseconds));
    let mut low = vec![0.0; course.slices.len()];
    let (mut drawn, mut legend) = (String::new(), String::new());
    for index in 0..count {
        let high: Vec<f64> = course.slices.iter().zip(&low).map(|(slice, low)| low + own(slice, index)).collect();
        let (class, name) = parts.get(index).map_or(("rest", "others"), |part| (part.name(), part.name()));
        drawn.push_str(&format!(
            "<g class=\"p-{class}\" data-part=\"{class}\"><path d=\"{}\"/></g>",
            band(course, &x, &y, &low, &high)
        ));
        let patch = parts.get(index).map_or_else(|| REST.to_owned(), |part| swatch(*part));
        legend.push_str(&format!("<li data-part=\"{class}\">{patch}{name}</li>"));
        low = high;
    }
    let names_x = x
        .ticks()
        .iter()
        .map(|(at, name)| format!("<i class=\"x\" style=\"left:{}\">{}</i>", extent(x.place(*at)), escaped(name)));
    let names_y = y
        .ticks()
        .iter()
        .map(|(at, name)| format!("<i class=\"y\" style=\"bottom:{}\">{}</i>", extent(y.place(*at)), escaped(name)));
    let names: String = names_x.chain(names_y).collect();
    let hints: Vec<String> = course
        .slices
        .iter()
        .map(|slice| {
            let named = parts.iter().map(|part| (*part, slice.parts_ns[*part as usize])).filter(|(_, ns)| *ns > 0.0);
            let told: Vec<String> = named.map(|(part, ns)| format!("{} {}", part.name(), nanoseconds(ns))).collect();
            format!(
                "{:.5}\t{}",
                x.place(middle(course, slice)),
                escaped(&format!("{}: {}", at(slice), told.join(", ")))
            )
        })
        .collect();
    format!(
        "<ul class=\"keys\">{legend}</ul><div class=\"lines areas\" id=\"course-parts\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Parts of the mean response over the run; the arrow keys tell their values\" data-hints=\"{}\">\
         <svg aria-hidden=\"true\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">{drawn}</svg>{names}</div>\
         <output class=\"told\" aria-live=\"polite\"></output>\n",
        hints.join("\n")
    )
}

/// The way around the stretch between two heights, as steps; where nothing was answered there is none.
fn band(course: &Course, x: &Axis, y: &Axis, low: &[f64], high: &[f64]) -> String {
    let mut path = String::new();
    let place = |ns: f64| 1000.0 - 1000.0 * y.place(ns);
    let side = |at: f64| 1000.0 * x.place(at.max(0.0));
    let runs: Vec<Vec<usize>> = (0..course.slices.len())
        .collect::<Vec<usize>>()
        .chunk_by(|a, b| (course.slices[*a].answered > 0) == (course.slices[*b].answered > 0))
        .filter(|run| course.slices[run[0]].answered > 0)
        .map(<[usize]>::to_vec)
        .collect();
    for run in runs {
        for (number, index) in run.iter().enumerate() {
            let from = course.slices[*index].at_s;
            let (x1, x2, y) = (side(from), side(from + course.slice_s), place(high[*index]));
            path.push_str(&format!("{}{x1:.1} {y:.1}H{x2:.1}", if number == 0 { 'M' } else { 'L' }));
        }
        for index in run.iter().rev() {
            let from = course.slices[*index].at_s;
            path.push_str(&format!(
                "L{:.1} {1:.1}H{2:.1}",
                side(from + course.slice_s),
                place(low[*index]),
                side(from)
            ));
        }
        path.push('Z');
    }
    path
}

fn table(course: &Course) -> String {
    let told = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| time(ns as f64));
    let largest = |slice: &CourseSlice| {
        let part =
            Part::ALL.into_iter().max_by(|a, b| slice.parts_ns[*a as usize].total_cmp(&slice.parts_ns[*b as usize]));
        part.filter(|part| slice.parts_ns[*part as usize] > 0.0).map_or("-", Part::name).to_owned()
    };
    values(
        "The course of the run",
        &["From", "Answered", "Errors", "p50", "p99", "Largest part"],
        course.slices.iter().map(|slice| {
            vec![
                time(1e9 * slice.at_s.max(0.0)),
                count(slice.answered),
                count(slice.errors),
                told(slice.p50_ns),
                told(slice.p99_ns),
                largest(slice),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(answered: &[u64]) -> Course {
        let slice = |(index, answered): (usize, &u64)| {
            let mut parts_ns = [0.0; Part::COUNT];
            parts_ns[Part::Run as usize] = *answered as f64;
            CourseSlice {
                at_s: index as f64,
                answered: *answered,
                errors: 0,
                p50_ns: (*answered > 0).then_some(5),
                p99_ns: None,
                parts_ns,
            }
        };
        Course { slice_s: 1.0, slices: answered.iter().enumerate().map(slice).collect() }
    }

    #[test]
    fn areas_have_gaps_where_nothing_was_answered() {
        let markup = areas(&course(&[4, 4, 0, 4]));
        let path = markup.split("<path d=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a path");
        assert_eq!((path.matches('M').count(), path.matches('Z').count()), (2, 2), "{path}");
        assert!(markup.contains("p-run") && !markup.contains("p-wait_cpu"), "{markup}");
    }

    #[test]
    fn rates_leave_out_the_ends_that_are_not_full() {
        let markup = rate(&course(&[1, 100, 100, 1]));
        let path = markup.split("line l5\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a path");
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (1, 1), "{path}");
        assert!(!markup.contains("errors</li>"), "none came");
    }
}
