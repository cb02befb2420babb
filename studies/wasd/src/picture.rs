//! The paper's ratios and ours on one scale, as a picture (SVG) that follows the reader's light or dark colours.
use std::fmt::Write;

use crate::page::{Compared, shown};

const WIDTH: f64 = 1020.0;
const LEFT: f64 = 470.0;
const RIGHT: f64 = 800.0;
const ROW: f64 = 22.0;
const TOP: f64 = 54.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.quiet{fill:#59636e}.grid{stroke:#d1d9e0}.one{stroke:#59636e}\
.ours{stroke:#0969da;stroke-width:3}.dot{fill:#0969da}.then{fill:none;stroke:#bc4c00;stroke-width:2}.back{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}.grid{stroke:#3d444d}.one{stroke:#9198a1}\
.ours{stroke:#4493f8}.dot{fill:#4493f8}.then{stroke:#f0883e}.back{fill:#0d1117}}";

/// Draws it.
pub(crate) fn draw(compared: &[Compared]) -> String {
    let rows: usize = compared.iter().map(|claim| claim.ours.len() + 1).sum();
    let height = TOP + rows as f64 * ROW + 24.0;
    let (low, high) = range(compared);
    let at = |ratio: f64| LEFT + (ratio.ln() - low.ln()) / (high.ln() - low.ln()) * (RIGHT - LEFT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" \
         aria-label=\"Ratios of the paper and of today\"><style>{STYLE}</style><rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\
         <path class=\"then\" d=\"{}\"/><text x=\"{}\" y=\"22\">then</text>\
         <circle class=\"dot\" cx=\"{}\" cy=\"18\" r=\"4\"/><text x=\"{}\" y=\"22\">now, with its 95 % interval</text>",
        diamond(LEFT + 6.0, 18.0),
        LEFT + 16.0,
        LEFT + 70.0,
        LEFT + 80.0
    );
    for tick in [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0] {
        if (low..=high).contains(&tick) {
            let (x, class) = (at(tick), if tick == 1.0 { "one" } else { "grid" });
            add(
                &mut svg,
                format_args!(
                    "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
                    height - 20.0
                ),
            );
            add(
                &mut svg,
                format_args!(
                    "<text class=\"quiet\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{}\">{tick}</text>",
                    TOP - 6.0
                ),
            );
        }
    }
    let mut y = TOP + ROW / 2.0;
    for claim in compared {
        add(
            &mut svg,
            format_args!("<text x=\"8\" y=\"{:.1}\">{}</text>", y + 4.0, escaped(&shortened(&claim.says, 66))),
        );
        if let Some(paper) = claim.paper {
            add(&mut svg, format_args!("<path class=\"then\" d=\"{}\"/>", diamond(at(paper), y)));
            let x = RIGHT + 12.0;
            add(&mut svg, format_args!("<text class=\"quiet\" x=\"{x}\" y=\"{:.1}\">{paper:.2}</text>", y + 4.0));
        }
        y += ROW;
        for ours in &claim.ours {
            let title = escaped(&shortened(&ours.title, 60));
            add(&mut svg, format_args!("<text class=\"quiet\" x=\"24\" y=\"{:.1}\">{title}</text>", y + 4.0));
            if let Some(ratio) = &ours.ratio {
                let estimate = &ratio.estimate;
                let [from, to, middle] = [estimate.interval.low, estimate.interval.high, estimate.point].map(at);
                add(
                    &mut svg,
                    format_args!("<line class=\"ours\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"),
                );
                add(&mut svg, format_args!("<circle class=\"dot\" cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"4\"/>"));
            }
            add(
                &mut svg,
                format_args!("<text x=\"{}\" y=\"{:.1}\">{}</text>", RIGHT + 12.0, y + 4.0, shown(ours.ratio.as_ref())),
            );
            y += ROW;
        }
    }
    svg + "</svg>\n"
}

/// What the scale has to reach, with room on both sides.
fn range(compared: &[Compared]) -> (f64, f64) {
    let ours = compared.iter().flat_map(|claim| &claim.ours).filter_map(|ours| ours.ratio.as_ref());
    let ours = ours.flat_map(|ratio| [ratio.estimate.interval.low, ratio.estimate.interval.high]);
    let all = ours.chain(compared.iter().filter_map(|claim| claim.paper)).chain([1.0]);
    let (low, high) = all.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low / 1.2, high * 1.2)
}

fn diamond(x: f64, y: f64) -> String {
    format!("M{:.1} {y:.1}l6 -6l6 6l-6 6z", x - 6.0)
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).collect::<String>() + "…" }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(svg: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = svg.write_fmt(words);
}
