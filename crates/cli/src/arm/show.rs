//! `weir arm show`: a transaction with its children over processes and hosts, as a tree with times and parts.

use super::asking::Where;
use super::words::{date_and_time, full_name, json, unexpected};
use std::collections::BTreeSet;
use std::process::ExitCode;
use weir_agent::protocol::{Answer, Ask};
use weir_agent::transaction::{Metric, MetricValue, Status, Transaction, Wanted};
use weir_agent::tree::{self, Line};
use weir_agent::waits::ThreadTime;
use weir_report::nanoseconds;
use weir_report::{clean, count};

const EXAMPLES: &str = "\
Examples:
  weir arm show 4bf92f3577b34da6a3ce929d0e0e4736
      all of a trace
  weir arm show 00f067aa0ba902b7
      the trace of this transaction
  weir arm show 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
      by the header traceparent of a request
  weir arm tail -n 1 --failed --json | jq -r .id | xargs weir arm show

TOOK is SELF + CHILDREN + BLOCKED + QUEUED, to the nanosecond: its own work,
while at least one child ran, blocked while no child ran, and before it
began. AT counts from the start of the first transaction.
Where `weir agent --capture` runs, a line says what the thread that started the
transaction did and waited for until its stop, in the words of weir explain; if
another thread stopped it, that thread has a line of its own.

Exit status: 0, or 1 if no agent answers or the transaction is not known.";

/// Show a transaction as a tree, with its children across processes and hosts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A trace, a transaction or a traceparent, as `weir arm tail` prints them
    #[arg(value_parser = id)]
    id: String,

    #[command(flatten)]
    place: Where,

    /// Print the transactions as JSON
    #[arg(long)]
    json: bool,
}

/// An id as the agent reads it.
fn id(text: &str) -> anyhow::Result<String> {
    text.parse::<Wanted>()?;
    Ok(text.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (transactions, missing) = match args.place.ask(&Ask::Show { id: args.id.clone() })? {
        Answer::Trace { transactions, missing } => (transactions, missing),
        other => return Err(unexpected(&other)),
    };
    if transactions.is_empty() {
        anyhow::bail!(not_known(&args.id));
    }
    if args.json {
        weir_terminal::output::print(&json(&transactions)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let captures = matches!(args.place.ask(&Ask::Status)?, Answer::Status(status) if status.capture.is_some());
    weir_terminal::output::print(&text(&transactions, missing, captures))?;
    Ok(ExitCode::SUCCESS)
}

/// Why nothing is shown.
pub(super) fn not_known(id: &str) -> String {
    format!(
        "no transaction {id} is known: the agent keeps those of the last seconds, and of earlier ones the slow and the \
         failed ones; while one runs it is not shown"
    )
}

/// The tree; `captures` = the agent measures waits, so the text says where they are missing.
fn text(transactions: &[Transaction], missing: u32, captures: bool) -> String {
    let lines = tree::lines(transactions);
    let hosts: BTreeSet<&str> = transactions.iter().map(|transaction| &*transaction.host).collect();
    let processes: BTreeSet<_> =
        transactions.iter().map(|transaction| (&transaction.host, transaction.process.pid)).collect();
    let Some(first) = lines.first().map(|line| line.transaction) else { return String::new() };
    let mut text = format!(
        "trace {}: {}, {}, {}\nfrom {} UTC\n\n",
        first.id.trace_text(),
        some(transactions.len(), "transaction"),
        some(processes.len(), "process"),
        some(hosts.len(), "host"),
        date_and_time(first.start_unix_ns),
    );
    text.push_str(&format!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "AT", "TOOK", "SELF", "CHILDREN", "BLOCKED", "QUEUED"
    ));
    // Whether the branch at each depth has more to come below.
    let mut open: Vec<bool> = Vec::new();
    for line in &lines {
        open.truncate(line.depth);
        let branch: String = open.iter().skip(1).map(|more| if *more { "|  " } else { "   " }).collect::<String>()
            + match (line.depth, line.last) {
                (0, _) => "",
                (_, true) => "`- ",
                (_, false) => "|- ",
            };
        open.push(!line.last);
        text.push_str(&figures(line));
        text.push_str(&format!("  {branch}{}\n", name(line, hosts.len() > 1)));
        let below = open.iter().skip(1).map(|more| if *more { "|  " } else { "   " }).collect::<String>();
        for detail in threads(line.transaction, captures).into_iter().chain(details(line.transaction)) {
            text.push_str(&format!("{:60}{below}  {}\n", "", clean(&detail)));
        }
    }
    if missing > 0 {
        text.push_str(&format!("\n{} more of this trace found no room\n", count(missing.into())));
    }
    text
}

fn figures(line: &Line<'_>) -> String {
    let time = |ns: u64| if ns == 0 { "-".to_owned() } else { nanoseconds(ns as f64) };
    let at = match line.offset_ns {
        0 => "0".to_owned(),
        offset => nanoseconds(offset as f64),
    };
    let parts = &line.parts;
    let took = nanoseconds(line.transaction.duration_ns as f64);
    format!(
        "{at:>9} {took:>9} {:>9} {:>9} {:>9} {:>9}",
        time(parts.own_ns),
        time(parts.children_ns),
        time(parts.blocked_ns),
        time(parts.queued_ns)
    )
}

/// What it is, how it ended, where it ran.
fn name(line: &Line<'_>, with_host: bool) -> String {
    let transaction = line.transaction;
    let mut words = vec![full_name(&transaction.application, &transaction.name)];
    if transaction.status != Status::Good {
        words.push(transaction.status.name().to_uppercase());
    }
    if let Some(user) = &transaction.user {
        words.push(format!("user {user}"));
    }
    let process = &transaction.process;
    words.push(format!("in {}[{}]", process.command, process.pid));
    if with_host {
        words.push(format!("at {}", transaction.host));
    }
    if transaction.one_in > 1 {
        words.push(format!("one of {}", transaction.one_in));
    }
    if let (true, Some(parent)) = (line.stray, transaction.parent) {
        words.push(format!("(its parent {parent} is not known)"));
    }
    clean(&words.join(" "))
}

/// What its threads did and waited for, a line each.
pub(super) fn threads(transaction: &Transaction, captures: bool) -> Vec<String> {
    if transaction.threads.is_empty() {
        return if captures { vec!["waits: not measured".to_owned()] } else { Vec::new() };
    }
    let line = |time: &ThreadTime| {
        let parts = time.each().into_iter().map(|(part, ns)| format!("{} {}", part.name(), nanoseconds(ns as f64)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        if time.thread == transaction.thread {
            parts
        } else {
            format!("thread {}, which stopped it: {parts}", time.thread)
        }
    };
    transaction.threads.iter().map(line).collect()
}

/// What else it told, a line each.
pub(super) fn details(transaction: &Transaction) -> Vec<String> {
    let told = &transaction.details;
    let mut lines = Vec::new();
    let mut named = |name: &str, value: Option<&String>| {
        lines.extend(value.map(|value| format!("{name}: {value}")));
    };
    named("URI", told.uri.as_ref());
    named("address", told.address.as_ref());
    named("diagnosis", told.diagnosis.as_ref());
    named("told", told.opaque.as_ref());
    let pairs = transaction.properties.iter().chain(&told.context).chain(&told.diagnosis_properties);
    let pairs: Vec<String> = pairs.map(|pair| format!("{}={}", pair.name, pair.value)).collect();
    let metrics: Vec<String> = told.metrics.iter().map(metric).collect();
    lines.extend([pairs, metrics].iter().filter(|list| !list.is_empty()).map(|list| list.join(", ")));
    lines
}

fn metric(metric: &Metric) -> String {
    let name = if metric.name.is_empty() { format!("metric {}", metric.slot) } else { metric.name.clone() };
    let value = match &metric.value {
        MetricValue::Integer(number) => number.to_string(),
        MetricValue::Ratio(number) => number.to_string(),
        MetricValue::Text(text) => text.clone(),
    };
    format!("{name}={value}{}{}", if metric.unit.is_empty() { "" } else { " " }, metric.unit)
}

fn some(number: usize, what: &str) -> String {
    let end = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {what}{end}", count(number as u64))
}

#[cfg(test)]
mod tests {
    use super::super::sample::one;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tree_has_branches_times_and_what_was_told() {
        let mut failed = one(4, Some(2), 2_500_000, 500_000);
        failed.status = Status::Failed;
        failed.details.diagnosis = Some("no such row\x1b[2J".into());
        let all = [
            one(1, None, 0, 10_000_000),
            one(2, Some(1), 2_000_000, 3_000_000),
            one(3, Some(1), 6_000_000, 1_000_000),
            failed,
        ];
        let text = text(&all, 3, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "trace 00000000000000000000000000000007: 4 transactions, 4 processes, 1 host");
        assert_eq!(lines[1], "from 2023-11-14 22:13:20.000000 UTC");
        let expected = [
            "        0   10.0 ms   6.00 ms   4.00 ms         -         -  shop/t1 in shop[41]",
            "  2.00 ms   3.00 ms   2.50 ms    500 us         -         -  |- shop/t2 in shop[42]",
            "  2.50 ms    500 us    500 us         -         -         -  |  `- shop/t4 FAILED in shop[44]",
        ];
        assert_eq!(lines[4..7], expected, "{text}");
        assert!(lines[7].ends_with("diagnosis: no such row\u{fffd}[2J"), "{text}");
        assert!(lines[8].ends_with("`- shop/t3 in shop[43]") && text.ends_with("3 more of this trace found no room\n"));
    }

    #[test]
    fn waits_are_told_by_thread_or_as_not_measured() {
        let mut waited = one(1, None, 0, 5_000_000);
        waited.threads = serde_json::from_value(json!([
            {"thread": 1, "parts": {"run": 1_000_000, "wait_lock": 4_000_000}},
            {"thread": 2, "parts": {"wait_timer": 5_000_000}},
        ]))
        .expect("threads as the agent tells of them");
        let all = [waited, one(2, Some(1), 1_000_000, 1_000_000)];
        let told = text(&all, 0, true);
        // Details of a transaction stand below its name, right of all columns.
        let below = " ".repeat(50);
        let details: Vec<&str> = told.lines().filter(|line| line.starts_with(&below)).map(str::trim).collect();
        let expected =
            ["wait_lock 4.00 ms, run 1.00 ms", "thread 2, which stopped it: wait_timer 5.00 ms", "waits: not measured"];
        assert_eq!(details, expected, "{told}");
        assert!(!text(&all[1..], 0, false).contains("not measured"));
    }

    #[test]
    fn ids_are_refused_in_words() {
        assert!(id("00f067aa0ba902b7").is_ok());
        assert!(id("shop").is_err_and(|error| error.to_string().contains("hexadecimal")));
    }
}
