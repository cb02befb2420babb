//! Graceful reloads, children that come and go, agents that die: no request fails, and nothing stays behind.
//!
//! Small here; `make soak-arm` asks for a thousand reloads and a hundred thousand children.

use crate::{armed, required};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use weir_testkit::client::Connection;
use weir_testkit::{Apache, RunningServer};
use weir_web_modules::turnover::{Turnover, be_an_agent_if_asked, nothing_is_lost_or_stays, nothing_stays_behind};
use weir_web_modules::{Told, arm_directory, asked, wait_for};

#[test]
fn an_agent_of_its_own() {
    be_an_agent_if_asked();
}

fn reload(server: &RunningServer) {
    // SAFETY: a signal to a process that this test has started.
    unsafe { libc::kill(server.pid() as i32, libc::SIGUSR1) };
}

/// Asks by a connection of its own; where the model resets one now and then, once more, and counts it.
fn ask(port: u16, resets: Option<&AtomicU64>) {
    let exchange = || {
        Connection::open(port).and_then(|mut connection| {
            connection.exchange(b"GET /1k.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        })
    };
    let mut reply = exchange();
    if let (Err(error), Some(resets)) = (&reply, resets)
        && error.kind() == ErrorKind::ConnectionReset
    {
        resets.fetch_add(1, Ordering::Relaxed);
        reply = exchange();
    }
    let reply = reply.expect("no request fails");
    assert_eq!((reply.status, reply.body.len()), (200, 1024));
}

/// Reloads a server under load, with agents that are killed in the midst of it.
fn reloaded(model: &str, apache: Apache) {
    // Event resets what waits for it at some reloads, without the module as well: the test behind this one counts both.
    let resets = (model == "event").then(|| AtomicU64::new(0));
    let arm = arm_directory();
    let server = armed(apache, arm.path()).directive("Arm On\nArmApplication pages").start().expect("it starts");
    let reloads = asked("WEIR_RELOADS", 8) as usize;
    let turnover = Turnover {
        reloads,
        answers: u64::from(asked("WEIR_ANSWERS", 40)),
        ask: &|| ask(server.port, resets.as_ref()),
        reload: &|| reload(&server),
        parent: server.pid(),
        arm: arm.path(),
        role: "reloads::an_agent_of_its_own",
    };
    let (seen, agent) = turnover.run();
    println!("{model}: {seen:?}, reset by the model itself: {resets:?}");
    // An incident takes all that wait.
    assert!(resets.is_none_or(|resets| resets.into_inner() <= 4 + reloads as u64 / 50), "{model}");
    let log = server.log();
    assert!(log.to_lowercase().contains("graceful restart"), "{log}");
    assert!(!log.contains("Segmentation") && !log.contains("exit signal"), "{log}");
    // A reload reads the configuration again; Apache itself leaves some of that behind.
    assert!(seen.parent_grew_kb() < 2_000 + reloads as u64 * 20, "{seen:?}");
    drop(server);
    nothing_is_lost_or_stays(agent);
}

#[test]
fn prefork_is_reloaded_under_load() {
    if required().is_some() {
        reloaded("prefork", Apache::prefork().workers(6));
    }
}

#[test]
fn worker_is_reloaded_under_load() {
    if required().is_some() {
        reloaded("worker", Apache::worker().workers(8).processes(2));
    }
}

#[test]
fn event_is_reloaded_under_load() {
    if required().is_some() {
        reloaded("event", Apache::event().workers(8).processes(2));
    }
}

/// Event by itself, and with the module, in turn: how many connections each resets. For people to compare, with many
/// reloads (`WEIR_RELOADS`), as there are a few in a thousand; here it is shown that both are reloaded alike.
#[test]
fn event_is_reloaded_with_and_without_the_module() {
    if required().is_none() {
        return;
    }
    let reloads = asked("WEIR_RELOADS", 4) as usize;
    let blocks = (reloads / 25).max(1);
    let (mut resets, mut answers) = ([0u64; 2], [0u64; 2]);
    for turn in 0..2 * blocks {
        // The one that comes second in a pair comes first in the next.
        let is_armed = (turn + turn / 2) % 2 == 0;
        let arm = arm_directory();
        let apache = Apache::event().workers(8).processes(2);
        let apache = if is_armed { armed(apache, arm.path()).directive("Arm On") } else { apache };
        let server = apache.start().expect("it starts");
        let (reset, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        let turnover = Turnover {
            reloads: reloads / blocks,
            answers: u64::from(asked("WEIR_ANSWERS", 40)),
            ask: &|| {
                ask(server.port, Some(&reset));
                answered.fetch_add(1, Ordering::Relaxed);
            },
            reload: &|| reload(&server),
            parent: server.pid(),
            arm: arm.path(),
            role: "reloads::an_agent_of_its_own",
        };
        drop(turnover.run());
        resets[usize::from(is_armed)] += reset.into_inner();
        answers[usize::from(is_armed)] += answered.into_inner();
        println!("without and with: {resets:?} connections reset, {answers:?} requests answered");
    }
    let most = 4 + reloads as u64 / 50;
    assert!(resets.iter().all(|resets| *resets <= most), "{resets:?} of {answers:?}");
}

#[test]
fn children_come_and_go() {
    if required().is_none() {
        return;
    }
    // By itself prefork makes 32 a second at most: where more are asked for, reloads replace those that have served.
    let children = u64::from(asked("WEIR_CHILDREN", 41));
    let at_once = asked("WEIR_CHILDREN_AT_ONCE", 40);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    // Each child serves one connection.
    let apache = armed(Apache::prefork().workers(at_once), arm.path());
    let server = apache.directive("Arm On\nMaxConnectionsPerChild 1").start().expect("it starts");
    let (left, answered) = (AtomicU64::new(children), AtomicU64::new(0));
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    while take() {
                        let reply = Connection::open(server.port).and_then(|mut connection| connection.get("/1k.txt"));
                        assert_eq!(reply.expect("no request fails").status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut next = u64::from(at_once);
        while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            if answered.load(Ordering::Relaxed) >= next {
                next += u64::from(at_once) * 9 / 10;
                reload(&server);
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    // And the one that the launcher asked.
    wait_for("all of them", || told.status().counts.finished > children);
    drop(server);
    wait_for("their ends", || told.status().processes == 0);
    let counts = told.status().counts;
    println!("{children} children of one connection: {counts:?}");
    assert_eq!((counts.started, counts.finished, counts.unfinished), (children + 1, children + 1, 0), "{counts:?}");
    assert_eq!((counts.lost(), counts.definitions_dropped), (0, 0), "{counts:?}");
    drop(told);
    nothing_stays_behind(arm.path());
}
