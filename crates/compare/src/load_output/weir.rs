//! The JSON of `weir load --json`.
use super::{Latency, LoadCounts, LoadTool};
use serde_json::Value;

/// `requests`, `errors` (a count for each kind), `status` (a count for each) and `duration_s`; other
/// keys are left alone.
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
    })
}

fn latency(percentiles: &Value) -> Option<Latency> {
    let of = |name: &str| percentiles.get(name).and_then(Value::as_f64);
    Some(Latency { p50_ns: of("p50")?, p90_ns: of("p90")?, p99_ns: of("p99")?, max_ns: of("max")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = r#"{"requests": 1200, "dropped": 0, "errors": {"connect": 2, "timeout": 1},
            "duration_s": 1.5, "rate_per_s": 800.0, "status": {"200": 1190, "404": 7, "503": 3},
            "bytes": 120000, "latency_ns": {"min": 1, "p50": 1000, "p90": 2000, "p99": 3000.5, "max": 4000}}"#;
        let expected = LoadCounts {
            tool: LoadTool::Weir,
            requests: 1200,
            errors: 13,
            duration_s: Some(1.5),
            bytes: Some(120_000),
            latency: Some(Latency { p50_ns: 1000.0, p90_ns: 2000.0, p99_ns: 3000.5, max_ns: 4000.0 }),
        };
        assert_eq!(parse(output), Some(expected));
        let least =
            LoadCounts { tool: LoadTool::Weir, requests: 5, errors: 0, duration_s: None, bytes: None, latency: None };
        assert_eq!(parse("{\"requests\": 5}\n"), Some(least));
    }
}
