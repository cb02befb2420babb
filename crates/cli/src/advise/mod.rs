//! The `weir advise` command: what to change, how much it should help, and whether it does.

mod configuration;
mod finding;
mod observed;
mod recorded;
mod rules;
mod servers;
mod trial;
mod view;

use crate::explain::{self, Explained};
use finding::{Advice, Finding, Looked};
use observed::Observed;
use recorded::Recorded;
use rules::Case;
use std::path::Path;
use std::process::ExitCode;
use weir_report::Explanation;

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
pub(crate) struct Args {
    #[command(flatten)]
    explain: explain::Args,

    /// Test finding N on copies of the servers [default: 1]
    #[arg(long = "try", value_name = "N", num_args = 0..=1, default_missing_value = "1", help_heading = "Trial", value_parser = clap::value_parser!(u32).range(1..))]
    trial: Option<u32>,

    #[command(flatten)]
    how: trial::Options,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { mut explain, trial, how } = args;
    if explain.recorded.is_none() && explain.url.is_none() && explain.target.is_empty() {
        explain.recorded = crate::run_directory::last();
        if explain.recorded.is_none() {
            eprintln!(
                "weir advise: no run in weir-runs; name one, or --load URL to make one (see `weir advise --help`)"
            );
            return Ok(ExitCode::from(2));
        }
    }
    let (directory, explanation) = match explain::explained(&explain)? {
        Explained::Run(directory, explanation) => (directory, explanation),
        Explained::Not(code) => return Ok(code),
    };
    let recorded = Recorded::of(&directory)?;
    let named = if explain.target.is_empty() {
        weir_capture::Target::default()
    } else {
        explain.target.find().unwrap_or_default()
    };
    let observed = Observed::of(&explanation)?;
    let servers = servers::find(&named, &recorded, &observed);
    let case = Case { observed: &observed, recorded: &recorded, servers: &servers };
    let mut advice = advice(&case, &explanation, &directory);
    let mut code = ExitCode::SUCCESS;
    if let Some(number) = trial {
        let Some(finding) = advice.findings.iter().find(|finding| finding.number == number as usize) else {
            eprintln!("weir advise: there is no finding {number}, there are {}", advice.findings.len());
            return Ok(ExitCode::from(2));
        };
        match trial::run(&case, finding, explain.url.as_deref(), &how, explain.json) {
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
        weir_terminal::output::print(&format!("{}\n", serde_json::to_string_pretty(&advice)?))?;
    } else {
        weir_terminal::output::print(&view::text(&advice, weir_terminal::output::columns()))?;
    }
    Ok(code)
}

fn advice(case: &Case<'_>, explanation: &Explanation, directory: &Path) -> Advice {
    let findings = rules::findings(case);
    let beyond_settings = rules::beyond_settings(case, &findings);
    let none_because = findings.is_empty().then(|| none_because(case, &findings, &beyond_settings));
    let servers = case.servers.list.iter();
    Advice {
        version: weir_terminal::VERSION.to_owned(),
        subject: explanation.subject.clone(),
        run: directory.display().to_string(),
        response_ns: case.observed.response_ns(),
        slow_response_ns: case.observed.slow_response_ns,
        servers: servers
            .map(|server| Looked {
                kind: server.kind.name(),
                pid: (server.process.pid != 0).then_some(server.process.pid),
                files: server.configuration.files.iter().chain(&server.ini.configuration.files).cloned().collect(),
            })
            .collect(),
        findings,
        beyond_settings,
        none_because,
        problems: case.servers.problems.clone(),
        trial: None,
    }
}

/// Why there is nothing to change.
fn none_because(case: &Case<'_>, findings: &[Finding], beyond: &[String]) -> String {
    debug_assert!(findings.is_empty());
    if case.observed.joined_fraction < 0.5 {
        return format!(
            "only {:.0} % of the requests were joined with the server's side, so there is little to go by; name the server by --port when recording",
            100.0 * case.observed.joined_fraction
        );
    }
    let looked = case.servers.list.iter().filter(|server| server.is_known()).count();
    match (looked, beyond.first()) {
        (0, _) => "no configuration of a server that is known here was found (Apache, nginx, php-fpm, PostgreSQL); what takes the time stands below".to_owned(),
        (_, Some(_)) => "the settings that bear on the large parts of the response are as they should be; no setting changes what takes the time, which stands below".to_owned(),
        (_, None) => "no part of the response is large enough, and due to a setting".to_owned(),
    }
}
