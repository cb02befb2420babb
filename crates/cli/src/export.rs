//! The `weir export` command: a recorded run for other tools.

use crate::{joined_hosts, object_rules, sql};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use weir_export::{Charted, ExportError, Traced, chrome, csv, ctf, perfetto, pprof};
use weir_query::{Queries, TABLES, Table};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir export runs/a --perfetto a.pftrace
      for https://ui.perfetto.dev: requests with their parts, CPUs, threads,
      objects, and arrows from requests to threads and from who asks to what
  weir export runs/a --chrome a.json
      the same for chrome://tracing and tools that read its format
  weir export runs/a --csv folder
      all tables of `weir sql`, a file each
  weir export runs/a --csv folder --table requests --table parts
      these tables alone
  weir export runs/a --ctf trace
      its events in CTF 1.8 for babeltrace2 and Trace Compass; the scheduler's,
      the tasks' and the disks' as the kernel names them
  weir export runs/a --pprof a.pb.gz
      sampled stacks for `go tool pprof` and its kin
  weir export runs/a --parquet lake
      all tables into a data set of many runs, for DuckDB, DataFusion, Spark;
      it starts weir-parquet, a program of its own that `make lake` builds

Folded stacks are written by `weir explain RUN --folded FILE`, spans by
`weir explain RUN --otlp TO`.

Exit status: 0 if it was written, 1 if not, 2 for wrong usage, 130 if it was
stopped.";

/// Write a recorded run for other tools: CSV, Perfetto, Chrome, CTF, pprof, Parquet
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("to").required(true))]
pub(crate) struct Args {
    /// The run directory, or that of the runs of several hosts, which are written as one on one clock
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// The run of another host, recorded at the same time, to be written together with RUN; repeated for several
    #[arg(long = "with", value_name = "RUN")]
    others: Vec<PathBuf>,

    /// Write the tables as CSV into this new folder
    #[arg(long, value_name = "DIR", group = "to")]
    csv: Option<PathBuf>,

    /// Only this table [default: all]
    #[arg(long = "table", value_name = "NAME", conflicts_with_all = ["perfetto", "chrome", "ctf", "pprof"])]
    tables: Vec<String>,

    /// More rules for objects and interactions, as `weir objects --objects` takes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ctf", "pprof", "parquet"])]
    objects: Option<PathBuf>,

    /// Add the tables to this data set of Parquet files
    #[arg(long, value_name = "DIR", group = "to")]
    parquet: Option<PathBuf>,

    /// Write a trace of Perfetto
    #[arg(long, value_name = "FILE", group = "to")]
    perfetto: Option<PathBuf>,

    /// Write a trace in Chrome's format
    #[arg(long, value_name = "FILE", group = "to")]
    chrome: Option<PathBuf>,

    /// Write the events in CTF 1.8 into this new folder
    #[arg(long, value_name = "DIR", group = "to")]
    ctf: Option<PathBuf>,

    /// Write sampled stacks as a profile of pprof
    #[arg(long, value_name = "FILE", group = "to")]
    pprof: Option<PathBuf>,
}

/// The program that writes Parquet.
const PARQUET: &str = "weir-parquet";

/// Writes.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let tables = match chosen(&args.tables) {
        Ok(tables) => tables,
        Err(words) => {
            eprintln!("weir export: {words}");
            return Ok(ExitCode::from(2));
        }
    };
    let rules = match object_rules::with("export", args.objects.as_deref()) {
        Ok(rules) => rules,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    let Some(one) = joined_hosts::one("export", &args.run, &args.others)? else { return Ok(ExitCode::from(130)) };
    if let Some(lake) = &args.parquet {
        return parquet(&args.run, &one.directory, lake, &args.tables);
    }
    match sql::open(&one.directory, rules).map_err(ExportError::Query).and_then(|queries| write(args, queries, &tables))
    {
        Ok(words) => {
            output::print(&words)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(ExportError::Query(error)) => Ok(sql::refused("export", &error)),
        Err(error) => {
            eprintln!("weir export: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The tables of these names; of none, all.
fn chosen(names: &[String]) -> Result<Vec<&'static Table>, String> {
    if names.is_empty() {
        return Ok(TABLES.iter().collect());
    }
    let of = |name: &String| {
        let all = || TABLES.iter().map(|table| table.name).collect::<Vec<_>>().join(", ");
        Table::of(name).ok_or_else(|| format!("--table {name}: there is no such table; the tables are {}", all()))
    };
    names.iter().map(of).collect()
}

/// Has the program of its own write Parquet: beside this one, or on the search path.
fn parquet(named: &Path, run: &Path, lake: &Path, tables: &[String]) -> anyhow::Result<ExitCode> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PARQUET)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PARQUET));
    let mut command = Command::new(&program);
    command.arg(run).arg(lake);
    if let Some(name) = named.canonicalize().ok().as_deref().and_then(Path::file_name).filter(|_| named != run) {
        // The joined run is kept under a name that says nothing.
        command.arg("--name").arg(name);
    }
    for table in tables {
        command.args(["--table", table]);
    }
    match command.status() {
        Ok(status) => Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
        Err(error) => {
            eprintln!(
                "weir export: {}: {error}; Parquet is written by a program of its own: `make lake` builds it, put it \
                 beside weir or on the search path",
                program.display()
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Writes what is asked for; what was written, in words.
fn write(args: &Args, mut queries: Queries, tables: &[&'static Table]) -> Result<String, ExportError> {
    if let Some(folder) = &args.csv {
        let written = csv(&mut queries, tables, folder)?;
        let file = |table: &str| folder.join(format!("{table}.csv"));
        return Ok(written.iter().map(|one| format!("{}: {} rows\n", file(one.table).display(), one.rows)).collect());
    }
    if let Some(folder) = &args.ctf {
        let Traced { events, named, streams, left_out } = ctf(&mut queries, folder)?;
        let left_out = if left_out > 0 { format!(", {left_out} left out") } else { String::new() };
        let folder = folder.display();
        return Ok(format!(
            "{folder}: {events} events in {streams} streams, {named} as the kernel has them{left_out}\n"
        ));
    }
    if let Some(file) = &args.pprof {
        let told = pprof(&mut queries, file)?;
        let left_out = if told.left_out > 0 { format!(", {} stacks left out", told.left_out) } else { String::new() };
        return Ok(format!("{}: {} samples, {} stacks{left_out}\n", file.display(), told.samples, told.stacks));
    }
    let (file, told) = match (&args.perfetto, &args.chrome) {
        (Some(file), _) => (file, perfetto(&mut queries, file)?),
        (None, file) => {
            let file = file.as_ref().unwrap_or(&args.run);
            (file, chrome(&mut queries, file)?)
        }
    };
    let Charted { requests, parts, turns, waits, interactions, left_out, crowded } = told;
    let crowded = if crowded > 0 { format!(", {crowded} of them on a shared track") } else { String::new() };
    let left_out = if left_out > 0 { format!(", {left_out} more without a track") } else { String::new() };
    Ok(format!(
        "{}: {requests} requests{crowded}, {parts} parts, {turns} turns on CPUs, {waits} waits, {interactions} \
         interactions{left_out}\n",
        file.display()
    ))
}
