//! What `weir load --rate` says of time, held against what is known otherwise: percentiles by arithmetic, the schedule,
//! and a generator that something else keeps off its CPU.

mod support;

use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{alone, number, weir};
use weir_testkit::{Faulty, require};

/// A server that stands still for 240 ms of each 400 ms, and each tenth time for 380 ms.
const STALLS: [&str; 8] = ["--ms", "240", "--every", "400", "--long-ms", "380", "--long-each", "10"];
/// Of requests that arrive evenly, `9 * (240 - x) + 380 - x` of 4000 wait longer than `x` ms, and `380 - x` of 4000 where
/// `x` is above 240.
const TRUTH_MS: [(&str, f64); 4] = [("p50", 54.0), ("p90", 214.0), ("p99", 340.0), ("p99_9", 376.0)];

/// The report of a load.
fn load(arguments: &[&str], url: &str) -> Value {
    let output = weir().args(["load", "--json", "-q"]).args(arguments).arg(url).output().expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn four_percentiles_are_what_arithmetic_says() {
    let _turn = alone();
    let server = Faulty::new("stall").args(STALLS).start().expect("it starts");
    // The first period is without a stall.
    std::thread::sleep(Duration::from_millis(400));
    // With 200 connections none waits in the generator: each arrival of a stall has one. With 8 all but those wait, so that
    // times from the send would have been short.
    for (loops, connections) in [("1", "200"), ("2", "8")] {
        // A machine that is busy with other things delays an honest generator, too, but nothing brings a wrong one to the
        // truth.
        let mut seen = Vec::new();
        for _ in 0..5 {
            // Twice all of ten periods, so that each phase of the stalls is met equally often; and few enough at a time that
            // the server's work after a stall, a queue of its own, is no part of the truth.
            let report = load(&["--rate", "250", "-d", "8s", "-c", connections, "-t", loops], &server.url("/"));
            assert_eq!((&report["requests"], &report["dropped"]), (&2000.into(), &0.into()), "{}", report["errors"]);
            let measured = TRUTH_MS.map(|(name, truth_ms)| {
                let measured_ms = number(&report, &format!("/latency_ns/{name}")) / 1e6;
                (name, truth_ms, measured_ms, (measured_ms / truth_ms - 1.0).abs() < 0.05)
            });
            println!("{loops} loops: {measured:?}");
            if measured.iter().all(|(.., right)| *right) {
                seen.clear();
                break;
            }
            seen.push((measured, report["generator"].to_string()));
        }
        assert!(seen.is_empty(), "{seen:#?}");
    }
}

#[test]
fn the_report_says_how_well_the_schedule_was_kept() {
    let _turn = alone();
    let server = Faulty::new("plain").start().expect("it starts");
    for io in ["epoll", "io_uring"] {
        let report = load(&["--rate", "1000", "-n", "500", "--io", io], &server.url("/"));
        let lag = |name: &str| number(&report, &format!("/generator/schedule_lag_ns/{name}"));
        assert!(0.0 < lag("min") && lag("min") <= lag("p50") && lag("p50") <= lag("p99") && lag("p99") <= lag("max"));
        // No request is sent before its time, and none is answered before it is sent.
        assert!(lag("p50") < number(&report, "/latency_ns/p50"), "{report:#}");
        let late = number(&report, "/generator/late");
        assert!(late == 0.0 || lag("max") > 1e6, "{report:#}");
    }
    let closed = load(&["-n", "10"], &server.url("/"));
    assert_eq!(closed["generator"]["schedule_lag_ns"], Value::Null, "a closed loop has no schedule");
    let text =
        weir().args(["load", "-q", "--rate", "500", "-n", "100"]).arg(server.url("/")).output().expect("it runs");
    let text = String::from_utf8_lossy(&text.stdout);
    let line = text.lines().find(|line| line.starts_with("  schedule ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("for 99 % of the arrivals") && line.contains("worst"), "{line}");
}

/// Threads that take the CPU for themselves, until this is dropped or a minute is over.
struct Hogs {
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Hogs {
    fn on(cpu: usize, count: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let end = Instant::now() + Duration::from_secs(60);
        let hog = move |over: Arc<AtomicBool>| {
            // SAFETY: an all-zero set is the empty set; the set outlives the call; 0 is the calling thread.
            let pinned = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
            };
            assert_eq!(pinned, 0, "CPU {cpu}");
            while !over.load(Ordering::Relaxed) && Instant::now() < end {
                std::hint::spin_loop();
            }
        };
        let threads = std::iter::repeat_with(|| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || hog(over))
        });
        Self { threads: threads.take(count).collect(), over }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok() || std::thread::panicking(), "a hog failed");
        }
    }
}

#[test]
fn a_generator_without_its_cpu_takes_the_blame() {
    let _turn = alone();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if require::or_skip(cpus >= 2, "the server needs a CPU that the generator has not").is_none() {
        return;
    }
    let cpu = cpus - 1;
    // It serves some 450 a second, also while the hogs have the other CPU.
    let server = Faulty::new("slow-handler").args(["--ms", "2", "--sleep"]).pin(0).start().expect("it starts");
    let _hogs = Hogs::on(cpu, 3);
    let (url, cpu) = (server.url("/slow"), cpu.to_string());

    let report = load(&["--rate", "200", "-c", "100", "-d", "2s", "--cpu", &cpu], &url);
    let blamed = |warning: &Value| {
        warning.as_str().is_some_and(|text| {
            text.starts_with("the generator was the bottleneck") || text.starts_with("the generator had to wait")
        })
    };
    assert!(report["warnings"].as_array().is_some_and(|warnings| warnings.iter().any(blamed)), "{report:#}");

    let arguments = ["--find-max", "--slo", "p90<10ms", "--from-rate", "50", "-d", "20s", "--cpu", &cpu];
    let found = load(&arguments, &url);
    println!("{} {}", found["highest"], found["warnings"]);
    assert_eq!(found["generator_limited"], true, "{found:#}");
    assert!(found["highest"]["is"] == "at_least" || found["highest"]["is"] == "unknown", "{found:#}");
    assert!(found["warnings"].as_array().is_some_and(|warnings| warnings.iter().any(blamed)), "{found:#}");
}
