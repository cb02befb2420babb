//! `weir load --find-max`: the highest rate of arrivals at which a server holds an objective.

use super::find_max_words as words;
use super::found::{Answer, Found, Times};
use super::judge::{self, JudgeArgs};
use super::live::{Watch, watched};
use super::load_args::LoadArgs;
use super::outputs::{OutputArgs, written};
use super::screen::Colours;
use super::slo::objective_text;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_load::{Counts, Histogram, LoadReport, Options, Schedule, Statuses, StopRule};
use weir_measure::capacity::{Highest, Search, Trial, knee};
use weir_measure::objective::Objective;
use weir_measure::summary::Summary;
use weir_report::LoadedRate;
use weir_terminal::progress::Line;
use weir_terminal::stop::Stop;

/// Trials that a search usually needs; its time is divided among so many.
const TRIALS_USUAL: u32 = 60;
/// How long a search may take where nothing is said.
const DURATION: Duration = Duration::from_secs(180);
/// The shortest trial that tells something.
const TRIAL_MIN: Duration = Duration::from_millis(200);
/// Connections at most where nothing is said: arrivals that wait for one would hide the server behind the generator.
const CONNECTIONS: u32 = 256;
/// The highest rate that is tried.
const RATE_MAX: f64 = 1e6;
/// Parts of a trial, of which the first does not count: the server has to come to its steady state.
const PARTS: u32 = 5;
/// The share of trials near the answer that the generator shaped, from which on it was the limit.
const LIMITED_SHARE: f64 = 0.25;
/// The share of time without a CPU from which on a generator shapes what it measures.
const CONTENDED_SHARE: f64 = 0.05;
/// The part of a limit that the generator's own lateness may take.
const LAG_SHARE: f64 = 0.1;
/// How often a trial is made again that was missed while the generator shaped it: in a row, and in a whole search.
const AGAIN_IN_A_ROW: u32 = 2;
const AGAIN_MAX: u32 = TRIALS_USUAL / 4;

/// The options of a search.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FindMaxArgs {
    /// Search for the highest rate of arrivals that holds the objective of --slo; -d is the time of the whole search
    /// [default: 3m]
    #[arg(
        long,
        conflicts_with_all = ["rate", "requests", "run", "prometheus", "prometheus_listen", "interval"],
        help_heading = "Load"
    )]
    find_max: bool,
    /// The rate at which the search begins, arrivals a second [default: 10, or 20 in a trial]
    #[arg(long, requires = "find_max", value_name = "R", help_heading = "Load")]
    from_rate: Option<f64>,
}

impl FindMaxArgs {
    /// Whether a search is wanted.
    pub(super) fn wanted(&self) -> bool {
        self.find_max
    }
}

impl Times {
    fn of(total: Duration, objective: Objective, timeout: Duration) -> Result<Self, Usage> {
        let slot = total / TRIALS_USUAL;
        let settle = (slot / 12).clamp(Duration::from_millis(20), Duration::from_millis(500));
        let limit = match objective {
            Objective::Latency { limit_ns, .. } => Duration::from_nanos(limit_ns),
            Objective::Errors { .. } => slot / 2,
        };
        // What takes longer than the limit is missed, however much longer it takes.
        let drain = (4 * limit).max(Duration::from_millis(200)).min(timeout);
        // Only trials beyond the answer take all of it, and they are fewer than half.
        let trial = slot.saturating_sub(settle + drain / 3);
        if trial < TRIAL_MIN.max(3 * limit) {
            let needed = 3 * TRIALS_USUAL * (limit + TRIAL_MIN);
            return Err(Usage(anyhow!(
                "--find-max: {} s are too few for trials against this objective; give it -d {}s or more",
                total.as_secs_f64(),
                needed.as_secs_f64().ceil()
            )));
        }
        Ok(Self { total, trial, drain, settle })
    }

    /// From a trial's begin to the next, at most.
    fn slot(self) -> Duration {
        self.trial + self.drain + self.settle
    }
}

/// What was found at one rate.
#[derive(Debug)]
struct AtRate {
    latency: Histogram,
    requests: u64,
    bad: u64,
    /// What was counted in those parts of the trials that count, of successes and others.
    counts: Counts,
    /// Whole trials: responses by status, failed requests by kind.
    status: BTreeMap<u16, u64>,
    errors: BTreeMap<&'static str, u64>,
    achieved_per_s: f64,
    successes_per_s: f64,
    trials: u32,
    limited: u32,
}

impl AtRate {
    /// What the report says of it.
    fn loaded(&self, rate_per_s: f64) -> LoadedRate {
        let (summary, trials) = (Summary::of(&self.latency), f64::from(self.trials.max(1)));
        LoadedRate {
            rate_per_s,
            achieved_per_s: self.achieved_per_s / trials,
            successes_per_s: self.successes_per_s / trials,
            successes: self.counts.successes(),
            requests: self.requests,
            status: self.status.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
            errors: self.errors.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            p50_ns: summary.map_or(0, |summary| summary.p50),
            p99_ns: summary.map_or(0, |summary| summary.p99),
            bad_share: self.bad as f64 / self.requests.max(1) as f64,
            trials: self.trials,
        }
    }
}

/// Runs a search and reports it.
pub(super) fn run(
    args: &FindMaxArgs,
    judge: &JudgeArgs,
    load: &LoadArgs,
    url: Option<&str>,
    outputs: &OutputArgs,
    json: bool,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let prepared = load.options(url).and_then(|mut options| {
        let objective = judge.searched()?.unwrap_or(Objective::Latency { share: 0.99, limit_ns: 50_000_000 });
        judge.apply(&mut options)?;
        options.check()?;
        outputs.check()?;
        if options.pipeline > 1 {
            return Err(Usage(anyhow!("--find-max: an open loop has no pipeline")));
        }
        if args.from_rate.is_some_and(|rate| !(rate > 0.0 && rate <= RATE_MAX)) {
            return Err(Usage(anyhow!("--from-rate lies above 0 and at most at {RATE_MAX}")));
        }
        let times = Times::of(load.duration().unwrap_or(DURATION), objective, options.timeout)?;
        Ok((options, objective, times))
    });
    let (first, objective, times) = match prepared {
        Ok(prepared) => prepared,
        Err(Usage(error)) => {
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let slo = objective_text(objective);
    if !quiet {
        eprintln!(
            "searching for the highest rate that holds {slo}: trials of {:.1} s each, at most {:.0} s in all",
            times.trial.as_secs_f64(),
            times.total.as_secs_f64()
        );
    }
    let stop = Stop::on_signals()?;
    let found = search(args, judge, load, url, &first, objective, times, &stop, quiet)?;
    if json {
        weir_terminal::output::print(&format!("{:#}\n", words::json(&found)))?;
    } else {
        weir_terminal::output::print(&words::text(&found, Colours::of_stdout()))?;
    }
    outputs.write_curve(&found)?;
    Ok(match found.answer() {
        Answer::Found { .. } | Answer::AtLeast(_) | Answer::Above(_) => ExitCode::SUCCESS,
        Answer::Below(_) | Answer::Unknown => ExitCode::FAILURE,
    })
}

#[expect(clippy::too_many_arguments, reason = "a search and its circumstances, once")]
fn search(
    args: &FindMaxArgs,
    judge: &JudgeArgs,
    load: &LoadArgs,
    given_url: Option<&str>,
    first: &Options,
    objective: Objective,
    times: Times,
    stop: &Stop,
    quiet: bool,
) -> anyhow::Result<Found> {
    let url = first.url.to_string();
    let seed = load.seed();
    let from = args.from_rate.unwrap_or_else(|| (20.0 / times.trial.as_secs_f64()).max(10.0));
    let mut search = Search::new(from, RATE_MAX, objective.allowed(), seed);
    let mut rates: BTreeMap<u64, AtRate> = BTreeMap::new();
    let (begin, mut line, mut ended) = (Instant::now(), Line::new(), None);
    let (mut again, mut again_here) = (0, 0);
    let mut connections = CONNECTIONS;
    while let Some(rate_per_s) = search.wanted() {
        if stop.asked() {
            ended = Some("ended by you");
            break;
        }
        if begin.elapsed() + times.slot() > times.total {
            ended = Some("its time was over");
            break;
        }
        // A trial that sends nothing would hold every objective.
        if rate_per_s * times.trial.as_secs_f64() < 1.0 {
            ended = Some("even a request a trial missed it");
            break;
        }
        let number = search.trials().len();
        if !quiet {
            let left = times.total.saturating_sub(begin.elapsed()).as_secs_f64();
            let stage = search.stage();
            line.show(|| format!("trial {} at {rate_per_s:.0}/s, {stage}; {left:.0} s left at most", number + 1));
        }
        let mut options = load.options(given_url).map_err(|Usage(error)| error)?;
        if !load.given().iter().any(|option| option == "--connections") {
            options.connections = CONNECTIONS.max(options.threads);
        }
        judge.apply(&mut options).map_err(|Usage(error)| error)?;
        connections = options.connections;
        let seed = seed.wrapping_add(1 + number as u64 + u64::from(again));
        options.schedule = Schedule::Poisson { rate_per_s, seed };
        options.stop = StopRule::Duration(times.trial);
        options.timeout = times.drain;
        options.sampling.interval = (times.trial / PARTS).max(Duration::from_millis(10));
        let watch = Watch { quiet: true, ..Watch::default() };
        let report = watched(options, stop, &watch).with_context(|| format!("at {rate_per_s:.0}/s"))?;
        if report.interrupted {
            ended = Some("ended by you");
            break;
        }
        std::thread::sleep(times.settle);
        let trial = judged(&report, rate_per_s, objective);
        let is_shaped = shaped_by_generator(&report, objective);
        let is_missed = trial.bad as f64 > objective.allowed() * trial.requests as f64;
        if is_shaped && is_missed && again_here < AGAIN_IN_A_ROW && again < AGAIN_MAX {
            (again, again_here) = (again + 1, again_here + 1);
            continue;
        }
        again_here = 0;
        note(&mut rates, &report, &trial, is_shaped);
        search.tried(trial);
    }
    drop(line);
    let expected = judge.expected().map_err(|Usage(error)| error)?;
    Ok(found(&search, &rates, url, objective, expected, times, begin.elapsed(), ended, connections, again))
}

/// How many requests of a trial count, and how many of them missed the objective.
fn judged(report: &LoadReport, rate_per_s: f64, objective: Objective) -> Trial {
    // What was never answered has no place in time; at the end it is too late for any objective.
    let mut trial = Trial { rate_per_s, requests: report.abandoned, bad: report.abandoned };
    for point in report.series.points().iter().skip(1) {
        let judged = judge::of_point(point, objective);
        trial.requests += judged.requests;
        trial.bad += judged.bad;
    }
    trial
}

/// Whether the generator, rather than the server alone, made a trial's latencies: it had no CPU when it wanted one, or it
/// took up arrivals so late that this is a part of the limit.
fn shaped_by_generator(report: &LoadReport, objective: Objective) -> bool {
    let lags = match objective {
        Objective::Latency { share, limit_ns } => {
            report.schedule_lag.value_at_quantile(share) as f64 > LAG_SHARE * limit_ns as f64
        }
        Objective::Errors { .. } => false,
    };
    report.generator.bottleneck || report.generator.runnable_share > CONTENDED_SHARE || lags
}

fn note(rates: &mut BTreeMap<u64, AtRate>, report: &LoadReport, trial: &Trial, is_shaped: bool) {
    // Numbers above 0 have the order of their bits.
    let at = rates.entry(trial.rate_per_s.to_bits()).or_insert_with(|| AtRate {
        latency: Histogram::new_from(&report.latency),
        requests: 0,
        bad: 0,
        counts: Counts::default(),
        status: BTreeMap::new(),
        errors: BTreeMap::new(),
        achieved_per_s: 0.0,
        successes_per_s: 0.0,
        trials: 0,
        limited: 0,
    });
    for point in report.series.points().iter().skip(1) {
        point.latency.add_to(&mut at.latency);
        at.counts = at.counts.and(&point.counts);
    }
    for (code, count) in &report.status {
        *at.status.entry(*code).or_default() += count;
    }
    for (kind, count) in &report.errors {
        *at.errors.entry(kind.name()).or_default() += count;
    }
    at.requests += trial.requests;
    at.bad += trial.bad;
    at.achieved_per_s += report.rate_per_s;
    at.successes_per_s += report.successes_per_s;
    at.trials += 1;
    at.limited += u32::from(is_shaped);
}

#[expect(clippy::too_many_arguments, reason = "a search and its circumstances, once")]
fn found(
    search: &Search,
    rates: &BTreeMap<u64, AtRate>,
    url: String,
    objective: Objective,
    expected: Statuses,
    times: Times,
    duration: Duration,
    ended: Option<&'static str>,
    connections: u32,
    again: u32,
) -> Found {
    let highest = search.answer();
    let curve: Vec<_> = rates.iter().map(|(bits, at)| at.loaded(f64::from_bits(*bits))).collect();
    let points: Vec<_> =
        curve.iter().filter(|rate| rate.p99_ns > 0).map(|rate| (rate.rate_per_s, rate.p99_ns as f64)).collect();
    let knee_per_s = knee(&points);
    let near = match highest {
        Highest::Found { low_per_s, high_per_s, .. } => {
            // What was missed above narrowed the search down, however far above that was.
            let missed = curve.iter().find(|at| at.rate_per_s > low_per_s && at.bad_share > objective.allowed());
            low_per_s * 0.9..=missed.map_or(0.0, |at| at.rate_per_s).max(high_per_s * 1.1)
        }
        Highest::Above(rate) | Highest::Below(rate) => rate * 0.9..=f64::INFINITY,
        Highest::Unknown => 0.0..=0.0,
    };
    let (mut tried, mut limited) = (0, 0);
    for (bits, at) in rates {
        if near.contains(&f64::from_bits(*bits)) {
            tried += at.trials;
            limited += at.limited;
        }
    }
    let generator_limited = tried > 0 && f64::from(limited) >= LIMITED_SHARE * f64::from(tried);
    let mut warnings = Vec::new();
    if generator_limited {
        warnings.push(format!(
            "the generator was the bottleneck: in {limited} of {tried} trials near the answer it waited for its CPU, was \
             busy all the time or took arrivals up late; a CPU of its own (--cpu), more threads (-t) or another host \
             show more of the server"
        ));
    }
    if again > 0 {
        warnings.push(format!(
            "{again} trials were made again: the objective was missed while the generator was kept back"
        ));
    }
    if let Highest::Found { rate_per_s, .. } = highest {
        let each = rate_per_s * times.trial.as_secs_f64() * f64::from(PARTS - 1) / f64::from(PARTS);
        if each * objective.allowed() < 5.0 {
            warnings.push(format!(
                "a trial near the answer has only about {each:.0} requests, of which {:.1} may miss the objective: a \
                 longer search (-d) is surer",
                each * objective.allowed()
            ));
        }
    }
    Found {
        url,
        objective,
        slo: objective_text(objective),
        expected,
        highest,
        knee_per_s,
        rates: curve,
        generator_limited,
        again,
        trials: search.trials().len(),
        times,
        duration,
        requests: rates.values().map(|at| at.requests).sum(),
        connections,
        ended,
        warnings,
    }
}

impl OutputArgs {
    /// Writes the curve of a search to the files that are wanted.
    fn write_curve(&self, found: &Found) -> anyhow::Result<()> {
        let csv = written("--csv", self.csv(), || Ok(words::csv(found)));
        // Each whether or not the other could be written.
        let html = written("--html", self.html(), || Ok(weir_report::load_html(&words::page(found))));
        if let (Err(first), Err(_)) = (&csv, &html) {
            eprintln!("weir load: {}", weir_terminal::output::causes(first));
        }
        html.and(csv)
    }
}
