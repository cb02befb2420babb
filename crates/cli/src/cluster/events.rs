//! `weir cluster events`: what a member did and saw, from the files in its cluster's directory.

use anyhow::Context;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_cluster::{EVENTS_FILE, EventEntry, EventPart, What, event_files, read_events};
use weir_terminal::stop::Stop;
use weir_terminal::{output, text_file, units};

/// Bytes of a file that are read; members write less.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a line that is not whole yet, at most.
const REST_BYTES_MAX: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  weir cluster events /etc/weir/cluster --since 10m
      what this member did and saw in the last ten minutes
  weir cluster events /etc/weir/cluster --follow
      and what it does from now on, until Ctrl-C
  weir cluster events /etc/weir/cluster --json | jq 'select(.what == \"given\")'
      for programs, a line each; also how far its clock is from the director's

Each member writes its own events to events.jsonl in its cluster's directory,
and keeps at most 32 MiB of them. weir explain --cluster-events FILE reads them.";

/// Show what this member did and saw.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Go on with what happens from now on
    #[arg(long)]
    follow: bool,

    /// Leave out what is older
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    since: Option<Duration>,

    /// A line of JSON for each
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals().context("handling signals")?;
    let since = args.since.and_then(|since| SystemTime::now().checked_sub(since));
    let since_us = since.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_micros());
    let mut shown = Shown { since_us: u64::try_from(since_us).unwrap_or(u64::MAX), json: args.json, member: None };
    let mut files = VecDeque::from(event_files(&args.folder));
    let newest = args.folder.join(EVENTS_FILE);
    if files.is_empty() && !args.follow {
        anyhow::bail!(
            "there is no {}; a node writes it while `weir serve --cluster` runs, and a director while it does",
            newest.display()
        );
    }
    if args.follow {
        files.retain(|path| *path != newest);
    }
    for path in files {
        let text = text_file::read(&path, FILE_BYTES_MAX).with_context(|| path.display().to_string())?;
        if !shown.show(&text)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if args.follow {
        follow(&newest, &mut shown, &stop)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what is written to a file, and to the one that takes its place, until it is to end.
fn follow(path: &Path, shown: &mut Shown, stop: &Stop) -> anyhow::Result<()> {
    let mut open: Option<File> = None;
    let mut rest = Vec::new();
    while !stop.asked() {
        if open.is_none() {
            open = File::open(path).ok();
            rest.clear();
        }
        let Some(file) = &mut open else {
            std::thread::sleep(LOOK);
            continue;
        };
        // Looked at first: what is written to a file until then is read before it is left.
        let is_left = fs::metadata(path).ok().map(|found| found.ino()) != file.metadata().ok().map(|own| own.ino());
        file.read_to_end(&mut rest).with_context(|| path.display().to_string())?;
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if !shown.show(&String::from_utf8_lossy(&rest[..whole]))? {
            return Ok(());
        }
        rest.drain(..whole);
        if is_left || rest.len() > REST_BYTES_MAX {
            open = None;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// What is shown, and how.
struct Shown {
    since_us: u64,
    json: bool,
    /// The member that has written what comes.
    member: Option<String>,
}

impl Shown {
    /// Shows the events of a text; `false` once the reader is gone.
    fn show(&mut self, text: &str) -> anyhow::Result<bool> {
        let mut out = String::new();
        for EventPart { header, entries } in read_events(text).parts {
            if let Some(header) = header {
                self.member = Some(header.member);
            }
            for entry in entries.iter().filter(|entry| entry.at_us >= self.since_us) {
                if self.json {
                    self.json_line(&mut out, entry)?;
                } else if entry.what != What::Clock {
                    let _ = writeln!(out, "{}", words(entry));
                }
            }
        }
        Ok(out.is_empty() || output::print_while_read(&out)?)
    }

    fn json_line(&self, out: &mut String, entry: &EventEntry) -> anyhow::Result<()> {
        // Writing to memory does not fail, here and above.
        let _ = writeln!(out, "{}", json_of(entry, self.member.as_deref())?);
        Ok(())
    }
}

/// An event for programs: as it was written, and by which member.
pub(super) fn json_of(entry: &EventEntry, member: Option<&str>) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(entry).context("JSON")?;
    if let (Some(member), Some(fields)) = (member, value.as_object_mut()) {
        fields.insert("by".to_owned(), member.into());
    }
    Ok(value)
}

/// An event for people.
fn words(entry: &EventEntry) -> String {
    let at = i64::try_from(entry.at_us).ok().and_then(chrono::DateTime::from_timestamp_micros).unwrap_or_default();
    let mut line = format!("{}  {:<9}", at.format("%Y-%m-%d %H:%M:%S%.6f"), entry.what.word());
    for part in parts(entry) {
        let _ = write!(line, "  {part}");
    }
    // A control character of a file must not reach the terminal.
    line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// What an event says beside its time and what it is: of whom, from where to where, how long, why.
pub(super) fn parts(entry: &EventEntry) -> Vec<String> {
    let mut parts: Vec<String> = entry.client.iter().map(ToString::to_string).collect();
    if let (Some(from), Some(to)) = (&entry.from, &entry.to) {
        parts.push(format!("{from} to {to}"));
    }
    parts.extend([&entry.member, &entry.rule, &entry.done].into_iter().flatten().cloned());
    let ms = |us: u64| us as f64 / 1e3;
    parts.extend(entry.freeze_us.map(|us| format!("stood still {:.2} ms", ms(us))));
    parts.extend(entry.total_us.map(|us| format!("took {:.2} ms", ms(us))));
    parts.extend(entry.why.clone());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_in_a_line_that_a_terminal_does_not_obey() {
        let mut entry = EventEntry::now(What::Given).because("so\u{1b}[2J");
        entry.at_us = 1_793_494_200_000_001;
        entry.client = Some("198.51.100.7:50123".parse().expect("an address"));
        (entry.from, entry.to) = (Some("n1".to_owned()), Some("n2".to_owned()));
        (entry.freeze_us, entry.total_us) = (Some(1_300), Some(2_400));
        assert_eq!(
            words(&entry),
            "2026-11-01 00:50:00.000001  given      198.51.100.7:50123  n1 to n2  stood still 1.30 ms  took 2.40 ms  so?[2J"
        );
    }
}
