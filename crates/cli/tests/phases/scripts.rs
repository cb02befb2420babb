//! Phases of scripts: the start of a process, its work until the first byte, and its output are told apart, of scripts that
//! are started and of those that are kept.

use super::support::{alone, explain, number};
use super::{order, phase};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use weir_testkit::{WeirServe, require};

/// 20 ms until the first byte, 40 ms from there to the end, both asleep.
const SLOW: &str = "#!/bin/sh\nsleep 0.02\nprintf 'Content-Type: text/plain\\n\\na'\nsleep 0.04\necho b\n";
const KEPT: &str = "#!/usr/bin/perl\n$| = 1;\nopen my $in, '<&=', 3;\nwhile (defined(my $line = <$in>)) {\n\
                    while (defined($line = <$in>) && $line ne \"\\n\") {}\nselect undef, undef, undef, 0.02;\n\
                    print \"Content-Type: text/plain\\n\\na\";\nselect undef, undef, undef, 0.04;\nprint \"b$ENV{CGIPLUSEOF}\\n\";\n}\n";

fn site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in [("www/cgi-bin/slow.sh", SLOW), ("www/plus/kept.pl", KEPT)] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    let text = "[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = { workers = 1 }\n\
                [[host.path]]\nprefix = \"/plus/\"\ncgiplus = { workers = 1 }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    folder
}

/// Mean milliseconds of a phase of each response, which each passes once.
fn mean_ms(report: &Value, name: &str) -> f64 {
    let phase = phase(report, "scripts", name);
    let (count, requests) = (number(phase, "/count"), number(report, "/requests"));
    assert!((0.8..=1.01).contains(&(count / requests)), "{name}: {count} of {requests}");
    number(phase, "/mean_ns") / 1e6
}

#[test]
fn activation_run_and_output_of_a_script_are_told_apart() {
    let _turn = alone();
    if require::socket_tracepoints().is_none() {
        return;
    }
    let folder = site();
    let server =
        WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(folder.path().join("weir.toml")).start().expect("it starts");
    let mut activations = Vec::new();
    for path in ["/cgi-bin/slow.sh", "/plus/kept.pl"] {
        let run = tempfile::tempdir().expect("a temporary directory");
        // It is told without being asked for.
        let report = explain(&server.url(path), server.port, run.path(), &["-d", "2s", "-c", "1"]);
        assert_eq!(report["status"]["200"], report["requests"], "{}", report["status"]);
        assert_eq!(order(&report, "scripts"), ["activation", "run", "output"]);
        let [activation, run, output] = ["activation", "run", "output"].map(|name| mean_ms(&report, name));
        eprintln!("{path}: activation {activation:.3} ms, run {run:.3} ms, output {output:.3} ms");
        // A mean is of all responses, of which a few may not be followed to the script.
        assert!(run > 16.0 && output > 32.0 && activation > 0.0, "{path}: {activation} {run} {output}");
        // What the response took beyond them is little: nothing of the script is in no phase.
        let whole = number(&report, "/response_ns/mean") / 1e6;
        assert!(activation + run + output > 0.8 * whole, "{path}: {activation} {run} {output} of {whole} ms");
        activations.push(activation);
        // The time is the script's, which sleeps.
        let asleep = number(phase(&report, "scripts", "output"), "/parts_ns/wait_timer") / 1e6;
        assert!(asleep > 0.7 * 40.0, "{path}: {asleep} ms: {:#}", report["phases"]);
    }
    assert!(activations[1] < activations[0], "a process that is kept is not started: {activations:?} ms");
}
