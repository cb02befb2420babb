//! `weir import --run`: a trace of another tool is explained as a recording of weir's own is.

use crate::support;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::output;
use support::schema::conforms_to_its_own;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/samples")
}

/// A sample of the formats' own tests, unpacked into a folder.
fn unpacked(name: &str, folder: &Path) -> PathBuf {
    let packed = fs::read(samples().join(name)).expect("a sample");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("it is packed by gzip");
    fs::create_dir_all(folder).expect("a folder");
    let name = Path::new(name).file_stem().expect("a name");
    let path = folder.join(name);
    fs::write(&path, bytes).expect("it is written");
    path
}

fn import(trace: &Path, run: &Path, more: &[&str]) -> Output {
    let (trace, run) = (trace.to_str().expect("a text"), run.to_str().expect("a text"));
    output(&[&["import", trace, "--run", run, "--json"], more].concat())
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = serde_json::from_slice(&output.stdout).expect("JSON");
    conforms_to_its_own(&told);
    told
}

fn explained(run: &Path) -> serde_json::Value {
    json(&output(&["explain", run.to_str().expect("a text"), "--json"]))
}

#[test]
fn a_trace_of_perf_has_requests_by_its_system_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = unpacked("perf.data.gz", folder.path());
    let run = folder.path().join("run");
    let told = json(&import(&trace, &run, &["--server", "nginx"]));
    // By perf script's text.
    assert_eq!(told["events"]["sys_exit_accept4"], 12, "{told:#}");
    let explained = explained(&run);
    // Of 12 requests the last may go on where the trace ends.
    assert_eq!((&explained["requests"], &explained["joined_fraction"]), (&11.into(), &1.0.into()), "{explained:#}");
    assert_eq!(explained["exchanges"]["cut_by_an_edge"], 1, "{}", explained["exchanges"]);
    assert_eq!(explained["rung"], "system calls");
    // Parts of time that the trace holds: nginx ran, and waited for a CPU.
    let part = |name: &str| explained["parts_ns"][name].as_f64().unwrap_or(-1.0);
    assert!(part("run") > 0.0 && part("unattributed") == 0.0, "{}", explained["parts_ns"]);
    let whole = explained["sum_of_parts_over_response"]["max"].as_f64().expect("a number");
    assert!((whole - 1.0).abs() < 1e-6, "{whole}");
    assert!(explained["server_cpu"]["utilisation"].as_f64().is_some_and(|used| used > 0.0), "{explained:#}");
    let warnings = explained["warnings"].to_string();
    assert!(warnings.contains("imported from perf.data") && warnings.contains("tells no arrivals"), "{warnings}");
    // Connections that tasks of another name accept are none of the server's.
    let other = folder.path().join("other");
    json(&import(&trace, &other, &["--server", "httpd"]));
    let refused = output(&["explain", other.to_str().expect("a text")]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("nothing to explain"));
}

#[test]
fn marks_of_lttng_are_requests_by_their_times() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["metadata", "channel0_0", "channel0_1"] {
        unpacked(&format!("ctf-ust/{name}.gz"), &folder.path().join("ust"));
    }
    let run = folder.path().join("run");
    let marks = ["--request-begin", "shop:request_begin/id/uri", "--request-end", "shop:request_end/id"];
    let told = json(&import(folder.path(), &run, &marks));
    assert_eq!(
        (&told["format"], &told["clock"], &told["hosts"][0]),
        (&"CTF".into(), &"monotonic".into(), &"vm".into())
    );
    let explained = explained(&run);
    assert_eq!(explained["requests"], 50);
    // By babeltrace2's text the first takes 685,370 ns and the second 775,055.
    let median = explained["response_ns"]["p50"].as_f64().expect("a number");
    assert!((500_000.0..900_000.0).contains(&median), "{median}");
    let names = explained["transactions"].to_string();
    assert!(names.contains("/item/{id}"), "paths of one form are one class: {names}");
}

#[test]
fn slices_beside_switches_are_requests_with_all_their_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let slices = ["--request-begin", "request//uri", "--request-end", "request"];
    json(&import(&samples().join("perfetto.pftrace"), &run, &slices));
    let explained = explained(&run);
    assert_eq!((&explained["requests"], &explained["joined_fraction"]), (&20.into(), &1.0.into()), "{explained:#}");
    // Each lasts 500 us, in which its thread runs: the waits lie between them.
    let run_ns = explained["parts_ns"]["run"].as_f64().expect("a number");
    assert!((run_ns - 500_000.0).abs() < 1_000.0, "{}", explained["parts_ns"]);
    assert!(explained["transactions"].to_string().contains("/item/{id}"), "{}", explained["transactions"]);
}

#[test]
fn what_is_no_trace_or_is_cut_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = import(folder.path(), &folder.path().join("run"), &[]);
    let words = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert_eq!(nothing.status.code(), Some(2), "{words}");
    assert!(words.contains("none of the formats"), "{words}");
    let trace = unpacked("perf.data.gz", folder.path());
    let bytes = fs::read(&trace).expect("it is there");
    let cut = folder.path().join("cut.pftrace");
    let whole = fs::read(samples().join("perfetto.pftrace")).expect("a sample");
    fs::write(&cut, &whole[..whole.len() - 5]).expect("it is written");
    let outcome = import(&cut, &folder.path().join("cut"), &[]);
    let words = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.status.code(), Some(1), "{words}");
    assert!(words.contains("byte ") && words.contains("records that came before"), "{words}");
    fs::write(&trace, &bytes[..bytes.len() / 2]).expect("it is written");
    assert_eq!(import(&trace, &folder.path().join("half"), &[]).status.code(), Some(1));
    let half = output(&["import", "x", "--run", "y", "--request-begin", "a"]);
    assert!(!half.status.success(), "a begin without an end");
}
