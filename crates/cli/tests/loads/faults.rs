//! Faults planted in small real servers are named first.

use crate::support;

use serde_json::Value;
use std::process::{Child, Stdio};
use support::{alone, explain, number, weir};
use weir_testkit::{Faulty, RunningServer, require};

/// Explains a faulty server under a load.
fn explained(server: &RunningServer, path: &str, load: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = explain(&server.url(path), server.port, run.path(), load);
    let texts: Vec<&str> =
        report["causes"].as_array().expect("causes").iter().filter_map(|c| c["text"].as_str()).collect();
    eprintln!("{texts:#?}");
    assert!(number(&report, "/joined_fraction") > 0.98, "{}", report["unjoinable"]);
    report
}

/// The part that is named first, and who is blamed first.
fn first(report: &Value) -> (String, String) {
    let text = |path: &str| report.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/causes/0/part"), text("/causes/0/who/0/0"))
}

#[test]
fn a_hog_on_the_servers_cpu() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("hog").args(["--cpu", "0"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "4", "-d", "2s", "--cpu", "1"]);
    let (part, who) = first(&report);
    assert_eq!(part, "wait_cpu");
    assert!(who.starts_with("weir-hog"), "the CPU was taken by {who}");
}

#[test]
fn a_mutex_held_by_another_thread() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("mutex").start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "4", "-d", "2s"]);
    assert_eq!(first(&report).0, "wait_lock");
}

#[test]
fn a_sleep() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").args(["--ms", "5"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "4", "-d", "2s"]);
    assert_eq!(first(&report).0, "wait_timer");
    assert!(number(&report, "/parts_ns/wait_timer") >= 5e6, "{}", report["parts_ns"]);
}

/// One request in a hundred sleeps, longer than a busy machine keeps one from a CPU, and the others never do.
#[test]
fn a_sleep_of_one_request_in_a_hundred_is_what_the_slow_ones_wait_for() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let rare = ["--each", "100", "--ms", "300"];
    let server = Faulty::new("sleep").args(rare).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "4", "-n", "1000"]);
    let texts: Vec<&str> =
        report["slow_causes"].as_array().expect("causes").iter().filter_map(|c| c["text"].as_str()).collect();
    eprintln!("{texts:#?}");
    assert_eq!(report["slow_causes"][0]["part"], "wait_timer");
    assert!(number(&report, "/slow_causes/0/share") > 0.5, "{texts:#?}");
    // All ten of the thousand have slept, and none of the others.
    let told = format!("{} {}", report["slow_parts_ns"], report["unjoinable"]);
    assert!(number(&report, "/slow_parts_ns/wait_timer") >= 300e6, "{told}");
    assert!(number(&report, "/median_parts_ns/wait_timer") < 1e6, "{}", report["median_parts_ns"]);
    assert!(number(&report, "/slow_causes/0/excess_ns") > 0.95 * 300e6, "{texts:#?}");
}

/// A downstream on the same host is another process, `wait_process`; on another host it would be `wait_network`.
#[test]
fn a_slow_downstream_that_is_not_captured() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("downstream").start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "2", "-d", "2s"]);
    let (part, who) = first(&report);
    assert_eq!(part, "wait_process");
    assert!(who.starts_with("127.0.0.1:"), "waited for {who}");
}

#[test]
fn a_slow_handler_in_front_of_others_in_one_worker() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("slow-handler").args(["--sleep"]).start().expect("the server starts");
    let slow = Background::load(&server.url("/slow"), &["-c", "1", "-d", "4s"]);
    let report = explained(&server, "/fast", &["-c", "4", "-d", "2s"]);
    drop(slow);
    assert_eq!(first(&report).0, "worker_queue");
}

#[test]
fn one_worker_with_a_full_accept_queue() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("accept-queue").args(["--sleep"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "16", "-d", "2s", "--no-keepalive"]);
    assert_eq!(first(&report).0, "accept_queue");
}

#[test]
fn without_a_fault_none_is_named() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").pin(0).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "1", "-d", "1s", "--cpu", "1"]);
    for part in ["wait_lock", "wait_timer", "wait_disk", "wait_process", "wait_network", "accept_queue"] {
        let share = number(&report, &format!("/parts_ns/{part}")) / number(&report, "/response_ns/mean");
        assert!(share < 0.05, "{part} has {share} of a server without a fault");
    }
}

/// A load that runs beside, ended with the test.
struct Background(Child);

impl Background {
    fn load(url: &str, options: &[&str]) -> Self {
        let mut command = weir();
        command.args(["load", "-q", "--json", url]).args(options).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the command starts"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
