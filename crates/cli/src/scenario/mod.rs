//! `weir scenario`: users that a file describes, and what they felt.

mod drafted;
mod found;
mod json;
mod playing;
mod screen;

pub(crate) use drafted::load;

use crate::described::DescribedArgs;
use playing::{Playing, play};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_load::reach::{Place, Resolved};
use weir_load::{Reach, Trust, Url};
use weir_scenario::form::{Scenarios, Slo, read};
use weir_scenario::run::Reaching;

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
      write a scenario of a description: OpenAPI, a collection of Postman,
      command lines of curl, a plan of JMeter, an HTTP Archive; load nothing
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

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.file else { return drafted::write(&args.described, &args.drafted, args.base.as_deref()) };
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
