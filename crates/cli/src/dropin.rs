//! The command lines of other load generators: `ab`, `http_load`, `httperf`, `wrk` and `k6` as they are typed, on our
//! engine.
//!
//! Each is found by the name that the program was called by (a link named `ab`) or as a subcommand (`weir ab`).
//! Their arguments are read by the originals' rules, so clap only passes them on.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

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
    weir_compat::http_load("http_load", args.words)
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
    weir_compat::httperf("httperf", args.words)
}

const WRK_EXAMPLES: &str = "\
Examples:
  weir wrk -t2 -c100 -d30s http://localhost:8080/index.html
      30 seconds over 100 connections, the report as wrk prints it
  weir wrk -c10 -d10s --latency -H 'Accept: text/html' http://localhost:8080/
      with a header in each request, and with percentiles
  weir wrk -d10s -s post.lua http://localhost:8080/api
      with a script of wrk's
  weir wrk -d10s -s counter.lua http://localhost:8080/ -- 7 eight
      with words for the script's init()

The options and scripts are those of wrk 4.2; weir wrk -h lists the options.
Scripts run by LuaJIT; a function that takes longer than --script-limit (10s)
ends the run. What scripts take is told apart, and is in no latency.";

/// wrk's command line, scripts and report, on this program's engine.
#[derive(Debug, clap::Args)]
#[command(after_help = WRK_EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct WrkArgs {
    /// What wrk takes: -t N -c N -d T -s script.lua -H 'Name: value' --latency --timeout T URL [-- words]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Runs `weir wrk`.
pub(crate) fn wrk(args: WrkArgs) -> anyhow::Result<ExitCode> {
    weir_compat::wrk("wrk", args.words)
}

const K6_EXAMPLES: &str = "\
Examples:
  weir k6 run script.js
      a script of k6, with its own options; the summary as k6 prints it
  weir k6 run --vus 10 --duration 30s script.js
      10 users for 30 seconds, in the place of its options
  weir k6 -e BASE=http://localhost:8080 --summary-export out.json script.js
      a variable for the script, and the summary in a file
  weir k6 run --stage 10s:50,1m:50,10s:0 script.js
      users that come and go
  weir k6 run --out json=values.json script.js
      each value with its tags, one by one

Scripts run unchanged; what is not there is refused with file, line and name.
The exit status is k6's: 99 if a threshold is missed. weir k6 -h lists all.";

/// k6's command line, scripts and summary, on this program's engine.
#[derive(Debug, clap::Args)]
#[command(after_help = K6_EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct K6Args {
    /// What k6 takes: [run] --vus N --duration T --iterations N --stage T:N -e NAME=VALUE SCRIPT.js
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Runs `weir k6`.
pub(crate) fn k6(args: K6Args) -> anyhow::Result<ExitCode> {
    weir_k6::run("k6", args.words)
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
    weir_compat::ab("ab", args.words)
}

/// Runs the program that this one was called as, if it was called by the name of one that it stands in for.
pub(crate) fn by_name(arguments: impl IntoIterator<Item = OsString>) -> Option<anyhow::Result<ExitCode>> {
    let mut arguments = arguments.into_iter();
    let called = arguments.next()?.into_string().ok()?;
    match Path::new(&called).file_name()?.to_str()? {
        "ab" => Some(weir_compat::ab(&called, arguments.collect())),
        "http_load" => Some(weir_compat::http_load(&called, arguments.collect())),
        "httperf" => Some(weir_compat::httperf(&called, arguments.collect())),
        "wrk" => Some(weir_compat::wrk(&called, arguments.collect())),
        "k6" => Some(weir_k6::run(&called, arguments.collect())),
        _ => None,
    }
}
