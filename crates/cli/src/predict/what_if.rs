//! The `weir what-if` command: a recorded run, replayed with some of its code made faster.

use super::recorded::{read, run_of};
use super::told::shown;
use anyhow::Context;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_predict::{Change, Speed};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir what-if --faster 30% postgres:run
      what PostgreSQL runs takes 30 % less, in the last run of weir-runs
  weir what-if --faster 50% 'php:Shop::prices' --run runs/a
      a function of PHP, recorded as a phase (weir record --packs)
  weir what-if --faster 100% nginx --run runs/a
      all that nginx runs is taken away
  weir what-if --faster 50% lock:shop.lock --run runs/a
      what is done under a lock that other requests wait for
  weir what-if --faster 80% file:access.log --run runs/a
      time that is spent on a file
  weir what-if --faster 20% php-fpm:wait_timer --json | jq .predicted
      sleeps of php-fpm, for a program

A name is that of a process or its beginning, with a part behind a colon (run,
wait_timer, wait_disk, wait_network, ...); a phase as weir explain names it; or
behind lock: and file: a lock or file, by its name or the end of its path.
Requests come when they came, and queue anew for CPUs, workers and locks, so
that what is saved in a queue counts as well. What is done under a lock while no
request waits for it is not recorded, and not made faster.

Exit status: 0 with an answer, 1 if the run supports none, 2 for wrong usage.";

/// Replay a recorded run with some of its code made faster
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What is made faster: a process, its part, a phase, a lock or a file
    #[arg(value_name = "WHAT")]
    what: String,

    /// The share of its time that is saved: 30%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    faster: f64,

    /// The run [default: the last one in weir-runs]
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print the answer as JSON (times in nanoseconds)
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let saved = number.map(|number| number / 100.0).filter(|saved| *saved > 0.0 && *saved <= 1.0);
    saved.ok_or_else(|| "a share of the time, as 30%, at most 100%".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(run) = run_of(args.run.as_ref(), "what-if") else { return Ok(ExitCode::from(2)) };
    let trace = read(&run)?;
    let change = Change { faster: vec![Speed { what: args.what.clone(), saved: args.faster }], ..Change::default() };
    let told = weir_predict::what_if(&trace, &change, args.seed)
        .with_context(|| format!("no answer from {}", run.display()))?;
    if args.json {
        let told = json!({
            "schema": 1,
            "version": weir_terminal::VERSION,
            "run": run.display().to_string(),
            "recorded": told.recorded,
            "replayed": told.replayed,
            "changed": told.changed,
            "predicted": told.predicted,
            "own_share": told.own_share,
        });
        output::print(&format!("{}\n", serde_json::to_string_pretty(&told)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}, {:.0} % faster, in {}\n\n", args.what, args.faster * 100.0, run.display());
    let mut line = |name: &str, words: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<14} {words}");
    };
    line("", &format!("{:>14}{:>14}{:>10}", "recorded", "then", "changed"));
    for (at, name) in ["responses/s", "mean", "p50", "p95", "p99"].into_iter().enumerate() {
        let (before, after) = (told.recorded[at], told.predicted[at]);
        let words =
            format!("{:>14}{:>14}{:>+8.1} %", shown(at, before), shown(at, after), (after / before - 1.0) * 100.0);
        line(name, &words);
    }
    line(
        "own share",
        &format!("{:.1} % of the mean response; what is saved beyond it is queueing", told.own_share * 100.0),
    );
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
