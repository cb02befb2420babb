//! Events in the order of time, of a source that tells them somewhat out of it.

use crate::{Call, Counts, Disk, Edge, Ends, Event, Mark, ReadError, Request, Skipped, Stretch, Task, What, Within};
use rustc_hash::FxHashMap;

/// Events that wait for earlier ones, at least; twice as many at most. Perfetto's are out of order by what the kernel
/// gathers in a quarter of a second.
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
    Arrives { ends: u32, bytes: u32, socket: Option<u64> },
    Ready { socket: u64 },
    Takes(u32),
    Tcp { ends: u32, is_over: bool },
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
    /// Ends of connections, which take more room than all else that an event says.
    ends: Vec<Ends>,
    ends_by_value: FxHashMap<Ends, u32>,
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

    fn keep_ends(&mut self, ends: Ends) -> u32 {
        let Self { ends: all, ends_by_value, .. } = self;
        *ends_by_value.entry(ends).or_insert_with(|| {
            all.push(ends);
            all.len() as u32 - 1
        })
    }

    fn ends(&self, ends: u32) -> Ends {
        self.ends[ends as usize]
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
            What::Arrives { ends, bytes, socket } => KeptWhat::Arrives { ends: self.keep_ends(ends), bytes, socket },
            What::Ready { socket } => KeptWhat::Ready { socket },
            What::Takes(ends) => KeptWhat::Takes(self.keep_ends(ends)),
            What::Tcp { ends, is_over } => KeptWhat::Tcp { ends: self.keep_ends(ends), is_over },
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
            KeptWhat::Arrives { ends, bytes, socket } => What::Arrives { ends: self.ends(ends), bytes, socket },
            KeptWhat::Ready { socket } => What::Ready { socket },
            KeptWhat::Takes(ends) => What::Takes(self.ends(ends)),
            KeptWhat::Tcp { ends, is_over } => What::Tcp { ends: self.ends(ends), is_over },
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

/// Events that wait, in the order in which the source told them. They are sorted when there are twice as many as have to
/// wait, and the earlier half is handed out: a source is nearly in order, so that a sort that takes what is in order as
/// it is costs less than a heap does.
#[derive(Default)]
struct Waiting {
    names: Names,
    /// Times, and where the event is kept.
    order: Vec<(u64, u32)>,
    kept: Vec<Kept>,
    /// The memory that those which wait on are moved to, in their order: so that they lie side by side again.
    other: Vec<Kept>,
    /// The time of what was handed out last.
    last_ns: u64,
    late: u64,
}

impl Waiting {
    fn push(&mut self, event: Event<'_>) {
        let Event { at_ns, cpu, task, process, what } = event;
        if at_ns < self.last_ns && at_ns != 0 {
            self.late += 1;
            return;
        }
        let what = self.names.keep_what(what);
        self.order.push((at_ns, self.kept.len() as u32));
        self.kept.push(Kept { cpu, task, process, what });
    }

    /// Hands out the earliest ones.
    fn hand_out(&mut self, events: usize, take: &mut impl FnMut(Event<'_>)) {
        // By the time alone: a stable sort keeps those of one time in the order of the source.
        self.order.sort_by_key(|(at_ns, _)| *at_ns);
        for (at_ns, place) in self.order.drain(..events) {
            self.last_ns = self.last_ns.max(at_ns);
            let Kept { cpu, task, process, what } = self.kept[place as usize];
            take(Event { at_ns, cpu, task, process, what: self.names.what(what) });
        }
        self.other.clear();
        for (_, place) in &mut self.order {
            self.other.push(self.kept[*place as usize]);
            *place = self.other.len() as u32 - 1;
        }
        std::mem::swap(&mut self.kept, &mut self.other);
        if self.names.texts.len().max(self.names.ends.len()) > NAMES_MAX / 2 || self.names.bytes > NAME_BYTES_MAX / 2 {
            self.forget_names();
        }
    }

    /// Keeps the names alone that events have which wait: each request may have a key of its own.
    fn forget_names(&mut self) {
        let before = std::mem::take(&mut self.names);
        for kept in &mut self.kept {
            kept.what = self.names.keep_what(before.what(kept.what));
        }
    }
}

/// Hands out what a reader hands out in the order of time, as far as [`HELD_MAX`] events reach; what is later still is
/// counted as lost.
pub(crate) fn sorted(
    mut take: impl FnMut(Event<'_>),
    read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError>,
) -> Result<Counts, ReadError> {
    let mut waiting = Waiting::default();
    let outcome = read(&mut |event| {
        waiting.push(event);
        if waiting.order.len() >= 2 * HELD_MAX {
            waiting.hand_out(HELD_MAX, &mut take);
        }
    });
    waiting.hand_out(waiting.order.len(), &mut take);
    let mut counts = outcome?;
    if waiting.late > 0 {
        *counts.skipped.entry(Skipped::Late).or_default() += waiting.late;
    }
    Ok(counts)
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
        let (mut last_ns, mut told) = (0, 0);
        let read = |take: &mut dyn FnMut(Event<'_>)| {
            (0..2 * HELD_MAX as u64 - 1).for_each(|number| take(at(1_000 + number)));
            // As many are held as this one is early by.
            take(at(500));
            take(at(600));
            Ok(Counts::default())
        };
        let take = |event: Event<'_>| {
            assert!(event.at_ns >= last_ns, "{} after {last_ns}", event.at_ns);
            (last_ns, told) = (event.at_ns, told + 1);
        };
        let counts = sorted(take, read).expect("it is read");
        assert_eq!((counts.skipped.get(&Skipped::Late), told), (Some(&1), 2 * HELD_MAX));
    }

    #[test]
    fn events_come_as_they_went() {
        use crate::End;
        let end = |port| End { address: 0xffff << 32, port };
        let ends = |port| Ends { local: end(80), remote: end(port) };
        let task = |number, name| Task { number, name };
        let call = Call { name: "read", number: Some(0), first: None };
        let all = [
            What::Arrives { ends: ends(5_000), bytes: 7, socket: Some(9) },
            What::Takes(ends(5_001)),
            What::Tcp { ends: ends(5_000), is_over: true },
            What::Switch { from: task(1, "a"), state: 2, to: task(3, "b") },
            What::CallEnds { call, result: -11 },
            What::Mark(Mark { edge: Edge::End, key: Some("7"), name: None }),
            What::Stretch(Stretch { begun_ns: 3, name: "b" }),
        ];
        let mut told = 0;
        let read = |take: &mut dyn FnMut(Event<'_>)| {
            for (index, what) in all.iter().enumerate().rev() {
                take(Event { what: *what, ..at(1 + index as u64) });
            }
            Ok(Counts::default())
        };
        let take = |event: Event<'_>| {
            assert_eq!(event.what, all[told]);
            told += 1;
        };
        sorted(take, read).expect("it is read");
        assert_eq!(told, all.len());
    }

    #[test]
    fn names_that_no_event_has_any_more_make_room_for_others() {
        let (count, mut told) = (NAMES_MAX as u64 + 1, 0);
        let read = |take: &mut dyn FnMut(Event<'_>)| {
            (0..count).for_each(|number| take(Event { what: What::Other(&number.to_string()), ..at(number) }));
            Ok(Counts::default())
        };
        let take = |event: Event<'_>| told += u64::from(event.what == What::Other(&event.at_ns.to_string()));
        sorted(take, read).expect("it is read");
        assert_eq!(told, count);
    }
}
