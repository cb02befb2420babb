//! The `weir arm` commands: what the agent knows of business transactions, and its switches.

mod export;
mod list;
mod overhead;
mod show;
mod switch;
mod table;
mod tail;
mod top;

use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_agent::connection::Connection;
use weir_agent::protocol::{Answer, Ask};

const EXAMPLES: &str = "\
Examples:
  weir arm top
      the transactions of this host: rate, percentiles, failures; live
  weir arm tail --failed
      each one that fails, as it ends, with its id
  weir arm show 4bf92f3577b34da6a3ce929d0e0e4736
      a transaction with its children across processes and hosts
  weir arm off shop/search
      not recorded from now on, without a reload
  weir arm overhead
      what measuring transactions costs, here and now

`weir agent` must run. Each command has examples: weir arm top --help";

/// Watch business transactions that applications report (ARM), and switch their recording.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Top(top::Args),
    List(list::Args),
    Show(show::Args),
    Tail(tail::Args),
    On(switch::OnArgs),
    Off(switch::OffArgs),
    Sample(switch::SampleArgs),
    Export(export::Args),
    Overhead(overhead::Args),
}

/// Runs one of them.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Top(args) => top::run(args),
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Tail(args) => tail::run(args),
        Command::On(args) => switch::on(args),
        Command::Off(args) => switch::off(args),
        Command::Sample(args) => switch::sample(args),
        Command::Export(args) => export::run(args),
        Command::Overhead(args) => overhead::run(args),
    }
}

/// Which agent is asked.
#[derive(Debug, Clone, clap::Args)]
struct Where {
    /// The agent's directory [default: $WEIR_ARM_DIR, /run/weir/arm or /dev/shm/weir-arm]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Where {
    /// Asks one question on a connection of its own.
    fn ask(&self, ask: &Ask) -> anyhow::Result<Answer> {
        self.connect()?.ask_for_answer(ask)
    }

    fn connect(&self) -> anyhow::Result<Asking> {
        let directory = self.directory.clone().unwrap_or_else(weir_agent::directory::usual);
        Ok(Asking(Connection::open(&directory)?))
    }
}

/// A connection whose refusals are errors.
struct Asking(Connection);

impl Asking {
    fn ask_for_answer(&mut self, ask: &Ask) -> anyhow::Result<Answer> {
        match self.0.ask(ask)? {
            Answer::Error { message } => bail!("{message}"),
            answer => Ok(answer),
        }
    }
}

/// The answer was to another question: the agent is of another version.
fn unexpected(answer: &Answer) -> anyhow::Error {
    let name = serde_json::to_value(answer).ok().and_then(|value| Some(value.get("answer")?.as_str()?.to_owned()));
    anyhow::anyhow!(
        "the agent answered {} to another question: it is of another version; start it anew",
        name.unwrap_or_else(|| "something".to_owned())
    )
}

/// A value as JSON, with a line's end.
fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Nanoseconds since 1970 as date and time, UTC, to the microsecond.
fn date_and_time(unix_ns: u64) -> String {
    let time = chrono::DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX));
    time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// How a transaction is called: its application and its name, as the switches take it.
fn full_name(application: &str, transaction: &str) -> String {
    weir_report::clean(&format!("{application}/{transaction}"))
}
