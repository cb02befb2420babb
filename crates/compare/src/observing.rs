//! Observed slices: a load with an observer, after the blocks, so that what observing costs is in none of their figures.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::bench::Bench;
use crate::command_line::CommandLine;
use crate::error::ObserveError;
use crate::metric::Measured;
use crate::observed::Observed;
use crate::plan::{PartsChoice, Plan};
use crate::process::{Launch, Process};
use crate::server::Server;
use crate::slice::{self, LoadRun};

/// Observed slices of a subject and case where nothing else is said.
const SLICES: u32 = 3;
/// No observed slice is longer, in seconds: a second has more responses than the parts need.
const SLICE_S: f64 = 1.0;
/// How long preparing an observer and reading what it recorded takes, about, in seconds.
const AROUND_S: f64 = 2.0;
/// Observed slices that the user did not ask for take no more than this part of the time of the blocks.
const SHARE: f64 = 0.35;
/// How much longer than its load an observer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A load of another tool begins before the observer is ready, and ends after it, by so much, in seconds.
const MARGIN_S: f64 = 2.0;

/// The commands that tell where the time of responses goes. Each prints a JSON object with `requests`, `boundary`,
/// `response_ns` (with `mean`), `parts_ns` and `joined_fraction`, as `weir explain --json` does. `{url}`, `{port}`, `{pid}`
/// (of the server), `{seconds}`, `{connections}` and `{run}` (a folder that is not there yet) are filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Observer {
    /// Takes the place of a load by `weir load`, whose further words are appended.
    pub loading: CommandLine,
    /// Observes beside the load of another tool; `--tls-port` and the port follow where that is encrypted.
    pub beside: CommandLine,
    /// Where the folders of the runs are made and removed.
    pub folder: PathBuf,
}

/// How many rounds of observed slices a plan asks for after blocks that took `blocks_s`, or why none.
pub(crate) fn rounds(plan: &Plan, blocks_s: f64) -> Result<u32, ObserveError> {
    if plan.measured == Measured::Generator {
        return Err(ObserveError::OfGenerators);
    }
    match plan.parts {
        PartsChoice::Never => Err(ObserveError::NotWanted),
        PartsChoice::Slices(slices) => Ok(slices),
        PartsChoice::Auto => {
            let pairs: usize = plan.cases.iter().map(|case| case.subjects().count()).sum();
            let round_s = pairs as f64 * (slice_s(plan) + warm_up_s(plan) + AROUND_S);
            match (SHARE * blocks_s / round_s) as u32 {
                0 => Err(ObserveError::TooLong),
                rounds => Ok(rounds.min(SLICES)),
            }
        }
    }
}

fn slice_s(plan: &Plan) -> f64 {
    plan.repetitions.block_s.min(SLICE_S)
}

fn warm_up_s(plan: &Plan) -> f64 {
    plan.repetitions.warm_up_s.min(SLICE_S)
}

/// Observes one slice of a subject on its running server.
pub(crate) fn observe(
    (plan, case, subject): (&Plan, usize, usize),
    server: &Server,
    bench: &Bench,
    (observer, number): (&Observer, usize),
) -> Result<Observed, ObserveError> {
    let load = LoadRun::new(plan, case, subject, bench)?;
    let mut beside = slice::start_beside(&load, server)?;
    if plan.repetitions.warm_up_s > 0.0 {
        load.warm_up(warm_up_s(plan))?;
    }
    let run = observer.folder.join(format!("observed-{number}"));
    let seconds = slice_s(plan);
    let fill = |command: &CommandLine| {
        command.filled(&[
            ("url", load.target.url().to_owned()),
            ("port", load.target.port().to_string()),
            ("pid", server.pid().to_string()),
            ("seconds", seconds.to_string()),
            ("connections", load.case.connections.to_string()),
            ("run", run.display().to_string()),
        ])
    };
    let told = match weirs_own(&load.subject.load) {
        Some(words) => {
            let command = fill(&observer.loading.with(&words).with(&load.case.options));
            finished(&mut started(&command, plan, bench)?, &command, bench)
        }
        None => {
            let is_tls = load.target.url().starts_with("https://");
            let tls = if is_tls { vec!["--tls-port".to_owned(), load.target.port().to_string()] } else { Vec::new() };
            let command = fill(&observer.beside).with(&tls);
            let mut process = started(&command, plan, bench)?;
            let loaded = load.run(seconds + MARGIN_S).map_err(ObserveError::from);
            loaded.and_then(|_| finished(&mut process, &command, bench))
        }
    };
    // It may not have been made.
    let _absent = std::fs::remove_dir_all(&run);
    if let Some((process, command)) = &mut beside {
        slice::end_beside(process, command, bench)?;
    }
    read(&told?, case, subject)
}

/// The further words of a load by `weir load` that mean the same to the observer; `None` where another tool loads.
fn weirs_own(load: &CommandLine) -> Option<Vec<String>> {
    let is_weir = Path::new(load.program()).file_name().is_some_and(|name| name == "weir");
    let (command, words) = load.arguments().split_first()?;
    let passed_over = ["{url}", "--json", "-q", "--quiet", "-v", "--verbose"];
    let words = words.iter().filter(|word| !passed_over.contains(&word.as_str()));
    (is_weir && command == "load").then(|| words.cloned().collect())
}

fn started(command: &CommandLine, plan: &Plan, bench: &Bench) -> Result<Process, ObserveError> {
    let launch = Launch { command, cpus: plan.pinning.load.as_ref(), group: bench.load_group(), server: None };
    Process::start(&launch, &bench.guardian)
        .map_err(|source| ObserveError::Spawn { command: command.to_string(), source })
}

/// What the observer printed.
fn finished(process: &mut Process, command: &CommandLine, bench: &Bench) -> Result<String, ObserveError> {
    let ended = process.wait(PATIENCE, &bench.interrupt);
    match ended {
        Some(ended) if ended.status.success() => Ok(process.stdout()),
        Some(ended) => Err(ObserveError::Failed {
            command: command.to_string(),
            status: ended.status,
            output: process.last_lines(),
        }),
        None => Err(ObserveError::Overran { command: command.to_string(), limit_s: PATIENCE.as_secs() }),
    }
}

/// Reads what an observer printed.
fn read(text: &str, case: usize, subject: usize) -> Result<Observed, ObserveError> {
    let report: Value = serde_json::from_str(text).map_err(ObserveError::NoJson)?;
    let absent = |key| ObserveError::Absent { key };
    let parts = report.get("parts_ns").and_then(Value::as_object).ok_or_else(|| absent("parts_ns"))?;
    let parts_ns: BTreeMap<String, f64> =
        parts.iter().filter_map(|(name, ns)| Some((name.clone(), ns.as_f64().filter(|ns| *ns > 0.0)?))).collect();
    let count = |key| report.get(key).and_then(Value::as_u64).ok_or_else(|| absent(key));
    let requests = count("requests")?;
    if requests == 0 || parts_ns.is_empty() {
        return Err(ObserveError::NoResponse);
    }
    Ok(Observed {
        case,
        subject,
        requests,
        boundary: report.get("boundary").and_then(Value::as_str).unwrap_or_default().to_owned(),
        // Of the responses whose parts these are.
        response_ns: parts_ns.values().sum(),
        parts_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_read_and_add_up() {
        let text = r#"{"requests": 7, "boundary": "all", "parts_ns": {"run": 30.5, "wait_lock": 10, "connect": 0}}"#;
        let found = read(text, 1, 2).expect("parts");
        assert_eq!((found.case, found.subject, found.requests, found.response_ns), (1, 2, 7, 40.5));
        assert_eq!(found.parts_ns.keys().collect::<Vec<_>>(), ["run", "wait_lock"]);
        for text in ["", "{}", "{\"requests\": 5}", "{\"requests\": 0, \"parts_ns\": {\"run\": 1}}", "[1]"] {
            assert!(read(text, 0, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn only_weirs_own_load_is_observed_from_the_client() {
        let words = |text: &str| weirs_own(&text.parse().expect("a command"));
        assert_eq!(
            words("/opt/weir load {url} -c {connections} --json --no-keepalive"),
            Some(["-c", "{connections}", "--no-keepalive"].map(str::to_owned).to_vec())
        );
        assert_eq!(words("wrk -d{seconds} {url}"), None);
        assert_eq!(words("weir"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(?s)(\\{|\\}|\"parts_ns\"|\"requests\"|:|,|[0-9.]|\\PC){0,40}") {
            let _parts_or_not = read(&text, 0, 0);
        }
    }
}
