//! What a node does while nothing moves: how often its threads wake, which a busy machine makes fewer and never more.

use crate::stand::{SERVICE, Stand};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Wakes in a second of all threads of a node but its loops. Heartbeats have 200, the director's and the node's own; the
/// rest is what is asked some times a second. When the server was asked for copies each 10 ms, and the director for nodes
/// that are down, there were 1,400.
const WAKES_MAX: f64 = 500.0;
/// Wakes in a second of a loop of which one connection is open and asks for nothing: deadlines, and readings.
const LOOP_WAKES_MAX: f64 = 20.0;
const WATCHED: Duration = Duration::from_secs(2);

/// How often each thread has slept until now, by its process and number: with whether it is a loop.
fn sleeps(processes: &[u32]) -> BTreeMap<(u32, String), (bool, u64)> {
    let mut all = BTreeMap::new();
    for process in processes {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks.map(|task| task.path()) {
            // One may have ended by now.
            let Ok(status) = fs::read_to_string(task.join("status")) else { continue };
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            let is_loop = field("Name:").starts_with("weir-loop");
            let count = field("voluntary_ctxt_switches:").parse().expect("a number");
            all.insert((*process, task.display().to_string()), (is_loop, count));
        }
    }
    all
}

/// Wakes in a second of the loops and of all other threads of a node while something is done.
fn wakes(stand: &Stand, meanwhile: impl FnOnce()) -> (f64, f64) {
    // The keeper is asked for moves alone.
    let processes = stand.processes_of(1);
    let (before, begun) = (sleeps(&processes), Instant::now());
    meanwhile();
    let (after, took) = (sleeps(&processes), begun.elapsed().as_secs_f64());
    let (mut of_loops, mut of_others) = (0, 0);
    for (thread, (is_loop, count)) in after {
        let more = count - before.get(&thread).map_or(0, |(_, before)| *before).min(count);
        *if is_loop { &mut of_loops } else { &mut of_others } += more;
    }
    (of_loops as f64 / took, of_others as f64 / took)
}

#[test]
fn a_node_is_hardly_woken_while_nothing_moves() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let stand = Stand::new(2, &[("a.txt", b"hello")]);
    // What is done once at the start is over.
    std::thread::sleep(Duration::from_secs(1));
    let (of_loops, of_others) = wakes(&stand, || std::thread::sleep(WATCHED));
    eprintln!("idle: {of_loops:.0} wakes of loops and {of_others:.0} of others in a second");
    assert!(of_others > 50.0, "there are heartbeats");
    assert!(of_others < WAKES_MAX && of_loops < LOOP_WAKES_MAX, "{of_loops} of loops, {of_others} of others");
    // Requests that are over at once wake none of the others.
    let (_, of_others) = wakes(&stand, || {
        let mut load = Command::new(env!("CARGO_BIN_EXE_weir"));
        load.args(["load", "-q", "-c", "4", "-d", "2s", &format!("http://{SERVICE}/a.txt")]);
        let mut load = stand.client.within(move || load.stdout(Stdio::null()).spawn().expect("weir starts"));
        assert!(load.wait().expect("it is ours").success());
    });
    eprintln!("under load: {of_others:.0} wakes of others in a second");
    assert!(of_others < WAKES_MAX, "{of_others} wakes in a second under load");
}
