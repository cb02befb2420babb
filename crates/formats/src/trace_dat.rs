//! `trace.dat`, as `trace-cmd record` writes it: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).

use crate::earliest::earliest;
use crate::ring_page::{RingEvent, RingPage};
use crate::section::Section;
use crate::tracepoint::{Told, Tracepoints};
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

/// Bytes of a section of the header, before and after it is unpacked.
const SECTION_MAX: u64 = 64 << 20;
/// A ring's page; larger ones are made by `buffer_subbuf_size_kb`.
const PAGE_MAX: u32 = 4 << 20;
/// Bytes of a packed piece of a CPU's data, unpacked.
const PIECE_MAX: u64 = 64 << 20;
const CPUS_MAX: u32 = 8192;
const OPTIONS_MAX: usize = 4096;
/// Names that the file keeps for tasks that were there before.
const NAMES_MAX: usize = 1 << 20;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";
const OPTION_DONE: u16 = 0;
const OPTION_BUFFER: u16 = 3;
const OPTION_TRACECLOCK: u16 = 4;
const OPTION_UNAME: u16 = 5;
const OPTION_HEADER_INFO: u16 = 16;
const OPTION_FTRACE_EVENTS: u16 = 17;
const OPTION_EVENT_FORMATS: u16 = 18;
const OPTION_CMDLINES: u16 = 21;
const IS_COMPRESSED: u16 = 1;

/// How the file was written.
#[derive(Debug, Clone, Copy)]
struct Shape {
    is_big_endian: bool,
    long_bytes: usize,
    page_bytes: u32,
    is_packed: bool,
}

/// Where a CPU's pages lie.
#[derive(Debug, Clone, Copy)]
struct Place {
    cpu: u32,
    offset: u64,
    size: u64,
    is_packed: bool,
}

/// What the header and the options tell.
#[derive(Debug)]
struct Described {
    shape: Shape,
    tracepoints: Tracepoints,
    names: HashMap<u32, String>,
    places: Vec<Place>,
    clock: Option<String>,
    host: Option<String>,
}

/// Hands out the events of a file in the order of time.
///
/// # Errors
/// [`ReadError`]; what was handed out before stays true.
pub fn read_trace_dat<R: Read + Seek>(
    mut input: R,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let whole = input.seek(SeekFrom::End(0)).map_err(|source| ReadError::Io { at: 0, source })?;
    let mut file = File { input, whole };
    let described = file.describe()?;
    let mut counts = Counts { clock: described.clock.clone(), host: described.host.clone(), ..Counts::default() };
    for (number, name) in &described.names {
        let task = Task { number: *number, name };
        take(Event {
            at_ns: 0,
            cpu: None,
            task: Some(*number),
            process: None,
            what: What::Named { task, process: None },
        });
    }
    let mut lanes = Vec::new();
    for place in &described.places {
        counts.on_cpu(place.cpu);
        let mut lane = Lane::new(*place, described.shape);
        lane.advance(&mut file)?;
        lanes.push(lane);
    }
    while let Some((first, others_ns)) = earliest(lanes.iter().map(Lane::at_ns)) {
        loop {
            let lane = &mut lanes[first];
            lane.tell((&described.tracepoints, markers), &mut counts, &mut take);
            lane.advance(&mut file)?;
            if lane.at_ns().is_none_or(|at_ns| at_ns >= others_ns) {
                break;
            }
        }
    }
    Ok(counts.told())
}

/// The header of versions up to 6, which perf.data has in it, too: descriptions of tracepoints, and where it ends.
pub(crate) fn old_header(bytes: &[u8]) -> Result<(Tracepoints, u64), ReadError> {
    let within = "the descriptions of tracepoints";
    let mut head = Section::new(bytes, 0, false, within);
    if head.take(MAGIC.len() as u64)? != MAGIC {
        return Err(ReadError::wrong(0, "the descriptions of tracepoints do not begin as trace-cmd's do"));
    }
    head.text()?;
    let is_big_endian = head.u8()? == 1;
    head.take(5)?;
    let at = head.at();
    let mut rest = Section::new(&bytes[at as usize..], at, is_big_endian, within);
    let mut tracepoints = Tracepoints::new(is_big_endian);
    header_pages(&mut rest)?;
    ftrace_formats(&mut rest, &mut tracepoints)?;
    event_formats(&mut rest, &mut tracepoints)?;
    Ok((tracepoints, rest.at()))
}

/// `header_page` and `header_event`, which describe what [`RingPage`] knows.
fn header_pages(section: &mut Section<'_>) -> Result<(), ReadError> {
    for _ in 0..2 {
        section.text()?;
        let size = section.u64()?;
        section.take(size)?;
    }
    Ok(())
}

fn ftrace_formats(section: &mut Section<'_>, tracepoints: &mut Tracepoints) -> Result<(), ReadError> {
    for _ in 0..section.u32()? {
        let size = section.u64()?;
        tracepoints.describe(section.take(size)?);
    }
    Ok(())
}

fn event_formats(section: &mut Section<'_>, tracepoints: &mut Tracepoints) -> Result<(), ReadError> {
    for _ in 0..section.u32()? {
        section.text()?;
        ftrace_formats(section, tracepoints)?;
    }
    Ok(())
}

/// `123 name`, a line each.
fn names_of(text: &[u8]) -> HashMap<u32, String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        Some((number.parse().ok()?, name.to_owned()))
    });
    lines.take(NAMES_MAX).collect()
}

struct File<R> {
    input: R,
    whole: u64,
}

impl<R: Read + Seek> File<R> {
    /// Bytes from a place; `within` says of what.
    fn bytes(&mut self, at: u64, count: u64, most: u64, within: &'static str) -> Result<Vec<u8>, ReadError> {
        if count > most {
            return Err(ReadError::wrong(at, format!("{within} has {count} bytes; at most {most} are read")));
        }
        at.checked_add(count).filter(|end| *end <= self.whole).ok_or(ReadError::Cut { at: self.whole, within })?;
        let mut bytes = vec![0; count as usize];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let io = |source| ReadError::Io { at, source };
        self.input.seek(SeekFrom::Start(at)).map_err(io)?;
        self.input.read_exact(bytes).map_err(io)
    }

    fn describe(&mut self) -> Result<Described, ReadError> {
        let head_bytes = self.whole.min(256);
        let head = self.bytes(0, head_bytes, head_bytes, "the header")?;
        let mut section = Section::new(&head, 0, false, "the header");
        if section.take(MAGIC.len() as u64)? != MAGIC {
            return Err(ReadError::wrong(0, "it does not begin as a file of trace-cmd record does"));
        }
        let version = section.text()?;
        let is_big_endian = section.u8()? == 1;
        let long_bytes = usize::from(section.u8()?);
        if long_bytes != 4 && long_bytes != 8 {
            return Err(ReadError::wrong(section.at() - 1, format!("a long has {long_bytes} bytes; 4 or 8 are known")));
        }
        let at = section.at();
        let mut section = Section::new(&head[at as usize..], at, is_big_endian, "the header");
        let page_bytes = page(section.u32()?, at)?;
        let shape = Shape { is_big_endian, long_bytes, page_bytes, is_packed: false };
        match version.as_str() {
            "6" => self.version_6(shape, section.at()),
            "7" => {
                let packing = section.text()?;
                section.text()?;
                if packing != "none" && packing != "zstd" {
                    let what = format!("it is packed by {packing}; zstd and none are read: trace-cmd convert -c zstd");
                    return Err(ReadError::wrong(at, what));
                }
                let options = section.u64()?;
                self.version_7(Shape { is_packed: packing == "zstd", ..shape }, options)
            }
            other => Err(ReadError::wrong(10, format!("its version is {other:?}; 6 and 7 are read"))),
        }
    }

    fn version_6(&mut self, shape: Shape, from: u64) -> Result<Described, ReadError> {
        // What describes is read at once; the pages are behind it.
        let count = (self.whole - from).min(SECTION_MAX);
        let bytes = self.bytes(from, count, SECTION_MAX, "the header")?;
        let mut section = Section::new(&bytes, from, shape.is_big_endian, "the header");
        let mut tracepoints = Tracepoints::new(shape.is_big_endian);
        header_pages(&mut section)?;
        ftrace_formats(&mut section, &mut tracepoints)?;
        event_formats(&mut section, &mut tracepoints)?;
        // Symbols of the kernel, and formats of its messages.
        for _ in 0..2 {
            let size = section.u32()?;
            section.take(u64::from(size))?;
        }
        let size = section.u64()?;
        let names = names_of(section.take(size)?);
        let cpus = cpus(section.u32()?, section.at())?;
        let (mut clock, mut host, mut places) = (None, None, Vec::new());
        let mut kind = section.take(10)?;
        if kind == b"options  \0" {
            for _ in 0..OPTIONS_MAX {
                let option = section.u16()?;
                if option == OPTION_DONE {
                    break;
                }
                let size = section.u32()?;
                option_text(option, section.take(u64::from(size))?, &mut clock, &mut host);
            }
            kind = section.take(10)?;
        }
        if kind != b"flyrecord\0" {
            return Err(ReadError::wrong(section.at() - 10, "it holds the latency tracer's text, not events"));
        }
        for cpu in 0..cpus {
            let (offset, size) = (section.u64()?, section.u64()?);
            places.push(Place { cpu, offset, size, is_packed: false });
        }
        Ok(Described { shape, tracepoints, names, places, clock, host })
    }

    fn version_7(&mut self, shape: Shape, mut options: u64) -> Result<Described, ReadError> {
        let (tracepoints, names) = (Tracepoints::new(shape.is_big_endian), HashMap::new());
        let mut described = Described { shape, tracepoints, names, places: Vec::new(), clock: None, host: None };
        // Each place is behind the last one, so that no file leads in a circle.
        let mut last = 0;
        while options != 0 {
            if options <= last {
                return Err(ReadError::wrong(options, "its options lead back"));
            }
            last = options;
            options = self.options(options, &mut described)?;
        }
        Ok(described)
    }

    /// Reads a section of options; where the next one is, 0 if this is the last.
    fn options(&mut self, at: u64, described: &mut Described) -> Result<u64, ReadError> {
        let big = described.shape.is_big_endian;
        let bytes = self.section(at, described.shape)?.bytes;
        let mut section = Section::new(&bytes, at, big, "the options");
        for _ in 0..OPTIONS_MAX {
            if section.is_empty() {
                return Ok(0);
            }
            let (option, size) = (section.u16()?, section.u32()?);
            let data = section.take(u64::from(size))?;
            let mut data = Section::new(data, section.at() - u64::from(size), big, "an option");
            match option {
                OPTION_DONE => return data.u64(),
                OPTION_BUFFER => self.buffer(&mut data, described)?,
                OPTION_HEADER_INFO | OPTION_FTRACE_EVENTS | OPTION_EVENT_FORMATS | OPTION_CMDLINES => {
                    let place = data.u64()?;
                    self.describing(option, place, described)?;
                }
                _ => option_text(option, data.take_all(), &mut described.clock, &mut described.host),
            }
        }
        Err(ReadError::wrong(at, format!("it has more than {OPTIONS_MAX} options")))
    }

    fn describing(&mut self, option: u16, at: u64, described: &mut Described) -> Result<(), ReadError> {
        let bytes = self.section(at, described.shape)?.bytes;
        let mut section = Section::new(&bytes, at, described.shape.is_big_endian, "the descriptions of tracepoints");
        match option {
            OPTION_FTRACE_EVENTS => ftrace_formats(&mut section, &mut described.tracepoints),
            OPTION_EVENT_FORMATS => event_formats(&mut section, &mut described.tracepoints),
            OPTION_CMDLINES => {
                let size = section.u64()?;
                described.names.extend(names_of(section.take(size)?));
                Ok(())
            }
            _ => header_pages(&mut section),
        }
    }

    /// Where the pages of a buffer lie. Of several buffers the first is the trace; others are of instances.
    fn buffer(&mut self, option: &mut Section<'_>, described: &mut Described) -> Result<(), ReadError> {
        let at = option.u64()?;
        option.text()?;
        let clock = option.text()?;
        described.shape.page_bytes = page(option.u32()?, option.at())?;
        let cpus = cpus(option.u32()?, option.at())?;
        described.clock.get_or_insert(clock);
        let is_packed = self.section_head(at, described.shape)?.is_packed;
        for _ in 0..cpus {
            let cpu = option.u32()?;
            let (offset, size) = (option.u64()?, option.u64()?);
            if cpu >= CPUS_MAX {
                return Err(ReadError::wrong(option.at(), format!("it names CPU {cpu}; at most {CPUS_MAX} are read")));
            }
            described.places.push(Place { cpu, offset, size, is_packed });
        }
        Ok(())
    }

    fn section_head(&mut self, at: u64, shape: Shape) -> Result<Head, ReadError> {
        let bytes = self.bytes(at, SECTION_HEAD_BYTES, SECTION_HEAD_BYTES, "a section")?;
        let mut head = Section::new(&bytes, at, shape.is_big_endian, "a section");
        head.u16()?;
        let is_packed = head.u16()? & IS_COMPRESSED != 0;
        head.u32()?;
        Ok(Head { size: head.u64()?, is_packed })
    }

    /// A section's bytes, unpacked.
    fn section(&mut self, at: u64, shape: Shape) -> Result<Unpacked, ReadError> {
        let head = self.section_head(at, shape)?;
        let bytes = self.bytes(at + SECTION_HEAD_BYTES, head.size, SECTION_MAX, "a section")?;
        if !head.is_packed {
            return Ok(Unpacked { bytes });
        }
        let mut packed = Section::new(&bytes, at + SECTION_HEAD_BYTES, shape.is_big_endian, "a packed section");
        let mut whole = Vec::new();
        while !packed.is_empty() {
            let (at, most) = (packed.at(), SECTION_MAX - whole.len() as u64);
            let (size, unpacked) = (packed.u32()?, u64::from(packed.u32()?));
            whole.extend(unpack(packed.take(u64::from(size))?, unpacked, most, at)?);
        }
        Ok(Unpacked { bytes: whole })
    }
}

const SECTION_HEAD_BYTES: u64 = 16;

struct Head {
    size: u64,
    is_packed: bool,
}

struct Unpacked {
    bytes: Vec<u8>,
}

fn unpack(packed: &[u8], bytes: u64, most: u64, at: u64) -> Result<Vec<u8>, ReadError> {
    if bytes > most {
        return Err(ReadError::wrong(at, format!("a packed piece has {bytes} bytes; at most {most} are read")));
    }
    let unpacked = zstd::bulk::decompress(packed, bytes as usize);
    unpacked.map_err(|error| ReadError::wrong(at, format!("a packed piece is damaged: {error}")))
}

fn page(bytes: u32, at: u64) -> Result<u32, ReadError> {
    let is_known = (64..=PAGE_MAX).contains(&bytes);
    if is_known {
        Ok(bytes)
    } else {
        Err(ReadError::wrong(at, format!("a page has {bytes} bytes, which is no page's")))
    }
}

fn cpus(count: u32, at: u64) -> Result<u32, ReadError> {
    let most = CPUS_MAX;
    if count <= most {
        Ok(count)
    } else {
        Err(ReadError::wrong(at, format!("it has {count} CPUs; at most {most} are read")))
    }
}

fn option_text(option: u16, data: &[u8], clock: &mut Option<String>, host: &mut Option<String>) {
    let text = || String::from_utf8_lossy(data).trim_end_matches(['\0', '\n', ' ']).to_owned();
    match option {
        // `[local] global mono`: the one in brackets.
        OPTION_TRACECLOCK => {
            let text = text();
            let chosen = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
            *clock = chosen.or(Some(text)).filter(|clock| !clock.is_empty());
        }
        // The machine's name is the second word.
        OPTION_UNAME => *host = text().split(' ').nth(1).map(str::to_owned),
        _ => {}
    }
}

/// A CPU's pages, of which one at a time is in memory, or one packed piece.
struct Lane {
    cpu: u32,
    shape: Shape,
    /// What of the file is not read yet.
    at: u64,
    end: u64,
    /// Pieces that are packed and not read yet; `None` before their number is read.
    pieces: Option<u32>,
    is_packed: bool,
    /// Pages that are unpacked and not read yet.
    unpacked: Vec<u8>,
    taken: usize,
    page: Option<RingPage>,
    event: Option<RingEvent>,
    /// Lost before the page, to be told.
    lost: Option<u64>,
}

impl Lane {
    fn new(place: Place, shape: Shape) -> Self {
        let Place { cpu, offset, size, is_packed } = place;
        let is_packed = is_packed && shape.is_packed;
        let (unpacked, end) = (Vec::new(), offset.saturating_add(size));
        Self {
            cpu,
            shape,
            at: offset,
            end,
            pieces: None,
            is_packed,
            unpacked,
            taken: 0,
            page: None,
            event: None,
            lost: None,
        }
    }

    fn at_ns(&self) -> Option<u64> {
        self.event.map(|event| event.at_ns)
    }

    /// Goes to the next event; there is none at the end.
    fn advance<R: Read + Seek>(&mut self, file: &mut File<R>) -> Result<(), ReadError> {
        loop {
            self.event = self.page.as_mut().and_then(RingPage::next);
            if self.event.is_some() {
                return Ok(());
            }
            let Some(bytes) = self.next_page(file)? else { return Ok(()) };
            let at = self.at;
            let page = RingPage::new(bytes, self.shape.long_bytes, self.shape.is_big_endian);
            let page = page.ok_or_else(|| ReadError::wrong(at, "a page says that it is longer than it is"))?;
            self.lost = page.lost.or(self.lost);
            self.page = Some(page);
        }
    }

    fn next_page<R: Read + Seek>(&mut self, file: &mut File<R>) -> Result<Option<Vec<u8>>, ReadError> {
        let page_bytes = self.shape.page_bytes as usize;
        let mut page = self.page.take().map_or_else(Vec::new, RingPage::into_bytes);
        page.resize(page_bytes, 0);
        if !self.is_packed {
            if self.at >= self.end {
                return Ok(None);
            }
            if self.at + page_bytes as u64 > file.whole {
                return Err(ReadError::Cut { at: file.whole, within: "a CPU's pages" });
            }
            file.fill(self.at, &mut page)?;
            self.at += page_bytes as u64;
            return Ok(Some(page));
        }
        if self.taken + page_bytes > self.unpacked.len() && !self.next_piece(file)? {
            return Ok(None);
        }
        let Some(bytes) = self.unpacked.get(self.taken..self.taken + page_bytes) else { return Ok(None) };
        page.copy_from_slice(bytes);
        self.taken += page_bytes;
        Ok(Some(page))
    }

    /// Unpacks the next piece; false if there is none.
    fn next_piece<R: Read + Seek>(&mut self, file: &mut File<R>) -> Result<bool, ReadError> {
        let big = self.shape.is_big_endian;
        let word = |file: &mut File<R>, at: u64| -> Result<u32, ReadError> {
            let bytes = file.bytes(at, 4, 4, "a packed piece")?;
            Section::new(&bytes, at, big, "a packed piece").u32()
        };
        let pieces = match self.pieces {
            Some(pieces) => pieces,
            None if self.at + 4 > self.end => 0,
            None => {
                self.at += 4;
                word(file, self.at - 4)?
            }
        };
        if pieces == 0 || self.at >= self.end {
            self.pieces = Some(0);
            return Ok(false);
        }
        let (size, unpacked) = (word(file, self.at)?, u64::from(word(file, self.at + 4)?));
        let packed = file.bytes(self.at + 8, u64::from(size), PIECE_MAX, "a packed piece")?;
        // What is left of the one before is less than a page, which is none.
        self.unpacked = unpack(&packed, unpacked, PIECE_MAX, self.at)?;
        self.at += 8 + u64::from(size);
        (self.taken, self.pieces) = (0, Some(pieces - 1));
        Ok(true)
    }

    fn tell(
        &mut self,
        (tracepoints, markers): (&Tracepoints, &Markers),
        counts: &mut Counts,
        take: &mut impl FnMut(Event<'_>),
    ) {
        let (Some(page), Some(event)) = (&self.page, self.event) else { return };
        let cpu = Some(self.cpu);
        if let Some(lost) = self.lost.take() {
            // A number of 0 is one that the ring does not tell: at least one.
            counts.lost += lost.max(1);
            take(Event { at_ns: event.at_ns, cpu, task: None, process: None, what: What::Lost(lost.max(1)) });
        }
        let Some(hit) = tracepoints.hit(page.bytes(event)) else {
            return counts.skip(Skipped::FormatNotTold);
        };
        counts.event(hit.name);
        let what = match hit.what {
            Told::Is(what) => what,
            Told::NotMapped => {
                counts.skip(Skipped::NotMapped);
                What::Other(hit.name)
            }
            Told::FieldMissing => {
                counts.skip(Skipped::FieldMissing);
                What::Other(hit.name)
            }
        };
        let told = Event { at_ns: event.at_ns, cpu, task: hit.task, process: None, what };
        take(told);
        tracepoints.mark(page.bytes(event), markers, |mark| take(Event { what: What::Mark(mark), ..told }));
    }
}
