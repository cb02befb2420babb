//! The `weir` command: measures web servers, explains where a request's time goes, and serves the web itself.
mod child;
mod compare;
mod explain;
mod load;
mod load_run;
mod privacy;
mod progress;
mod record;
mod serve;
mod stop;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// weir's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Measure web servers, explain where each request's time goes, serve the web.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Load(load::Args),
    Record(record::Args),
    Explain(explain::Args),
    Serve(serve::Args),
    Compare(compare::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(args) => load::run(args),
        Command::Record(args) => record::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Compare(args) => compare::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("weir: {error:#}");
        ExitCode::FAILURE
    })
}
