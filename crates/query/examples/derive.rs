//! How long the derived tables of a run take: made the first time, and found the second time.
//!
//! `cargo run --release -p weir-query --example derive` takes a run of half a million events that it makes itself, of a
//! server of eight tasks on two CPUs; `… --example derive 1000000` one of a million, `… --example derive RUN` your own.
//! It prints a line for each table: rows, milliseconds the first time (with all tables of its group), and the second.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use weir_query::{Origin, Queries, TABLES};
use weir_trace::{Limits, Run, Source, StreamWriter, WriteError};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

const EVENTS: u64 = 500_000;
const CPUS: u32 = 2;
const TASKS: u32 = 8;
/// Events of a request: its data arrives, wakes a task, which runs, takes them, answers and sleeps.
const OF_REQUEST: u64 = 6;
/// From one request of a CPU to the next, nanoseconds.
const APART_NS: u64 = 50_000;

fn main() -> ExitCode {
    let told = std::env::args().nth(1);
    match measured(told.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("derive: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measured(told: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let events = told.map_or(Some(EVENTS), |told| told.parse().ok());
    let run = match (events, told) {
        (Some(events), _) => made(folder.path(), events)?,
        (None, told) => PathBuf::from(told.unwrap_or_default()),
    };
    let mut queries = Queries::open(&run, Arc::new(|_| true))?;
    println!("events: {}", queries.rows("SELECT count(*) FROM events")?[0][0]);
    for table in TABLES.iter().filter(|table| matches!(table.origin, Origin::Derived(_))) {
        let question = format!("SELECT count(*) FROM {}", table.name);
        let mut ask = || -> Result<(String, f64), weir_query::QueryError> {
            let begun = Instant::now();
            let rows = queries.rows(&question)?[0][0].clone();
            Ok((rows, begun.elapsed().as_secs_f64() * 1e3))
        };
        let ((rows, first_ms), (_, second_ms)) = (ask()?, ask()?);
        println!("{}: {rows} rows, {first_ms:.1} ms first, {second_ms:.1} ms then", table.name);
    }
    Ok(())
}

/// Makes a run of so many events, or a few more.
fn made(folder: &Path, events: u64) -> Result<PathBuf, WriteError> {
    let run = Run::create(folder)?;
    run.begin(Source::Kernel, "0", Vec::new(), None, None)?;
    let mut streams: Vec<StreamWriter> =
        (0..CPUS).map(|cpu| run.stream(Source::Kernel, cpu, Limits::default())).collect();
    let address = |port: u16| ([127, 0, 0, 1], port).into();
    for task in 1..=TASKS {
        let (name, own) = (text_slots(&format!("worker{task}")), 100 + task);
        let a = u64::from(own) | u64::from(own) << 32;
        let (kind, slots) = (Kind::TaskName as u16, name.len() as u8);
        let cpu = task % CPUS;
        let named = Record { time_ns: 1, kind, flags: 1, slots, lane: cpu, a, ..Record::default() };
        streams[cpu as usize].push(named, &name, None)?;
        let (local, remote) = (address(80), address(40_000 + task as u16));
        let open = SocketOpen { socket: task, receive_base: 0, send_base: 0, cookie: 0, netns: 1, local, remote };
        let (record, slots) = open.write(2, cpu);
        streams[cpu as usize].push(record, &slots, None)?;
    }
    for request in 0..events / OF_REQUEST {
        let (cpu, turn) = ((request % u64::from(CPUS)) as u32, request / u64::from(CPUS));
        // A CPU has its own tasks, and each its own connection.
        let task = match (turn % u64::from(TASKS / CPUS)) as u32 * CPUS + cpu {
            0 => TASKS,
            task => task,
        };
        let bytes = (turn / u64::from(TASKS / CPUS) + 1) as u32 * 100;
        let at_ns = 1_000 + turn * APART_NS;
        let pid = 100 + task;
        let touched = u64::from(task) | u64::from(bytes) << 32;
        let event = |ns: u64, kind: Kind, a: u64| Record {
            time_ns: at_ns + ns,
            kind: kind as u16,
            lane: cpu,
            a,
            ..Record::default()
        };
        let switch = |ns: u64, prev: u32, next: u32| {
            Switch { prev, next, prev_state: 1, syscall: NO_SYSCALL, descriptor: 0 }.write(at_ns + ns, cpu)
        };
        for record in [
            event(0, Kind::SocketReady, touched),
            event(100, Kind::Waking, u64::from(pid) << 32),
            switch(2_000, 0, pid),
            event(3_000, Kind::SocketRecv, touched),
            event(9_000, Kind::SocketSend, touched),
            switch(10_000, pid, 0),
        ] {
            streams[cpu as usize].push(record, &[], None)?;
        }
    }
    for stream in streams {
        stream.finish()?;
    }
    Ok(folder.to_owned())
}
