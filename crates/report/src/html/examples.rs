//! A few responses, each as a lane on a time axis with its steps in the colours of their parts.

use super::bars::{Segment, WIDE, drawing, swatch};
use super::chart::chart;
use super::escape::{escaped, extent, time};
use super::headline::words_of;
use super::palette::part_named;
use super::tables::framed;
use super::ticks::{round_ticks, tick};
use crate::units::{nanoseconds, share};
use crate::{Example, ExampleStep, Explanation};
use weir_measure::part::Part;

/// Beyond this ratio of the longest to the shortest, a common axis would make the shorter ones illegible.
const COMMON_AXIS: f64 = 6.0;

/// The typical responses and the slowest ones.
pub(super) fn section(explanation: &Explanation) -> String {
    let groups: String = [("typical", "Typical responses"), ("slow", "The slowest responses")]
        .iter()
        .map(|(sort, title)| {
            group(sort, title, &explanation.examples.iter().filter(|one| one.sort == *sort).collect::<Vec<_>>())
        })
        .collect();
    if groups.is_empty() {
        return String::new();
    }
    let boundary =
        if explanation.boundary.is_empty() { String::new() } else { format!(", {}", escaped(&explanation.boundary)) };
    format!(
        "<section aria-labelledby=\"examples-h\"><h2 id=\"examples-h\">Examples</h2>{groups}\
         <p class=\"note\">Each lane is one response{boundary}. Below it the tasks that had it, locks and CPUs have rows of their own; arrows lead from who handed it on, or woke, to whom.</p></section>\n"
    )
}

fn group(sort: &str, title: &str, examples: &[&Example]) -> String {
    let longest = examples.iter().map(|one| one.response_ns).max().unwrap_or(0) as f64;
    let shortest = examples.iter().map(|one| one.response_ns).min().unwrap_or(0) as f64;
    if examples.is_empty() {
        return String::new();
    }
    let common = longest <= COMMON_AXIS * shortest;
    let lanes: String = examples
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let scale = if common { longest } else { one.response_ns as f64 };
            // The first of each group is open: the others would bury what stands below.
            lane(
                one,
                scale,
                &if common { String::new() } else { axis(scale) },
                (&format!("{sort}-{}", index + 1), index == 0),
            )
        })
        .collect();
    let (below, note) = match common {
        true => (axis(longest), ""),
        false => (String::new(), " <span class=\"aside\">each on its own scale, for they differ too much</span>"),
    };
    format!("<div class=\"card figure\"><h3>{title}{note}</h3>{lanes}{below}</div>")
}

fn lane(example: &Example, scale_ns: f64, axis: &str, (chart_name, open): (&str, bool)) -> String {
    let name = escaped(&example.name);
    let status = if example.status == 0 { String::new() } else { format!("<span>status {}</span>", example.status) };
    let segments = segments(example, scale_ns);
    let summary =
        format!("{}, {}, in {} steps", example.name, nanoseconds(example.response_ns as f64), example.steps.len());
    format!(
        "<article class=\"lane\"><p class=\"lane-name\"><b>{}</b> <span class=\"name\">{name}</span> \
         <span class=\"aside\">{status} <span>{} into the run</span></span></p>{}{axis}{}{}</article>\n",
        time(example.response_ns as f64),
        time(example.at_ns as f64),
        drawing(&summary, &segments, 26),
        unfolding(chart(example, chart_name), open),
        list(example)
    )
}

/// The chart of a response behind a line to open it.
fn unfolding(chart: String, open: bool) -> String {
    if chart.is_empty() {
        return chart;
    }
    let open = if open { " open" } else { "" };
    format!("<details class=\"charted\"{open}><summary>Tasks, locks and CPUs</summary>{chart}</details>")
}

/// What a lane draws: short steps of the same part, one after the other, as one; and what was left out as such.
fn segments(example: &Example, scale_ns: f64) -> Vec<Segment> {
    let narrow = |ns: u64| share(ns as f64, scale_ns) < WIDE;
    let same = |a: &ExampleStep, b: &ExampleStep| a.part == b.part && narrow(a.ns) && narrow(b.ns);
    let mut segments: Vec<Segment> = example.steps.chunk_by(same).map(|steps| segment(steps, scale_ns)).collect();
    let rest_ns = left_out_ns(example);
    if rest_ns > 0 {
        segments.push(Segment {
            part: None,
            from: share((example.response_ns - rest_ns) as f64, scale_ns),
            length: share(rest_ns as f64, scale_ns),
            label: "left out".to_owned(),
            figure: String::new(),
            hint: format!("left out: {} whose steps were too many", nanoseconds(rest_ns as f64)),
            leads: false,
        });
    }
    segments
}

/// The end of a response whose steps were too many to be kept.
fn left_out_ns(example: &Example) -> u64 {
    let drawn_ns = example.steps.last().map_or(0, |step| step.from_ns.saturating_add(step.ns));
    if example.steps.is_empty() { 0 } else { example.response_ns.saturating_sub(drawn_ns) }
}

/// One or more steps of the same part without gaps.
fn segment(steps: &[ExampleStep], scale_ns: f64) -> Segment {
    let ns = steps.iter().map(|step| step.ns).sum::<u64>() as f64;
    // A chunk is never empty.
    let first = &steps[0];
    let mut hint = format!("{}: {} from {}", first.part, nanoseconds(ns), nanoseconds(first.from_ns as f64));
    if steps.len() > 1 {
        hint.push_str(&format!(", in {} steps", steps.len()));
    }
    for (label, text) in [("task", same_text(steps, |step| &step.task)), ("on", same_text(steps, |step| &step.who))] {
        if !text.is_empty() {
            hint.push_str(&format!("; {label} {text}"));
        }
    }
    Segment {
        part: Some(part_named(&first.part).unwrap_or(Part::Unattributed)),
        from: share(first.from_ns as f64, scale_ns),
        length: share(ns, scale_ns),
        label: first.part.clone(),
        figure: String::new(),
        hint,
        leads: false,
    }
}

/// What steps have in common, or that they have nothing in common.
fn same_text(steps: &[ExampleStep], of: fn(&ExampleStep) -> &String) -> &str {
    let first = of(&steps[0]);
    if steps.iter().all(|step| of(step) == first) { first } else { "several" }
}

/// The steps as a table, so that nothing depends on hovering.
fn list(example: &Example) -> String {
    let rows: String = example
        .steps
        .iter()
        .map(|step| {
            let part = part_named(&step.part).unwrap_or(Part::Unattributed);
            format!(
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"key\" title=\"{}\">{}{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td></tr>\n",
                time(step.from_ns as f64),
                time(step.ns as f64),
                escaped(words_of(&step.part)),
                swatch(part),
                escaped(&step.part),
                escaped(&step.task),
                escaped(&step.who)
            )
        })
        .collect();
    let left_out = match left_out_ns(example) {
        0 => String::new(),
        ns => format!("; the last {} are left out, for their steps were too many", time(ns as f64)),
    };
    let steps = example.steps.len();
    format!(
        "<details><summary>{steps} step{}{left_out}</summary>{}<thead><tr><th scope=\"col\" class=\"n\">From</th><th scope=\"col\" class=\"n\">Time</th>\
         <th scope=\"col\">Part</th><th scope=\"col\">Task</th><th scope=\"col\">Spent on</th></tr></thead>\n<tbody>{rows}</tbody></table></div></details>",
        if steps == 1 { "" } else { "s" },
        framed("Steps of the response")
    )
}

/// A time axis with round ticks.
fn axis(scale_ns: f64) -> String {
    let ticks: String = round_ticks(scale_ns)
        .iter()
        .map(|ns| {
            let place = share(*ns, scale_ns);
            let (x, anchor) = (
                extent(place),
                match place {
                    place if place < 0.02 => "start",
                    place if place > 0.95 => "end",
                    _ => "middle",
                },
            );
            format!(
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"5\"/>\
                 <text x=\"{x}\" y=\"17\" style=\"text-anchor:{anchor}\">{}</text>",
                tick(*ns)
            )
        })
        .collect();
    format!("<svg class=\"plot axis\" aria-hidden=\"true\" width=\"100%\" height=\"20\">{ticks}</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_steps_are_drawn_together_and_what_is_left_out_is_shown() {
        let step = |part: Part, from_ns: u64, ns: u64, who: &str| ExampleStep {
            part: part.name().to_owned(),
            from_ns,
            ns,
            task: "worker (7)".to_owned(),
            who: who.to_owned(),
        };
        let example = Example {
            sort: "slow".to_owned(),
            name: "GET /".to_owned(),
            status: 200,
            response_ns: 1_000,
            at_ns: 0,
            steps: vec![
                step(Part::WaitCpu, 0, 2, "a (1)"),
                step(Part::WaitCpu, 2, 3, "b (2)"),
                step(Part::Run, 5, 395, ""),
                step(Part::Run, 400, 200, ""),
            ],
            cpus: vec![],
            holders: vec![],
        };
        let drawn = segments(&example, 1_000.0);
        let lengths: Vec<f64> = drawn.iter().map(|one| one.length).collect();
        assert_eq!(lengths, [0.005, 0.395, 0.2, 0.4]);
        assert_eq!(drawn[0].hint, "wait_cpu: 5 ns from 0 ns, in 2 steps; task worker (7); on several");
        assert_eq!(drawn[3].part, None);
        assert_eq!(drawn[3].hint, "left out: 400 ns whose steps were too many");
        assert!(list(&example).contains("4 steps; the last 400\u{a0}ns are left out"));
    }
}
