//! The `weir console` command: the runs of some directories, and what runs now, in a browser.

mod agent;
mod cluster;
mod live;
mod replayed;
mod within;

use crate::admin_client::AdminAddress;
use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_console::{Console, ConsoleError, LiveAgent, LiveCluster, LiveReplay, LiveServer, Settings};
pub(crate) use within::OwnConsole;

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
  weir console --admin 10.0.0.1:9100 --admin 10.0.0.2:9100 --token token
      several servers side by side, up to 8, with the same token; --token for
      each of them, in their order, where they differ
  weir console --cluster /etc/weir/cluster
      also the map of a cluster, by its member on this machine: which node is
      hot, and what moved; the director's has the moves of all nodes
  weir console --arm
      also the business transactions that applications of this host report
      (ARM), as weir arm top and weir arm show tell of them
  weir console --admin unix:admin.sock --decisions log.jsonl
      also what another policy would have done on what the server recorded,
      which was started with --policy FILE --decisions log.jsonl
  ssh -L 8090:127.0.0.1:8090 host weir console --port 8090 runs
      runs on another host, in the browser here

Loads that run now below the directories have a room of their own, if they keep
a run: weir load --run, weir explain --load.
A server with --admin ADDR shows what it does by itself, too, at /console/.
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

    /// A server's --admin address, unix:PATH or ADDRESS:PORT: what it does now gets rooms of its own; again for more
    #[arg(long, value_name = "ADDR")]
    admin: Vec<String>,

    /// File with the token that admin addresses of TCP require: once for all of them, or once for each in their order
    #[arg(long, value_name = "FILE", requires = "admin")]
    token: Vec<PathBuf>,

    /// The directory of a cluster's member on this machine; several are of one cluster: it gets a room with its map
    #[arg(long, value_name = "DIR")]
    cluster: Vec<PathBuf>,

    /// Business transactions get rooms, by the agent of this directory [default: as weir arm has it]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    arm: Option<Option<PathBuf>>,

    /// What `weir serve --decisions FILE` wrote: a room replays other policies on it, as weir replay does
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
}

/// How often we check whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long an answer that is under way may take at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves the page until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = weir_terminal::stop::Stop::on_signals()?;
    let shown = args.decisions.as_deref().map(replayed::Recording::new).transpose();
    let recording = shown.and_then(|recording| Ok((settings(args)?, recording)));
    let (settings, recording) = match recording {
        Ok((settings, recording)) => (settings, recording.map(Arc::new)),
        Err(error) => {
            eprintln!("weir console: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let ends = recording.as_ref().map(|recording| recording.ends());
    let replay = recording.map(|recording| recording as Arc<dyn LiveReplay>);
    let mut console = match Console::begin(Settings { replay, ..settings }) {
        Ok(console) => console,
        Err(error @ (ConsoleError::Directory { .. } | ConsoleError::Servers { .. })) => {
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
    if let Some(ends) = ends {
        ends.store(true, Ordering::Relaxed);
    }
    console.stop(PATIENCE);
    Ok(ExitCode::SUCCESS)
}

/// The servers, each with its token.
fn servers(admin: &[String], tokens: &[PathBuf]) -> anyhow::Result<Vec<Arc<dyn LiveServer>>> {
    let over_tcp = admin.iter().filter(|admin| AdminAddress::is_tcp(admin)).count();
    match (tokens.len(), over_tcp) {
        (0 | 1, _) => {}
        (tokens, over_tcp) if tokens == over_tcp => {}
        (tokens, over_tcp) => bail!(
            "{tokens} tokens are given for {over_tcp} addresses of TCP; give --token once for all of them, or once for \
             each, in the order of --admin"
        ),
    }
    if let Some((index, twice)) = admin.iter().enumerate().find(|(index, one)| admin[..*index].contains(one)) {
        bail!("--admin {twice} is given twice, as the server {} again; leave one of them out", index + 1);
    }
    let mut in_order = tokens.iter();
    let one = |admin: &String| -> anyhow::Result<Arc<dyn LiveServer>> {
        let token = match tokens {
            _ if !AdminAddress::is_tcp(admin) => None,
            [of_all] => Some(of_all),
            _ => in_order.next(),
        };
        Ok(Arc::new(live::Server::new(admin, token.map(PathBuf::as_path))?))
    };
    admin.iter().map(one).collect()
}

/// What is shown.
fn settings(args: &Args) -> anyhow::Result<Settings> {
    let cluster = (!args.cluster.is_empty()).then(|| cluster::Members::new(&args.cluster)).transpose()?;
    Ok(Settings {
        directories: args.directories.clone(),
        port: args.port,
        version: weir_terminal::VERSION.to_owned(),
        servers: servers(&args.admin, &args.token)?,
        cluster: cluster.map(|members| Arc::new(members) as Arc<dyn LiveCluster>),
        replay: None,
        agent: args.arm.clone().map(|directory| Arc::new(agent::Told::new(directory)) as Arc<dyn LiveAgent>),
    })
}

/// What is shown beside the runs, in words.
fn now(args: &Args) -> String {
    let mut words = String::new();
    match args.admin.as_slice() {
        [] => {}
        [admin] => words.push_str(&format!(" and the server of {admin}")),
        all => words.push_str(&format!(" and {} servers", all.len())),
    }
    if let Some(first) = args.cluster.first() {
        words.push_str(&format!(" and the cluster of {}", first.display()));
    }
    if args.arm.is_some() {
        words.push_str(" and business transactions");
    }
    if let Some(recording) = &args.decisions {
        words.push_str(&format!(" and the recording {}", recording.display()));
    }
    words
}
