//! The JSON of `weir load --json`.
use super::counts::{Latency, LoadCounts, LoadDetails, LoadTool};
use super::text::counted;
use crate::curve::Curve;
use serde_json::Value;

/// `requests`, `errors` (a count for each kind), `status` (a count for each), `duration_s` and the rates; times are those
/// of successes.
pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let report: Value = serde_json::from_str(output.trim()).ok()?;
    let errors: u64 = match report.get("errors") {
        Some(Value::Object(kinds)) => kinds.values().filter_map(Value::as_u64).sum(),
        Some(count) => count.as_u64().unwrap_or(0),
        None => 0,
    };
    let is_bad = |status: &str| status.parse::<u16>().is_ok_and(|status| status >= 400);
    let statuses = report.get("status").and_then(Value::as_object);
    let bad: u64 = statuses
        .into_iter()
        .flatten()
        .filter(|(status, _)| is_bad(status))
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    Some(LoadCounts {
        tool: LoadTool::Weir,
        requests: report.get("requests")?.as_u64()?,
        errors: errors + bad,
        duration_s: report.get("duration_s").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0),
        bytes: report.get("bytes").and_then(Value::as_u64),
        latency: report.get("latency_ns").and_then(latency),
        details: LoadDetails {
            failures: counts(report.get("errors")),
            statuses: counts(report.get("status")),
            curve: report.get("latency_curve_ns").and_then(curve),
            fairness: report.get("fairness").and_then(|found| serde_json::from_value(found.clone()).ok()),
            rate_told_per_s: report.get("rate_per_s").and_then(Value::as_f64),
            bytes_told_per_s: report.get("bytes_per_s").and_then(Value::as_f64),
        },
    })
}

/// An object of counts.
fn counts(object: Option<&Value>) -> std::collections::BTreeMap<String, u64> {
    let pairs = object.and_then(Value::as_object).into_iter().flatten();
    counted(pairs.filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?))))
}

/// Pairs of a percentile and its time.
fn curve(pairs: &Value) -> Option<Curve> {
    let pair = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?));
    Curve::of_pairs(&pairs.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>()?)
}

fn latency(percentiles: &Value) -> Option<Latency> {
    let of = |name: &str| percentiles.get(name).and_then(Value::as_f64);
    Some(Latency { p50_ns: of("p50")?, p90_ns: of("p90")?, p99_ns: of("p99")?, max_ns: of("max")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_read() {
        let output = r#"{"requests": 1200, "dropped": 0, "errors": {"connect": 2, "timeout": 1},
            "duration_s": 1.5, "rate_per_s": 800.0, "status": {"200": 1190, "404": 7, "503": 3},
            "bytes": 120000, "bytes_per_s": 80000.0, "latency_ns": {"min": 1, "p50": 1000, "p90": 2000, "p99": 3000.5, "max": 4000}}"#;
        let expected = LoadCounts {
            tool: LoadTool::Weir,
            requests: 1200,
            errors: 13,
            duration_s: Some(1.5),
            bytes: Some(120_000),
            latency: Some(Latency { p50_ns: 1000.0, p90_ns: 2000.0, p99_ns: 3000.5, max_ns: 4000.0 }),
            details: LoadDetails {
                failures: counted([("connect", 2), ("timeout", 1)]),
                statuses: counted([("200", 1190), ("404", 7), ("503", 3)]),
                rate_told_per_s: Some(800.0),
                bytes_told_per_s: Some(80_000.0),
                ..LoadDetails::default()
            },
        };
        assert_eq!(parse(output), Some(expected));
        let least = LoadCounts {
            tool: LoadTool::Weir,
            requests: 5,
            errors: 0,
            duration_s: None,
            bytes: None,
            latency: None,
            details: LoadDetails::default(),
        };
        assert_eq!(parse("{\"requests\": 5}\n"), Some(least));
    }

    #[test]
    fn the_curve_and_the_shares_are_read() {
        let pairs: Vec<Value> =
            weir_measure::curve::PERCENTILES.iter().map(|percentile| json!([percentile, 1000])).collect();
        let mut report = json!({"requests": 5, "latency_curve_ns": pairs, "fairness": {
            "clients": 2, "least_bytes": 10, "most_bytes": 30, "least_requests": 1, "most_requests": 3,
            "jain_bytes": 0.8, "jain_requests": 0.8}});
        let details = parse(&report.to_string()).expect("counts").details;
        assert_eq!(details.curve.expect("a curve").ns(), [1000.0; weir_measure::curve::PERCENTILES.len()]);
        let fairness = details.fairness.expect("shares");
        assert_eq!((fairness.clients, fairness.least_bytes, fairness.most_requests), (2, 10, 3));
        // One that lacks a percentile, and one that falls, are none.
        for wrong in [json!([[0, 5]]), json!("x"), json!([[0]])] {
            report["latency_curve_ns"] = wrong;
            assert_eq!(parse(&report.to_string()).expect("counts").details.curve, None);
        }
    }
}
