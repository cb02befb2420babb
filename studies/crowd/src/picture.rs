//! The picture: the latency that 99 of 100 arrivals of a second keep, and how many nodes serve, over time.

use crate::crowd::{CALM_PER_S, END_S, TIMES, rate_per_s};
use crate::simulation::{NODES, OBJECTIVE_NS, Outcome};
use std::fmt::Write;

const LEFT: f64 = 70.0;
const WIDTH: f64 = 620.0;
/// The upper panel has latencies, the lower one nodes and arrivals.
const LATENCY: (f64, f64) = (60.0, 230.0);
const NODES_PANEL: (f64, f64) = (330.0, 90.0);
/// The axis of latencies is logarithmic, from 1 ms to 100 s; refusals lie above it.
const DECADES: f64 = 5.0;

/// Which outcomes have a line, by their names, with its class and where its name stands.
const LINES: [(&str, &str, f64); 4] = [
    ("three nodes", "n", 0.0),
    ("autoscaler, 70 % each 15 s", "h", 110.0),
    ("Netflix's gradient2", "l", 310.0),
    ("weir's rules", "w", 470.0),
];

pub(crate) fn picture(outcomes: &[Outcome]) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 470\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <style>text{fill:#333}.g{stroke:#ccc;stroke-width:.6}.o{stroke:#888;stroke-dasharray:5 4}.n,.h,.l,.w,.a{fill:none;stroke-width:1.6}\
         .n{stroke:#777}.h{stroke:#c2410c}.l{stroke:#7c3aed}.w{stroke:#1663ad;stroke-width:2.4}.a{stroke:#999;stroke-dasharray:2 3}\
         .tn{fill:#777}.th{fill:#c2410c}.tl{fill:#7c3aed}.tw{fill:#1663ad}\
         @media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}.h{stroke:#fb923c}.l{stroke:#c4b5fd}.w{stroke:#6db3f8}.th{fill:#fb923c}.tl{fill:#c4b5fd}.tw{fill:#6db3f8}}</style>\n",
    );
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"20\" font-weight=\"600\">latency that 99 of 100 arrivals of a second keep; on the top line more were refused</text>"
    );
    for (name, class, left) in LINES {
        let _ = writeln!(svg, "<text class=\"t{class}\" x=\"{}\" y=\"40\">{name}</text>", LEFT + left);
    }
    axes(&mut svg);
    for (name, class, _) in LINES {
        let Some(outcome) = outcomes.iter().find(|outcome| outcome.name == name) else { continue };
        let latency = |second: usize| y_of_latency(outcome.seconds[second].p99_ns());
        line(&mut svg, class, latency);
        let nodes = |second: usize| y_of_nodes(outcome.seconds[second].awake as f64);
        line(&mut svg, class, nodes);
    }
    line(&mut svg, "a", |second| y_of_nodes(rate_per_s(second as f64) / (CALM_PER_S * TIMES) * NODES as f64));
    svg + "</svg>\n"
}

fn axes(svg: &mut String) {
    for (ns, words) in [(1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms"), (1e9, "1 s"), (1e10, "10 s"), (1e11, "100 s")] {
        horizontal(svg, "g", y_of_latency(Some(ns as u64)), words);
    }
    horizontal(svg, "o", y_of_latency(Some(OBJECTIVE_NS)), "");
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"600\">nodes that get connections; dotted: arrivals, of the most</text>",
        NODES_PANEL.0 - 12.0
    );
    for nodes in 0..=NODES {
        horizontal(svg, "g", y_of_nodes(nodes as f64), &nodes.to_string());
    }
    for at_s in (0..=END_S as usize).step_by(60) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at_s} s</text>",
            x(at_s),
            NODES_PANEL.0 + NODES_PANEL.1 + 20.0
        );
    }
}

fn horizontal(svg: &mut String, class: &str, at: f64, words: &str) {
    let _ = writeln!(
        svg,
        "<path class=\"{class}\" d=\"M{LEFT} {at:.1}h{WIDTH}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>",
        LEFT - 6.0,
        at + 4.0
    );
}

fn x(second: usize) -> f64 {
    LEFT + WIDTH * second as f64 / END_S
}

fn y_of_latency(ns: Option<u64>) -> f64 {
    let share = ns.map_or(1.0, |ns| ((ns as f64 / 1e6).max(1.0).log10() / DECADES).min(1.0));
    LATENCY.0 + LATENCY.1 * (1.0 - share)
}

fn y_of_nodes(nodes: f64) -> f64 {
    NODES_PANEL.0 + NODES_PANEL.1 * (1.0 - nodes / NODES as f64)
}

fn line(svg: &mut String, class: &str, y: impl Fn(usize) -> f64) {
    let mut path = String::new();
    for second in 0..END_S as usize {
        let _ = write!(path, "{}{:.1} {:.1}", if second == 0 { "M" } else { "L" }, x(second), y(second));
    }
    let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Second;

    #[test]
    fn each_policy_of_the_list_has_its_two_lines_within_the_picture() {
        let seconds = vec![Second { latencies_ns: vec![1, 900_000_000_000], refused: 3, awake: 5 }; END_S as usize];
        let outcome =
            |name| Outcome { name, seconds: seconds.clone(), grew_s: None, node_seconds: 1.0, used: 0.5, reason: None };
        let svg = picture(&LINES.map(|(name, ..)| outcome(name)));
        assert!(LINES.iter().all(|(_, class, _)| svg.matches(&format!("class=\"{class}\"")).count() == 2), "{svg}");
        assert!(y_of_latency(None) >= LATENCY.0 && y_of_latency(Some(0)) <= LATENCY.0 + LATENCY.1);
    }
}
