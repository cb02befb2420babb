//! What the tests of `weir advise` share: asking for it on a real server, and what every finding must have.

use super::{number, output};
use serde_json::Value;
use std::fs;
use std::path::Path;
use weir_testkit::RunningServer;

/// Advice on a running server under a load.
pub(crate) fn advised(server: &RunningServer, path: &str, run: &Path, more: &[&str]) -> Value {
    let (url, port) = (server.url(path), server.port.to_string());
    let run = run.to_str().expect("a readable path");
    let mut arguments = vec!["advise", "--load", &url, "--port", &port, "--run", run, "--json"];
    arguments.extend(more);
    json(&arguments)
}

/// Advice on a server, in a run that is forgotten.
pub(crate) fn advised_once(server: &RunningServer, path: &str, more: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    advised(server, path, run.path(), more)
}

/// The JSON that a command prints.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = output(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {} failed: {stderr}", arguments.join(" "));
    let told = serde_json::from_slice(&output.stdout);
    let told: Value = told.unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"));
    eprintln!("{}", told_shortly(&told));
    told
}

/// What advice says, for the reader of a failed test.
fn told_shortly(advice: &Value) -> String {
    let findings = advice["findings"].as_array().into_iter().flatten();
    let findings =
        findings.map(|finding| format!("{}: {} {}", finding["rule"], finding["title"], finding["evidence"][0]["text"]));
    let beyond = advice["beyond_settings"].as_array().into_iter().flatten().map(Value::to_string);
    findings.chain(beyond).collect::<Vec<_>>().join("\n")
}

/// The finding of a rule.
pub(crate) fn finding<'a>(advice: &'a Value, rule: &str) -> &'a Value {
    let findings = advice["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["rule"] == rule);
    found.unwrap_or_else(|| panic!("no finding {rule} in {advice:#}"))
}

/// The line of a setting's file that it names.
pub(crate) fn line_of(setting: &Value) -> String {
    let file = setting["file"].as_str().expect("a file");
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let line = setting["line"].as_u64().expect("a line") as usize;
    text.lines().nth(line - 1).expect("the line").trim().to_owned()
}

/// Every estimate is a range that holds what is likely.
pub(crate) fn check_effect(finding: &Value) {
    let share = |name: &str| number(finding, &format!("/effect/share/{name}"));
    assert!(0.0 <= share("low") && share("low") <= share("likely") && share("likely") <= share("high"), "{finding:#}");
    assert!(share("high") <= 1.0, "{finding:#}");
    assert!(!finding["evidence"].as_array().expect("evidence").is_empty());
    assert!(!finding["against"].as_array().expect("what speaks against it").is_empty());
}

/// A site of one page.
pub(crate) fn site(name: &str, text: &str) -> weir_testkit::Site {
    let site = weir_testkit::Site::sample().expect("a site");
    fs::write(site.path().join(name), text).expect("the page is written");
    site
}

/// Nothing of a trial is left: no files, no processes.
pub(crate) fn assert_no_copies() {
    let left = fs::read_dir(std::env::temp_dir()).expect("a temporary directory").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with("weir-trial-")).collect();
    assert!(left.is_empty(), "{left:?}");
    for process in fs::read_dir("/proc").expect("processes").flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains("/weir-trial-"), "{:?} runs on", process.file_name());
    }
}

/// There is no finding of a rule.
pub(crate) fn assert_absent(advice: &Value, rule: &str) {
    let findings = advice["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|finding| finding["rule"] != rule), "{rule} is found: {advice:#}");
}
