//! Writes into an activity file. All its blocks are taken from the disk when it is made, so that a disk that fills up
//! later loses nothing; servers that follow each other write into one file, and add to what the other has written.

use super::format::{ActivityError, Figures, Geometry, HEAD_BYTES, Mark, MarkKind, RECORD_BYTES, Slot, Span};
use super::reading::Activity;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use thiserror::Error;

/// Why a server cannot keep its activity in a file.
#[derive(Debug, Error)]
pub enum ActivityOpenError {
    /// The disk has too little room for it.
    #[error("the disk has no room for its {bytes} bytes; make room, or name a file on another disk")]
    NoRoom {
        /// Bytes that it needs.
        bytes: u64,
    },
    /// The system's refusal.
    #[error("{0}; name a file in a directory that the server may write to")]
    System(io::Error),
    /// It is another file.
    #[error(transparent)]
    Form(ActivityError),
}

/// An open activity file.
#[derive(Debug)]
pub(crate) struct ActivityFile {
    file: File,
    geometry: Geometry,
}

/// Holds the file's lock, against other processes.
struct Locked<'f>(&'f File);

impl ActivityFile {
    /// Opens a file, or makes one of this geometry where there is none or an empty one.
    ///
    /// # Errors
    ///
    /// [`ActivityOpenError`]; a file that could not be made whole is left empty.
    pub(crate) fn open(path: &Path, geometry: Geometry) -> Result<Self, ActivityOpenError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o640);
        let mut file = options.open(path).map_err(ActivityOpenError::System)?;
        let metadata = file.metadata().map_err(ActivityOpenError::System)?;
        if !metadata.is_file() {
            return Err(ActivityOpenError::Form(ActivityError::NotActivity));
        }
        let mut head = Vec::new();
        Read::take(&mut file, HEAD_BYTES as u64).read_to_end(&mut head).map_err(ActivityOpenError::System)?;
        // One that is zeros was begun and not finished: its head is written last.
        if head.iter().all(|&byte| byte == 0) {
            let made = make(&file, geometry);
            if made.is_err() {
                // What is left would be an unfinished file; a new start begins anew either way.
                let _ = file.set_len(0);
            }
            return made.map(|()| Self { file, geometry });
        }
        let geometry = Geometry::read(&head).map_err(ActivityOpenError::Form)?;
        let (found, expected) = (metadata.len(), geometry.file_bytes());
        if found < expected {
            return Err(ActivityOpenError::Form(ActivityError::Short { found, expected }));
        }
        Ok(Self { file, geometry })
    }

    /// The open file, to be given to another user.
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// Adds to the figures of a span.
    ///
    /// # Errors
    ///
    /// The system's; `WouldBlock` while another process writes. Nothing was added then.
    pub(crate) fn add(&mut self, span: Span, figures: &Figures) -> io::Result<()> {
        let place = self.geometry.place_of(span, figures.begin_unix_s);
        let _locked = Locked::of(&self.file)?;
        let mut sum = Figures { begin_unix_s: span.begin(figures.begin_unix_s), ..Figures::default() };
        if let Slot::Figures(before) = Slot::read(&self.record_at(place)?)
            && before.begin_unix_s == sum.begin_unix_s
        {
            sum = before;
        }
        sum.add(figures);
        self.write_at(place, &sum.record())
    }

    /// Writes a mark behind the last one.
    ///
    /// # Errors
    ///
    /// As for [`Self::add`].
    pub(crate) fn mark(&mut self, kind: MarkKind, unix_ms: u64, words: &str) -> io::Result<()> {
        let _locked = Locked::of(&self.file)?;
        let number = self.marks()?.last().map_or(1, |last| last.number.saturating_add(1));
        // What comes from outside is shown in terminals.
        let words: String = words.chars().filter(|character| !character.is_control()).collect();
        let mark = Mark { number, unix_ms, kind, words };
        self.write_at(self.geometry.place_of_mark(number), &mark.record())
    }

    /// All marks, the oldest first.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn marks(&self) -> io::Result<Vec<Mark>> {
        let mut bytes = vec![0; self.geometry.marks as usize * RECORD_BYTES];
        self.file.read_exact_at(&mut bytes, self.geometry.place_of_mark(0))?;
        let slots = bytes.as_chunks::<RECORD_BYTES>().0.iter().map(Slot::read);
        let mut marks: Vec<Mark> =
            slots.filter_map(|slot| if let Slot::Mark(mark) = slot { Some(mark) } else { None }).collect();
        marks.sort_unstable_by_key(|mark| mark.number);
        Ok(marks)
    }

    /// What a reader of the file would see of the time from this moment on, and all marks.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn since(&self, span: Span, from_unix_s: u64, to_unix_s: u64) -> io::Result<Activity> {
        let slots = match span {
            Span::Minute => self.geometry.minutes,
            Span::Hour => self.geometry.hours,
        };
        let first = from_unix_s / span.seconds();
        let wanted = (to_unix_s / span.seconds() + 1).saturating_sub(first).min(u64::from(slots));
        let mut activity = Activity { marks: self.marks()?, ..Activity::default() };
        let mut found = Vec::new();
        let (mut at, end) = (first, first + wanted);
        while at < end {
            // As far as the ring goes on.
            let count = (end - at).min(u64::from(slots) - at % u64::from(slots));
            let mut bytes = vec![0; count as usize * RECORD_BYTES];
            self.file.read_exact_at(&mut bytes, self.geometry.place_of(span, at * span.seconds()))?;
            for (number, record) in bytes.as_chunks::<RECORD_BYTES>().0.iter().enumerate() {
                match Slot::read(record) {
                    Slot::Empty => {}
                    // One of a former round of the ring is out of date.
                    Slot::Figures(figures) if figures.begin_unix_s != (at + number as u64) * span.seconds() => {}
                    Slot::Figures(figures) => found.push(figures),
                    Slot::Mark(_) | Slot::Torn => activity.torn += 1,
                }
            }
            at += count;
        }
        *(if span == Span::Minute { &mut activity.minutes } else { &mut activity.hours }) = found;
        Ok(activity)
    }

    fn record_at(&self, place: u64) -> io::Result<[u8; RECORD_BYTES]> {
        let mut record = [0; RECORD_BYTES];
        self.file.read_exact_at(&mut record, place)?;
        Ok(record)
    }

    /// By the file's own position, as the filter of a confined server has no call that names another one.
    fn write_at(&self, place: u64, record: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place))?;
        file.write_all(record)
    }
}

/// Takes all blocks from the disk, then writes the head.
fn make(file: &File, geometry: Geometry) -> Result<(), ActivityOpenError> {
    let bytes = geometry.file_bytes();
    // SAFETY: the descriptor is open, and the call takes no pointers.
    let refused = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, libc::off_t::try_from(bytes).unwrap_or(0)) };
    match refused {
        0 => {}
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => return Err(ActivityOpenError::NoRoom { bytes }),
        number => return Err(ActivityOpenError::System(io::Error::from_raw_os_error(number))),
    }
    let written = file.write_all_at(&geometry.head(), 0).and_then(|()| file.sync_all());
    written.map_err(ActivityOpenError::System)
}

impl<'f> Locked<'f> {
    /// A lock of this open file (fcntl(2)), not of the process: it ends with it, also by kill -9.
    fn of(file: &'f File) -> io::Result<Self> {
        lock(file, libc::F_WRLCK).map(|()| Self(file))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // To give up a lock that is held is refused by no system.
        let _ = lock(self.0, libc::F_UNLCK);
    }
}

fn lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of this plain structure: the whole file, from its beginning.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // The kinds are small numbers.
    lock.l_type = kind as libc::c_short;
    // SAFETY: the descriptor is open, and the structure lives over the call.
    crate::io::epoll::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SMALL: Geometry = Geometry { minutes: 10, hours: 4, marks: 3 };

    fn figures(minute: u64, requests: u64) -> Figures {
        Figures { begin_unix_s: minute * 60, requests, up_s: 1, p99_us: requests as u32, ..Figures::default() }
    }

    proptest! {
        // Each makes a file and waits for the disk.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_two_servers_add_is_read_again(adds in proptest::collection::vec((0_u64..30, 0_u64..1000, any::<bool>()), 0..60)) {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join("act");
            let mut servers = [(); 2].map(|()| ActivityFile::open(&path, SMALL).expect("opens"));
            let (mut minutes, mut now) = (BTreeMap::new(), 1000);
            for (later, requests, by_second) in adds {
                // Most come in order, as the clock does.
                now += later / 20;
                servers[usize::from(by_second)].add(Span::Minute, &figures(now, requests)).expect("adds");
                *minutes.entry(now).or_insert(0) += requests;
            }
            let wanted: Vec<(u64, u64)> =
                minutes.iter().filter(|(minute, _)| !minutes.range(*minute + 1..).any(|(later, _)| later % 10 == *minute % 10))
                .map(|(minute, requests)| (minute * 60, *requests)).collect();
            let read = Activity::read(&path).expect("a file");
            let found: Vec<_> = read.minutes.iter().map(|figures| (figures.begin_unix_s, figures.requests)).collect();
            prop_assert_eq!(&found, &wanted);
            let since = servers[0].since(Span::Minute, now.saturating_sub(9) * 60, now * 60).expect("reads");
            let recent: Vec<_> = wanted.into_iter().filter(|(begin, _)| *begin >= now.saturating_sub(9) * 60).collect();
            let found: Vec<_> = since.minutes.iter().map(|figures| (figures.begin_unix_s, figures.requests)).collect();
            prop_assert_eq!(found, recent);
        }

        #[test]
        fn a_torn_byte_takes_one_record_at_most(at in 0_usize..17 * 128, bit in 0_u32..8) {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join("act");
            let mut file = ActivityFile::open(&path, SMALL).expect("opens");
            (1000..1010).for_each(|minute| file.add(Span::Minute, &figures(minute, 7)).expect("adds"));
            (0..4).for_each(|hour| file.add(Span::Hour, &figures(hour * 60, 7)).expect("adds"));
            (0..3).for_each(|number| file.mark(MarkKind::Start, number, "process 1").expect("marks"));
            let mut bytes = std::fs::read(&path).expect("reads");
            bytes[HEAD_BYTES + at] ^= 1 << bit;
            let read = Activity::parse(&bytes).expect("its head is right");
            prop_assert_eq!((read.minutes.len() + read.hours.len() + read.marks.len(), read.torn), (16, 1));
        }
    }

    #[test]
    fn marks_go_round_and_control_no_terminal() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("act");
        let mut file = ActivityFile::open(&path, SMALL).expect("opens");
        let long = "\u{e9}".repeat(100);
        for words in ["one", "two", "three\u{1b}[2J", &long] {
            file.mark(MarkKind::Deploy, 5, words).expect("marks");
        }
        let read = Activity::read(&path).expect("a file");
        let words: Vec<&str> = read.marks.iter().map(|mark| mark.words.as_str()).collect();
        assert_eq!(words, ["two", "three[2J", &long[..96]]);
        assert_eq!(read.marks[0].number, 2);
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("act");
        std::fs::write(&path, "a text").expect("writes");
        let refused = ActivityFile::open(&path, SMALL);
        assert!(matches!(refused, Err(ActivityOpenError::Form(ActivityError::NotActivity))), "{refused:?}");
        let mut head = SMALL.head();
        head[8] = 9;
        std::fs::write(&path, head).expect("writes");
        let refused = ActivityFile::open(&path, SMALL);
        assert!(matches!(refused, Err(ActivityOpenError::Form(ActivityError::Version { found: 9 }))), "{refused:?}");
        std::fs::write(&path, SMALL.head()).expect("writes");
        let refused = ActivityFile::open(&path, SMALL);
        assert!(matches!(refused, Err(ActivityOpenError::Form(ActivityError::Short { .. }))), "{refused:?}");
        // One that was begun and not finished is made anew.
        std::fs::write(&path, vec![0; 5000]).expect("writes");
        assert!(ActivityFile::open(&path, SMALL).is_ok());
    }
}
