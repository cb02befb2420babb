//! `perf.data`, as `perf record` writes it: Linux, `tools/perf/Documentation/perf.data-file-format.txt`.

use crate::section::Section;
use crate::tracepoint::{Told, Tracepoints};
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use linux_perf_data::linux_perf_event_reader::{EventRecord, PerfClock, RawData, RecordType, SampleRecord};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord};
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Bytes of a header's section (descriptions of tracepoints, build ids); a kernel's descriptions take some 3 MB.
const SECTION_MAX: u64 = 64 << 20;
const HEADER_BYTES: usize = 104;
const FEATURES_BYTES: u64 = 32;
/// What the header of one that was written to a pipe says of its own length.
const PIPE_HEADER_BYTES: u64 = 16;

/// Hands out the events of a file, nearly in the order of time, as `perf record` has sorted rounds of them.
///
/// # Errors
/// [`ReadError`], with the byte where the data end where the reader cannot tell a nearer one.
pub fn read_perf_data<R: Read + Seek>(
    mut input: R,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let whole = input.seek(SeekFrom::End(0)).map_err(|source| ReadError::Io { at: 0, source })?;
    check(&mut input, whole)?;
    input.rewind().map_err(|source| ReadError::Io { at: 0, source })?;
    let mut reader = BufReader::with_capacity(1 << 20, input);
    let refused = |error: linux_perf_data::Error| ReadError::wrong(0, format!("{error}; is it a file of perf record?"));
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(&mut reader).map_err(refused)?;
    let tracepoints = described(&perf_file)?;
    let mut counts = Counts { clock: clock(&perf_file), host: host(&perf_file), ..Counts::default() };
    loop {
        let record = record_iter.next_record(&mut perf_file);
        let record = record.map_err(|error| ReadError::wrong(whole, format!("its records end early: {error}")))?;
        match record {
            None => return Ok(counts.told()),
            Some(PerfFileRecord::UserRecord(_)) => counts.skip(Skipped::Describing),
            Some(PerfFileRecord::EventRecord { attr_index, record }) => {
                // Only what is used is parsed: the parser takes the word of records of mappings for their lengths.
                if ![RecordType::SAMPLE, RecordType::COMM, RecordType::LOST].contains(&record.record_type) {
                    counts.skip(Skipped::Describing);
                    continue;
                }
                let at_ns = record.timestamp();
                match record.parse() {
                    Ok(EventRecord::Sample(sample)) => {
                        let name = perf_file.event_attributes().get(attr_index).and_then(|event| event.name());
                        told(&sample, name, (&tracepoints, markers), &mut counts, &mut take);
                    }
                    Ok(other) => described_task(&other, at_ns, &mut counts, &mut take),
                    Err(_) => counts.skip(Skipped::FieldMissing),
                }
            }
        }
    }
}

/// That no section of the header is longer than the file, or than what is held in memory: the reader of perf.data takes
/// their word for it.
fn check(input: &mut (impl Read + Seek), whole: u64) -> Result<(), ReadError> {
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
    // The size of an attribute.
    header.take(8)?;
    section(&mut header, whole, SECTION_MAX)?;
    let data_end = section(&mut header, whole, u64::MAX)?;
    section(&mut header, whole, SECTION_MAX)?;
    let features: u32 = header.take(FEATURES_BYTES)?.iter().map(|byte| byte.count_ones()).sum();
    input.seek(SeekFrom::Start(data_end)).map_err(io)?;
    let mut table = vec![0; features as usize * 16];
    let read = read_up_to(input, &mut table).map_err(io)?;
    let mut table = Section::new(&table[..read], data_end, is_big_endian, "the table of perf.data's sections");
    for _ in 0..features {
        section(&mut table, whole, SECTION_MAX)?;
    }
    Ok(())
}

/// Reads where a section lies; its end.
fn section(table: &mut Section<'_>, whole: u64, most: u64) -> Result<u64, ReadError> {
    let at = table.at();
    let (offset, size) = (table.u64()?, table.u64()?);
    if size > most {
        return Err(ReadError::wrong(at, format!("a section has {size} bytes; at most {most} are read")));
    }
    let beyond = || {
        let what = format!("a section of {size} bytes at byte {offset} is beyond the file's end, byte {whole}");
        ReadError::wrong(at, format!("{what}: was its copy or its recording cut short?"))
    };
    offset.checked_add(size).filter(|end| *end <= whole).ok_or_else(beyond)
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

fn told(
    sample: &SampleRecord<'_>,
    name: Option<&str>,
    (tracepoints, markers): (&Tracepoints, &Markers),
    counts: &mut Counts,
    take: &mut impl FnMut(Event<'_>),
) {
    let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
    let (task, process) = (number(sample.tid), number(sample.pid));
    if let Some(cpu) = sample.cpu {
        counts.on_cpu(cpu);
    }
    let raw = sample.raw.as_ref().map(RawData::as_slice);
    let hit = raw.as_deref().and_then(|raw| tracepoints.hit(raw));
    let shown = hit.as_ref().map_or_else(|| name.unwrap_or("sample"), |hit| hit.name);
    counts.event(shown);
    let Some(at_ns) = sample.timestamp else { return counts.skip(Skipped::NoTime) };
    let what = match hit.map(|hit| hit.what) {
        Some(Told::Is(what)) => what,
        Some(Told::NotMapped) => {
            counts.skip(Skipped::NotMapped);
            What::Other(shown)
        }
        Some(Told::FieldMissing) => {
            counts.skip(Skipped::FieldMissing);
            What::Other(shown)
        }
        None => {
            // A sample of a counter has no fields of its own.
            counts.skip(if raw.is_some() { Skipped::FormatNotTold } else { Skipped::NotMapped });
            What::Other(shown)
        }
    };
    let event = Event { at_ns, cpu: sample.cpu, task, process, what };
    take(event);
    if let Some(raw) = raw.as_deref() {
        tracepoints.mark(raw, markers, |mark| take(Event { what: What::Mark(mark), ..event }));
    }
}

/// Records that tell of tasks, and of what was lost.
fn described_task(record: &EventRecord<'_>, at_ns: Option<u64>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
    match record {
        EventRecord::Lost(lost) => {
            counts.lost += lost.count;
            take(Event {
                at_ns: at_ns.unwrap_or(0),
                cpu: None,
                task: None,
                process: None,
                what: What::Lost(lost.count),
            });
        }
        EventRecord::Comm(named) => {
            let name = named.name.as_slice();
            let name = String::from_utf8_lossy(&name);
            let (task, process) = (named.tid as u32, Some(named.pid as u32));
            let what = What::Named { task: Task { number: task, name: &name }, process };
            // Threads that were there before have no time: they had their names from the begin.
            take(Event { at_ns: at_ns.unwrap_or(0), cpu: None, task: Some(task), process, what });
        }
        _ => counts.skip(Skipped::Describing),
    }
}
