//! Streams of HTTP/2 are told apart at real servers, in the clear and through TLS: with a client that is joined by stream,
//! and from the server's side alone, with methods, paths and statuses.

#[path = "streams/grpc.rs"]
mod grpc;
#[path = "streams/servers.rs"]
mod servers;
mod support;

use serde_json::Value;
use servers::{REQUESTS, h2load, whole};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{alone, explain, number, output, weir};
use weir_testkit::{Certificate, Nginx, RunningServer, require};

/// The least share of streams that must be told apart.
const LEAST: f64 = 0.999;

fn may_run() -> bool {
    require::root_and_bpf().is_some() && require::nginx().is_some() && require::program("openssl").is_some()
}

/// The same run, explained from the server's side alone.
fn from_the_server(run: &Path, port: u16) -> Value {
    let run = run.to_str().expect("a readable path");
    let explained = output(&["explain", "--json", "--server-side", "--tls-port", &port.to_string(), run]);
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    serde_json::from_slice(&explained.stdout).expect("a report")
}

/// Whether the report's parts add up and are told apart, and every class is one of these names.
fn check(report: &Value, requests: f64, names: &[&str], what: &str) {
    check_streams(report, "streams", requests, names, what);
}

/// The same of requests that are counted by a name of their own.
fn check_streams(report: &Value, counted: &str, requests: f64, names: &[&str], what: &str) {
    let streams = report.pointer(&format!("/exchanges/{counted}")).and_then(Value::as_f64).unwrap_or(0.0);
    eprintln!("{what}: {streams} streams of {requests}: {:#} {}", report["exchanges"], report["unjoinable"]);
    assert!(streams >= LEAST * requests && streams <= requests / LEAST, "{what}: {streams} of {requests}");
    for end in ["min", "mean", "max"] {
        let sum = number(report, &format!("/sum_of_parts_over_response/{end}"));
        assert!((sum - 1.0).abs() < 1e-9, "{what}: the parts are {sum} of the response");
    }
    let classes = report["transactions"].as_array().expect("classes");
    let named: f64 = classes
        .iter()
        .filter(|class| names.contains(&class["name"].as_str().unwrap_or("")))
        .map(|class| number(class, "/count"))
        .sum();
    assert!(named >= LEAST * streams, "{what}: {named} of {streams} have their names: {classes:#?}");
}

/// With `weir load` as the client: joined by stream, and told apart from the server's side as well.
fn with_a_client(server: &RunningServer, more: &[&str]) {
    let run = tempfile::tempdir().expect("a temporary directory");
    let options = [&["--http2", "-c", "3", "--streams", "8", "-n", "6000", "--cpu", "1"], more].concat();
    let report = explain(&server.url("/1k.txt"), server.port, run.path(), &options);
    let (joined, mean) = (number(&report, "/joined_fraction"), number(&report, "/response_ns/mean"));
    let unattributed = number(&report, "/parts_ns/unattributed") / mean;
    eprintln!("{options:?}: joined {joined}, unattributed {unattributed}, {}", report["unjoinable"]);
    assert!(joined >= LEAST, "joined {joined}, unjoinable {} {:#}", report["unjoinable"], report["warnings"]);
    assert!(unattributed < 0.05, "{:#}", report["parts_ns"]);
    let sum = number(&report, "/sum_of_parts_over_response/mean");
    assert!((sum - 1.0).abs() < 1e-9, "the parts are {sum} of the response");
    check(&from_the_server(run.path(), server.port), 6000.0, &["GET /1k.txt"], "from the server's side");
}

#[test]
fn streams_in_the_clear_are_told_apart() {
    let _turn = alone();
    if !may_run() {
        return;
    }
    with_a_client(&Nginx::new().http2().pin(0).start().expect("nginx starts"), &[]);
}

#[test]
fn streams_over_tls_are_told_apart() {
    let _turn = alone();
    if !may_run() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = Nginx::new().tls(&certificate).http2().pin(0).start().expect("nginx starts");
    with_a_client(&server, &["--ca", certificate.certificate().to_str().expect("a readable path")]);
}

fn explained(port: u16, run: &Path, seconds: &str) -> Child {
    explained_with(port, run, seconds, &[])
}

fn explained_with(port: u16, run: &Path, seconds: &str, more: &[&str]) -> Child {
    let (port, run) = (port.to_string(), run.to_str().expect("a readable path"));
    let mut command = weir();
    command.args(["explain", "--json", "--port", &port, "--tls-port", &port, "-d", seconds, "--run", run]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts")
}

fn report_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("weir ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Another client, and no word of it: in the clear and over TLS, each request's name and no query.
#[test]
fn a_strange_clients_streams_have_names_and_no_queries() {
    let _turn = alone();
    if !may_run() || require::program("h2load").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    for server in [Nginx::new().http2(), Nginx::new().tls(&certificate).http2()] {
        let server = server.start().expect("nginx starts");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let report = whole(folder.path(), server.port, || h2load(&["-m", "16"], &server.url("/1k.txt?token=secret")));
        check(&report, f64::from(REQUESTS), &["GET /1k.txt"], "h2load");
        let kept = Command::new("grep").args(["-raq", "secret"]).arg(folder.path()).status().expect("grep runs");
        assert!(!kept.success(), "the run holds a query");
    }
}

/// A connection that is older than the recording: streams, without names, which is said.
#[test]
fn an_older_connections_streams_are_told_without_names() {
    let _turn = alone();
    if !may_run() || require::program("h2load").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    for server in [Nginx::new().http2(), Nginx::new().tls(&certificate).http2()] {
        let server = server.start().expect("nginx starts");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = folder.path().join("run");
        let mut client = Command::new("h2load");
        client.args(["-c", "2", "-m", "4", "--rps", "200", "-D", "12", &server.url("/1k.txt")]);
        let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("h2load runs");
        std::thread::sleep(std::time::Duration::from_millis(700));
        let report = report_of(explained(server.port, &run, "2s"));
        client.kill().and_then(|()| client.wait()).expect("h2load ends");
        let [streams, nameless] =
            ["streams", "streams_without_a_name"].map(|name| number(&report, &format!("/exchanges/{name}")));
        eprintln!("{:#}", report["exchanges"]);
        assert!(streams > 300.0 && nameless >= LEAST * streams, "{:#}", report["exchanges"]);
        let words = report["warnings"].to_string();
        assert!(words.contains("older than the recording"), "{words}");
    }
}

/// HTTPS over HTTP/1.1 has methods and paths as well.
#[test]
fn requests_of_https_have_names() {
    let _turn = alone();
    if !may_run() || require::program("h2load").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = Nginx::new().tls(&certificate).start().expect("nginx starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = whole(folder.path(), server.port, || h2load(&["--h1"], &server.url("/1k.txt?token=secret")));
    let classes = report["transactions"].as_array().expect("classes");
    let named =
        classes.iter().find(|class| class["name"] == "GET /1k.txt").map_or(0.0, |class| number(class, "/count"));
    assert!(named >= 0.998 * f64::from(REQUESTS), "{named}: {classes:#?} {:#}", report["exchanges"]);
}
