//! Events of a cluster's members, as an explanation takes them.

use anyhow::Context;
use std::path::{Path, PathBuf};
use weir_cluster::{EventEntry, EventPart, What, event_files, read_events};
use weir_explain::moves::{ClockTold, EventsOf, Moment, MoveTold, Side};
use weir_terminal::text_file;

/// Bytes of a file that are read; members write less.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads files, and those of clusters' directories.
pub(super) fn read(given: &[PathBuf]) -> anyhow::Result<Vec<EventsOf>> {
    let mut all = Vec::new();
    for path in given {
        let files = if path.is_dir() { event_files(path) } else { vec![path.clone()] };
        anyhow::ensure!(
            !files.is_empty(),
            "--cluster-events: {} has no events.jsonl; give the directory of a member (weir serve --cluster DIR)",
            path.display()
        );
        for file in files {
            all.extend(read_file(&file).with_context(|| format!("--cluster-events: {}", file.display()))?);
        }
    }
    Ok(all)
}

fn read_file(path: &Path) -> anyhow::Result<Vec<EventsOf>> {
    let read = read_events(&text_file::read(path, FILE_BYTES_MAX)?);
    if let Some((line, why)) = &read.first_unreadable {
        // A file of another kind has no event at all; in a damaged one the others count.
        anyhow::ensure!(!read.parts.is_empty(), "line {line}: {why}");
        let (path, unreadable) = (path.display(), read.unreadable);
        eprintln!("weir explain: {path}: {unreadable} lines were not understood, the first of them line {line}: {why}");
    }
    Ok(read.parts.iter().filter_map(part).collect())
}

/// The events of a start; `None` where it is not known whose they are.
fn part(part: &EventPart) -> Option<EventsOf> {
    let (header, first) = (part.header.as_ref()?, part.entries.first()?);
    Some(EventsOf {
        member: header.member.clone(),
        boot_id: header.boot_id.clone(),
        began: moment(first),
        moves: part.entries.iter().filter_map(told).collect(),
        clocks: part.entries.iter().filter_map(clock).collect(),
    })
}

fn moment(entry: &EventEntry) -> Moment {
    Moment { unix_us: entry.at_us, monotonic_us: entry.monotonic_us }
}

fn told(entry: &EventEntry) -> Option<MoveTold> {
    let side = match entry.what {
        What::Given => Side::Giver,
        What::Taken => Side::Taker,
        What::Confirmed => Side::Director,
        _ => return None,
    };
    Some(MoveTold {
        id: entry.move_id.clone()?,
        side,
        at: moment(entry),
        client: entry.client?,
        from: entry.from.clone()?,
        to: entry.to.clone()?,
        freeze_us: entry.freeze_us,
        total_us: entry.total_us,
        under_way: entry.under_way,
    })
}

fn clock(entry: &EventEntry) -> Option<ClockTold> {
    if entry.what != What::Clock {
        return None;
    }
    let (member, offset_us, error_us) = (entry.member.clone()?, entry.offset_us?, entry.error_us?);
    Some(ClockTold { at: moment(entry), member, offset_us, error_us })
}
