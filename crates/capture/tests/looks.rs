//! Where much happens the collector looks at its rings often and briefly: whoever shares its CPU stands still for as long
//! as a look takes, and a look at 20 ms of a busy server takes a millisecond.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_capture::{Probes, Recorder, Target};
use weir_testkit::require;
use weir_trace::{Limits, Run, RunReader};
use weir_wire::Kind;
use weir_wire::task::Switch;

/// The collector's thread.
const COLLECTOR: &str = "weir-record";
const STRETCH_NS: u64 = 250_000_000;

#[test]
fn it_rests_briefly_where_much_happens() {
    if require::socket_tracepoints().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = Run::create(folder.path()).expect("a run");
    let target = Target::of_pid(std::process::id()).expect("it is us");
    let recorder = Recorder::start(Probes::load().expect("probes"), &target, &run, Limits::default());
    let recorder = recorder.expect("a recording");
    let collector = thread_named(COLLECTOR);
    talk_for(Duration::from_secs(3));
    recorder.finish(Vec::new()).expect("a whole run");

    // By stretches of a quarter of a second: others on the machine may let us do much in one and little in the next.
    let (mut stretches, mut asleep_ns) = (HashMap::<u64, (u64, Vec<Duration>)>::new(), None);
    RunReader::open(folder.path()).expect("the run").merge().each(|sourced| {
        let record = &sourced.record;
        let (events, rests) = stretches.entry(record.time_ns / STRETCH_NS).or_default();
        *events += 1;
        match Switch::read(record) {
            Some(switch) if switch.prev == collector && switch.prev_state != 0 => asleep_ns = Some(record.time_ns),
            _ => {}
        }
        // Until it is woken, not until it has a CPU: others may want that, too.
        if record.kind == Kind::Waking as u16
            && record.a_halves().1 == collector
            && let Some(since_ns) = asleep_ns.take()
        {
            rests.push(Duration::from_nanos(record.time_ns - since_ns));
        }
        true
    });
    let busiest = stretches.into_values().max_by_key(|(events, _)| *events);
    let (events, mut rests) = busiest.expect("something happened");
    rests.sort();
    let middle = rests.get(rests.len() / 2).copied().expect("it rested");
    println!("{events} events, {middle:?} in the middle of {} rests", rests.len());
    assert!(events > 15_000, "{events} events in a quarter of a second: too few to tell");
    // A fixed rest would be 20 ms.
    assert!(middle < Duration::from_millis(10), "{middle:?} in the middle of {} rests, {events} events", rests.len());
}

/// Two threads that send each other a byte, as fast as they can.
fn talk_for(time: Duration) {
    let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while other.read(&mut byte).is_ok_and(|count| count == 1) {
                other.write_all(&byte).expect("it listens");
            }
        });
        let enough = &enough;
        scope.spawn(move || {
            let mut byte = [7];
            while !enough.load(Ordering::Relaxed) {
                one.write_all(&byte).expect("it listens");
                one.read_exact(&mut byte).expect("it answers");
            }
        });
        std::thread::sleep(time);
        enough.store(true, Ordering::Relaxed);
    });
}

/// The number of a thread of this process; it takes its name itself, when it first runs.
fn thread_named(name: &str) -> u32 {
    let of_name = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    for _ in 0..1000 {
        let threads = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
        if let Some(found) = threads.into_iter().find(of_name) {
            return found.file_name().to_str().and_then(|number| number.parse().ok()).expect("a number");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no thread {name}");
}
