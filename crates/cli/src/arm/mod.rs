//! The `weir arm` commands: what the agent knows of business transactions, and its switches.

mod asking;
mod export;
mod list;
mod overhead;
pub(crate) mod page;
#[cfg(test)]
mod sample;
mod show;
mod switch;
mod tail;
mod top;
mod words;

use std::process::ExitCode;

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
