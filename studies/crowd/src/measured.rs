//! A real cluster beside the simulated one: what `weir load` saw of the same arrivals.

use crate::crowd::{END_S, ONSET_S};
use crate::simulation::{OBJECTIVE_NS, Outcome};
use anyhow::Context;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// How far the shares of seconds that keep the objective may be apart, in points.
const APART_POINTS: f64 = 5.0;

/// A run of the real cluster, and the simulated one with the same arrivals.
pub(crate) struct Measured {
    kept_percent: f64,
    p50_ms: f64,
    failed: f64,
    requests: f64,
    /// When it grew, seconds behind the onset.
    grew_s: Option<f64>,
    simulated: Outcome,
}

impl Measured {
    /// Reads a report of `weir load --replay` and, where the cluster grew, when it did, in seconds from its begin.
    pub(crate) fn read(folder: &Path, name: &str, simulated: Outcome) -> anyhow::Result<Self> {
        let file = folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let load: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        let number = |path: &str| {
            load.pointer(path).and_then(Value::as_f64).with_context(|| format!("{}: no {path}", file.display()))
        };
        let points = load["series"]["points"].as_array().context("no series")?;
        let kept = points.iter().filter(|point| keeps(point)).count() as f64;
        let grew = std::fs::read_to_string(folder.join(format!("{name}.grew"))).ok().filter(|text| !text.is_empty());
        let grew_s = grew.map(|text| text.trim().parse::<f64>().context("when it grew is no number")).transpose()?;
        Ok(Self {
            // A series may be a second longer than the arrivals.
            kept_percent: 100.0 * kept / (points.len() as f64).max(END_S),
            p50_ms: number("/latency_ns/p50")? / 1e6,
            failed: failed(&load),
            requests: number("/requests")?,
            grew_s: grew_s.map(|at_s| at_s - ONSET_S),
            simulated,
        })
    }

    pub(crate) fn is_as_simulated(&self) -> bool {
        (self.kept_percent - self.simulated.kept_percent()).abs() <= APART_POINTS
    }
}

/// Requests that have no answer, or a wrong one.
fn failed(of: &Value) -> f64 {
    of["errors"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_f64()).sum::<f64>() + 0.0
}

/// Whether 99 of 100 of a second had their answer in time: those that failed had none.
fn keeps(point: &Value) -> bool {
    let requests = point["requests"].as_f64().unwrap_or(0.0);
    let p99_ns = point["latency_ns"]["p99"].as_f64().unwrap_or(0.0);
    failed(point) <= 0.01 * requests && p99_ns < OBJECTIVE_NS as f64
}

pub(crate) fn section(page: &mut String, measured: &[Measured], surroundings: Option<&str>) {
    page.push_str("\n## A real cluster beside the simulated one\n\n");
    if measured.is_empty() {
        page.push_str("Not measured on this machine: it takes root and network namespaces.\n");
        return;
    }
    let _ = write!(
        page,
        "{}\nA director and five nodes, each in a network namespace of its own behind a link of the stated rate, are sent the arrivals of the first seed by `weir load --replay`.\n\
         Three things are not simulated: TCP, whose windows the responses share the link by, the CPUs, of which all processes here have {}, and the queue of the link.\n\
         The shares of seconds must not be more than {APART_POINTS:.0} points apart.\n\n\
         | | measured | simulated |\n|---|---|---|\n",
        surroundings.unwrap_or_default(),
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    for run in measured {
        let simulated = &run.simulated;
        let seconds = |at_s: Option<f64>| at_s.map_or("-".to_owned(), |at_s| format!("{at_s:.1} s"));
        let _ = writeln!(
            page,
            "| **{}**: seconds that keep the objective | {:.1} % | {:.1} % |",
            simulated.name,
            run.kept_percent,
            simulated.kept_percent()
        );
        let _ = writeln!(
            page,
            "| grew, after the onset | {} | {} |",
            seconds(run.grew_s),
            seconds(simulated.grew_s.map(|at_s| at_s - ONSET_S))
        );
        let _ = writeln!(page, "| median latency | {:.1} ms | {:.1} ms |", run.p50_ms, simulated.p50_ms());
        let _ = writeln!(
            page,
            "| answered, and failed | {:.0}, {:.0} | {}, {} |",
            run.requests,
            run.failed,
            simulated.answered(),
            simulated.refused()
        );
    }
    let apart: Vec<&str> = measured.iter().filter(|run| !run.is_as_simulated()).map(|run| run.simulated.name).collect();
    let words = if apart.is_empty() { "yes".to_owned() } else { format!("no, {}", apart.join(" and ")) };
    let _ = write!(page, "\nAll within {APART_POINTS:.0} points: {words}.\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_second_counts_as_kept_only_if_its_failures_and_its_latencies_allow_it() {
        let point = |p99_ns: u64, failed: u64| json!({"requests": 100, "latency_ns": {"p99": p99_ns}, "errors": {"timeout": failed}});
        assert!(keeps(&point(199_000_000, 1)) && keeps(&json!({"requests": 0})));
        assert!(!keeps(&point(200_000_000, 0)) && !keeps(&point(1_000_000, 2)));
    }
}
