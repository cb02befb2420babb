//! Events in the order of time, of a source that tells them somewhat out of it.

use crate::{Call, Counts, Disk, Edge, Event, Mark, ReadError, Request, Skipped, Stretch, Task, What, Within};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events that wait for earlier ones; Perfetto's are out of order by what the kernel gathers in a quarter of a second.
const HELD_MAX: usize = 1 << 17;
/// Names that are told apart while they wait.
const NAMES_MAX: usize = 1 << 20;
/// Bytes of all of them; stacks are long.
const NAME_BYTES_MAX: usize = 64 << 20;
const FURTHER: &str = "(further names)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u32);

/// An event that holds no text.
#[derive(Debug, Clone, Copy)]
struct Kept {
    cpu: Option<u32>,
    task: Option<u32>,
    process: Option<u32>,
    what: KeptWhat,
}

#[derive(Debug, Clone, Copy)]
enum KeptWhat {
    Switch { from: (u32, Name), state: u8, to: (u32, Name) },
    Waking { task: (u32, Name), within: Within },
    Fork { parent: u32, child: (u32, Name), process: Option<u32> },
    Exec,
    Exit,
    Named { task: (u32, Name), process: Option<u32> },
    CallBegins { name: Name, number: Option<u16>, first: Option<u64> },
    CallEnds { name: Name, number: Option<u16>, result: i64 },
    DiskBegins(Disk),
    DiskEnds(Disk),
    Mark { edge: Edge, key: Option<Name>, name: Option<Name> },
    Request { begun_ns: u64, name: Name, status: Option<u16>, has_failed: bool },
    Stretch { begun_ns: u64, name: Name },
    Sample { stack: Name, weight_ns: u64 },
    Lost(u64),
    Other(Name),
}

#[derive(Debug, Default)]
struct Names {
    numbers: FxHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    bytes: usize,
}

impl Names {
    fn keep(&mut self, text: &str) -> Name {
        if let Some(known) = self.numbers.get(text) {
            return Name(*known);
        }
        let is_full = self.texts.len() >= NAMES_MAX || self.bytes + text.len() > NAME_BYTES_MAX;
        if is_full && text != FURTHER {
            return self.keep(FURTHER);
        }
        let number = self.texts.len() as u32;
        self.bytes += text.len();
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        Name(number)
    }

    fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }

    fn keep_task(&mut self, task: Task<'_>) -> (u32, Name) {
        (task.number, self.keep(task.name))
    }

    fn task(&self, (number, name): (u32, Name)) -> Task<'_> {
        Task { number, name: self.text(name) }
    }

    fn keep_what(&mut self, what: What<'_>) -> KeptWhat {
        match what {
            What::Switch { from, state, to } => {
                KeptWhat::Switch { from: self.keep_task(from), state, to: self.keep_task(to) }
            }
            What::Waking { task, within } => KeptWhat::Waking { task: self.keep_task(task), within },
            What::Fork { parent, child, process } => KeptWhat::Fork { parent, child: self.keep_task(child), process },
            What::Exec => KeptWhat::Exec,
            What::Exit => KeptWhat::Exit,
            What::Named { task, process } => KeptWhat::Named { task: self.keep_task(task), process },
            What::CallBegins(Call { name, number, first }) => {
                KeptWhat::CallBegins { name: self.keep(name), number, first }
            }
            What::CallEnds { call, result } => {
                KeptWhat::CallEnds { name: self.keep(call.name), number: call.number, result }
            }
            What::DiskBegins(disk) => KeptWhat::DiskBegins(disk),
            What::DiskEnds(disk) => KeptWhat::DiskEnds(disk),
            What::Mark(Mark { edge, key, name }) => {
                KeptWhat::Mark { edge, key: key.map(|key| self.keep(key)), name: name.map(|name| self.keep(name)) }
            }
            What::Request(Request { begun_ns, name, status, has_failed }) => {
                KeptWhat::Request { begun_ns, name: self.keep(name), status, has_failed }
            }
            What::Stretch(Stretch { begun_ns, name }) => KeptWhat::Stretch { begun_ns, name: self.keep(name) },
            What::Sample { stack, weight_ns } => KeptWhat::Sample { stack: self.keep(stack), weight_ns },
            What::Lost(events) => KeptWhat::Lost(events),
            What::Other(name) => KeptWhat::Other(self.keep(name)),
        }
    }

    fn what(&self, what: KeptWhat) -> What<'_> {
        match what {
            KeptWhat::Switch { from, state, to } => What::Switch { from: self.task(from), state, to: self.task(to) },
            KeptWhat::Waking { task, within } => What::Waking { task: self.task(task), within },
            KeptWhat::Fork { parent, child, process } => What::Fork { parent, child: self.task(child), process },
            KeptWhat::Exec => What::Exec,
            KeptWhat::Exit => What::Exit,
            KeptWhat::Named { task, process } => What::Named { task: self.task(task), process },
            KeptWhat::CallBegins { name, number, first } => {
                What::CallBegins(Call { name: self.text(name), number, first })
            }
            KeptWhat::CallEnds { name, number, result } => {
                What::CallEnds { call: Call { name: self.text(name), number, first: None }, result }
            }
            KeptWhat::DiskBegins(disk) => What::DiskBegins(disk),
            KeptWhat::DiskEnds(disk) => What::DiskEnds(disk),
            KeptWhat::Mark { edge, key, name } => {
                What::Mark(Mark { edge, key: key.map(|key| self.text(key)), name: name.map(|name| self.text(name)) })
            }
            KeptWhat::Request { begun_ns, name, status, has_failed } => {
                What::Request(Request { begun_ns, name: self.text(name), status, has_failed })
            }
            KeptWhat::Stretch { begun_ns, name } => What::Stretch(Stretch { begun_ns, name: self.text(name) }),
            KeptWhat::Sample { stack, weight_ns } => What::Sample { stack: self.text(stack), weight_ns },
            KeptWhat::Lost(events) => What::Lost(events),
            KeptWhat::Other(name) => What::Other(self.text(name)),
        }
    }
}

/// Time, and the order in which the source told it; then where the event is kept.
type Place = Reverse<(u64, u64, usize)>;

/// Hands out what a reader hands out in the order of time, as far as [`HELD_MAX`] events reach; what is later still is
/// counted as lost.
pub(crate) fn sorted(
    mut take: impl FnMut(Event<'_>),
    read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError>,
) -> Result<Counts, ReadError> {
    let (mut names, mut order) = (Names::default(), BinaryHeap::<Place>::new());
    let (mut kept, mut free): (Vec<Kept>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut told, mut last_ns, mut late) = (0u64, 0u64, 0u64);
    let outcome = read(&mut |event| {
        if event.at_ns < last_ns && event.at_ns != 0 {
            late += 1;
            return;
        }
        let Event { at_ns, cpu, task, process, what } = event;
        let event = Kept { cpu, task, process, what: names.keep_what(what) };
        let place = free.pop().unwrap_or(kept.len());
        match kept.get_mut(place) {
            Some(room) => *room = event,
            None => kept.push(event),
        }
        order.push(Reverse((at_ns, told, place)));
        told += 1;
        if order.len() > HELD_MAX
            && let Some(Reverse((at_ns, _, place))) = order.pop()
        {
            last_ns = last_ns.max(at_ns);
            hand(&names, at_ns, kept[place], &mut take);
            free.push(place);
        }
    });
    while let Some(Reverse((at_ns, _, place))) = order.pop() {
        hand(&names, at_ns, kept[place], &mut take);
    }
    let mut counts = outcome?;
    if late > 0 {
        *counts.skipped.entry(Skipped::Late).or_default() += late;
    }
    Ok(counts)
}

fn hand(names: &Names, at_ns: u64, kept: Kept, take: &mut impl FnMut(Event<'_>)) {
    let Kept { cpu, task, process, what } = kept;
    take(Event { at_ns, cpu, task, process, what: names.what(what) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ns: u64) -> Event<'static> {
        Event { at_ns, cpu: None, task: None, process: None, what: What::Other("x") }
    }

    #[test]
    fn events_come_in_the_order_of_time_and_those_of_one_time_in_that_of_the_source() {
        let mut times = Vec::new();
        let read = |take: &mut dyn FnMut(Event<'_>)| {
            for at_ns in [30, 10, 20, 10] {
                take(at(at_ns));
            }
            Ok(Counts::default())
        };
        let counts = sorted(|event| times.push(event.at_ns), read).expect("it is read");
        assert_eq!((times, counts.skipped.len()), (vec![10, 10, 20, 30], 0));
    }

    #[test]
    fn what_comes_too_late_is_counted_and_not_told() {
        let mut last_ns = 0;
        let read = |take: &mut dyn FnMut(Event<'_>)| {
            (0..HELD_MAX as u64 + 10).for_each(|number| take(at(1_000 + number)));
            take(at(5));
            Ok(Counts::default())
        };
        let take = |event: Event<'_>| {
            assert!(event.at_ns >= last_ns, "{} after {last_ns}", event.at_ns);
            last_ns = event.at_ns;
        };
        let counts = sorted(take, read).expect("it is read");
        assert_eq!(counts.skipped.get(&Skipped::Late), Some(&1));
    }
}
