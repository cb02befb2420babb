//! The rungs below the socket tracepoints, each with those above it forbidden: requests are joined on real servers, and
//! their times agree with those that the socket tracepoints give for the very same requests.

mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use support::{alone, explain, number, output};
use weir_capture::{BoundarySource, Probes, Recorder, Target};
use weir_testkit::{Apache, Nginx, RunningServer, WeirServe, require};
use weir_timeline::{AtServer, Bounds, Joiner};
use weir_trace::{Limits, Run, RunReader, Source};
use weir_wire::{Record, Slot};

/// Loads a server on a rung that is forced or fallen to, and checks what must hold on every one with positions.
fn check(server: &RunningServer, rung: &[&str], name: &str, more: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let options = [rung, &["-d", "1s", "--cpu", "1"], more].concat();
    let report = explain(&server.url("/1k.txt"), server.port, run.path(), &options);
    let what = format!("port {} {rung:?} {more:?}", server.port);
    let (joined, mean) = (number(&report, "/joined_fraction"), number(&report, "/response_ns/mean"));
    let unattributed = number(&report, "/parts_ns/unattributed") / mean;
    eprintln!(
        "{what}: {} requests, joined {:.3} %, unattributed {:.2} %, {:.1} events a request, unjoinable {}",
        number(&report, "/requests"),
        100.0 * joined,
        100.0 * unattributed,
        number(&report, "/observer_cost/events_per_request"),
        report["unjoinable"]
    );
    assert_eq!(report["rung"], name, "{what}");
    assert!(number(&report, "/requests") > 100.0, "{what}: {report:#}");
    assert!(number(&report, "/observer_cost/lost") < 1.0, "{what}: events were lost");
    assert!(joined >= 0.999, "{what}: joined {joined}, unjoinable {}", report["unjoinable"]);
    assert!(unattributed < 0.05, "{what}: unattributed {unattributed}: {:#}", report["parts_ns"]);
    for end in ["min", "mean", "max"] {
        let sum = number(&report, &format!("/sum_of_parts_over_response/{end}"));
        assert!((sum - 1.0).abs() < 1e-9, "{what}: the parts are {sum} of the response");
    }
    report
}

/// System calls: on keep-alive and not, few connections and many.
fn every_way_by_system_calls(server: &RunningServer) {
    // Forbidden, not forced: the ladder itself has to come down to this rung where functions cannot be probed either.
    let rung = ["--without-rung", "tracepoints", "--without-rung", "fentry"];
    for more in [&["-c", "1"][..], &["-c", "10"], &["-c", "100"], &["-c", "1", "--no-keepalive"]] {
        check(server, &rung, "system calls", more);
    }
    check(server, &rung, "system calls", &["-c", "10", "--no-keepalive"]);
}

#[test]
fn system_calls_on_apache_prefork() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    every_way_by_system_calls(&Apache::prefork().pin(0).start().expect("Apache starts"));
}

#[test]
fn system_calls_on_apache_event() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    every_way_by_system_calls(&Apache::event().pin(0).start().expect("Apache starts"));
}

#[test]
fn system_calls_on_nginx() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().pin(0).start().expect("nginx starts");
    every_way_by_system_calls(&server);
    let report = check(&server, &["--rung", "syscalls"], "system calls", &["-c", "10", "--pipeline", "4"]);
    assert!(number(&report, "/parts_ns/worker_queue") > 0.0, "pipelined requests wait for each other");
}

/// Functions of the server: Apache of both kinds and nginx.
#[test]
fn user_probes() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::apache().is_none() {
        return;
    }
    let rung = ["--rung", "userprobes"];
    for server in [Apache::prefork().pin(0).start(), Apache::event().pin(0).start(), Nginx::new().pin(0).start()] {
        let server = server.expect("it starts");
        for more in [&["-c", "1"][..], &["-c", "10"], &["-c", "10", "--no-keepalive"]] {
            check(&server, &rung, "user probes", more);
        }
    }
}

#[test]
fn user_probes_agree_with_the_socket_tracepoints() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::apache().is_none() {
        return;
    }
    agreement(&Nginx::new().pin(0).start().expect("nginx starts"), BoundarySource::UserProbes);
    agreement(&Apache::prefork().pin(0).start().expect("Apache starts"), BoundarySource::UserProbes);
}

/// Where neither the kernel nor the server is known to the probes, /proc tells what it can; asked for, it is refused.
#[test]
fn an_unknown_server_comes_down_to_proc() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let mut options = vec!["-n", "200"];
    for rung in ["tracepoints", "fentry", "syscalls"] {
        options.extend(["--without-rung", rung]);
    }
    let report = explain(&server.url("/1k.txt"), server.port, run.path(), &options);
    assert_eq!(report["rung"], "proc only");
    let notes = report["warnings"].to_string();
    assert!(notes.contains("knows the functions of Apache and nginx, and the server runs weir"), "{notes}");
    let (port, url) = (server.port.to_string(), server.url("/1k.txt"));
    let refused = output(&["explain", "--rung", "userprobes", "--load", &url, "--port", &port, "-n", "10"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && words.contains("--rung proc"), "{words}");
}

/// /proc only: the server's use of the CPUs is what the kernel counts for its processes, and what is not known is said.
#[test]
fn proc_alone_tells_the_use_of_the_cpus() {
    let _turn = alone();
    if require::nginx().is_none() || require::apache().is_none() {
        return;
    }
    for server in [Nginx::new().pin(0).start(), Apache::event().pin(0).start()] {
        let server = server.expect("it starts");
        let run = tempfile::tempdir().expect("a temporary directory");
        let options = ["--rung", "proc", "-c", "4", "-d", "2s", "--cpu", "1"];
        let before_ns = used_ns(&server.pids());
        let report = explain(&server.url("/1k.txt"), server.port, run.path(), &options);
        let counted_ns = (used_ns(&server.pids()) - before_ns) as f64;
        let requests = number(&report, "/requests");
        let told_ns = number(&report, "/server_cpu/used_ns_per_request") * requests;
        eprintln!("{requests} requests: told {told_ns} ns of the CPUs, counted {counted_ns} ns");
        assert_eq!(report["rung"], "proc only");
        assert!(requests > 100.0 && (0.85..1.05).contains(&(told_ns / counted_ns)), "{told_ns} of {counted_ns}");
        let parts: f64 = report["parts_ns"].as_object().expect("parts").values().filter_map(Value::as_f64).sum();
        let mean = number(&report, "/response_ns/mean");
        assert!((parts / mean - 1.0).abs() < 1e-3, "the parts are {parts} of {mean}");
        assert!(number(&report, "/parts_ns/run") > 0.0 && number(&report, "/parts_ns/worker_queue") == 0.0);
        assert_eq!(number(&report, "/joined_fraction"), 0.0);
        let notes = report["warnings"].to_string();
        assert!(notes.contains("CAP_BPF") && notes.contains("times during the load"), "{notes}");
    }
}

/// Time on a CPU of every thread of these processes, as the kernel counts it.
fn used_ns(pids: &[u32]) -> u64 {
    let folders = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok());
    let files = folders.flatten().flatten().map(|task| task.path().join("schedstat"));
    files.filter_map(|file| std::fs::read_to_string(file).ok()?.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// One record with its slots, taken out of a run.
type Kept = (Source, Record, Vec<Slot>);

fn records(directory: &Path) -> Vec<Kept> {
    let mut all = Vec::new();
    RunReader::open(directory).expect("a run").merge().each(|sourced| {
        all.push((sourced.source, sourced.record, sourced.payload.to_vec()));
        true
    });
    all
}

/// The times at the server of every joined request, by its connection and offset.
fn joined(records: &[Kept], untold_arrivals: bool) -> (HashMap<(u64, u64), AtServer>, u64) {
    let mut joiner = Joiner::new(Bounds::default());
    if untold_arrivals {
        joiner.supply_arrivals();
    }
    let mut times = HashMap::new();
    let mut take = |_: &Joiner, response: &weir_timeline::Response<'_>| {
        if let Some(server) = response.server {
            times.insert((response.request.connection, response.request.request_offset), server);
        }
    };
    for (_, record, slots) in records {
        joiner.push(record, slots, None, &mut take);
    }
    joiner.finish(&mut take);
    (times, joiner.statistics().requests)
}

/// The value below which a share of the differences lies, nanoseconds.
fn quantile(mut differences: Vec<u64>, share: f64) -> u64 {
    differences.sort_unstable();
    differences[((differences.len() - 1) as f64 * share) as usize]
}

/// Two recordings of the same load at once, on the highest rung and on another: how far their times lie apart.
fn agreement(server: &RunningServer, rung: BoundarySource) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let target = Target::of_port(server.port).expect("it listens");
    let recorder = |rung: BoundarySource| {
        let directory = folder.path().join(rung.word());
        let run = Run::create(&directory).expect("a run");
        let probes = Probes::load_source(rung).expect("the probes");
        let recorder = Recorder::start(probes, &target, &run, Limits::default()).expect("it starts");
        (directory, recorder)
    };
    let [(upper, first), (lower, second)] = [recorder(BoundarySource::SocketTracepoints), recorder(rung)];
    let path = upper.to_str().expect("a readable path");
    let url = server.url("/1k.txt");
    let loaded = output(&["load", "-q", "--run", path, &url, "-c", "8", "-n", "20000", "--cpu", "1"]);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    for recorder in [first, second] {
        recorder.finish(Vec::new()).expect("it is written");
    }
    let upper = records(&upper);
    let mut lower = records(&lower);
    lower.extend(upper.iter().filter(|(source, ..)| *source == Source::Client).cloned());
    lower.sort_by_key(|(_, record, _)| record.time_ns);
    let ((above, requests), (below, _)) = (joined(&upper, false), joined(&lower, rung.misses_arrivals()));
    assert_eq!(requests, 20_000);
    let both: Vec<(&AtServer, &AtServer)> =
        above.iter().filter_map(|(key, times)| Some((times, below.get(key)?))).collect();
    assert!(both.len() as f64 >= 0.999 * requests as f64, "{} of {requests} joined by both", both.len());
    let marks = |at: &AtServer| [at.arrived_ns, at.picked_ns, at.sent_ns];
    for (index, mark) in ["arrived", "picked up", "sent"].into_iter().enumerate() {
        let apart: Vec<u64> = both.iter().map(|(one, other)| marks(one)[index].abs_diff(marks(other)[index])).collect();
        let [median, most] = [0.5, 0.95].map(|share| quantile(apart.clone(), share));
        eprintln!("{rung:?}, {mark}: apart by {median} ns (median), {most} ns (95 %)");
        assert!(median < 20_000, "{rung:?}, {mark}: {median} ns apart");
    }
}

#[test]
fn system_calls_agree_with_the_socket_tracepoints() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::apache().is_none() {
        return;
    }
    agreement(&Nginx::new().pin(0).start().expect("nginx starts"), BoundarySource::SystemCalls);
    agreement(&Apache::prefork().pin(0).start().expect("Apache starts"), BoundarySource::SystemCalls);
}

/// Probes of functions either work, or are refused in words and fallen from with a note.
#[test]
fn probes_of_functions_or_a_reason() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().pin(0).start().expect("nginx starts");
    if Probes::load_source(BoundarySource::Functions).is_ok() {
        check(&server, &["--rung", "fentry"], "fentry", &["-c", "10"]);
        return agreement(&server, BoundarySource::Functions);
    }
    let (port, url) = (server.port.to_string(), server.url("/1k.txt"));
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("refused");
    let run = run.to_str().expect("a readable path");
    let refused = output(&["explain", "--rung", "fentry", "--load", &url, "--port", &port, "--run", run, "-n", "10"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("lets no probe be attached to its functions") && words.contains("lockdown"), "{words}");
    let report = check(&server, &["--without-rung", "tracepoints"], "system calls", &["-c", "10"]);
    let notes = report["warnings"].to_string();
    assert!(notes.contains("fentry") && notes.contains("lets no probe be attached"), "{notes}");
}
