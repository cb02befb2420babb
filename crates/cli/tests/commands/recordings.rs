//! What a recording must not miss or leave behind: early ports, old connections, processes, directories.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{alone, explain, number, output, weir};
use weir_capture::{Probes, Recorder, Target};
use weir_testkit::{Faulty, require};
use weir_trace::{Limits, Run, RunReader};
use weir_wire::Kind;

/// Waits for something that comes soon.
fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs whose command line is this number of seconds to sleep.
fn sleeps(seconds: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let wanted = format!("sleep\0{seconds}\0");
    processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| line == wanted.as_bytes())
}

fn explained(run: &Path) -> Value {
    let explained = output(&["explain", "--json", run.to_str().expect("a readable path")]);
    let stderr = String::from_utf8_lossy(&explained.stderr);
    serde_json::from_slice(&explained.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"))
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

#[test]
fn a_port_opened_while_the_probes_are_attached_is_seen() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    // Some of these listen before the first look at the ports, some between it and the probes, some after.
    for delay in ["0", "0.01", "0.02", "0.03", "0.05"] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (run, log) = (folder.path().join("run"), folder.path().join("log"));
        let script = format!("sleep {delay}; exec {} plain >{} 2>&1", Faulty::program().display(), log.display());
        let recording = weir()
            .args([
                "record",
                "-d",
                "1500ms",
                "--run",
                run.to_str().expect("a readable path"),
                "--",
                "sh",
                "-c",
                &script,
            ])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let port = soon("the server's port", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            Some(text.split_once("127.0.0.1:")?.1.split_once('\n')?.0.to_owned())
        });
        // The collector's first look makes the streams: by then everything is attached.
        soon("the recording", || {
            let mut streams = fs::read_dir(run.join("segments")).into_iter().flatten().flatten();
            streams.any(|stream| stream.file_name().to_string_lossy().starts_with("kernel-")).then_some(())
        });
        let url = format!("http://127.0.0.1:{port}/");
        let loaded = output(&["load", "--run", run.to_str().expect("a readable path"), &url, "-n", "200", "-q"]);
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
        ended(recording);
        let report = explained(&run);
        assert!(number(&report, "/joined_fraction") > 0.99, "after {delay} s: {}", report["unjoinable"]);
    }
}

#[test]
fn a_connection_that_an_earlier_recording_met_is_told_again() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("downstream").start().expect("the server starts");
    let port = server.port.to_string();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    // Its connections last over both recordings, and so do the server's own to what it asks.
    let loading = weir()
        .args(["load", "-q", "--run", second.to_str().expect("a readable path"), &server.url("/")])
        .args(["-c", "2", "-d", "5s"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    soon("the load", || second.join("manifest.jsonl").exists().then_some(()));
    for run in [&first, &second] {
        let run = run.to_str().expect("a readable path");
        let recorded = output(&["record", "--run", run, "--port", &port, "-d", "1s"]);
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    }
    ended(loading);
    let report = explained(&second);
    let blamed: Vec<&str> =
        report["causes"].as_array().expect("causes").iter().filter_map(|cause| cause["who"][0][0].as_str()).collect();
    assert!(blamed.iter().any(|who| who.starts_with("127.0.0.1:")), "waited for {}", report["causes"]);
}

#[test]
fn what_the_command_started_ends_with_the_recording() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let begin = Instant::now();
    let script = ["sh", "-c", "sleep 61.25 & sleep 0.3"];
    let mut recording = weir();
    recording.args(["record", "--run", run.to_str().expect("a readable path"), "--"]).args(script);
    ended(recording.stderr(Stdio::piped()).spawn().expect("the command starts"));
    assert!(begin.elapsed() < Duration::from_secs(10), "it waited for the sleeper");
    assert!(!sleeps("61.25"), "the command's child outlived the recording");
}

#[test]
fn what_the_command_started_ends_with_a_killed_recording() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let mut recording = weir()
        .args(["record", "--run", run.to_str().expect("a readable path"), "--", "sh", "-c", "sleep 62.25 & wait"])
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    soon("the command", || sleeps("62.25").then_some(()));
    recording.kill().expect("it is killed");
    recording.wait().expect("it ends");
    soon("the sleeper's end", || (!sleeps("62.25")).then_some(()));
}

#[test]
fn a_command_that_fails_by_itself_is_1() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let code = |script: &str| {
        let run = run.to_str().expect("a readable path");
        output(&["record", "--run", run, "-d", "1s", "--", "sh", "-c", script]).status.code()
    };
    assert_eq!(code("sleep 0.2; exit 3"), Some(1));
    assert_eq!(code("sleep 0.2; kill -SEGV $$"), Some(1));
    assert_eq!(code("sleep 0.2"), Some(0));
    assert_eq!(code("exec sleep 60"), Some(0));
}

#[test]
fn a_refused_target_leaves_nothing_and_each_recording_has_a_directory() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let record = |arguments: &[&str]| -> Command {
        let mut command = weir();
        command.current_dir(folder.path()).arg("record").args(arguments);
        command
    };
    let left = || fs::read_dir(folder.path()).expect("the directory").count();
    let refused = record(&["--pid", "4194303"]).output().expect("the command starts");
    assert_eq!((refused.status.code(), left()), (Some(1), 0));
    let refused = record(&["--", "/no/such/program"]).output().expect("the command starts");
    assert_eq!((refused.status.code(), left()), (Some(1), 0));
    for number in ["0001", "0002"] {
        ended(record(&["--", "sleep", "0.2"]).stderr(Stdio::piped()).spawn().expect("the command starts"));
        let run = folder.path().join("weir-runs").join(number);
        assert_eq!(fs::metadata(run).expect("its own directory").permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn what_a_full_disk_removes_is_told_again() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let directory = folder.path().join("run");
    let run = Run::create(&directory).expect("a run");
    let target = Target::of_port(server.port).expect("it listens");
    // A second of this load fills a segment, so that three remain of the seven.
    let limits = Limits { segment_bytes: 256 << 10, stream_bytes: 1 << 20, ..Limits::default() };
    let recorder = Recorder::start(Probes::load().expect("the probes"), &target, &run, limits).expect("it starts");
    let path = directory.to_str().expect("a readable path");
    let loaded = output(&["load", "-q", "--run", path, &server.url("/"), "-c", "2", "--rate", "2000", "-d", "7s"]);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let cost = recorder.finish(Vec::new()).expect("it is written");
    assert!(cost.lost > 0, "nothing was removed");
    let report = explained(&directory);
    assert!(number(&report, "/joined_fraction") > 0.05, "{}", report["unjoinable"]);
    let mut named = false;
    RunReader::open(&directory).expect("a run").merge().each(|sourced| {
        named |= sourced.record.kind == Kind::TaskName as u16 && sourced.record.flags & 1 == 1;
        true
    });
    assert!(named, "the server's tasks have no names");
}

#[test]
fn every_connection_that_opens_and_closes_is_told() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = explain(&server.url("/"), server.port, folder.path(), &["-n", "300", "--no-keepalive"]);
    assert!(number(&report, "/joined_fraction") > 0.99, "{}", report["unjoinable"]);
    let (mut opened, mut closed) = (0, 0);
    RunReader::open(folder.path()).expect("a run").merge().each(|sourced| {
        opened += u32::from(sourced.record.kind == Kind::SocketOpen as u16);
        closed += u32::from(sourced.record.kind == Kind::SocketState as u16);
        true
    });
    assert!(opened >= 300 && closed >= 300, "{opened} opened, {closed} closed");
}
