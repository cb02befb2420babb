//! The report of a load for programs.

use super::Heading;
use serde_json::{Map, Value, json};
use weir_load::sessions::SessionReport;
use weir_load::workload::MixReport;
use weir_load::{LoadError, LoadReport, Series};
use weir_measure::summary::Summary;
use weir_wire::client::Outcome;

/// The report for programs.
pub(super) fn as_json(report: &LoadReport, heading: &Heading) -> Value {
    let errors: Map<_, _> = report.errors.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect();
    let status: Map<_, _> = report.status.iter().map(|(code, count)| (code.to_string(), json!(count))).collect();
    json!({
        "version": crate::VERSION,
        "url": heading.url,
        "connections": heading.connections,
        "http_version": if heading.streams.is_some() { 2 } else { 1 },
        "streams": heading.streams,
        "rate_wanted_per_s": heading.rate_wanted_per_s,
        "requests": report.requests,
        "dropped": report.dropped,
        "errors": errors,
        "stopped": report.stopped,
        "duration_s": report.duration.as_secs_f64(),
        "rate_per_s": report.rate_per_s,
        "bytes": report.bytes,
        "status": status,
        "latency_ns": summary(&report.latency),
        "latency_curve_ns": curve(&report.latency),
        "latency_uncorrected_ns": summary(&report.latency_uncorrected),
        "first_byte_ns": summary(&report.first_byte),
        "connect_ns": summary(&report.connect),
        "reconnects": report.reconnects,
        "generator": {
            "cpu_share": report.generator.cpu_share,
            "runnable_share": report.generator.runnable_share,
            "late": report.generator.late,
            "schedule_lag_ns": summary(&report.schedule_lag),
            "bottleneck": report.generator.bottleneck,
            "io": report.generator.io.name(),
        },
        "sessions": report.sessions.as_ref().map(sessions_as_json),
        "handshakes": { "full": report.handshakes.full, "resumed": report.handshakes.resumed },
        "reasons": report.reasons.iter().map(reason).collect::<Vec<_>>(),
        "mix": report.mix.as_ref().map(mix),
        "fairness": report.fairness.map(fairness),
        "series": series(&report.series),
        "warnings": report.warnings,
    })
}

/// Why there is no report, for programs: the run could not be made.
pub(super) fn not_made(error: &LoadError, url: Option<&str>) -> Value {
    json!({
        "version": crate::VERSION,
        "url": url,
        "requests": 0,
        "error": { "name": error.name(), "words": error.to_string() },
    })
}

/// How evenly the clients were served.
fn fairness(fairness: weir_load::Fairness) -> Value {
    json!({
        "clients": fairness.clients,
        "least_bytes": fairness.least_bytes,
        "most_bytes": fairness.most_bytes,
        "least_requests": fairness.least_requests,
        "most_requests": fairness.most_requests,
        "jain_bytes": fairness.jain_bytes,
        "jain_requests": fairness.jain_requests,
    })
}

/// What became of the sessions, for programs.
fn sessions_as_json(sessions: &SessionReport) -> Value {
    json!({
        "completed": sessions.completed,
        "failed": sessions.failed,
        "stopped": sessions.stopped,
        "unfinished": sessions.unfinished,
        "connections": sessions.connections,
        "rate_per_s": sessions.rate_per_s,
        "lifetime_ns": summary(&sessions.lifetime),
        "fail_time_ns": summary(&sessions.fail_time),
        "answers": sessions.answers,
    })
}

/// What came of a mix.
fn mix(mix: &MixReport) -> Value {
    let answers: Map<_, _> = mix.kinds.iter().map(|(kind, count)| (kind.clone(), json!(count))).collect();
    json!({ "name": mix.name, "answers": answers, "wrong_sizes": mix.wrong_sizes,
        "clients": mix.clients.map(|(came, with_crowd)| json!({ "came": came, "with_crowd": with_crowd })),
    })
}

/// Why requests failed.
fn reason(reason: &weir_load::reach::Reason) -> Value {
    json!({ "error": reason.outcome.name(), "words": reason.words, "count": reason.count })
}

/// The points of a run; a point's latency is null where nothing was answered in it.
fn series(series: &Series) -> Value {
    let points: Vec<_> = series
        .timed()
        .map(|(start_s, length_s, point)| {
            let failed = |outcome: &Outcome| outcome.is_error() && point.counts.errors[*outcome as usize] > 0;
            let errors: Map<_, _> = Outcome::ALL
                .into_iter()
                .filter(failed)
                .map(|outcome| (outcome.name().to_owned(), json!(point.counts.errors[outcome as usize])))
                .collect();
            json!({
                "start_s": start_s,
                "length_s": length_s,
                "requests": point.counts.requests,
                "rate_per_s": point.counts.requests as f64 / length_s,
                "errors": errors,
                "stopped": point.counts.stopped(),
                "dropped": point.counts.dropped,
                "bytes": point.counts.bytes,
                "connections": point.connections,
                "generator_cpu_share": point.strain.cpu_share,
                "latency_ns": point.summary.map_or(Value::Null, figures),
            })
        })
        .collect();
    json!({ "interval_s": series.interval().as_secs_f64(), "merged": series.is_merged(), "points": points })
}

/// Pairs of a percentile and its value, null where the histogram is empty.
fn curve(histogram: &weir_load::Histogram) -> Value {
    let percentiles = weir_measure::curve::PERCENTILES;
    weir_measure::curve::of(histogram)
        .map_or(Value::Null, |values| percentiles.iter().zip(values).map(|pair| json!([pair.0, pair.1])).collect())
}

/// A histogram's figures, null where it is empty.
pub(super) fn summary(histogram: &weir_load::Histogram) -> Value {
    Summary::of(histogram).map_or(Value::Null, figures)
}

fn figures(summary: Summary) -> Value {
    let number = |value: f64| if value.fract() == 0.0 { json!(value as u64) } else { json!(value) };
    Value::Object(summary.fields().into_iter().map(|(name, value)| (name.to_owned(), number(value))).collect())
}
