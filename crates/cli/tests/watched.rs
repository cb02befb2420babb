//! What the optional sources are for, planted in small real servers and found by name.

mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};
use support::{alone, explain, number, output};
use weir_testkit::{Faulty, RunningServer, require};

/// Explains a server under a load; what is said of it goes to the test's output.
fn explained(server: &RunningServer, path: &str, more: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = explain(&server.url(path), server.port, run.path(), more);
    let causes = report["causes"].as_array().expect("causes");
    let texts: Vec<&str> = causes.iter().filter_map(|cause| cause["text"].as_str()).collect();
    eprintln!("{texts:#?}\n{}", report["observer_cost"]["sources"]);
    assert!(number(&report, "/joined_fraction") > 0.98, "{}", report["unjoinable"]);
    for bound in ["min", "max"] {
        let ratio = number(&report, &format!("/sum_of_parts_over_response/{bound}"));
        assert!((ratio - 1.0).abs() < 1e-9, "the parts add up to {ratio} of a response");
    }
    report
}

/// Who is blamed first for a part.
fn blamed(report: &Value, part: &str) -> String {
    let causes = report["causes"].as_array().expect("causes");
    let cause = causes.iter().find(|cause| cause["part"] == part);
    cause.and_then(|cause| cause.pointer("/who/0/0")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn first_part(report: &Value) -> &str {
    report.pointer("/causes/0/part").and_then(Value::as_str).unwrap_or_default()
}

/// A file lock that another process has: the file and the process are named.
fn file_lock(lock: &str, words: &str) {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("held").args([lock]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "1", "-d", "2s", "--watch", "locks"]);
    let who = blamed(&report, "wait_lock");
    assert_eq!(first_part(&report), "wait_lock");
    assert!(who.starts_with(&format!("{words} /")) && who.contains("/weir-faulty-"), "the lock is {who}");
    assert!(who.contains(".lock held by weir-holder ("), "the holder of {who}");
    assert!(number(&report, "/observer_cost/sources/0/events") > 0.0);
}

/// A server that is stopped for half of the time is said to be stopped by a signal; no other task is blamed.
#[test]
fn a_server_that_is_stopped_is_said_to_be() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").start().expect("the server starts");
    let pids: Vec<i32> = server.pids().into_iter().map(u32::cast_signed).collect();
    let (over, told) = std::sync::mpsc::channel::<()>();
    let stopper = std::thread::spawn(move || {
        let all = |signal| {
            for pid in &pids {
                // SAFETY: kill takes numbers, of processes that the server's owner has not ended yet.
                let _gone = unsafe { libc::kill(*pid, signal) };
            }
        };
        while told.try_recv().is_err() {
            all(libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(60));
            all(libc::SIGCONT);
            std::thread::sleep(Duration::from_millis(60));
        }
    });
    let report = explained(&server, "/", &["-c", "1", "-d", "2s"]);
    over.send(()).expect("it waits for that");
    stopper.join().expect("it ends");
    let part = report["causes"].as_array().and_then(|causes| causes.iter().find(|cause| cause["part"] == "stopped"));
    let part = part.unwrap_or_else(|| panic!("no stop among {:#}", report["causes"]));
    assert!(part["share"].as_f64().is_some_and(|share| share > 0.2), "{part:#}");
    assert_eq!(blamed(&report, "stopped"), "weir-faulty, stopped by a signal");
}

#[test]
fn a_flock_that_another_process_holds() {
    file_lock("flock", "flock of");
}

#[test]
fn a_range_of_a_file_that_another_process_has_locked() {
    file_lock("fcntl", "fcntl lock of");
}

#[test]
fn a_mutex_of_the_c_library_that_another_thread_holds() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("held").args(["pthread"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "1", "-d", "2s", "--watch", "locks,timers"]);
    let who = blamed(&report, "wait_lock");
    assert_eq!(first_part(&report), "wait_lock");
    assert!(who.starts_with("futex 0x") && who.contains("held by weir-lock ("), "the lock is {who}");
}

#[test]
fn pages_of_a_mapped_file_that_are_not_in_memory() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("storage").args(["fault"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "1", "-d", "2s", "--watch", "disk,locks"]);
    let who = blamed(&report, "wait_disk");
    assert!(who.starts_with("a page of /") && who.contains("/weir-faulty-"), "it waited for {who}");
    assert!(number(&report, "/parts_ns/wait_disk") > 50e3, "{}", report["parts_ns"]);
}

#[test]
fn reads_past_the_page_cache() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("storage").args(["direct"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "2", "-d", "2s", "--watch", "disk"]);
    let who = blamed(&report, "wait_disk");
    assert_eq!(first_part(&report), "wait_disk");
    assert!(who.contains("/weir-faulty-") && who.contains(".data"), "it waited for {who}");
}

#[test]
fn a_poll_that_only_time_ends() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").args(["--ms", "5", "--poll"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "4", "-d", "2s", "--watch", "timers"]);
    assert_eq!(first_part(&report), "wait_timer");
    assert!(number(&report, "/parts_ns/wait_timer") >= 4.9e6, "{}", report["parts_ns"]);
}

/// Without the timers' source it is told by the interrupt in which the task was woken: on CPUs that are never idle some
/// task has one then, and is not to blame.
#[test]
fn a_poll_that_only_time_ends_while_others_have_the_cpus() {
    let _turn = support::planted::undisturbed();
    if require::root_and_bpf().is_none() {
        return;
    }
    let busy = |_| {
        let mut command = std::process::Command::new("chrt");
        command.args(["--idle", "0", "sh", "-c", "while :; do :; done"]);
        support::planted::Beside::spawn(command)
    };
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let _others: Vec<_> = (0..cpus).map(busy).collect();
    let server = Faulty::new("sleep").args(["--ms", "5", "--poll"]).start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "2", "-d", "2s"]);
    assert_eq!(blamed(&report, "wait_timer"), "weir-faulty");
    // The sleep, all of it and nothing else; on a busy machine waiting for a CPU comes on top.
    assert!(number(&report, "/parts_ns/wait_timer") >= 4.9e6, "{}", report["parts_ns"]);
    assert!(number(&report, "/parts_ns/wait_process") < 0.1e6, "{}", report["parts_ns"]);
}

/// Every response over loopback passes the soft interrupt for received packets on the server's CPU.
#[test]
fn soft_interrupts_under_load_are_a_part_of_run() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let report = explained(&server, "/", &["-c", "8", "-d", "2s", "--watch", "interrupts"]);
    let (run, interrupt) = (number(&report, "/parts_ns/run"), number(&report, "/run_parts_ns/run_interrupt"));
    assert!(interrupt > 0.02 * run && interrupt < run, "{interrupt} ns of {run} ns");
    // Beside the server's own work.
    let causes = report["causes"].as_array().expect("causes");
    let run = causes.iter().find(|cause| cause["part"] == "run").expect("it runs");
    let who: Vec<&str> = run["who"].as_array().expect("a list").iter().filter_map(|one| one[0].as_str()).collect();
    assert!(who.contains(&"soft interrupt net_rx"), "{who:?}");
    let unobserved = report["not_observed"].as_array().expect("a list");
    assert!(!unobserved.contains(&Value::from("run_interrupt")), "{unobserved:?}");
}

/// In windows a source is attached for its share of the time, and what it finds is still the whole's share.
#[test]
fn windows_sample_what_is_watched() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let load = ["-c", "4", "-d", "3s", "--watch", "all", "--watch-windows", "100ms/500ms"];
    let report = explained(&server, "/", &load);
    let sources = report["observer_cost"]["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 4);
    for source in sources {
        let share = number(source, "/attached_share");
        assert!((0.1..0.45).contains(&share), "{source}");
        assert!(number(source, "/cpu_share") < 0.5, "{source}");
    }
    assert!(number(&report, "/run_parts_ns/run_interrupt") > 0.0);
}

#[test]
fn a_cpu_quota_is_named_by_its_cgroup() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => {
            require::or_skip(false, &format!("no control group with a CPU quota can be made here ({error})"));
            return;
        }
    };
    let server = Faulty::new("accept-queue").args(["--ms", "3"]).start().expect("the server starts");
    for pid in server.pids() {
        fs::write(group.folder.join("cgroup.procs"), pid.to_string()).expect("the process can be moved");
    }
    let report = explained(&server, "/", &["-c", "1", "-d", "3s"]);
    let who = blamed(&report, "wait_cpu");
    assert_eq!(first_part(&report), "wait_cpu");
    assert!(who.starts_with("the CPU quota of cgroup /") && who.contains("weir-test-"), "kept from the CPU by {who}");
}

/// A cgroup whose tasks get a fifth of a CPU, in periods of 100 ms; removed with the test, after its processes.
struct Group {
    folder: PathBuf,
}

impl Group {
    fn new() -> io::Result<Self> {
        let name = format!("weir-test-{}", std::process::id());
        let old = PathBuf::from("/sys/fs/cgroup/cpu");
        let (root, files) = if old.is_dir() {
            (old, [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")])
        } else {
            let root = PathBuf::from("/sys/fs/cgroup");
            fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
            (root, [("cpu.max", "20000 100000"), ("cpu.weight", "100")])
        };
        let group = Self { folder: root.join(name) };
        fs::create_dir(&group.folder)?;
        for (file, value) in files {
            fs::write(group.folder.join(file), value)?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel refuses while a process is in it, which takes a moment to be gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What the hypervisor took is a part of `run`, or nothing was taken: then the kernel's counter has not moved.
#[test]
fn stolen_time_is_told_where_it_was_taken() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let counted = || {
        let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
        let all = stat.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok());
        all.expect("the eighth number of the first line")
    };
    let server = Faulty::new("plain").start().expect("the server starts");
    let before = counted();
    let report = explained(&server, "/", &["-c", "8", "-d", "4s", "--watch", "interrupts"]);
    let stolen = report["run_parts_ns"]["steal"].as_f64();
    let (taken, run) = (counted() - before, number(&report, "/parts_ns/run"));
    eprintln!("{taken} ticks taken, {stolen:?} ns of {run} ns");
    assert!(stolen.is_none_or(|stolen| stolen < run), "{stolen:?} of {run} ns");
    // 50 ms of 8 s of two CPUs, most of which ran the server.
    assert!(taken < 5 || stolen.is_some(), "{taken} ticks were taken, and none of it from the server");
}

/// Asks again and again over one connection, and reads each answer so long after it has come: ADDRESS PORT SECONDS.
const READER: &str = "import select, socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(3000):
    connection.sendall(b'GET / HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n')
    select.select([connection], [], [])
    time.sleep(float(sys.argv[3]))
    connection.recv(65536)
";

/// What is said of a generator that reads so late.
fn of_generator(server: &RunningServer, late_s: &str) -> Value {
    let port = server.port.to_string();
    let mut generator = std::process::Command::new("python3")
        .args(["-c", READER, "127.0.0.1", &port, late_s])
        .spawn()
        .expect("python3 starts");
    std::thread::sleep(Duration::from_millis(300));
    let told = output(&["explain", "--generator", &generator.id().to_string(), "-d", "2s", "--json"]);
    generator.kill().expect("the generator is there");
    generator.wait().expect("the generator ends");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).expect("JSON")
}

#[test]
fn a_generator_that_reads_late_is_told_from_a_server_that_answers_late() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("python3").is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let late = of_generator(&server, "0.02");
    assert_eq!(late["culprit"], "the generator", "{late:#}");
    assert!((15e6..40e6).contains(&number(&late, "/slowest/0/unread_ns")), "{late:#}");
    // So slow that what the generator loses when it is put off its CPU now and then stays small beside it.
    let slow = Faulty::new("sleep").args(["--ms", "30"]).start().expect("the server starts");
    let slow = of_generator(&slow, "0");
    assert_eq!(slow["culprit"], "the server or network", "{slow:#}");
    assert!(number(&slow, "/slowest/0/latency_ns") > 29.9e6, "{slow:#}");
    assert!(number(&slow, "/slowest/0/own_share") < 0.1, "{slow:#}");
    assert!(number(&slow, "/exchanges") > 40.0 && number(&slow, "/dropped") == 0.0, "{slow:#}");
}

#[test]
fn a_generator_that_is_not_there_is_wrong_usage() {
    let told = output(&["explain", "--generator", "4194305"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&told.stderr).contains("no process 4194305"));
}
