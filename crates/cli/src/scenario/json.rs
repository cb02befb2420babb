//! The report for programs; times in milliseconds.

use super::found::Found;
use crate::load;
use serde_json::{Value, json};
use weir_scenario::form::ScopeKind;
use weir_scenario::metrics::Sink;
use weir_scenario::play::Tally;
use weir_scenario::run::{Cause, Ended};

/// The report.
pub(super) fn report(found: &Found) -> Value {
    let report = &found.report;
    let of_kind = |kind| found.of_kind(kind).map(|(scope, tally)| named(&scope.name, tally)).collect::<Vec<_>>();
    let missed = found.missed();
    let scenarios = report.scenarios.iter().map(|scenario| {
        json!({
            "name": &*scenario.name,
            "begun": scenario.begun,
            "finished": scenario.finished,
            "failed": scenario.failed,
            "cut": scenario.cut,
            "dropped": scenario.dropped,
            "unfed": scenario.unfed,
            "users_max": scenario.users_max,
        })
    });
    let checks = found.checks.iter().map(|check| {
        json!({
            "check": &*check.name,
            "group": &*check.group,
            "passes": check.passes,
            "fails": check.fails,
            "first": check.first,
        })
    });
    let objectives = found
        .judged
        .iter()
        .map(|judged| json!({ "objective": judged.text, "met": judged.is_met, "words": judged.words }));
    json!({
        "schema": "weir-scenario/1",
        "version": weir_terminal::VERSION,
        "passed": found.nothing().is_none() && missed.is_empty(),
        "missed": missed,
        "failed": found.nothing(),
        "ended": match &report.ended {
            Ended::Planned => "planned",
            Ended::Stopped => "stopped",
            Ended::Setup(_) => "setup",
            Ended::Aborted(_) => "aborted",
            Ended::Unmade(_) => "unmade",
        },
        "duration_s": report.duration.as_secs_f64(),
        "scenarios": scenarios.collect::<Vec<_>>(),
        "failures": causes(&report.causes),
        "unanswered": causes(&report.unanswered),
        "all": figures(found.all()),
        "steps": of_kind(ScopeKind::Step),
        "groups": of_kind(ScopeKind::Group),
        "tags": of_kind(ScopeKind::Tag),
        "checks": checks.collect::<Vec<_>>(),
        "objectives": objectives.collect::<Vec<_>>(),
        "own_steps": {
            "ms": report.scripts.as_secs_f64() * 1e3,
            "longest_ms": report.longest_script.as_secs_f64() * 1e3,
            "calls": report.script_calls,
            "taken_out_ms": report.taken_out.as_secs_f64() * 1e3,
        },
        "late_ms": (!report.lateness.lag.is_empty()).then(|| json!({
            "p50": report.lateness.lag.value_at_quantile(0.5) as f64 / 1e6,
            "p99": report.lateness.lag.value_at_quantile(0.99) as f64 / 1e6,
        })),
        "resent": report.resent,
        "cut_answers": report.cut_answers,
        "fault": load::whose_fault_json(&found.load),
    })
}

fn causes(causes: &[Cause]) -> Vec<Value> {
    causes.iter().map(|cause| json!({ "words": &*cause.words, "count": cause.count })).collect()
}

fn named(name: &str, tally: &Tally) -> Value {
    let mut value = figures(tally);
    value["name"] = name.into();
    value
}

fn figures(tally: &Tally) -> Value {
    json!({
        "requests": tally.requests,
        "failed": tally.failed,
        "first_failure": tally.first,
        "latency_ms": times(&tally.latency),
        "first_byte_ms": times(&tally.first_byte),
    })
}

fn times(sink: &Sink) -> Value {
    let Some(trend) = sink.trend().filter(|trend| trend.count() > 0) else { return Value::Null };
    json!({
        "mean": trend.mean(),
        "min": trend.min(),
        "p50": trend.percentile(50.0),
        "p90": trend.percentile(90.0),
        "p95": trend.percentile(95.0),
        "p99": trend.percentile(99.0),
        "max": trend.max(),
    })
}
