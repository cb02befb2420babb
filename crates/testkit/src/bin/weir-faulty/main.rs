//! Small real web servers with a planted fault each: every request is answered at once, but for
//! the one thing that it waits for.
//!
//! They stand on the standard library and system calls alone, so that a trace of them shows the
//! fault and nothing else.

mod accept_queue;
mod blocking;
mod downstream;
mod event;
mod functions;
mod held;
mod herd;
mod hog;
mod http;
mod misbehave;
mod mutex;
mod options;
mod plain;
mod sleep;
mod slow_fs;
mod slow_handler;
mod stall;
mod storage;
mod work;

use std::process::ExitCode;

use options::{Failure, Options};

const HELP: &str = "\
usage: weir-faulty FAULT [--port N] [options]

Serves HTTP/1.1 on 127.0.0.1 (any port without --port), prints `listening on 127.0.0.1:PORT`, and
runs until it gets SIGTERM or SIGINT.

faults:
  plain [--threads N]      none: N threads (2), each with an event loop
  hog --cpu N [--hogs N] [--nice N]
                           a child named weir-hog burns the CPU that the server is bound to;
                           the server steps back behind it by 19 steps of nice
  mutex [--hold-ms N] [--gap-ms N]
                           a thread holds the lock that each request takes, 20 of each 25 ms
  held LOCK [--hold-ms N] [--gap-ms N]
                           a process named weir-holder has the file lock (flock, fcntl) that each
                           request takes, 20 of each 25 ms; pthread: a thread has the mutex
  storage HOW              each request reads what is not in memory: by faults of a mapped file
                           (fault), or past the page cache (direct)
  sleep [--ms N] [--poll] [--each N]
                           each request, or each Nth, sleeps 5 ms, or polls nothing for so long
  downstream [--ms N]      each request asks a process named weir-downstream, which takes 10 ms
  herd FILE [--processes N]
                           50 processes named weir-herd are all woken for each connection; FILE
                           counts, as numbers of 64 bits: processes that are ready, connections
                           accepted, those after a sleep, times that there was none, those without
                           a sleep before, sleeps for other things than a connection
  functions [--hot-ms N] [--warm-ms N]
                           each request burns 6 ms in hot_function and 2 ms in warm_function
  slow-handler [--ms N] [--sleep]
                           one event loop, in which /slow burns (or sleeps) 20 ms
  accept-queue [--ms N] [--sleep]
                           one worker takes a connection at a time and works 5 ms for each
  stall [--ms N] [--every N] [--long-ms N --long-each N]
                           one event loop that stops for 200 ms in each 1000 ms; each Nth time
                           for --long-ms
  slow-fs DIRECTORY [--ms N]
                           no server: a file system (FUSE) on the directory, in the process
                           weir-slow-fs; each fsync takes 20 ms; prints `mounted on DIRECTORY`
  misbehave KIND           close-in-body, reset, never, early, garbage, truncated-chunked,
                           long-length, short-length, informational or close-unanswered (each
                           third request of a connection)
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("weir-faulty: {message}\n\n{HELP}");
            ExitCode::from(2)
        }
        Err(Failure::Run(error)) => {
            eprintln!("weir-faulty: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut options = Options::parse(std::env::args().skip(1))?;
    let fault = options.word("FAULT")?;
    match fault.as_str() {
        "plain" => plain::run(options),
        "herd" => herd::run(options),
        "functions" => functions::run(options),
        "hog" => hog::run(options),
        "mutex" => mutex::run(options),
        "held" => held::run(options),
        "storage" => storage::run(options),
        "sleep" => sleep::run(options),
        "downstream" => downstream::run(options),
        "slow-handler" => slow_handler::run(options),
        "accept-queue" => accept_queue::run(options),
        "slow-fs" => slow_fs::run(options),
        "stall" => stall::run(options),
        "misbehave" => misbehave::run(options),
        "help" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::Usage(format!("there is no fault `{other}`"))),
    }
}
