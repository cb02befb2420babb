//! What a member did and saw lately, for the console: the newest events of its files, what moved, and what of that a map
//! can show as it goes from node to node.

use super::events::{json_of, parts};
use super::members::MembersFile;
use super::overview::reached_members;
use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_cluster::{EventEntry, What, event_files, read_events};

/// Bytes at the end of the files that are looked at: some thousand events.
const LOOKED_AT_BYTES: u64 = 1 << 20;
/// Bytes of a file in which its header is looked for.
const HEADER_BYTES: u64 = 4 << 10;
/// Characters of a name that is refused.
const NAME_CHARS: usize = 40;
/// What is added up is of this time.
const LATELY: Duration = Duration::from_secs(600);

/// The newest events of a member, the oldest first.
#[derive(Debug, Default)]
struct Lately {
    /// The member that wrote them.
    by: Option<String>,
    entries: Vec<EventEntry>,
    /// There are earlier ones, which were not looked at.
    is_cut: bool,
    /// Lines that are no events.
    unreadable: u64,
}

/// Why nothing is told of what happened lately.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LatelyError {
    /// The list of members has no such name.
    #[error("there is no member {node:?}; the members are {members}")]
    NoMember {
        /// What was asked for.
        node: String,
        /// Those that there are.
        members: String,
    },
    /// The list of members, or a file, cannot be read.
    #[error("{0:#}")]
    Unreadable(#[from] anyhow::Error),
}

/// What goes from node to node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Flight {
    of: Flown,
    /// None where the event does not say it.
    from: Option<String>,
    to: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Flown {
    Session,
    Content,
}

/// The newest events of the members of these directories, at most so many, of one node if one is named; and which
/// sessions moved in the last ten minutes.
///
/// # Errors
/// [`LatelyError`].
pub(crate) fn events_lately(folders: &[PathBuf], node: Option<&str>, most: usize) -> Result<Value, LatelyError> {
    let mut all = Vec::new();
    let mut is_of_director = false;
    for folder in folders {
        let members = MembersFile::read(folder)?;
        refuse_unknown(node, &members)?;
        let lately = read(folder)?;
        let directors = [Some(&members.director), members.standby.as_ref()];
        let mut names = directors.into_iter().flatten().map(|director| director.member.name.as_str());
        is_of_director |= names.any(|name| lately.by.as_deref() == Some(name));
        all.push(lately);
    }
    let is_wanted = |by: Option<&str>, entry: &EventEntry| {
        entry.what != What::Clock && node.is_none_or(|node| concerns(entry, by, node))
    };
    let mut shown: Vec<(Option<&str>, &EventEntry)> = Vec::new();
    for lately in &all {
        let by = lately.by.as_deref();
        shown.extend(lately.entries.iter().filter(|entry| is_wanted(by, entry)).map(|entry| (by, entry)));
    }
    // The latest first; of one moment, what a member wrote last.
    shown.reverse();
    shown.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at_us));
    let event = |(by, entry): &(Option<&str>, &EventEntry)| -> anyhow::Result<Value> {
        let mut value = json_of(entry, *by)?;
        value["told"] = parts(entry).into();
        value["flight"] = serde_json::to_value(flight(entry, *by)).context("JSON")?;
        Ok(value)
    };
    let events: Vec<Value> = shown.iter().take(most).map(event).collect::<anyhow::Result<_>>()?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(LATELY);
    let since_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    let lately = shown.iter().map(|(_, entry)| *entry).filter(|entry| entry.at_us >= since_us);
    Ok(json!({
        "by": all.iter().filter_map(|lately| lately.by.as_deref()).collect::<Vec<_>>(),
        "is_of_director": is_of_director,
        "events": events,
        "matching": shown.len(),
        "is_cut": all.iter().any(|lately| lately.is_cut),
        "unreadable": all.iter().map(|lately| lately.unreadable).sum::<u64>(),
        "moved": moved(&lately.collect::<Vec<_>>()),
        "moved_within_s": LATELY.as_secs(),
    }))
}

fn refuse_unknown(node: Option<&str>, members: &MembersFile) -> Result<(), LatelyError> {
    let names: Vec<&str> = reached_members(members).map(|(_, reached)| reached.member.name.as_str()).collect();
    match node {
        Some(node) if !names.contains(&node) => {
            Err(LatelyError::NoMember { node: node.chars().take(NAME_CHARS).collect(), members: names.join(", ") })
        }
        _ => Ok(()),
    }
}

/// Whether an event is about a node; one that names none is about the member that wrote it.
fn concerns(entry: &EventEntry, by: Option<&str>, node: &str) -> bool {
    let named = [&entry.from, &entry.to, &entry.member];
    if named.iter().all(|name| name.is_none()) {
        return by == Some(node);
    }
    named.into_iter().flatten().any(|name| name == node)
}

/// What goes from node to node by an event, if something does.
fn flight(entry: &EventEntry, by: Option<&str>) -> Option<Flight> {
    match entry.what {
        What::Given | What::Taken | What::Confirmed | What::TakenOver => {
            Some(Flight { of: Flown::Session, from: entry.from.clone(), to: entry.to.clone()? })
        }
        What::Proxied => Some(Flight { of: Flown::Content, from: entry.member.clone(), to: by?.to_owned() }),
        What::Fetched => Some(Flight { of: Flown::Content, from: None, to: by?.to_owned() }),
        _ => None,
    }
}

/// Which sessions moved from where to where: the most first.
fn moved(entries: &[&EventEntry]) -> Vec<Value> {
    let mut ways: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for entry in entries {
        let is_move = matches!(flight(entry, None), Some(Flight { of: Flown::Session, .. }));
        let (true, Some(from), Some(to)) = (is_move, &entry.from, &entry.to) else { continue };
        // Each member that takes part tells of a move once; what was taken over has no number.
        let of = entry.move_id.clone().unwrap_or_else(|| format!("{:?} {}", entry.client, entry.at_us));
        ways.entry((from, to)).or_default().insert(of);
    }
    let mut ways: Vec<_> = ways.into_iter().map(|((from, to), moves)| (moves.len(), from, to)).collect();
    ways.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2))));
    ways.into_iter().map(|(sessions, from, to)| json!({ "from": from, "to": to, "sessions": sessions })).collect()
}

/// Reads the ends of the files, the newest first, until enough was looked at.
fn read(folder: &Path) -> anyhow::Result<Lately> {
    let mut lately = Lately::default();
    let mut left = LOOKED_AT_BYTES;
    for path in event_files(folder).into_iter().rev() {
        if left == 0 {
            lately.is_cut = true;
            break;
        }
        let (text, is_cut) = match end_of(&path, left) {
            // The member has begun another file meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.with_context(|| path.display().to_string())?,
        };
        let read = read_events(&text);
        let by = read.parts.iter().rev().find_map(|part| Some(part.header.as_ref()?.member.clone()));
        lately.by = lately.by.take().or(by);
        lately.unreadable += read.unreadable;
        let earlier: Vec<EventEntry> = read.parts.into_iter().flat_map(|part| part.entries).collect();
        lately.entries.splice(0..0, earlier);
        lately.is_cut |= is_cut;
        left = left.saturating_sub(text.len() as u64);
        if is_cut {
            break;
        }
    }
    Ok(lately)
}

/// The last lines of a file, at most so many bytes, with its first line before them if that is a header; and whether
/// there are others between.
fn end_of(path: &Path, most_bytes: u64) -> std::io::Result<(String, bool)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(most_bytes);
    let mut text = Vec::new();
    if from > 0 {
        (&file).take(HEADER_BYTES.min(from)).read_to_end(&mut text)?;
        let first = text.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(first);
        file.seek(SeekFrom::Start(from))?;
    }
    let mut end = Vec::new();
    file.take(most_bytes).read_to_end(&mut end)?;
    // A line whose beginning was left out is none.
    let begin = if from > 0 { end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |at| at + 1) } else { 0 };
    text.extend_from_slice(&end[begin..]);
    Ok((String::from_utf8_lossy(&text).into_owned(), from > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use weir_cluster::{EVENTS_FILE, EventHeader};

    fn a_move(what: What, number: u32, from: &str, to: &str) -> EventEntry {
        let mut entry = EventEntry::now(what);
        (entry.from, entry.to) = (Some(from.to_owned()), Some(to.to_owned()));
        entry.move_id = Some(format!("1.{number}"));
        entry
    }

    #[test]
    fn what_moved_is_added_up_and_each_move_counts_once() {
        let mut of_dead = a_move(What::TakenOver, 0, "n3", "n1");
        of_dead.move_id = None;
        let all = [
            a_move(What::Steered, 1, "n1", "n2"),
            a_move(What::Confirmed, 1, "n1", "n2"),
            a_move(What::Given, 1, "n1", "n2"),
            a_move(What::Confirmed, 2, "n1", "n2"),
            a_move(What::CameBack, 3, "n2", "n1"),
            of_dead,
        ];
        let ways = moved(&all.each_ref());
        let expected = [("n1", "n2", 2), ("n3", "n1", 1)]
            .map(|(from, to, sessions)| json!({ "from": from, "to": to, "sessions": sessions }));
        assert_eq!(ways, expected);
    }

    #[test]
    fn flights_are_of_sessions_and_of_contents() {
        let taken = flight(&a_move(What::Taken, 1, "n1", "n2"), Some("n2")).expect("a flight");
        assert_eq!((taken.of, taken.from.as_deref(), &*taken.to), (Flown::Session, Some("n1"), "n2"));
        let passed = flight(&EventEntry::now(What::Proxied).of("n3"), Some("n2")).expect("a flight");
        assert_eq!((passed.of, passed.from.as_deref(), &*passed.to), (Flown::Content, Some("n3"), "n2"));
        let came = flight(&EventEntry::now(What::Fetched), Some("n2")).expect("a flight");
        assert!(came.from.is_none() && flight(&EventEntry::now(What::Up).of("n1"), Some("n2")).is_none());
        assert!(concerns(&EventEntry::now(What::Fetched), Some("n2"), "n2"));
        assert!(!concerns(&EventEntry::now(What::Up).of("n1"), Some("n2"), "n2"));
    }

    #[test]
    fn the_ends_of_large_files_are_read_and_who_wrote_them_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let line = a_move(What::Confirmed, 1, "n1", "n2").because(&"x".repeat(300)).line();
        let many = (LOOKED_AT_BYTES as usize / line.len() + 10) as u64;
        let mut text = EventHeader::new("front", "boot").line();
        (0..many).for_each(|_| text.push_str(&line));
        fs::write(folder.path().join(EVENTS_FILE), &text).expect("writes");
        let lately = read(folder.path()).expect("is read");
        assert_eq!((lately.by.as_deref(), lately.is_cut, lately.unreadable), (Some("front"), true, 0));
        assert!((100..many as usize).contains(&lately.entries.len()), "{}", lately.entries.len());
        // A small new file, the large one before it, and a line that is none.
        fs::rename(folder.path().join(EVENTS_FILE), folder.path().join(format!("{EVENTS_FILE}.1"))).expect("renames");
        let newest = a_move(What::Confirmed, 2, "n2", "n1");
        let text = format!("{}damage\n{}", EventHeader::new("front", "boot").line(), newest.line());
        fs::write(folder.path().join(EVENTS_FILE), text).expect("writes");
        let lately = read(folder.path()).expect("is read");
        assert_eq!((lately.entries.last(), lately.unreadable), (Some(&newest), 1));
        assert!(lately.entries.len() > 100 && lately.is_cut);
        assert!(read(&folder.path().join("none")).expect("nothing to read").entries.is_empty());
    }
    proptest! {
        #[test]
        fn an_end_has_whole_lines_behind_the_first(lines in proptest::collection::vec("[a-z\u{e9}]{0,12}", 1..30), most in 0_u64..200) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("lines");
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&path, &text).expect("writes");
            let (end, is_cut) = end_of(&path, most).expect("is read");
            prop_assert_eq!(is_cut, text.len() as u64 > most);
            let behind = if is_cut { end.strip_prefix(&format!("{}\n", lines[0])).unwrap_or(&end) } else { &end };
            prop_assert!(text.ends_with(behind) && (end.is_empty() || end.ends_with('\n')), "{:?} of {:?}", end, text);
            prop_assert!(behind.is_empty() || text[..text.len() - behind.len()].is_empty() || text[..text.len() - behind.len()].ends_with('\n'));
        }
    }
}
