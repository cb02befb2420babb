//! `weir check` of rules: what is wrong, what is doubtful, and how they are written.

mod support;

use serde_json::Value;
use std::fs;
use support::output;

const EXAMPLE: &str = include_str!("../../adapt/tests/example.policy");

/// A file in a folder of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a new file");
    let path = path.to_str().expect("a readable path").to_owned();
    (folder, path)
}

#[test]
fn a_warning_is_no_mistake_and_a_mistake_is_one() {
    for name in ["flood.policy", "flood.weir-policy"] {
        let (_folder, path) = file(name, EXAMPLE);
        let checked = output(&["check", &path]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{said}");
        assert!(said.contains("warning: rule `drop`") && said.contains("policy without mistakes"), "{said}");
    }
    let (_folder, path) = file("wrong.policy", &EXAMPLE.replace("cpu@here > 90%", "cpu@here > 190%"));
    let checked = output(&["check", &path]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{path}:8:37: `cpu@here > 190%` is impossible")), "{said}");
    assert!(!said.contains("without mistakes"), "{said}");
    assert_eq!(output(&["check", "/nonexistent.policy"]).status.code(), Some(2));
}

#[test]
fn a_program_is_told_warnings_apart_from_mistakes() {
    let (_folder, path) = file("flood.policy", EXAMPLE);
    let told: Value = serde_json::from_slice(&output(&["check", "--json", &path]).stdout).expect("JSON");
    assert_eq!(told[0]["kind"], "policy");
    assert_eq!(told[0]["mistakes"].as_array().map(Vec::len), Some(0));
    assert_eq!(told[0]["warnings"][0]["line"], 15);
}

#[test]
fn rules_are_formatted_and_other_files_are_not() {
    let (_folder, path) = file("flood.policy", EXAMPLE);
    let formatted = output(&["check", "--format", &path]);
    assert_eq!(formatted.status.code(), Some(0));
    let text = String::from_utf8(formatted.stdout).expect("text");
    assert!(text.contains("in [30kbps, 100kbps)\n        then use half\n"), "{text}");
    let (_folder, path) = file("again.policy", &text);
    assert_eq!(output(&["check", "--format", &path]).stdout, text.as_bytes());
    let (_folder, path) = file("wrong.policy", "pool");
    let refused = output(&["check", "--format", &path]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("wrong.policy:1:5: expected a pool's name"));
    let (_folder, path) = file("weir.toml", "");
    let refused = output(&["check", "--format", &path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only rules can be formatted"));
}
