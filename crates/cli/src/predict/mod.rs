//! The `weir predict` command: what a recorded server would do at another load, with other settings, on other CPUs.

mod advised;
mod checked;
mod recorded;
mod told;
mod what_if;

use anyhow::Context;
use recorded::{read, run_of};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_predict::{Change, ChangeError};
use weir_terminal::output;

pub(crate) use advised::add_to;
pub(crate) use what_if::{Args as WhatIfArgs, run as run_what_if};

const EXAMPLES: &str = "\
Examples:
  weir predict runs/a --at rate=2x
      twice as many requests a second as were recorded in runs/a
  weir predict --at rate=500/s --workers fpm=16
      of the last run in weir-runs: 500 requests a second, 16 workers of php-fpm
  weir predict runs/a --at clients=40 --cores 4
      40 clients that ask one request after the other, a server with 4 CPUs
  weir predict runs/a --at rate=2x --faster 'postgres:run 30%'
      what PostgreSQL runs takes 30 % less time
  weir predict runs/a --at rate=2x --check
      load the recorded URL at that rate, print prediction and measurement
  weir predict runs/a --workers fpm=16 --check
      the same with a copy of the recorded servers that has 16 workers
  weir predict runs/a --cores 4 --check http://127.0.0.1:8081/
      the same with a server that has the change already
  weir predict runs/a --at rate=2x --json | jq .prediction.bottleneck
      for a program
  weir predict runs/a --at rate=2x --jmt model.jsimg
      the model for Java Modelling Tools

The model is made of what requests did in the run: CPU time of each process,
workers that they had, locks, and time that passes by itself. Waits for CPUs,
workers and locks are made anew by a simulator, beside which stands the solution
of mean-value analysis. Record a run by weir explain --load URL --rate R.

Exit status: 0 with a prediction, 1 if the run supports none or a check fails,
2 for wrong usage.";

/// Predict what a recorded server does at another load or with other settings
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run [default: the last one in weir-runs]
    #[arg(value_name = "RUN")]
    run: Option<PathBuf>,

    /// Another load: rate=2x, rate=500/s, clients=20, connections=64; may be repeated
    #[arg(long, value_name = "LOAD")]
    at: Vec<String>,

    /// Other workers of a pool: fpm=16; may be repeated
    #[arg(long, value_name = "POOL=N")]
    workers: Vec<String>,

    /// Another number of CPUs for the server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,

    /// Work that takes less time: 'postgres:run 30%'; may be repeated
    #[arg(long, value_name = "WHAT")]
    faster: Vec<String>,

    /// Measure the predicted point by a real load: of the recorded URL, of a copy of its servers that has other workers,
    /// or of a URL whose server has the change
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    check: Option<String>,

    /// Length of that load
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "check", value_parser = seconds)]
    check_seconds: f64,

    /// Write the model for Java Modelling Tools (JSIMgraph)
    #[arg(long, value_name = "FILE")]
    jmt: Option<PathBuf>,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print the prediction as JSON (times in nanoseconds)
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.5..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "seconds from 0.5 to 3600".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let change = match change(args) {
        Ok(change) => change,
        Err(error) => {
            eprintln!("weir predict: {error}");
            return Ok(ExitCode::from(2));
        }
    };
    let Some(run) = run_of(args.run.as_ref(), "predict") else { return Ok(ExitCode::from(2)) };
    let trace = read(&run)?;
    let prediction = weir_predict::predict(&trace, &change, args.seed)
        .with_context(|| format!("no prediction from {}", run.display()))?;
    if let Some(file) = &args.jmt {
        let changed = change.applied(&trace)?;
        std::fs::write(file, weir_predict::jsimg(&changed, prediction.rate_per_s))
            .with_context(|| format!("--jmt: cannot write {}", file.display()))?;
    }
    if !args.json {
        output::print(&told::text(&prediction, &run))?;
    }
    let measured = match &args.check {
        Some(url) => Some(checked::measure(&run, url, &change, &prediction, args.check_seconds)?),
        None => None,
    };
    if args.json {
        let told = told::json(&prediction, &run, measured.as_ref());
        output::print(&format!("{}\n", serde_json::to_string_pretty(&told)?))?;
    } else if let Some(measured) = &measured {
        output::print(&told::beside(&prediction, measured))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn change(args: &Args) -> Result<Change, ChangeError> {
    let mut change = Change { cores: args.cores, ..Change::default() };
    args.at.iter().try_for_each(|at| change.at(at))?;
    args.workers.iter().try_for_each(|workers| change.worker(workers))?;
    args.faster.iter().try_for_each(|faster| change.fast(faster))?;
    Ok(change)
}
