//! What is explained from the server's sockets alone agrees, on real servers, with what is joined with the client.

mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use support::{alone, explain, number, output, weir};
use weir_testkit::{Apache, Certificate, Faulty, Nginx, RunningServer, WeirServe, require};
use weir_timeline::{AtServer, Bounds, Joiner, Statistics};
use weir_trace::RunReader;
use weir_wire::client::ClientRequest;

/// The times at the server of every request of a run, with the client's own of its first and last byte.
fn times(run: &Path, mut joiner: Joiner) -> (Vec<(AtServer, ClientRequest)>, Statistics) {
    let mut found = Vec::new();
    RunReader::open(run).expect("a run").merge().each(|sourced| {
        joiner.push(&sourced.record, sourced.payload, None, &mut |_, response| {
            found.extend(response.server.map(|at| (at, *response.request)));
        });
        true
    });
    joiner.finish(&mut |_, response| found.extend(response.server.map(|at| (at, *response.request))));
    (found, joiner.statistics())
}

/// Of the requests that were joined with the client: the share whose times are the same from the server's side.
fn agreement(run: &Path, what: &str) -> (f64, Statistics) {
    let (joined, _) = times(run, Joiner::new(Bounds::default()));
    let (served, statistics) = times(run, Joiner::of_server(Bounds::default(), &[]));
    let mut by_pick_up: HashMap<u64, Vec<AtServer>> = HashMap::new();
    for (at, _) in &served {
        by_pick_up.entry(at.picked_ns).or_default().push(*at);
    }
    let same = |(at, client): &&(AtServer, ClientRequest)| {
        // With the client's word, no time at the server is before its send or after its last byte.
        by_pick_up.get(&at.picked_ns).into_iter().flatten().any(|other| {
            other.arrived_ns.max(client.sent_ns) == at.arrived_ns && other.sent_ns.min(client.done_ns) == at.sent_ns
        })
    };
    let agreeing = joined.iter().filter(same).count();
    let share = agreeing as f64 / joined.len().max(1) as f64;
    eprintln!("{what}: {agreeing} of {} agree ({:.3} %), {statistics:?}", joined.len(), 100.0 * share);
    assert!(joined.len() > 100, "{what}");
    (share, statistics)
}

fn check(server: &RunningServer, connections: &str, more: &[&str]) -> (f64, Statistics, tempfile::TempDir) {
    let run = tempfile::tempdir().expect("a temporary directory");
    let mut options = vec!["-c", connections, "-d", "500ms", "--cpu", "1"];
    options.extend(more);
    explain(&server.url("/1k.txt"), server.port, run.path(), &options);
    let what = format!("port {} c={connections} {more:?}", server.port);
    let (share, statistics) = agreement(run.path(), &what);
    (share, statistics, run)
}

fn keep_alive_agrees(server: &RunningServer) {
    for connections in ["1", "10", "100"] {
        let (share, statistics, _run) = check(server, connections, &[]);
        assert!(share >= 0.999, "{share}");
        assert_eq!(statistics.exchanges.unasked, 0);
        assert!(statistics.exchanges.overlapped * 1000 <= statistics.requests, "{statistics:?}");
    }
    let (share, _, _run) = check(server, "10", &["--no-keepalive"]);
    assert!(share >= 0.99, "{share}");
}

#[test]
fn nginx_agrees_with_the_client() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().pin(0).start().expect("nginx starts");
    keep_alive_agrees(&server);
    let (_, statistics, _run) = check(&server, "10", &["--pipeline", "4"]);
    assert!(statistics.requests > 0);
}

#[test]
fn apache_prefork_agrees_with_the_client() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    keep_alive_agrees(&Apache::prefork().pin(0).start().expect("Apache starts"));
}

#[test]
fn apache_event_agrees_with_the_client() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    keep_alive_agrees(&Apache::event().pin(0).start().expect("Apache starts"));
}

#[test]
fn our_own_server_agrees_with_the_client() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    keep_alive_agrees(&WeirServe::new(env!("CARGO_BIN_EXE_weir")).pin(0).start().expect("weir serve starts"));
}

/// A server that sleeps is explained from its own side alone; an objective that it misses gives exit status 3.
#[test]
fn a_server_is_explained_without_a_generator() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let run = run.to_str().expect("a readable path");
    let (port, url) = (server.port.to_string(), server.url("/"));
    let mut load = weir()
        .args(["load", &url, "-c", "4", "-d", "4s", "-q"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the load starts");
    let slo = ["--slo", "p99<1ms", "--slo", "p50<500ms", "--watch", "timers"];
    let mut arguments = vec!["explain", "--json", "--port", &port, "-d", "2s", "--run", run];
    arguments.extend(slo);
    let explained = output(&arguments);
    assert!(load.wait().expect("the load ends").success());
    let stderr = String::from_utf8_lossy(&explained.stderr);
    assert_eq!(explained.status.code(), Some(3), "{stderr}");
    let report: Value = serde_json::from_slice(&explained.stdout).expect("a report");
    assert!(report["boundary"].as_str().expect("a text").contains("arrival"), "{report:#}");
    assert_eq!(report["causes"][0]["part"], "wait_timer", "{:#}", report["causes"]);
    assert_eq!(report["transactions"][0]["name"], format!(":{port}"));
    assert_eq!(report["observer_cost"]["sources"][0]["name"], "timers");
    assert_eq!((&report["objectives"][0]["met"], &report["objectives"][1]["met"]), (&false.into(), &true.into()));
    assert!(number(&report, "/objectives/0/burn_rate") > 50.0);
    assert!((number(&report, "/sum_of_parts_over_response/mean") - 1.0).abs() < 1e-9);
    // The same run again, without an objective: the exit status is that of an explanation.
    assert!(output(&["explain", "--json", run]).status.success());
}

/// Handshakes are not requests; what follows them is.
#[test]
fn tls_handshakes_are_told_apart() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = Nginx::new().tls(&certificate).directive("keepalive_requests 20;").start().expect("nginx starts");
    let (port, file) = (server.port, certificate.certificate());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let load = ["-n", "4000", "-c", "4", "--ca", file.to_str().expect("a readable path")];
    explain(&server.url("/1k.txt"), port, folder.path(), &load);
    let run = folder.path().to_str().expect("a readable path");
    let explained = output(&["explain", "--json", "--server-side", "--tls-port", &port.to_string(), run]);
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let report: Value = serde_json::from_slice(&explained.stdout).expect("a report");
    eprintln!("{:#}", report["exchanges"]);
    let (requests, handshakes) = (number(&report, "/requests"), number(&report, "/exchanges/tls_handshakes"));
    assert!((requests - 4000.0).abs() <= 8.0, "{requests} requests of 4000: {:#}", report["exchanges"]);
    // A connection serves 20 requests, and is made in one or two exchanges.
    assert!((200.0..=2.0 * 210.0).contains(&handshakes), "{handshakes}");
}

/// A client sees the status of each response, so an objective of errors is judged by what it saw; sockets do not show
/// it, which is said before anything is recorded.
#[test]
fn an_objective_of_errors_needs_a_client() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    // The fifth request of each ten fails, and the tenth.
    let some_fail = "if ($connection_requests ~ \"[05]$\") { return 503; }";
    let server = Nginx::new().directive(some_fail).start().expect("nginx starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let (run, port, url) = (run.to_str().expect("a readable path"), server.port.to_string(), server.url("/1k.txt"));
    let judged = |arguments: &[&str]| {
        let mut all = vec!["explain", "--json", "--slo", "errors<30%", "--slo", "errors<10%"];
        all.extend(arguments);
        let explained = output(&all);
        assert_eq!(explained.status.code(), Some(3), "{}", String::from_utf8_lossy(&explained.stderr));
        let report: Value = serde_json::from_slice(&explained.stdout).expect("a report");
        let objectives = report["objectives"].as_array().expect("objectives").clone();
        let [wide, narrow] = &objectives[..] else { panic!("{objectives:?}") };
        assert_eq!((&wide["met"], &narrow["met"]), (&true.into(), &false.into()), "{objectives:?}");
        assert_eq!(number(wide, "/bad"), number(&report, "/status/503"));
        assert_eq!(number(wide, "/requests"), number(&report, "/requests"));
        assert!((number(narrow, "/burn_rate") - 2.0).abs() < 0.1, "{narrow:#}");
    };
    judged(&["--load", &url, "--port", &port, "-n", "2000", "-c", "2", "--run", run]);
    judged(&[run]);

    let refused = |arguments: &[&str]| {
        let refused = output(arguments);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains("the status of each response") && words.contains("--load URL"), "{words}");
    };
    let errors = ["--slo", "errors<1%"];
    refused(&[&["explain", "--port", &port, "-d", "1s"], &errors[..]].concat());
    refused(&[&["explain", "--server-side", run], &errors[..]].concat());
    let runs = folder.path().join("always");
    refused(&[&["record", "--always", "--port", &port, "--run", runs.to_str().expect("a path")], &errors[..]].concat());
    assert!(!runs.exists(), "nothing was recorded");
}
