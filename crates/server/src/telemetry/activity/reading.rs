//! Takes an activity file apart, whether a server writes into it meanwhile or not.

use super::format::{ActivityError, Figures, Geometry, HEAD_BYTES, Mark, RECORD_BYTES, Slot, Span};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bytes of a file at most: three rings with as many slots as a head may say.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// What an activity file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// The oldest first; minutes without a server have none.
    pub minutes: Vec<Figures>,
    /// The same by hours, of a longer time.
    pub hours: Vec<Figures>,
    /// The oldest first.
    pub marks: Vec<Mark>,
    /// Records that were torn, as by a machine that went down.
    pub torn: u64,
}

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum ActivityFileError {
    /// The system's refusal.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is none of activity.
    #[error("{path}: {source}", path = path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ActivityError,
    },
}

impl Activity {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ActivityFileError`].
    pub fn read(path: &Path) -> Result<Self, ActivityFileError> {
        let failed = |source| ActivityFileError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)).map_err(failed)?;
        Self::parse(&bytes).map_err(|source| ActivityFileError::Form { path: path.to_owned(), source })
    }

    /// Takes the bytes of a file apart.
    ///
    /// # Errors
    ///
    /// [`ActivityError`]: its head is none, or it was cut. Records that were torn are counted.
    pub fn parse(bytes: &[u8]) -> Result<Self, ActivityError> {
        let geometry = Geometry::read(bytes)?;
        let (found, expected) = (bytes.len() as u64, geometry.file_bytes());
        if found < expected {
            return Err(ActivityError::Short { found, expected });
        }
        let mut activity = Self::default();
        let records = bytes[HEAD_BYTES..].as_chunks::<RECORD_BYTES>().0;
        let (minutes, rest) = records.split_at(geometry.minutes as usize);
        let (hours, rest) = rest.split_at(geometry.hours as usize);
        for (span, records) in [(Span::Minute, minutes), (Span::Hour, hours)] {
            for (slot, record) in records.iter().enumerate() {
                activity.take(span, slot, records.len(), &Slot::read(record));
            }
        }
        for (slot, record) in rest[..geometry.marks as usize].iter().enumerate() {
            match Slot::read(record) {
                Slot::Empty => {}
                Slot::Mark(mark) if mark.number % u64::from(geometry.marks) == slot as u64 => activity.marks.push(mark),
                Slot::Mark(_) | Slot::Figures(_) | Slot::Torn => activity.torn += 1,
            }
        }
        activity.minutes.sort_unstable_by_key(|figures| figures.begin_unix_s);
        activity.hours.sort_unstable_by_key(|figures| figures.begin_unix_s);
        activity.marks.sort_unstable_by_key(|mark| mark.number);
        Ok(activity)
    }

    fn take(&mut self, span: Span, slot: usize, slots: usize, found: &Slot) {
        match *found {
            Slot::Empty => {}
            // One that stands elsewhere than it belongs would be shown twice.
            Slot::Figures(figures)
                if figures.begin_unix_s.is_multiple_of(span.seconds())
                    && figures.begin_unix_s / span.seconds() % slots as u64 == slot as u64 =>
            {
                match span {
                    Span::Minute => self.minutes.push(figures),
                    Span::Hour => self.hours.push(figures),
                }
            }
            Slot::Figures(_) | Slot::Mark(_) | Slot::Torn => self.torn += 1,
        }
    }
}
