//! `weir objects` on recorded runs of real servers: its tables, its JSON, rules of the user, and mistakes in them.

use crate::support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::output;

fn golden(run: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../timeline/tests/golden").join(run)
}

fn objects(more: &[&str]) -> (Option<i32>, String, String) {
    let output = output(&[&["objects"], more].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_servers_objects_are_listed_with_what_each_did_for_a_transaction() {
    let run = golden("apache_prefork_keep_alive");
    let run = run.to_str().expect("a readable path");
    let (code, text, stderr) = objects(&[run]);
    assert_eq!(code, Some(0), "{stderr}");
    for words in ["client-server", "not recorded", "background (in all", "response ", "semi-busy-waiting", "cpu 0"] {
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
    assert!(!text.contains("please report this"), "{text}");
    let (code, json, stderr) = objects(&["--json", "--only", "c*", run]);
    assert_eq!(code, Some(0), "{stderr}");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&report["schema"], &report["counts"]["unbalanced_ns"]), (&"weir-objects/1".into(), &0.into()));
    let names: Vec<&str> =
        report["interactions"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["cpu", "conversation"]);
    let finished = report["classes"].as_array().expect("a list").iter().filter_map(|one| one["finished"].as_u64());
    assert!(finished.sum::<u64>() > 10, "{json}");
}

#[test]
fn rules_of_the_user_are_used_and_mistakes_in_them_are_shown_with_their_lines() {
    let run = golden("nginx_keep_alive");
    let run = run.to_str().expect("a readable path");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    let path = file.to_str().expect("a readable path");
    let rules = "[[interaction]]\nname = \"sleep\"\npattern = \"detached\"\n\n[[rule]]\nevent = \"sched_switch\"\n\
                 when = \"prev_pid != 0 && prev_state != 0\"\ndo = \"wait\"\ninteraction = \"sleep\"\n\
                 requester = \"task:prev_pid\"\nobject = \"sleep\"\n";
    std::fs::write(&file, rules).expect("a file");
    let (code, json, stderr) = objects(&["--json", "--only", "sleep", "--objects", path, run]);
    assert_eq!(code, Some(0), "{stderr}");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert!(report["interactions"][0]["waits"].as_u64().is_some_and(|waits| waits > 0), "{json}");
    assert_eq!(report["interactions"][0]["finishes"], Value::Null);
    std::fs::write(&file, rules.replace("\"wait\"", "\"sleep\"")).expect("a file");
    let (code, stdout, stderr) = objects(&["--objects", path, run]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with(&format!("{path}:8:6: \"sleep\" is no do here; it is one of request")), "{stderr}");
    let (code, _, stderr) = objects(&["--only", "disc", run]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no interaction is called \"disc\"") && stderr.contains("disk"), "{stderr}");
}

#[test]
fn our_own_rules_are_printed_and_are_rules() {
    let (code, table, stderr) = objects(&["--table"]);
    assert_eq!(code, Some(0), "{stderr}");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("ours.toml");
    std::fs::write(&file, table).expect("a file");
    let run = golden("nginx_pipelined");
    let json = |more: &[&str]| {
        let (code, json, stderr) = objects(&[more, &["--json", run.to_str().expect("a readable path")]].concat());
        assert_eq!(code, Some(0), "{stderr}");
        json
    };
    // They replace themselves.
    assert_eq!(json(&["--objects", file.to_str().expect("a readable path")]), json(&[]));
}
