//! The `weir replay` command: the decisions that rules would have made on recorded readings.

use crate::{check, output, units};
use anyhow::{Context, bail};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_adapt::forecast::Method;
use weir_adapt::{Counts, Decision, Engine, Outcome, Policy, Replay, log};

const EXAMPLES: &str = "\
Examples:
  weir replay flood.policy readings.jsonl
      what these rules would have done, when, and on which readings
  weir replay --all flood.policy weir-runs/0007
      also when a rule did not fire, and why: of a run's directory
  weir replay --forecast robust flood.policy readings.jsonl
      the same with forecasts that a few wild values do not turn
  weir replay --json flood.policy readings.jsonl | jq 'select(.rule)'
      a line of JSON for each decision, then one with the counts

Readings are lines of JSON, the first of which says what the file is:
  {\"format\":\"weir-readings\",\"version\":1,\"here\":\"n1\",
   \"tick_ms\":1000,\"valid_ms\":3000}                  (in one line)
  {\"at_ms\":1000,\"read\":\"cpu\",\"node\":\"n1\",\"value\":\"93%\"}
  {\"at_ms\":1000,\"read\":\"rate\",\"atom\":\"/news/a\",\"value\":\"620rps\"}
  {\"at_ms\":1200,\"begin\":17,\"atom\":\"/v/film\"}
  {\"at_ms\":1200,\"read\":\"bandwidth\",\"session\":17,\"value\":\"64kbps\"}
Also start and end of a session, down and up of a node, and \"tick\":true
where tick_ms is not given. docs/write-a-policy.md has all of it.

Exit status: 0 if all was read, 1 with a mistake in it.";

/// Show the decisions that rules would have made on recorded readings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The rules
    #[arg(value_name = "POLICY")]
    policy: PathBuf,

    /// The readings, or a directory with a readings.jsonl; of a recording in several files all of them, the oldest first
    #[arg(value_name = "READINGS", required = true)]
    readings: Vec<PathBuf>,

    /// The node that decides, in place of the one that the readings name
    #[arg(long, value_name = "NODE")]
    here: Option<String>,

    /// How forecasts are made: least-squares, robust, or seasonal:PERIOD such as seasonal:24h
    #[arg(long, value_name = "METHOD", default_value = "least-squares", value_parser = method)]
    forecast: Method,

    /// Tell also when a rule did not fire, and why
    #[arg(long)]
    all: bool,

    /// Tell it in lines of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn method(text: &str) -> Result<Method, String> {
    match text.split_once(':') {
        None if text == "least-squares" => Ok(Method::LeastSquares),
        None if text == "robust" => Ok(Method::Robust),
        Some(("seasonal", period)) => {
            let period_ms = units::duration(period)?.as_millis();
            match u64::try_from(period_ms) {
                Ok(period_ms @ 96..=31_622_400_000) => Ok(Method::Seasonal { period_ms }),
                _ => Err("a season lasts from 96ms to a year".to_owned()),
            }
        }
        _ => Err("write least-squares, robust or seasonal:24h".to_owned()),
    }
}

/// The last line of the JSON.
#[derive(Debug, Serialize)]
struct Summary {
    entries: u64,
    ticks: u64,
    rules: Vec<OfRule>,
    forecasts: Vec<OfForecast>,
    counts: Counts,
    recorded: Recorded,
}

/// What the recording says of decisions.
#[derive(Debug, Serialize)]
struct Recorded {
    same: u64,
    others: u64,
    lines_lost: u64,
}

/// What became of a rule.
#[derive(Debug, Clone, Default, Serialize)]
struct OfRule {
    name: String,
    line: usize,
    fired: u64,
    released: u64,
    superseded: u64,
    /// Times at which it became unknown, outranked, limited or cooling, not ticks for which it was.
    unknown: u64,
    outranked: u64,
    limited: u64,
    cooling: u64,
}

/// How wrong forecasts were; errors in the unit of the resource.
#[derive(Debug, Serialize)]
struct OfForecast {
    metric: String,
    judged: u64,
    error_mean: Option<f64>,
    bias: Option<f64>,
    #[serde(skip)]
    words: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = args.policy.display().to_string();
    let text = check::read_text(&args.policy).with_context(|| file.clone())?;
    let policy = match Policy::read(&file, &text) {
        Ok((policy, _)) => policy,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("{file}:{mistake}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut rules: Vec<OfRule> =
        policy.names().map(|(name, line)| OfRule { name: name.to_owned(), line, ..OfRule::default() }).collect();
    let (first, others) = args.readings.split_first().context("give a file of readings")?;
    let mut lines = Lines::open(first)?;
    let header = lines.header()?;
    let here = args.here.clone().unwrap_or_else(|| header.here.clone());
    let mut replay = Replay::new(Engine::new(policy, &here, args.forecast), &here, header.clone());
    let mut decisions = Vec::new();
    let mut read_on = true;
    let mut others = others.iter();
    'files: loop {
        while let Some(line) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            let entry = log::parse_entry(&line).map_err(|wrong| lines.wrong(&wrong))?;
            replay.entry(&entry, &mut decisions).map_err(|wrong| lines.wrong(&wrong))?;
            read_on = tell(args, &mut rules, &replay, &mut decisions)?;
            if !read_on {
                break 'files;
            }
        }
        let Some(next) = others.next() else { break };
        lines = Lines::open(next)?;
        if lines.header()? != header {
            bail!(lines.wrong("it is of another recording than the file before it; replay it by itself"));
        }
    }
    replay.finish(&mut decisions);
    if read_on && tell(args, &mut rules, &replay, &mut decisions)? {
        finish(args, &replay, rules)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells decisions as they come, so that any number of them takes no memory; `false` = nobody reads any more.
fn tell(args: &Args, rules: &mut [OfRule], replay: &Replay, decisions: &mut Vec<Decision>) -> anyhow::Result<bool> {
    for decision in decisions.drain(..) {
        if let Some(rule) = rules.iter_mut().find(|rule| rule.line == decision.line && rule.name == decision.rule) {
            let count = match decision.outcome {
                Outcome::Fired => &mut rule.fired,
                Outcome::Released => &mut rule.released,
                Outcome::Superseded => &mut rule.superseded,
                Outcome::Unknown { .. } => &mut rule.unknown,
                Outcome::Outranked => &mut rule.outranked,
                Outcome::Limited => &mut rule.limited,
                Outcome::Cooling => &mut rule.cooling,
            };
            *count += 1;
        }
        let acted = matches!(decision.outcome, Outcome::Fired | Outcome::Released | Outcome::Superseded);
        if !(acted || args.all) {
            continue;
        }
        let text = if args.json {
            serde_json::to_string(&decision)? + "\n"
        } else {
            in_words(&decision, replay.told().first_ms.unwrap_or(0))
        };
        if !output::print_while_read(&text)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Time since the recording began, rule, for whom and what; below it the readings.
fn in_words(decision: &Decision, began_ms: u64) -> String {
    let orders = decision.orders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let what = match (&decision.outcome, orders.is_empty()) {
        (Outcome::Fired, _) => orders,
        (outcome, true) => outcome.to_string(),
        (outcome, false) => format!("{outcome}: {orders}"),
    };
    let at = decision.at_ms.saturating_sub(began_ms) as f64 / 1e3;
    let mut text = format!("{at:>9.1} s  {:<12}  {:<24}  {what}\n", decision.rule, decision.subject.to_string());
    for cited in &decision.readings {
        text += &format!("             {cited}\n");
    }
    text
}

fn finish(args: &Args, replay: &Replay, rules: Vec<OfRule>) -> anyhow::Result<()> {
    let told = replay.told();
    let forecasts = replay.engine().forecast_errors(replay.state()).into_iter().map(|one| {
        let (error_mean, bias) = (one.errors.mean(), one.errors.bias());
        let words = match (error_mean, one.errors.share()) {
            (Some(mean), share) => {
                let share = share.map_or(String::new(), |share| format!(", {:.0}% of what came", 100.0 * share));
                let shown = one.resource.dimension().show(mean);
                format!("{}: {} forecasts judged, wrong by {shown} on average{share}", one.metric, one.errors.count)
            }
            _ => format!("{}: no forecast whose time has come", one.metric),
        };
        OfForecast { metric: one.metric, judged: one.errors.count, error_mean, bias, words }
    });
    let forecasts: Vec<OfForecast> = forecasts.collect();
    let counts = replay.state().counts();
    if args.json {
        let recorded = Recorded { same: told.same, others: told.others, lines_lost: told.lost };
        let summary = Summary { entries: told.entries, ticks: told.ticks, rules, forecasts, counts, recorded };
        return output::print(&(serde_json::to_string(&summary)? + "\n"));
    }
    let seconds = told.first_ms.map_or(0.0, |first_ms| (told.last_ms - first_ms.min(told.last_ms)) as f64 / 1e3);
    let mut text = format!(
        "\n{} on {}: {} lines and {} ticks of {seconds:.1} s\n",
        args.policy.display(),
        args.readings.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "),
        told.entries,
        told.ticks
    );
    text += &format!(
        "{:<16}{:>6}{:>9}{:>10}{:>12}{:>9}{:>11}{:>9}{:>9}\n",
        "rule", "line", "fired", "released", "superseded", "unknown", "outranked", "limited", "cooling"
    );
    for rule in &rules {
        let OfRule { name, line, fired, released, superseded, unknown, outranked, limited, cooling } = rule;
        text += &format!(
            "{name:<16}{line:>6}{fired:>9}{released:>10}{superseded:>12}{unknown:>9}{outranked:>11}{limited:>9}{cooling:>9}\n"
        );
    }
    match (told.same, told.others) {
        (0, 0) => {}
        (same, 0) => text += &format!("all {same} recorded decisions are the same\n"),
        (same, others) => {
            text += &format!("{same} recorded decisions are the same, {others} are not: of other rules\n");
        }
    }
    if told.lost > 0 {
        text += &format!("{} lines were lost when it was recorded: what comes behind them may differ\n", told.lost);
    }
    for forecast in &forecasts {
        text += &format!("forecast {}\n", forecast.words);
    }
    for (count, what) in [
        (counts.unasked, "readings that no rule asks for"),
        (counts.out_of_order, "readings older than one that was there"),
        (counts.senseless, "readings of nobody, of the future or without sense"),
        (counts.atoms_refused, "atoms too many"),
        (counts.sessions_refused, "sessions too many"),
        (counts.untold, "reasons for not firing that were too many to tell"),
    ] {
        if count > 0 {
            text += &format!("passed over: {count} {what}\n");
        }
    }
    output::print(&text)
}

/// The lines of a file, each within its bound.
struct Lines {
    path: PathBuf,
    from: BufReader<File>,
    number: usize,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join("readings.jsonl") } else { path.to_owned() };
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, from: BufReader::new(file), number: 0 })
    }

    fn header(&mut self) -> anyhow::Result<log::Header> {
        let line = self.next()?.with_context(|| self.wrong("the file is empty; record readings first").to_string())?;
        log::parse_header(&line).map_err(|wrong| self.wrong(&wrong))
    }

    fn next(&mut self) -> anyhow::Result<Option<String>> {
        self.number += 1;
        let mut line = String::new();
        let most = log::LINE_BYTES_MAX as u64 + 2;
        let read = (&mut self.from).take(most).read_line(&mut line);
        let read = read.map_err(|error| self.wrong(&error.to_string()))?;
        if read as u64 == most && !line.ends_with('\n') {
            bail!(self.wrong(&format!("more than {} bytes", log::LINE_BYTES_MAX)));
        }
        let whole = line.trim_end_matches(['\n', '\r']).len();
        line.truncate(whole);
        Ok((read > 0).then_some(line))
    }

    fn wrong(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!("{}:{}: {what}", self.path.display(), self.number)
    }
}
