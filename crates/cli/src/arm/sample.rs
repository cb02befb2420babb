//! A transaction for tests.

use serde_json::json;
use weir_agent::transaction::Transaction;

/// One of the trace 7 that went well.
pub(super) fn one(span: u64, parent: Option<u64>, start_ns: u64, duration_ns: u64) -> Transaction {
    let id = |span| format!("{:032x}-{span:016x}", 7);
    let mut told = json!({
        "id": id(span), "host": "web1", "process": {"pid": 40 + span, "uid": 0, "command": "shop"},
        "application": "shop", "name": format!("t{span}"), "standard": 4, "thread": 1,
        "start_ns": start_ns, "start_unix_ns": 1_700_000_000_000_000_000u64 + start_ns,
        "duration_ns": duration_ns, "status": "good", "one_in": 1,
    });
    if let Some(parent) = parent {
        told["parent"] = json!(id(parent));
    }
    serde_json::from_value(told).expect("a transaction as the agent tells of it")
}
