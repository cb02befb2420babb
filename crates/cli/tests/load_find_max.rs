//! `weir load --find-max` on a server whose maximum is known by construction: one worker and a fixed time for each
//! request, which is the queue M/D/1.
// scripts/test: punctual

mod support;

use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{alone, number, weir};
use weir_testkit::{Faulty, RunningServer};

/// The objective: at most one in ten takes longer than so many seconds.
const LIMIT_S: f64 = 0.010;
const SLO: &str = "p90<10ms";

/// A server that takes 2 ms for each request, one at a time.
fn server() -> RunningServer {
    Faulty::new("slow-handler").args(["--ms", "2", "--sleep"]).start().expect("it starts")
}

/// Requests a second that the server can do: what it does while it is never without one.
fn capacity(server: &RunningServer) -> f64 {
    let output =
        weir().args(["load", "-c", "4", "-d", "2s", "--json"]).arg(server.url("/slow")).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    number(&report, "/rate_per_s")
}

/// A random number from 0 to below 1, by xorshift: the test's own, so that it shares nothing with what it tests.
fn random(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// The rate at which one in ten takes longer than the limit, where a request takes `service_s` (Lindley's recursion).
fn truth(service_s: f64) -> f64 {
    let late = |rate: f64| {
        let (mut state, mut work, mut late) = (88_172_645_463_325_252, 0.0f64, 0);
        let all = 400_000;
        for _ in 0..all {
            work = (work + (1.0 - random(&mut state)).ln() / rate).max(0.0) + service_s;
            late += u32::from(work > LIMIT_S);
        }
        f64::from(late) / f64::from(all)
    };
    let (mut held, mut missed) = (0.0, 1.0 / service_s);
    for _ in 0..14 {
        let middle = (held + missed) / 2.0;
        if late(middle) <= 0.1 { held = middle } else { missed = middle }
    }
    (held + missed) / 2.0
}

#[test]
fn the_maximum_of_a_known_queue_is_found() {
    let _turn = alone();
    let server = server();
    let folder = tempfile::tempdir().expect("a directory");
    let (csv, html) = (folder.path().join("curve.csv"), folder.path().join("curve.html"));
    // A machine that is busy with other things makes another server of it: such a look is made again.
    let mut seen = Vec::new();
    for _ in 0..4 {
        let before = capacity(&server);
        let begin = Instant::now();
        let output = weir()
            .args(["load", "--find-max", "--slo", SLO, "-d", "45s", "--from-rate", "50", "--json", "--csv"])
            .arg(&csv)
            .arg("--html")
            .arg(&html)
            .arg(server.url("/slow"))
            .output()
            .expect("it runs");
        assert!(begin.elapsed() < Duration::from_secs(50), "the bound that was told: {:?}", begin.elapsed());
        let after = capacity(&server);
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        if found["highest"]["is"] != "found" {
            seen.push(found["highest"].to_string());
            continue;
        }
        let truth_per_s = truth(2.0 / (before + after));
        let part = |name: &str| number(&found, &format!("/highest/{name}"));
        let (rate, low, high) = (part("rate_per_s"), part("low_per_s"), part("high_per_s"));
        let steady = (before / after - 1.0).abs() < 0.03 && before > 350.0;
        let right = (low..=high).contains(&truth_per_s)
            && (high - low) / truth_per_s < 0.25
            && (rate / truth_per_s - 1.0).abs() < 0.1;
        let look = format!(
            "capacity {before:.0} and {after:.0}/s, truth {truth_per_s:.0}/s, found {rate:.0}/s ({low:.0} to {high:.0})"
        );
        println!("{look}");
        seen.push(look);
        if !(steady && right) {
            continue;
        }
        let rates = found["rates"].as_array().expect("rates");
        assert_eq!(std::fs::read_to_string(&csv).expect("the curve").lines().count(), rates.len() + 1);
        let page = std::fs::read_to_string(&html).expect("the page");
        assert!(page.contains("Latency against rate") && page.contains("is the highest rate that holds p90&lt;10ms"));
        // Far below the maximum hardly anybody waits, and far above nearly everybody does.
        let share = |rate: &Value| number(rate, "/missed_share");
        assert!(share(&rates[0]) < 0.05 && share(&rates[rates.len() - 1]) > 0.5, "{rates:#?}");
        assert!(number(&found, "/knee_per_s") > 0.3 * truth_per_s && found["generator_limited"].is_boolean());
        return;
    }
    panic!("{seen:#?}");
}

#[test]
fn the_user_gets_what_is_known() {
    let _turn = alone();
    let server = server();
    let load = weir()
        .args(["load", "--find-max", "--slo", SLO, "-d", "60s"])
        .arg(server.url("/slow"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_secs(4));
    // SAFETY: the call takes numbers only; the child has not been waited for, so that the number is still its own.
    unsafe { libc::kill(load.id() as libc::pid_t, libc::SIGINT) };
    let begin = Instant::now();
    let output = load.wait_with_output().expect("it ends");
    assert!(begin.elapsed() < Duration::from_secs(5));
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("at most 60 s in all"), "{told}");
    assert!(text.contains("ended by you") && text.contains("trials") && text.contains("missed"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, wanted) in [
        (&["--find-max", "--rate", "5"][..], "cannot be used with"),
        (&["--slo", "p99"], "write 'p99<50ms'"),
        (&["--find-max", "--slo", "p99<1"], "a time with its unit"),
        (&["--find-max", "-d", "1s"], "too few for trials"),
        (&["--find-max", "--pipeline", "4"], "a search (--find-max) sets its rates"),
        (&["--find-max", "--from-rate", "0"], "--from-rate"),
    ] {
        let output = weir().arg("load").args(arguments).arg("http://127.0.0.1:9/").output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(wanted), "{arguments:?}: {told}");
    }
}
