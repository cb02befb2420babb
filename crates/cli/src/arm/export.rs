//! `weir arm export`: what the agent has kept, minute by minute or transactions whole, as CSV or JSON.

use crate::agent::{STORE_NAME, usual_state};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use weir_store::{Fold, Minute, Outcome, Reader, Select};

const EXAMPLES: &str = "\
Examples:
  weir arm export
      the last hour, a line of CSV for each minute, transaction and user
  weir arm export --since 7d --application shop > shop.csv
      a week of one application
  weir arm export --whole --since 1d | jq -r 'select(.status == \"failed\") | .id'
      whole transactions as JSON: the slow and the failed ones, and related ones
  weir arm export --format json --since 1d
      with the histogram of each minute: from, to, count

It reads what `weir agent` has kept (weir agent --state DIR); the agent need not
run. Times are nanoseconds, minutes UTC.

Exit status: 0, or 1 if nothing is kept there or it cannot be read.";

/// Write out what was kept of the last hour, days or weeks: minutes, or whole transactions.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory in which the agent keeps it [default: /var/lib/weir-agent, or below ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// How far back: 1h, 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = weir_terminal::units::duration)]
    since: Duration,

    /// Only transactions of this application
    #[arg(long, value_name = "NAME")]
    application: Option<String>,

    /// Only transactions of this name
    #[arg(long, value_name = "NAME")]
    transaction: Option<String>,

    /// Only transactions of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Write the transactions that were kept whole instead of minutes: the newest first, a line of JSON each
    #[arg(long)]
    whole: bool,

    /// The most transactions that --whole writes
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "whole")]
    most: usize,

    /// Format of the minutes
    #[arg(long, value_enum, default_value_t = Format::Csv, conflicts_with = "whole")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Comma-separated values with a heading
    Csv,
    /// A line of JSON each
    Json,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let state = args.state.clone().unwrap_or_else(usual_state);
    let reader = Reader::open(&state.join(STORE_NAME))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let select = Select {
        from_ms: Some(u64::try_from(now.saturating_sub(args.since).as_millis()).unwrap_or(u64::MAX)),
        to_ms: None,
        source: args.application.clone(),
        class: args.transaction.clone(),
        user: args.user.clone(),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    if args.whole {
        for record in reader.records(&select, args.most)? {
            written = written.and_then(|()| writeln!(out, "{}", record.body));
        }
    } else {
        if args.format == Format::Csv {
            written = writeln!(out, "{HEADING}");
        }
        reader.minutes(&select, |minute| {
            let line = if args.format == Format::Csv { csv(&minute) } else { json(&minute).to_string() };
            written = writeln!(out, "{line}");
            written.is_ok()
        })?;
    }
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

const HEADING: &str = "minute,application,transaction,user,transactions,good,aborted,failed,unknown,unfinished,\
                       mean_ns,p50_ns,p90_ns,p99_ns,max_ns,blocked_ns,queued_ns";

fn begin(minute: &Minute) -> String {
    let seconds = i64::try_from(minute.minute.saturating_mul(60)).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp(seconds, 0)
        .map_or_else(|| seconds.to_string(), |time| time.format("%Y-%m-%dT%H:%MZ").to_string())
}

/// Durations by the names of their columns.
fn figures(fold: &Fold) -> [(&'static str, u64); 7] {
    let durations = &fold.durations;
    [
        ("mean_ns", durations.mean_ns()),
        ("p50_ns", durations.quantile_ns(0.5)),
        ("p90_ns", durations.quantile_ns(0.9)),
        ("p99_ns", durations.quantile_ns(0.99)),
        ("max_ns", durations.max_ns()),
        ("blocked_ns", fold.blocked_ns),
        ("queued_ns", fold.queued_ns),
    ]
}

fn csv(minute: &Minute) -> String {
    let series = &minute.series;
    let mut cells = vec![begin(minute)];
    cells.extend([&series.source, &series.class, &series.user].map(|text| quoted(text)));
    cells.push(minute.fold.count().to_string());
    cells.extend(minute.fold.outcomes.map(|count| count.to_string()));
    cells.extend(figures(&minute.fold).map(|(_, value)| value.to_string()));
    cells.join(",")
}

/// In quotes where it must be, as RFC 4180 says.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn json(minute: &Minute) -> serde_json::Value {
    let mut line = serde_json::json!({
        "minute": begin(minute),
        "application": minute.series.source,
        "transaction": minute.series.class,
        "user": (!minute.series.user.is_empty()).then_some(&minute.series.user),
        "transactions": minute.fold.count(),
    });
    for (outcome, count) in Outcome::ALL.iter().zip(minute.fold.outcomes) {
        line[outcome.name()] = count.into();
    }
    for (name, value) in figures(&minute.fold) {
        line[name] = value.into();
    }
    line["durations"] = minute.fold.durations.buckets().map(|(from, to, count)| [from, to, count]).collect();
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_store::Series;

    #[test]
    fn a_minute_has_as_many_cells_as_the_heading() {
        let mut fold = Fold::default();
        fold.durations.push_many(1000, 3);
        fold.outcomes = [2, 0, 1, 0, 0];
        let series = Series { source: "a \"b\"".into(), class: "c,d".into(), user: String::new() };
        let minute = Minute { minute: 28_333_333, series, fold };
        let line = csv(&minute);
        assert!(line.starts_with("2023-11-14T22:13Z,\"a \"\"b\"\"\",\"c,d\",,3,2,0,1,0,0,1000,"), "{line}");
        assert_eq!(line.matches(',').count() - 1, HEADING.matches(',').count());
        let told = json(&minute);
        assert_eq!((&told["failed"], &told["user"], &told["durations"][0][2]), (&1.into(), &().into(), &3.into()));
    }
}
