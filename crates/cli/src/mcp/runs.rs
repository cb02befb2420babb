//! The runs of a folder as resources.

use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use weir_mcp::{Place, PlaceError, run_uri};
use weir_trace::{Entry, OpenRunError, RunReader};

/// The most runs that are listed, how deep they are looked for, and the most entries of folders that are looked at.
const RUNS_MAX: usize = 200;
const DEPTH_MAX: usize = 3;
const ENTRIES_MAX: usize = 5000;

/// The list of runs below a folder, for resources/list.
pub(super) fn list(root: &Path) -> Value {
    let mut found = Vec::new();
    let mut left = ENTRIES_MAX;
    look(root, root, DEPTH_MAX, &mut left, &mut found);
    found.sort();
    let titled: Vec<(String, String)> = found
        .into_iter()
        .map(|name| {
            let title = RunReader::open(&root.join(&name)).map_or_else(|error| error.to_string(), |run| title(&run));
            (name, title)
        })
        .collect();
    weir_mcp::resources(&titled)
}

fn look(root: &Path, folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if *left == 0 || found.len() >= RUNS_MAX {
            return;
        }
        *left -= 1;
        // Links are not followed: they may lead out of the folder, or round in it.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.join("manifest.jsonl").is_file() {
            found.extend(path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned));
        } else if depth > 1 {
            look(root, &path, depth - 1, left, found);
        }
    }
}

/// When and how a run was made, in a line.
fn title(run: &RunReader) -> String {
    let first = run.entries.iter().find_map(|entry| match entry {
        Entry::Source { command, realtime_ns, host, .. } => Some((command, realtime_ns, host)),
        _ => None,
    });
    let Some((command, realtime_ns, host)) = first else { return "nothing was recorded".to_owned() };
    format!("{} on {}: {}", when(*realtime_ns), host.name, command.join(" "))
}

fn when(realtime_ns: u64) -> String {
    let at = chrono::DateTime::from_timestamp_nanos(i64::try_from(realtime_ns).unwrap_or(i64::MAX));
    at.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Why a run cannot be told of.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// It is out of reach.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenRunError),
}

/// The summary of a run, for resources/read.
pub(super) fn read(place: &Place, name: &str) -> Result<Value, ReadError> {
    let directory = place.run(name)?;
    let run = RunReader::open(&directory)?;
    let (mut sources, mut bytes, mut records, mut lost) = (Vec::new(), 0, 0, 0);
    let (mut notes, mut ends) = (Vec::new(), Vec::new());
    for entry in &run.entries {
        match entry {
            Entry::Source { source, version, command, host, realtime_ns, rung, .. } => sources.push(json!({
                "source": source,
                "version": version,
                "command": command.join(" "),
                "host": host.name,
                "kernel": host.kernel,
                "cpus": host.cpus,
                "begun": when(*realtime_ns),
                "rung": rung,
            })),
            Entry::Segment { bytes: of_it, records: in_it, lost: before, .. } => {
                bytes += of_it;
                records += in_it;
                lost += before;
            }
            Entry::Removed { records, .. } => lost += records,
            Entry::End { source, realtime_ns, notes: noted, .. } => {
                ends.push(json!({ "source": source, "ended": when(*realtime_ns) }));
                notes.extend(noted.iter().cloned());
            }
        }
    }
    let has_report = directory.join("report.html").is_file();
    let summary = json!({
        "schema": "weir-mcp-run/1",
        "run": name,
        "sources": sources,
        "ends": ends,
        "bytes": bytes,
        "records": records,
        "lost": lost,
        "damaged_lines": run.manifest_cut,
        "has_html_report": has_report,
        "notes": notes,
    });
    Ok(weir_mcp::contents(&run_uri(name), "application/json", &format!("{summary:#}")))
}

/// The tables that questions may name.
pub(super) fn tables() -> Value {
    let mut text = String::new();
    for table in weir_query::TABLES {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "{}: {}", table.name, table.doc);
        for column in table.columns {
            let _ = writeln!(text, "  {} {}: {}", column.name, column.kind.name().to_lowercase(), column.doc);
        }
    }
    text.push_str("\nSaved questions (the argument saved):\n");
    for saved in weir_query::SAVED {
        let _ = writeln!(text, "  {}: {}", saved.name, saved.asks);
    }
    weir_mcp::tables(&text)
}
