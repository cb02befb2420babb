//! What the command's tests share: running it, and one at a time on these few CPUs.
#![allow(dead_code, reason = "each test binary uses its share")]

pub(crate) mod adapting;
pub(crate) mod advice;
pub(crate) mod consoled;
pub(crate) mod files;
pub(crate) mod planted;
pub(crate) mod recording;
pub(crate) mod resolver;
pub(crate) mod schema;
pub(crate) mod served;
pub(crate) mod terminal;
pub(crate) mod workers;

use serde_json::Value;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The command under test.
pub(crate) fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env("NO_COLOR", "1");
    command
}

/// Tests that load a server take turns: two of them at once would measure each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command; its output, with any exit status.
pub(crate) fn output(arguments: &[&str]) -> Output {
    weir().args(arguments).output().expect("the command starts")
}

/// Runs `weir explain --json` on a running server and reads what it says.
pub(crate) fn explain(url: &str, port: u16, run: &std::path::Path, more: &[&str]) -> Value {
    let port = port.to_string();
    let run = run.to_str().expect("a readable path");
    let mut arguments = vec!["explain", "--load", url, "--port", &port, "--run", run, "--json"];
    arguments.extend(more);
    let output = output(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {} failed: {stderr}", arguments.join(" "));
    let told =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"));
    schema::conforms_to_its_own(&told);
    told
}

/// Waits until a recording in a run directory has begun: from there on everything is told.
pub(crate) fn recording_begins(run: &std::path::Path) {
    for _ in 0..1500 {
        let begun = std::fs::read_dir(run.join("segments")).is_ok_and(|mut files| files.next().is_some());
        if begun {
            return std::thread::sleep(std::time::Duration::from_millis(300));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the recording in {} did not begin", run.display());
}

/// A number of a JSON value by its path, such as `/observer_cost/lost`.
pub(crate) fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {value:#}"))
}
