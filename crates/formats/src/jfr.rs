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
use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::io::{Read, Seek, SeekFrom};
use std::rc::Rc;
use values::{Bytes, Class, Classes, Sort, Value};

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
        u64::try_from(i128::from(self.start_ns) + self.ns(since)).unwrap_or(0)
    }

    fn span_ns(&self, ticks: i64) -> u64 {
        u64::try_from(self.ns(i128::from(ticks))).unwrap_or(0)
    }

    fn ns(&self, ticks: i128) -> i128 {
        // Most clocks tick each nanosecond, and a division of such numbers takes as long as half an event.
        if self.ticks_per_s == 1_000_000_000 { ticks } else { ticks * 1_000_000_000 / i128::from(self.ticks_per_s) }
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
    /// What a wait for an object is called, by the object's number or its name.
    waits: FxHashMap<(&'static str, u64, u64), Rc<str>>,
    named_waits: FxHashMap<&'static str, FxHashMap<Box<str>, Rc<str>>>,
}

/// What a field of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Start,
    Duration,
    Thread,
    SampledThread,
    Stack,
    /// What was waited for.
    Object,
    /// What is asked for only of requests.
    Other,
}

/// A class of events, with what is made of them.
struct Kind<'c> {
    class: &'c Class,
    /// What a wait is called.
    wait: Option<&'static str>,
    is_sample: bool,
    is_request: bool,
    fields: Vec<Says>,
    count: u64,
}

impl<'c> Kind<'c> {
    fn new(class: &'c Class, markers: &Markers) -> Self {
        let wait = WAITS.iter().find(|(name, ..)| **name == *class.name);
        let says = |name: &str| match name {
            "startTime" => Says::Start,
            "duration" => Says::Duration,
            "eventThread" => Says::Thread,
            "sampledThread" => Says::SampledThread,
            "stackTrace" => Says::Stack,
            name if wait.is_some_and(|(_, _, object)| *object == name) => Says::Object,
            _ => Says::Other,
        };
        Self {
            class,
            wait: wait.map(|(_, verb, _)| *verb),
            is_sample: SAMPLES.contains(&&*class.name),
            is_request: markers.may_mark(&class.name),
            fields: class.fields.iter().map(|field| says(&field.name)).collect(),
            count: 0,
        }
    }
}

/// The fields of an event that are asked for.
#[derive(Debug, Default)]
struct Told {
    start: Option<i64>,
    duration: Option<i64>,
    thread: Option<Value>,
    sampled: Option<Value>,
    stack: Option<Value>,
    object: Option<Value>,
    /// All of them, of a request.
    all: Vec<(Rc<str>, Value)>,
}

impl Told {
    fn read(kind: &Kind<'_>, bytes: &mut Bytes<'_>, classes: &Classes) -> Result<Self, ReadError> {
        let mut told = Self::default();
        for (field, says) in kind.class.fields.iter().zip(&kind.fields) {
            let is_asked = match says {
                Says::Stack => kind.is_sample,
                Says::Other => false,
                _ => true,
            };
            if !kind.is_request {
                if !is_asked {
                    bytes.pass(field, classes, 0)?;
                    continue;
                }
                // What nearly all events have, without a value being made of it.
                if field.sort == Sort::Long && !field.is_array && !field.is_constant {
                    let number = Some(bytes.long()?.cast_signed());
                    match says {
                        Says::Start => told.start = number,
                        Says::Duration => told.duration = number,
                        _ => {}
                    }
                    continue;
                }
            }
            let value = bytes.field(field, classes, 0)?;
            if kind.is_request {
                told.all.push((Rc::clone(&field.name), value.clone()));
            }
            match says {
                Says::Start => told.start = value.number(),
                Says::Duration => told.duration = value.number(),
                Says::Thread => told.thread = Some(value),
                Says::SampledThread => told.sampled = Some(value),
                Says::Stack => told.stack = Some(value),
                Says::Object => told.object = Some(value),
                Says::Other => {}
            }
        }
        Ok(told)
    }
}

impl Reader<'_> {
    fn chunk(&mut self, head: &Head, at: u64, chunk: &[u8], take: &mut impl FnMut(Event<'_>)) -> Result<(), ReadError> {
        let bytes = |from: u64| Bytes::new(chunk, from as usize, at, head.is_compressed);
        let classes = classes(&mut bytes(head.metadata))?;
        let places = places(&bytes(0), head.constants as usize, &classes)?;
        let constants = Constants { bytes: bytes(0), places, classes };
        let mut kinds: FxHashMap<u64, Kind<'_>> = FxHashMap::default();
        let (mut seen, mut next) = (Seen::default(), HEAD_BYTES as usize);
        while next < chunk.len() {
            let mut event = bytes(next as u64);
            let size = event.int()?;
            let number = event.long()?;
            let end = usize::try_from(size).ok().and_then(|size| next.checked_add(size));
            let end = end.filter(|end| *end <= chunk.len() && *end > next);
            let end =
                end.ok_or_else(|| event.wrong(format!("an event has {size} bytes, more than its chunk or none")))?;
            next = end;
            if number == METADATA || number == CONSTANTS {
                continue;
            }
            let kind = match kinds.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(room) => match constants.classes.get(&number) {
                    Some(class) => room.insert(Kind::new(class, self.markers)),
                    None => {
                        self.counts.skip(Skipped::FormatNotTold);
                        continue;
                    }
                },
            };
            kind.count += 1;
            self.event(head, (kind, &mut event), &constants, &mut seen, take)?;
        }
        kinds.values().for_each(|kind| self.counts.events_of(&kind.class.name, kind.count));
        Ok(())
    }

    fn event(
        &mut self,
        head: &Head,
        (kind, bytes): (&Kind<'_>, &mut Bytes<'_>),
        constants: &Constants<'_>,
        seen: &mut Seen,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<(), ReadError> {
        if kind.wait.is_none() && !kind.is_sample && !kind.is_request {
            self.counts.skip(Skipped::NotMapped);
            return Ok(());
        }
        let told = Told::read(kind, bytes, &constants.classes)?;
        let Some(start) = told.start else {
            self.counts.skip(Skipped::NoTime);
            return Ok(());
        };
        let start_ns = head.time_ns(start.cast_unsigned());
        let whose = told.thread.as_ref().or(told.sampled.as_ref());
        let thread = whose.and_then(|whose| thread(whose, constants, seen));
        let task = thread.as_ref().map(|thread| thread.number);
        let event = Event { at_ns: start_ns, cpu: None, task, process: None, what: What::Other("") };
        if let Some(thread) = &thread {
            self.name(thread, event, take);
        }
        if kind.is_sample {
            let Some(trace) = &told.stack else {
                self.counts.skip(Skipped::FieldMissing);
                return Ok(());
            };
            let stack = stack(trace, constants, seen);
            take(Event { what: What::Sample { stack: &stack, weight_ns: SAMPLE_NS }, ..event });
            return Ok(());
        }
        let lasted_ns = told.duration.map_or(0, |ticks| head.span_ns(ticks));
        let end = Event { at_ns: start_ns.saturating_add(lasted_ns), ..event };
        let field = |name: &str| {
            let (_, value) = told.all.iter().find(|(known, _)| **known == *name)?;
            shown(value, constants).map(Cow::Owned)
        };
        // A request is named by its event, a wait by what it is for.
        let named = match kind.wait {
            Some(verb) if !kind.is_request => waited_for(verb, told.object.as_ref(), constants, seen),
            _ => Rc::clone(&kind.class.name),
        };
        self.slices.whole(&named, start_ns, end, (self.markers, field), take);
        Ok(())
    }

    fn name(&mut self, thread: &Thread, event: Event<'_>, take: &mut impl FnMut(Event<'_>)) {
        let is_known = |known: &Rc<str>| Rc::ptr_eq(known, &thread.name) || *known == thread.name;
        if !self.named.get(&thread.number).is_some_and(is_known) {
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

fn waited_for(verb: &'static str, object: Option<&Value>, constants: &Constants<'_>, seen: &mut Seen) -> Rc<str> {
    let make = || match object.and_then(|object| shown(object, constants)) {
        Some(object) if !object.is_empty() => Rc::from(format!("{verb} {object}")),
        _ => Rc::from(verb),
    };
    let key = match object {
        Some(Value::Constant(class, number)) => (verb, *class, *number),
        Some(Value::Text(text)) => {
            let known = seen.named_waits.entry(verb).or_default();
            if let Some(known) = known.get(&**text) {
                return Rc::clone(known);
            }
            if known.len() >= STACKS_MAX {
                known.clear();
            }
            let named = make();
            known.insert(text.as_str().into(), Rc::clone(&named));
            return named;
        }
        None => (verb, 0, 0),
        _ => return make(),
    };
    if seen.waits.len() >= STACKS_MAX {
        seen.waits.clear();
    }
    Rc::clone(seen.waits.entry(key).or_insert_with(make))
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
