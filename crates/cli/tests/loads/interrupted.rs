//! Ctrl-C ends a load with its report, and a server with what it owes, once or twice within a moment; a second one later
//! ends either at once.

use crate::support;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{alone, number, weir};
use weir_testkit::{Faulty, require};

/// A sender's two signals are one wish within 200 ms of each other.
const AT_ONCE: Duration = Duration::from_millis(10);
/// A load that waits for an answer gives up a second after it was asked to end, so this is before its end.
const LATER: Duration = Duration::from_millis(500);
/// More than the kernel holds for a client that takes nothing.
const LARGE: usize = 64 << 20;

/// Starts the command with its output kept, in a group of its own as a shell does it.
fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).spawn().expect("the command starts")
}

/// Waits until a load has begun and some answers have come.
fn once_under_way() {
    std::thread::sleep(Duration::from_millis(1500));
}

fn interrupt(child: &Child) {
    // SAFETY: the call takes numbers only; the child has not been waited for, so that the number is still its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
}

/// What was said at the end, which must have come within some seconds.
fn ended(child: Child) -> Output {
    let begin = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(begin.elapsed() < Duration::from_secs(20), "it went on");
    output
}

/// The report of a load of a minute that was ended after some seconds.
fn report_of(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"));
    let (requests, seconds) = (number(&report, "/requests"), number(&report, "/duration_s"));
    assert!(requests > 0.0 && seconds < 30.0, "{requests} requests in {seconds} s");
    report
}

#[test]
fn a_load_reports_what_was_done_in_json() {
    let _turn = alone();
    let server = Faulty::new("plain").start().expect("the server starts");
    let load = start(weir().args(["load", "--json", "--rate", "200", "-d", "60s", &server.url("/")]));
    once_under_way();
    interrupt(&load);
    let report = report_of(&ended(load));
    assert_eq!(report["errors"], serde_json::json!({}), "{report:#}");
    assert!(number(&report, "/latency_ns/p99") > 0.0, "{report:#}");
}

/// `timeout` signals its child, and then the group in which the child is.
#[test]
fn two_signals_at_once_are_one_wish() {
    let _turn = alone();
    // The load waits at its end for the request under way, so that the second signal finds it running. A request is
    // some 100 ms or more from its end both when the signals come and when `timeout` sends them.
    let server = Faulty::new("sleep").args(["--ms", "350"]).start().expect("the server starts");
    let options = ["load", "--json", "-c", "1", "-d", "60s", &server.url("/")];
    let load = start(weir().args(options));
    once_under_way();
    interrupt(&load);
    std::thread::sleep(AT_ONCE);
    interrupt(&load);
    report_of(&ended(load));
    for _ in 0..3 {
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "-s", "INT", "2", env!("CARGO_BIN_EXE_weir")]);
        report_of(&ended(start(command.args(options))));
    }
}

#[test]
fn a_second_signal_later_ends_a_load_at_once() {
    let _turn = alone();
    let server = Faulty::new("misbehave").args(["never"]).start().expect("the server starts");
    let load = start(weir().args(["load", "--json", "-c", "1", "-d", "60s", &server.url("/")]));
    once_under_way();
    interrupt(&load);
    std::thread::sleep(LATER);
    interrupt(&load);
    let output = ended(load);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "no report");
}

/// A server with a client that has begun to take something large and takes no more.
fn server_under_way(folder: &Path) -> (Child, TcpStream) {
    std::fs::write(folder.join("large.bin"), vec![1; LARGE]).expect("writes");
    let port = weir_testkit::free_port();
    let server = start(weir().args(["serve", "--listen", &format!("127.0.0.1:{port}")]).arg(folder));
    let begin = Instant::now();
    let mut client = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(client) => break client,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(AT_ONCE);
    };
    client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    client.read_exact(&mut [0; 1000]).expect("it is answered");
    (server, client)
}

#[test]
fn two_signals_at_once_let_a_server_finish_what_it_owes() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, mut client) = server_under_way(folder.path());
    interrupt(&server);
    std::thread::sleep(AT_ONCE);
    interrupt(&server);
    std::thread::sleep(LATER);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("the rest comes");
    assert!(rest.len() > LARGE - 1000, "{} bytes", rest.len());
    assert_eq!(ended(server).status.code(), Some(0));
}

#[test]
fn a_second_signal_later_ends_a_server_at_once() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, _client) = server_under_way(folder.path());
    interrupt(&server);
    std::thread::sleep(LATER);
    let begin = Instant::now();
    interrupt(&server);
    assert_eq!(ended(server).status.code(), Some(130));
    // Else it waits for the client for 30 s.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn an_explanation_is_of_what_was_done() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let port = server.port.to_string();
    let mut command = weir();
    command.args(["explain", "--json", "--rate", "200", "-d", "60s", "--port", &port, "--load", &server.url("/")]);
    let explaining = start(command.arg("--run").arg(run.path()));
    // To attach the probes takes longer than to begin a load.
    std::thread::sleep(Duration::from_secs(3));
    interrupt(&explaining);
    std::thread::sleep(AT_ONCE);
    interrupt(&explaining);
    let report = report_of(&ended(explaining));
    assert!(number(&report, "/joined_fraction") > 0.98, "{}", report["unjoinable"]);
    assert!(run.path().join("report.html").exists());
}

/// The server does not end when it is asked to, so that two seconds pass before it is made to: a user need not wait for
/// that, and finds no server left behind either.
#[test]
fn a_second_signal_a_second_later_ends_an_explanation_and_its_server() {
    let _turn = alone();
    let port = weir_testkit::free_port();
    let run = tempfile::tempdir().expect("a temporary directory");
    let (url, server) = (format!("http://127.0.0.1:{port}/"), Faulty::program().display());
    let stubborn = format!("trap '' TERM; exec {server} plain --port {port}");
    let mut command = weir();
    command.args(["explain", "--json", "-c", "1", "-d", "60s", "--load", &url, "--run"]);
    let explaining = start(command.arg(run.path()).args(["--", "sh", "-c", &stubborn]));
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server is not there");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&explaining);
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&explaining);
    let output = ended(explaining);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "no report");
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(10), "the server is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A reader of the intervals that takes nothing any more holds no end up, and what it did not take is counted.
#[test]
fn a_stream_whose_reader_has_stalled_holds_no_end_up() {
    let _turn = alone();
    let server = Faulty::new("plain").start().expect("it starts");
    let mut command = weir();
    command.args(["load", "-q", "-c", "2", "-d", "60s", "--interval", "50ms", "--ndjson", "-"]).arg(server.url("/"));
    let mut child = start(&mut command);
    let stdout = child.stdout.take().expect("piped");
    // SAFETY: the call takes numbers only, and the descriptor is open.
    let size = unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert!(size >= 4096, "{}", std::io::Error::last_os_error());
    std::thread::sleep(Duration::from_millis(2_000));
    let asked = Instant::now();
    interrupt(&child);
    let output = ended(child);
    assert!(asked.elapsed() < Duration::from_secs(8), "it took {:?}", asked.elapsed());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("requests"), "{}: {stderr}", output.status);
    assert!(stderr.contains("--ndjson: its reader took too long"), "{stderr}");
    drop(stdout);
}
