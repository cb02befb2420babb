//! Scripts and command lines that cannot be run: file, line, column, remedy, and the exit status.
// scripts/test: waits

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples/script")
}

fn run(script: &str, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.js"), script).unwrap();
    Command::new(program()).current_dir(folder.path()).args(words).arg("main.js").output().unwrap()
}

fn fails(script: &str, words: &[&str], status: i32, told: &[&str]) {
    let output = run(script, words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{script}: {text}");
    for one in told {
        assert!(text.contains(one), "{script}: {one:?} is not in {text}");
    }
}

const DEFAULT: &str = "export default function () {}\n";

#[test]
fn modules_and_files_that_are_not_there() {
    fails(
        &format!("{DEFAULT}import rpc from 'k6/net/grpc';"),
        &[],
        2,
        &["main.js:2:18: module k6/net/grpc is refused"],
    );
    fails("import x from 'k6/x/sql';", &[], 2, &["main.js:1:16: ", "extensions of k6"]);
    fails("import x from 'https://h/x.js';", &[], 2, &["main.js:1:16: module https://h/x.js is refused"]);
    fails("import x from './none.js';", &[], 2, &["main.js:1:16: ", "there is no file"]);
    fails("import x from 'lodash';", &[], 2, &["main.js:1:16: ", "a file is named by ./name.js"]);
}

#[test]
fn scripts_that_throw_while_they_begin() {
    fails("export default function () {\n  let a = ;\n}", &[], 107, &["SyntaxError", "main.js:2"]);
    fails("\nnone();", &[], 107, &["ReferenceError: none is not defined", "main.js:2:"]);
    fails("while (true) {}", &["--script-limit", "100ms"], 107, &["computed for 100ms", "--script-limit"]);
    fails(
        &format!("{DEFAULT}export function setup() {{ throw new Error('x'); }}"),
        &[],
        107,
        &["setup() failed: Error: x", "main.js:2:"],
    );
    fails("open('none.txt');", &[], 107, &["none.txt", "main.js:1:"]);
}

#[test]
fn options_that_cannot_be_followed() {
    let with = |options: &str| format!("export const options = {{\n  {options}\n}};\n{DEFAULT}");
    for (options, told) in [
        ("vus: 'x'", "main.js:2:3: option vus: a whole number"),
        ("nothing: 1", "main.js:2:3: option nothing is not known"),
        ("rps: 5", "main.js:2:3: option rps is refused: "),
        ("duration: 'soon'", "main.js:2:3: option duration: a duration such as 30s"),
        ("scenarios: { a: { executor: 'fast' } }", "main.js:2:32: scenario a: executor \"fast\" is none of"),
        ("scenarios: { a: { executor: 'constant-vus' } }", "option scenarios.a.duration is missing"),
        ("scenarios: { a: { executor: 'shared-iterations', exec: 'none' } }", "exports no function \"none\""),
        (
            "scenarios: { a: { executor: 'constant-arrival-rate', rate: 1, duration: '1s' } }",
            "preAllocatedVUs is missing",
        ),
        ("thresholds: { none: ['avg<1'] }", "there is no metric \"none\""),
        ("thresholds: { checks: ['p(95)<1'] }", "main.js:2:27: thresholds of checks: "),
        ("thresholds: { 'http_reqs{': ['count>1'] }", "names no metric"),
        ("hosts: { a: 'b' }", "is no address"),
    ] {
        fails(&with(options), &[], 104, &[told]);
    }
    fails("export const x = 1;", &[], 104, &["exports no function \"default\""]);
}

#[test]
fn command_lines_that_cannot_be_followed() {
    for (words, told) in [
        (&["--out", "influxdb=http://h"][..], "--out influxdb=http://h: json=FILE or csv=FILE"),
        (&["--vus", "x"], "--vus x: a whole number is needed"),
        (&["--nothing", "x"], "--nothing: no such option"),
        (&["other.js"], "one script is run"),
        (&["--config", "none.json"], "none.json"),
    ] {
        fails(DEFAULT, words, 2, &[told]);
    }
    let output = Command::new(program()).args(["run", "none.js"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.js"));
}

#[test]
fn a_run_ends_with_the_status_of_k6() {
    let aborts = "import exec from 'k6/execution'; export default function () { exec.test.abort('enough'); }";
    fails(aborts, &[], 108, &["test aborted: enough"]);
    let marks = "import exec from 'k6/execution'; export default function () { exec.test.fail('bad'); }";
    fails(marks, &[], 110, &["marked as failed: bad"]);
    let misses = "import { check } from 'k6'; export const options = { thresholds: { checks: ['rate>0.9'] } };
        export default function () { check(1, { no: (x) => x === 2 }); }";
    fails(misses, &[], 99, &["thresholds on metrics 'checks' have been crossed"]);
    assert_eq!(run(misses, &["--no-thresholds"]).status.code(), Some(0));
    // What an iteration throws is told, and ends no run.
    let throws = "export default function () { throw new Error('each time'); }";
    let output = run(throws, &["-i", "3"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text.contains("Error: each time\\n\\t") && text.contains("3 iterations failed by: Error: each time"),
        "{text}"
    );
}

#[test]
fn a_script_that_never_returns_is_stopped_and_named() {
    let output = run("export default function () {\n  while (true) {}\n}", &["--script-limit", "200ms"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("the script computed for 200ms without waiting") && text.contains("main.js:1:"), "{text}");
}

#[test]
fn a_user_that_waits_is_cut_at_the_end() {
    let script = "import { sleep } from 'k6';
        export const options = { scenarios: { a: { executor: 'constant-vus', vus: 3, duration: '200ms', gracefulStop: '100ms' } } };
        export default function () { try { sleep(60); } finally { for (;;) sleep(60); } }";
    let begun = std::time::Instant::now();
    let output = run(script, &[]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("0 complete and 3 interrupted iterations"), "{text}");
}
