//! `weir arm top`: what runs, how fast, how many fail.

use super::asking::Where;
use super::words::{full_name, json, unexpected};
use crate::refreshed;
use crate::schemas::Named;
use crate::table::{Table, cut};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use weir_agent::protocol::{Answer, Ask, By, Switch, Top, TopRow};
use weir_report::count;
use weir_report::nanoseconds;

const EXAMPLES: &str = "\
Examples:
  weir arm top
      the last 10 s, updated every 2 s; Ctrl-C ends it
  weir arm top --by user --sort p99
      who waits longest for what
  weir arm top --once | head
      one table of text
  weir arm top --json --seconds 60 | jq '.rows[] | {transaction, p99_ns}'

FAILED counts those that failed or whose process ended before they did. BLOCKED
is the share of their time that they waited for something outside, if the
application reports it. A sampled transaction counts also for those left out.

Exit status: 0, or 1 if no agent answers.";

/// Show which transactions run at which rate, live on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    place: Where,

    /// What each row shows
    #[arg(long, value_enum, default_value_t = Rows::Transaction)]
    by: Rows,

    /// Order of the rows
    #[arg(long, value_enum, default_value_t = Sort::Rate)]
    sort: Sort,

    /// Count the transactions of the last N seconds
    #[arg(long, value_name = "SECS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(5..=60))]
    seconds: u32,

    /// How often to update the table
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = weir_terminal::units::duration)]
    every: Duration,

    /// Print the table once, as happens by itself where standard output is no terminal
    #[arg(long)]
    once: bool,

    /// Print it once as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rows {
    /// A transaction of an application
    Transaction,
    /// A user of such a transaction
    User,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sort {
    /// Transactions a second
    Rate,
    /// Share of failures
    Failed,
    /// 99th percentile
    P99,
    /// All their time together
    Time,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.json || args.once || !std::io::stdout().is_terminal() {
        let top = asked(args)?;
        let text = if args.json {
            json(&Named::new("weir-arm-top/1", &top))?
        } else {
            lines(&top, args.by, weir_terminal::output::table_columns()).join("\n") + "\n"
        };
        weir_terminal::output::print(&text)?;
    } else {
        refreshed::show(args.every, || asked(args), |top, width| lines(top, args.by, width))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn asked(args: &Args) -> anyhow::Result<Top> {
    let by = if args.by == Rows::User { By::User } else { By::Class };
    let mut top = match args.place.ask(&Ask::Top { seconds: args.seconds, by })? {
        Answer::Top(top) => top,
        other => return Err(unexpected(&other)),
    };
    sort(&mut top, args.sort);
    Ok(top)
}

/// Puts what has most of it first.
pub(super) fn sort(top: &mut Top, by: Sort) {
    let key = |row: &TopRow| match by {
        Sort::Rate => row.rate_per_s,
        Sort::Failed => row.failed as f64 / row.transactions.max(1) as f64,
        Sort::P99 => row.p99_ns as f64,
        Sort::Time => time_per_s(row),
    };
    top.rows.sort_by(|one, other| key(other).total_cmp(&key(one)));
}

/// The time of all transactions of a row in a second, nanoseconds.
pub(super) fn time_per_s(row: &TopRow) -> f64 {
    row.rate_per_s * row.mean_ns as f64
}

/// The heading and the table.
fn lines(top: &Top, by: Rows, width: usize) -> Vec<String> {
    let rate: f64 = top.rows.iter().map(|row| row.rate_per_s).sum();
    let mut heading = format!(
        "{} transactions/s over {:.0} s, {} process{}",
        count(rate.round() as u64),
        top.seconds,
        count(top.processes.into()),
        if top.processes == 1 { "" } else { "es" }
    );
    if top.lost > 0 {
        heading.push_str(&format!(", {} records lost (weir arm overhead says where)", count(top.lost)));
    }
    let mut table =
        Table::new(["TRANSACTION", "RATE/S", "FAILED", "P50", "P90", "P99", "MAX", "BLOCKED", "RUNNING", "SWITCH"]);
    for row in &top.rows {
        let mut name = full_name(&row.application, &row.transaction);
        if by == Rows::User {
            let user = row.user.as_ref().map_or("no user".to_owned(), |user| weir_report::clean(user));
            name = format!("{user}: {name}");
        }
        let of_class = |text: String| if by == Rows::User { String::new() } else { text };
        table.push([
            name,
            rate_text(row.rate_per_s),
            share(row.failed, row.transactions),
            nanoseconds(row.p50_ns as f64),
            nanoseconds(row.p90_ns as f64),
            nanoseconds(row.p99_ns as f64),
            nanoseconds(row.max_ns as f64),
            percent(row.blocked_share),
            of_class(count(row.running.into())),
            of_class(switch_text(row.switch)),
        ]);
    }
    let mut lines = vec![cut(&heading, width), String::new()];
    if table.is_empty() {
        lines.push(cut("no transaction has ended in this time (weir arm list shows what is known)", width));
    } else {
        lines.extend(table.lines(width));
    }
    if top.more > 0 {
        lines.push(cut(&format!("and {} more", count(top.more.into())), width));
    }
    lines
}

fn rate_text(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

fn share(part: u64, whole: u64) -> String {
    if part == 0 { "0 %".to_owned() } else { percent(part as f64 / whole.max(1) as f64) }
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_owned(),
        share if share < 0.0005 => "<0.1 %".to_owned(),
        share if share < 0.0995 => format!("{:.1} %", share * 100.0),
        share => format!("{:.0} %", share * 100.0),
    }
}

/// A switch's position in words.
pub(super) fn switch_text(switch: Switch) -> String {
    match switch {
        Switch::On => "on".to_owned(),
        Switch::Off => "off".to_owned(),
        Switch::OneIn(many) => format!("1 in {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(transaction: &str) -> TopRow {
        TopRow {
            application: "shop".into(),
            transaction: transaction.into(),
            user: None,
            transactions: 12_340,
            rate_per_s: 1234.0,
            failed: 25,
            aborted: 0,
            mean_ns: 1_300_000,
            p50_ns: 1_200_000,
            p90_ns: 2_000_000,
            p99_ns: 9_100_000,
            max_ns: 20_000_000,
            blocked_share: 0.4,
            parts: std::collections::BTreeMap::new(),
            running: 3,
            switch: Switch::OneIn(10),
        }
    }

    #[test]
    fn a_row_has_its_figures_and_no_terminal_is_commanded() {
        let top = Top { seconds: 10.0, rows: vec![row("pay"), row("\x1b[2Jx")], more: 2, processes: 3, lost: 7 };
        let lines = lines(&top, Rows::Transaction, 130);
        assert!(lines[0].starts_with("2,468 transactions/s over 10 s, 3 processes, 7 records lost"), "{}", lines[0]);
        let words: Vec<&str> = lines[3].split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
        let expected =
            ["shop/pay", "1,234", "0.2 %", "1.20 ms", "2.00 ms", "9.10 ms", "20.0 ms", "40 %", "3", "1 in 10"];
        assert_eq!(words, expected);
        assert!(!lines.join("").contains('\x1b'), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("and 2 more"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let lines = lines(&Top::default(), Rows::User, 80);
        assert!(lines[2].starts_with("no transaction has ended"), "{lines:?}");
    }
}
