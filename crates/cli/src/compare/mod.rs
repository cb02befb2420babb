//! The `weir compare` command: arguments into a plan, the experiment's progress, the report.
mod options;
mod reports;
mod side;
mod subjects;
mod teller;

use std::path::PathBuf;
use std::process::ExitCode;

use weir_compare::{
    Block, CommandLine, Complete, Conclusion, Ending, Experiment, ExperimentError, Interrupt, Observed, Outcome, Plan,
    Results, Resumed,
};

use anyhow::Context;
use clap::FromArgMatches;
use options::Options;
use reports::Reports;
pub(crate) use teller::Teller;

/// Exit code of a command line that makes no sense.
const USAGE: u8 = 2;
/// Exit code of `--fail-if-worse`.
const WORSE: u8 = 3;
/// Exit code where a history has shifted for the worse.
const SHIFTED: u8 = 4;
const EXAMPLES: &str = "\
Examples:
  Two servers, on ports of their own:
    weir compare --a \"nginx -c /etc/a.conf -g 'daemon off;'\" \\
        --b 'weir serve --listen 127.0.0.1:8082 site' -c 100 \\
        --url-a http://127.0.0.1:8081/ --url-b http://127.0.0.1:8082/

  Two configurations on one port (each is started for its slices), in a script:
    weir compare --a './server old.conf' --b './server new.conf' \\
        --url http://127.0.0.1:8080/ --json --fail-if-worse

  What does an observer cost? It runs beside the server in half of the slices:
    weir compare --a './server' --url http://127.0.0.1:8080/ \\
        --beside-b 'weir record --pid {pid} --run /tmp/observed'

  Many subjects and cases by a plan, until precise; resume it after Ctrl-C:
    weir compare plan.toml --until 1% --budget 30m --results /tmp/found
    weir compare --resume /tmp/found

  In continuous integration: a page, and a history that shows lasting shifts:
    weir compare plan.toml --html page.html --history /var/lib/figures
    weir compare --results-of /tmp/found --html page.html

  Servers that are ready to use, each with a fast configuration:
    weir compare --subjects
    weir compare --show-subject nginx
    weir compare --a nginx --b caddy --path /1k.txt --tls

  Two load generators against one server, by their own CPU time:
    weir compare --generators --server './server' \\
        --url http://127.0.0.1:8080/ \\
        --a 'wrk -t1 -c{connections} -d{seconds}s {url}' \\
        --b 'weir load {url} -c {connections} -d {seconds} --json'

The verdict:
  Each block measures all subjects, one right after the other. The result is the
  median of the ratios to the first subject, with a bootstrap interval over
  blocks. The noise floor is the same for the first subject against itself. For
  a cost, B is worse if the whole interval lies above 1, the median above the
  noise floor and beyond the smallest effect, and chance does as much in less
  than 5 % of experiments with so many comparisons (signed ranks, Holm). B is
  better if the same holds below 1. It is the same if interval and noise floor
  lie within the smallest effect. Otherwise one cannot tell. Memory counts
  once for each start of the servers.

A plan:
  smallest_effect = \"2%\"
  [repeat]
  blocks = 100
  slice = \"300ms\"
  [[subject]]
  from = \"nginx\"
  [[subject]]
  name = \"ours\"
  command = \"weir serve --listen 127.0.0.1:8082 {plan}/site\"
  url = \"http://127.0.0.1:8082\"
  [[case]]
  name = \"1 KiB\"
  path = \"/1k.txt\"
  connections = 10

Exit status: 0 if it was measured, 1 if not or not to the end, 2 for wrong
usage, 3 if something is worse than the first subject, has more errors, or has
no verdict at all (--fail-if-worse), 4 if something has shifted for the worse
for good (--history).";

/// Compare two servers, configurations or load generators, with a verdict that holds on a noisy machine.
///
/// Commands are split into words as a shell does, but no shell runs them: for pipes and variables write sh -c '...'.
/// Servers must stay in the foreground.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    // Boxed, as the other commands have far fewer.
    #[command(flatten)]
    options: Box<Options>,
}

/// Runs the command that these words say, the first of them being its name.
pub(crate) fn of_words(words: Vec<String>) -> anyhow::Result<ExitCode> {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("weir load --compare"));
    let args = command.try_get_matches_from(words).and_then(|matches| Args::from_arg_matches(&matches));
    match args {
        Ok(args) => run(args),
        Err(error) => {
            // If even this cannot be written, nothing is left to do.
            let _ = error.print();
            Ok(ExitCode::from(USAGE))
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = *args.options;
    if options.subjects {
        weir_terminal::output::print(&subjects::list()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &options.show_subject {
        return match subjects::shown(name) {
            Ok(text) => Ok(weir_terminal::output::print(text.as_str()).map(|()| ExitCode::SUCCESS)?),
            Err(error) => Ok(usage(&error)),
        };
    }
    let fail_if_worse = options.fail_if_worse;
    let reports = match Reports::asked(&options) {
        Ok(reports) => reports,
        Err(error) => return Ok(usage(&error)),
    };
    let (conclusion, folder) = match options.results_of.clone() {
        Some(folder) => match Conclusion::read(&folder) {
            Ok(conclusion) => (conclusion, None),
            Err(error) => return Ok(usage(&error.into())),
        },
        None => match measured(options)? {
            Ok(ended) => ended,
            Err(refused) => return Ok(refused),
        },
    };
    let outcome = &conclusion.outcome;
    if let (Some(folder), true) = (&folder, outcome.ending != Ending::Done) {
        eprintln!("weir compare: its blocks are kept; go on with weir compare --resume {}", folder.display());
    }
    let trends = reports.tell(&conclusion, folder.as_deref())?;
    if let Ending::Failed(_) = outcome.ending {
        return Ok(ExitCode::FAILURE);
    }
    if fail_if_worse && gate_is_closed(outcome) {
        return Ok(ExitCode::from(WORSE));
    }
    Ok(if trends.is_some_and(|trends| trends.is_worse) { ExitCode::from(SHIFTED) } else { ExitCode::SUCCESS })
}

/// Whether `--fail-if-worse` fails; says why on standard error.
fn gate_is_closed(outcome: &Outcome) -> bool {
    let reasons = weir_compare::gate(outcome, &weir_compare::verdicts(outcome));
    for reason in &reasons {
        let case = if outcome.plan.cases.len() > 1 { format!("{}: ", reason.case) } else { String::new() };
        eprintln!("weir compare: --fail-if-worse: {case}{}", reason.words);
    }
    !reasons.is_empty()
}

/// The end of an experiment and the folder of its results, if it has one; or the exit code of one that was refused.
type Measured = Result<(Conclusion, Option<PathBuf>), ExitCode>;

/// Carries out what the options ask for.
fn measured(options: Options) -> anyhow::Result<Measured> {
    // The folder of an experiment has its seed.
    let seed_is_drawn = options.seed.is_none() && options.resume.is_none();
    let Prepared { plan, blocks, observed, mut results } = match prepared(options) {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Err(usage(&error))),
    };
    let command = command_to_repeat(plan.seed, seed_is_drawn);
    let interrupt = Interrupt::default();
    stop_on_signals(&interrupt)?;
    let mut teller = Teller::new(&plan);
    let mut keep = |complete: Complete<'_>| match (&mut results, complete) {
        (Some(results), Complete::Block(block)) => results.keep(block),
        (Some(results), Complete::Observed(observed)) => results.keep_observed(observed),
        (None, _) => Ok(()),
    };
    let folder =
        tempfile::Builder::new().prefix("weir-compare-").tempdir().context("making a folder for what is observed")?;
    let observer = options::observer(folder.path())?;
    let experiment = Experiment::new(plan, interrupt).after(blocks, observed).keeping(&mut keep).observing(observer);
    let ended = experiment.run(&mut |progress| teller.tell(&progress));
    teller.finish();
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(ExperimentError::Plan(error)) => return Ok(Err(usage(&error.into()))),
        Err(error) => return Err(error.into()),
    };
    let folder = results.map(|results| results.folder().to_owned());
    Ok(Ok((Conclusion::of(outcome, command), folder)))
}

/// The plan, what is known already, and the folder for more.
struct Prepared {
    plan: Plan,
    blocks: Vec<Block>,
    observed: Vec<Observed>,
    results: Option<Results>,
}

fn prepared(options: Options) -> anyhow::Result<Prepared> {
    if let Some(folder) = &options.resume {
        let Resumed { results, mut plan, blocks, observed } = Results::resume(folder)?;
        Conclusion::forget(folder)?;
        options.change(&mut plan);
        plan.check()?;
        return Ok(Prepared { plan, blocks, observed, results: Some(results) });
    }
    let folder = options.results.clone();
    let plan = options.into_plan()?;
    let results = folder.map(|folder| Results::create(&folder, &plan)).transpose()?;
    Ok(Prepared { plan, blocks: Vec::new(), observed: Vec::new(), results })
}

fn usage(error: &anyhow::Error) -> ExitCode {
    eprintln!("weir compare: {}", weir_terminal::output::causes(error));
    ExitCode::from(USAGE)
}

/// This command line, with the seed if that was drawn, and without the folder, which has results now.
fn command_to_repeat(seed: u64, seed_is_drawn: bool) -> String {
    let mut words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(at) = words.iter().position(|word| word == "--results") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.retain(|word| !word.starts_with("--results=") && word != "--accept-shift");
    if seed_is_drawn {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    CommandLine::from_words(words).map(|command| command.to_string()).unwrap_or_default()
}

/// The first signal ends the experiment after the current slice, the second at once.
pub(crate) fn stop_on_signals(interrupt: &Interrupt) -> anyhow::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let interrupt = interrupt.clone();
        // SAFETY: the handler only adds to an atomic number.
        unsafe { signal_hook::low_level::register(signal, move || interrupt.request()) }
            .context("installing a signal handler")?;
    }
    Ok(())
}
