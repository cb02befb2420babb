//! The picture: latencies of useful answers by percentile, a line for each round of each server.

use crate::runs::{Pair, Run};
use std::fmt::Write;

const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 260.0;
/// The axis of latencies is logarithmic, from 10 ms on.
const LOW_NS: f64 = 1e7;
const DECADES: f64 = 3.0;
/// The axis of percentiles has as much room for each further nine.
const NINES: f64 = 3.0;

pub(crate) fn picture(pairs: &[Pair]) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 350\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <style>text{fill:#333}.g{stroke:#ccc;stroke-width:.6}.a{stroke:#1663ad;fill:none;stroke-width:2}.p{stroke:#c2410c;fill:none;stroke-width:2}.ta{fill:#1663ad}.tp{fill:#c2410c}\
         @media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}.a{stroke:#6db3f8}.ta{fill:#6db3f8}.p{stroke:#fb923c}.tp{fill:#fb923c}}</style>\n",
    );
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"20\" font-weight=\"600\">latency of useful answers, by percentile</text>\n\
         <text class=\"ta\" x=\"420\" y=\"20\">weir</text><text class=\"tp\" x=\"470\" y=\"20\">nginx with php-fpm</text>"
    );
    for (ns, words) in [(1e7, "10 ms"), (1e8, "100 ms"), (1e9, "1 s"), (1e10, "10 s")] {
        let at = y(ns);
        let _ = writeln!(
            svg,
            "<path class=\"g\" d=\"M{LEFT} {at:.1}h{WIDTH}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for percent in [0.0, 50.0, 90.0, 99.0, 99.9] {
        let at = x(percent);
        let _ = writeln!(
            svg,
            "<path class=\"g\" d=\"M{at:.1} {TOP}v{HEIGHT}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{percent} %</text>",
            TOP + HEIGHT + 18.0
        );
    }
    for pair in pairs {
        line(&mut svg, "p", &pair.nginx);
        line(&mut svg, "a", &pair.weir);
    }
    svg + "</svg>\n"
}

fn x(percent: f64) -> f64 {
    let nines = -(1.0 - percent / 100.0).max(1e-9).log10();
    LEFT + WIDTH * nines.min(NINES) / NINES
}

fn y(ns: f64) -> f64 {
    TOP + HEIGHT * (1.0 - (ns.max(LOW_NS) / LOW_NS).log10().min(DECADES) / DECADES)
}

fn line(svg: &mut String, class: &str, run: &Run) {
    let mut path = String::new();
    for (percent, ns) in run.curve.iter().filter(|(percent, _)| *percent <= 99.9) {
        let _ = write!(path, "{}{:.1} {:.1}", if path.is_empty() { "M" } else { "L" }, x(*percent), y(*ns));
    }
    let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_its_two_lines_within_the_picture() {
        let run = |ns: f64| {
            let curve = vec![(0.0, ns / 2.0), (50.0, ns), (99.0, 2.0 * ns), (100.0, 9.0 * ns)];
            let (refused_per_s, bad_per_s, unanswered_per_s) = (0.0, 0.0, 0.0);
            Run { useful_per_s: 1.0, wanted_per_s: 2.0, curve, refused_per_s, bad_per_s, unanswered_per_s }
        };
        let pairs: Vec<Pair> = (0..3).map(|_| Pair { weir: run(3e8), nginx: run(2e9) }).collect();
        let svg = picture(&pairs);
        assert_eq!((svg.matches("class=\"a\"").count(), svg.matches("class=\"p\"").count()), (3, 3));
        assert!((LEFT..=LEFT + WIDTH).contains(&x(99.99)) && y(1e12) >= TOP && y(0.0) <= TOP + HEIGHT);
    }
}
