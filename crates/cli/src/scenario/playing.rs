//! Plays scenarios, and tells what was found.

use super::found::{self, Found};
use super::{json, screen};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_load::LoadError;
use weir_report::junit::{State, Test, suite};
use weir_scenario::form::{Scenarios, Slo};
use weir_scenario::metrics::Shared;
use weir_scenario::play::{Players, Tallies, judge};
use weir_scenario::run::{Handle, Reaching, RunError, RunPlan, run as run_plan};
use weir_terminal::stop::Stop;
use weir_terminal::whole_file::write_whole;

/// How scenarios are played, and what is written of it.
pub(super) struct Playing<'p> {
    /// The command, and the file that the scenarios come from.
    pub(super) command: &'static str,
    pub(super) name: String,
    pub(super) reaching: Reaching,
    pub(super) junit: Option<&'p Path>,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// Plays scenarios, and tells what was found.
pub(super) fn play(scenarios: &Scenarios, slos: &[Slo], playing: Playing<'_>) -> anyhow::Result<ExitCode> {
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
        write_whole(file, junit(&playing.name, &found))
            .map_err(|error| anyhow::anyhow!("--junit: cannot write {}: {error}", file.display()))?;
    }
    Ok(found.exit_code())
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
