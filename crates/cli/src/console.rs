//! The `weir console` command: all runs of some directories in a browser.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_console::{Console, ConsoleError, Settings};

const EXAMPLES: &str = "\
Examples:
  weir console
      the runs below this directory; prints an address for your browser,
      Ctrl-C ends it
  weir console runs
      those below runs
  weir console runs/before runs/after
      two runs, of which the room Compare shows what differs
  weir console --port 8090 runs
      always at the same port
  ssh -L 8090:127.0.0.1:8090 host weir console --port 8090 runs
      runs on another host, in the browser here

In the page, ? shows its keys. A run is read when you open it, once: what is
made of it is kept in RUN/derived, which may be removed at any time.
Only this host can reach the page, and only with the random word in its address.
It shows recorded runs, each of one host; for several hosts on one clock and for
the chart of objects use `weir view`. It shows nothing live.

Exit status: 0 if it was asked to stop, 1 if it cannot listen, 2 if a directory
cannot be read or for wrong usage.";

/// Look at recorded runs in the browser: answers, requests, a time chart, differences, SQL
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs, or directories that hold runs
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,

    /// The port on 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// How often we check whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long an answer that is under way may take at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves the page until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = weir_terminal::stop::Stop::on_signals()?;
    let settings =
        Settings { directories: args.directories.clone(), port: args.port, version: weir_terminal::VERSION.to_owned() };
    let mut console = match Console::begin(settings) {
        Ok(console) => console,
        Err(error @ ConsoleError::Directory { .. }) => {
            eprintln!("weir console: {error}");
            return Ok(ExitCode::from(2));
        }
        Err(error) => return Err(error.into()),
    };
    let runs = match console.runs() {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    weir_terminal::output::print(&format!("{runs} at {} (Ctrl-C ends it)\n", console.address()))?;
    while !stop.asked() {
        std::thread::sleep(LOOK);
    }
    console.stop(PATIENCE);
    Ok(ExitCode::SUCCESS)
}
