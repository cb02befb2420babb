//! The `weir explain` command: where each request's time went.

mod live;

use crate::load::LoadArgs;
use crate::record::TargetArgs;
use crate::rung::RungArgs;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_explain::{Slo, View, decisions, slo};
use weir_measure::class::Grouping;
use weir_report::{Explanation, Style};

const EXAMPLES: &str = "\
Examples:
  weir explain --load http://127.0.0.1:8080/ --port 8080
      load a running server for 10 s, record it meanwhile, and explain it
  weir explain --load http://127.0.0.1:8080/ -d 5s -- ./server --port 8080
      start the server, too
  weir explain --port 80 -d 10s
      the requests of real clients, without a load: from the server's side
  weir explain --slo 'p99<200ms' runs/a
      exit status 3 if the objective was missed
  weir explain --load http://127.0.0.1/ --port 80 --comm postgres --packs auto
      followed into the database, with phases and queries
  weir explain --load http://127.0.0.1/ --port 80 --stacks --folded stacks.txt
      sample stacks, too, and write them for flamegraph.pl or speedscope
  weir explain --port 80 -d 30s --arm
      by the transactions that applications report to `weir agent` (ARM)
  weir explain runs/a
      a run that `weir record --run runs/a` and `weir load --run runs/a` made
  weir explain --decisions log.jsonl runs/a
      with what the rules of `weir serve --decisions log.jsonl` decided
  weir explain --json runs/a | jq '.causes[0]'
      figures for a program
  weir explain --group '/shop/*/buy' --group '/static/**' runs/a
      put paths together into transaction classes

Parts of a response, in the order in which it passes them:
  generator         from the intended time to when the generator sent
  connect           the connection being made
  request_transit   on the way to the server's socket, and bytes of the request
                    that the server waited for
  accept_queue      arrived, but no worker had accepted its connection
  worker_queue      behind other requests of the same worker
  run               the server's task had the CPU
  wait_cpu          it could run, but another task had the CPU
  wait_disk         for storage
  wait_lock         for a lock
  wait_process      for another process of this host that is not recorded
  wait_network      for another host, or a client that takes it slowly
  wait_timer        asleep
  stopped           held by a signal (SIGSTOP), a debugger or a freezer
  response_transit  on the way to the client
  client_wakeup     at the client, whose task did not run yet
  unattributed      what the recording cannot tell

From the server's side (without --load, or with --server-side) a response counts
from the arrival of its first byte at the server's socket to its last send;
generator, connect, response_transit and client_wakeup are then not known.

Exit status: 0 if anything could be explained, 1 if not, 2 for wrong usage, 3 if
an objective (--slo) was missed.";

/// Options that say how a run is made: where the run exists already, they would be ignored.
const OF_MAKING_A_RUN: [&str; 28] = [
    "url",
    "stacks",
    "arm",
    "watch",
    "watch_windows",
    "probe",
    "packs",
    "allow_slow_probes",
    "keep_queries",
    "rung",
    "without_rung",
    "connections",
    "requests",
    "duration",
    "rate",
    "poisson",
    "seed",
    "queue",
    "no_keepalive",
    "pipeline",
    "threads",
    "cpu",
    "timeout",
    "method",
    "headers",
    "body",
    "insecure",
    "ca",
];

/// Explain where the time of a server's requests goes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run directory to explain
    #[arg(value_name = "RUN", conflicts_with_all = OF_MAKING_A_RUN)]
    pub(crate) recorded: Option<PathBuf>,

    /// Load this URL and record the server meanwhile
    #[arg(long = "load", value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Where the run is written [default: a new directory in weir-runs]
    #[arg(long, value_name = "DIR", conflicts_with = "recorded")]
    run: Option<PathBuf>,

    /// Put paths that match this pattern together into one class: * within a segment, ** across; may be repeated, the
    /// first match counts
    #[arg(long, value_name = "PATTERN")]
    group: Vec<String>,

    /// Explain from the server's side although a client has recorded its requests
    #[arg(long)]
    server_side: bool,

    /// A port that speaks TLS, beside 443 and 8443: its handshakes are told apart from requests
    #[arg(long, value_name = "N")]
    tls_port: Vec<u16>,

    /// Objective: 'p99<200ms' (as seen by a client, a status from 500 on misses it), or, as seen by a client only,
    /// 'errors<1%' (such a status, or no whole response); may be repeated
    #[arg(long, value_name = "OBJECTIVE", value_parser = slo)]
    slo: Vec<Slo>,

    /// Add the decisions that `weir serve --decisions FILE` made meanwhile to the run's time line, where they stay
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// Print the report as JSON (times in nanoseconds)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the HTML report to this file [default: report.html in the run directory]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write sampled stacks to this file as folded lines, which flamegraph.pl, inferno and speedscope read
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// The server to start
    #[arg(last = true, value_name = "SERVER COMMAND", requires = "url")]
    pub(crate) command: Vec<String>,

    // From here on each has a heading of its own in the help.
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    sources: crate::sources::SourceArgs,

    #[command(flatten)]
    rung: RungArgs,

    #[command(flatten)]
    load: LoadArgs,
}

/// What the arguments come to.
pub(crate) enum Explained {
    /// A run directory and what it says.
    Run(PathBuf, Box<Explanation>),
    /// Nothing: the arguments do not fit, and the user has been told.
    Not(ExitCode),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (directory, explanation) = match explained(args)? {
        Explained::Run(directory, explanation) => (directory, explanation),
        Explained::Not(code) => return Ok(code),
    };
    show(&explanation, args.html.as_deref(), &directory, args.json)?;
    let missed = explanation.objectives.iter().any(|objective| objective.met == Some(false));
    Ok(match explanation.requests {
        0 => ExitCode::FAILURE,
        _ if missed => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

/// Why an objective that was asked for cannot be judged; said before anything is recorded.
fn refusal(args: &Args) -> Option<String> {
    let refusal = weir_explain::refusal(&args.slo)?;
    let view = View { server_side: args.server_side, ..View::default() };
    let without_client = match (&args.recorded, &args.url) {
        // A run that cannot be opened is refused for that, not for the objective.
        (Some(run), _) => weir_trace::RunReader::open(run).is_ok_and(|reader| view.is_server_side(&reader)),
        (None, Some(_)) => args.server_side,
        (None, None) => true,
    };
    without_client.then_some(refusal)
}

/// Explains what the arguments name, making a run of it first if they ask for one.
pub(crate) fn explained(args: &Args) -> anyhow::Result<Explained> {
    if args.url.is_none() && !args.load.given().is_empty() {
        let options = args.load.given().join(", ");
        eprintln!(
            "weir explain: {options}: how to load, but nothing is loaded; add --load URL, or leave it out to take what comes anyway"
        );
        return Ok(Explained::Not(ExitCode::from(2)));
    }
    if let Some(refusal) = refusal(args) {
        eprintln!("weir explain: {refusal}");
        return Ok(Explained::Not(ExitCode::from(2)));
    }
    if let Some(log) = args.decisions.as_ref().filter(|_| args.command.is_empty()) {
        decisions::check(log)?;
    }
    let (directory, subject) = match (&args.recorded, &args.url) {
        (Some(directory), _) if directory.to_string_lossy().contains("://") => {
            eprintln!("weir explain: {} is a URL; did you mean --load {0}?", directory.display());
            return Ok(Explained::Not(ExitCode::from(2)));
        }
        (Some(directory), _) => (directory.clone(), directory.display().to_string()),
        (None, Some(url)) => match live::record(args, url)? {
            live::Outcome::Recorded(directory) => (directory, weir_terminal::privacy::without_query(url)),
            live::Outcome::Usage(message) => {
                eprintln!("weir explain: {message}");
                return Ok(Explained::Not(ExitCode::from(2)));
            }
        },
        (None, None) if !args.target.is_empty() => match live::watch(args)? {
            live::Outcome::Recorded(directory) => (directory, args.target.named().words()),
            live::Outcome::Usage(message) => {
                eprintln!("weir explain: {message}");
                return Ok(Explained::Not(ExitCode::from(2)));
            }
        },
        (None, None) => {
            eprintln!(
                "weir explain: name a run directory, --load URL to make a run, or --port N to record what comes there (see `weir explain --help`)"
            );
            return Ok(Explained::Not(ExitCode::from(2)));
        }
    };
    if let Some(log) = &args.decisions {
        let notes = decisions::put(&directory, log);
        let notes = notes.with_context(|| format!("the run is in {}", directory.display()))?;
        notes.iter().for_each(|note| eprintln!("weir explain: {note}"));
    }
    let view = View {
        server_side: args.server_side,
        tls_ports: args.tls_port.clone(),
        objectives: args.slo.iter().map(|slo| (slo.text.clone(), slo.objective)).collect(),
    };
    let explanation = weir_explain::explain(&directory, subject, Grouping::new(args.group.clone()), &view)?;
    if let Some(path) = &args.folded {
        fold(&explanation, path)?;
    }
    Ok(Explained::Run(directory, Box::new(explanation)))
}

/// Writes the sampled stacks for other tools.
fn fold(explanation: &Explanation, path: &Path) -> anyhow::Result<()> {
    if explanation.stacks.is_empty() {
        anyhow::bail!(
            "{} holds no stacks; `--stacks` of weir record or weir explain --load samples them",
            explanation.run
        );
    }
    std::fs::write(path, weir_explain::folded(&explanation.stacks))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Prints the report and writes the HTML, beside the run where no option says otherwise.
fn show(explanation: &Explanation, html: Option<&Path>, run: &Path, json: bool) -> anyhow::Result<()> {
    if json {
        weir_terminal::output::print(&format!("{}\n", serde_json::to_string_pretty(explanation)?))?;
    } else {
        let style = Style { colours: weir_terminal::output::colours(), width: weir_terminal::output::columns() };
        weir_terminal::output::print(&weir_report::terminal(explanation, style))?;
    }
    let path = html.map_or_else(|| run.join("report.html"), Path::to_owned);
    match std::fs::write(&path, weir_report::html(explanation)) {
        Ok(()) if json => {}
        Ok(()) => weir_terminal::output::print(&format!("report: {}\n", path.display()))?,
        // A run of another user may be readable only: the report is printed all the same.
        Err(error) if html.is_none() => {
            eprintln!(
                "weir explain: no HTML: {} cannot be written ({error}); --html FILE puts it elsewhere",
                path.display()
            );
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
    Ok(())
}
