//! The `weir check` command: looks for mistakes in files that other commands read.

use crate::output;
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_server::{ArmRules, ConfigurationError, Mistake, read_configuration};

const EXAMPLES: &str = "\
Examples:
  weir check weir.toml
      a configuration of weir serve
  weir check weir.toml && kill -HUP $(pidof weir)
      and has a running server read it again, if it is well-formed
  weir check shop.arm
      directives for weir serve --arm
  weir check flood.policy
      rules by which a server adapts
  weir check --format flood.policy > tidy.policy
      the same rules, written the way all are written
  weir check --json weir.toml | jq .mistakes
      for a program

Each mistake is told with FILE:LINE:COLUMN, what is wrong and the remedy.
What a configuration names must be there: directories, pages, users, logs.
What ends in .arm is a file of ARM directives, what ends in .policy or
.weir-policy one of rules, anything else a configuration.
Of rules it also warns of what is seldom meant; that is no mistake.

Exit status: 0 without a mistake, 1 with one, 2 if a file cannot be read.";

/// Look for mistakes in files that other commands read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Tell it in JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Print a file of rules the way all are written, comments included
    #[arg(long)]
    format: bool,
}

/// What is said of one file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    kind: &'static str,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    mistakes: Vec<Place>,
    /// What is accepted, and seldom meant; of rules only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Place>,
}

#[derive(Debug, Serialize)]
struct Place {
    line: usize,
    column: usize,
    what: String,
    remedy: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.format {
        return format(&args.files);
    }
    let checked: Vec<Checked> = args.files.iter().flat_map(|file| check(file)).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&checked)?);
    } else {
        for one in &checked {
            tell(one);
        }
    }
    Ok(if checked.iter().any(|one| one.unreadable.is_some()) {
        ExitCode::from(2)
    } else {
        ExitCode::from(u8::from(checked.iter().any(|one| !one.mistakes.is_empty())))
    })
}

/// What a file is, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arm,
    Configuration,
    Policy,
}

impl Kind {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("arm") => Self::Arm,
            Some("policy" | "weir-policy") => Self::Policy,
            _ => Self::Configuration,
        }
    }
}

/// The file, and the rules that it names if it is a configuration.
fn check(path: &Path) -> Vec<Checked> {
    let named = (Kind::of(path) == Kind::Configuration).then(|| read_configuration(path).ok()?.policy).flatten();
    let named = named.map(|named| policy(&named, named.display().to_string()));
    std::iter::once(check_one(path)).chain(named).collect()
}

fn check_one(path: &Path) -> Checked {
    let file = path.display().to_string();
    let place = |Mistake { line, column, what, remedy }| Place { line, column, what, remedy };
    let (kind, (unreadable, mistakes)) = match Kind::of(path) {
        Kind::Policy => return policy(path, file),
        Kind::Arm => ("ARM directives", arm(path)),
        Kind::Configuration => ("configuration", configuration(path)),
    };
    Checked { file, kind, unreadable, mistakes: mistakes.into_iter().map(place).collect(), warnings: Vec::new() }
}

fn policy(path: &Path, file: String) -> Checked {
    let place = |weir_adapt::Mistake { line, column, what, remedy }| Place { line, column, what, remedy };
    let kind = "policy";
    match read_text(path) {
        Err(error) => {
            let unreadable = Some(error.to_string());
            Checked { file, kind, unreadable, mistakes: Vec::new(), warnings: Vec::new() }
        }
        Ok(text) => {
            let weir_adapt::Checked { mistakes, warnings } = weir_adapt::check_policy(&text);
            let places = |list: Vec<_>| list.into_iter().map(place).collect();
            Checked { file, kind, unreadable: None, mistakes: places(mistakes), warnings: places(warnings) }
        }
    }
}

/// Reads a policy, of which no more than can be one.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(weir_adapt::POLICY_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Prints the files, which must be policies.
fn format(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut exit = 0;
    for path in files {
        let file = path.display();
        if Kind::of(path) != Kind::Policy {
            eprintln!("weir check: {file}: only rules can be formatted; name their file .policy");
            return Ok(ExitCode::from(2));
        }
        let text = match read_text(path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("weir check: {file}: {error}");
                return Ok(ExitCode::from(2));
            }
        };
        match weir_adapt::format_policy(&text) {
            Ok(formatted) => output::print(&formatted)?,
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("{file}:{mistake}"));
                exit = 1;
            }
        }
    }
    Ok(ExitCode::from(exit))
}

fn configuration(path: &Path) -> (Option<String>, Vec<Mistake>) {
    match read_configuration(path) {
        Ok(_) => (None, Vec::new()),
        Err(ConfigurationError::Mistaken { mistakes, .. }) => (None, mistakes),
        Err(ConfigurationError::Unreadable { source, .. }) => (Some(source.to_string()), Vec::new()),
    }
}

fn arm(path: &Path) -> (Option<String>, Vec<Mistake>) {
    match std::fs::read_to_string(path) {
        Err(error) => (Some(error.to_string()), Vec::new()),
        Ok(text) => {
            let mistake = text.parse::<ArmRules>().err().map(|error| {
                let (what, remedy) = error.what.split_once(": ").unwrap_or((&error.what, "see weir serve --help"));
                Mistake { line: error.line, column: 1, what: what.to_owned(), remedy: remedy.to_owned() }
            });
            (None, mistake.into_iter().collect())
        }
    }
}

fn tell(Checked { file, kind, unreadable, mistakes, warnings }: &Checked) {
    if let Some(why) = unreadable {
        return eprintln!("weir check: {file}: {why}");
    }
    for Place { line, column, what, remedy } in mistakes {
        println!("{file}:{line}:{column}: {what}; {remedy}");
    }
    for Place { line, column, what, remedy } in warnings {
        println!("{file}:{line}:{column}: warning: {what}; {remedy}");
    }
    if mistakes.is_empty() {
        println!("{file}: {kind} without mistakes");
    }
}
