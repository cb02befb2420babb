//! The `weir console` command: the runs of some directories, and what runs now, in a browser.

mod agent;
mod cluster;
mod live;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_console::{Console, ConsoleError, LiveAgent, LiveCluster, LiveServer, Settings};

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
  weir console --admin unix:admin.sock
      also what a server does now that was started with --admin unix:admin.sock
  weir console --admin 127.0.0.1:9100 --token token runs
      over TCP, with the file of the token, which the page never gets
  weir console --cluster /etc/weir/cluster
      also the map of a cluster, by its member on this machine: which node is
      hot, and what moved; the director's has the moves of all nodes
  weir console --arm
      also the business transactions that applications of this host report
      (ARM), as weir arm top and weir arm show tell of them
  ssh -L 8090:127.0.0.1:8090 host weir console --port 8090 runs
      runs on another host, in the browser here

In the page, ? shows its keys. A run is read when you open it, once: what is
made of it is kept in RUN/derived, which may be removed at any time.
Only this host can reach the page, and only with the random word in its address.
Runs are of one host each; for several hosts on one clock and for the chart of
objects use `weir view`.

Exit status: 0 if it was asked to stop, 1 if it cannot listen, 2 if a
directory, the token or the list of members cannot be read, or for wrong usage.";

/// Look at recorded runs and at what runs now in the browser
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs, or directories that hold runs
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,

    /// The port on 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// A server's --admin address, unix:PATH or ADDRESS:PORT: what it does now gets rooms of its own
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// File with the token that an admin address of TCP requires
    #[arg(long, value_name = "FILE", requires = "admin")]
    token: Option<PathBuf>,

    /// The directory of a cluster's member on this machine; several are of one cluster: it gets a room with its map
    #[arg(long, value_name = "DIR")]
    cluster: Vec<PathBuf>,

    /// Business transactions get rooms, by the agent of this directory [default: as weir arm has it]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    arm: Option<Option<PathBuf>>,
}

/// How often we check whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long an answer that is under way may take at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves the page until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = weir_terminal::stop::Stop::on_signals()?;
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("weir console: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
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
    weir_terminal::output::print(&format!("{runs}{} at {} (Ctrl-C ends it)\n", now(args), console.address()))?;
    while !stop.asked() {
        std::thread::sleep(LOOK);
    }
    console.stop(PATIENCE);
    Ok(ExitCode::SUCCESS)
}

/// What is shown.
fn settings(args: &Args) -> anyhow::Result<Settings> {
    let server = args.admin.as_deref().map(|admin| live::Server::new(admin, args.token.as_deref())).transpose()?;
    let cluster = (!args.cluster.is_empty()).then(|| cluster::Members::new(&args.cluster)).transpose()?;
    Ok(Settings {
        directories: args.directories.clone(),
        port: args.port,
        version: weir_terminal::VERSION.to_owned(),
        server: server.map(|server| Arc::new(server) as Arc<dyn LiveServer>),
        cluster: cluster.map(|members| Arc::new(members) as Arc<dyn LiveCluster>),
        agent: args.arm.clone().map(|directory| Arc::new(agent::Told::new(directory)) as Arc<dyn LiveAgent>),
    })
}

/// What is shown beside the runs, in words.
fn now(args: &Args) -> String {
    let mut words = String::new();
    if let Some(admin) = &args.admin {
        words.push_str(&format!(" and the server of {admin}"));
    }
    if let Some(first) = args.cluster.first() {
        words.push_str(&format!(" and the cluster of {}", first.display()));
    }
    if args.arm.is_some() {
        words.push_str(" and business transactions");
    }
    words
}
