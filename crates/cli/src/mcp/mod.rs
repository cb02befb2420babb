//! The `weir mcp` command: weir's tools for agents, by the Model Context Protocol over standard input and output.

mod calls;
mod child;
mod lines;
mod runs;

use anyhow::Context;
use calls::Calls;
pub(crate) use child::run as run_bounded;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use weir_mcp::{Action, MessageError, Place, Session, answer};
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir mcp
      tools for the runs of this folder; only this machine is loaded
  weir mcp --runs /srv/runs --allow staging.example --max-duration 2m
      another folder, and a host that may be loaded, for at most 2 minutes
  weir mcp --allow-method POST
      loads may also send what changes something at a server
  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}' | weir mcp
      one message by hand

Tools: explain, compare, load, advise, sql. Each result has the figures, how
sure they are (95 % intervals, noise, the share of joined requests), and notes.
Runs are resources. Messages are lines of JSON-RPC 2.0; a line may have 1 MiB.
Nothing on the machine is changed: advice is never applied, questions only read,
and new runs go into weir-runs, or into the folder of --runs.

Exit status: 0 when its client closes standard input, 1 if it cannot begin.";

/// Serve weir's tools to an agent (Model Context Protocol)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder whose runs are read, and in which new ones are made [default: this one, new ones in weir-runs]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,

    /// Let this host be loaded, too: a name or an address, as URLs have it; may be repeated
    #[arg(long = "allow", value_name = "HOST")]
    hosts: Vec<String>,

    /// Let loads send this method, too, beside GET, HEAD and OPTIONS: POST; may be repeated
    #[arg(long = "allow-method", value_name = "METHOD")]
    methods: Vec<String>,

    /// The longest that a load or recording of a call may take; of a comparison all of its slices together
    #[arg(long = "max-duration", value_name = "TIME", default_value = "60s", value_parser = weir_terminal::units::duration)]
    duration_max: Duration,

    /// The most requests that a call may send
    #[arg(long = "max-requests", value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests_max: u64,
}

/// How often a wish to end is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let place = place(args)?;
    let stop = Stop::on_signals()?;
    let lines = lines::of_stdin();
    let mut session = Session::new(weir_terminal::VERSION, place.may_change());
    let mut calls = Calls::new(place);
    loop {
        let line = match lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if stop.asked() || calls.is_unheard() => break,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let read = line.map_or(Err(MessageError::Long), |line| weir_mcp::read(&line));
        let mut messages: VecDeque<_> = match read {
            Ok(messages) => messages.into(),
            Err(error) => VecDeque::from([Err(error)]),
        };
        while let Some(message) = messages.pop_front() {
            match message {
                Ok(message) => carry_out(session.take(message), &mut calls),
                Err(error) => calls.send(&answer::no_message(&error)),
            }
        }
    }
    calls.end(&stop);
    Ok(ExitCode::SUCCESS)
}

fn carry_out(action: Action, calls: &mut Calls) {
    match action {
        Action::Nothing => {}
        Action::Send(value) => calls.send(&value),
        Action::Call { id, tool, arguments, progress } => calls.begin(id, tool, &arguments, progress),
        Action::Cancel(id) => calls.cancel(&id),
        Action::ListRuns(id) => calls.send(&answer::result(&id, &runs::list(calls.root()))),
        Action::ReadRun { id, name } => calls.send(&match runs::read(calls.place(), &name) {
            Ok(contents) => answer::result(&id, &contents),
            Err(error) => answer::error(&id, answer::NO_RESOURCE, &error.to_string()),
        }),
        Action::ReadTables(id) => calls.send(&answer::result(&id, &runs::tables())),
    }
}

/// Where the tools may reach.
fn place(args: Args) -> anyhow::Result<Place> {
    let given = args.runs.clone().unwrap_or_else(|| PathBuf::from("."));
    let root = given.canonicalize().with_context(|| format!("--runs: {} is no folder", given.display()))?;
    let new_runs = if args.runs.is_some() { root.clone() } else { root.join("weir-runs") };
    let duration_s_max = args.duration_max.as_secs_f64();
    let Args { hosts, methods, requests_max, .. } = args;
    Ok(Place { root, new_runs, named: 0.into(), hosts, duration_s_max, requests_max, methods })
}
