//! The `weir webtest` command.

use crate::output;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_session::client::{Client, Trust};
use weir_session::report::{self, Ran};
use weir_session::suite::Suite;
use weir_session::{interpret, literal, monkeywrench, runner, specification};

/// A file of tests may be so large.
const FILE_BYTES_MAX: u64 = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  weir webtest tests.wt
      run a specification
  weir webtest < tests.wt
      the same from standard input
  weir webtest --junit report.xml shop.wt account.wt
      for continuous integration
  weir webtest session.pl
      click through sessions of HTTP::Monkeywrench (also .json and .toml)
  weir webtest --json tests.wt | jq '.files[].tests[] | select(.passed | not)'
      what failed

A specification, as HTTP::WebTest reads it:
  test_name = The front page
      url = http://127.0.0.1:8080/
      text_require = ( Welcome )
      max_rtime = 0.5
  end_test

Perl is not evaluated; \"$ENV{NAME}\" takes a value from the environment.

Exit status: 0 if all tests passed, 1 if one failed, 2 for wrong usage or a file
that cannot be read.";

/// Test what web pages say: run specifications of HTTP::WebTest and sessions of HTTP::Monkeywrench.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of tests; standard input without
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The form of the files, instead of what their names end with
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Print one JSON object instead of the report
    #[arg(long)]
    json: bool,

    /// Write a report for continuous integration to FILE, too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Believe the certificates that those in FILE (PEM) sign, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Believe every certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

/// What a file of tests is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A specification of HTTP::WebTest (.wt, and all other names)
    Webtest,
    /// Sessions of HTTP::Monkeywrench as Perl literals (.pl, .mw)
    Monkeywrench,
    /// The same as JSON (.json)
    Json,
    /// The same as TOML (.toml)
    Toml,
}

impl Format {
    fn of(path: Option<&Path>) -> Self {
        let end = path.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
        match end.as_deref() {
            Some("pl" | "mw") => Self::Monkeywrench,
            Some("json") => Self::Json,
            Some("toml") => Self::Toml,
            _ => Self::Webtest,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match tested(args) {
        Ok(passed) => Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        Err(error) => {
            eprintln!("weir: {}", output::causes(&error));
            Ok(ExitCode::from(2))
        }
    }
}

/// Whether all tests have passed.
fn tested(args: &Args) -> anyhow::Result<bool> {
    // All files are read before the first request: a mistake in the last one costs nothing then.
    let mut suites = Vec::new();
    for path in &args.files {
        suites.push((path.display().to_string(), read(Some(path), args)?));
    }
    if suites.is_empty() {
        suites.push(("standard input".to_owned(), read(None, args)?));
    }
    let trust = match &args.ca {
        Some(path) => Trust::File(path.clone()),
        None if args.insecure => Trust::Anything,
        None => Trust::System,
    };
    let client = Client::new(&trust)?;
    let mut ran = Vec::new();
    for (file, suite) in &suites {
        let outcomes = runner::run(suite, &client, &mut |_| {});
        if !args.json && !suite.quiet {
            output::print(&report::text(&outcomes))?;
        }
        ran.push((file, outcomes));
    }
    let ran: Vec<Ran<'_>> = ran.iter().map(|(file, outcomes)| Ran { file, outcomes }).collect();
    if args.json {
        output::print(&report::json(&ran))?;
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, report::junit(&ran)).with_context(|| format!("{}", path.display()))?;
    }
    Ok(ran.iter().all(|ran| report::totals(ran.outcomes).0 == 0))
}

fn read(path: Option<&Path>, args: &Args) -> anyhow::Result<Suite> {
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let text = text_of(path).with_context(|| name.clone())?;
    let folder = path.and_then(Path::parent).unwrap_or(Path::new("."));
    let variable = |name: &str| std::env::var(name).ok();
    let named = || name.clone();
    let suite = match args.format.unwrap_or_else(|| Format::of(path)) {
        Format::Webtest => {
            let read = specification::parse(&text, &variable).with_context(named)?;
            interpret::suite(&read, folder).with_context(named)?
        }
        Format::Monkeywrench => {
            let read = literal::parse(&text, &variable).with_context(named)?;
            monkeywrench::suite_of_literals(&read).with_context(named)?
        }
        Format::Json => monkeywrench::suite_of_json(&text).with_context(named)?,
        Format::Toml => monkeywrench::suite_of_toml(&text).with_context(named)?,
    };
    if suite.tests.is_empty() {
        bail!("{name}: there is no test in it; a test stands between test_name and end_test, a click in [ {{ … }} ]");
    }
    Ok(suite)
}

/// The text of a file or of standard input.
fn text_of(path: Option<&Path>) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = match path {
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(io::stdin().lock()),
    };
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("it is larger than {} MiB", FILE_BYTES_MAX >> 20);
    }
    String::from_utf8(bytes).map_err(|error| anyhow::anyhow!("it is not UTF-8 text: {error}"))
}
