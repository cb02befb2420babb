//! What the tests with planted faults share: an explanation with all its sources, and what it must say first.

use super::{number, output};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The turn of a test whose fault is not the CPU: with real-time priority for what it starts, where that is allowed,
/// because other programs on the machine would be a second fault.
pub(crate) fn undisturbed() -> std::sync::MutexGuard<'static, ()> {
    let turn = super::alone();
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the structure, which lives through the call; 0 is this thread, from which the servers and
    // the command inherit. Without the right to it nothing changes.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &parameters) };
    turn
}

/// Explains a load on a URL; the arguments say which processes are recorded, and how much is sent.
pub(crate) fn explained(url: &str, arguments: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let mut all = vec!["explain", "--json", "--load", url, "--run", run];
    all.extend(arguments);
    let output = output(&all);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {} failed: {stderr}", all.join(" "));
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"));
    eprintln!("{}", said(&report));
    assert!(number(&report, "/joined_fraction") > 0.98, "{}", report["unjoinable"]);
    report
}

/// What the report says, for the reader of a failed test.
pub(crate) fn said(report: &Value) -> String {
    let mean = number(report, "/response_ns/mean");
    let parts = report["parts_ns"].as_object().into_iter().flatten();
    let parts: Vec<String> = parts
        .filter_map(|(name, ns)| {
            let share = ns.as_f64()? / mean * 100.0;
            (share >= 0.1).then(|| format!("{name} {share:.1} %"))
        })
        .collect();
    let causes = report["causes"].as_array().into_iter().flatten();
    let causes: String = causes.map(|cause| format!("\n  {} who {}", cause["text"], cause["who"])).collect();
    format!("mean {:.3} ms: {}{causes}", mean / 1e6, parts.join(", "))
}

/// The part that is named first, and who is blamed first.
pub(crate) fn first(report: &Value) -> (&str, &str) {
    let text = |path: &str| report.pointer(path).and_then(Value::as_str).unwrap_or_default();
    (text("/causes/0/part"), text("/causes/0/who/0/0"))
}

/// The first wait, and who is to blame first for it; what comes before it is the server's own work.
///
/// How long a disk is waited for is the disk's doing: some answer sooner than a program asks them, and then running is
/// named before it, and truly.
pub(crate) fn first_wait(report: &Value) -> (&str, &str) {
    let causes = report["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let wait = causes.iter().find(|cause| cause["part"] != "run").unwrap_or(&Value::Null);
    (wait["part"].as_str().unwrap_or_default(), wait.pointer("/who/0/0").and_then(Value::as_str).unwrap_or_default())
}

/// The part must be named first, and the culprit's name must stand in the first place of those to blame.
pub(crate) fn names_first(report: &Value, part: &str, culprit: &str) {
    let (found, who) = first(report);
    assert_eq!(found, part, "{}", said(report));
    assert!(who.contains(culprit), "`{who}` is blamed, not `{culprit}`: {}", said(report));
}

/// A part's share of the mean response.
pub(crate) fn share(report: &Value, part: &str) -> f64 {
    number(report, &format!("/parts_ns/{part}")) / number(report, "/response_ns/mean")
}

/// The class of requests that held those of a part up first, and the part in which they were themselves.
pub(crate) fn held_by<'a>(report: &'a Value, part: &str) -> (&'a str, &'a str) {
    let causes = report["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = causes.iter().find(|cause| cause["part"] == part).and_then(|cause| cause.pointer("/held_by/0"));
    let text = |name: &str| first.and_then(|first| first[name].as_str()).unwrap_or_default();
    (text("class"), text("did"))
}

/// A process that runs beside, under a name of its own, ended with the test.
pub(crate) struct Beside(Child);

impl Beside {
    /// Starts a program or a script, which gets the name of its file.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a command.
    pub(crate) fn spawn(mut command: Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It fails only when it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is there, 60 s at most: so long a program may take to start under callgrind on a busy machine.
pub(crate) fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "not ready within 60 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}
