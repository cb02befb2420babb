//! `weir arm tail`: transactions as they end.

use super::asking::Where;
use super::words::{date_and_time, full_name, unexpected};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_agent::protocol::{Answer, Ask, Filter};
use weir_agent::transaction::{Status, Transaction};
use weir_report::nanoseconds;
use weir_report::{clean, count};

const EXAMPLES: &str = "\
Examples:
  weir arm tail
      every transaction of this host, a line each, until Ctrl-C
  weir arm tail --application shop --at-least 500ms
      the slow ones of an application
  weir arm tail --failed -n 1 --json | jq -r .id | xargs weir arm show
      the next one that fails, with its children

The agent never waits for this command: it drops transactions that are not read
in time, and the output says how many.

Exit status: 0, or 1 if no agent answers or it ends.";

/// Print transactions as they end, a line each.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    place: Where,

    /// Only transactions of this application
    #[arg(long, value_name = "NAME")]
    application: Option<String>,

    /// Only transactions of this name
    #[arg(long, value_name = "NAME")]
    transaction: Option<String>,

    /// Only transactions of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Only those that took at least this long, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = weir_terminal::units::duration)]
    at_least: Option<Duration>,

    /// Only those that failed, or whose process ended before they did
    #[arg(long)]
    failed: bool,

    /// End after this many transactions
    #[arg(short, long, value_name = "N")]
    number: Option<u64>,

    /// End after this time
    #[arg(short, long, value_name = "TIME", value_parser = weir_terminal::units::duration)]
    duration: Option<Duration>,

    /// Print each as a line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut connection = args.place.connect()?;
    let end = args.duration.map(|duration| Instant::now() + duration);
    connection.0.send(&Ask::Tail(filter(args)))?;
    let mut left = args.number.unwrap_or(u64::MAX);
    while left > 0 {
        let patience = end.map(|end| end.saturating_duration_since(Instant::now()));
        if patience.is_some_and(|patience| patience.is_zero()) {
            break;
        }
        let line = match connection.0.receive(patience)? {
            // The time is up.
            None => break,
            Some(Answer::Transaction(transaction)) if args.json => serde_json::to_string(&transaction)?,
            Some(Answer::Transaction(transaction)) => line(&transaction),
            Some(Answer::Missed { transactions }) => {
                eprintln!("weir: {} were not read in time, and are not shown", count(transactions));
                continue;
            }
            Some(Answer::Error { message }) => anyhow::bail!("{message}"),
            Some(other) => return Err(unexpected(&other)),
        };
        if !weir_terminal::output::print_while_read(&format!("{line}\n"))? {
            break;
        }
        left -= 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(args: &Args) -> Filter {
    Filter {
        application: args.application.clone(),
        transaction: args.transaction.clone(),
        user: args.user.clone(),
        at_least_ns: args.at_least.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        failed: args.failed,
    }
}

/// End, duration, outcome, name, user, process, id.
fn line(transaction: &Transaction) -> String {
    let outcome = match transaction.status {
        Status::Good => "good".to_owned(),
        bad => bad.name().to_uppercase(),
    };
    let user = transaction.user.as_ref().map_or(String::new(), |user| format!(" user {}", clean(user)));
    format!(
        "{}  {:>9}  {outcome:<10}  {}{user} in {}[{}]  {}",
        &date_and_time(transaction.end_unix_ns())[11..],
        nanoseconds(transaction.duration_ns as f64),
        full_name(&transaction.application, &transaction.name),
        clean(&transaction.process.command),
        transaction.process.pid,
        transaction.id
    )
}
