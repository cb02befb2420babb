//! Traces of other tools as runs, for `weir import --run`.

use anyhow::Context;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_formats::{ImportError, Imported, LinePattern, Made, Markers, Options, Pattern, import};
use weir_terminal::output;

/// Names of events that the report shows.
const SHOWN_EVENTS: usize = 8;

/// What the user says of a trace.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Read a trace into this run directory, which weir view and weir explain take
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "out", "force", "root", "php"])]
    pub(crate) run: Option<PathBuf>,

    /// What the trace held, as JSON on standard output
    #[arg(long, requires = "run")]
    json: bool,

    /// Requests begin at this event: EVENT, EVENT/KEY or EVENT/KEY/NAME, KEY and NAME fields of it
    #[arg(long, value_name = "PATTERN", requires = "run", requires = "request_end")]
    request_begin: Option<Pattern>,

    /// Requests end at this event, which has the same KEY
    #[arg(long, value_name = "PATTERN", requires = "run", requires = "request_begin")]
    request_end: Option<Pattern>,

    /// Only connections that tasks of this name accept are requests' [default: all that are accepted]
    #[arg(long, value_name = "NAME", requires = "run")]
    server: Option<String>,

    /// Read any text by this regular expression; groups: time_ns (or time_us, time_ms, time_s), event, cpu, task
    #[arg(long, value_name = "REGEX", requires = "run")]
    lines: Option<LinePattern>,

    /// Read any text by the forms of lines in this TOML file: [[line]] form, event; [requests] begin, end
    #[arg(long, value_name = "FILE", requires = "run", conflicts_with = "lines")]
    line_forms: Option<PathBuf>,
}

impl TraceArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let lines = match &self.line_forms {
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
                Some(LinePattern::from_toml(&text).with_context(|| file.display().to_string())?)
            }
            None => self.lines.clone(),
        };
        let named = self.request_begin.clone().zip(self.request_end.clone());
        let named = named.map(|(begin, end)| Markers::new(begin, end));
        // What the command line says goes before the file.
        let markers = named.or_else(|| lines.as_ref()?.markers().cloned()).unwrap_or_default();
        Ok(Options { markers, server: self.server.clone(), lines })
    }
}

pub(crate) fn run(file: &Path, directory: &Path, args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let made = Made { version: env!("CARGO_PKG_VERSION"), command: std::env::args().collect() };
    let imported = match import(file, directory, &args.options()?, &made) {
        Ok(imported) => imported,
        Err(error) => {
            eprintln!("weir import: {}: {error}", file.display());
            return Ok(ExitCode::from(if matches!(error, ImportError::Read { .. }) { 1 } else { 2 }));
        }
    };
    output::print(&if args.json { json(&imported) } else { text(&imported, directory) })?;
    Ok(ExitCode::SUCCESS)
}

fn json(imported: &Imported) -> String {
    let Imported { format, counts, records, not_kept } = imported;
    let skipped: serde_json::Map<_, _> =
        counts.skipped.iter().map(|(why, count)| (why.words().to_owned(), (*count).into())).collect();
    let report = serde_json::json!({
        "schema": "weir-import-trace/1",
        "format": format.name(),
        "events": counts.events,
        "events_of_further_names": counts.of_further_names,
        "lost": counts.lost,
        "skipped": skipped,
        "not_kept": not_kept,
        "clock": counts.clock,
        "hosts": counts.host.iter().collect::<Vec<_>>(),
        "cpus": counts.cpus,
        "records": records,
    });
    format!("{report:#}\n")
}

fn text(imported: &Imported, directory: &Path) -> String {
    let Imported { format, counts, records, not_kept } = imported;
    let mut text = String::new();
    let all: u64 = counts.events.values().sum::<u64>() + counts.of_further_names;
    let clock = counts.clock.as_deref().unwrap_or("not told");
    let _ =
        writeln!(text, "{}: {all} events on {} CPUs, {} lost; clock: {clock}", format.name(), counts.cpus, counts.lost);
    let mut by_count: Vec<_> = counts.events.iter().collect();
    by_count.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    for (name, count) in by_count.iter().take(SHOWN_EVENTS) {
        let _ = writeln!(text, "  {count:>12}  {name}");
    }
    let further = by_count.len().saturating_sub(SHOWN_EVENTS);
    if further > 0 {
        let _ = writeln!(text, "  and {further} further names (--json)");
    }
    for (why, count) in &counts.skipped {
        let _ = writeln!(text, "not mapped: {count}, {}", why.words());
    }
    for (what, count) in not_kept {
        let _ = writeln!(text, "not kept: {count} {what}");
    }
    let _ = writeln!(text, "{records} records in {}: weir view {}", directory.display(), directory.display());
    text
}
