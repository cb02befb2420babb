//! The JSON of Chrome's trace viewer, as an object or as an array: "Trace Event Format", which many tools write.
//!
//! The file is read an event at a time; of what stands beside the events only its end is looked for.

mod elements;
mod told;

use crate::slices::Slices;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use elements::Elements;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::BufRead;
use told::{Id, Told};

/// Threads that are told apart.
const THREADS_MAX: usize = 1 << 20;
/// Numbers for threads whose own number another process's thread has; the kernel's are below 2^22.
const FURTHER: u32 = 1 << 30;

/// Hands out the events of a file, in its order.
///
/// # Errors
/// [`ReadError`], with the byte at which an event is damaged or cut; an array may lack its closing bracket.
pub fn read_chrome_json(
    input: impl BufRead,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let mut reader = Reader {
        markers,
        counts: Counts { clock: Some("the file's own clock".to_owned()), ..Counts::default() },
        threads: FxHashMap::default(),
        numbers: FxHashMap::default(),
        slices: Slices::default(),
    };
    let mut elements = Elements::new(input)?;
    while elements.next(|told, element| reader.tell(told, element, &mut take))? {}
    let unended = reader.slices.open() + reader.slices.dropped;
    if unended > 0 {
        *reader.counts.skipped.entry(Skipped::Unreferenced).or_default() += unended;
    }
    Ok(reader.counts.told())
}

/// What stretches are nested in.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Track {
    Thread(u32),
    /// Those of one name and number; they may begin and end on different threads.
    Asynchronous(Box<str>, Box<str>),
}

struct Reader<'m> {
    markers: &'m Markers,
    counts: Counts,
    threads: FxHashMap<(u64, u64), u32>,
    /// Whose number each is.
    numbers: FxHashMap<u32, u64>,
    slices: Slices<Track>,
}

impl Reader<'_> {
    /// A thread's number in the run: its own, unless a thread of another process has that.
    fn thread(&mut self, told: &Told<'_>) -> Option<u32> {
        let (process, thread) = (told.pid.as_ref().map_or(0, Id::number), told.tid.as_ref()?.number());
        if let Some(known) = self.threads.get(&(process, thread)) {
            return Some(*known);
        }
        if self.threads.len() >= THREADS_MAX {
            return None;
        }
        let own = u32::try_from(thread).ok().filter(|own| *own < FURTHER && !self.numbers.contains_key(own));
        let number = own.unwrap_or(FURTHER + self.threads.len() as u32);
        self.threads.insert((process, thread), number);
        self.numbers.insert(number, process);
        Some(number)
    }

    fn tell(&mut self, told: &Told<'_>, element: &[u8], take: &mut impl FnMut(Event<'_>)) {
        let task = self.thread(told);
        let process = told.pid.as_ref().and_then(|pid| u32::try_from(pid.number()).ok());
        if told.ph == "M" {
            return self.metadata(told, element, (task, process), take);
        }
        let name = if told.name.is_empty() { "(nameless)" } else { &*told.name };
        self.counts.event(name);
        let Some(at_ns) = told.ts.map(|ts| ts.0) else { return self.counts.skip(Skipped::NoTime) };
        let event = Event { at_ns, cpu: None, task, process, what: What::Other("") };
        let field = |field: &str| argument(element, field);
        let marked = (self.markers, field);
        let id = || told.id.as_ref().map_or_else(Box::default, Id::text);
        let is_told = match (&*told.ph, task) {
            ("B", Some(task)) => {
                self.slices.begin(Track::Thread(task), name, event, marked, take);
                true
            }
            ("E", Some(task)) => self.slices.end(&Track::Thread(task), event, take),
            ("X", _) => {
                let end = Event { at_ns: at_ns.saturating_add(told.dur.map_or(0, |dur| dur.0)), ..event };
                self.slices.whole(name, at_ns, end, marked, take);
                true
            }
            ("b" | "S", _) => {
                self.slices.begin(Track::Asynchronous(name.into(), id()), name, event, marked, take);
                true
            }
            ("e" | "F", _) => self.slices.end(&Track::Asynchronous(name.into(), id()), event, take),
            ("i" | "I" | "n" | "R" | "s" | "t" | "f", _) if self.markers.may_mark(name) => {
                self.markers.told(name, field, |mark| take(Event { what: What::Mark(mark), ..event }));
                true
            }
            _ => return self.counts.skip(Skipped::NotMapped),
        };
        if !is_told {
            self.counts.skip(Skipped::Unreferenced);
        }
    }

    /// Names of threads; those of processes, labels and orders say nothing that a run holds.
    fn metadata(
        &mut self,
        told: &Told<'_>,
        element: &[u8],
        (task, process): (Option<u32>, Option<u32>),
        take: &mut impl FnMut(Event<'_>),
    ) {
        self.counts.skip(Skipped::Describing);
        if let ("thread_name", Some(number), Some(name)) = (&*told.name, task, argument(element, "name")) {
            let what = What::Named { task: Task { number, name: &name }, process };
            take(Event { at_ns: told.ts.map_or(0, |ts| ts.0), cpu: None, task, process, what });
        }
    }
}

/// A field of an event's `args`, as text.
fn argument(element: &[u8], field: &str) -> Option<Cow<'static, str>> {
    let value: serde_json::Value = serde_json::from_slice(element).ok()?;
    Some(Cow::Owned(match value.get("args")?.get(field)? {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => return None,
        other => other.to_string(),
    }))
}
