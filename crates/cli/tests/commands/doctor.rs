//! `weir doctor` and `weir` alone: what they say of this machine, with rights and without.

use crate::support;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::terminal::Terminal;
use support::{output, weir};
use weir_testkit::{Faulty, require};

/// Runs the command as a user who may do nothing; `None` where that cannot be done.
fn without_rights(arguments: &[&str]) -> Option<Output> {
    // SAFETY: the call takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    require::or_skip(is_root, "needs root")?;
    require::program("setpriv")?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all", env!("CARGO_BIN_EXE_weir")]);
    Some(command.args(arguments).env("NO_COLOR", "1").output().expect("setpriv starts"))
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {stderr}"))
}

fn check<'a>(told: &'a Value, name: &str) -> &'a Value {
    let checks = told["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name} in {told:#}"))
}

fn setting(path: &str) -> String {
    std::fs::read_to_string(path).expect("a setting").split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn settings_are_told_as_the_kernel_has_them() {
    let told = output(&["doctor", "load", "--json"]);
    let told = json(&told);
    let backlog = setting("/proc/sys/net/core/somaxconn");
    assert_eq!(check(&told, "backlog")["found"], format!("net.core.somaxconn = {backlog}"));
    let range = setting("/proc/sys/net/ipv4/ip_local_port_range").replace(' ', " to ");
    let found = check(&told, "ephemeral-ports")["found"].as_str().expect("text").to_owned();
    assert!(found.ends_with(&format!("({range})")), "{found}");
    let names: Vec<&str> =
        told["checks"].as_array().expect("checks").iter().filter_map(|one| one["check"].as_str()).collect();
    assert!(!names.contains(&"rung") && !names.contains(&"net-admin"), "only those of the job: {names:?}");
    assert_eq!(told["jobs"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn the_rung_is_that_of_a_recording() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let outcome = output(&["doctor", "explain", "--json"]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome:?}");
    let told = json(&outcome);
    let rung = check(&told, "rung");
    let footing = weir_capture::Ladder::default().climb().expect("probes load");
    assert_eq!(rung["found"], footing.source.name());
    assert_eq!(check(&told, "rights")["state"], "ok");
}

#[test]
fn without_rights_it_says_what_is_missing_and_what_to_do() {
    let Some(outcome) = without_rights(&["doctor", "explain", "load"]) else { return };
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let said = String::from_utf8_lossy(&outcome.stdout);
    let one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        one_line.contains("missing rights missing CAP_BPF and CAP_PERFMON: no kernel probe can be loaded"),
        "{said}"
    );
    assert!(one_line.contains("setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep"), "{said}");
    assert!(one_line.contains("explain cannot be done: rights, rung"), "{said}");
    let load = without_rights(&["doctor", "load"]).expect("as before");
    assert_eq!(load.status.code(), Some(0), "a load needs no rights: {load:?}");
}

#[test]
fn weir_alone_says_in_five_lines_what_is_here_and_what_can_be_done() {
    let server = Faulty::new("plain").start().expect("the server starts");
    let mut terminal = Terminal::new(200, 24);
    let begin = Instant::now();
    let mut child = terminal.start(weir());
    let status = child.wait().expect("it ends");
    let took = begin.elapsed();
    let said = terminal.seen();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.starts_with("servers: ") && said.contains("allowed: "), "{said}");
    assert!(said.contains("weir doctor"), "{said}");
    // Its own bound is 0.2 s for the look at processes; a busy machine starts programs late.
    assert!(took < Duration::from_secs(2), "{took:?}");
    drop(server);
    let piped = weir().stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(piped.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&piped.stderr).contains("Start here:"), "the help as ever: {piped:?}");
}
