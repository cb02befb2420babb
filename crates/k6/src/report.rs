//! What a run prints at its end: its summary, and what became of it.

use crate::arguments::Arguments;
use crate::outcome::data;
use crate::run::{Made, alone};
use crate::script::{ScriptUser, Session};
use crate::summary::{export, text};
use crate::wrong::Wrong;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use weir_scenario::executors::Executor;
use weir_scenario::run::Ended;
use weir_terminal::output::print;
use weir_terminal::whole_file::write_whole;

/// The most reasons of failed iterations that are told.
const CAUSES_TOLD: usize = 10;

/// What of the end of a run could not be done.
#[derive(Default)]
pub(crate) struct Missed {
    pub(crate) mistakes: Vec<String>,
    /// A file that was asked for is not there.
    pub(crate) is_unwritten: bool,
}

impl Missed {
    fn file(&mut self, wrong: Result<(), Wrong>) {
        if let Err(wrong) = wrong {
            self.mistakes.push(wrong.to_string());
            self.is_unwritten = true;
        }
    }
}

/// Prints and writes what the end of a run gives. A file that cannot be written takes no other, and not the summary.
pub(crate) fn end(arguments: &Arguments, made: &Made) -> Result<Missed, Wrong> {
    let has_colours = !arguments.without_colours && weir_terminal::output::colours();
    let about = made.about(has_colours);
    let mut data = data(&made.world, &about);
    let mut missed = Missed::default();
    if let Some(path) = &arguments.summary_export {
        let text = serde_json::to_string_pretty(&export(&data)).unwrap_or_default();
        missed.file(write_file(path, text.as_bytes()));
    }
    if arguments.without_summary {
        return Ok(missed);
    }
    let mut is_printed = false;
    if made.has_own_summary {
        match own(made, &data) {
            Ok(outputs) => {
                outputs.iter().for_each(|(place, bytes)| missed.file(write(place, bytes)));
                is_printed = true;
            }
            Err(words) => {
                missed.mistakes.push(format!("handleSummary() failed, so the usual summary is printed: {words}"));
            }
        }
    }
    if !is_printed {
        data["options"]["noColor"] = json!(!has_colours);
        let options = json!({ "indent": " ", "enableColors": has_colours });
        print(&format!("\n\n{}", text(&data, &options))).map_err(|wrong| Wrong::system(&wrong))?;
    }
    if !arguments.quiet {
        counts(made)?;
    }
    Ok(missed)
}

/// What `handleSummary` gives.
fn own(made: &Made, data: &Value) -> Result<Vec<(String, Vec<u8>)>, String> {
    let session = Session::Summary(data.to_string().into());
    let user = ScriptUser::begin(Arc::clone(&made.world), session, 0);
    let mut user = user.map_err(|(failure, _)| failure.words.to_string())?;
    user.run_alone(alone()).map_err(|failure| failure.words.to_string())?;
    Ok(user.told().summary.unwrap_or_default().into_vec())
}

fn write(place: &str, bytes: &[u8]) -> Result<(), Wrong> {
    match place {
        "stdout" => print(&String::from_utf8_lossy(bytes)).map_err(|wrong| Wrong::system(&wrong)),
        "stderr" => {
            eprint!("{}", String::from_utf8_lossy(bytes));
            Ok(())
        }
        path => write_file(Path::new(path), bytes),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Wrong> {
    write_whole(path, bytes).map_err(|wrong| Wrong::unwritten(path, &wrong))
}

/// How many iterations there were.
fn counts(made: &Made) -> Result<(), Wrong> {
    let report = &made.report;
    let (mut complete, mut cut) = (0, 0);
    for scenario in &report.scenarios {
        complete += scenario.finished + scenario.failed;
        cut += scenario.cut;
    }
    let users: u32 = report.scenarios.iter().map(|scenario| scenario.users_max).sum();
    let time = crate::time::short(report.duration);
    let mut words =
        format!("\n\nrunning ({time}), 0/{users} VUs, {complete} complete and {cut} interrupted iterations\n");
    for scenario in &report.scenarios {
        let iterations = scenario.finished + scenario.failed;
        words.push_str(&format!("{} ✓ {} VUs  {time}  {iterations} iters\n", scenario.name, scenario.users_max));
    }
    print(&words).map_err(|wrong| Wrong::system(&wrong))
}

/// What weir says beside what k6 says: scripts' time, and why iterations failed.
pub(crate) fn beside(arguments: &Arguments, made: &Made) {
    let report = &made.report;
    for cause in report.causes.iter().filter(|cause| cause.count > 1).take(CAUSES_TOLD) {
        let first = cause.words.lines().next().unwrap_or_default();
        eprintln!("weir: {} iterations failed by: {first}", cause.count);
    }
    if arguments.quiet {
        return;
    }
    let per_turn_us = report.scripts.as_secs_f64() * 1e6 / report.script_calls.max(1) as f64;
    eprintln!(
        "weir: scripts took {} in {} turns ({per_turn_us:.1} µs each, the longest {}), which is in no latency",
        crate::time::short(report.scripts),
        report.script_calls,
        crate::time::short(report.longest_script)
    );
    if report.cut_answers > 0 {
        eprintln!(
            "weir: {} answers were longer than what is kept of one, and scripts saw their begin",
            report.cut_answers
        );
    }
    let is_open = made.plan.scenarios.iter().any(|one| matches!(one.executor, Executor::Arrivals { .. }));
    let metrics = made.world.metrics();
    let id = weir_scenario::metrics::Builtin::HttpReqLatency.id();
    if let Some(trend) = metrics[id].whole.trend().filter(|trend| is_open && trend.count() > 0) {
        let at = |percent| crate::summary::humanized(trend.percentile(percent), "trend", "time", "");
        eprintln!(
            "weir: latency from the intended time: p50 {}, p95 {}, p99 {}, max {}",
            at(50.0),
            at(95.0),
            at(99.0),
            crate::summary::humanized(trend.max(), "trend", "time", "")
        );
    }
}

/// The exit status of a run, and why.
pub(crate) fn status(made: &Made) -> (u8, Option<String>) {
    let report = &made.report;
    match &report.ended {
        Ended::Setup(failure) => {
            return (crate::wrong::of_setup(failure), Some(format!("setup() failed: {}", failure.words)));
        }
        Ended::Unmade(failure) => return (crate::wrong::SCRIPT_EXCEPTION, Some(failure.words.to_string())),
        Ended::Planned | Ended::Stopped | Ended::Aborted(_) => {}
    }
    if let Some(words) = made.world.aborted() {
        return (108, Some(format!("test aborted: {words}")));
    }
    if made.is_stopped_by_user {
        return (105, Some("the run was ended by a signal".to_owned()));
    }
    let missed = made.missed();
    if !missed.is_empty() {
        let names: Vec<String> = missed.iter().map(|name| format!("'{name}'")).collect();
        let ended = if made.is_stopped_by_threshold { ", and one of them ended the run" } else { "" };
        return (99, Some(format!("thresholds on metrics {} have been crossed{ended}", names.join(", "))));
    }
    if let Some(failure) = &report.around {
        return (crate::wrong::of_teardown(failure), Some(failure.words.to_string()));
    }
    match made.world.marked_failed() {
        Some(words) => (110, Some(format!("test marked as failed: {words}"))),
        None => (0, None),
    }
}
