//! What a killed agent leaves to the next: figures that are not kept yet, and how far the rings were read for them.
//!
//! A file for each batch, a line for each pass or for some. A line is written before the clients are told that their records were
//! read; so the next agent knows of each record whether it is in the figures, and counts none twice and none not.

use crate::agent_state::MOST_EXEMPLARS;
use crate::keeper::{Batch, Fold};
use crate::memory::Memory;
use crate::protocol::Counts;
use crate::transaction::Transaction;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Bytes of a file at which its batch is closed.
pub const MOST_BYTES: u64 = 16 << 20;
/// Files that are read back; older ones are given up.
pub const MOST_FILES: usize = 360;
/// The longest line that is read back.
const MOST_LINE_BYTES: u64 = 64 << 20;
const PREFIX: &str = "journal-";

/// How far a lane was read, and what of its losses was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub struct Position {
    /// The memory file's number.
    pub inode: u64,
    /// The process's random number.
    pub token: u64,
    /// The lane, or [`Position::HEAD`].
    pub lane: u32,
    /// Slots.
    pub read: u64,
    /// Dropped records that were counted; of the head, records without a lane.
    pub dropped: u64,
    /// Skipped transactions that were counted; of the head, dropped definitions.
    pub skipped: u64,
}

impl Position {
    /// Stands for the head, in the place of a lane.
    pub const HEAD: u32 = u32::MAX;

    /// Whether it is of this memory.
    #[must_use]
    pub fn is_of(&self, memory: &Memory) -> bool {
        (self.inode, self.token) == (memory.inode, memory.token.0)
    }
}

impl From<[u64; 6]> for Position {
    fn from([inode, token, lane, read, dropped, skipped]: [u64; 6]) -> Self {
        Self { inode, token, lane: lane as u32, read, dropped, skipped }
    }
}

impl From<Position> for [u64; 6] {
    fn from(position: Position) -> Self {
        let Position { inode, token, lane, read, dropped, skipped } = position;
        [inode, token, u64::from(lane), read, dropped, skipped]
    }
}

/// What some passes have brought.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Figures.
    pub folds: Vec<Fold>,
    /// Whole transactions.
    pub exemplars: Vec<Transaction>,
    /// What came.
    pub counts: Counts,
    /// How far lanes were read.
    pub positions: Vec<Position>,
}

/// The journal of the running batch.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: Option<File>,
    bytes: u64,
    buffer: Vec<u8>,
}

/// What a former agent left.
#[derive(Debug, Default)]
pub struct Left {
    /// Batches that are not kept, by number.
    pub batches: Vec<Batch>,
    /// How far lanes were read.
    pub positions: Vec<Position>,
    /// Batches that were given up, as there are too many.
    pub given_up: u64,
}

impl Journal {
    /// Reads what a former agent left in a folder; files of batches up to `kept` are removed.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(folder: &Path, kept: u64) -> io::Result<(Self, Left)> {
        fs::create_dir_all(folder)?;
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(folder)?.flatten() {
            numbers.extend(entry.file_name().to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        let mut left = Left::default();
        let surplus = numbers.iter().filter(|number| **number > kept).count().saturating_sub(MOST_FILES);
        for number in numbers {
            let path = path_of(folder, number);
            if number <= kept || left.given_up < surplus as u64 {
                left.given_up += u64::from(number > kept);
                let _ = fs::remove_file(path);
                continue;
            }
            let (batch, positions) = read(&path, number)?;
            left.positions = positions.unwrap_or(left.positions);
            left.batches.push(batch);
        }
        Ok((Self { folder: folder.to_owned(), file: None, bytes: 0, buffer: Vec::new() }, left))
    }

    /// Begins the file of a batch.
    ///
    /// # Errors
    /// When it cannot be made; what is written until the next batch goes nowhere.
    pub fn begin(&mut self, number: u64) -> io::Result<()> {
        self.bytes = 0;
        self.file = None;
        let opened = fs::OpenOptions::new().append(true).create(true).open(path_of(&self.folder, number))?;
        self.file = Some(opened);
        Ok(())
    }

    /// Writes what some passes have brought.
    ///
    /// # Errors
    /// When it cannot be written whole, as on a full disk: what was written of it is no line.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.buffer.clear();
        // A line that was cut off before it must not take this one with it.
        self.buffer.push(b'\n');
        serde_json::to_writer(&mut self.buffer, line)?;
        self.buffer.push(b'\n');
        file.write_all(&self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    /// Bytes of the running batch's file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Removes the file of a batch that is kept, or given up.
pub fn remove(folder: &Path, number: u64) {
    let _ = fs::remove_file(path_of(folder, number));
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number:020}"))
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    (digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// The sum of a file's lines, and the positions of the last that has any; what is not whole is left out.
fn read(path: &Path, number: u64) -> io::Result<(Batch, Option<Vec<Position>>)> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut batch = Batch { number, ..Batch::default() };
    let mut folds: HashMap<(u64, String, String, Option<String>), Fold> = HashMap::new();
    let mut positions = None;
    let mut text = Vec::new();
    loop {
        text.clear();
        if io::Read::take(&mut reader, MOST_LINE_BYTES).read_until(b'\n', &mut text)? == 0 {
            break;
        }
        let Some(whole) = text.strip_suffix(b"\n") else { break };
        let Ok(line) = serde_json::from_slice::<Line>(whole) else { continue };
        for fold in line.folds {
            let key = (fold.minute, fold.application.clone(), fold.transaction.clone(), fold.user.clone());
            match folds.entry(key) {
                std::collections::hash_map::Entry::Occupied(mut sum) => sum.get_mut().add(&fold),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(fold);
                }
            }
        }
        let room = MOST_EXEMPLARS.saturating_sub(batch.exemplars.len());
        batch.exemplars.extend(line.exemplars.into_iter().take(room));
        batch.counts.add(&line.counts);
        positions = Some(line.positions);
    }
    batch.folds = folds.into_values().collect();
    Ok((batch, positions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Status;

    fn line(minute: u64, durations: &[u64], read: u64) -> Line {
        let mut fold = Fold { minute, application: "shop".into(), transaction: "buy".into(), ..Fold::default() };
        for duration in durations {
            fold.durations.push(*duration);
            fold.outcomes.add(Status::Good, 1);
        }
        let position = Position { inode: 1, token: u64::MAX, lane: 3, read, dropped: 4, skipped: 5 };
        let counts = Counts { finished: durations.len() as u64, ..Counts::default() };
        Line { folds: vec![fold], exemplars: Vec::new(), counts, positions: vec![position] }
    }

    #[test]
    fn the_next_agent_has_the_sum_of_all_whole_lines_and_the_last_positions() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut journal, left) = Journal::open(folder.path(), 0).expect("opened");
        assert!(left.batches.is_empty());
        for number in 1..=2 {
            journal.begin(number).expect("begun");
            journal.write(&line(7, &[100, 200], number)).expect("written");
            journal.write(&line(7, &[300], number + 10)).expect("written");
        }
        // What a full disk leaves of a line, and one that comes after it.
        let path = path_of(folder.path(), 2);
        fs::OpenOptions::new().append(true).open(&path).expect("there").write_all(b"\n{\"folds\":[").expect("written");
        journal.write(&line(8, &[1], 50)).expect("written");
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("there")
            .write_all(b"\n{\"counts\":{}")
            .expect("written");

        let (_, left) = Journal::open(folder.path(), 1).expect("opened");
        assert!(!path_of(folder.path(), 1).exists(), "it is kept elsewhere");
        assert_eq!((left.batches.len(), left.batches[0].number, left.positions[0].read), (1, 2, 50));
        let batch = &left.batches[0];
        let mut minutes: Vec<_> = batch.folds.iter().map(|fold| (fold.minute, fold.outcomes.good)).collect();
        minutes.sort_unstable();
        assert_eq!((minutes, batch.counts.finished), (vec![(7, 3), (8, 1)], 4));
        assert_eq!((left.positions[0].token, left.positions[0].lane), (u64::MAX, 3));
    }

    #[test]
    fn no_file_breaks_the_reader() {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, text) in ["", "\n\n", "{}\n{}\n", "{\"positions\":[[1,2]]}\n", "\0\u{1}\n[]\n"].iter().enumerate()
        {
            fs::write(path_of(folder.path(), number as u64 + 1), text).expect("written");
        }
        fs::write(folder.path().join("journal-x"), "").expect("written");
        let (_, left) = Journal::open(folder.path(), 0).expect("opened");
        assert_eq!(left.batches.len(), 5);
        assert!(left.batches.iter().all(|batch| batch.folds.is_empty()));
    }
}
