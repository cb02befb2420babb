//! The `weir advise` command: what to change, how much it should help, and whether it does.

use crate::compare::{Teller, stop_on_signals};
use crate::explain::{self, Explained};
use crate::schemas::Named;
use std::process::ExitCode;
use weir_advise::{Examined, Finding, Shown, TrialOptions};
use weir_compare::Interrupt;

const EXAMPLES: &str = "\
Examples:
  weir advise --load http://127.0.0.1/ --port 80
      load a running server for 10 s, record it meanwhile, say what to change
  weir advise --port 80 -d 10s
      the same with the requests of real clients
  weir advise runs/a
      of a run that was recorded before
  weir advise
      of the last run in weir-runs
  weir advise runs/a --try
      test the first finding: servers with a changed and an unchanged copy of
      the configuration are compared on ports of their own
  weir advise runs/a --try 2
      test the second finding
  weir advise --json runs/a | jq '.findings[0].settings'
      figures for a program

weir finds the servers' configurations by their processes and only reads them.
It never changes yours, and never restarts or stops your server. Expected
effects are estimates, each with its range and its calculation.

Exit status: 0 if anything could be explained, with or without findings, 1 if
not or if a trial fails, 2 for wrong usage.";

/// Say what to change in the servers' configurations, and prove it.
#[derive(Debug, clap::Args)]
#[command(about = "Say what to change in the servers' configurations, and prove it", long_about = None, after_help = EXAMPLES)]
// The flattened ones have this name by themselves.
#[group(id = "advise")]
pub(crate) struct Args {
    #[command(flatten)]
    explain: explain::Args,

    /// Test finding N on copies of the servers [default: 1]
    #[arg(long = "try", value_name = "N", num_args = 0..=1, default_missing_value = "1", help_heading = "Trial", value_parser = clap::value_parser!(u32).range(1..))]
    trial: Option<u32>,

    #[command(flatten)]
    how: TrialArgs,
}

/// How a trial is made.
#[derive(Debug, clap::Args)]
struct TrialArgs {
    /// URL of your server, which the trial asks of its copies [default: the URL that the run loaded]
    #[arg(long, value_name = "URL", help_heading = "Trial", requires = "trial")]
    at: Option<String>,

    /// Pairs of slices, one with the original and one with the change; fewer than 8 give no verdict
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Trial", requires = "trial")]
    blocks: usize,

    /// Length of a slice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, help_heading = "Trial", requires = "trial")]
    block_seconds: f64,

    /// The smallest change of throughput that matters to you, as a fraction
    #[arg(long, value_name = "FRACTION", default_value_t = 0.05, help_heading = "Trial", requires = "trial")]
    smallest_effect: f64,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { mut explain, trial, how } = args;
    if explain.recorded.len() > 1 {
        eprintln!("weir advise: advice is for one host's servers: name one run (weir explain takes those of several)");
        return Ok(ExitCode::from(2));
    }
    if explain.recorded.is_empty() && explain.url.is_none() && explain.target.is_empty() {
        explain.recorded.extend(weir_record::run_directory::last());
        if explain.recorded.is_empty() {
            eprintln!(
                "weir advise: no run in weir-runs; name one, or --load URL to make one (see `weir advise --help`)"
            );
            return Ok(ExitCode::from(2));
        }
    }
    let (directory, explanation) = match explain::explained(&explain)? {
        Explained::Run(directory, told) => (directory, told.explanation),
        Explained::Not(code) => return Ok(code),
    };
    let named = if explain.target.is_empty() {
        weir_capture::Target::default()
    } else {
        explain.target.named().find().unwrap_or_default()
    };
    let examined = Examined::of(&directory, &explanation, &named)?;
    let mut advice = examined.advice();
    crate::predict::add_to(&mut advice.findings, &directory);
    let mut code = ExitCode::SUCCESS;
    if let Some(number) = trial {
        let Some(finding) = advice.findings.iter().find(|finding| finding.number == number as usize) else {
            eprintln!("weir advise: there is no finding {number}, there are {}", advice.findings.len());
            return Ok(ExitCode::from(2));
        };
        match tried(&examined, finding, explain.url.as_deref(), how, explain.json) {
            Ok(outcome) => {
                if !explain.json {
                    weir_terminal::output::print(&outcome.text)?;
                    return Ok(ExitCode::SUCCESS);
                }
                advice.trial = Some(outcome.json);
            }
            Err(refusal) => {
                eprintln!("weir advise: finding {number} is not tried: {refusal:#}");
                if !explain.json {
                    return Ok(ExitCode::FAILURE);
                }
                code = ExitCode::FAILURE;
            }
        }
    }
    if explain.json {
        weir_terminal::output::print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&Named::new("weir-advise/1", &advice))?
        ))?;
    } else {
        weir_terminal::output::print(&weir_advise::text(&advice, weir_terminal::output::columns()))?;
    }
    Ok(code)
}

/// Carries out a trial.
fn tried(
    examined: &Examined,
    finding: &Finding,
    url: Option<&str>,
    how: TrialArgs,
    quiet: bool,
) -> anyhow::Result<Shown> {
    let TrialArgs { at, blocks, block_seconds, smallest_effect } = how;
    let options = TrialOptions { at, blocks, block_s: block_seconds, smallest_effect };
    let trial = examined.trial(finding, url, &options)?;
    let interrupt = Interrupt::default();
    stop_on_signals(&interrupt)?;
    let mut teller = Teller::new(trial.plan());
    let shown = trial.run(interrupt, &mut |progress| {
        if !quiet {
            teller.tell(&progress);
        }
    });
    teller.finish();
    shown
}
