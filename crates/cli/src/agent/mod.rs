//! The `weir agent` command: collects the transactions that applications report.

mod exports;
mod keeper;
mod state;
mod waits;

use anyhow::Context;
use exports::ExportArgs;
use keeper::StoreKeeper;
pub(crate) use state::{STORE_NAME, usual_state};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use waits::Captured;
use weir_agent::{Agent, Settings};
use weir_report::count;
use weir_store::Limits;
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir agent
      as root for every program of this host, else for your own programs
  weir agent --state /srv/arm --keep 30d --disk 2000
      keeps a month, in 2 GB at most
  weir agent --no-state
      keeps nothing: weir arm top and tail still work
  weir agent --otlp http://127.0.0.1:4318 --prometheus 127.0.0.1:9464
      spans and metrics for OpenTelemetry, metrics for Prometheus
  weir agent --capture
      records what transactions wait for, too; weir arm show prints it
  weir agent --directory /tmp/arm
      for programs that are started with WEIR_ARM_DIR=/tmp/arm

Programs that call ARM (libarm4, libarm) find the agent themselves, also if it
starts after them. They never wait for it: records that do not fit into their
memory are dropped, counted and shown.
SIGINT or SIGTERM ends the agent in order, a second one at once. After kill -9
the next agent goes on where it was.

Exit status: 0 if it was asked to stop, 1 if it cannot listen, 2 for wrong
usage.";

/// Collect the transactions that applications report (ARM), keep them and pass them on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory in which applications announce themselves [default: $WEIR_ARM_DIR, /run/weir/arm or /dev/shm/weir-arm]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Directory for what is kept: figures, slow and failed transactions, switches [default: $STATE_DIRECTORY,
    /// /var/lib/weir-agent, or ~/.local/state/weir-agent]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Keep nothing on disk
    #[arg(long, conflicts_with_all = ["state", "keep", "disk"])]
    no_state: bool,

    /// Keep every transaction that takes at least this long, such as 500ms, with all its details; the slowest of each
    /// minute and some of those that fail are kept in any case
    #[arg(long, value_name = "TIME", value_parser = weir_terminal::units::duration)]
    slow: Option<Duration>,

    /// How long to keep it: 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = weir_terminal::units::duration)]
    keep: Duration,

    /// How much to keep, in MB; the oldest goes first
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disk: u64,

    /// Record what transactions wait for, too, by probes in the kernel; needs root, or the capabilities that weir
    /// record needs
    #[arg(long)]
    capture: bool,

    #[command(flatten)]
    exports: ExportArgs,
}

/// Listens until a signal says stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let directory = args.directory.clone().unwrap_or_else(weir_agent::directory::usual);
    let state = (!args.no_state).then(|| args.state.clone().unwrap_or_else(usual_state));
    let limits = Limits { age: args.keep, bytes: args.disk * 1_000_000 };
    if let Some(state) = &state {
        // For its owner only: what is kept tells of users.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
        made.with_context(|| format!("{}: cannot be made; name another by --state", state.display()))?;
    }
    let keeper = state.as_ref().map(|state| StoreKeeper::open(&state.join(STORE_NAME), limits)).transpose()?;
    let mut settings = Settings { directory: directory.clone(), state: state.clone(), ..Settings::default() };
    if let Some(slow) = args.slow {
        settings.slow_ns = u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX);
    }
    let waits = args.capture.then(Captured::start).transpose().context("--capture")?;
    let exports = args.exports.start(&settings.host)?;
    let outlet = Box::new(Arc::clone(&exports)) as _;
    let keeper = keeper.map(|keeper| Box::new(keeper) as _);
    let agent = Agent::start_with(settings, keeper, Some(outlet), waits.map(|waits| Box::new(waits) as _))?;
    exports::connect(&exports, agent.asker());
    agent.warnings().iter().for_each(|warning| eprintln!("weir: {warning}"));
    let kept = state.map_or("nothing is kept".to_owned(), |state| format!("keeping in {}", state.display()));
    eprintln!("listening in {}, {kept}", directory.display());
    while !stop.asked() && !agent.has_ended() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended_by_itself = !stop.asked();
    let status = agent.stop();
    exports::finish(&exports);
    let counts = &status.counts;
    eprintln!(
        "stopped after {} transactions of {} records; lost {}, left out by switches {}",
        count(counts.finished),
        count(counts.records),
        count(counts.lost()),
        count(counts.skipped)
    );
    if let Some(capture) = &status.capture {
        eprintln!(
            "waits of {} transactions measured, of {} not; {} events of the kernel's, {} lost",
            count(capture.measured),
            count(capture.not_measured),
            count(capture.events),
            count(capture.lost)
        );
    }
    anyhow::ensure!(!ended_by_itself, "the agent ended by itself, which is a fault of weir's");
    Ok(ExitCode::SUCCESS)
}
