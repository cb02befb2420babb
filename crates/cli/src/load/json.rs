//! The report of a load for programs.

use super::figures::{figures, summary};
use super::heading::Heading;
use serde_json::{Map, Value, json};
use weir_load::{Http3Counts, LoadError, LoadReport, Series};
use weir_load::{MixReport, ScopeReport, SessionReport};
use weir_wire::client::Outcome;

/// The report for programs; `gate` is what it was judged by.
pub(super) fn as_json(report: &LoadReport, heading: &Heading, gate: Value) -> Value {
    let parts = [
        json!({ "schema": "weir-load/1" }),
        made(report, heading),
        gate,
        counts(report),
        rates(report),
        times(report),
        json!({
            "generator": generator(report),
            "sessions": report.sessions.as_ref().map(sessions_as_json),
            "websocket": report.websocket.as_ref().map(super::websocket::as_json),
            "grpc": report.grpc.as_ref().map(|grpc| super::grpc::as_json(grpc, report)),
            "streamed": report.streams.as_ref().map(super::streams::as_json),
            "mix": report.mix.as_ref().map(mix),
            "fairness": report.fairness.map(fairness),
            "slow_traces": report.slow_traces.as_ref().map(|traces| traces.iter().map(|one| trace(one, report)).collect::<Vec<_>>()),
            "workers": super::workers::as_json(report),
            "series": series(&report.series),
            "warnings": report.warnings,
        }),
    ];
    let fields = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect())
}

/// What a run keeps of its report, to be compared with later ones: nothing that may hold secrets, such as its URL.
pub(super) fn kept(report: &LoadReport, heading: &Heading) -> Value {
    let mut kept = made(report, heading);
    kept["url"] = Value::Null;
    kept["series"] = series(&report.series);
    kept
}

/// What was loaded, and how.
fn made(report: &LoadReport, heading: &Heading) -> Value {
    json!({
        "version": weir_terminal::VERSION,
        "url": heading.url,
        "connections": heading.connections,
        "http_version": heading.http_version,
        "streams": heading.streams,
        "rate_wanted_per_s": heading.rate_wanted_per_s,
        "ok": report.expected_names(),
        "interrupted": report.interrupted,
    })
}

/// What became of the requests.
fn counts(report: &LoadReport) -> Value {
    let errors: Map<_, _> = report.errors.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect();
    let status: Map<_, _> =
        report.status.iter().map(|(code, count)| (report.status_name(*code), json!(count))).collect();
    json!({
        "success_rate": report.success_rate(),
        "successes": report.successes,
        "unexpected": report.unexpected,
        "failed_checks": report.unfit,
        "scopes": report.scopes.iter().map(scope).collect::<Vec<_>>(),
        "requests": report.requests,
        "dropped": report.dropped,
        "abandoned": report.abandoned,
        "errors": errors,
        "stopped": report.stopped,
        "status": status,
        "reconnects": report.reconnects,
        "resent": report.resent,
        "handshakes": { "full": report.handshakes.full, "resumed": report.handshakes.resumed },
        "reasons": report.reasons.iter().map(reason).collect::<Vec<_>>(),
        "tolerated": report.tolerated.iter().map(remark).collect::<Vec<_>>(),
        "goaways": report.goaways.iter().map(remark).collect::<Vec<_>>(),
        "http3": report.http3.as_ref().map(http3),
    })
}

/// What is counted of HTTP/3 alone.
fn http3(counts: &Http3Counts) -> Value {
    json!({
        "early_data": { "accepted": counts.early_accepted, "refused": counts.early_refused },
        "moves": { "made": counts.moves, "requests_lost": counts.moves_lost },
        "held_by_server": {
            "bodies": counts.bodies_held,
            "bodies_ns": counts.bodies_held_ns,
            "streams": counts.streams_held,
            "streams_ns": counts.streams_held_ns,
        },
        "held_by_generator": counts.windows_told,
        "packets_lost": counts.packets_lost,
        "datagrams_refused": counts.datagrams_refused,
        "datagrams_dropped": counts.datagrams_dropped,
    })
}

/// What came a second: each rate divides what came within the duration by the duration.
fn rates(report: &LoadReport) -> Value {
    json!({
        "duration_s": report.duration.as_secs_f64(),
        "took_s": report.took.as_secs_f64(),
        "requests_in_time": report.requests_in_time,
        "rate_per_s": report.rate_per_s,
        "successes_in_time": report.successes_in_time,
        "successes_per_s": report.successes_per_s,
        "bytes": report.bytes,
        "bytes_in_time": report.bytes_in_time,
        "bytes_per_s": report.bytes_per_s,
    })
}

/// Times: of successes where they are not named otherwise.
fn times(report: &LoadReport) -> Value {
    json!({
        "latency_ns": summary(&report.latency),
        "latency_curve_ns": curve(&report.latency),
        "latency_uncorrected_ns": summary(&report.latency_uncorrected),
        "latency_unexpected_ns": summary(&report.unexpected_latency),
        "latency_failed_ns": summary(&report.failure_time),
        "first_byte_ns": summary(&report.first_byte),
        "connect_ns": summary(&report.connect),
    })
}

/// How the generator itself fared.
fn generator(report: &LoadReport) -> Value {
    json!({
        "cpu_share": report.generator.cpu_share,
        "runnable_share": report.generator.runnable_share,
        "late": report.generator.late,
        "schedule_lag_ns": summary(&report.schedule_lag),
        "bottleneck": report.generator.bottleneck,
        "io": report.generator.io.name(),
        "slowest": super::fault::as_json(report),
    })
}

/// Why there is no report, for programs: the run could not be made.
pub(super) fn not_made(error: &LoadError, url: Option<&str>) -> Value {
    json!({
        "schema": "weir-load-failed/1",
        "version": weir_terminal::VERSION,
        "url": url,
        "requests": 0,
        "error": { "name": error.name(), "words": error.to_string() },
    })
}

/// What came of the requests of a scope.
fn scope(scope: &ScopeReport) -> Value {
    json!({
        "scope": scope.scope,
        "successes": scope.successes,
        "unexpected": scope.unexpected,
        "failures": scope.failures,
        "stopped": scope.stopped,
        "dropped": scope.dropped,
        "abandoned": scope.abandoned,
        "successes_per_s": scope.successes_per_s,
        "latency_ns": summary(&scope.latency),
        "first_byte_ns": summary(&scope.first_byte),
    })
}

/// How evenly the clients were served; responses of every status count.
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
        "unexpected": sessions.unexpected,
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
    let counts = |counts: &[(String, u64)]| Value::from_iter(counts.iter().cloned());
    json!({ "name": mix.name, "answers": counts(&mix.kinds), "successes": counts(&mix.successes),
        "wrong_sizes": mix.wrong_sizes,
        "clients": mix.clients.map(|(came, with_crowd)| json!({ "came": came, "with_crowd": with_crowd })),
    })
}

/// A status as a number; one of gRPC by its name.
fn trace_status(status: u16, report: &LoadReport) -> Value {
    if report.grpc.is_some() { json!(report.status_name(status)) } else { json!(status) }
}

/// One of the slowest requests by its trace.
fn trace(trace: &weir_load::SlowTrace, report: &LoadReport) -> Value {
    json!({
        "trace_id": trace.trace_id,
        "latency_ns": trace.latency_ns,
        "status": trace_status(trace.status, report),
        "request": trace.request,
        "worker": report.workers.get(trace.worker as usize).map(|worker| &worker.name),
    })
}

/// Why requests failed.
fn reason(reason: &weir_load::Reason) -> Value {
    json!({ "error": reason.outcome.name(), "words": reason.words, "count": reason.count })
}

/// What a server did that is no failure.
fn remark(remark: &weir_load::Remark) -> Value {
    json!({ "words": remark.words, "count": remark.count })
}

/// The points of a run; a point's latency is that of successes, and null where there was none in it.
pub(super) fn series(series: &Series) -> Value {
    let points: Vec<_> =
        series.timed().map(|(start_s, length_s, point)| point_as_json(start_s, length_s, point)).collect();
    json!({ "interval_s": series.interval().as_secs_f64(), "merged": series.is_merged(), "points": points })
}

/// A point of a run, its begin and its length in seconds.
pub(super) fn point_as_json(start_s: f64, length_s: f64, point: &weir_load::Point) -> Value {
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
        "successes": point.counts.successes(),
        "successes_per_s": point.counts.successes() as f64 / length_s,
        "success_rate": point.counts.success_rate(),
        "unexpected": point.counts.unexpected,
        "errors": errors,
        "stopped": point.counts.stopped(),
        "dropped": point.counts.dropped,
        "bytes": point.counts.bytes,
        "bytes_per_s": point.counts.bytes as f64 / length_s,
        "connections": point.connections,
        "generator_cpu_share": point.strain.cpu_share,
        "latency_ns": point.summary.map_or(Value::Null, figures),
    })
}

/// Pairs of a percentile and its value, null where the histogram is empty.
fn curve(histogram: &weir_load::Histogram) -> Value {
    let percentiles = weir_measure::curve::PERCENTILES;
    weir_measure::curve::of(histogram)
        .map_or(Value::Null, |values| percentiles.iter().zip(values).map(|pair| json!([pair.0, pair.1])).collect())
}
