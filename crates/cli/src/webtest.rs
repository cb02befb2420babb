//! The `weir webtest` command.

use crate::output;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_session::client::{Client, Trust};
use weir_session::replay::Replay;
use weir_session::report::{self, Ran};
use weir_session::suite::Suite;
use weir_session::{convert, har, interpret, literal, monkeywrench, replay, runner, secrets, specification};

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
  weir webtest --base http://127.0.0.1:8080 --sizes=10 recorded.har
      ask again what a browser or weir record-session has recorded
  weir webtest --convert recorded.har --to sessions > sessions.txt
      for httperf --wsesslog
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

/// Test what web pages say: run specifications of HTTP::WebTest and sessions of HTTP::Monkeywrench, replay
/// recordings (HAR).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of tests; standard input without
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The form of the files, instead of what their names end with
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Print the recording FILE (HAR) in another form instead of running tests
    #[arg(long, value_name = "FILE", requires = "to", conflicts_with_all = ["files", "json", "junit", "format"])]
    convert: Option<PathBuf>,

    /// The form to convert to
    #[arg(long, value_enum, requires = "convert")]
    to: Option<To>,

    /// Ask this server instead of the one that was recorded
    #[arg(long, value_name = "URL")]
    base: Option<url::Url>,

    /// Expect the sizes of the recording, within this many percent
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "0", require_equals = true)]
    sizes: Option<f64>,

    /// Pause as long as the recorded user did, at most ten minutes at a time
    #[arg(long)]
    pauses: bool,

    /// Ask the recording's other servers, too, such as those of advertisements
    #[arg(long)]
    all_hosts: bool,

    /// A secret that is masked in the recording, by its number or name; also by $WEIR_SECRET_NUMBER; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    secret: Vec<String>,

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
    /// A recording, HTTP Archive 1.2 (.har)
    Har,
}

/// What a recording is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// A specification of HTTP::WebTest
    Webtest,
    /// A session of HTTP::Monkeywrench
    Monkeywrench,
    /// httperf's file of sessions (--wsesslog), with the recorded pauses
    Sessions,
}

impl Format {
    fn of(path: Option<&Path>) -> Self {
        let end = path.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
        match end.as_deref() {
            Some("pl" | "mw") => Self::Monkeywrench,
            Some("json") => Self::Json,
            Some("toml") => Self::Toml,
            Some("har") => Self::Har,
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
    if let (Some(path), Some(to)) = (&args.convert, args.to) {
        return converted(path, to);
    }
    let recordings = args.files.iter().any(|path| form(Some(path), args) == Format::Har);
    let of_recordings = args.base.is_some() || args.sizes.is_some() || args.pauses || args.all_hosts;
    if of_recordings && !recordings && args.format != Some(Format::Har) {
        bail!("--base, --sizes, --pauses and --all-hosts are for recordings (FILE.har), and there is none");
    }
    if args.sizes.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        bail!("--sizes is a number of percent from 0 to 100");
    }
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

fn form(path: Option<&Path>, args: &Args) -> Format {
    args.format.unwrap_or_else(|| Format::of(path))
}

/// Prints a recording in another form.
fn converted(path: &Path, to: To) -> anyhow::Result<bool> {
    let named = || path.display().to_string();
    let recording = har::read(&text_of(Some(path)).with_context(named)?).with_context(named)?;
    if convert::left_out(&recording) == recording.entries.len() {
        bail!("{}: no request of it can be asked again", path.display());
    }
    output::print(&match to {
        To::Webtest => convert::webtest(&recording),
        To::Monkeywrench => convert::monkeywrench(&recording),
        To::Sessions => convert::sessions(&recording),
    })?;
    let (left_out, all) = (convert::left_out(&recording), recording.entries.len());
    if left_out > 0 {
        eprintln!(
            "weir webtest: {left_out} of {all} requests are left out: other servers', or without a response or body"
        );
    }
    Ok(true)
}

/// Tests of a recording; what is left out is told.
fn replayed(text: &str, named: &str, args: &Args) -> anyhow::Result<Suite> {
    let recording = har::read(text).with_context(|| named.to_owned())?;
    let how = Replay { base: args.base.clone(), sizes: args.sizes, pauses: args.pauses, all_hosts: args.all_hosts };
    let replayed = replay::suite(&recording, &how);
    for (count, why) in &replayed.left_out {
        eprintln!("weir webtest: {named}: {count} of {} requests {why}: left out", recording.entries.len());
    }
    Ok(replayed.suite)
}

/// Secrets by number or name, from the command line and the environment.
fn given_secrets(args: &Args) -> anyhow::Result<BTreeMap<String, String>> {
    let mut given = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        if let (Some(name), Some(value)) =
            (name.to_str().and_then(|name| name.strip_prefix("WEIR_SECRET_")), value.to_str())
        {
            given.insert(name.to_owned(), value.to_owned());
        }
    }
    for secret in &args.secret {
        let (name, value) = secret.split_once('=').context("--secret is NAME=VALUE")?;
        given.insert(name.to_owned(), value.to_owned());
    }
    Ok(given)
}

fn read(path: Option<&Path>, args: &Args) -> anyhow::Result<Suite> {
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let text = text_of(path).with_context(|| name.clone())?;
    let folder = path.and_then(Path::parent).unwrap_or(Path::new("."));
    let variable = |name: &str| std::env::var(name).ok();
    let named = || name.clone();
    let mut suite = match form(path, args) {
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
        Format::Har => replayed(&text, &name, args)?,
    };
    if suite.tests.is_empty() {
        bail!("{name}: there is no test in it; a test stands between test_name and end_test, a click in [ {{ … }} ]");
    }
    secrets::reveal(&mut suite, &given_secrets(args)?).map_err(|lacking| {
        let lacking: Vec<String> = lacking.into_iter().collect();
        anyhow::anyhow!(
            "{name}: secrets are masked in it, and these lack: {}; give each by --secret NUMBER=VALUE or the variable \
             WEIR_SECRET_NUMBER, or record with --keep-secrets",
            lacking.join(", ")
        )
    })?;
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
