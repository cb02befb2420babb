//! The shape of the JSON: scripts rely on these names.

use crate::made_up;

use serde_json::Value;
use weir_measure::part::Part;

const TIMES: [&str; 8] = ["min", "mean", "stdev", "p50", "p90", "p99", "p99_9", "max"];

fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
}

#[test]
fn the_names_that_scripts_rely_on_are_there() {
    let json = serde_json::to_value(made_up::worker_queue()).expect("an explanation is JSON");
    has(
        &json,
        &["joined_fraction", "unjoinable", "rung", "sum_of_parts_over_response", "observer_cost", "transactions"],
    );
    has(&json, &["requests", "rate_per_s", "duration_s", "errors", "dropped", "bytes", "causes", "slow_causes"]);
    has(&json, &["noise_floor", "not_observed", "warnings", "examples", "median_parts_ns", "median_response_ns"]);
    has(&json["sum_of_parts_over_response"], &["min", "mean", "max"]);
    has(&json["observer_cost"], &["events", "bytes", "lost", "cpu_seconds"]);
    has(&json["server_cpu"], &["utilisation", "used_ns_per_request", "waited_ns_per_request", "switches_per_request"]);
    has(&json["response_ns"], &TIMES);
    has(&json["causes"][0], &["part", "mean_ns", "share", "who", "text"]);
    has(&json["slow_causes"][0], &["part", "excess_ns", "share", "who", "text"]);
    has(&json["examples"][0]["steps"][0], &["part", "from_ns", "ns", "task", "who"]);
    let transaction = &json["transactions"][0];
    has(transaction, &["name", "count", "response_ns", "parts_ns", "slow_parts_ns"]);
    has(&transaction["response_ns"], &TIMES);
    let names = Part::ALL.map(Part::name);
    for parts in [&json["parts_ns"], &json["slow_parts_ns"], &transaction["parts_ns"], &transaction["slow_parts_ns"]] {
        has(parts, &names);
    }
}

#[test]
fn nothing_at_all_is_null_or_zero() {
    let json = serde_json::to_value(made_up::empty()).expect("an explanation is JSON");
    assert_eq!(json["response_ns"], Value::Null);
    assert_eq!(json["noise_floor"], Value::Null);
    assert_eq!(json["requests"], 0);
    assert_eq!(json["parts_ns"]["run"], 0.0);
    assert_eq!(json["transactions"], Value::Array(vec![]));
}
