//! What the HTML page of a load shows.

use super::finding::Finding;
use super::gate::Gate;
use super::heading::Heading;
use weir_load::{Histogram, LoadReport};
use weir_measure::summary::Summary;
use weir_report::{Loaded, LoadedPoint};

/// Columns of the histogram.
const COLUMNS: u32 = 60;
/// Points of the percentile curve for each factor of ten of the share that is slower.
const PER_DECADE: u32 = 12;

pub(super) fn page(report: &LoadReport, heading: &Heading, gate: &Gate) -> Loaded {
    let points = report.series.timed().map(|(begin_s, length_s, point)| LoadedPoint {
        begin_s,
        length_s,
        requests: point.counts.requests,
        unexpected: point.counts.unexpected,
        failures: point.counts.failures(),
        dropped: point.counts.dropped,
        latency: point.summary,
    });
    let generator = report.generator;
    Loaded {
        subject: heading.url.clone(),
        manner: heading.manner.clone(),
        interrupted: report.interrupted,
        duration_s: report.duration.as_secs_f64(),
        took_s: super::screen::took_longer(report),
        requests: report.requests,
        successes: report.successes,
        success_rate: report.success_rate(),
        expected: report.expected_names(),
        rate_per_s: report.rate_per_s,
        successes_per_s: report.successes_per_s,
        bytes: report.bytes,
        bytes_per_s: report.bytes_per_s,
        dropped: report.dropped,
        errors: report.errors.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect(),
        status: report.status.iter().map(|(code, count)| (report.status_name(*code), *count)).collect(),
        latency: Summary::of(&report.latency),
        latency_unexpected: Summary::of(&report.unexpected_latency),
        latency_failed: Summary::of(&report.failure_time),
        objective: objective(gate),
        curve: curve(&report.latency),
        spread: spread(&report.latency),
        points: points.collect(),
        generator: format!(
            "{:.1} % CPU, waited for it {:.1} % of the time, {} arrivals late{}",
            generator.cpu_share * 100.0,
            generator.runnable_share * 100.0,
            generator.late,
            super::screen::punctuality(&report.schedule_lag).map_or(String::new(), |words| format!("; {words}"))
        ),
        at_fault: super::fault::words(report).unwrap_or_default(),
        slow_traces: traces(report),
        streams: streams(report),
        warnings: report.warnings.clone(),
        ..Loaded::default()
    }
}

/// What came bit by bit, in words.
fn streams(report: &LoadReport) -> String {
    let mut words = String::new();
    // Writing to a string cannot fail.
    if let Some(streams) = &report.streams {
        let _ = super::streams::write(&mut words, streams);
        for (name, times) in [("first event", &streams.first_event), ("between events", &streams.between)] {
            words.push_str(&percentiles(name, times));
        }
    }
    if let Some(grpc) = &report.grpc {
        let _ = super::grpc::write(&mut words, grpc, report);
        for (name, times) in [("first message", &grpc.first_message), ("between messages", &grpc.between)] {
            words.push_str(&percentiles(name, times));
        }
    }
    if let Some(websocket) = &report.websocket {
        let _ = super::websocket::write(&mut words, websocket, report.reconnects);
        words.push_str(&percentiles("handshake", &websocket.handshake));
    }
    let lines: Vec<String> = words.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.join("; ")
}

/// Half and the last hundredth of some times, in a line; empty where there are none.
fn percentiles(name: &str, times: &Histogram) -> String {
    let Some(summary) = Summary::of(times) else { return String::new() };
    let [p50, p99] = [summary.p50, summary.p99].map(|time_ns| weir_report::nanoseconds(time_ns as f64));
    format!("{name} p50 {}, p99 {}\n", p50.trim(), p99.trim())
}

/// The slowest requests by their traces.
fn traces(report: &LoadReport) -> Vec<String> {
    report
        .slow_traces
        .iter()
        .flatten()
        .map(|trace| super::screen::trace_in_words(trace, report).trim().to_owned())
        .collect()
}

/// What was asked of the run and what came of it, in words, and whether it was held; `None` where nothing was asked.
fn objective(gate: &Gate) -> Option<(String, bool)> {
    let lines: Vec<String> = gate.findings.iter().map(Finding::line).collect();
    (!lines.is_empty()).then(|| (lines.join("; "), gate.missed().next().is_none()))
}

/// (share that is slower, latency), down to the share of one request.
fn curve(latency: &Histogram) -> Vec<(f64, u64)> {
    if latency.is_empty() {
        return Vec::new();
    }
    let decades = (latency.len() as f64).log10();
    let steps = (decades * f64::from(PER_DECADE)).floor() as u32;
    (0..=steps)
        .map(|step| {
            let slower = 10f64.powf(-f64::from(step) / f64::from(PER_DECADE));
            (slower, latency.value_at_quantile(1.0 - slower).min(latency.max()))
        })
        .collect()
}

/// (from, to, count) of ranges of equal ratio from the smallest to the largest.
fn spread(latency: &Histogram) -> Vec<(u64, u64, u64)> {
    if latency.is_empty() {
        return Vec::new();
    }
    let (low, high) = (latency.min().max(1) as f64, latency.max().max(2) as f64);
    let ratio = (high / low).powf(1.0 / f64::from(COLUMNS)).max(1.001);
    let edge = |column: u32| (low * ratio.powi(column as i32)) as u64;
    let mut columns: Vec<_> = (0..COLUMNS).map(|column| (edge(column), edge(column + 1), 0)).collect();
    for value in latency.iter_recorded() {
        let column = ((value.value_iterated_to() as f64 / low).ln() / ratio.ln()).max(0.0) as usize;
        columns[column.min(COLUMNS as usize - 1)].2 += value.count_at_value();
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_histogram_and_the_curve_rises() {
        let mut latency = Histogram::new(3).expect("three digits");
        for value in 1..=100_000u64 {
            latency.record(value * 37).expect("it grows");
        }
        assert_eq!(spread(&latency).iter().map(|(_, _, count)| count).sum::<u64>(), 100_000);
        let curve = curve(&latency);
        assert!(curve.windows(2).all(|pair| pair[0].0 > pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(curve.len(), 61);
        let p99 = curve.iter().find(|(slower, _)| (slower - 0.01).abs() < 1e-9).expect("two decades").1;
        assert!((p99 as f64 / (99_000.0 * 37.0) - 1.0).abs() < 0.002, "{p99}");
        assert!(super::curve(&Histogram::new(3).expect("three digits")).is_empty());
    }
}
