//! The report of a run as plain values of Python.

use crate::times::Times;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_load::{LoadReport, Outcome, Series};
use weir_measure::summary::Summary;

/// The report, a value under each name; times are microseconds, durations seconds.
pub(crate) fn as_dict<'py>(py: Python<'py>, report: &LoadReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let errors = PyDict::new(py);
    for (outcome, count) in &report.errors {
        errors.set_item(outcome.name(), count)?;
    }
    let status = PyDict::new(py);
    for (code, count) in &report.status {
        status.set_item(code, count)?;
    }
    let generator = PyDict::new(py);
    generator.set_item("cpu_share", report.generator.cpu_share)?;
    generator.set_item("runnable_share", report.generator.runnable_share)?;
    generator.set_item("late", report.generator.late)?;
    generator.set_item("bottleneck", report.generator.bottleneck)?;
    generator.set_item("io", report.generator.io.name())?;
    let reasons: Vec<_> =
        report.reasons.iter().map(|reason| (reason.outcome.name(), reason.words.clone(), reason.count)).collect();
    dict.set_item("requests", report.requests)?;
    dict.set_item("successes", report.successes)?;
    dict.set_item("unexpected", report.unexpected)?;
    dict.set_item("success_rate", report.success_rate())?;
    dict.set_item("failures", report.failures())?;
    dict.set_item("errors", errors)?;
    dict.set_item("stopped", report.stopped)?;
    dict.set_item("status", status)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("bytes_per_s", report.bytes_per_s)?;
    dict.set_item("duration_s", report.duration.as_secs_f64())?;
    dict.set_item("took_s", report.took.as_secs_f64())?;
    dict.set_item("rate_per_s", report.rate_per_s)?;
    dict.set_item("successes_per_s", report.successes_per_s)?;
    dict.set_item("dropped", report.dropped)?;
    dict.set_item("queued", report.queued)?;
    dict.set_item("abandoned", report.abandoned)?;
    dict.set_item("reconnects", report.reconnects)?;
    dict.set_item("resent", report.resent)?;
    dict.set_item("latency", Py::new(py, Times::new(report.latency.clone()))?)?;
    dict.set_item("total", Py::new(py, Times::new(report.latency_uncorrected.clone()))?)?;
    dict.set_item("latency_unexpected", Py::new(py, Times::new(report.unexpected_latency.clone()))?)?;
    dict.set_item("latency_failed", Py::new(py, Times::new(report.failure_time.clone()))?)?;
    dict.set_item("first_byte", Py::new(py, Times::new(report.first_byte.clone()))?)?;
    dict.set_item("connect", Py::new(py, Times::new(report.connect.clone()))?)?;
    dict.set_item("generator", generator)?;
    dict.set_item("reasons", reasons)?;
    for (name, remarks) in [("tolerated", &report.tolerated), ("goaways", &report.goaways)] {
        let remarks: Vec<_> = remarks.iter().map(|remark| (remark.words.clone(), remark.count)).collect();
        dict.set_item(name, remarks)?;
    }
    dict.set_item("warnings", report.warnings.clone())?;
    dict.set_item("interrupted", report.interrupted)?;
    dict.set_item("series", series(py, &report.series)?)?;
    if let Some(sessions) = &report.sessions {
        let own = PyDict::new(py);
        own.set_item("completed", sessions.completed)?;
        own.set_item("unexpected", sessions.unexpected)?;
        own.set_item("failed", sessions.failed)?;
        own.set_item("stopped", sessions.stopped)?;
        own.set_item("unfinished", sessions.unfinished)?;
        own.set_item("connections", sessions.connections)?;
        own.set_item("lifetime", Py::new(py, Times::new(sessions.lifetime.clone()))?)?;
        dict.set_item("sessions", own)?;
    }
    Ok(dict)
}

/// The points of a run over time.
fn series<'py>(py: Python<'py>, series: &Series) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let point = |(start_s, length_s, point): (f64, f64, &weir_load::Point)| {
        let errors = PyDict::new(py);
        let failed = |outcome: &Outcome| outcome.is_error() && point.counts.errors[*outcome as usize] > 0;
        for outcome in Outcome::ALL.into_iter().filter(failed) {
            errors.set_item(outcome.name(), point.counts.errors[outcome as usize])?;
        }
        let dict = PyDict::new(py);
        dict.set_item("start_s", start_s)?;
        dict.set_item("length_s", length_s)?;
        dict.set_item("requests", point.counts.requests)?;
        dict.set_item("rate_per_s", point.counts.requests as f64 / length_s)?;
        dict.set_item("successes", point.counts.successes())?;
        dict.set_item("unexpected", point.counts.unexpected)?;
        dict.set_item("success_rate", point.counts.success_rate())?;
        dict.set_item("errors", errors)?;
        dict.set_item("bytes", point.counts.bytes)?;
        dict.set_item("connections", point.connections)?;
        // In figures only: each histogram would take a quarter of a megabyte.
        dict.set_item("latency", point.summary.as_ref().map(|summary| figures(py, summary)).transpose()?)?;
        Ok(dict)
    };
    series.timed().map(point).collect()
}

/// A summary by the names that its figures have in [`Times`].
fn figures<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", summary.count)?;
    for (name, ns) in summary.fields() {
        dict.set_item(format!("{name}_us"), ns / 1e3)?;
    }
    Ok(dict)
}
