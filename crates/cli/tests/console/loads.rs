//! What a real `weir load` tells of itself while it runs, and what `weir console` makes of it.

use super::support::planted::wait_for;
use super::support::served::Served;
use super::{Shown, folder};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A load that ends with the test.
struct Loading(Child);

impl Loading {
    fn start(folder: &Path, served: &Served, run: &str, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["load", "--quiet", "--run", run, "--rate", "200"])
            .args(more)
            .arg(format!("http://127.0.0.1:{}/a.txt?token=secret", served.port))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        Self(child)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the call takes numbers, and the process is this test's own.
        assert_eq!(unsafe { libc::kill(self.0.id().cast_signed(), signal) }, 0);
    }

    /// Its exit status and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (self.0.wait().expect("ours").code(), said)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The load of a run once it is in such a state.
fn once(shown: &Shown, run: &str, state: &str) -> Value {
    wait_for(|| Some(shown.json(&format!("load?run={run}")).1).filter(|told| told["state"] == state))
}

fn listed(shown: &Shown) -> Vec<(String, String)> {
    let text = |load: &Value, name: &str| load[name].as_str().unwrap_or_default().to_owned();
    let (_, told) = shown.json("loads");
    told["loads"].as_array().expect("a list").iter().map(|load| (text(load, "run"), text(load, "state"))).collect()
}

#[test]
fn a_load_tells_what_it_does_now_with_the_figures_of_its_stream_and_its_end() {
    let folder = folder();
    fs::create_dir(folder.path().join("runs")).expect("creates");
    let served = Served::start(folder.path(), &[], "site");
    let shown = Shown::start(folder.path(), &["runs"]);
    assert_eq!(listed(&shown), []);
    let (_, has) = shown.json("has");
    assert!(has["rooms"].as_array().is_some_and(|rooms| rooms.contains(&"load".into())), "{has}");
    let args = ["-d", "3s", "--interval", "500ms", "--ndjson", "stream"];
    let load = Loading::start(folder.path(), &served, "runs/a", &args);
    let told = wait_for(|| {
        let (_, told) = shown.json("load?run=a");
        (told["points"][0]["requests"].as_u64() > Some(0) && !told["latest"].is_null()).then_some(told)
    });
    assert_eq!((told["state"].as_str(), told["planned_s"].as_f64()), (Some("running"), Some(3.0)));
    assert!(told["share"].as_f64().is_some_and(|share| share > 0.1 && share <= 1.0), "{told}");
    let target = told["target"].as_str().expect("a target");
    assert!(target.ends_with("/a.txt?(redacted)"), "{target}");
    assert!(told["manner"].as_str().is_some_and(|words| words.contains("open loop of 200/s")), "{told}");
    let latest = &told["latest"];
    let parts = latest["parts_ns"].as_object().expect("parts").values().filter_map(Value::as_f64).sum::<f64>();
    assert!((parts - latest["response_ns"].as_f64().expect("a mean")).abs() < 1.0, "{latest}");
    assert!(latest["parts_ns"]["first_byte"].as_f64() > Some(0.0), "{latest}");
    assert_eq!(listed(&shown), [("a".to_owned(), "running".to_owned())]);
    assert_eq!(load.end().0, Some(0));
    let told = once(&shown, "a", "ended");
    let points = told["points"].as_array().expect("points");
    let stream = fs::read_to_string(folder.path().join("stream")).expect("a stream");
    let stream: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (point, line) in points.iter().zip(&stream) {
        for name in ["start_s", "requests", "successes", "errors", "dropped", "bytes"] {
            assert_eq!(point[name], line[name], "{name}: {point} {line}");
        }
        for name in ["p50", "p90", "p99", "max"] {
            assert_eq!(point["latency_ns"][name].as_f64(), line["latency_ns"][name].as_f64(), "{name}");
        }
    }
    let sum: u64 = points.iter().filter_map(|point| point["requests"].as_u64()).sum();
    assert_eq!((sum, told["whole"]["requests"].as_u64()), (600, Some(600)));
    wait_for(|| (once(&shown, "a", "ended")["is_recorded"] == true).then_some(()));
    let (status, _) = shown.asked("POST", &shown.call("open?run=a"), super::OWN);
    assert_eq!(status, 200, "a run that came later can be opened at once");
    let bytes = fs::metadata(folder.path().join("runs/a/now.ndjson")).expect("a file").len();
    assert!(bytes < 16_384, "{bytes}");
    shown.refused("load?run=none", 404, "no run");
    shown.refused("load", 400, "run");
    shown.refused("loads?x=1", 400, "x");
    assert_eq!(shown.asked("POST", &shown.call("loads"), super::OWN).0, 405);
}

#[test]
fn a_load_that_is_ended_or_killed_or_stopped_is_not_shown_as_running() {
    let folder = folder();
    fs::create_dir(folder.path().join("runs")).expect("creates");
    let served = Served::start(folder.path(), &[], "site");
    let shown = Shown::start(folder.path(), &["runs"]);
    let ended = Loading::start(folder.path(), &served, "runs/ended", &["-d", "60s"]);
    let killed = Loading::start(folder.path(), &served, "runs/killed", &["-d", "60s"]);
    once(&shown, "ended", "running");
    once(&shown, "killed", "running");
    // Another load that writes to the same run leaves the file to the first one, and says so.
    let (status, said) = Loading::start(folder.path(), &served, "runs/killed", &["-d", "200ms"]).end();
    let words = format!("the load of process {} tells there what it does now", killed.0.id());
    assert!(status == Some(0) && said.contains(&words), "{status:?} {said}");
    killed.signal(libc::SIGSTOP);
    ended.signal(libc::SIGINT);
    let told = once(&shown, "ended", "interrupted");
    assert!(told["silent_s"].is_null() && told["share"].as_f64() < Some(1.0), "{told}");
    assert_eq!(ended.end().0, Some(0));
    let silent = wait_for(|| Some(shown.json("load?run=killed").1).filter(|told| !told["silent_s"].is_null()));
    assert_eq!(silent["state"], "running", "{silent}");
    killed.signal(libc::SIGKILL);
    assert_eq!(once(&shown, "killed", "lost")["is_recorded"], false);
    assert_eq!(listed(&shown).len(), 2, "they ended while the console was open");
    drop(killed);
    let later = Shown::start(folder.path(), &["runs"]);
    assert_eq!(listed(&later), [], "they ended before");
    assert_eq!(later.json("load?run=killed").1["state"], "lost", "a link to it still shows it");
}

#[test]
fn a_file_that_cannot_be_written_costs_a_line_and_not_the_load() {
    let folder = folder();
    fs::create_dir(folder.path().join("runs")).expect("creates");
    let served = Served::start(folder.path(), &[], "site");
    assert_eq!(Loading::start(folder.path(), &served, "runs/a", &["-d", "200ms"]).end().0, Some(0));
    let file = folder.path().join("runs/a/now.ndjson");
    fs::remove_file(&file).expect("it was written");
    fs::create_dir(&file).expect("a folder in its place");
    let (status, said) = Loading::start(folder.path(), &served, "runs/a", &["-d", "1500ms"]).end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("cannot write").count(), 1, "{said}");
    assert!(said.contains("now.ndjson") && said.contains("only once it is over"), "{said}");
    let shown = Shown::start(folder.path(), &["runs"]);
    shown.refused("load?run=a", 404, "it is no file");
    fs::remove_dir(&file).expect("it is empty");
    fs::write(&file, "{\"schema\":\"another\"}\n").expect("writes");
    let (_, told) = shown.json("loads");
    assert!(told["unreadable"][0]["error"].as_str().is_some_and(|words| words.contains("line 1")), "{told}");
}
