//! A run's events as a trace in CTF 1.8 (<https://diamon.org/ctf/v1.8.3/>), for babeltrace2, Trace Compass and their kin.
//!
//! A file for each CPU, in packets of some 64 KiB. The scheduler's, the tasks' and the disks' events have the names and
//! fields of the kernel's tracepoints, by which other tools know them; every other event has its own name and its two
//! operands. This is the one file here that knows what operands of events mean (the reference of the run format).

use crate::error::ExportError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weir_query::{Cell, Queries};

/// A packet is written once it has so many bytes.
const PACKET_BYTES: usize = 64 << 10;
/// Streams of a trace: CPUs, and threads of other writers. Events of further ones are counted only.
const MOST_STREAMS: usize = 4096;
/// Sorts of events that are told by their own names.
const MOST_SORTS: usize = 1024;
const MAGIC: u32 = 0xc1fc_1fc1;
/// Classes of streams: those of CPUs, and those that no CPU is told of.
const OF_CPU: u32 = 0;
const OF_NONE: u32 = 1;

/// Numbers of events with the kernel's own names; others follow.
mod event {
    pub(super) const SWITCH: u32 = 0;
    pub(super) const WAKING: u32 = 1;
    pub(super) const WAKING_IN: u32 = 2;
    pub(super) const FORK: u32 = 3;
    pub(super) const EXEC: u32 = 4;
    pub(super) const EXIT: u32 = 5;
    pub(super) const ISSUE: u32 = 6;
    pub(super) const COMPLETE: u32 = 7;
    pub(super) const OTHERS: u32 = 16;
}

/// Flags of `sched_waking` as a run has them, and those of the tracepoint (`include/linux/trace_events.h`).
const BY_INTERRUPT: i64 = 1;
const IN_SOFT_INTERRUPT: i64 = 2;
const CONTEXT_TOLD: i64 = 4;
const TRACE_HARD: u8 = 0x08;
const TRACE_SOFT: u8 = 0x10;
/// The system call of a switch that has none.
const NO_SYSCALL: i64 = 0x1ff;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traced {
    /// Events.
    pub events: u64,
    /// Of these, events with the kernel's own names and fields.
    pub named: u64,
    /// Files of events.
    pub streams: u64,
    /// Events beyond the bound of streams or of sorts.
    pub left_out: u64,
}

/// Writes a run's events into a new or empty folder as a trace in CTF 1.8.
///
/// # Errors
/// [`ExportError`].
pub fn ctf(queries: &mut Queries, folder: &Path) -> Result<Traced, ExportError> {
    let wrong = |source| ExportError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(wrong)?;
    if fs::read_dir(folder).map_err(wrong)?.next().is_some() {
        return Err(ExportError::NotEmpty(folder.to_owned()));
    }
    let about = queries.rows("SELECT host_name, kernel, version, begin_monotonic_ns, begin_unix_ns FROM run")?;
    let about = about.into_iter().next().unwrap_or_else(|| vec![String::new(); 5]);
    let number = |column: usize| about[column].parse::<u64>().unwrap_or(0);
    let names = queries.rows("SELECT pid, coalesce(process, '') FROM tasks")?;
    let names = names.into_iter().filter_map(|row| Some((row[0].parse().ok()?, row[1].clone()))).collect();
    let mut trace = Trace {
        folder: folder.to_owned(),
        uuid: uuid(&about),
        begin_ns: number(3),
        names,
        streams: BTreeMap::new(),
        others: BTreeMap::new(),
        told: Traced::default(),
    };
    let mut outcome: io::Result<()> = Ok(());
    let sql = "SELECT at_ns, kind, source, lane, flags, a, b FROM events";
    queries.ask(sql, &mut |_| {}, &mut |row| {
        outcome = trace.event(row);
        outcome.is_ok()
    })?;
    std::mem::replace(&mut outcome, Ok(())).map_err(wrong)?;
    // Of a request to a disk one event tells the end and the time that it took: the begins lie in an order of their own.
    let sql = "SELECT at_ns - (b & 1099511627775), a, b, flags FROM events WHERE kind = 'disk_request'
        ORDER BY at_ns - (b & 1099511627775), at_ns";
    queries.ask(sql, &mut |_| {}, &mut |row| {
        outcome = trace.issue(row);
        outcome.is_ok()
    })?;
    outcome.map_err(wrong)?;
    trace.finish(&about, number(4).saturating_sub(number(3))).map_err(wrong)
}

/// The trace's number, by what tells the run from others (FNV-1a, twice).
fn uuid(about: &[String]) -> [u8; 16] {
    let hash = |seed: u64| {
        let bytes = about.iter().flat_map(|text| text.bytes().chain([0]));
        bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let mut uuid = (u128::from(hash(0)) << 64 | u128::from(hash(1))).to_be_bytes();
    // A number of RFC 9562's version 8, of which the maker decides.
    (uuid[6], uuid[8]) = (uuid[6] & 0x0f | 0x80, uuid[8] & 0x3f | 0x80);
    uuid
}

/// A stream: the packet that is being filled.
struct Stream {
    path: PathBuf,
    class: u32,
    cpu: u32,
    events: Vec<u8>,
    first_ns: u64,
    last_ns: u64,
    lost: u64,
}

impl Stream {
    fn push(&mut self, at_ns: u64, number: u32, fields: &[u8]) -> io::Result<()> {
        // Time runs forward within a stream.
        let at_ns = at_ns.max(self.last_ns);
        if self.events.is_empty() {
            self.first_ns = at_ns;
        }
        self.last_ns = at_ns;
        self.events.extend_from_slice(&number.to_le_bytes());
        self.events.extend_from_slice(&at_ns.to_le_bytes());
        self.events.extend_from_slice(fields);
        Ok(())
    }

    fn write(&mut self, uuid: &[u8; 16]) -> io::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let mut head = Vec::new();
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(uuid);
        head.extend_from_slice(&self.class.to_le_bytes());
        let own = if self.class == OF_CPU { 4 } else { 0 };
        let bits = (head.len() + 5 * 8 + own + self.events.len()) as u64 * 8;
        for number in [self.first_ns, self.last_ns, bits, bits, self.lost] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        if self.class == OF_CPU {
            head.extend_from_slice(&self.cpu.to_le_bytes());
        }
        // Opened for each packet, so that many CPUs need no more descriptors than few.
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(&head)?;
        file.write_all(&self.events)?;
        self.events.clear();
        Ok(())
    }
}

struct Trace {
    folder: PathBuf,
    uuid: [u8; 16],
    begin_ns: u64,
    names: BTreeMap<i64, String>,
    streams: BTreeMap<String, Stream>,
    /// Numbers of the events that have their own names, by these and the class of their stream.
    others: BTreeMap<(String, u32), u32>,
    told: Traced,
}

/// Fields, one behind the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn int(mut self, number: i64) -> Self {
        // Numbers of tasks have 32 bits.
        self.0.extend_from_slice(&(number as i32).to_le_bytes());
        self
    }

    fn long(mut self, number: i64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn byte(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.0.push(0);
        self
    }
}

fn integer(cell: Option<&Cell<'_>>) -> i64 {
    match cell {
        Some(Cell::Integer(number)) => *number,
        _ => 0,
    }
}

fn words<'a>(cell: Option<&Cell<'a>>) -> &'a str {
    match cell {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

/// The lower and the upper half of an operand.
fn halves(operand: i64) -> (i64, i64) {
    (operand & 0xffff_ffff, operand >> 32 & 0xffff_ffff)
}

impl Trace {
    fn name(&self, pid: i64) -> &str {
        if pid == 0 { "swapper" } else { self.names.get(&pid).map_or("", String::as_str) }
    }

    /// A row of the events' table.
    fn event(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        let at_ns = self.begin_ns.saturating_add_signed(integer(row.first()));
        let (kind, source, lane) = (words(row.get(1)), words(row.get(2)), integer(row.get(3)));
        let (flags, a, b) = (integer(row.get(4)), integer(row.get(5)), integer(row.get(6)));
        let class = if source == "kernel" { OF_CPU } else { OF_NONE };
        let (low, high) = halves(a);
        let known = match kind {
            "sched_switch" => Some((event::SWITCH, self.switch(low, high, b))),
            "sched_waking" => Some(self.waking(low, high, flags)),
            "fork" => {
                let fields = Fields::default().text(self.name(low)).int(low).text(self.name(high)).int(high).int(b);
                Some((event::FORK, fields))
            }
            "exec" => Some((event::EXEC, Fields::default().int(low))),
            "exit" => Some((event::EXIT, Fields::default().int(low))),
            "disk_request" => Some((event::COMPLETE, self.disk(a, b, flags))),
            _ => None,
        };
        let known = known.filter(|_| class == OF_CPU);
        let is_named = known.is_some();
        let (number, fields) = match known {
            Some(known) => known,
            None => match self.other(kind, class) {
                Some(number) => (number, Fields::default().byte(flags as u8).long(a).long(b)),
                None => return Ok(()),
            },
        };
        let cpu = lane as u32;
        if kind == "lost"
            && let Some(stream) = self.stream(format!("{source}_{lane}"), class, cpu)
        {
            stream.lost = stream.lost.saturating_add_signed(a);
        }
        self.push((format!("{source}_{lane}"), class, cpu), at_ns, number, (&fields, is_named))
    }

    fn switch(&self, prev: i64, next: i64, b: i64) -> Fields {
        let (state, call, descriptor) = (b & 0xff, b >> 8 & 0xff_ffff, b >> 32 & 0xffff_ffff);
        let (call, descriptor) = if call == NO_SYSCALL { (-1, 0) } else { (call, descriptor) };
        let fields = Fields::default().text(self.name(prev)).int(prev).long(state).text(self.name(next)).int(next);
        fields.int(call).int(descriptor)
    }

    /// The context of a wake-up is told only where the run tells it.
    fn waking(&self, waker: i64, woken: i64, flags: i64) -> (u32, Fields) {
        let fields = Fields::default().int(waker).text(self.name(woken)).int(woken);
        if flags & CONTEXT_TOLD == 0 {
            return (event::WAKING, fields);
        }
        let context = match flags {
            _ if flags & IN_SOFT_INTERRUPT != 0 => TRACE_SOFT,
            _ if flags & BY_INTERRUPT != 0 => TRACE_HARD,
            _ => 0,
        };
        (event::WAKING_IN, fields.byte(context))
    }

    fn disk(&self, a: i64, b: i64, flags: i64) -> Fields {
        let (pid, device) = halves(a);
        let letters = ["R", "W", "F"].get(flags as usize).unwrap_or(&"N");
        let sectors = b >> 40 & 0xff_ffff;
        // A run has no sectors: what a request's begin and end have in common is when it began and who made it.
        Fields::default().int(pid).int(device).long(b & 0xff_ffff_ffff ^ pid << 40).int(sectors).text(letters)
    }

    fn issue(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        let at_ns = self.begin_ns.saturating_add_signed(integer(row.first()));
        let fields = self.disk(integer(row.get(1)), integer(row.get(2)), integer(row.get(3)));
        self.push(("disks".to_owned(), OF_NONE, 0), at_ns, event::ISSUE, (&fields, true))
    }

    /// The number of an event with its own name, if there is room.
    fn other(&mut self, kind: &str, class: u32) -> Option<u32> {
        let next = event::OTHERS + self.others.len() as u32;
        let key = (kind.to_owned(), class);
        if self.others.len() >= MOST_SORTS && !self.others.contains_key(&key) {
            self.told.left_out += 1;
            return None;
        }
        Some(*self.others.entry(key).or_insert(next))
    }

    fn stream(&mut self, name: String, class: u32, cpu: u32) -> Option<&mut Stream> {
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&name) {
            return None;
        }
        let path = self.folder.join(&name);
        let fresh = || Stream { path, class, cpu, events: Vec::new(), first_ns: 0, last_ns: 0, lost: 0 };
        Some(self.streams.entry(name).or_insert_with(fresh))
    }

    fn push(
        &mut self,
        (name, class, cpu): (String, u32, u32),
        at_ns: u64,
        number: u32,
        (fields, is_named): (&Fields, bool),
    ) -> io::Result<()> {
        let uuid = self.uuid;
        let Some(stream) = self.stream(name, class, cpu) else {
            self.told.left_out += 1;
            return Ok(());
        };
        stream.push(at_ns, number, &fields.0)?;
        let outcome = if stream.events.len() >= PACKET_BYTES { stream.write(&uuid) } else { Ok(()) };
        self.told.events += 1;
        self.told.named += u64::from(is_named);
        outcome
    }

    fn finish(mut self, about: &[String], offset_ns: u64) -> io::Result<Traced> {
        for stream in self.streams.values_mut() {
            stream.write(&self.uuid)?;
        }
        self.told.streams = self.streams.len() as u64;
        fs::write(self.folder.join("metadata"), self.metadata(about, offset_ns))?;
        Ok(self.told)
    }

    fn metadata(&self, about: &[String], offset_ns: u64) -> String {
        let text =
            |text: &str| text.replace(|letter: char| letter == '"' || letter == '\\' || letter.is_control(), "?");
        let hex: Vec<String> = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let uuid = [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(<[String]>::concat).join("-");
        let mut told = format!(
            "/* CTF 1.8 */\n\n{TYPES}\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\
             \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\t}};\n}};\n\n\
             env {{\n\thostname = \"{}\";\n\trelease = \"{}\";\n\tsysname = \"Linux\";\n\ttracer_name = \"weir\";\n\
             \tweir_version = \"{}\";\n}};\n\n\
             clock {{\n\tname = monotonic;\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\
             \toffset = {offset_ns};\n}};\n\n{CLOCK_TYPE}",
            text(&about[0]),
            text(&about[1]),
            text(&about[2]),
        );
        for (class, cpu) in [(OF_CPU, "\t\tuint32_t cpu_id;\n"), (OF_NONE, "")] {
            // Writing to a string cannot fail.
            let _infallible = write!(
                told,
                "stream {{\n\tid = {class};\n\tevent.header := struct {{\n\t\tuint32_t id;\n\t\tclock_t timestamp;\n\t}};\n\
                 \tpacket.context := struct {{\n\t\tclock_t timestamp_begin;\n\t\tclock_t timestamp_end;\n\
                 \t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n\t\tuint64_t events_discarded;\n{cpu}\t}};\n}};\n\n"
            );
        }
        for (number, class, name, fields) in KNOWN {
            describe(&mut told, (*number, *class), name, fields);
        }
        for ((kind, class), number) in &self.others {
            let fields = ["uint8_t flags", "int64_t a", "int64_t b"];
            describe(&mut told, (*number, *class), &format!("weir:{}", text(kind)), &fields);
        }
        told
    }
}

fn describe(told: &mut String, (number, class): (u32, u32), name: &str, fields: &[&str]) {
    let fields: String = fields.iter().map(|field| format!("\t\t{field};\n")).collect();
    // Writing to a string cannot fail.
    let _infallible = write!(
        told,
        "event {{\n\tid = {number};\n\tname = \"{name}\";\n\tstream_id = {class};\n\tfields := struct {{\n{fields}\t}};\n}};\n\n"
    );
}

const TYPES: &str = "\
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
";

const CLOCK_TYPE: &str = "\
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := clock_t;

";

/// Number, class of the stream, name and fields of what has the kernel's own names.
const KNOWN: &[(u32, u32, &str, &[&str])] = &[
    (
        event::SWITCH,
        OF_CPU,
        "sched:sched_switch",
        &[
            "string prev_comm",
            "int32_t prev_pid",
            "int64_t prev_state",
            "string next_comm",
            "int32_t next_pid",
            "int32_t syscall",
            "int32_t descriptor",
        ],
    ),
    (event::WAKING, OF_CPU, "sched:sched_waking", &["int32_t common_pid", "string comm", "int32_t pid"]),
    (
        event::WAKING_IN,
        OF_CPU,
        "sched:sched_waking",
        &["int32_t common_pid", "string comm", "int32_t pid", "uint8_t common_flags"],
    ),
    (
        event::FORK,
        OF_CPU,
        "sched:sched_process_fork",
        &["string parent_comm", "int32_t parent_tid", "string child_comm", "int32_t child_tid", "int32_t child_pid"],
    ),
    (event::EXEC, OF_CPU, "sched:sched_process_exec", &["int32_t common_pid"]),
    (event::EXIT, OF_CPU, "sched:sched_process_exit", &["int32_t common_pid"]),
    (
        event::ISSUE,
        OF_NONE,
        "block:block_rq_issue",
        &["int32_t common_pid", "int32_t dev", "int64_t sector", "int32_t nr_sector", "string rwbs"],
    ),
    (
        event::COMPLETE,
        OF_CPU,
        "block:block_rq_complete",
        &["int32_t common_pid", "int32_t dev", "int64_t sector", "int32_t nr_sector", "string rwbs"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_its_version_and_of_its_run() {
        let of = |host: &str| uuid(&[host.to_owned(), "6.1".to_owned()]);
        assert_eq!((of("a")[6] >> 4, of("a")[8] >> 6), (8, 2));
        assert!(of("a") == of("a") && of("a") != of("b"));
    }

    #[test]
    fn a_packet_says_how_long_it_is_and_time_runs_forward() {
        let folder = std::env::temp_dir().join(format!("weir-ctf-{}", std::process::id()));
        let _of_before = fs::remove_file(&folder);
        let mut stream = Stream {
            path: folder.clone(),
            class: OF_CPU,
            cpu: 3,
            events: Vec::new(),
            first_ns: 0,
            last_ns: 0,
            lost: 2,
        };
        stream.push(10, 7, &[1, 2]).expect("room");
        stream.push(4, 7, &[]).expect("room");
        stream.write(&[9; 16]).expect("it is written");
        stream.write(&[9; 16]).expect("an empty packet is none");
        let bytes = fs::read(&folder).expect("the packet");
        fs::remove_file(&folder).expect("it is there");
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!((long(24), long(32), long(40), long(56)), (10, 10, bytes.len() as u64 * 8, 2));
        assert_eq!(bytes.len(), 24 + 40 + 4 + 12 + 2 + 12);
    }
}
