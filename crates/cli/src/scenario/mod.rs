//! `weir scenario`: users that a file describes, and what they felt.

mod drafted;
mod found;
mod json;
mod screen;

pub(crate) use drafted::load;

use crate::described::DescribedArgs;
use crate::load::write_whole;
use found::Found;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_load::reach::{Place, Resolved};
use weir_load::{LoadError, Reach, Trust, Url};
use weir_report::junit::{State, Test, suite};
use weir_scenario::form::{Scenarios, Slo, read};
use weir_scenario::metrics::Shared;
use weir_scenario::play::{Players, Tallies, judge};
use weir_scenario::run::{Handle, Reaching, RunError, RunPlan, run as run_plan};
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir scenario shop.toml
      the users of the file, as it says
  weir scenario shop.toml --base http://localhost:8080
      the same against another server
  weir scenario shop.toml --slo 'step login: p95<200ms' --junit shop.xml
      with an objective beyond the file's, and test results for a build
  weir scenario shop.toml --json | jq .steps
      figures for a program
  weir scenario shop.toml --check
      read the file, say what is wrong with it, load nothing
  weir scenario --from openapi.yaml --out api.toml
      write a scenario of a description: OpenAPI, a collection of Postman, command
      lines of curl, a plan of JMeter, an HTTP Archive; load nothing
  weir scenario --from openapi.yaml --all --set petId=7 --users 50 --duration 1m
      with what changes data, a value of a parameter, and another load

A file has [[scenario]] tables with users = 50 or rate = \"20/s\", and steps:
requests, checks, values taken of answers, think times, choices. The how-to
docs/how-to/write-a-scenario.md begins with one; docs/reference/scenario.md has
all keys.

Latency counts from the intended time where iterations have one (rate), and
never holds time that was spent in taking and checking; that is told apart.

Exit status: 0 if any request succeeded, 1 if none did or setup failed, 2 for
wrong usage or a wrong file, 3 if an objective was missed or a check failed
(where no objective says how many errors may be). With --from: 0 if all was
carried over, 1 if the scenario is written with losses, 2 if nothing is written.";

/// Play the scenarios of a file: users who log in, search, buy, think; or write one of a description or a recording
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file of scenarios, in TOML
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    #[command(flatten)]
    described: DescribedArgs,
    #[command(flatten)]
    drafted: drafted::DraftedArgs,
    /// What relative addresses begin with, in place of the file's base
    #[arg(long, value_name = "URL")]
    base: Option<String>,
    /// Read the file and its data, and load nothing
    #[arg(long)]
    check: bool,
    /// An objective, beside those of the file: 'p99<50ms', 'step NAME: p95<200ms', 'group NAME: errors<1%',
    /// 'tag NAME=VALUE: rate>5/s'; may be repeated
    #[arg(long, value_name = "OBJECTIVE", help_heading = "Gate")]
    slo: Vec<String>,
    /// Write what was found as JUnit's XML: a test case for each objective and check
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    junit: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    insecure: bool,
    /// Trust the certificate authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    ca: Option<PathBuf>,
    /// Use these addresses for this host instead of asking the resolver; may be repeated
    #[arg(long, value_name = "HOST:PORT:ADDR,…", help_heading = "Reach")]
    resolve: Vec<Resolved>,
    /// Connect to this place instead of each URL's host and port, which requests and TLS still name
    #[arg(long, value_name = "HOST:PORT", help_heading = "Reach")]
    connect_to: Option<Place>,
    /// Pin the generator to this CPU
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Report as JSON (times in milliseconds)
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

/// How scenarios are played, and what is written of it.
struct Playing<'p> {
    /// The command, and the file that the scenarios come from.
    command: &'static str,
    name: String,
    reaching: Reaching,
    junit: Option<&'p Path>,
    json: bool,
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.file else { return drafted::write(args) };
    let (scenarios, slos) = match prepared(args, file) {
        Ok(prepared) => prepared,
        Err(words) => {
            eprintln!("weir scenario: {words}");
            return Ok(ExitCode::from(2));
        }
    };
    if args.check {
        let steps: usize = scenarios.list.iter().map(|(_, program)| program.ops.len()).sum();
        weir_terminal::output::print(&format!("{} scenarios, {steps} instructions: fine\n", scenarios.list.len()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let playing = Playing {
        command: "weir scenario",
        name: file.display().to_string(),
        reaching: reaching(args),
        junit: args.junit.as_deref(),
        json: args.json,
        quiet: args.quiet,
    };
    play(&scenarios, &slos, playing)
}

/// Plays scenarios, and tells what was found.
fn play(scenarios: &Scenarios, slos: &[Slo], playing: Playing<'_>) -> anyhow::Result<ExitCode> {
    let (metrics, tallies) = (Shared::default(), Tallies::new(scenarios.scopes.len()));
    let players = Players::new(scenarios, metrics.clone(), tallies.clone());
    let handle = Arc::new(Handle::default());
    let stop = Stop::on_signals()?;
    let plan = plan(playing.reaching, scenarios);
    let played = std::thread::scope(|scope| {
        let running = scope.spawn(|| run_plan(plan, Box::new(players), &metrics, &handle));
        watch(&handle, &stop, playing.quiet, || running.is_finished());
        running.join().unwrap_or(Err(RunError::Load(LoadError::Panicked)))
    });
    let (report, load) = match played {
        Ok(played) => played,
        Err(error) => {
            eprintln!("{}: {error}", playing.command);
            return Ok(ExitCode::FAILURE);
        }
    };
    let tallies = tallies.lock().clone();
    let judged: Vec<_> = slos.iter().map(|slo| judge(slo, &tallies[slo.scope], report.duration)).collect();
    let checks = metrics.lock().checks.list().to_vec();
    let found = Found::new(scenarios, slos, tallies, (judged, checks), (report, load));
    let text = if playing.json { format!("{:#}\n", json::report(&found)) } else { screen::text(&found) };
    weir_terminal::output::print(&text)?;
    // The report is there by now, so that only the file is lost.
    if let Some(file) = playing.junit {
        write_whole(file, &junit(&playing.name, &found))
            .map_err(|error| anyhow::anyhow!("--junit: cannot write {}: {error}", file.display()))?;
    }
    Ok(found.exit_code())
}

/// The file and the objectives, or what is wrong.
fn prepared(args: &Args, file: &Path) -> Result<(Scenarios, Vec<Slo>), String> {
    let base = args.base.as_deref().map(Url::parse).transpose().map_err(|error| format!("--base: {error}"))?;
    let scenarios = read(file, base.as_ref()).map_err(|error| error.to_string())?;
    let mut slos = scenarios.slos.clone();
    for text in &args.slo {
        slos.push(Slo::parse(text, &scenarios.scopes).map_err(|error| format!("--slo '{text}': {error}"))?);
    }
    if let Some(file) = &args.junit
        && let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        return Err(format!("--junit: {} is no directory: make it first", folder.display()));
    }
    Ok((scenarios, slos))
}

fn reaching(args: &Args) -> Reaching {
    let trust = match &args.ca {
        _ if args.insecure => Trust::Anything,
        Some(file) => Trust::File(file.clone()),
        None => Trust::System,
    };
    let reach = Reach { resolve: args.resolve.clone(), connect_to: args.connect_to.clone(), ..Reach::default() };
    Reaching { reach, trust, cpu: args.cpu, ..Reaching::default() }
}

fn plan(reaching: Reaching, scenarios: &Scenarios) -> RunPlan {
    RunPlan {
        scenarios: scenarios.list.iter().map(|(planned, _)| planned.clone()).collect(),
        setup: scenarios.setup.is_some(),
        teardown: scenarios.teardown.is_some(),
        setup_max: scenarios.around_max,
        teardown_max: scenarios.around_max,
        reaching,
        stop_grace: Duration::from_secs(1),
    }
}

/// Shows how far the run is, and ends it when the user wants so.
fn watch(handle: &Handle, stop: &Stop, quiet: bool, over: impl Fn() -> bool) {
    use std::io::{IsTerminal, Write};
    let shows = !quiet && std::io::stderr().is_terminal();
    let begin = std::time::Instant::now();
    while !over() {
        std::thread::sleep(Duration::from_millis(50));
        if stop.asked() {
            handle.stop();
        }
        if shows {
            let (requests, failed) = handle.requests();
            // A terminal that is gone ends no run.
            let _ = write!(
                std::io::stderr(),
                "\r{:>5.0} s  {} users, {} iterations, {requests} requests, {failed} failed, {} dropped \x1b[K",
                begin.elapsed().as_secs_f64(),
                handle.users(),
                handle.iterations(),
                handle.dropped(),
            );
        }
    }
    if shows {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// A test case for each objective and check, behind one that something succeeded at all.
fn junit(name: &str, found: &Found) -> String {
    let test = |name: String, state| Test { class: "scenario".to_owned(), name, state };
    let first = match found.nothing() {
        Some(words) => State::Failed(words),
        None => State::Passed(found.requests_words()),
    };
    let mut tests = vec![test("a request succeeds".to_owned(), first)];
    for judged in &found.judged {
        let words = judged.words.clone();
        let state = if judged.is_met { State::Passed(words) } else { State::Failed(words) };
        tests.push(test(judged.text.clone(), state));
    }
    for check in &found.checks {
        let words = found::check_words(check);
        let state = if check.fails == 0 || found.allows_errors { State::Passed(words) } else { State::Failed(words) };
        tests.push(test(check.name.to_string(), state));
    }
    suite(name, &tests, found.report.duration.as_secs_f64(), &[])
}
