//! The `weir webtest` command.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_session::client::{Client, Trust};
use weir_session::replay::Replay;
use weir_session::report::{self, Ran};
use weir_session::suite::Suite;
use weir_session::{convert, har, interpret, literal, monkeywrench, replay, runner, secrets, specification};
use weir_terminal::output;
use weir_terminal::text_file::{self, TextFileError};

/// A file of tests may be so large.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Reasons for which entries of a recording cannot be read are told singly up to so many.
const UNREAD_TOLD: usize = 8;

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
      send again what a browser or weir record-session has recorded
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
    /// Files of tests; without any, standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of the files, instead of the one that their names end with
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Print the recording FILE (HAR) in another format instead of running tests
    #[arg(long, value_name = "FILE", requires = "to", conflicts_with_all = ["files", "json", "junit", "format"])]
    convert: Option<PathBuf>,

    /// The format to convert to
    #[arg(long, value_enum, requires = "convert")]
    to: Option<To>,

    /// Send requests to this server instead of the one that was recorded
    #[arg(long, value_name = "URL")]
    base: Option<url::Url>,

    /// Expect the sizes of the recording, within this many percent
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "0", require_equals = true)]
    sizes: Option<f64>,

    /// Pause as long as the recorded user did, at most ten minutes at a time
    #[arg(long)]
    pauses: bool,

    /// Send requests to the recording's other servers, too, such as those of advertisements
    #[arg(long)]
    all_hosts: bool,

    /// A secret that is masked in the recording, by its number or name; also by $WEIR_SECRET_NUMBER; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    secret: Vec<String>,

    /// Print one JSON object instead of the report
    #[arg(long)]
    json: bool,

    /// Write also a report for continuous integration to FILE
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Trust the certificate authorities in FILE (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Accept any certificate
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
    let mut sources = args.files.iter().map(|path| Source::read(Some(path), args)).collect::<Result<Vec<_>, _>>()?;
    if sources.is_empty() {
        sources.push(Source::read(None, args)?);
    }
    let trust = match &args.ca {
        Some(path) => Trust::File(path.clone()),
        None if args.insecure => Trust::Anything,
        None => Trust::System,
    };
    let client = Client::new(&trust)?;
    let mut ran = Vec::new();
    for source in &sources {
        let outcomes = runner::run(&source.suite, &client, &mut |_| {});
        if !args.json && !source.suite.quiet {
            output::print(&report::text(&outcomes))?;
        }
        ran.push((source, outcomes));
    }
    let ran: Vec<Ran<'_>> =
        ran.iter().map(|(source, outcomes)| Ran { file: &source.name, outcomes, left_out: &source.left_out }).collect();
    if args.json {
        output::print(&report::json(&ran))?;
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, report::junit(&ran)).with_context(|| format!("{}", path.display()))?;
    }
    for source in sources.iter().filter(|source| source.is_mostly_lost) {
        eprintln!(
            "weir webtest: {}: this fails, as more of its requests are left out than asked; see the lines above for why",
            source.name
        );
    }
    let is_whole = !sources.iter().any(|source| source.is_mostly_lost);
    Ok(is_whole && ran.iter().all(|ran| report::totals(ran.outcomes).0 == 0))
}

fn form(path: Option<&Path>, args: &Args) -> Format {
    args.format.unwrap_or_else(|| Format::of(path))
}

/// Prints a recording in another form.
fn converted(path: &Path, to: To) -> anyhow::Result<bool> {
    let named = || path.display().to_string();
    let archive = har::read(&text_of(Some(path)).with_context(named)?).with_context(named)?;
    let recording = &archive.recording;
    let unread = unread(&archive);
    unread.iter().for_each(|left_out| eprintln!("weir webtest: {}: {}", named(), left_out.words));
    let (left_out, all) = (convert::left_out(recording), recording.entries.len());
    if left_out == all {
        bail!("{}: no request of it can be asked again", path.display());
    }
    output::print(&match to {
        To::Webtest => convert::webtest(recording),
        To::Monkeywrench => convert::monkeywrench(recording),
        To::Sessions => convert::sessions(recording),
    })?;
    for (count, why) in convert::reasons(recording) {
        eprintln!("weir webtest: {}: {count} of {all} requests {why}: left out", named());
    }
    let with_fields = convert::with_fields(recording);
    if with_fields > 0 && to != To::Webtest {
        eprintln!("weir webtest: {}: {with_fields} requests have header fields that this form does not hold", named());
    }
    let lost = convert::lost(recording) + archive.unread.len();
    if lost > all - left_out {
        eprintln!("weir webtest: {}: this fails, as more of its requests are left out than converted", named());
    }
    Ok(lost <= all - left_out)
}

/// A file of tests that was read.
struct Source {
    name: String,
    suite: Suite,
    /// What of it is not run.
    left_out: Vec<report::LeftOut>,
    /// Whether that is more than what is run.
    is_mostly_lost: bool,
}

/// Entries of an archive that could not be read, by reason, each in a line.
fn unread(archive: &har::Archive) -> Vec<report::LeftOut> {
    let all = archive.recording.entries.len() + archive.unread.len();
    let mut found: Vec<(usize, &har::Unread)> = Vec::new();
    for unread in &archive.unread {
        match found.iter_mut().find(|(_, first)| first.why == unread.why) {
            Some((count, _)) => *count += 1,
            None => found.push((1, unread)),
        }
    }
    // Texts that differ in each entry would be a line for each.
    let told = found.len().min(UNREAD_TOLD);
    let rest: usize = found[told..].iter().map(|(count, _)| count).sum();
    let mut lines: Vec<report::LeftOut> = found[..told]
        .iter()
        .map(|(count, unread)| {
            let words = format!(
                "{count} of {all} entries cannot be read: left out; the first is entry {}: {}",
                unread.entry, unread.why
            );
            report::LeftOut { count: *count, words }
        })
        .collect();
    if rest > 0 {
        let words = format!("{rest} of {all} entries cannot be read for other reasons: left out");
        lines.push(report::LeftOut { count: rest, words });
    }
    lines
}

/// Tests of a recording, and what is left out of it.
fn replayed(text: &str, named: &str, args: &Args) -> anyhow::Result<Source> {
    let archive = har::read(text).with_context(|| named.to_owned())?;
    let how = Replay { base: args.base.clone(), sizes: args.sizes, pauses: args.pauses, all_hosts: args.all_hosts };
    let replayed = replay::suite(&archive.recording, &how);
    let mut left_out = unread(&archive);
    let all = archive.recording.entries.len();
    left_out.extend(replayed.left_out.iter().map(|replay::LeftOut { count, first, why, .. }| report::LeftOut {
        count: *count,
        words: format!("{count} of {all} requests {why}: left out; the first is test {first}"),
    }));
    left_out.iter().for_each(|left_out| eprintln!("weir webtest: {named}: {}", left_out.words));
    if archive.replaced > 0 {
        eprintln!(
            "weir webtest: {named}: {} halves of surrogate pairs are no text and are read as U+FFFD",
            archive.replaced
        );
    }
    if replayed.suite.tests.is_empty() {
        bail!("{named}: no request of it can be asked again");
    }
    let is_mostly_lost = replayed.is_mostly_lost(archive.unread.len());
    Ok(Source { name: named.to_owned(), suite: replayed.suite, left_out, is_mostly_lost })
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

impl Source {
    fn read(path: Option<&Path>, args: &Args) -> anyhow::Result<Self> {
        let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
        let text = text_of(path).with_context(|| name.clone())?;
        let folder = path.and_then(Path::parent).unwrap_or(Path::new("."));
        let variable = |name: &str| std::env::var(name).ok();
        let named = || name.clone();
        let of = |suite| Self { name: name.clone(), suite, left_out: Vec::new(), is_mostly_lost: false };
        let mut source = match form(path, args) {
            Format::Webtest => {
                let read = specification::parse(&text, &variable).with_context(named)?;
                of(interpret::suite(&read, folder).with_context(named)?)
            }
            Format::Monkeywrench => {
                let read = literal::parse(&text, &variable).with_context(named)?;
                of(monkeywrench::suite_of_literals(&read).with_context(named)?)
            }
            Format::Json => of(monkeywrench::suite_of_json(&text).with_context(named)?),
            Format::Toml => of(monkeywrench::suite_of_toml(&text).with_context(named)?),
            Format::Har => replayed(&text, &name, args)?,
        };
        if source.suite.tests.is_empty() {
            bail!(
                "{name}: there is no test in it; a test stands between test_name and end_test, a click in [ {{ … }} ]"
            );
        }
        secrets::reveal(&mut source.suite, &given_secrets(args)?).map_err(|lacking| {
        let lacking: Vec<String> = lacking.into_iter().collect();
        anyhow::anyhow!(
            "{name}: secrets are masked in it, and these are missing: {}; give each by --secret NUMBER=VALUE or the variable \
             WEIR_SECRET_NUMBER, or record with --keep-secrets",
            lacking.join(", ")
        )
    })?;
        Ok(source)
    }
}

/// The text of a file or of standard input.
fn text_of(path: Option<&Path>) -> Result<String, TextFileError> {
    text_file::read_lines(path.unwrap_or(Path::new("-")), FILE_BYTES_MAX)
}
