//! The runs of a recording that goes on for ever: a directory for each hour, and how long they are kept.

use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_trace::Run;

/// A run that this command made, and may remove, holds a file of this name.
const MARK: &str = "made-by-weir-record-always";
/// What MARK holds, for a user who looks into the directory.
const MARK_TEXT: &str = "`weir record --always` made this run and removes it when its time is over (--keep); without this file it is kept.\n";

/// The directory of runs.
#[derive(Debug)]
pub(super) struct Shelf {
    directory: PathBuf,
    keep: Duration,
    most_bytes: u64,
}

/// A run on it.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// When something was last written to it.
    last: SystemTime,
    bytes: u64,
}

impl Shelf {
    pub(super) fn open(directory: &Path, keep: Duration, most_bytes: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), keep, most_bytes })
    }

    /// Where the runs are.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A new run, named by the time (UTC), with its mark.
    pub(super) fn next(&self, now: SystemTime) -> anyhow::Result<Run> {
        let stem = stamp(now);
        // A restart within a second finds the name taken.
        let paths = (1..1000).map(|number| match number {
            1 => self.directory.join(&stem),
            _ => self.directory.join(format!("{stem}-{number}")),
        });
        let path = paths.into_iter().find(|path| !path.exists()).context("too many runs of one second")?;
        let run = Run::create(&path)?;
        fs::write(path.join(MARK), MARK_TEXT).with_context(|| format!("cannot write to {}", path.display()))?;
        Ok(run)
    }

    /// Bytes that our runs got within the last hour, at most.
    pub(super) fn bytes_of_last_hour(&self, now: SystemTime) -> u64 {
        let recent = |kept: &Kept| now.duration_since(kept.last).is_ok_and(|age| age < Duration::from_secs(3_600));
        self.own().iter().filter(|kept| recent(kept)).map(|kept| kept.bytes).sum()
    }

    /// Removes what is older than is to be kept, and the oldest beyond the bound on all together; never the `present`
    /// one, and nothing that this command did not make. Returns what could not be removed.
    pub(super) fn tidy(&self, now: SystemTime, present: Option<&Path>) -> Vec<String> {
        let mut runs = self.own();
        runs.sort_by_key(|kept| kept.last);
        let mut sum: u64 = runs.iter().map(|kept| kept.bytes).sum();
        let mut failed = Vec::new();
        for kept in runs.iter().filter(|kept| Some(kept.path.as_path()) != present) {
            let old = now.duration_since(kept.last).is_ok_and(|age| age > self.keep);
            if !old && sum <= self.most_bytes {
                continue;
            }
            match fs::remove_dir_all(&kept.path) {
                Ok(()) => sum = sum.saturating_sub(kept.bytes),
                Err(error) => failed.push(format!("{} cannot be removed: {error}", kept.path.display())),
            }
        }
        failed
    }

    /// Our own runs: those with the mark.
    fn own(&self) -> Vec<Kept> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let runs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        runs.map(|entry| entry.path()).filter(|path| path.join(MARK).is_file()).map(Kept::of).collect()
    }
}

impl Kept {
    fn of(path: PathBuf) -> Self {
        let (mut bytes, mut last) = (0, UNIX_EPOCH);
        let files = [path.join("segments"), path.clone()];
        for file in files.iter().flat_map(fs::read_dir).flatten().flatten() {
            if let Ok(metadata) = file.metadata()
                && metadata.is_file()
            {
                bytes += metadata.len();
                last = last.max(metadata.modified().unwrap_or(UNIX_EPOCH));
            }
        }
        Self { path, last, bytes }
    }
}

/// A time as `20261121T110500Z`.
fn stamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar, whose years begin in March here (Hinnant, "chrono-compatible low-level
    // date algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        let at = |seconds| stamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        assert_eq!(at(951_782_400), "20000229T000000Z");
        assert_eq!(at(1_795_258_799), "20261121T105959Z");
        assert_eq!(at(4_107_542_399), "21000228T235959Z");
    }

    #[test]
    fn only_what_is_old_and_our_own_is_removed() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let hour = Duration::from_secs(3_600);
        let shelf = Shelf::open(folder.path(), 2 * hour, 1 << 30).expect("it opens");
        let now = SystemTime::now();
        let own = shelf.next(now).expect("a run").directory().to_owned();
        let other = shelf.next(now).expect("a run of the same second").directory().to_owned();
        assert_ne!(own, other);
        // A run that its user wants to keep, and a directory that this command did not make.
        fs::remove_file(other.join(MARK)).expect("the mark is removed");
        fs::create_dir(folder.path().join("20200101T000000Z")).expect("a directory");
        assert_eq!(shelf.tidy(now + hour, None), Vec::<String>::new());
        assert!(own.exists());
        assert_eq!(shelf.tidy(now + 3 * hour, Some(&own)), Vec::<String>::new());
        assert!(own.exists(), "what is being written stays");
        assert_eq!(shelf.tidy(now + 3 * hour, None), Vec::<String>::new());
        assert!(!own.exists() && other.exists() && folder.path().join("20200101T000000Z").exists());
    }

    #[test]
    fn beyond_the_bound_the_oldest_goes_first() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let shelf = Shelf::open(folder.path(), Duration::from_secs(86_400), 2_500).expect("it opens");
        let now = SystemTime::now();
        let runs: Vec<PathBuf> = (0..4)
            .map(|number: u64| {
                let run = shelf.next(now + Duration::from_secs(number)).expect("a run").directory().to_owned();
                fs::write(run.join("segments/kernel-1-0.000001.seg"), [0u8; 1_000]).expect("a segment");
                for file in [run.join(MARK), run.join("segments/kernel-1-0.000001.seg")] {
                    let file = fs::File::options().write(true).open(file).expect("a file");
                    file.set_modified(now - Duration::from_secs(100 - number)).expect("its time");
                }
                run
            })
            .collect();
        assert!(shelf.bytes_of_last_hour(now) >= 4_000);
        assert_eq!(shelf.tidy(now, Some(&runs[3])), Vec::<String>::new());
        assert_eq!(runs.iter().map(|run| run.exists()).collect::<Vec<_>>(), [false, false, true, true]);
    }
}
