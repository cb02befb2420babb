//! The command lines of other load generators: `ab` and `http_load` as they are typed, on our engine.
//!
//! Each is found by the name that the program was called by (a link named `ab`) or as a subcommand (`weir ab`).
//! Their arguments are read by the originals' rules, so clap only passes them on.

mod ab;
mod getopt;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const AB_EXAMPLES: &str = "\
Examples:
  weir ab -n 5000 -c 10 http://localhost:8080/index.html
      5000 requests, 10 at a time, the report as ApacheBench prints it
  weir ab -k -t 10 -c 50 http://localhost:8080/
      10 seconds over kept-alive connections
  weir ab -n 1000 -p body.json -T application/json http://localhost:8080/api
      a body of a file for each request
  weir ab -q -n 1000 -e percentiles.csv -g samples.tsv http://localhost:8080/
      files for a spreadsheet and for gnuplot
  weir ab --strict -n 5000 -c 10 http://localhost:8080/
      with the original's arithmetic where ours differs from it

The options are those of ApacheBench 2.4; weir ab -h lists them.";

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
