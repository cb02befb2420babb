//! A run that was made elsewhere, put into another of the same host.

use crate::error::TakeInError;
use crate::run::{Run, RunReader};
use std::fs;
use std::path::Path;

impl Run {
    /// Moves the segments of another run of the same host here and notes what its sources noted; the other directory is
    /// no run after that. Both lie on one file system.
    ///
    /// # Errors
    /// [`TakeInError`]; segments that were moved before stay.
    pub fn take_in(&self, other: &Path) -> Result<(), TakeInError> {
        let reader = RunReader::open(other)?;
        for segment in reader.streams().iter().flatten() {
            let Some(name) = segment.file_name() else { continue };
            let place = self.segment_path(&name.to_string_lossy());
            if place.exists() {
                return Err(TakeInError::Taken { path: place });
            }
            fs::rename(segment, &place).map_err(|source| TakeInError::Move { path: place, source })?;
        }
        for entry in &reader.entries {
            self.note(entry)?;
        }
        self.summarise()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cost, Limits, Source};
    use weir_wire::{Kind, Record};

    fn written(directory: &Path, lane: u32, times: std::ops::Range<u64>) -> Run {
        let run = Run::create(directory).expect("a new directory");
        run.begin(Source::Client, "1", Vec::new(), None, None).expect("noted");
        let mut stream = run.stream(Source::Client, lane, Limits::default());
        for time_ns in times {
            let record = Record { time_ns, kind: Kind::ClientDropped as u16, a: 1, ..Record::default() };
            stream.push(record, &[], None).expect("written");
        }
        stream.finish().expect("written");
        run.end(Source::Client, Cost { events: 3, ..Cost::default() }, Vec::new()).expect("noted");
        run
    }

    #[test]
    fn two_runs_become_one_and_nothing_is_written_over() {
        let folder = tempfile::tempdir().expect("a directory");
        let [one, other, again] = ["one", "other", "again"].map(|name| folder.path().join(name));
        let run = written(&one, 0, 10..13);
        written(&other, 1, 11..14);
        run.take_in(&other).expect("one run");
        let reader = RunReader::open(&one).expect("a run");
        let mut times = Vec::new();
        reader.merge().each(|sourced| {
            times.push(sourced.record.time_ns);
            true
        });
        assert_eq!(times, [10, 11, 11, 12, 12, 13]);
        assert_eq!(reader.cost(Source::Client).events, 6);
        written(&again, 0, 20..21);
        let refused = run.take_in(&again).expect_err("its lane is there");
        assert!(refused.to_string().contains("is there already"), "{refused}");
        assert!(run.take_in(&folder.path().join("none")).is_err());
    }
}
