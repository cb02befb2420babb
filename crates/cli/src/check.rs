//! The `weir check` command: looks for mistakes in files that other commands read.

use serde::Serialize;
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
  weir check --json weir.toml | jq .mistakes
      for a program

Each mistake is told with FILE:LINE:COLUMN, what is wrong and what would be right.
What a configuration names must be there: directories, pages, users, logs.
What ends in .arm is a file of ARM directives, anything else a configuration.

Exit status: 0 without a mistake, 1 with one, 2 if a file cannot be read.";

/// Look for mistakes in files that other commands read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Tell it in JSON
    #[arg(long)]
    json: bool,
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
}

#[derive(Debug, Serialize)]
struct Place {
    line: usize,
    column: usize,
    what: String,
    remedy: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let checked: Vec<Checked> = args.files.iter().map(|file| check(file)).collect();
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

fn check(path: &Path) -> Checked {
    let file = path.display().to_string();
    let is_arm = path.extension().is_some_and(|extension| extension == "arm");
    let kind = if is_arm { "ARM directives" } else { "configuration" };
    let (unreadable, mistakes) = if is_arm { arm(path) } else { configuration(path) };
    let place = |Mistake { line, column, what, remedy }| Place { line, column, what, remedy };
    Checked { file, kind, unreadable, mistakes: mistakes.into_iter().map(place).collect() }
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

fn tell(Checked { file, kind, unreadable, mistakes }: &Checked) {
    if let Some(why) = unreadable {
        return eprintln!("weir check: {file}: {why}");
    }
    for Place { line, column, what, remedy } in mistakes {
        println!("{file}:{line}:{column}: {what}; {remedy}");
    }
    if mistakes.is_empty() {
        println!("{file}: {kind} without mistakes");
    }
}
