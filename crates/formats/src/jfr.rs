//! The flight recorder of Java, version 2: chunks, each with its own classes and constants
//! (OpenJDK 17, `src/jdk.jfr/share/classes/jdk/jfr/internal/consumer`, of which the format is read off).
//!
//! A chunk at a time is in memory; the recorder begins a new one after some 12 MB.

mod constants;
mod metadata;
mod values;

use crate::event::shortened;
use crate::slices::Slices;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use constants::{Constants, places};
use metadata::classes;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{Read, Seek, SeekFrom};
use std::rc::Rc;
use values::{Bytes, Class, Value};

/// Bytes of a chunk.
const CHUNK_MAX: u64 = 128 << 20;
const HEAD_BYTES: u64 = 68;
/// Times and fields of events are numbers of seven bits a byte.
const IS_COMPRESSED: u32 = 1;
const METADATA: u64 = 0;
const CONSTANTS: u64 = 1;
/// The time between two samples of a thread, if the recording does not say it: the default of `default.jfc`, 20 ms.
const SAMPLE_NS: u64 = 20_000_000;

/// Events that tell how long a thread waited, and the field that says for what.
const WAITS: [(&str, &str, &str); 10] = [
    ("jdk.ThreadPark", "park", "parkedClass"),
    ("jdk.JavaMonitorEnter", "enter monitor", "monitorClass"),
    ("jdk.JavaMonitorWait", "wait at monitor", "monitorClass"),
    ("jdk.ThreadSleep", "sleep", ""),
    ("jdk.SocketRead", "read socket", "host"),
    ("jdk.SocketWrite", "write socket", "host"),
    ("jdk.FileRead", "read file", "path"),
    ("jdk.FileWrite", "write file", "path"),
    ("jdk.GarbageCollection", "collect garbage", "name"),
    ("jdk.GCPhasePause", "pause for garbage collection", "name"),
];
/// Bytes of a stack, and stacks that are kept as text.
const STACK_BYTES: usize = 64 << 10;
const STACKS_MAX: usize = 1 << 10;
const SAMPLES: [&str; 2] = ["jdk.ExecutionSample", "jdk.NativeMethodSample"];

/// Hands out the events of a file: in the order in which threads gave them, not in that of time.
///
/// # Errors
/// [`ReadError`], with the byte at which a chunk is damaged or cut.
pub fn read_jfr<R: Read + Seek>(
    mut input: R,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let io = |at| move |source| ReadError::Io { at, source };
    let whole = input.seek(SeekFrom::End(0)).map_err(io(0))?;
    let clock = Some("CLOCK_REALTIME, by the ticks of each chunk".to_owned());
    let mut reader = Reader {
        markers,
        counts: Counts { clock, ..Counts::default() },
        slices: Slices::default(),
        named: FxHashMap::default(),
    };
    let mut at = 0;
    while at < whole {
        let head = Head::read(&mut input, at, whole)?;
        let mut bytes = Vec::new();
        input.seek(SeekFrom::Start(at)).map_err(io(at))?;
        input.by_ref().take(head.size).read_to_end(&mut bytes).map_err(io(at))?;
        reader.chunk(&head, at, &bytes, &mut take)?;
        at += head.size;
    }
    Ok(reader.counts.told())
}

/// What stands at a chunk's begin.
struct Head {
    size: u64,
    constants: u64,
    metadata: u64,
    start_ns: u64,
    start_ticks: u64,
    ticks_per_s: u64,
    is_compressed: bool,
}

impl Head {
    fn read(input: &mut (impl Read + Seek), at: u64, whole: u64) -> Result<Self, ReadError> {
        let cut = ReadError::Cut { at, within: "the head of a chunk" };
        if whole - at < HEAD_BYTES {
            return Err(cut);
        }
        let mut bytes = [0; HEAD_BYTES as usize];
        let io = |source| ReadError::Io { at, source };
        input.seek(SeekFrom::Start(at)).map_err(io)?;
        input.read_exact(&mut bytes).map_err(io)?;
        let mut head = crate::section::Section::new(&bytes, at, true, "the head of a chunk");
        if head.take(4)? != b"FLR\0" {
            return Err(ReadError::wrong(at, "no chunk of the flight recorder's begins here"));
        }
        let (major, minor) = (head.u16()?, head.u16()?);
        if major != 2 {
            let what = format!("a chunk has the version {major}.{minor}; 2 is read, of Java from 9 on");
            return Err(ReadError::wrong(at + 4, what));
        }
        let (size, constants, metadata) = (head.u64()?, head.u64()?, head.u64()?);
        let start_ns = head.u64()?;
        head.u64()?;
        let (start_ticks, ticks_per_s, features) = (head.u64()?, head.u64()?.max(1), head.u32()?);
        if size < HEAD_BYTES || metadata < HEAD_BYTES {
            let what = "a chunk is not finished: the recording runs still, or its program was killed";
            return Err(ReadError::wrong(
                at,
                format!("{what}; dump it by jcmd PID JFR.dump, or mend it by jfr assemble"),
            ));
        }
        if size > CHUNK_MAX {
            return Err(ReadError::wrong(at, format!("a chunk has {size} bytes; at most {CHUNK_MAX} are read")));
        }
        if at.checked_add(size).is_none_or(|end| end > whole) || constants >= size || metadata >= size {
            return Err(ReadError::Cut { at, within: "a chunk" });
        }
        let is_compressed = features & IS_COMPRESSED != 0;
        Ok(Self { size, constants, metadata, start_ns, start_ticks, ticks_per_s, is_compressed })
    }

    fn time_ns(&self, ticks: u64) -> u64 {
        let since = i128::from(ticks) - i128::from(self.start_ticks);
        let ns = i128::from(self.start_ns) + since * 1_000_000_000 / i128::from(self.ticks_per_s);
        u64::try_from(ns).unwrap_or(0)
    }

    fn span_ns(&self, ticks: i64) -> u64 {
        u64::try_from(i128::from(ticks) * 1_000_000_000 / i128::from(self.ticks_per_s)).unwrap_or(0)
    }
}

struct Reader<'m> {
    markers: &'m Markers,
    counts: Counts,
    slices: Slices<u64>,
    /// Threads as they were named last.
    named: FxHashMap<u32, Rc<str>>,
}

/// A thread, by its number in the pool.
#[derive(Clone)]
struct Thread {
    number: u32,
    name: Rc<str>,
}

/// What is known of a chunk's constants already.
#[derive(Default)]
struct Seen {
    threads: FxHashMap<(u64, u64), Option<Thread>>,
    stacks: FxHashMap<(u64, u64), Rc<str>>,
}

impl Reader<'_> {
    fn chunk(&mut self, head: &Head, at: u64, chunk: &[u8], take: &mut impl FnMut(Event<'_>)) -> Result<(), ReadError> {
        let bytes = |from: u64| Bytes::new(chunk, from as usize, at, head.is_compressed);
        let classes = classes(&mut bytes(head.metadata))?;
        let places = places(&bytes(0), head.constants as usize, &classes)?;
        let constants = Constants { bytes: bytes(0), places, classes };
        let (mut seen, mut next) = (Seen::default(), HEAD_BYTES as usize);
        while next < chunk.len() {
            let mut event = bytes(next as u64);
            let size = event.int()?;
            let kind = event.long()?;
            let end = usize::try_from(size).ok().and_then(|size| next.checked_add(size));
            let end = end.filter(|end| *end <= chunk.len() && *end > next);
            let end =
                end.ok_or_else(|| event.wrong(format!("an event has {size} bytes, more than its chunk or none")))?;
            if kind != METADATA && kind != CONSTANTS {
                match constants.classes.get(&kind) {
                    Some(class) => self.event(head, (class, &mut event), &constants, &mut seen, take)?,
                    None => self.counts.skip(Skipped::FormatNotTold),
                }
            }
            next = end;
        }
        Ok(())
    }

    fn event(
        &mut self,
        head: &Head,
        (class, bytes): (&Class, &mut Bytes<'_>),
        constants: &Constants<'_>,
        seen: &mut Seen,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<(), ReadError> {
        self.counts.event(&class.name);
        let wait = WAITS.iter().find(|(name, ..)| **name == *class.name);
        let is_sample = SAMPLES.contains(&&*class.name);
        if wait.is_none() && !is_sample && !self.markers.may_mark(&class.name) {
            self.counts.skip(Skipped::NotMapped);
            return Ok(());
        }
        let mut fields = Vec::with_capacity(class.fields.len());
        for field in &class.fields {
            fields.push((Rc::clone(&field.name), bytes.field(field, &constants.classes, 0)?));
        }
        let told = Value::Object(fields);
        let Some(start) = told.get("startTime").and_then(Value::number) else {
            self.counts.skip(Skipped::NoTime);
            return Ok(());
        };
        let start_ns = head.time_ns(start.cast_unsigned());
        let whose = ["eventThread", "sampledThread"].iter().find_map(|name| told.get(name));
        let thread = whose.and_then(|whose| thread(whose, constants, seen));
        let task = thread.as_ref().map(|thread| thread.number);
        let event = Event { at_ns: start_ns, cpu: None, task, process: None, what: What::Other("") };
        if let Some(thread) = &thread {
            self.name(thread, event, take);
        }
        if is_sample {
            let Some(trace) = told.get("stackTrace") else {
                self.counts.skip(Skipped::FieldMissing);
                return Ok(());
            };
            let stack = stack(trace, constants, seen);
            take(Event { what: What::Sample { stack: &stack, weight_ns: SAMPLE_NS }, ..event });
            return Ok(());
        }
        let lasted_ns = told.get("duration").and_then(Value::number).map_or(0, |ticks| head.span_ns(ticks));
        let name = match wait {
            Some((_, verb, field)) => waited_for(verb, told.get(field), constants),
            None => class.name.to_string(),
        };
        let end = Event { at_ns: start_ns.saturating_add(lasted_ns), ..event };
        let field = |name: &str| shown(told.get(name)?, constants).map(Cow::Owned);
        // A request is named by its event, a wait by what it is for.
        let is_request = self.markers.may_mark(&class.name);
        let shown = if is_request { &*class.name } else { &name };
        self.slices.whole(shown, start_ns, end, (self.markers, field), take);
        Ok(())
    }

    fn name(&mut self, thread: &Thread, event: Event<'_>, take: &mut impl FnMut(Event<'_>)) {
        if self.named.get(&thread.number).is_none_or(|known| *known != thread.name) {
            self.named.insert(thread.number, Rc::clone(&thread.name));
            let task = Task { number: thread.number, name: &thread.name };
            take(Event { what: What::Named { task, process: None }, ..event });
        }
    }
}

/// The thread that a value refers to: by its number in the system, or, of a virtual one, by Java's.
fn thread(value: &Value, constants: &Constants<'_>, seen: &mut Seen) -> Option<Thread> {
    let Value::Constant(class, number) = value else { return None };
    let make = || {
        let told = constants.find(value);
        let of = |name: &str| told.get(name).and_then(Value::number).filter(|number| *number > 0);
        let name = ["javaName", "osName"].iter().find_map(|name| constants.text(told.get(name)?));
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "(a thread)".to_owned());
        Some(Thread { number: of("osThreadId").or(of("javaThreadId"))? as u32, name: shortened(&name).into() })
    };
    seen.threads.entry((*class, *number)).or_insert_with(make).clone()
}

/// A stack, the innermost frame first, a line each.
fn stack(value: &Value, constants: &Constants<'_>, seen: &mut Seen) -> Rc<str> {
    let Value::Constant(class, number) = value else { return Rc::from("") };
    let make = || {
        let told = constants.find(value);
        let Some(Value::Array(frames)) = told.get("frames") else { return Rc::from("") };
        let mut text = String::new();
        for frame in frames {
            if text.len() > STACK_BYTES {
                break;
            }
            let method = frame.get("method").map_or(Value::Null, |method| constants.find(method));
            let class = method.get("type").map_or(Value::Null, |class| constants.member(class, "name"));
            let class = constants.text(&class).unwrap_or_default().replace('/', ".");
            let name = method.get("name").and_then(|name| constants.text(name)).unwrap_or_default();
            let _ = writeln!(text, "{}.{}", shortened(&class), shortened(&name));
        }
        Rc::from(text)
    };
    if seen.stacks.len() >= STACKS_MAX {
        seen.stacks.clear();
    }
    Rc::clone(seen.stacks.entry((*class, *number)).or_insert_with(make))
}

fn waited_for(verb: &str, field: Option<&Value>, constants: &Constants<'_>) -> String {
    match field.and_then(|field| shown(field, constants)) {
        Some(object) if !object.is_empty() => format!("{verb} {object}"),
        _ => verb.to_owned(),
    }
}

/// A field as text: a number, a text, or the name of a class or a thread.
fn shown(value: &Value, constants: &Constants<'_>) -> Option<String> {
    match constants.find(value) {
        Value::Number(number) => Some(number.to_string()),
        Value::Fraction(number) => Some(number.to_string()),
        Value::Text(text) => Some(text),
        object @ Value::Object(_) => {
            let name = ["name", "javaName", "string"].iter().find_map(|name| object.get(name))?;
            constants.text(name).map(|name| name.replace('/', "."))
        }
        _ => None,
    }
}
