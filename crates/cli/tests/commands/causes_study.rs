//! The suite of causes (`studies/causes`): its plans can be read, its causes are weir's own, and its scorer tells right
//! answers from wrong ones. `make study-causes` starts the servers.

use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weir_measure::part::Part;
use weir_testkit::require;

fn study() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/causes")
}

/// Runs a script of the suite, which must not leave compiled files behind.
fn script(name: &str, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(study().join(name)).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python3 starts");
    // A script that reads nothing has ended by itself.
    let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn said(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {stderr}"))
}

/// A list of texts in JSON.
fn texts(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

#[test]
fn plans_of_the_suite_name_causes_that_weir_tells() {
    if require::program("python3").is_none() {
        return;
    }
    let suite = said(&script("run", &["--json"], ""));
    let parts: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
    assert_eq!(texts(&suite["causes"]), parts, "plan.py and weir name the same causes");
    let page = std::fs::read_to_string(study().join("../../docs/reference/parts.md")).expect("the page of parts");
    let faults = suite["faults"].as_array().expect("faults");
    assert!(faults.len() >= 80, "{} faults", faults.len());
    let (mut names, mut planted, mut wanted) = (HashSet::new(), HashSet::new(), HashSet::new());
    for fault in faults {
        let name = fault["name"].as_str().expect("a name");
        assert!(names.insert(name), "two faults are named {name}");
        assert!(planted.insert(fault["planted"].as_str().expect("a sentence")), "{name} is planted twice");
        for part in texts(&fault["parts"]) {
            assert!(page.contains(&format!("\n## `{part}`\n")), "{name}: docs/reference/parts.md has no `{part}`");
            wanted.insert(part);
        }
    }
    // Each cause that a server can have is planted at least once.
    for part in ["accept_queue", "worker_queue", "run", "wait_cpu", "wait_disk", "wait_lock", "wait_process"] {
        assert!(wanted.contains(part), "no fault is {part}");
    }
    for part in ["wait_network", "wait_timer", "stopped", "connect", "request_transit", "response_transit"] {
        assert!(wanted.contains(part), "no fault is {part}");
    }
}

/// The verdict on an answer to the fault of a lock file that `lock-hoarder` holds, while `shop-worker` waits.
fn verdict(answer: &Value) -> String {
    let plan = study().join("faults/flock-held-by-another-process.toml");
    let told = said(&script("score.py", &[plan.to_str().expect("a readable path")], &answer.to_string()));
    told["verdict"].as_str().expect("a verdict").to_owned()
}

#[test]
fn answers_are_scored_by_cause_culprit_and_share() {
    if require::program("python3").is_none() {
        return;
    }
    let answer = |parts: &[&str], culprit: &str, share: f64| json!({"causes": [{"parts": parts, "culprit": culprit, "share": share, "text": "a sentence"}]});
    let expected = [
        (answer(&["wait_lock"], "lock-hoarder (12)", 0.8), "right"),
        (answer(&["wait_lock", "wait_timer"], "lock-hoarder (12)", 0.8), "coarse"),
        (answer(&["wait_timer"], "lock-hoarder (12)", 0.8), "wrong"),
        (answer(&["wait_lock"], "lock-hoarder (12)", 0.1), "wrong"),
        (answer(&["wait_lock"], "", 0.8), "wrong"),
        (answer(&["wait_lock"], "cron (7)", 0.8), "wrong"),
        // The one that waits, or the client that waits for its answer, is put down as the cause.
        (answer(&["wait_lock"], "shop-worker (9)", 0.8), "wrong blame"),
        (answer(&["wait_process"], "weir-load-0", 0.8), "wrong blame"),
        (json!({"causes": []}), "nothing told"),
    ];
    for (answer, verdict_wanted) in expected {
        assert_eq!(verdict(&answer), verdict_wanted, "{answer}");
    }
    // A tool that tells no share is not held to one.
    let without = json!({"causes": [{"parts": ["wait_lock"], "culprit": "lock-hoarder"}]});
    assert_eq!(verdict(&without), "right");
}

#[test]
fn a_plan_with_a_mistake_is_refused_in_words() {
    if require::program("python3").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let good = std::fs::read_to_string(study().join("faults/python-lock-of-threads.toml")).expect("a plan");
    let mistakes = [
        ("\"wait_lock\"", "\"wait_for_godot\"", "`wait_for_godot` is no cause; known are"),
        ("group = \"locks\"", "group = \"keys\"", "`group` is one of"),
        ("innocent = ", "guilty = ", "`guilty` is no key of [expect]"),
        ("port = \"@port@\" }", "record = \"no\" }", "no [[start]] has a `port`"),
    ];
    for (from, to, wanted) in mistakes {
        assert!(good.contains(from), "the plan has no {from}");
        let plan = folder.path().join("plan.toml");
        std::fs::write(&plan, good.replace(from, to)).expect("a plan");
        let output = script("score.py", &[plan.to_str().expect("a readable path")], "{}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(wanted), "{stderr}");
    }
}

#[test]
fn the_page_of_the_suite_is_made_from_its_results() {
    if require::program("python3").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let page = folder.path().join("page.md");
    let output = script("run", &["--write-page", page.to_str().expect("a readable path")], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = std::fs::read_to_string(&page).expect("the page");
    let kept = std::fs::read_to_string(study().join("RESULTS.md")).expect("RESULTS.md");
    assert!(made == kept, "studies/causes/run --write-page studies/causes/RESULTS.md makes it anew");
}
