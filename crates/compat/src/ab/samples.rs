//! The times of every request: all of them up to a bound, histograms beyond it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use weir_load::Histogram;

/// Samples that are kept in memory (24 bytes each).
const KEPT_MAX: usize = 1_000_000;
/// What one sample takes in the file.
const SAMPLE_BYTES: usize = 24;

/// The times of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sample {
    /// From the begin of the run, in microseconds.
    pub(super) start_us: u64,
    pub(super) connect_us: u32,
    pub(super) total_us: u32,
    pub(super) wait_us: u32,
}

/// What ab's table has a row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Connect,
    Processing,
    Waiting,
    Total,
}

impl Measure {
    pub(super) const ALL: [Self; 4] = [Self::Connect, Self::Processing, Self::Waiting, Self::Total];

    /// Of a sample, in microseconds.
    pub(super) fn of(self, sample: &Sample) -> u32 {
        match self {
            Self::Connect => sample.connect_us,
            Self::Processing => sample.total_us.saturating_sub(sample.connect_us),
            Self::Waiting => sample.wait_us,
            Self::Total => sample.total_us,
        }
    }
}

/// What is known of a measure exactly, however many samples there are; microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Column {
    pub(super) count: u64,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) sum: u128,
    pub(super) squares: u128,
}

impl Column {
    fn add(&mut self, value: u32) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += u128::from(value) * u128::from(value);
    }
}

/// All samples of a run, in bounded memory.
#[derive(Debug)]
pub(super) struct Samples {
    bound: usize,
    kept: Vec<Sample>,
    columns: [Column; 4],
    /// From the bound on: what the kept samples no longer tell alone.
    spread: Option<[Histogram; 4]>,
    /// Where those that no longer have room go, if each is wanted; sorted runs of `bound` samples.
    file: Option<File>,
    each: bool,
    runs: u64,
    trouble: Option<io::Error>,
}

impl Samples {
    /// `each`: every sample is wanted in the end, not only their distribution.
    pub(super) fn new(each: bool) -> Self {
        Self::bounded(KEPT_MAX, each)
    }

    pub(super) fn bounded(bound: usize, each: bool) -> Self {
        Self {
            bound,
            kept: Vec::new(),
            columns: [Column::default(); 4],
            spread: None,
            file: None,
            each,
            runs: 0,
            trouble: None,
        }
    }

    pub(super) fn push(&mut self, sample: Sample) {
        for (column, measure) in self.columns.iter_mut().zip(Measure::ALL) {
            column.add(measure.of(&sample));
        }
        if self.kept.len() >= self.bound {
            self.make_room();
        }
        match &mut self.spread {
            Some(spread) => {
                record(spread, &sample);
                if self.each {
                    self.kept.push(sample);
                }
            }
            None => self.kept.push(sample),
        }
    }

    /// Turns to histograms, and brings the samples away where each is wanted.
    fn make_room(&mut self) {
        if self.spread.is_none() {
            // Four digits from 1 us to beyond an hour: constants that the library accepts.
            let histogram = || Histogram::new_with_bounds(1, u64::from(u32::MAX), 4).expect("valid constant bounds");
            let mut spread = [histogram(), histogram(), histogram(), histogram()];
            self.kept.iter().for_each(|sample| record(&mut spread, sample));
            self.spread = Some(spread);
        }
        if self.each && self.trouble.is_none() {
            self.kept.sort_unstable_by_key(|sample| sample.total_us);
            if let Err(error) = self.write_run() {
                self.trouble = Some(error);
            }
        }
        self.kept.clear();
    }

    fn write_run(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let mut out = BufWriter::new(file);
        for sample in &self.kept {
            out.write_all(&to_bytes(sample))?;
        }
        self.runs += 1;
        out.flush()
    }

    pub(super) fn column(&self, measure: Measure) -> &Column {
        &self.columns[measure as usize]
    }

    pub(super) fn count(&self) -> u64 {
        self.columns[0].count
    }

    /// Sorts by a measure; [`Self::nth`] of the same is right until the next sorting.
    pub(super) fn sort(&mut self, measure: Measure) {
        if self.spread.is_none() {
            self.kept.sort_unstable_by_key(|sample| measure.of(sample));
        }
    }

    /// The value at a place from 0 of the sorted samples, in microseconds: exact up to the bound, within 0.01 % beyond.
    pub(super) fn nth(&self, measure: Measure, place: u64) -> u32 {
        let last = self.count().saturating_sub(1);
        match &self.spread {
            None => self.kept.get(place.min(last) as usize).map_or(0, |sample| measure.of(sample)),
            Some(_) if place == 0 => self.column(measure).min,
            Some(_) if place >= last => self.column(measure).max,
            Some(spread) => {
                // In the middle of the place's share: at its end a rounding would give the next one.
                let quantile = (place as f64 + 0.5) / (last + 1) as f64;
                let value = spread[measure as usize].value_at_quantile(quantile);
                u32::try_from(value).unwrap_or(u32::MAX)
            }
        }
    }

    /// Hands out every sample in the order of its total time.
    ///
    /// # Errors
    /// Those of the file that keeps what has no room in memory.
    pub(super) fn each_by_total(&mut self, mut take: impl FnMut(&Sample) -> io::Result<()>) -> io::Result<()> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        self.kept.sort_unstable_by_key(|sample| sample.total_us);
        let mut runs = Vec::new();
        if let Some(file) = &self.file {
            for run in 0..self.runs {
                runs.push(Run::new(file, run, self.bound)?);
            }
        }
        let mut heads = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|sample| Reverse((sample.total_us, index, sample.start_us))));
        }
        let mut kept = self.kept.iter().peekable();
        loop {
            let in_file = heads.peek().map(|Reverse((total_us, ..))| *total_us);
            match (kept.peek(), in_file) {
                (None, None) => return Ok(()),
                (Some(sample), other) if other.is_none_or(|other| sample.total_us <= other) => {
                    take(sample)?;
                    kept.next();
                }
                _ => {
                    let Some(Reverse((_, index, _))) = heads.pop() else { return Ok(()) };
                    if let Some(sample) = runs[index].current {
                        take(&sample)?;
                    }
                    heads.extend(runs[index].next()?.map(|sample| Reverse((sample.total_us, index, sample.start_us))));
                }
            }
        }
    }
}

fn record(spread: &mut [Histogram; 4], sample: &Sample) {
    for (histogram, measure) in spread.iter_mut().zip(Measure::ALL) {
        histogram.saturating_record(u64::from(measure.of(sample)));
    }
}

/// A sorted part of the file.
struct Run {
    reader: BufReader<io::Take<File>>,
    current: Option<Sample>,
}

impl Run {
    fn new(file: &File, run: u64, bound: usize) -> io::Result<Self> {
        // Duplicated descriptors share their place in the file, so each run needs an opening of its own.
        let mut own = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)))?;
        let bytes = (bound * SAMPLE_BYTES) as u64;
        own.seek(SeekFrom::Start(run * bytes))?;
        Ok(Self { reader: BufReader::with_capacity(64 * 1024, own.take(bytes)), current: None })
    }

    fn next(&mut self) -> io::Result<Option<Sample>> {
        let mut bytes = [0; SAMPLE_BYTES];
        self.current = match self.reader.read_exact(&mut bytes) {
            Ok(()) => Some(from_bytes(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        Ok(self.current)
    }
}

fn to_bytes(sample: &Sample) -> [u8; SAMPLE_BYTES] {
    let mut bytes = [0; SAMPLE_BYTES];
    bytes[..8].copy_from_slice(&sample.start_us.to_le_bytes());
    bytes[8..12].copy_from_slice(&sample.connect_us.to_le_bytes());
    bytes[12..16].copy_from_slice(&sample.total_us.to_le_bytes());
    bytes[16..20].copy_from_slice(&sample.wait_us.to_le_bytes());
    bytes
}

fn from_bytes(bytes: &[u8; SAMPLE_BYTES]) -> Sample {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Sample {
        start_us: u64::from(word(0)) | u64::from(word(4)) << 32,
        connect_us: word(8),
        total_us: word(12),
        wait_us: word(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(index: u64, total_us: u32) -> Sample {
        Sample { start_us: index << 33 | index, connect_us: total_us / 3, total_us, wait_us: total_us / 2 }
    }

    proptest! {
        #[test]
        fn every_sample_comes_back_in_order_however_small_the_memory(
            totals in proptest::collection::vec(0u32..5_000_000, 0..200),
            bound in 1usize..300,
        ) {
            let mut samples = Samples::bounded(bound, true);
            let mut given: Vec<Sample> = (0..).zip(&totals).map(|(index, total)| sample(index, *total)).collect();
            given.iter().for_each(|sample| samples.push(*sample));
            let mut back = Vec::new();
            samples.each_by_total(|sample| { back.push(*sample); Ok(()) }).expect("a temporary file");
            prop_assert!(back.is_sorted_by_key(|sample| sample.total_us));
            let key = |sample: &Sample| (sample.total_us, sample.start_us);
            back.sort_unstable_by_key(key);
            given.sort_unstable_by_key(key);
            prop_assert_eq!(back, given);
        }

        #[test]
        fn beyond_the_bound_places_hold_within_a_ten_thousandth(
            totals in proptest::collection::vec(1u32..50_000_000, 50..200),
            place in 0usize..50,
        ) {
            let (mut exact, mut bounded) = (Samples::bounded(1000, false), Samples::bounded(10, false));
            for (index, total) in (0..).zip(&totals) {
                exact.push(sample(index, *total));
                bounded.push(sample(index, *total));
            }
            for measure in Measure::ALL {
                exact.sort(measure);
                bounded.sort(measure);
                let (right, near) = (exact.nth(measure, place as u64), bounded.nth(measure, place as u64));
                prop_assert!(f64::from(right.abs_diff(near)) <= f64::from(right) * 1e-4 + 1.0, "{right} {near}");
                prop_assert_eq!(exact.column(measure), bounded.column(measure));
            }
            prop_assert!(bounded.kept.len() <= 10);
        }
    }
}
