//! Requests are joined on real servers: process for each request, threads, events; keep-alive and not; 1 to 100
//! connections. What is joined adds up, and what is not attributed stays small.

mod support;

use serde_json::Value;
use support::{alone, explain, number};
use weir_testkit::{Apache, Certificate, Faulty, Nginx, RunningServer, WeirServe, require};

const SECONDS: &str = "1500ms";

/// The generator runs on any CPU that the kernel gives it.
const ANYWHERE: &str = "anywhere";

/// Loads a server in one way and checks what must hold for every one.
fn check(server: &RunningServer, keep_alive: bool, connections: &str, more: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let mut options = vec!["-c", connections, "-d", SECONDS];
    if !more.contains(&ANYWHERE) {
        options.extend(["--cpu", "1"]);
    }
    if !keep_alive {
        options.push("--no-keepalive");
    }
    options.extend(more.iter().filter(|option| **option != ANYWHERE));
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
    assert!(number(&report, "/observer_cost/lost") < 1.0, "{what}: events were lost");
    assert!(joined >= 0.999, "{what}: joined {joined}, unjoinable {}", report["unjoinable"]);
    assert!(
        unattributed < 0.05,
        "{what}: unattributed {unattributed}: {:#} {}",
        report["parts_ns"],
        report["warnings"]
    );
    for end in ["min", "mean", "max"] {
        let sum = number(&report, &format!("/sum_of_parts_over_response/{end}"));
        assert!((sum - 1.0).abs() < 1e-9, "{what}: the parts are {sum} of the response");
    }
    // Where all were joined, the stages divide the same mean as the parts.
    let stages: f64 = ["until_pick_up", "at_server", "until_client"]
        .map(|name| number(&report, &format!("/stages_ns/{name}")))
        .iter()
        .sum();
    let parts: f64 = report["parts_ns"].as_object().expect("parts").values().filter_map(Value::as_f64).sum();
    let is_whole = number(&report, "/joined_fraction") == 1.0;
    assert!(!is_whole || (stages / parts - 1.0).abs() < 1e-6, "{what}: stages {stages}, parts {parts}");
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

/// Where neither server nor generator is bound to a CPU, threads hand requests to each other across both of them, and a
/// request may wait behind many hand-overs.
#[test]
fn apache_event_on_any_cpu() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    check(&Apache::event().start().expect("Apache starts"), true, "100", &[ANYWHERE]);
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

/// The generator counts the bytes of TLS records, so encrypted requests are joined like others.
#[test]
fn nginx_with_tls() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = Nginx::new().tls(&certificate).start().expect("nginx starts");
    let file = certificate.certificate();
    let trusted = ["--ca", file.to_str().expect("a readable path")];
    for keep_alive in [true, false] {
        check(&server, keep_alive, "10", &trusted);
    }
}

/// An answer to a request that has not all arrived says nothing of where that request's time went.
#[test]
fn early_answers_are_counted_not_guessed() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("misbehave").args(["early"]).start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let body = folder.path().join("body");
    // Larger than the socket buffers: it cannot all have arrived when the answer comes.
    std::fs::write(&body, vec![b'x'; 64 << 20]).expect("a body is written");
    let body = format!("@{}", body.display());
    let run = tempfile::tempdir().expect("a temporary directory");
    let (port, url) = (server.port.to_string(), server.url("/"));
    let run = run.path().to_str().expect("a readable path");
    let more = ["-c", "1", "-n", "5", "-m", "POST", "--body", &body, "--timeout", "5s"];
    let mut arguments = vec!["explain", "--json", "--load", &url, "--port", &port, "--run", run];
    arguments.extend(more);
    let output = support::output(&arguments);
    // Whether the generator took the answer or saw a reset, none of these requests may be joined.
    if let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) {
        assert_eq!(number(&report, "/joined_fraction"), 0.0, "{report:#}");
        assert!(number(&report, "/unjoinable/early_answer") > 0.0, "{}", report["unjoinable"]);
    } else {
        assert!(String::from_utf8_lossy(&output.stderr).contains("every request failed"));
    }
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

/// Classes are methods and path patterns: patterns of the user's first, then ids left out, a query never kept.
#[test]
fn classes_are_by_method_and_path() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let list = folder.path().join("urls.txt");
    // Without weights they are asked in turn, so that the counts are known.
    let asked = "/shop/shoes/buy?size=42\n/shop/hats/buy\n/shop/hats/red/buy\n/static/css/main.css\n\
                 HEAD /static/app.js\nPOST /user/4711/orders\nPOST /user/12/orders\nPOST /user/me/orders\n\
                 /blob/deadbeef0123\n/\n";
    std::fs::write(&list, asked).expect("a list is written");
    let list = list.to_str().expect("a readable path");
    let run = folder.path().join("run");
    let more = ["--urls", list, "-c", "4", "-n", "2000", "--group", "/shop/*/buy", "--group", "/static/**"];
    let report = explain(&server.url("/"), server.port, &run, &more);
    assert_eq!(number(&report, "/joined_fraction"), 1.0, "{}", report["unjoinable"]);
    let classes = |report: &Value| -> Vec<(String, u64)> {
        let told = report["transactions"].as_array().expect("classes");
        let text = |class: &Value| class["name"].as_str().expect("a name").to_owned();
        told.iter().map(|class| (text(class), class["count"].as_u64().expect("a count"))).collect()
    };
    let told = [
        ("GET /shop/*/buy", 400),
        ("POST /user/{id}/orders", 400),
        ("GET /", 200),
        ("GET /blob/{id}", 200),
        ("GET /shop/hats/red/buy", 200),
        ("GET /static/**", 200),
        ("HEAD /static/**", 200),
        ("POST /user/me/orders", 200),
    ]
    .map(|(name, count)| (name.to_owned(), count));
    assert_eq!(classes(&report), told);
    for class in report["transactions"].as_array().expect("classes") {
        let parts: f64 = class["parts_ns"].as_object().expect("parts").values().filter_map(Value::as_f64).sum();
        let mean = number(class, "/response_ns/mean");
        assert!((parts / mean - 1.0).abs() < 1e-3, "{class:#}");
    }
    // The same run is put into other classes without being made again, by the first pattern that fits.
    let run = run.to_str().expect("a readable path");
    let again = support::output(&["explain", "--json", run, "--group", "/user/**", "--group", "/**"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("a report");
    let told = [("GET /**", 1200), ("POST /user/**", 600), ("HEAD /**", 200)];
    assert_eq!(classes(&again), told.map(|(name, count)| (name.to_owned(), count)));
}

/// Several generators may write to one run: their lanes and connections are told apart.
#[test]
fn two_generators_in_one_run() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().pin(0).start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let port = server.port.to_string();
    let recording = support::recording::attached(&["--run", run, "--port", &port]);
    let url = server.url("/1k.txt");
    let load = ["load", "--run", run, &url, "-c", "4", "-n", "2000", "-q", "--json"];
    let begin = || support::weir().args(load).stdout(std::process::Stdio::null()).spawn().expect("the load starts");
    let mut loads = [begin(), begin()];
    assert!(loads.iter_mut().all(|load| load.wait().expect("the load ends").success()));
    // SAFETY: the process is our child and not yet waited for.
    assert_eq!(unsafe { libc::kill(recording.child.id().cast_signed(), libc::SIGINT) }, 0);
    assert!(recording.end().0.success());
    let report: Value = serde_json::from_slice(&support::output(&["explain", "--json", run]).stdout).expect("a report");
    assert_eq!(number(&report, "/requests"), 4000.0);
    assert!(number(&report, "/joined_fraction") > 0.999, "{}", report["unjoinable"]);
}
