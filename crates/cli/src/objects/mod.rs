//! The `weir objects` command: the objects of a run, how they interact, and what each did for each class of
//! transactions.

mod text;

use crate::{joined_hosts, object_rules};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_objects::{Framework, OURS, Report, Table};
use weir_terminal::output;
use weir_trace::{Damage, RunReader, Sourced};
use weir_wire::Kind;
use weir_wire::client::ClientRequest;

const EXAMPLES: &str = "\
Examples:
  weir objects runs/a
      what each CPU, disk, lock and server did for each class of transactions
  weir objects --only cpu --only 'phase*' runs/a
      of these interactions alone
  weir objects --json runs/a | jq '.classes[] | {name, finished}'
      all of it: also each requester with each object, and each part
  weir objects --objects mine.toml runs/a
      with rules of your own for what the run's events mean
  weir objects --table
      our own rules, to copy from

An interaction is a request, its acceptance, its finish and perhaps a wait
(Horikawa 2000). What a run does not hold is \"not recorded\", never 0.
docs/reference/objects.md says how rules are written and what is calculated.

Exit status: 0 if all was read, 1 if the run cannot be read, 2 for wrong usage
or a mistake in the rules, 130 if it was stopped.";

/// List a run's objects, and what each did for which transactions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run directory, or that of the runs of several hosts, which are listed together
    #[arg(value_name = "RUN", required_unless_present = "table")]
    run: Option<PathBuf>,

    /// More rules: which event is which part of an interaction between which objects
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    /// Show only interactions of this name, which may have * in it; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Print our own rules
    #[arg(long, conflicts_with_all = ["run", "objects", "only", "json"])]
    table: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the objects of a run.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(run) = args.run.as_ref().filter(|_| !args.table) else {
        output::print(OURS)?;
        return Ok(ExitCode::SUCCESS);
    };
    let table = match object_rules::with("objects", args.objects.as_deref()) {
        Ok(table) => table,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    if let Some(unknown) = unknown(&table, &args.only) {
        eprintln!("weir objects: {unknown}");
        return Ok(ExitCode::from(2));
    }
    let Some(one) = joined_hosts::one("objects", run, &[])? else { return Ok(ExitCode::from(130)) };
    let (report, damage) = read(&one.directory, table)?;
    let report = only(report, &args.only);
    output::print(&if args.json { json(&report, &damage)? } else { text::text(run, &report, &damage) })?;
    Ok(ExitCode::SUCCESS)
}

/// A name or pattern that no interaction has, in words.
fn unknown(table: &Table, only: &[String]) -> Option<String> {
    let names: Vec<&str> = table.interactions().iter().map(|one| one.name.as_str()).collect();
    let pattern = only.iter().find(|pattern| !names.iter().any(|name| matches(pattern, name)))?;
    Some(format!("no interaction is called {pattern:?}; --only takes one of {}", names.join(", ")))
}

/// Whether a name fits a pattern, in which * stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// Reads a run, once, in the order of time.
fn read(run: &Path, table: Table) -> anyhow::Result<(Report, Damage)> {
    let reader = RunReader::open(run)?;
    let (mut framework, mut merge, mut records) = (Framework::new(table), reader.merge(), 0_u64);
    let mut line = weir_terminal::progress::Line::new();
    merge.each(|sourced| {
        framework.push(&sourced.record, sourced.payload, text_of(&sourced));
        records += 1;
        if records.is_multiple_of(1 << 16) {
            line.show(|| format!("reading {records} events"));
        }
        true
    });
    drop(line);
    let damage = merge.damage().clone();
    if records == 0 {
        let why = damage.refused.first().cloned().unwrap_or_else(|| "it has no events".to_owned());
        return Err(anyhow::anyhow!(why)).with_context(|| format!("nothing to list in {}", run.display()));
    }
    Ok((framework.finish(), damage))
}

/// The text of the dictionary that a record refers to.
fn text_of<'a>(sourced: &'a Sourced<'_>) -> Option<&'a str> {
    let named = |id: u32| sourced.name(id).map(|text| &**text);
    if let Some(request) = ClientRequest::read(&sourced.record, sourced.payload) {
        return named(request.name);
    }
    let kinds = [Kind::ProbeHit, Kind::ProbeText, Kind::Asked];
    let is_named = kinds.iter().any(|kind| *kind as u16 == sourced.record.kind);
    is_named.then(|| named(sourced.record.b as u32)).flatten()
}

/// The interactions that were asked for.
fn only(mut report: Report, only: &[String]) -> Report {
    if only.is_empty() {
        return report;
    }
    let is_asked = |name: &str| only.iter().any(|pattern| matches(pattern, name));
    report.interactions.retain(|one| is_asked(&one.name));
    report.objects.retain(|one| is_asked(&one.interaction));
    report.pairs.retain(|one| is_asked(&one.interaction));
    report.classes.iter_mut().for_each(|class| class.uses.retain(|one| is_asked(&one.interaction)));
    report
}

fn json(report: &Report, damage: &Damage) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(report)?;
    if let Some(map) = value.as_object_mut() {
        map.insert("schema".to_owned(), "weir-objects/1".into());
        map.insert("damaged_bytes".to_owned(), damage.bytes.into());
        map.insert("unreadable".to_owned(), damage.refused.clone().into());
    }
    Ok(format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("cpu", "cpu") && !matches("cpu", "cpus") && !matches("cpu", "xcpu"));
        assert!(matches("own*", "own-lock") && matches("*lock", "own-lock") && matches("*", "disk"));
        assert!(matches("o*-l*k", "own-lock") && !matches("o*x*k", "own-lock"));
    }
}
