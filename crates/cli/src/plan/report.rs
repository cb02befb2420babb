//! The report of a plan for a terminal.

use super::planned::Planned;
use super::table;
use super::words::{answer, evidence, ranged};
use weir_plan::Tried;
use weir_report::{bytes, hanging, nanoseconds, percent};

/// The whole report for a terminal.
pub(super) fn report(planned: &Planned<'_>, columns: usize) -> String {
    let mut out = hanging(&format!("{}.", answer(planned)), 0, columns) + "\n\n";
    if let Some(best) = planned.best() {
        out += &details(best, columns);
        out += "\n";
    }
    out += &table::of(planned);
    out += "\n";
    for (key, words) in evidence(planned) {
        out += &keyed(key, &words, columns);
    }
    for warning in &planned.warnings {
        out += &keyed("warning", warning, columns);
    }
    out
}

fn keyed(key: &str, words: &str, columns: usize) -> String {
    hanging(&format!("{key:<9} {words}"), 10, columns) + "\n"
}

fn details(best: &Tried, columns: usize) -> String {
    let figures = &best.figures;
    let queueing = format!(
        "{} on average, {} of the responses; p95 {}, p99 {}",
        ranged(figures.waiting_mean_ns, nanoseconds),
        ranged(figures.waiting_share, percent),
        ranged(figures.waiting_p95_ns, nanoseconds),
        ranged(figures.waiting_p99_ns, nanoseconds)
    );
    let response = format!(
        "p50 {}, p95 {}, p99 {}",
        ranged(figures.response_p50_ns, nanoseconds),
        ranged(figures.response_p95_ns, nanoseconds),
        ranged(figures.response_p99_ns, nanoseconds)
    );
    let busy = format!(
        "{} on average, the busiest {}; {} on the fullest",
        percent(figures.utilisation_mean.mean),
        ranged(figures.utilisation_max, percent),
        bytes(figures.storage_max.mean as u64)
    );
    [("queueing", queueing), ("response", response), ("nodes", busy)]
        .map(|(key, words)| keyed(key, &words, columns))
        .concat()
}
