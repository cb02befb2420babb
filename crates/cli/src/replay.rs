//! The `weir replay` command: the decisions that rules would have made on recorded readings.

use crate::forecast_method::method;
use crate::given_files::read_policy;
use crate::schemas::Named;
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_adapt::forecast::Method;
use weir_adapt::{Counts, Decision, Engine, ForecastErrors, NO_RULES, Outcome, Policy, Replay, ReplayCounts, log};
use weir_explain::decisions::Meanwhile;
use weir_explain::readings::{Lines, READINGS};
use weir_terminal::output;
use weir_terminal::units::counted;

const EXAMPLES: &str = "\
Examples:
  weir replay flood.policy readings.jsonl
      what these rules would have done, when, and on which readings
  weir replay --all flood.policy readings.jsonl
      also when a rule did not fire, and why
  weir replay flood.policy weir-runs/0007 --decisions log.jsonl
      what they would have done while that run was recorded, on the readings
      that the server wrote meanwhile (weir serve --decisions log.jsonl)
  weir replay --forecast robust flood.policy readings.jsonl
      the same with forecasts that withstand outliers
  weir replay --json flood.policy readings.jsonl | jq 'select(.rule)'
      a line of JSON for each decision, then one with the counts

Readings are lines of JSON, the first of which says what the file is:
  {\"format\":\"weir-readings\",\"version\":1,\"here\":\"n1\",
   \"tick_ms\":1000,\"valid_ms\":3000}                  (in one line)
  {\"at_ms\":1000,\"read\":\"cpu\",\"node\":\"n1\",\"value\":\"93%\"}
  {\"at_ms\":1000,\"read\":\"rate\",\"atom\":\"/news/a\",\"value\":\"620rps\"}
  {\"at_ms\":1200,\"begin\":17,\"atom\":\"/v/film\"}
  {\"at_ms\":1200,\"read\":\"bandwidth\",\"session\":17,\"value\":\"64kbps\"}
Other lines are start and end of a session, passed for many alike, down and up
of a node, and \"tick\":true where tick_ms is not given; all of them are described
in docs/reference/policies.md. A further header begins another part, for which
the rules begin afresh. A last line that was cut is reported and skipped.

Exit status: 0 if all was read, 1 with a mistake in it.";

/// Show the decisions that rules would have made on recorded readings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The rules
    #[arg(value_name = "POLICY")]
    policy: PathBuf,

    /// The readings, or a directory with a readings.jsonl; of a recording in several files all of them, the oldest first.
    /// With --decisions a run's directory
    #[arg(value_name = "READINGS", required = true)]
    readings: Vec<PathBuf>,

    /// What `weir serve --decisions FILE` wrote while the run was recorded, from FILE, FILE.1 and older ones. The rules
    /// get all of it up to the run's end; their decisions during the run are shown
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// The node that decides, in place of the one that the readings name
    #[arg(long, value_name = "NODE")]
    here: Option<String>,

    /// How forecasts are made: least-squares, robust, or seasonal:PERIOD such as seasonal:24h
    #[arg(long, value_name = "METHOD", default_value = "least-squares", value_parser = method)]
    forecast: Method,

    /// Show also when a rule did not fire, and why
    #[arg(long)]
    all: bool,

    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

/// The form of the lines of JSON.
const SCHEMA: &str = "weir-replay/1";

/// The last line of the JSON.
#[derive(Debug, Serialize)]
struct Summary {
    parts: u64,
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
    /// Last lines of files that were cut, and not read.
    lines_cut: u64,
    /// Lines of sessions that had not begun, or had begun already.
    of_no_session: u64,
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
    let text = read_policy(&args.policy).with_context(|| file.clone())?;
    let policy = match Policy::read(&file, &text) {
        Ok((policy, _)) => policy,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("{file}:{mistake}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    if policy.rules() == 0 {
        bail!("{file}: {NO_RULES}; give the policy whose rules are to be told the readings");
    }
    let meanwhile = match (&args.decisions, &args.readings[..]) {
        (Some(log), [run]) => Some(Meanwhile::of(run, log)?),
        (Some(_), _) => bail!("--decisions is for one run; give its directory alone"),
        (None, all) => {
            if let Some(run) = all.iter().find(|one| one.is_dir() && !one.join(READINGS).exists()) {
                bail!(
                    "{} has no {READINGS}; of a run say by --decisions FILE what the server wrote down meanwhile (weir \
                     serve --decisions FILE)",
                    run.display()
                );
            }
            None
        }
    };
    let files = meanwhile.as_ref().map_or(args.readings.clone(), |meanwhile| meanwhile.files.clone());
    let mut told = Telling::new(args, policy, meanwhile);
    for path in &files {
        if !told.file(path)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if told.end_part()? {
        if told.all.entries == 0 && told.meanwhile.is_none() {
            bail!("{}: nothing was recorded behind the header; record readings first", files[0].display());
        }
        told.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All parts of a recording, one after the other, and what is printed of them.
struct Telling<'a> {
    args: &'a Args,
    /// The run whose time counts, where it is of one.
    meanwhile: Option<Meanwhile>,
    policy: Policy,
    rules: Vec<OfRule>,
    /// The part that is replayed now, with its header.
    part: Option<(Replay, log::Header)>,
    decisions: Vec<Decision>,
    parts: u64,
    all: ReplayCounts,
    seconds: f64,
    counts: Counts,
    forecasts: Vec<ForecastErrors>,
    /// Recorded decisions that differ although the rules were the same and no line was lost.
    unexplained: u64,
    /// Files whose last line was cut.
    cut: Vec<PathBuf>,
    /// The recording began in a file that was not given.
    is_a_rest: bool,
}

impl<'a> Telling<'a> {
    fn new(args: &'a Args, policy: Policy, meanwhile: Option<Meanwhile>) -> Self {
        let of = |(name, line): (&str, usize)| OfRule { name: name.to_owned(), line, ..OfRule::default() };
        Self {
            args,
            meanwhile,
            rules: policy.names().map(of).collect(),
            policy,
            part: None,
            decisions: Vec::new(),
            parts: 0,
            all: ReplayCounts::default(),
            seconds: 0.0,
            counts: Counts::default(),
            forecasts: Vec::new(),
            unexplained: 0,
            cut: Vec::new(),
            is_a_rest: false,
        }
    }

    /// Tells a file; `false` = the reader has closed the pipe.
    fn file(&mut self, path: &Path) -> anyhow::Result<bool> {
        let mut lines = Lines::open(path)?;
        let mut is_first = true;
        while let Some(line) = lines.next()? {
            let is_header = std::mem::take(&mut is_first) || log::is_header(&line);
            if is_header && !self.begin_part(&line, &lines)? {
                return Ok(false);
            }
            if is_header || line.trim().is_empty() {
                continue;
            }
            let entry = log::parse_entry(&line).map_err(|wrong| lines.wrong(&wrong))?;
            let Some((replay, header)) = &mut self.part else { continue };
            if self.meanwhile.as_ref().is_some_and(|run| run.is_over(header.clock.as_ref(), entry.at_ms)) {
                continue;
            }
            replay.entry(&entry, &mut self.decisions).map_err(|wrong| lines.wrong(&wrong))?;
            if !self.tell()? {
                return Ok(false);
            }
        }
        if is_first {
            let what = if lines.is_cut { "the file has no whole line" } else { "the file is empty" };
            bail!(lines.wrong(format!("{what}; record readings first")));
        }
        if lines.is_cut {
            self.cut.push(lines.path);
        }
        Ok(true)
    }

    /// A header: another part begins afresh, or the one before it goes on in another file.
    fn begin_part(&mut self, line: &str, lines: &Lines) -> anyhow::Result<bool> {
        let header = log::parse_header(line).map_err(|wrong| lines.wrong(&wrong))?;
        if let Some((_, before)) = self.part.as_ref().filter(|_| header.continues) {
            if (log::Header { continues: before.continues, ..header }) != *before {
                bail!(lines.wrong("it goes on with another recording than the one before it; replay it by itself"));
            }
            return Ok(true);
        }
        if !self.end_part()? {
            return Ok(false);
        }
        self.parts += 1;
        self.is_a_rest |= header.continues;
        let here = self.args.here.clone().unwrap_or_else(|| header.here.clone());
        let engine = Engine::new(self.policy.clone(), &here, self.args.forecast);
        self.part = Some((Replay::new(engine, &here, header.clone()), header));
        if self.parts == 1 || self.args.json {
            return Ok(true);
        }
        let place = format!("{}:{}", lines.path.display(), lines.number);
        Ok(output::print_while_read(&format!("part {}, from {place} on, begins afresh\n", self.parts))?)
    }

    /// The part that is told is over; `false` = the reader has closed the pipe.
    fn end_part(&mut self) -> anyhow::Result<bool> {
        if let Some((replay, _)) = &mut self.part {
            replay.finish(&mut self.decisions);
        }
        let read_on = self.tell()?;
        let Some((replay, header)) = self.part.take() else { return Ok(read_on) };
        let told = replay.counts();
        if let Some(first_ms) = told.first_ms {
            self.seconds += told.last_ms.saturating_sub(first_ms) as f64 / 1e3;
        }
        if told.lost == 0 && !header.continues && header.rules.as_deref() == Some(&*self.policy.mark()) {
            self.unexplained += told.others;
        }
        self.all.entries += told.entries;
        self.all.ticks += told.ticks;
        self.all.lost += told.lost;
        self.all.same += told.same;
        self.all.others += told.others;
        self.all.of_no_session += told.of_no_session;
        self.counts.merge(replay.state().counts());
        let errors = replay.engine().forecast_errors(replay.state());
        if self.forecasts.is_empty() {
            self.forecasts = errors;
        } else {
            // Of the same policy, so in the same order.
            self.forecasts.iter_mut().zip(errors).for_each(|(all, one)| all.errors.merge(&one.errors));
        }
        Ok(read_on)
    }

    /// Tells decisions as they come, so that any number of them takes no memory; `false` = the reader
    /// has closed the pipe.
    fn tell(&mut self) -> anyhow::Result<bool> {
        let began_ms = self.part.as_ref().and_then(|(replay, _)| replay.counts().first_ms).unwrap_or(0);
        let clock = self.part.as_ref().and_then(|(_, header)| header.clock.as_ref());
        for decision in self.decisions.drain(..) {
            // Decisions before the run only bring the rules into their state at its begin.
            if self.meanwhile.as_ref().is_some_and(|run| !run.holds(clock, decision.at_ms)) {
                continue;
            }
            let rule = |rule: &&mut OfRule| rule.line == decision.line && rule.name == decision.rule;
            if let Some(rule) = self.rules.iter_mut().find(rule) {
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
            if !(acted || self.args.all) {
                continue;
            }
            let text = if self.args.json {
                serde_json::to_string(&Named::new(SCHEMA, &decision))? + "\n"
            } else {
                in_words(&decision, began_ms)
            };
            if !output::print_while_read(&text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(self) -> anyhow::Result<()> {
        let forecasts: Vec<OfForecast> = self.forecasts.iter().map(of_forecast).collect();
        if self.args.json {
            let ReplayCounts { entries, ticks, same, others, lost, of_no_session, .. } = self.all;
            let recorded = Recorded { same, others, lines_lost: lost, lines_cut: self.cut.len() as u64, of_no_session };
            let (parts, rules, counts) = (self.parts, self.rules, self.counts);
            let summary = Summary { parts, entries, ticks, rules, forecasts, counts, recorded };
            return Ok(output::print(&(serde_json::to_string(&Named::new(SCHEMA, &summary))? + "\n"))?);
        }
        Ok(output::print(&self.in_words(&forecasts))?)
    }

    /// The table of rules, and what is to be known beside it.
    fn in_words(&self, forecasts: &[OfForecast]) -> String {
        let Self { args, all, seconds, counts, .. } = self;
        let parts = if self.parts > 1 { format!(" in {} parts", self.parts) } else { String::new() };
        let mut text = format!(
            "\n{} on {}: {} and {} of {seconds:.1} s{parts}\n",
            args.policy.display(),
            args.readings.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "),
            counted(all.entries, "line"),
            counted(all.ticks, "tick")
        );
        text += &format!(
            "{:<16}{:>6}{:>9}{:>10}{:>12}{:>9}{:>11}{:>9}{:>9}\n",
            "rule", "line", "fired", "released", "superseded", "unknown", "outranked", "limited", "cooling"
        );
        for rule in &self.rules {
            let OfRule { name, line, fired, released, superseded, unknown, outranked, limited, cooling } = rule;
            text += &format!(
                "{name:<16}{line:>6}{fired:>9}{released:>10}{superseded:>12}{unknown:>9}{outranked:>11}{limited:>9}{cooling:>9}\n"
            );
        }
        if self.meanwhile.is_some() {
            text +=
                "decisions are those of the run's time; lines and ticks are told from the recording's beginning on\n";
        }
        text += &self.compared();
        for path in &self.cut {
            let path = path.display();
            text += &format!(
                "{path}: its last line was cut, as by a full disk or the end of the server, and not read; all others were\n"
            );
        }
        if self.is_a_rest {
            text += "the recording began in a file before these (FILE.1); give that first, as decisions may differ\n";
        }
        if all.lost > 0 {
            let (lost, were) = (counted(all.lost, "line"), if all.lost == 1 { "was" } else { "were" });
            text += &format!("{lost} {were} lost when it was recorded: what comes behind may differ\n");
        }
        for forecast in forecasts {
            text += &format!("forecast {}\n", forecast.words);
        }
        for (count, thing, what) in [
            (counts.unasked, "reading", "that no rule asks for"),
            (counts.out_of_order, "reading", "older than one that was there"),
            (counts.senseless, "reading", "of nothing known, of the future or without sense"),
            (counts.nodes_refused, "line", "of nodes too many"),
            (counts.atoms_refused, "line", "of atoms too many"),
            (counts.sessions_refused, "session", "too many"),
            (counts.clients_refused, "line", "of clients too many"),
            (counts.untold, "reason", "for not firing, too many to tell"),
            (all.of_no_session, "line", "of sessions that had not begun, or had begun already"),
        ] {
            if count > 0 {
                text += &format!("passed over: {} {what}\n", counted(count, thing));
            }
        }
        text
    }

    /// Whether the decisions are those that were recorded; of others why, as far as that is known.
    fn compared(&self) -> String {
        let ReplayCounts { same, others, .. } = self.all;
        if (same, others) == (0, 0) {
            return String::new();
        }
        if others == 0 {
            return match same {
                1 => "the one recorded decision is the same\n".to_owned(),
                _ => format!("all {same} recorded decisions are the same\n"),
            };
        }
        let why = if self.unexplained > 0 {
            "although the rules are the same: made with other forecasts (--forecast), or by another version of weir"
        } else if self.all.lost > 0 || self.is_a_rest {
            "by other rules, or without readings that were lost or are not here"
        } else {
            "of other rules"
        };
        let (decisions, is) = (counted(same, "recorded decision"), if same == 1 { "is" } else { "are" });
        let are = if others == 1 { "is" } else { "are" };
        format!("{decisions} {is} the same, {others} {are} not: {why}\n")
    }
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

fn of_forecast(one: &ForecastErrors) -> OfForecast {
    let (error_mean, bias) = (one.errors.mean(), one.errors.bias());
    let words = match (error_mean, one.errors.share()) {
        (Some(mean), share) => {
            let share = share.map_or(String::new(), |share| format!(", {:.0}% of what came", 100.0 * share));
            let shown = one.resource.dimension().show(mean);
            let judged = counted(one.errors.count, "forecast");
            format!("{}: {judged} judged, wrong by {shown} on average{share}", one.metric)
        }
        _ => format!("{}: no forecast whose time has come", one.metric),
    };
    OfForecast { metric: one.metric.clone(), judged: one.errors.count, error_mean, bias, words }
}
