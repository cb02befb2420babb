//! Transactions on their way out: an OpenTelemetry receiver that fails in every way, a real collector, Prometheus, and
//! agents of two hosts.
// scripts/test: counts

#[path = "exports/collector.rs"]
mod collector;
#[path = "exports/grafana.rs"]
mod grafana;
#[path = "exports/hosts.rs"]
mod hosts;
#[path = "exports/otlp.rs"]
mod otlp;
#[path = "exports/receiver.rs"]
mod receiver;

use std::time::{Duration, Instant};
use weir_agent::transaction::Transaction;
use weir_wire::arm::{Handle, Token};

/// A transaction with everything that one may have; `number` tells it from others.
fn transaction(number: u64, parent: Option<&Transaction>) -> Transaction {
    let token = Token(0x1122_3344_5566_7788);
    let span = token.span(Handle::new(1, 0, number));
    let trace = parent.map_or(token.trace(span), |parent| parent.id.trace);
    let id = format!("{:016x}{:016x}-{span:016x}", trace[0], trace[1]);
    let name = ["buy", "look"][number as usize % 2];
    let status = ["good", "failed", "unknown"][number as usize % 3];
    serde_json::from_value(serde_json::json!({
        "id": id, "parent": parent.map(|parent| parent.id), "host": "web1",
        "process": { "pid": 4711, "uid": 33, "command": "shopd" },
        "application": "shop", "group": "front", "instance": "a", "name": name,
        "properties": [{ "name": "version", "value": "1.2" }],
        "user": "Ännchen", "standard": 4, "thread": 4712,
        "start_ns": 5_000_000_000u64, "start_unix_ns": 1_790_000_000_000_000_000u64 + number, "duration_ns": 20_000_000 + number,
        "queued_ns": 1_000_000, "blocked_ns": 2_000_000, "status": status,
        "one_in": 1, "traced": true,
        "details": {
            "uri": "http://shop.example/buy?card=secret", "address": "192.0.2.1:80", "diagnosis": "no \"stock\"",
            "context": [{ "name": "basket", "value": "7" }],
            "metrics": [
                { "slot": 0, "name": "bytes", "sort": "counter", "value": -3 },
                { "slot": 1, "name": "load", "sort": "gauge", "value": 0.25 },
                { "slot": 6, "name": "", "sort": "text", "value": "text" }
            ],
            "blocked": [{ "from_ns": 5_001_000_000u64, "to_ns": 5_003_000_000u64, "cause": 1 }]
        }
    }))
    .expect("a transaction")
}

/// Looks again and again until it is so; what is not, is told.
fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < limit, "after {limit:?} not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
