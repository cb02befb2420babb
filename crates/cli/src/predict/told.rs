//! A prediction for its readers.

use super::checked::Measured;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use weir_predict::{Figures, Interval, Prediction};

/// The version of the JSON.
const SCHEMA: u32 = 1;
/// Classes of requests that a person is shown, and objects of each.
const MOST_CLASSES: usize = 6;
const MOST_OBJECTS: usize = 4;

/// For a program.
pub(super) fn json(prediction: &Prediction, run: &Path, measured: Option<&Measured>) -> serde_json::Value {
    json!({
        "schema": SCHEMA,
        "version": weir_terminal::VERSION,
        "run": run.display().to_string(),
        "prediction": prediction,
        "measured": measured,
    })
}

/// For a person.
pub(super) fn text(prediction: &Prediction, run: &Path) -> String {
    let mut text = format!("prediction from {}\n\n", run.display());
    let load = match (prediction.rate_per_s, prediction.clients) {
        (Some(rate), _) => format!("{rate:.1} requests/s"),
        (None, Some(clients)) => format!("{clients} clients, one request after the other"),
        (None, None) => String::new(),
    };
    line(&mut text, "load", &load);
    line(&mut text, "", &format!("{:>16}{:>14}{:>14}   {}", "recorded", "model of it", "predicted", "interval"));
    for (at, name) in ["responses/s", "mean", "p50", "p95", "p99"].into_iter().enumerate() {
        let of = |figures: &Figures| of_figures(figures)[at];
        let (recorded, model) = (shown(at, prediction.recorded[at]), shown(at, of(&prediction.repeated).value));
        let (value, interval) = match (&prediction.predicted, at) {
            (Some(figures), _) => {
                let Interval { value, low, high } = of(figures);
                (shown(at, value), format!("{} to {}", shown(at, low), shown(at, high)))
            }
            (None, 0) => (shown(0, prediction.throughput_per_s), "the most that is served".to_owned()),
            (None, _) => ("grows".to_owned(), "more comes than is served".to_owned()),
        };
        line(&mut text, name, &format!("{recorded:>16}{model:>14}{value:>14}   {interval}"));
    }
    let layers = &prediction.layers;
    let mean = if layers.mean_ns.is_finite() { shown(1, layers.mean_ns) } else { "grows".to_owned() };
    line(&mut text, "by MVA", &format!("{:.1} responses/s, mean {mean}", layers.throughput_per_s));
    let bottleneck = &prediction.bottleneck;
    let words = format!(
        "{}, {:.0} % busy; full at {:.1} requests/s",
        bottleneck.name,
        bottleneck.utilisation * 100.0,
        bottleneck.most_per_s
    );
    line(&mut text, "bottleneck", &words);
    for station in &prediction.demand.stations {
        let words = format!(
            "{} of {} for each request, full at {:.1} requests/s",
            shown(1, station.demand_ns),
            station.servers,
            station.most_per_s
        );
        line(&mut text, &format!("  {}", station.name), &words);
    }
    by_class(&mut text, prediction);
    match (&prediction.usl, &prediction.no_usl_because) {
        (Some(usl), _) => {
            let at_once = usl.best_at_once;
            let with = if at_once.is_finite() { format!(" with {at_once:.0} at once") } else { String::new() };
            let words = format!(
                "contention {:.3}, coherence {:.5}: at most {:.0} responses/s{with}",
                usl.contention, usl.coherence, usl.most_per_s
            );
            line(&mut text, "USL", &words);
        }
        (None, Some(reason)) => line(&mut text, "USL", &format!("not fitted: {reason}")),
        (None, None) => {}
    }
    prediction.remarks.iter().for_each(|remark| line(&mut text, "note", remark));
    text
}

/// What a mean request of each class asks of which object.
fn by_class(text: &mut String, prediction: &Prediction) {
    let classes = &prediction.demand.classes;
    for (number, class) in classes.iter().take(MOST_CLASSES).enumerate() {
        let mut words = format!("{} of {} requests:", class.class, class.requests);
        for of in class.of.iter().take(MOST_OBJECTS) {
            let _ = write!(words, " {} {} {},", of.object, of.part, shown(1, of.demand_ns));
        }
        line(text, if number == 0 { "demands" } else { "" }, words.trim_end_matches(','));
    }
    if classes.len() > MOST_CLASSES {
        line(text, "", &format!("and {} more classes, in --json", classes.len() - MOST_CLASSES));
    }
}

/// Prediction and measurement.
pub(super) fn beside(prediction: &Prediction, measured: &Measured) -> String {
    let mut text = format!("\nmeasured by {}\n", measured.command);
    if let Some(with) = &measured.copy_with {
        line(&mut text, "of", &format!("a copy of the recorded servers with {with}"));
    }
    line(&mut text, "", &format!("{:>16}{:>14}{:>10}   {}", "predicted", "measured", "off by", "in the interval"));
    let of_load = [measured.throughput_per_s, measured.mean_ns, measured.p50_ns, measured.p95_ns, measured.p99_ns];
    for (at, name) in ["responses/s", "mean", "p50", "p95", "p99"].into_iter().enumerate() {
        let measured = of_load[at];
        let words = match (&prediction.predicted, at) {
            (Some(figures), _) => {
                let Interval { value, low, high } = of_figures(figures)[at];
                let off = (value / measured - 1.0) * 100.0;
                let within = if (low..=high).contains(&measured) { "yes" } else { "no" };
                format!("{:>16}{:>14}{off:>+8.1} %   {within}", shown(at, value), shown(at, measured))
            }
            (None, 0) => {
                let off = (prediction.throughput_per_s / measured - 1.0) * 100.0;
                format!("{:>16}{:>14}{off:>+8.1} %", shown(0, prediction.throughput_per_s), shown(0, measured))
            }
            (None, _) => format!("{:>16}{:>14}", "grows", shown(at, measured)),
        };
        line(&mut text, name, &words);
    }
    text
}

fn of_figures(figures: &Figures) -> [Interval; 5] {
    [figures.throughput_per_s, figures.mean_ns, figures.p50_ns, figures.p95_ns, figures.p99_ns]
}

/// A figure: the first is a rate, the others are nanoseconds.
pub(super) fn shown(at: usize, value: f64) -> String {
    match value {
        value if at == 0 => format!("{value:.1}"),
        value if value < 1e6 => format!("{:.0} us", value / 1e3),
        value if value < 1e9 => format!("{:.2} ms", value / 1e6),
        value => format!("{:.2} s", value / 1e9),
    }
}

fn line(text: &mut String, name: &str, words: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<14} {words}");
}
