//! The distribution of response times: percentiles on a logarithmic axis.

use super::escape::{escaped, extent, time};
use super::tables::framed;
use crate::Explanation;
use weir_measure::summary::Summary;

/// Rows with a place on the axis; below, the standard deviation, which has none.
pub(super) fn section(explanation: &Explanation) -> String {
    let Some(times) = explanation.response_ns else {
        return String::new();
    };
    let axis = Axis::around(&times);
    let mut figures = [
        ("min", times.min as f64, "the fastest"),
        ("p50", times.p50 as f64, "half are no slower"),
        ("p90", times.p90 as f64, "1 in 10 is slower"),
        ("p99", times.p99 as f64, "1 in 100 is slower"),
        ("p99.9", times.p99_9 as f64, "1 in 1,000 is slower"),
        ("max", times.max as f64, "the slowest"),
        ("mean", times.mean, "the arithmetic mean"),
    ];
    // Percentiles keep their order; the mean goes where it belongs, which a long tail may move far up.
    figures.sort_by(|a, b| a.1.total_cmp(&b.1));
    let rows: String = figures
    .iter()
    .map(|(name, ns, words)| {
        format!(
            "<tr><th scope=\"row\">{name}<span class=\"aside words\">{words}</span></th><td class=\"n\">{}</td><td class=\"dots\">{}</td></tr>\n",
            time(*ns),
            axis.dot(*ns)
        )
    })
    .collect();
    format!(
        "<section aria-labelledby=\"distribution-h\"><h2 id=\"distribution-h\">Distribution of response times</h2>{}\
         <thead><tr><th scope=\"col\">Of the responses</th><th scope=\"col\" class=\"n\">Time</th>\
         <th scope=\"col\" class=\"dots\">{}</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\
         <p class=\"note\">The axis is logarithmic. Standard deviation {}.{}</p></section>\n",
        framed("Distribution of response times"),
        axis.labels(),
        time(times.stdev),
        // From the server's side that is another stretch than from the client's.
        if explanation.boundary.is_empty() {
            String::new()
        } else {
            format!(" Times count {}.", escaped(&explanation.boundary))
        }
    )
}

/// A logarithmic axis of whole decades.
struct Axis {
    /// Powers of ten of nanoseconds at its ends.
    from: i32,
    to: i32,
}

impl Axis {
    fn around(times: &Summary) -> Self {
        let power = |ns: f64| ns.max(1.0).log10();
        let from = power(times.min as f64).floor() as i32;
        let to = power(times.max as f64).ceil() as i32;
        Self { from, to: to.max(from + 1) }
    }

    fn place(&self, ns: f64) -> f64 {
        (ns.max(1.0).log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.from..=self.to).map(|power| 10f64.powi(power))
    }

    fn dot(&self, ns: f64) -> String {
        let lines: String = self
            .decades()
            .map(|decade| {
                let x = extent(self.place(decade));
                format!("<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"100%\"/>")
            })
            .collect();
        let x = extent(self.place(ns));
        format!(
            "<svg class=\"plot\" aria-hidden=\"true\" width=\"100%\" height=\"24\">{lines}\
             <line class=\"stem\" x1=\"0\" x2=\"{x}\" y1=\"50%\" y2=\"50%\"/><circle cx=\"{x}\" cy=\"50%\" r=\"4.5\"/></svg>"
        )
    }

    fn labels(&self) -> String {
        // Beyond six decades every other one is named.
        let step = 1 + ((self.to - self.from) / 6) as usize;
        let labels: String = self
            .decades()
            .step_by(step)
            .map(|decade| {
                let x = extent(self.place(decade));
                format!("<text x=\"{x}\" y=\"14\">{}</text>", super::ticks::tick(decade))
            })
            .collect();
        format!(
            "<span class=\"unseen\">On a logarithmic axis</span><svg class=\"plot\" aria-hidden=\"true\" width=\"100%\" height=\"18\">{labels}</svg>"
        )
    }
}
