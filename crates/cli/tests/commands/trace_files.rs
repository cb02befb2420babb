//! `weir explain` on directories that are no runs, or damaged ones: a clear word and the exit code, never a panic.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Output;
use support::output;
use weir_trace::{Limits, Run, Source};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn explain(run: &Path) -> Output {
    output(&["explain", run.to_str().expect("a readable path")])
}

/// What it said, after a check that it failed as it should.
fn failure(run: &Path) -> String {
    let output = explain(run);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(stderr.contains(&*run.to_string_lossy()), "it names {}: {stderr}", run.display());
    assert!(!run.join("report.html").exists(), "nothing was explained");
    stderr
}

/// A client's side of a run: a connection and some requests over it.
fn client_run(directory: &Path, requests: u64) {
    let run = Run::create(directory).expect("a run");
    run.begin(Source::Client, "test", vec!["weir".into(), "load".into()], None, None).expect("noted");
    let mut stream = run.stream(Source::Client, 0, Limits { block_slots: 40, ..Limits::default() });
    stream.define(0, "GET /");
    let second = 1_000_000_000;
    let connection = ClientConnection {
        connection: 0,
        connect_start_ns: second,
        connected_ns: second + 1000,
        failed: false,
        local: "127.0.0.1:40000".parse().expect("an address"),
        remote: "127.0.0.1:80".parse().expect("an address"),
    };
    let (record, slots) = connection.write(0);
    stream.push(record, &slots, None).expect("it is written");
    for number in 0..requests {
        let begin_ns = second + 1_000_000 * (number + 1);
        let request = ClientRequest {
            connection: 0,
            intended_ns: begin_ns,
            started_ns: begin_ns,
            sent_ns: begin_ns + 1000,
            first_byte_ns: begin_ns + 300_000,
            done_ns: begin_ns + 310_000,
            request_offset: number * 40,
            request_bytes: 40,
            response_offset: number * 400,
            response_bytes: 400,
            status: 200,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        };
        let (record, slots) = request.write(0);
        stream.push(record, &slots, Some(0)).expect("it is written");
    }
    stream.finish().expect("it is written");
    run.end(Source::Client, weir_trace::Cost::default(), Vec::new()).expect("noted");
}

fn segment(run: &Path) -> std::path::PathBuf {
    fs::read_dir(run.join("segments")).expect("a folder").next().expect("a segment").expect("a file").path()
}

#[test]
fn a_missing_directory() {
    let message = failure(&directory().path().join("nowhere"));
    assert!(message.contains("no such run directory") && message.contains("weir record --run DIR"), "{message}");
}

#[test]
fn an_empty_directory() {
    let message = failure(directory().path());
    assert!(message.contains("not a run directory") && message.contains("weir record --run DIR"), "{message}");
}

#[test]
fn a_file_in_place_of_a_directory() {
    let directory = directory();
    let file = directory.path().join("server.log");
    fs::write(&file, "GET / 200\n").expect("written");
    let message = failure(&file);
    assert!(message.contains("weir record --run DIR"), "{message}");
}

#[test]
fn a_foreign_file_among_the_segments() {
    for (name, text) in [
        ("x.seg", "\x7fELF and more of a program that is longer than the head of a block of ours is."),
        ("x.000001.seg", "hello"),
    ] {
        let directory = directory();
        fs::create_dir(directory.path().join("segments")).expect("made");
        fs::write(directory.path().join("segments").join(name), text).expect("written");
        let message = failure(directory.path());
        assert!(message.contains(&format!("{name}: not a weir segment")) && message.contains("segments"), "{message}");
    }
}

#[test]
fn a_segment_of_a_later_weir() {
    let directory = directory();
    client_run(directory.path(), 100);
    let path = segment(directory.path());
    let mut bytes = fs::read(&path).expect("readable");
    bytes[8] = 9;
    // Only the first block, whose CRC another version may compute in another way.
    bytes.truncate(200);
    fs::write(&path, bytes).expect("written");
    let message = failure(directory.path());
    assert!(message.contains("schema 9.") && message.contains("use a newer weir"), "{message}");
}

#[test]
fn a_foreign_line_in_the_manifest() {
    let directory = directory();
    client_run(directory.path(), 10);
    let manifest = directory.path().join("manifest.jsonl");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, format!("{text}hello\n")).expect("written");
    let message = failure(directory.path());
    assert!(message.contains("manifest.jsonl:4") && message.contains("remove the line"), "{message}");
}

#[test]
fn a_run_without_a_client() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    run.begin(Source::Kernel, "test", Vec::new(), None, None).expect("noted");
    let message = failure(directory.path());
    assert!(message.contains("nothing to explain") && message.contains("weir load --run DIR"), "{message}");
}

/// A segment that was cut anywhere, as by a crash: weir explains what is there, or says that nothing can be explained.
#[test]
fn a_truncated_segment() {
    let whole = directory();
    client_run(whole.path(), 100);
    let bytes = fs::read(segment(whole.path())).expect("readable");
    for length in [0, 1, 7, 8, 63, 64, 100, 1500, 3000, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
        let directory = directory();
        client_run(directory.path(), 100);
        fs::write(segment(directory.path()), &bytes[..length]).expect("written");
        let output = explain(directory.path());
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!stderr.contains("panicked"), "cut at {length}: {stderr}");
        match output.status.code() {
            Some(0) => assert!(stdout.contains("report:"), "cut at {length}: {stdout}"),
            // Without a whole header the file itself is what is wrong.
            Some(1) if length > 100 => assert!(
                stderr.contains("nothing to explain") && stderr.contains("ends in the middle of a block"),
                "cut at {length}: {stderr}"
            ),
            Some(1) => assert!(stderr.contains("nothing to explain"), "cut at {length}: {stderr}"),
            code => panic!("exit code {code:?}, cut at {length}: {stderr}"),
        }
        // The first block ends before that: 40 slots, thus the connection and ten requests.
        assert_eq!(output.status.success(), length >= 1500, "cut at {length}: {stdout}{stderr}");
    }
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["explain"][..],
        &["explain", "a", "b", "--rung", "no-such"],
        &["explain", "a", "--load", "http://localhost/"],
        &["explain", "--no-such"],
    ] {
        let output = output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "weir {}: {stderr}", arguments.join(" "));
        assert!(stderr.contains("Usage") || stderr.contains("--help"), "weir {}: {stderr}", arguments.join(" "));
    }
}
