//! However an experiment ends, nothing that it started is left.
use crate::support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{alone, becomes_silent, command, plain_load, plan, role, run};
use weir_compare::{CpuAccountingChoice, Ending, Experiment, ExperimentError, Interrupt, Pair, Plan};
use weir_testkit::free_port;

/// Plays a role of these tests' own; whether it is one.
pub(crate) fn play(words: &[&str]) -> bool {
    match words {
        // experiment PORT MARK cgroup|tree: runs one until it is killed.
        ["experiment", port, mark, accounting] => {
            let mut planned = leaving(port.parse().expect("a port"), mark);
            planned.repetitions.blocks = 1000;
            if *accounting == "tree" {
                planned.accounting = CpuAccountingChoice::ProcessTree;
            }
            run(planned).expect("it is killed before it ends");
        }
        // leaking PORT cgroup|tree: the same with a server whose daemon keeps the port.
        ["leaking", port, accounting] => {
            let port = port.parse().expect("a port");
            let mut planned = plan(Pair::of_one_server(role(&format!("leaks {port}")), &plain_load()), port, port);
            planned.repetitions.blocks = 1000;
            if *accounting == "tree" {
                planned.accounting = CpuAccountingChoice::ProcessTree;
            }
            run(planned).expect("it is killed before it ends");
        }
        _ => return false,
    }
    true
}

/// A server that leaves a child behind which ignores polite signals; the child's command line has
/// the mark in it.
fn leaving(port: u16, mark: &str) -> Plan {
    let server = role(&format!("serve {port} 0"));
    let leaves = format!("(trap \"\" TERM INT HUP; exec -a x{mark} sleep 300) & exec {server}");
    let words = ["bash", "-c", &leaves].map(str::to_owned).to_vec();
    let server = weir_compare::CommandLine::from_words(words).expect("a command");
    plan(Pair::of_one_server(server, &plain_load()), port, port)
}

/// Processes whose command line begins with `x` and the mark.
fn marked(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    let command_lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    command_lines.filter(|line| line.starts_with(format!("x{mark}").as_bytes())).count()
}

/// Processes that play a role.
fn playing(role: &str) -> usize {
    let variable = format!("WEIR_TEST_ROLE={role}");
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    let environments = processes.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.filter(|text| text.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())).count()
}

fn eventually(what: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn when_it_is_done() {
    let _alone = alone();
    let port = free_port();
    let mark = format!("done{port}");
    run(leaving(port, &mark)).expect("the server works");
    assert!(becomes_silent(port));
    assert!(eventually(|| marked(&mark) == 0));
}

#[test]
fn when_something_panics() {
    let _alone = alone();
    let port = free_port();
    let mark = format!("panic{port}");
    let experiment = Experiment::new(leaving(port, &mark), Interrupt::default());
    let ended =
        catch_unwind(AssertUnwindSafe(|| experiment.run(&mut |progress| assert!(progress.slices_done < 2, "planted"))));
    assert!(ended.is_err());
    assert!(becomes_silent(port));
    assert!(eventually(|| marked(&mark) == 0));
}

/// This program again, as a process that can be killed.
fn started(ours: &weir_compare::CommandLine) -> std::process::Child {
    Command::new(ours.program())
        .args(ours.arguments())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program runs again")
}

#[test]
fn when_we_are_killed() {
    let _alone = alone();
    for accounting in ["cgroup", "tree"] {
        let port = free_port();
        let mark = format!("kill{port}");
        let mut experiment = started(&role(&format!("experiment {port} {mark} {accounting}")));
        assert!(eventually(|| marked(&mark) == 1), "the server's child is there");
        experiment.kill().expect("it runs");
        experiment.wait().expect("our child");
        assert!(becomes_silent(port));
        assert!(eventually(|| marked(&mark) == 0), "{accounting}");
    }
}

#[test]
fn a_daemon_ends_when_we_are_killed() {
    let _alone = alone();
    for accounting in ["cgroup", "tree"] {
        let port = free_port();
        let mut experiment = started(&role(&format!("leaking {port} {accounting}")));
        // The server and its daemon, which has neither group nor session in common with it.
        assert!(eventually(|| playing(&format!("leaks {port}")) >= 2), "the server has a daemon");
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "the server listens");
        experiment.kill().expect("it runs");
        experiment.wait().expect("our child");
        assert!(becomes_silent(port), "{accounting}");
        assert!(eventually(|| playing(&format!("leaks {port}")) == 0), "{accounting}");
    }
}

#[test]
fn a_daemon_that_keeps_the_port_neither_survives_nor_stops_the_next_start() {
    let _alone = alone();
    for accounting in [CpuAccountingChoice::Best, CpuAccountingChoice::ProcessTree] {
        let port = free_port();
        let server = || role(&format!("leaks {port}"));
        // One address: each slice has a server of its own.
        let mut planned = plan(Pair::of_servers(server(), server(), &plain_load()), port, port);
        planned.accounting = accounting;
        let outcome = run(planned).expect("each start has the port for itself");
        assert!(outcome.restarted && outcome.blocks.len() == 2, "{accounting:?}");
        // At once: the port was waited for.
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "{accounting:?}");
    }
}

#[test]
fn a_server_that_hangs_at_its_stop_and_prints_without_end_is_ended() {
    let _alone = alone();
    let port = free_port();
    let mut planned = plan(Pair::of_one_server(role(&format!("stubborn {port}")), &plain_load()), port, port);
    planned.repetitions.starts = Some(1);
    let outcome = run(planned).expect("it works while it runs");
    assert_eq!((outcome.ending, outcome.blocks.len()), (Ending::Done, 2));
    assert!(becomes_silent(port));
}

#[test]
fn an_interrupt_reports_what_was_done_and_a_second_ends_at_once() {
    let _alone = alone();
    let port = free_port();
    let stopped_at = |slices: usize, requests: usize| {
        let mut planned = leaving(port, "unmarked");
        planned.repetitions.blocks = 50;
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        Experiment::new(planned, interrupt).run(&mut move |progress| {
            if progress.slices_done == slices && progress.now.is_some() {
                (0..requests).for_each(|_| asked.request());
            }
        })
    };
    let outcome = stopped_at(4, 1).expect("two blocks were complete");
    assert_eq!(outcome.ending, Ending::Interrupted);
    // The slice that was being measured is done, but half a block does not count.
    assert_eq!(outcome.blocks.len(), 2);
    assert!(matches!(stopped_at(0, 1), Err(ExperimentError::Interrupted)));
    let began = Instant::now();
    let outcome = stopped_at(4, 2).expect("two blocks were complete");
    assert_eq!((outcome.ending, outcome.blocks.len()), (Ending::Interrupted, 2));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(becomes_silent(port));
}

#[test]
fn a_load_that_never_ends_does_not_survive_an_urgent_interrupt() {
    let _alone = alone();
    let port = free_port();
    let pair = Pair::of_one_server(role(&format!("serve {port} 0")), &command("sleep 300"));
    let interrupt = Interrupt::default();
    let later = interrupt.clone();
    let user = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        later.request();
        later.request();
    });
    let ended = Experiment::new(plan(pair, port, port), interrupt).run(&mut |_| ());
    user.join().expect("it only waits");
    assert!(matches!(ended, Err(ExperimentError::Interrupted)));
    assert!(becomes_silent(port));
}
