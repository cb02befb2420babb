//! What the report says of each worker.

use serde_json::{Value, json};
use std::fmt::Write;
use weir_load::{Fate, LoadReport, WorkerReport};
use weir_report::count as grouped;
use weir_report::nanoseconds;

/// How many workers were lost, in words; none where all reported.
pub(crate) fn lost_of(report: &LoadReport) -> Option<String> {
    let lost = report.workers.iter().filter(|worker| matches!(worker.fate, Fate::Lost { .. })).count();
    (lost > 0).then(|| format!("{lost} of {} workers were lost: the figures are of the others", report.workers.len()))
}

/// The workers, a line each; nothing where this process made the run alone.
pub(crate) fn write(screen: &mut String, report: &LoadReport) -> std::fmt::Result {
    if report.workers.is_empty() {
        return Ok(());
    }
    writeln!(
        screen,
        "\n  {:<20}{:>12}{:>9}{:>9}{:>9}{:>9}{:>9}  clock; own share of the slowest 1 %",
        "workers", "requests", "errors", "p50", "p99", "max", "cpu"
    )?;
    for worker in &report.workers {
        writeln!(screen, "{}", line(worker))?;
    }
    Ok(())
}

fn line(worker: &WorkerReport) -> String {
    let name = &worker.name;
    let share = match &worker.fate {
        Fate::Reported(share) => share,
        Fate::Lost { why, after, .. } => return format!("  {name:<20}lost after {:.1} s: {why}", after.as_secs_f64()),
    };
    let quantile = |quantile| match share.latency.is_empty() {
        true => "-".to_owned(),
        false => nanoseconds(share.latency.value_at_quantile(quantile) as f64),
    };
    let own = share.slowest.map_or_else(|| "-".to_owned(), |slowest| format!("{:.1} %", slowest.own_share() * 100.0));
    format!(
        "  {name:<20}{:>12}{:>9}{:>9}{:>9}{:>9}{:>7.0} %  ±{}; {own}",
        grouped(share.requests),
        grouped(share.failures),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
        share.generator.cpu_share * 100.0,
        nanoseconds(worker.clock.error_ns as f64).trim(),
    )
}

/// The same for programs.
pub(crate) fn as_json(report: &LoadReport) -> Value {
    report.workers.iter().map(one).collect()
}

fn one(worker: &WorkerReport) -> Value {
    let mut value = json!({
        "name": worker.name,
        "clock_offset_ns": worker.clock.offset_ns,
        "clock_error_ns": worker.clock.error_ns,
    });
    match &worker.fate {
        Fate::Reported(share) => {
            value["requests"] = json!(share.requests);
            value["successes"] = json!(share.successes);
            value["errors"] = json!(share.failures);
            value["dropped"] = json!(share.dropped);
            for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
                let latency = &share.latency;
                value["latency_ns"][name] = json!((!latency.is_empty()).then(|| latency.value_at_quantile(quantile)));
            }
            value["cpu_share"] = json!(share.generator.cpu_share);
            value["runnable_share"] = json!(share.generator.runnable_share);
            value["late"] = json!(share.generator.late);
            value["own_share"] = json!(share.slowest.map(|slowest| slowest.own_share()));
        }
        Fate::Lost { why, after, arrivals, told } => {
            value["lost"] = json!({
                "why": why,
                "after_s": after.as_secs_f64(),
                "arrivals": arrivals,
                "told_and_left_out": told,
            });
        }
    }
    value
}
