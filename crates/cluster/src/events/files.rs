//! Reads events files: those of a cluster's directory, the oldest first.

use super::entry::{EventEntry, EventHeader, EventLine};
use std::path::{Path, PathBuf};

/// The newest file in a cluster's directory; earlier ones have `.1` and so on behind it.
pub const EVENTS_FILE: &str = "events.jsonl";
/// Earlier files that are looked for.
const EARLIER_MAX: u32 = 16;

/// The events of one start of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPart {
    /// Who wrote them; `None` where the file's beginning is missing.
    pub header: Option<EventHeader>,
    /// In the order in which they were written.
    pub entries: Vec<EventEntry>,
}

/// What a file has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventParts {
    /// One for each start.
    pub parts: Vec<EventPart>,
    /// Lines that are no events; a last line without its end is none of them.
    pub unreadable: u64,
    /// The first of these, and why.
    pub first_unreadable: Option<(usize, String)>,
}

/// Reads the text of a file. What cannot be read is passed over and counted.
pub fn read_events(text: &str) -> EventParts {
    let mut read = EventParts::default();
    for (number, line) in whole_lines(text).lines().enumerate() {
        match EventLine::parse(line) {
            Ok(EventLine::Header(header)) => {
                read.parts.push(EventPart { header: Some(header), entries: Vec::new() });
            }
            Ok(EventLine::Entry(entry)) => match read.parts.last_mut() {
                Some(part) => part.entries.push(*entry),
                None => read.parts.push(EventPart { header: None, entries: vec![*entry] }),
            },
            Err(error) => {
                read.unreadable += 1;
                read.first_unreadable.get_or_insert_with(|| (number + 1, error.to_string()));
            }
        }
    }
    read
}

/// A text up to the end of its last whole line: a member may be writing the next one.
pub fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// The events files of a cluster's directory that are there, the oldest first.
pub fn event_files(folder: &Path) -> Vec<PathBuf> {
    let newest = folder.join(EVENTS_FILE);
    let earlier = (1..=EARLIER_MAX).rev().map(|number| numbered(folder, number));
    earlier.chain([newest]).filter(|path| path.is_file()).collect()
}

/// The file before the newest, or one before that.
pub(super) fn numbered(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{EVENTS_FILE}.{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::entry::What;

    #[test]
    fn lines_that_are_none_are_counted_and_a_cut_one_is_not() {
        let header = EventHeader::new("n1", "boot").line();
        let entry = EventEntry::now(What::Started);
        let text = format!("{}{header}{}damage\n{header}{}", entry.line(), entry.line(), &entry.line()[..20]);
        let read = read_events(&text);
        assert_eq!(read.parts.len(), 3);
        assert!(read.parts[0].header.is_none() && read.parts[1].entries == [entry]);
        assert!(read.unreadable == 1 && read.first_unreadable.is_some_and(|(line, _)| line == 4));
        assert_eq!(read_events("").parts, []);
    }
}
