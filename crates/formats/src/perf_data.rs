//! `perf.data`, as `perf record` writes it: Linux, `tools/perf/Documentation/perf.data-file-format.txt`.
//!
//! What describes the file is read by a library; its records are read here, where they lie (`rounds.rs`, `layout.rs`):
//! they are millions, and the library makes each a memory of its own.

mod layout;
mod rounds;

use crate::section::{Section, unsigned};
use crate::tracepoint::{Told, Tracepoints};
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use layout::{Layout, Sample};
use linux_perf_data::linux_perf_event_reader::PerfClock;
use linux_perf_data::{AttributeDescription, Endianness, Feature, PerfFile, PerfFileReader};
use rounds::{Body, COMM, LOST, LOST_SAMPLES, Reading, Records, SAMPLE};
use rustc_hash::FxHashMap;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Bytes of a header's section (descriptions of tracepoints, build ids); a kernel's descriptions take some 3 MB.
const SECTION_MAX: u64 = 64 << 20;
const HEADER_BYTES: usize = 104;
const FEATURES_BYTES: u64 = 32;
/// What the header of one that was written to a pipe says of its own length.
const PIPE_HEADER_BYTES: u64 = 16;
/// Where the format in which counters are read stands in what an event was asked to record.
const READ_FORMAT_AT: u64 = 32;
/// Records after which those of simpleperf are sorted, which does not tell rounds.
const SIMPLEPERF_ROUND: usize = 1024;

/// Where the parts of a file lie, by its header.
#[derive(Debug, Clone, Copy)]
struct Parts {
    attributes: u64,
    attribute_bytes: u64,
    records: (u64, u64),
}

/// Hands out the events of a file, nearly in the order of time, as `perf record` has sorted rounds of them.
///
/// # Errors
/// [`ReadError`], with the byte of the record that is damaged or cut.
pub fn read_perf_data<R: Read + Seek>(
    mut input: R,
    markers: &Markers,
    take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let io = |source| ReadError::Io { at: 0, source };
    let whole = input.seek(SeekFrom::End(0)).map_err(io)?;
    let parts = check(&mut input, whole)?;
    input.rewind().map_err(io)?;
    let mut reader = BufReader::with_capacity(1 << 20, input);
    let refused = |error: linux_perf_data::Error| ReadError::wrong(0, format!("{error}; is it a file of perf record?"));
    let file = PerfFileReader::parse_file(&mut reader).map_err(refused)?.perf_file;
    let tracepoints = described(&file)?;
    let is_big_endian = file.endian() == Endianness::BigEndian;
    let mut layouts = Vec::new();
    for (index, event) in (0..).zip(file.event_attributes()) {
        let format =
            parts.attributes.saturating_add(parts.attribute_bytes.saturating_mul(index)).saturating_add(READ_FORMAT_AT);
        let mut bytes = [0; 8];
        reader.seek(SeekFrom::Start(format)).map_err(io)?;
        read_up_to(&mut reader, &mut bytes).map_err(io)?;
        layouts.push(Layout::new(event.attributes(), unsigned(&bytes, is_big_endian), is_big_endian));
    }
    if layouts.iter().all(|layout| layouts.first() == Some(layout)) {
        layouts.truncate(1);
    }
    let ids =
        (0..).zip(file.event_attributes()).flat_map(|(index, event)| event.ids().iter().map(move |id| (*id, index)));
    let mut telling = Telling {
        by_id: ids.collect(),
        layouts,
        events: file.event_attributes(),
        tracepoints: &tracepoints,
        markers,
        is_big_endian,
        counts: Counts { clock: clock(&file), host: host(&file), ..Counts::default() },
        take,
    };
    let (from, to) = parts.records;
    reader.seek(SeekFrom::Start(from)).map_err(|source| ReadError::Io { at: from, source })?;
    let round = file.features().has_feature(Feature::SIMPLEPERF_META_INFO).then_some(SIMPLEPERF_ROUND);
    Reading::new(reader, (from, to), is_big_endian, round).read(&mut telling)?;
    Ok(telling.counts.told())
}

/// That no section of the header is longer than the file, or than what is held in memory: the reader of perf.data takes
/// their word for it.
fn check(input: &mut (impl Read + Seek), whole: u64) -> Result<Parts, ReadError> {
    let io = |source| ReadError::Io { at: 0, source };
    let mut head = [0; HEADER_BYTES];
    input.rewind().map_err(io)?;
    let read = read_up_to(input, &mut head).map_err(io)?;
    let is_big_endian = head.starts_with(b"2ELIFREP");
    let mut header = Section::new(&head[..read], 0, is_big_endian, "the header of perf.data");
    header.take(8)?;
    if header.u64()? == PIPE_HEADER_BYTES {
        return Err(ReadError::wrong(8, "it was written to a pipe (perf record -o -): record into a file"));
    }
    let attribute_bytes = header.u64()?;
    let (attributes, _) = section(&mut header, whole, SECTION_MAX)?;
    let records = section(&mut header, whole, u64::MAX)?;
    section(&mut header, whole, SECTION_MAX)?;
    let features: u32 = header.take(FEATURES_BYTES)?.iter().map(|byte| byte.count_ones()).sum();
    input.seek(SeekFrom::Start(records.1)).map_err(io)?;
    let mut table = vec![0; features as usize * 16];
    let read = read_up_to(input, &mut table).map_err(io)?;
    let mut table = Section::new(&table[..read], records.1, is_big_endian, "the table of perf.data's sections");
    for _ in 0..features {
        section(&mut table, whole, SECTION_MAX)?;
    }
    Ok(Parts { attributes, attribute_bytes, records })
}

/// Reads where a section lies: its begin and its end.
fn section(table: &mut Section<'_>, whole: u64, most: u64) -> Result<(u64, u64), ReadError> {
    let at = table.at();
    let (offset, size) = (table.u64()?, table.u64()?);
    if size > most {
        return Err(ReadError::wrong(at, format!("a section has {size} bytes; at most {most} are read")));
    }
    let beyond = || {
        let what = format!("a section of {size} bytes at byte {offset} is beyond the file's end, byte {whole}");
        ReadError::wrong(at, format!("{what}: was its copy or its recording cut short?"))
    };
    offset.checked_add(size).filter(|end| *end <= whole).map(|end| (offset, end)).ok_or_else(beyond)
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match input.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(some) => read += some,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// The descriptions of tracepoints that the file brings.
fn described(file: &PerfFile) -> Result<Tracepoints, ReadError> {
    let is_big_endian = file.endian() == Endianness::BigEndian;
    let Some(section) = file.feature_section_data(Feature::TRACING_DATA) else {
        return Ok(Tracepoints::new(is_big_endian));
    };
    crate::trace_dat::old_header(section).map(|(tracepoints, _)| tracepoints)
}

/// The clock that was asked for (`perf record -k`); without one the times are of the scheduler's clock, which is near
/// CLOCK_MONOTONIC but is not adjusted.
fn clock(file: &PerfFile) -> Option<String> {
    let event = file.event_attributes().first()?;
    Some(match event.attributes().clock {
        PerfClock::Default => "the scheduler's clock".to_owned(),
        PerfClock::ClockId(clock) => format!("{clock:?}"),
    })
}

fn host(file: &PerfFile) -> Option<String> {
    file.hostname().ok().flatten().map(str::to_owned)
}

/// What is needed to tell what records say.
struct Telling<'f, F> {
    /// Where the words of each event's records lie; one where all events have the same.
    layouts: Vec<Layout>,
    by_id: FxHashMap<u64, usize>,
    events: &'f [AttributeDescription],
    tracepoints: &'f Tracepoints,
    markers: &'f Markers,
    is_big_endian: bool,
    counts: Counts,
    take: F,
}

impl<F: FnMut(Event<'_>)> Records for Telling<'_, F> {
    fn time_ns(&mut self, record: Body<'_>) -> Option<u64> {
        let layout = self.layout(record)?;
        // What has no time comes first.
        match record.kind {
            SAMPLE => Some(layout.time_of_sample(record.bytes).unwrap_or(0)),
            COMM | LOST | LOST_SAMPLES => Some(layout.time_of_other(record.bytes).unwrap_or(0)),
            _ => {
                self.counts.skip(Skipped::Describing);
                None
            }
        }
    }

    fn take(&mut self, record: Body<'_>) {
        let Some(layout) = self.layout(record) else { return };
        if record.kind != SAMPLE {
            return self.described(record, layout.time_of_other(record.bytes));
        }
        match layout.sample(record.bytes) {
            Some(sample) => self.sample(record, sample),
            None => self.counts.skip(Skipped::FieldMissing),
        }
    }
}

impl<F: FnMut(Event<'_>)> Telling<'_, F> {
    /// Which of the file's events a record is of; the first where the record does not tell it. Where events differ in
    /// what they record, their ids lie at the same place (the library refuses a file in which they do not).
    fn event(&self, Body { kind, bytes }: Body<'_>) -> usize {
        let Some(first) = self.layouts.first() else { return 0 };
        let id = if kind == SAMPLE { first.id_of_sample(bytes) } else { first.id_of_other(bytes) };
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }

    fn layout(&self, record: Body<'_>) -> Option<Layout> {
        let index = if self.layouts.len() > 1 { self.event(record) } else { 0 };
        self.layouts.get(index).copied()
    }

    fn sample(&mut self, record: Body<'_>, sample: Sample<'_>) {
        let Sample { task, process, at_ns, cpu, raw } = sample;
        if let Some(cpu) = cpu {
            self.counts.on_cpu(cpu);
        }
        let hit = raw.and_then(|raw| self.tracepoints.hit(raw));
        let named = || self.events.get(self.event(record)).and_then(|event| event.name()).unwrap_or("sample");
        let shown = hit.as_ref().map_or_else(named, |hit| hit.name);
        self.counts.event(shown);
        let Some(at_ns) = at_ns else { return self.counts.skip(Skipped::NoTime) };
        let what = match hit.map(|hit| hit.what) {
            Some(Told::Is(what)) => what,
            Some(Told::NotMapped) => {
                self.counts.skip(Skipped::NotMapped);
                What::Other(shown)
            }
            Some(Told::FieldMissing) => {
                self.counts.skip(Skipped::FieldMissing);
                What::Other(shown)
            }
            None => {
                // A sample of a counter has no fields of its own.
                self.counts.skip(if raw.is_some() { Skipped::FormatNotTold } else { Skipped::NotMapped });
                What::Other(shown)
            }
        };
        let event = Event { at_ns, cpu, task, process, what };
        (self.take)(event);
        if let Some(raw) = raw {
            self.tracepoints.mark(raw, self.markers, |mark| (self.take)(Event { what: What::Mark(mark), ..event }));
        }
    }

    /// Records that tell of tasks, and of what was lost.
    fn described(&mut self, Body { kind, bytes }: Body<'_>, at_ns: Option<u64>) {
        let number = |at: usize, size: usize| Some(unsigned(bytes.get(at..at + size)?, self.is_big_endian));
        // Threads that were there before have no time: they had their names from the begin.
        let event = Event { at_ns: at_ns.unwrap_or(0), cpu: None, task: None, process: None, what: What::Exec };
        let lost = match kind {
            LOST => number(8, 8),
            LOST_SAMPLES => number(0, 8),
            _ => None,
        };
        if let Some(lost) = lost {
            self.counts.lost = self.counts.lost.saturating_add(lost);
            return (self.take)(Event { what: What::Lost(lost), ..event });
        }
        let (COMM, Some(process), Some(task)) = (kind, number(0, 4), number(4, 4)) else {
            return self.counts.skip(Skipped::FieldMissing);
        };
        let (process, task) = (process as u32, task as u32);
        let name = bytes.get(8..).unwrap_or_default();
        let name = String::from_utf8_lossy(&name[..memchr::memchr(0, name).unwrap_or(name.len())]);
        let what = What::Named { task: Task { number: task, name: &name }, process: Some(process) };
        (self.take)(Event { task: Some(task), what, ..event });
    }
}
