//! `weir explain --arm`: a request has the name of its transaction, and each transaction is a phase with its parts.

use super::{Place, Running, alone, built, wait_for};
use serde_json::Value;
use std::net::TcpStream;
use std::process::Command;
use weir_testkit::require;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_request_has_the_name_of_its_transaction_and_its_parts_those_of_the_phases() {
    let Some(()) = require::root_and_bpf() else { return };
    let _alone = alone();
    let place = Place::new();
    let _agent = place.agent();
    let port = weir_testkit::free_port();
    let mut server = Command::new(built().join("arm_server"));
    server.arg(port.to_string()).env("WEIR_ARM_DIR", place.directory());
    let _server = Running(server.spawn().expect("it starts"));
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    let run = place.folder.path().join("run");
    let [url, port] = [format!("http://127.0.0.1:{port}/cart?card=1"), port.to_string()];
    let run = run.to_str().expect("a readable path");
    let told = place
        .json(&["explain", "--load", &url, "--port", &port, "--arm", "-c", "1", "-d", "1s", "--run", run, "--json"]);
    let class = &told["transactions"][0];
    assert_eq!(class["name"], "shop/order", "{told}");
    let requests = number(&told["requests"]);
    assert!(number(&class["count"]) >= 0.9 * requests, "{class}");
    let phase = |name: &str| {
        let phases = told["phases"].as_array().expect("phases");
        let found = phases.iter().find(|phase| phase["server"] == "shop" && phase["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {phases:?}"))
    };
    let (order, payment) = (phase("order"), phase("payment"));
    // Each is passed once a request, though the payment interrupts the order.
    for phase in [order, payment] {
        let passages = number(&phase["count"]) / requests;
        assert!((0.9..=1.01).contains(&passages), "{passages} of {phase}");
    }
    let part = |phase: &Value, part: &str| number(&phase["parts_ns"][part]) / 1e6;
    let [run_ms, wait_ms] = [part(order, "run"), part(payment, "wait_timer")];
    assert!((1.5..4.0).contains(&run_ms), "the order computes 2 ms: {run_ms}");
    assert!((3.5..8.0).contains(&wait_ms), "the payment sleeps for 4 ms: {wait_ms}");
    assert!(part(order, "wait_timer") < 0.5 && part(payment, "run") < 0.5, "{order} {payment}");
    // From the server's side it has its name as well.
    let told = place.json(&["explain", run, "--server-side", "--json"]);
    assert_eq!(told["transactions"][0]["name"], "shop/order", "{told}");
    // Without an agent there are no transactions, and the refusal comes before a run is made.
    let other = Place::new();
    let refused = other.run(&["record", "--port", &port, "--arm", "--run", "nothing", "-d", "1s"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && words.contains("start `weir agent`"), "{words}");
    assert!(!std::path::Path::new("nothing").exists());
}
