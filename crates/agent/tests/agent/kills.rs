//! What `kill -9` of the agent and of its clients costs: counted to the last transaction.

use crate::notes::{Notes, kept};
use crate::writer::Writer;
use crate::{agent, settings, status, wait_for};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_agent::{Agent, Settings};
use weir_wire::arm::{LANE_SLOTS, LANE_WRITTEN, LANES_AT};
use weir_wire::{Kind, Record};

const ROLE: &str = "WEIR_AGENT_TEST_ROLE";
const FOLDER: &str = "WEIR_AGENT_TEST_FOLDER";
const STATE: &str = "WEIR_AGENT_TEST_STATE";

/// This program again, in another role.
pub(crate) fn process(role: &str, folder: &Path, state: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["kills::in_another_role", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(FOLDER, folder).env(STATE, state);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
}

/// Waits for the line with which a process says that it is where it should be.
pub(crate) fn ready(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "it is never ready");
}

fn kept_settings(folder: &Path, state: &Path) -> Settings {
    Settings { state: Some(state.join("journal")), ..settings(folder) }
}

fn kept_agent(folder: &Path, state: &Path) -> Agent {
    let keeper = Box::new(Notes(state.to_owned()));
    Agent::start(kept_settings(folder, state), Some(keeper), None).expect("it starts")
}

/// Does nothing where it runs as a test; the tests below run it in a process of its own.
#[test]
fn in_another_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = |name: &str| std::path::PathBuf::from(std::env::var_os(name).expect("a folder"));
    let (folder, state) = (path(FOLDER), path(STATE));
    if role == "agent" {
        let _agent = kept_agent(&folder, &state);
        println!("ready");
        // Until it is killed, or its parent is gone.
        std::io::stdin().lines().for_each(drop);
        return;
    }
    let mut client = Writer::new(&folder);
    let buy = client.define_shop("buy");
    wait_for("the agent", || client.is_listened_to());
    for _ in 0..50 {
        let handle = client.start(0, buy, 0, None).expect("room");
        client.stop(0, handle, 0);
    }
    if role == "torn" {
        client.start(0, buy, 0, None).expect("room");
        // The process died when it had written half of a record: the position does not cover it.
        let written = client.position(0, LANE_WRITTEN).load(Ordering::Relaxed) as usize;
        let torn = Record { kind: Kind::ArmStart as u16, slots: 8, ..Record::default() };
        let place = LANES_AT / 8 + written % LANE_SLOTS * 4;
        client.word(place + 1).store(torn.to_slot()[1], Ordering::Relaxed);
    }
    println!("ready");
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn a_client_that_is_killed_in_the_middle_of_a_write_loses_that_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let mut client = process("torn", folder.path(), folder.path());
    ready(&mut client);
    client.kill().expect("ours");
    client.wait().expect("it ends");
    wait_for("its end", || status(&agent).processes == 0);
    let counts = status(&agent).counts;
    assert_eq!((counts.started, counts.finished, counts.unfinished, counts.damaged), (51, 51, 1, 0));
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).expect("the folder").flatten().map(|it| it.file_name()).collect();
    left.sort_unstable();
    assert_eq!(left, ["agent.sock", "memory.sock"], "its announcement is removed");
}

#[test]
fn a_hundred_processes_come_and_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let mut clients: Vec<Child> = (0..100).map(|_| process("client", folder.path(), folder.path())).collect();
    clients.iter_mut().for_each(ready);
    wait_for("all", || status(&agent).counts.finished == 5000 && status(&agent).processes == 100);
    for client in &mut clients {
        client.kill().expect("ours");
        client.wait().expect("it ends");
    }
    wait_for("their end", || status(&agent).processes == 0);
    let counts = status(&agent).counts;
    assert_eq!((counts.started, counts.finished, counts.lost()), (5000, 5000, 0));
}

/// What a client's threads have made.
#[derive(Default)]
struct Made {
    finished: AtomicU64,
    refused: AtomicU64,
    /// Begun, but the end found no room.
    without_end: AtomicU64,
}

fn work(client: &Writer, lanes: (usize, usize), buy: u16, made: &Made, ending: &AtomicBool) {
    while !ending.load(Ordering::Relaxed) {
        // Bursts now and then fill the ring while no agent is there.
        for _ in 0..200 {
            let Some(handle) = client.start(lanes.0, buy, 0, None) else {
                made.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if client.stop(lanes.1, handle, 0) {
                made.finished.fetch_add(1, Ordering::Relaxed);
            } else {
                made.refused.fetch_add(1, Ordering::Relaxed);
                made.without_end.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_agent_that_is_killed_a_hundred_times_under_load_counts_everything_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = tempfile::tempdir().expect("a folder");
    let (mut one_lane, mut several) = (Writer::new(folder.path()), Writer::new(folder.path()));
    let (buy, look) = (one_lane.define_shop("buy"), several.define_shop("look"));
    let (made, ending) = (Made::default(), AtomicBool::new(false));
    let begun = Instant::now();
    let (first, second) = (&one_lane, &several);
    std::thread::scope(|scope| {
        let (made, stop) = (&made, &ending);
        scope.spawn(move || work(first, (0, 0), buy, made, stop));
        scope.spawn(move || work(second, (0, 1), look, made, stop));
        scope.spawn(move || work(second, (2, 2), look, made, stop));
        for _ in 0..100 {
            let mut agent = process("agent", folder.path(), state.path());
            ready(&mut agent);
            std::thread::sleep(Duration::from_millis(30));
            agent.kill().expect("ours");
            agent.wait().expect("it ends");
        }
        ending.store(true, Ordering::Relaxed);
    });
    let last = kept_agent(folder.path(), state.path());
    let quiet = |agent: &Agent| {
        let before = status(agent).counts.records;
        std::thread::sleep(Duration::from_millis(100));
        status(agent).counts.records == before
    };
    wait_for("the rest", || quiet(&last));
    drop(last.stop());
    let batches = kept(state.path());
    let sum = |count: fn(&weir_agent::protocol::Counts) -> u64| -> u64 {
        batches.iter().map(|batch| count(&batch.counts)).sum()
    };
    let folded: u64 = batches.iter().flat_map(|batch| &batch.folds).map(|fold| fold.outcomes.all()).sum();
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (finished, refused) = (of(&made.finished), of(&made.refused));
    println!(
        "{finished} finished and {refused} refused in {:.1} s; recovered {}, unmatched {}",
        begun.elapsed().as_secs_f64(),
        sum(|counts| counts.recovered),
        sum(|counts| counts.unmatched)
    );
    assert!(finished > 50_000, "there was load");
    assert_eq!(sum(|counts| counts.dropped), refused, "losses counted are losses made");
    // A begin that was read by an agent that was killed is written over if the ring fills up before the next one.
    let unmatched = sum(|counts| counts.unmatched);
    assert!(unmatched <= 100, "{unmatched}");
    assert_eq!(sum(|counts| counts.finished) + unmatched, finished);
    assert_eq!(folded + unmatched, finished, "and all are in the figures");
}
