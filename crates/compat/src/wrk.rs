//! `weir wrk`: wrk's command line, scripts and report.

mod address;
mod arguments;
mod distribution;
mod driver;
mod error;
mod figures;
mod pipeline;
mod report;
mod script;
mod setup;
mod tally;
mod thread;
mod units;
mod watchdog;

use crate::system::monotonic_ns;
use crate::words::words_as_text;
use arguments::{Arguments, Asked};
use distribution::Distribution;
use error::NoRun;
use figures::Figures;
use script::{Script, Summary};
use setup::{Prepared, Worker};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::Tally;
use watchdog::Part;
use weir_load::LoadError;
use weir_terminal::output::print;
use weir_terminal::stop::Stop;

const USAGE: &str = "\
  Options, which may be shortened while they stay unique:
    -c, --connections <N>  Connections to keep open (10)
    -d, --duration    <T>  Duration of test (10s)
    -t, --threads     <N>  Number of threads to use (2)

    -s, --script      <S>  Load Lua script file
    -H, --header      <H>  Add header to request
        --latency          Print latency statistics
        --timeout     <T>  Responses later than this are time-outs (2s)
        --script-limit <T> Longest call of a script's function (10s)
    -v, --version          Print version details

  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)
  Words behind the URL, or behind --, go to the script's init()
";

/// The exit status of a script that cannot be run; that of a wrong command line is 1, as wrk has it.
const SCRIPT_STATUS: u8 = 2;
/// How often the user's wish to end, and threads that ended by themselves, are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long after the end the loops are told of it: they know it themselves.
const BEHIND_END: Duration = Duration::from_millis(10);

/// Runs the command; `program` is the name that it was called by.
///
/// # Errors
/// Its report cannot be written.
pub fn run(program: &str, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let usage = || format!("Usage: {program} <options> <url>\n{USAGE}");
    let arguments = match arguments::parse(&words_as_text(words)?) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Help) => return Ok(print(&usage()).map(|()| ExitCode::SUCCESS)?),
        Ok(Asked::Version) => {
            let text = format!("{program}: wrk 4.2.0 as weir {} has it, scripts by LuaJIT\n", weir_terminal::VERSION);
            return Ok(print(&text).map(|()| ExitCode::SUCCESS)?);
        }
        Err(mistake) => {
            eprint!("{program}: {mistake}\n{}", usage());
            return Ok(ExitCode::FAILURE);
        }
    };
    match measure(program, &arguments)? {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(wrong) => {
            flush_scripts();
            eprintln!("{program}: {wrong}");
            Ok(ExitCode::from(if matches!(wrong, NoRun::Script(_)) { SCRIPT_STATUS } else { 1 }))
        }
    }
}

/// Prepares a run, makes it, and prints what wrk prints.
fn measure(program: &str, arguments: &Arguments) -> anyhow::Result<Result<(), NoRun>> {
    let prepared = setup::prepare(program, arguments);
    flush_scripts();
    let Prepared { main, workers } = match prepared {
        Ok(prepared) => prepared,
        Err(wrong) => return Ok(Err(wrong)),
    };
    print(&report::heading(arguments.duration_s, &arguments.url, arguments.threads, arguments.connections))?;
    let stop = Stop::on_signals()?;
    let begin_ns = monotonic_ns();
    let outcome = work(&workers, &stop, Duration::from_secs(arguments.duration_s));
    flush_scripts();
    let mut all = Tally::default();
    let (mut first_ns, mut last_ns, mut stopped) = (u64::MAX, 0, true);
    let mut scripts: Vec<Script> = Vec::new();
    for worker in workers {
        match worker.finish() {
            // The script of each thread lives until `done` has asked for what it holds.
            Ok(script) => scripts.extend(script),
            Err(wrong) => return Ok(Err(wrong.into())),
        }
        let inner = worker.shared.lock();
        all.merge(&inner.tally);
        first_ns = first_ns.min(inner.begin_ns());
        last_ns = last_ns.max(inner.last_ns);
        stopped &= inner.stopped;
    }
    if let Err(wrong) = outcome {
        return Ok(Err(wrong.into()));
    }
    let end_ns = first_ns.saturating_add(arguments.duration_s * 1_000_000_000);
    let end_ns = if stopped { last_ns.max(begin_ns) } else { end_ns.min(monotonic_ns()) };
    let duration_us = (end_ns.saturating_sub(first_ns) / 1000).max(1);
    let summary = summary(&all, duration_us);
    let (latency, rates) = (Distribution::of(&all.latency), Distribution::of(&all.rates));
    print(&report::report(&summary, &latency, &rates, arguments.latency))?;
    if let Some(words) = report::of_scripts(&all, duration_us, arguments.threads) {
        eprintln!("weir: {words}");
    }
    if main.defines(Part::Done)
        && let Err(wrong) = main.done(&summary, Figures(latency), Figures(rates))
    {
        return Ok(Err(wrong.into()));
    }
    flush_scripts();
    drop(scripts);
    Ok(Ok(()))
}

/// What `done` is told.
fn summary(all: &Tally, duration_us: u64) -> Summary {
    let errors = [
        ("connect", all.connect_errors),
        ("read", all.read_errors),
        ("write", all.write_errors),
        ("status", all.status_errors),
        ("timeout", all.timeouts),
    ];
    Summary { duration_us, requests: all.complete, bytes: all.bytes, errors }
}

/// Runs all threads until the time is over, all have stopped, or the user ends the run.
fn work(workers: &[Worker], stop: &Stop, duration: Duration) -> Result<(), LoadError> {
    std::thread::scope(|scope| {
        let running: Vec<_> = workers.iter().map(|worker| scope.spawn(|| worker.run())).collect();
        let end = Instant::now() + duration + BEHIND_END;
        while Instant::now() < end && !stop.asked() && !running.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            if workers.iter().any(Worker::has_failed) {
                break;
            }
        }
        workers.iter().for_each(Worker::stop);
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(LoadError::Panicked)))
    })
}

/// Scripts print by the C library, which keeps what it has for a pipe: it goes out before what this program prints.
fn flush_scripts() {
    // SAFETY: null stands for all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}
