//! What stays in the agent of processes that have come and gone: nothing beyond the window of what finished lately.

use crate::kills::{process, ready};
use crate::wait_for;
use std::path::Path;
use weir_agent::connection::Connection;
use weir_agent::protocol::{AgentStatus, Answer, Ask};
use weir_agent::recent::MOST_RECENT;
use weir_arm::{Begin, CORRELATED, Field, Sort};

const ROLE: &str = "WEIR_AGENT_TEST_FOREBEAR";
/// Transactions of each process, and processes until the window is full, and behind that.
const EACH: u64 = 40;
const FIRST: u64 = MOST_RECENT as u64 / EACH + 40;
const MORE: u64 = 2000;

/// Does nothing where it runs as a test; the test below runs it in a process of its own, which has many children.
#[test]
fn as_a_forebear() {
    let Some(count) = std::env::var(ROLE).ok().and_then(|count| count.parse::<u64>().ok()) else { return };
    let named = |sort, of, name: &[u8]| {
        weir_arm::define(sort, 4, of, |writer| {
            writer.piece(Field::Name, 0, name);
        })
    };
    let application = named(Sort::Application, 0, b"short");
    let transaction = named(Sort::Transaction, application, b"work");
    for _ in 0..count {
        // SAFETY: the child calls nothing but the library, which is made for that, and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no process to be had");
        if child == 0 {
            for number in 0..EACH {
                let begin = Begin { transaction, flags: CORRELATED, ..Begin::default() };
                let handle = weir_arm::start_with(&begin, |telling| telling.piece(Field::User, 0, b"customer"));
                weir_arm::stop_with(handle, 0, |telling| telling.piece(Field::Uri, 0, &number.to_ne_bytes()));
            }
            // SAFETY: nothing of this process is needed any more.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: it waits for the child that was just made.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

#[test]
fn two_thousand_processes_that_come_and_go_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (arm, state) = (folder.path().join("arm"), folder.path().join("state"));
    for folder in [&arm, &state] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let mut agent = process("agent", &arm, &state);
    ready(&mut agent);
    let before = after(&arm, FIRST, 0);
    let now = after(&arm, MORE, before.counts.finished);
    let grown = now.resident_bytes.saturating_sub(before.resident_bytes);
    println!("{} bytes, then {} more", before.resident_bytes, grown);
    let _ = agent.kill();
    let _ = agent.wait();
    // Less than a hundred bytes of a process would be: measured are 0 to 40 of them.
    assert!(grown < 1_000_000, "{before:?} {now:?}");
    assert_eq!((now.counts.lost(), now.counts.unfinished, now.counts.definitions_dropped), (0, 0, 0));
}

/// What the agent says of itself when so many processes have come and gone.
fn after(arm: &Path, processes: u64, finished: u64) -> AgentStatus {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["memory::as_a_forebear", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, processes.to_string()).env("WEIR_ARM_DIR", arm);
    assert!(command.stdout(std::process::Stdio::null()).status().expect("it starts").success());
    let mut last = None;
    wait_for("their ends", || {
        let status = match Connection::open(arm).expect("it listens").ask(&Ask::Status) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("{other:?}"),
        };
        let are_gone = status.processes == 0 && status.counts.finished == finished + processes * EACH;
        last = Some(status);
        are_gone
    });
    last.expect("it was asked")
}
