//! Requests are joined on real servers: process for each request, threads, events; keep-alive and not; 1 to 100
//! connections. What is joined adds up, and what is not attributed stays small.

mod support;

use serde_json::Value;
use support::{alone, explain, number};
use weir_testkit::{Apache, Nginx, RunningServer, WeirServe, require};

const SECONDS: &str = "3s";

/// Loads a server in one way and checks what must hold for every one.
fn check(server: &RunningServer, keep_alive: bool, connections: &str, more: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let mut options = vec!["-c", connections, "-d", SECONDS, "--cpu", "1"];
    if !keep_alive {
        options.push("--no-keepalive");
    }
    options.extend(more);
    let report = explain(&server.url("/1k.txt"), server.port, run.path(), &options);
    let what = format!("port {} keep-alive {keep_alive} c={connections}", server.port);
    let joined = number(&report, "/joined_fraction");
    let mean = number(&report, "/response_ns/mean");
    let unattributed = number(&report, "/parts_ns/unattributed") / mean;
    eprintln!(
        "{what}: {} requests, joined {:.3} %, unattributed {:.2} %, {:.1} events a request, unjoinable {}",
        number(&report, "/requests"),
        100.0 * joined,
        100.0 * unattributed,
        number(&report, "/observer_cost/events_per_request"),
        report["unjoinable"]
    );
    assert!(number(&report, "/requests") > 100.0, "{what}: {report:#}");
    assert!(joined >= 0.999, "{what}: joined {joined}, unjoinable {}", report["unjoinable"]);
    assert!(unattributed < 0.05, "{what}: unattributed {unattributed}: {:#}", report["parts_ns"]);
    for end in ["min", "mean", "max"] {
        let sum = number(&report, &format!("/sum_of_parts_over_response/{end}"));
        assert!((sum - 1.0).abs() < 1e-9, "{what}: the parts are {sum} of the response");
    }
    assert!(number(&report, "/observer_cost/lost") < 1.0, "{what}: events were lost");
    assert_eq!(report["errors"], serde_json::json!({}), "{what}");
    report
}

/// A server with keep-alive and without, at 1, 10 and 100 connections.
fn every_way(server: &RunningServer) {
    for keep_alive in [true, false] {
        for connections in ["1", "10", "100"] {
            check(server, keep_alive, connections, &[]);
        }
    }
}

#[test]
fn apache_prefork() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    every_way(&Apache::prefork().pin(0).start().expect("Apache starts"));
}

#[test]
fn apache_event() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    every_way(&Apache::event().pin(0).start().expect("Apache starts"));
}

#[test]
fn nginx() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().pin(0).start().expect("nginx starts");
    every_way(&server);
    let report = check(&server, true, "10", &["--pipeline", "4"]);
    assert!(number(&report, "/parts_ns/worker_queue") > 0.0, "pipelined requests wait for each other");
}

#[test]
fn our_own() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).pin(0).start().expect("weir serve starts");
    every_way(&server);
    check(&server, true, "10", &["--pipeline", "4"]);
}
