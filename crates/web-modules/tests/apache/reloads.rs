//! Graceful reloads, children that come and go, agents that die: no request fails, and nothing stays behind.

use crate::{armed, required};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use weir_testkit::client::Connection;
use weir_testkit::{Apache, RunningServer};
use weir_web_modules::{Told, arm_directory, wait_for};

/// Memory of a process, kB.
fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

fn reload(server: &RunningServer) {
    // SAFETY: a signal to a process that this test has started.
    unsafe { libc::kill(server.pid() as i32, libc::SIGUSR1) };
}

/// Ends the load also where the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reloads a server under load, with an agent that is replaced in the midst of it.
fn reloaded(apache: Apache, reloads: usize) {
    let arm = arm_directory();
    let mut told = Some(Told::over(arm.path()));
    let directives = "Arm On\nArmApplication pages";
    let server = armed(apache, arm.path()).directive(directives).start().expect("it starts");
    let now = |told: &Option<Told>| told.as_ref().expect("it runs").status();
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut grown = 0;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let reply = Connection::open(server.port).and_then(|mut connection| {
                        connection.exchange(b"GET /1k.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    });
                    let reply = reply.expect("no request fails");
                    assert_eq!((reply.status, reply.body.len()), (200, 1024));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let over = Over(&is_over);
        let before = |count: u64| answered.load(Ordering::Relaxed) < count;
        let (mut first_kb, mut agent_kb) = (0, 0);
        for round in 0..reloads {
            let count = answered.load(Ordering::Relaxed);
            reload(&server);
            if round == reloads / 2 {
                // The next one begins when this one is gone.
                drop(told.take());
                told = Some(Told::over(arm.path()));
            }
            wait_for("answers after a reload", || !before(count + 40));
            if round == reloads / 4 {
                first_kb = resident(server.pid());
            }
            // The second agent has seen some generations by then.
            if round == reloads * 3 / 4 {
                agent_kb = now(&told).resident_bytes / 1024;
            }
        }
        grown = resident(server.pid()).saturating_sub(first_kb);
        let agent_now_kb = now(&told).resident_bytes / 1024;
        assert!(agent_now_kb < agent_kb + 30_000, "the agent: from {agent_kb} kB to {agent_now_kb}");
        drop(over);
    });
    let log = server.log();
    assert!(log.to_lowercase().contains("graceful restart"), "{log}");
    assert!(!log.contains("Segmentation") && !log.contains("exit signal"), "{log}");
    // A reload reads the configuration again; Apache itself leaves some of that behind.
    assert!(grown < 2_000 + reloads as u64 * 20, "the parent has grown by {grown} kB");
    wait_for("a transaction", || now(&told).counts.finished > 0);
    drop(server);
    wait_for("the ends of all children", || now(&told).processes == 0);
    let counts = now(&told).counts;
    assert_eq!((counts.lost(), counts.unmatched, counts.laneless), (0, 0, 0), "{counts:?}");
    nothing_stays_behind(told.take(), arm.path());
}

/// An agent removes now and then what processes have announced that are gone, and when it starts.
fn nothing_stays_behind(told: Option<Told>, arm: &Path) {
    drop(told);
    let _next = Told::over(arm);
    wait_for("the removal of all announcements", || announcements(arm).is_empty());
}

/// What processes have announced and nobody has removed.
fn announcements(arm: &Path) -> Vec<String> {
    let names = fs::read_dir(arm).expect("it is there").flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// How many reloads each model gets, and how many children prefork makes at each; `make soak-arm` asks for more.
fn asked(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(otherwise)
}

fn reloads() -> usize {
    asked("WEIR_RELOADS", 8) as usize
}

#[test]
fn prefork_is_reloaded_under_load() {
    if required().is_some() {
        reloaded(Apache::prefork().workers(asked("WEIR_CHILDREN_AT_ONCE", 6)), reloads());
    }
}

#[test]
fn worker_is_reloaded_under_load() {
    if required().is_some() {
        reloaded(Apache::worker().workers(8).processes(2), reloads());
    }
}

#[test]
fn event_is_reloaded_under_load() {
    if required().is_some() {
        reloaded(Apache::event().workers(8).processes(2), reloads());
    }
}

#[test]
fn children_come_and_go() {
    if required().is_none() {
        return;
    }
    // Prefork makes 32 a second at most.
    let children = 41_u64;
    let arm = arm_directory();
    let told = Told::over(arm.path());
    // Each child serves one connection.
    let apache = armed(Apache::prefork().workers(40), arm.path());
    let server = apache.directive("Arm On\nMaxConnectionsPerChild 1").start().expect("it starts");
    let left = AtomicU64::new(children);
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while take() {
                    let reply = Connection::open(server.port).and_then(|mut connection| connection.get("/1k.txt"));
                    assert_eq!(reply.expect("no request fails").status, 200);
                }
            });
        }
    });
    // And the one that the launcher asked.
    wait_for("all of them", || told.status().counts.finished > children);
    drop(server);
    wait_for("their ends", || told.status().processes == 0);
    let counts = told.status().counts;
    assert_eq!((counts.started, counts.finished, counts.unfinished), (children + 1, children + 1, 0), "{counts:?}");
    assert_eq!((counts.lost(), counts.definitions_dropped), (0, 0), "{counts:?}");
    nothing_stays_behind(Some(told), arm.path());
}
