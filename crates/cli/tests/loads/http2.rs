//! Clients other than weir that speak HTTP/2, several requests at a time: each is told by itself, in the clear and over
//! TLS, and HTTP/1.1 beside them.

use crate::support;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{alone, number, output, weir};
use weir_testkit::{Certificate, Nginx, RunningServer, free_port, require};

/// Bytes of the file that is asked for; with the limit below, a response over TLS takes a good part of a second.
const FILE_BYTES: usize = 400_000;
/// Requests of a connection, all at the same time.
const STREAMS: usize = 6;
const CONNECTIONS: usize = 3;

/// nginx that speaks HTTP/1.1 at one port, HTTP/2 without encryption at another, and with it at a third.
struct Both {
    server: RunningServer,
    http2_port: u16,
    tls_port: u16,
    _certificate: Certificate,
    _files: tempfile::TempDir,
}

fn both() -> Both {
    let files = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(files.path().join("1k.txt"), [b'x'; 1024]).expect("a file is written");
    std::fs::write(files.path().join("large.bin"), vec![b'x'; FILE_BYTES]).expect("a file is written");
    let (http2_port, tls_port) = (free_port(), free_port());
    let certificate = Certificate::self_signed().expect("a certificate");
    let server = Nginx::new()
        .root(files.path())
        .directive(&format!("listen 127.0.0.1:{http2_port} http2; listen 127.0.0.1:{tls_port} ssl http2;"))
        .directive(&format!("ssl_certificate \"{}\";", certificate.certificate().display()))
        .directive(&format!("ssl_certificate_key \"{}\";", certificate.key().display()))
        .directive("location /large.bin { limit_rate 1m; }")
        .start()
        .expect("nginx starts");
    Both { server, http2_port, tls_port, _certificate: certificate, _files: files }
}

impl Both {
    /// Clients that ask for several files at once over one connection each, twice.
    fn http2_clients(&self) -> Child {
        let url = format!("http://127.0.0.1:{}/large.bin", self.http2_port);
        let requests = (2 * STREAMS * CONNECTIONS).to_string();
        let (connections, streams) = (CONNECTIONS.to_string(), STREAMS.to_string());
        let mut client = Command::new("h2load");
        client.args(["-n", &requests, "-c", &connections, "-m", &streams, &url]);
        client.stdout(Stdio::null()).spawn().expect("h2load starts")
    }

    /// Clients that ask for several files at once over one encrypted connection: one all at once, one again whenever a
    /// response is whole.
    fn encrypted_clients(&self) -> Vec<Child> {
        let url = |file: &str| format!("https://127.0.0.1:{}/{file}", self.tls_port);
        let mut once = Command::new("curl");
        once.args(["-sSk", "--http2", "--parallel"]);
        for _ in 0..STREAMS {
            once.args(["-o", "/dev/null", &url("large.bin")]);
        }
        let mut again = Command::new("h2load");
        again.args(["-n", "12", "-c", "1", "-m", "2", &url("large.bin"), &url("1k.txt")]);
        let start = |client: &mut Command| client.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        [once, again].iter_mut().map(|client| start(client).expect("the client starts")).collect()
    }

    fn explained(&self, more: &[&str], meanwhile: impl FnOnce() -> Vec<Child>) -> (Value, String) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = folder.path().join("run");
        let run = run.to_str().expect("a readable path");
        let mut arguments = vec!["explain", "-d", "5s", "--run", run];
        arguments.extend(more);
        let explaining = weir().args(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let explaining = explaining.expect("the command starts");
        support::recording_begins(Path::new(run));
        for mut child in meanwhile() {
            assert!(child.wait().expect("the client ends").success());
        }
        let explained = explaining.wait_with_output().expect("the explanation ends");
        let stderr = String::from_utf8_lossy(&explained.stderr);
        assert!(explained.status.success(), "{stderr}");
        let json = output(&["explain", "--json", run]);
        let report = serde_json::from_slice(&json.stdout).expect("a report");
        (report, String::from_utf8_lossy(&explained.stdout).into_owned())
    }
}

fn is_missing() -> bool {
    require::root_and_bpf().is_none() || require::nginx().is_none() || require::program("h2load").is_none()
}

/// Responses of a class by its name.
fn count(report: &Value, name: &str) -> f64 {
    let classes = report["transactions"].as_array().expect("classes");
    classes.iter().find(|class| class["name"] == name).map_or(0.0, |class| number(class, "/count"))
}

#[test]
fn streams_that_overlap_are_told_apart() {
    let _turn = alone();
    if is_missing() {
        return;
    }
    let both = both();
    let port = both.http2_port.to_string();
    let (report, text) = both.explained(&["--port", &port], || vec![both.http2_clients()]);
    eprintln!("{text}\n{:#} {:#}", report["exchanges"], report["unjoinable"]);
    let all = (2 * STREAMS * CONNECTIONS) as f64;
    assert_eq!(number(&report, "/exchanges/http2_connections"), CONNECTIONS as f64);
    assert_eq!((number(&report, "/exchanges/streams"), number(&report, "/requests")), (all, all));
    assert!(report["exchanges"]["http2"].is_null(), "{:#}", report["exchanges"]);
    assert_eq!((number(&report, "/joined_fraction"), count(&report, "GET /large.bin")), (1.0, all));
    assert!((number(&report, "/sum_of_parts_over_response/mean") - 1.0).abs() < 1e-9);
}

#[test]
fn requests_over_http_1_beside_it_are_explained() {
    let _turn = alone();
    if is_missing() {
        return;
    }
    let both = both();
    let (one, other, url) = (both.server.port.to_string(), both.http2_port.to_string(), both.server.url("/1k.txt"));
    let (report, _) = both.explained(&["--port", &one, "--port", &other], || {
        let load = weir().args(["load", &url, "-n", "500", "-c", "4", "-q"]).stdout(Stdio::null()).spawn();
        vec![both.http2_clients(), load.expect("the load starts")]
    });
    assert_eq!(number(&report, "/exchanges/http2_connections"), CONNECTIONS as f64);
    assert_eq!(count(&report, &format!(":{one}")), 500.0, "{:#}", report["transactions"]);
    let streams = (2 * STREAMS * CONNECTIONS) as f64;
    assert_eq!(count(&report, "GET /large.bin"), streams, "{:#}", report["transactions"]);
    assert_eq!(number(&report, "/requests"), 500.0 + streams);
}

#[test]
fn streams_over_tls_are_told_apart() {
    let _turn = alone();
    if is_missing() || require::program("curl").is_none() {
        return;
    }
    let both = both();
    let port = both.tls_port.to_string();
    let (report, text) = both.explained(&["--port", &port], || both.encrypted_clients());
    eprintln!("{text}\n{:#} {:#}", report["exchanges"], report["unjoinable"]);
    // A connection is known to be encrypted at any port.
    assert_eq!(report["exchanges"]["encrypted"], report["requests"], "{:#}", report["exchanges"]);
    assert!(report["exchanges"]["http2"].is_null(), "{:#}", report["exchanges"]);
    assert_eq!(number(&report, "/exchanges/streams"), (STREAMS + 12) as f64, "{:#}", report["exchanges"]);
    // The two files of the second client come in turn.
    let (large, small) = (count(&report, "GET /large.bin"), count(&report, "GET /1k.txt"));
    assert_eq!((large, small), ((STREAMS + 6) as f64, 6.0), "{:#}", report["transactions"]);
}
