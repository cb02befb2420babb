//! The charts, as one SVG file: queueing against nodes, and against replicas.

use crate::experiments::{NODES, Results};
use std::fmt::Write;
use weir_plan::Repeated;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 230.0;
/// The axis of percentages is logarithmic, from a hundredth of a percent to 100.
const DECADES: f64 = 4.0;

pub(crate) fn picture(results: &Results) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 320\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <style>text{fill:#333}.g{stroke:#ccc;stroke-width:.6}.a{stroke:#1663ad;fill:none;stroke-width:2}.d{fill:#1663ad}.p{stroke:#c2410c;stroke-dasharray:5 4;fill:none}.t{fill:#c2410c}\
         @media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}.a{stroke:#6db3f8}.d{fill:#6db3f8}.p{stroke:#fb923c}.t{fill:#fb923c}}</style>\n",
    );
    chart(&mut svg, 60.0, "full replication", "nodes", &results.full, (1.0, "paper, on average: 1 %"));
    chart(
        &mut svg,
        540.0,
        "replicas of each document, on 10 nodes",
        "replicas",
        &results.replicas,
        (11.4, "paper, 1 replica: 11.4 %"),
    );
    svg + "</svg>\n"
}

fn chart(svg: &mut String, left: f64, title: &str, x_name: &str, results: &[Repeated], (paper, words): (f64, &str)) {
    let x = |at: usize| left + WIDTH * (at as f64 + 0.5) / f64::from(NODES);
    let y = |percent: f64| 40.0 + HEIGHT * (2.0 - percent.max(0.01).log10()) / DECADES;
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"20\" font-weight=\"600\">queueing, share of the response: {title}</text>"
    );
    for percent in [0.01, 0.1, 1.0, 10.0, 100.0] {
        let at = y(percent);
        let _ = writeln!(
            svg,
            "<path class=\"g\" d=\"M{left} {at:.1}h{WIDTH}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"p\" d=\"M{left} {:.1}h{WIDTH}\"/><text class=\"t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>",
        y(paper),
        left + WIDTH,
        y(paper) - 5.0
    );
    let mut line = String::new();
    for (at, result) in results.iter().enumerate() {
        let (x, y) = (x(at), y(result.waiting_share.mean * 100.0));
        let _ = write!(line, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
        let _ = writeln!(
            svg,
            "<circle class=\"d\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/><text x=\"{x:.1}\" y=\"290\" text-anchor=\"middle\">{}</text>",
            at + 1
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"a\" d=\"{line}\"/><text x=\"{:.1}\" y=\"310\" text-anchor=\"middle\">{x_name}</text>",
        left + WIDTH / 2.0
    );
}
