//! `weir doctor`: what this machine allows, what limits it, and what to do about each.

mod around;
mod check;
mod kernel;
mod limits;
mod machine;
mod rights;

use check::{Check, Files, Job, State};
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  weir doctor
      all checks, with what to do about each
  weir doctor explain load
      those that matter for recording and explaining, and for making load
  weir doctor --json | jq -r '.checks[] | select(.state != \"ok\") | .check'
      the names of those that are not ok

Settings are read and probes are loaded for a moment, as a recording loads
them; nothing is changed. `unknown` is what this machine does not tell.
docs/reference/doctor.md lists the checks.

Exit status: 0 if the jobs can be done, with limits or without, 1 if something
is missing for one of them, 2 for wrong usage.";

/// Check what this machine allows, and say what to do about what it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only what matters for these
    #[arg(value_enum, value_name = "JOB")]
    jobs: Vec<Job>,

    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let jobs = if args.jobs.is_empty() { &Job::ALL[..] } else { &args.jobs };
    let checks: Vec<Check> =
        all(jobs).into_iter().filter(|check| check.jobs.iter().any(|job| jobs.contains(job))).collect();
    let text = if args.json {
        as_json(&checks, jobs)?
    } else {
        as_text(&checks, jobs, weir_terminal::output::table_columns())
    };
    weir_terminal::output::print(&text)?;
    let is_missing = checks.iter().any(|check| check.state == State::Missing);
    Ok(if is_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The checks of all files; probes are loaded only where they matter.
fn all(jobs: &[Job]) -> Vec<Check> {
    let files = Files::default();
    let mut checks = rights::checks(&files);
    checks.extend(kernel::checks(&files, jobs.contains(&Job::Explain)));
    checks.extend(limits::checks(&files));
    checks.extend(machine::checks(&files));
    checks.extend(around::checks());
    checks
}

/// How it stands with a job: the worst of its checks that are known.
fn state_of(job: Job, checks: &[Check]) -> State {
    let states = checks.iter().filter(|check| check.jobs.contains(&job)).map(|check| check.state);
    states.filter(|state| *state != State::Unknown).max().unwrap_or(State::Ok)
}

fn as_json(checks: &[Check], jobs: &[Job]) -> anyhow::Result<String> {
    let jobs: serde_json::Map<String, serde_json::Value> =
        jobs.iter().map(|job| (job.name().to_owned(), json!(state_of(*job, checks)))).collect();
    let told = json!({ "schema": "weir-doctor/1", "version": weir_terminal::VERSION, "jobs": jobs, "checks": checks });
    Ok(serde_json::to_string_pretty(&told)? + "\n")
}

fn as_text(checks: &[Check], jobs: &[Job], width: usize) -> String {
    let names = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    let indent = "limited".len() + 2 + names + 2;
    let mut lines = Vec::new();
    for check in checks {
        let begin = format!("{:<7}  {:<names$}  ", check.state.word(), check.check);
        let text = format!("{}: {}", check.found, check.means);
        lines.extend(wrapped(&begin, &text, indent, width));
        if let Some(remedy) = &check.remedy {
            let begin = format!("{}> ", " ".repeat(indent));
            lines.extend(wrapped(&begin, remedy, indent + 2, width));
        }
    }
    lines.push(String::new());
    lines.extend(jobs.iter().map(|job| {
        let verdict = match state_of(*job, checks) {
            State::Ok | State::Unknown => "can be done".to_owned(),
            State::Limited => format!("can be done, limited by {}", named(*job, checks, State::Limited)),
            State::Missing => format!("cannot be done: {}", named(*job, checks, State::Missing)),
        };
        wrapped(&format!("{:<8} ", job.name()), &verdict, 9, width).join("\n")
    }));
    lines.join("\n") + "\n"
}

/// The checks of a job in a state.
fn named(job: Job, checks: &[Check], state: State) -> String {
    let those = checks.iter().filter(|check| check.jobs.contains(&job) && check.state == state);
    those.map(|check| check.check).collect::<Vec<_>>().join(", ")
}

/// A text behind a begin, broken between words at a width, its further lines indented.
fn wrapped(begin: &str, text: &str, indent: usize, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut is_fresh) = (Vec::new(), begin.to_owned(), true);
    for word in text.split(' ') {
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            is_fresh = true;
        }
        if !std::mem::replace(&mut is_fresh, false) {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::check::Subject;
    use super::*;

    fn checks() -> Vec<Check> {
        let both = &[Job::Explain, Job::Load];
        vec![
            Subject("rights", &[Job::Explain]).missing("no CAP_BPF", "no probe can be loaded", "run as root"),
            Subject("clock", both).ok("tsc", "the clock is read without a system call"),
            Subject("turbo", &[Job::Load]).limited("on", "figures differ", "turn it off"),
            Subject("smt", &[Job::Load]).unknown("no file", "whether CPUs share cores"),
        ]
    }

    #[test]
    fn each_check_has_its_line_and_each_job_its_verdict() {
        let text = as_text(&checks(), &Job::ALL, 60);
        let expected = "\
missing  rights  no CAP_BPF: no probe can be loaded
                 > run as root
ok       clock   tsc: the clock is read without a system
                 call
limited  turbo   on: figures differ
                 > turn it off
unknown  smt     cannot be looked at: no file: whether CPUs
                 share cores

explain  cannot be done: rights
load     can be done, limited by turbo
serve    can be done
arm      can be done
cluster  can be done
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_json_has_the_states() {
        let told: serde_json::Value =
            serde_json::from_str(&as_json(&checks(), &[Job::Explain, Job::Load]).expect("JSON")).expect("JSON");
        assert_eq!(told["jobs"], json!({ "explain": "missing", "load": "limited" }));
        assert_eq!(told["checks"][2]["remedy"], "turn it off");
        assert_eq!(told["checks"][1]["jobs"], json!(["explain", "load"]));
    }

    /// The page of reference has a row for each check, and none that is no more.
    #[test]
    fn the_page_lists_all_checks() {
        let page = include_str!("../../../../docs/reference/doctor.md");
        let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let told = all(&[Job::Load]);
        for check in &told {
            assert!(rows.contains(&check.check), "docs/reference/doctor.md has no row for {}", check.check);
        }
        // These are told only where the machine has them, or where probes may be loaded.
        let known =
            |row: &&str| told.iter().any(|check| check.check == *row) || ["rung", "turbo", "conntrack"].contains(row);
        assert!(rows.iter().all(known), "{rows:?}");
    }
}
