//! What a request costs the generator, counted by other programs and independent of the machine's load: instructions by
//! callgrind, system calls by strace.

use crate::support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::alone;
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{Nghttpd, RunningServer, Site, WeirServe, require};

/// Instructions of the loop itself for each request over a kept connection, through epoll (which callgrind knows only
/// with one call more), every sample recorded: 1,301 measured with Rust 1.95, repeatable to two (1,305 before oddities and
/// statuses of responses were told apart, 1,262 before there were sessions, mixes and slow clients).
const MOST_INSTRUCTIONS: f64 = 1_310.0;
/// The same over HTTP/2, by requests at a time on the one connection, against nghttpd, whose responses of one reading
/// come together: 1,837 and 1,168 measured with Rust 1.95. Alone, a request pays for the wait, the read and the write.
const MOST_INSTRUCTIONS_OF_HTTP2: [(&str, f64); 2] = [("1", 1_900.0), ("32", 1_210.0)];
/// Requests of the shorter run, and how many more the longer one makes.
const FEW: u64 = 500;
const MORE: u64 = 4_000;

fn server() -> (RunningServer, Site) {
    let site = Site::empty().expect("a site");
    site.write("a.txt", b"hello").expect("a file");
    // It sends an answer in one piece, so that it comes in one.
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(site.path());
    (server.start().expect("weir serve starts"), site)
}

/// nghttpd with one file, which answers all that it has read in one write.
fn server_of_http2() -> (RunningServer, Site) {
    let site = Site::empty().expect("a site");
    site.write("a.txt", b"hello").expect("a file");
    let server = Nghttpd::new().root(site.path());
    (server.start().expect("nghttpd starts"), site)
}

/// Runs a load of so many requests over one connection by another program, which writes to `to`.
fn through(program: &str, options: &[&str], to: &Path, url: &str, requests: u64, how: &[&str]) {
    let status = Command::new(program)
        .args(options)
        .arg(to)
        .arg(env!("CARGO_BIN_EXE_weir"))
        .args(["load", url, "-q", "-c", "1", "-n", &requests.to_string()])
        .args(how)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it starts");
    assert!(status.success(), "{program} ended with {status}");
}

#[test]
fn a_request_takes_no_more_instructions_than_before() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    let (server, _site) = server();
    settled(|least| {
        let each = least.each("all", (FEW, MORE), |requests| {
            instructions(&server.url("/a.txt"), "weir_load::http1::drive::drive*", requests, &["--io", "epoll"])
        });
        eprintln!("{each:.0} instructions a request");
        within("instructions a request", each, 100.0, MOST_INSTRUCTIONS)
    });
}

#[test]
fn a_request_of_http2_takes_no_more_instructions_than_before() {
    let _turn = alone();
    if require::program("valgrind").is_none() || require::program("nghttpd").is_none() {
        return;
    }
    let (server, _site) = server_of_http2();
    for (streams, most) in MOST_INSTRUCTIONS_OF_HTTP2 {
        let how = ["--http2", "--streams", streams];
        settled(|least| {
            let each = least.each("all", (FEW, MORE), |requests| {
                instructions(&server.url("/a.txt"), "weir_load::http2::drive::drive*", requests, &how)
            });
            eprintln!("{streams} streams: {each:.0} instructions a request");
            within(&format!("{streams} streams, instructions a request"), each, 100.0, most)
        });
    }
}

/// The instructions of a function and all that it calls, for so many requests.
fn instructions(url: &str, function: &str, requests: u64, how: &[&str]) -> u64 {
    let folder = tempfile::tempdir().expect("a directory");
    let to = folder.path().join("counts");
    // The name of the file is part of its option.
    let (file, function) = (format!("--callgrind-out-file={}", to.display()), format!("--toggle-collect={function}"));
    let status = Command::new("valgrind")
        // Only what the loop does: the report at the end costs more the longer the longest answer took.
        .args(["--tool=callgrind", "-q", &function, &file])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .args(["load", url, "-q", "-c", "1", "-n", &requests.to_string()])
        .args(how)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("valgrind starts");
    assert!(status.success(), "valgrind ended with {status}");
    total(&std::fs::read_to_string(&to).expect("callgrind's file"))
}

/// All system calls of all threads by strace's own count.
fn system_calls(folder: &Path, url: &str, requests: u64, how: &[&str]) -> u64 {
    let to = folder.join(format!("{}-{requests}", how.concat()));
    through("strace", &["-f", "-c", "-o"], &to, url, requests, how);
    let text = std::fs::read_to_string(&to).expect("strace's table");
    let total = text.lines().rev().find(|line| line.trim_end().ends_with("total")).expect("a line of totals");
    // % time, seconds, usecs/call, calls, errors if there were any, "total".
    total.split_whitespace().nth(3).and_then(|calls| calls.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_request_takes_no_more_system_calls_than_it_must() {
    let _turn = alone();
    if require::program("strace").is_none() {
        return;
    }
    let (server, _site) = server();
    let folder = tempfile::tempdir().expect("a directory");
    // Sent, waited for and received; through io_uring all of that is one call. The sweeps are a call each 100 ms, which
    // is little even under strace.
    for (io, most) in [("epoll", 3.0), ("io_uring", 1.0)] {
        settled(|least| {
            let each = least.each("strace", (FEW, MORE), |requests| {
                system_calls(folder.path(), &server.url("/a.txt"), requests, &["--io", io])
            });
            eprintln!("{io}: {each:.3} system calls a request");
            within(io, each, 0.9 * most, most + 0.1)
        });
    }
}

#[test]
fn requests_of_http2_share_their_system_calls() {
    let _turn = alone();
    if require::program("strace").is_none() || require::program("nghttpd").is_none() {
        return;
    }
    let (server, _site) = server_of_http2();
    let folder = tempfile::tempdir().expect("a directory");
    // Alone each is sent, waited for and received; 32 at a time they come and go together: three calls for all of them,
    // or twice that where the server answers in two writes.
    for (streams, most) in [("1", 3.1), ("32", 0.2)] {
        let how = ["--http2", "--streams", streams];
        settled(|least| {
            let each = least.each("strace", (FEW, MORE), |requests| {
                system_calls(folder.path(), &server.url("/a.txt"), requests, &how)
            });
            eprintln!("{streams} streams: {each:.3} system calls a request");
            within(&format!("{streams} streams, system calls a request"), each, 0.05, most)
        });
    }
}
