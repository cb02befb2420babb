//! `weir agent --capture`: a transaction tells what its threads did and waited for.

use super::{Place, Running, alone, built, row, wait_for};
use serde_json::Value;
use std::process::Command;
use weir_testkit::require;

/// Transactions of each name that are looked at.
const LOOKED_AT: usize = 5;

/// The nanoseconds of each part of a thread's time, and their sum.
fn parts(thread: &Value) -> (impl Fn(&str) -> u64, u64) {
    let parts = thread["parts"].as_object().cloned().unwrap_or_default();
    let sum = parts.values().filter_map(Value::as_u64).sum();
    (move |name: &str| parts.get(name).and_then(Value::as_u64).unwrap_or(0), sum)
}

#[test]
fn a_transaction_tells_what_its_threads_waited_for() {
    let Some(()) = require::root_and_bpf() else { return };
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent_with(&["--capture"]);
    let mut waiter = Command::new(built().join("arm_waiter"));
    let waiter = Running(waiter.env("WEIR_ARM_DIR", place.directory()).spawn().expect("it starts"));
    let next = |name: &str| -> Vec<Value> {
        let text = place.text(&["arm", "tail", "-n", &LOOKED_AT.to_string(), "--transaction", name, "--json"]);
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    // What began before the program was watched is not measured.
    wait_for(|| next("handed").iter().all(|told| told.get("threads").is_some()).then_some(()));
    let expected = [("sleep", "wait_timer"), ("lock", "wait_lock"), ("ask", "wait_process"), ("compute", "run")];
    for (name, part) in expected {
        let transactions = next(name);
        assert_eq!(transactions.len(), LOOKED_AT);
        let mut most = 0;
        for transaction in &transactions {
            let threads = transaction["threads"].as_array().unwrap_or_else(|| panic!("not measured: {transaction}"));
            let (of, sum) = parts(&threads[0]);
            assert_eq!((threads.len(), &threads[0]["thread"]), (1, &transaction["thread"]), "{transaction}");
            assert_eq!(sum, transaction["duration_ns"].as_u64().expect("a number"), "{transaction}");
            most = most.max(of(part));
        }
        // The lock is held a little before the transaction begins; where others have the CPU, that is told instead.
        assert!(most >= 8_000_000, "{name}: {most} ns of {part} in {transactions:#?}");
    }
    // Stopped by another thread than started it: both are told, the starter first.
    let handed = next("handed");
    assert_eq!(handed.len(), LOOKED_AT);
    let mut most = 0;
    for transaction in &handed {
        let threads = transaction["threads"].as_array().unwrap_or_else(|| panic!("not measured: {transaction}"));
        assert_eq!((threads.len(), &threads[0]["thread"]), (2, &transaction["thread"]), "{transaction}");
        assert_ne!(threads[1]["thread"], transaction["thread"]);
        for thread in threads {
            assert_eq!(Some(parts(thread).1), transaction["duration_ns"].as_u64(), "{transaction}");
        }
        let of = parts(&threads[1]).0;
        // Virtual machines lose a switch now and then; then it is not known what the thread did, and nothing else is said.
        let slept = of("wait_timer") + of("unattributed");
        assert!(slept >= 9_000_000, "the other one slept: {transaction}");
        most = most.max(of("wait_timer"));
    }
    assert!(most >= 9_000_000, "the other one slept: {most} ns of wait_timer in {handed:#?}");
    let id = next("sleep")[0]["id"].as_str().expect("an id").to_owned();
    let tree = wait_for(|| Some(place.run(&["arm", "show", &id])).filter(|output| output.status.success()));
    let tree = String::from_utf8(tree.stdout).expect("text");
    assert!(tree.contains("wait_timer 1"), "{tree}");
    let top = place.json(&["arm", "top", "--json"]);
    let sleep = row(&top, "rows", "sleep").expect("it runs");
    assert!(sleep["parts"]["wait_timer"].as_f64().is_some_and(|share| share > 0.5), "{sleep:#}");
    waiter.end();
    let said = agent.end();
    assert!(said.contains("waits of ") && said.contains(" events of the kernel's, 0 lost"), "{said}");
}

/// Without `--capture` the output says nothing of waits, instead of saying that there were none.
#[test]
fn what_was_not_captured_is_not_told_as_nothing() {
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent();
    let client = place.client(["0", "1000", "0"]);
    let told = place.json(&["arm", "tail", "-n", "1", "--transaction", "order", "--json"]);
    assert!(told.get("threads").is_none(), "{told:#}");
    client.end();
    assert!(!agent.end().contains("waits of"));
}
