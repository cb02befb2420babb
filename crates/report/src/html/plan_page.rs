//! The page of a plan: the answer, queueing delay against nodes and against replicas, and what was tried.

use super::escape::{escaped, time};
use super::evidence::key_figure;
use super::plot::{Axis, Line, Plot};
use super::tables::{framed, values};
use super::ticks::tick;
use crate::planned::{Planned, PlannedCurve, PlannedPoint};
use crate::units::{bytes, nanoseconds, percent};

const STYLE: &str = concat!(include_str!("style.css"), include_str!("plot.css"));
const SCRIPT: &str = include_str!("plot.js");
/// The looks of lines, in their order.
const LOOKS: [&str; 6] = ["l2", "l0", "l1", "l3", "l5", "l4"];
/// Shorter delays are drawn as this one, since a reader has no use for less than a microsecond.
const LEAST_NS: f64 = 1e3;

/// The whole document.
pub(super) fn page(planned: &Planned) -> String {
    let subject = escaped(&planned.subject);
    let replicas = format!("Queueing delay against replicas, on {} nodes", planned.replicas_on);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{subject} planned - weir</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"subject\">{}<span class=\"name\">{subject}</span></p><h1>{}</h1>\n{}{}</header>\n\
         <main>\n{}{}{}{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        super::page::LOGO,
        escaped(&planned.answer),
        figures(planned),
        warnings(planned),
        curves("by-nodes", "Queueing delay against nodes", "nodes", &planned.by_nodes),
        curves("by-replicas", &replicas, "copies of each object", &planned.by_replicas),
        tried(planned),
        evidence(planned),
    )
}

fn figures(planned: &Planned) -> String {
    let figures = planned.figures.iter().map(|(name, value, aside)| key_figure(name, value, &escaped(aside)));
    format!("<dl class=\"figures\">{}</dl>\n", figures.collect::<String>())
}

fn warnings(planned: &Planned) -> String {
    if planned.warnings.is_empty() {
        return String::new();
    }
    let items: String = planned.warnings.iter().map(|warning| format!("<li>{}</li>", escaped(warning))).collect();
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\"><h2>Before trusting the figures</h2><ul>{items}</ul></aside>\n"
    )
}

fn curves(id: &str, title: &str, x_name: &str, curves: &[PlannedCurve]) -> String {
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.at).max().unwrap_or(0);
    if most < 2 {
        return String::new();
    }
    let mean = |point: &PlannedPoint| point.waiting_ns[1].max(LEAST_NS);
    let line = |(number, curve): (usize, &PlannedCurve)| Line {
        name: curve.name.clone(),
        look: LOOKS[number % LOOKS.len()],
        points: curve.points.iter().map(|point| (f64::from(point.at), Some(mean(point)))).collect(),
        dots: true,
    };
    let hint = |at: u32| {
        let of = |curve: &PlannedCurve| {
            let point = curve.points.iter().find(|point| point.at == at)?;
            Some(format!("{} {}", curve.name, nanoseconds(point.waiting_ns[1])))
        };
        let all: Vec<String> = curves.iter().filter_map(of).collect();
        (f64::from(at), format!("{at} {x_name}: {}", all.join(", ")))
    };
    let plot = Plot {
        id,
        label: title,
        x: Axis::numbers(most as usize),
        y: Axis::fitting(curves.iter().flat_map(|curve| &curve.points).map(mean), tick),
        x_name,
        lines: curves.iter().enumerate().map(line).collect(),
        band: None,
        levels: Vec::new(),
        limit: None,
        hints: (1..=most).map(hint).collect(),
    };
    let rows = curves.iter().flat_map(|curve| {
        curve.points.iter().map(|point| {
            let [low, mean, high] = point.waiting_ns.map(time);
            let share = escaped(&percent(point.waiting_share));
            vec![escaped(&curve.name), point.at.to_string(), mean, low, high, share, escaped(&bytes(point.storage))]
        })
    });
    let columns = ["plan", x_name, "mean delay", "least", "most", "of the response", "storage"];
    format!(
        "<section aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{}</h2><div class=\"card figure\">{}{}</div></section>\n",
        escaped(title),
        plot.markup(),
        values(title, &columns, rows)
    )
}

fn tried(planned: &Planned) -> String {
    let rows: String = planned
        .rows
        .iter()
        .map(|row| {
            let [p50, p95, p99] = row.response_ns.map(time);
            let met = row.is_met.map_or("", |is_met| if is_met { "met" } else { "missed" });
            let (begin, end) = if row.is_best { ("<b>", "</b>") } else { ("", "") };
            format!(
                "<tr><td class=\"n\">{}</td><th scope=\"row\">{begin}{}{end}</th><td class=\"n\">{}</td><td class=\"n\">{p50}</td>\
                 <td class=\"n\">{p95}</td><td class=\"n\">{p99}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{met}</td></tr>\n",
                row.nodes,
                escaped(&row.what),
                time(row.waiting_ns),
                escaped(&percent(row.busiest)),
                escaped(&bytes(row.storage)),
            )
        })
        .collect();
    format!(
        "<section aria-labelledby=\"tried-h\"><h2 id=\"tried-h\">What was tried</h2>{}<thead><tr><th scope=\"col\" class=\"n\">Nodes</th>\
         <th scope=\"col\">What where</th><th scope=\"col\" class=\"n\">Queueing</th><th scope=\"col\" class=\"n\">p50</th>\
         <th scope=\"col\" class=\"n\">p95</th><th scope=\"col\" class=\"n\">p99</th><th scope=\"col\" class=\"n\">Busiest node</th>\
         <th scope=\"col\" class=\"n\">Storage</th><th scope=\"col\">Objective</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\
         <p class=\"note\">Queueing: what a request takes longer than on an idle node, on average. p50 to p99: from its arrival to the \
         end of its service.</p></section>\n",
        framed("What was tried")
    )
}

fn evidence(planned: &Planned) -> String {
    let rows: String = planned
        .evidence
        .iter()
        .map(|(name, text)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(text)))
        .collect();
    format!(
        "<section aria-labelledby=\"evidence-h\"><h2 id=\"evidence-h\">What this rests on</h2><dl class=\"card evidence\">{rows}</dl></section>\n"
    )
}
