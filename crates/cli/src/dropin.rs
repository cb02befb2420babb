//! The command lines of other load generators: `ab`, `http_load` and `httperf` as they are typed, on our engine.
//!
//! Each is found by the name that the program was called by (a link named `ab`) or as a subcommand (`weir ab`).
//! Their arguments are read by the originals' rules, so clap only passes them on.

mod ab;
mod getopt;
mod heads;
mod http_load;
mod httperf;
mod printf;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, LoadReport, Options};
use weir_terminal::stop::Stop;

/// How often the user's wish to end is looked at.
const TICK: Duration = Duration::from_millis(50);
/// The most connections of a rate.
const CONNECTIONS_MAX: u64 = 8192;
/// The largest list that is read, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// Files that a run has open besides its connections and those that linger.
const OTHER_FILES: u64 = 1024 + 64;

const AB_EXAMPLES: &str = "\
Examples:
  weir ab -n 5000 -c 10 http://localhost:8080/index.html
      5000 requests, 10 at a time, the report as ApacheBench prints it
  weir ab -k -t 10 -c 50 http://localhost:8080/
      10 seconds over kept-alive connections
  weir ab -n 1000 -p body.json -T application/json http://localhost:8080/api
      each request with the body from a file
  weir ab -q -n 1000 -e percentiles.csv -g samples.tsv http://localhost:8080/
      files for a spreadsheet and for gnuplot
  weir ab --strict -n 5000 -c 10 http://localhost:8080/
      with the original's arithmetic where that of weir differs

The options are those of ApacheBench 2.4; weir ab -h lists them.";

const HTTP_LOAD_EXAMPLES: &str = "\
Examples:
  weir http_load -parallel 5 -fetches 1000 urls
      1000 fetches of URLs chosen at random from the file urls, 5 at a time
  weir http_load -rate 860 -seconds 5 urls
      860 fetches a second, whether the server keeps up or not
  weir http_load -checksum -parallel 10 -seconds 30 urls
      each fetch of a URL must have the same content as its first
  weir http_load --seed 7 -parallel 5 -fetches 1000 urls
      the same choice of URLs each time

Each line of the file is a URL. weir http_load --help lists the options.";

/// http_load's command line and report, on this program's engine.
#[derive(Debug, clap::Args)]
#[command(after_help = HTTP_LOAD_EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct HttpLoadArgs {
    /// What http_load takes: -parallel N | -rate N, -fetches N | -seconds N, a file of URLs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Runs `weir http_load`.
pub(crate) fn http_load(args: HttpLoadArgs) -> anyhow::Result<ExitCode> {
    http_load::run("http_load", args.words)
}

const HTTPERF_EXAMPLES: &str = "\
Examples:
  weir httperf --server localhost --port 8080 --rate 860 --num-conns 5000
      860 new connections a second with one call each
  weir httperf --server localhost --port 8080 --num-conns 500
      one connection after the other
  weir httperf --server localhost --port 8080 --num-calls 1000
      1000 calls, one after the other, on one connection
  weir httperf --server localhost --port 8080 --period e0.01 --num-conns 500
      exponentially distributed times between connections, 10 ms on average

Options may be shortened while they stay unique; weir httperf -h lists them.";

/// httperf's command line and report, on this program's engine.
#[derive(Debug, clap::Args)]
#[command(after_help = HTTPERF_EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct HttperfArgs {
    /// What httperf takes: --server S --port N --uri S --rate X --num-conns N --num-calls N and more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Runs `weir httperf`.
pub(crate) fn httperf(args: HttperfArgs) -> anyhow::Result<ExitCode> {
    httperf::run("httperf", args.words)
}

/// ApacheBench's command line and report, on this program's engine.
#[derive(Debug, clap::Args)]
#[command(after_help = AB_EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct AbArgs {
    /// What ab takes: [options] [http[s]://]hostname[:port]/path
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Runs `weir ab`.
pub(crate) fn ab(args: AbArgs) -> anyhow::Result<ExitCode> {
    ab::run("ab", args.words)
}

/// Runs the program that this one was called as, if it was called by the name of one that it stands in for.
pub(crate) fn by_name(arguments: impl IntoIterator<Item = OsString>) -> Option<anyhow::Result<ExitCode>> {
    let mut arguments = arguments.into_iter();
    let called = arguments.next()?.into_string().ok()?;
    match Path::new(&called).file_name()?.to_str()? {
        "ab" => Some(ab::run(&called, arguments.collect())),
        "http_load" => Some(http_load::run(&called, arguments.collect())),
        "httperf" => Some(httperf::run(&called, arguments.collect())),
        _ => None,
    }
}

/// The arguments as text, which all of these programs take them for.
fn words_as_text(words: Vec<OsString>) -> anyhow::Result<Vec<String>> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| anyhow::anyhow!("{}: an argument is no UTF-8 text", word.display()))
    };
    words.into_iter().map(text).collect()
}

/// What the C library calls an error: `Connection refused`.
fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

/// The number of an error of the kernel's.
fn error_number(error: &io::Error) -> Option<i32> {
    error.raw_os_error()
}

/// Runs a load until its own end, the time limit or the user's wish; calls `tick` from time to time meanwhile.
fn limited(
    options: Options,
    control: &Control,
    stop: &Stop,
    limit: Option<Duration>,
    mut tick: impl FnMut(),
) -> Result<LoadReport, LoadError> {
    std::thread::scope(|scope| {
        let (done, over) = channel();
        let load = scope.spawn(move || {
            let report = weir_load::run(options, control);
            // It fails only where the receiver is gone, and then this thread's report is no longer wanted.
            let _ = done.send(());
            report
        });
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            match over.recv_timeout(TICK.min(left.max(Duration::from_millis(1)))) {
                Err(RecvTimeoutError::Timeout) => tick(),
                _ => break,
            }
            if stop.asked() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                control.stop();
            }
        }
        load.join().unwrap_or(Err(LoadError::Panicked))
    })
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The most files that this process may have open.
fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result; without one there is the least that everybody has.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known { limit.rlim_max } else { 1024 }
}

/// As many connections as the limit on open files has room for, within reason.
fn connections_of_a_rate(hosts: u64) -> u32 {
    let connections = open_files_max().saturating_sub(OTHER_FILES).max(16) / hosts.max(1);
    connections.clamp(1, CONNECTIONS_MAX) as u32
}
