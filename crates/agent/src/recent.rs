//! What has finished lately, whole, so that relatives of a transaction are found when it turns out to be of interest.

use crate::definitions::{Described, Instance};
use crate::finished::Finished;
use crate::keyed::Keyed;
use crate::notes::Notes;
use crate::transaction::{Process, Status, Transaction, TransactionId, Wanted};
use crate::waits::ThreadTime;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use weir_wire::arm::Identity;

/// Transactions that are kept.
pub const MOST_RECENT: usize = 16_384;
/// Bytes that they may take.
pub const MOST_RECENT_BYTES: usize = 8 << 20;
/// Traces of which everything that comes is kept.
const MOST_TRACES: usize = 4096;
/// Relatives of one transaction.
pub const MOST_RELATIVES: usize = 200;

/// Buffers that are kept to be used again, and how large each may be.
const MOST_BUFFERS: usize = 16;
const MOST_BUFFER_BYTES: usize = 1024;

/// A transaction of this host or of another.
#[derive(Debug, Clone)]
pub enum Lately {
    /// It finished here.
    Here(Box<Finished>),
    /// Another host's agent told of it.
    Elsewhere(Arc<Transaction>),
}

/// What is seldom told of a transaction that finished here.
#[derive(Debug, Clone)]
struct Rest {
    /// A parent of another trace than its child's.
    parent: Option<Identity>,
    blocked_ns: u64,
    updates: u32,
    threads: Vec<ThreadTime>,
    /// What was told and read already.
    notes: Notes,
}

/// A transaction that finished here, in few bytes: of ten thousand a second each is written and, when it goes, read
/// where no cache has it any more.
#[derive(Debug, Clone)]
struct Small {
    process: Arc<Process>,
    described: Arc<Described>,
    instance: Option<Arc<Instance>>,
    user: Option<Arc<str>>,
    rest: Option<Box<Rest>>,
    start_ns: u64,
    duration_ns: u64,
    queued_ns: u64,
    /// Of a parent of its own trace; 0 = it has none of it.
    parent_span: u64,
    /// Its flags and its format.
    parent_marks: [u8; 2],
    status: Status,
    standard: u8,
    /// Of [`PARENT_HERE`] and its neighbours.
    marks: u8,
    class: u32,
    one_in: u32,
    thread: u32,
    children: u32,
}

const PARENT_HERE: u8 = 1;
const IS_CORRELATED: u8 = 2;
const IS_TRACED: u8 = 4;
const IS_REPORTED: u8 = 8;

impl Small {
    /// All of it but what was told and not read.
    fn of(finished: Finished) -> Self {
        let mark = |holds: bool, mark: u8| if holds { mark } else { 0 };
        let marks = mark(finished.parent_here, PARENT_HERE)
            | mark(finished.correlated, IS_CORRELATED)
            | mark(finished.traced, IS_TRACED)
            | mark(finished.reported, IS_REPORTED);
        let plain = finished.parent.filter(|parent| parent.trace == finished.id.trace && parent.span != 0);
        let other = finished.parent.filter(|_| plain.is_none());
        let has_rest = other.is_some()
            || finished.blocked_ns > 0
            || finished.updates > 0
            || !finished.threads.is_empty()
            || !finished.notes.is_empty();
        let Finished { blocked_ns, updates, threads, notes, .. } = finished;
        let rest = has_rest.then(|| Box::new(Rest { parent: other, blocked_ns, updates, threads, notes }));
        Self {
            process: finished.process,
            described: finished.described,
            instance: finished.instance,
            user: finished.user,
            rest,
            start_ns: finished.start_ns,
            duration_ns: finished.duration_ns,
            queued_ns: finished.queued_ns,
            parent_span: plain.map_or(0, |parent| parent.span),
            parent_marks: plain.map_or([0; 2], |parent| [parent.flags, parent.format]),
            status: finished.status,
            standard: finished.standard,
            marks,
            class: finished.class,
            one_in: finished.one_in,
            thread: finished.thread,
            children: finished.children,
        }
    }

    /// As it was, with what was told of it as it came.
    fn whole(&self, id: TransactionId, raw: Vec<u8>) -> Finished {
        let [flags, format] = self.parent_marks;
        let plain = Identity { trace: id.trace, span: self.parent_span, flags, format };
        let rest = self.rest.as_deref();
        let read = rest.map(|rest| rest.notes.clone()).unwrap_or_default();
        Finished {
            process: Arc::clone(&self.process),
            described: Arc::clone(&self.described),
            instance: self.instance.clone(),
            class: self.class,
            one_in: self.one_in,
            id,
            parent: rest.and_then(|rest| rest.parent).or_else(|| (self.parent_span != 0).then_some(plain)),
            parent_here: self.marks & PARENT_HERE != 0,
            correlated: self.marks & IS_CORRELATED != 0,
            traced: self.marks & IS_TRACED != 0,
            reported: self.marks & IS_REPORTED != 0,
            standard: self.standard,
            status: self.status,
            thread: self.thread,
            start_ns: self.start_ns,
            duration_ns: self.duration_ns,
            queued_ns: self.queued_ns,
            blocked_ns: rest.map_or(0, |rest| rest.blocked_ns),
            updates: rest.map_or(0, |rest| rest.updates),
            children: self.children,
            user: self.user.clone(),
            threads: rest.map(|rest| rest.threads.clone()).unwrap_or_default(),
            notes: if raw.is_empty() { read } else { Notes::of_raw(raw) },
        }
    }
}

#[derive(Debug)]
enum Entry {
    Here(Small),
    Elsewhere(Arc<Transaction>),
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Here(small) => {
                let rest = small.rest.as_ref();
                let rest = rest.map(|rest| size_of::<Rest>() + size_of_val(&*rest.threads) + rest.notes.bytes());
                size_of::<Self>() + rest.unwrap_or(0)
            }
            // Its texts have bounds of their own where they are taken in; this is what a usual one takes.
            Self::Elsewhere(_) => 2 * size_of::<Transaction>(),
        }
    }
}

/// Words of traces that are compared at once.
const WORDS_AT_ONCE: usize = 128;

/// A word of a trace, in which both of its halves count.
fn word_of(trace: [u64; 2]) -> u32 {
    let both = trace[0] ^ trace[1].rotate_left(32);
    (both ^ both >> 32) as u32
}

/// What has finished lately.
#[derive(Debug, Default)]
pub struct Recent {
    /// Ids apart from the rest, as all of them are looked through; and how many of the bytes are what was told of each.
    ids: VecDeque<(TransactionId, u32)>,
    /// Of each trace a word, to look for one in a sixteenth of the memory.
    traces: VecDeque<u32>,
    entries: VecDeque<Entry>,
    /// What was told of them, as it came, behind each other: so nothing of it is an allocation by itself.
    raw: VecDeque<u8>,
    bytes: usize,
    buffers: Vec<Vec<u8>>,
}

impl Recent {
    /// Takes one that finished here.
    pub fn push(&mut self, mut finished: Finished) {
        let id = finished.id;
        let mut raw = finished.notes.take_raw();
        let entry = Entry::Here(Small::of(finished));
        self.make_room(entry.bytes() + raw.len());
        self.add(id, entry, raw.len());
        if raw.capacity() > 0 {
            self.raw.extend(&raw);
            if self.buffers.len() < MOST_BUFFERS && raw.capacity() <= MOST_BUFFER_BYTES {
                raw.clear();
                self.buffers.push(raw);
            }
        }
    }

    /// Takes one that another host's agent told of.
    pub fn push_other(&mut self, transaction: Arc<Transaction>) {
        let (id, entry) = (transaction.id, Entry::Elsewhere(transaction));
        self.make_room(entry.bytes());
        self.add(id, entry, 0);
    }

    /// The oldest go, before one of so many bytes comes: so the queues do not grow beyond what they hold.
    fn make_room(&mut self, bytes: usize) {
        while self.entries.len() >= MOST_RECENT || self.bytes + bytes > MOST_RECENT_BYTES {
            let (Some((_, raw_bytes)), Some(gone)) = (self.ids.pop_front(), self.entries.pop_front()) else { break };
            self.traces.pop_front();
            self.bytes -= gone.bytes() + raw_bytes as usize;
            self.raw.drain(..raw_bytes as usize);
        }
    }

    fn add(&mut self, id: TransactionId, entry: Entry, raw_bytes: usize) {
        self.bytes += entry.bytes() + raw_bytes;
        self.ids.push_back((id, raw_bytes as u32));
        self.traces.push_back(word_of(id.trace));
        self.entries.push_back(entry);
    }

    /// An empty buffer for what is told of a transaction, which has room already if there is one.
    #[must_use]
    pub fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Those that are wanted, the oldest first, at most `most`.
    #[must_use]
    pub fn find(&self, wanted: Wanted, most: usize) -> Vec<Lately> {
        let (mut found, mut from, mut raw_from) = (Vec::new(), 0, 0);
        for at in self.places(wanted).into_iter().take(most) {
            let raw_bytes = |range| self.ids.range(range).map(|(_, bytes)| *bytes as usize).sum::<usize>();
            raw_from += raw_bytes(from..at);
            from = at;
            found.extend(self.entries.get(at).map(|entry| match entry {
                Entry::Here(small) => {
                    let raw = self.raw.range(raw_from..raw_from + raw_bytes(at..at + 1)).copied().collect();
                    Lately::Here(Box::new(small.whole(self.ids[at].0, raw)))
                }
                Entry::Elsewhere(transaction) => Lately::Elsewhere(Arc::clone(transaction)),
            }));
        }
        found
    }

    /// Where those are that are wanted, ascending.
    fn places(&self, wanted: Wanted) -> Vec<usize> {
        let is_it = |at: &usize| wanted.is(&self.ids[*at].0);
        let Wanted::Trace(trace) = wanted else { return (0..self.ids.len()).filter(is_it).collect() };
        let (word, (first, second)) = (word_of(trace), self.traces.as_slices());
        let mut places = Vec::new();
        for (words, begins_at) in [(first, 0), (second, first.len())] {
            for (number, some) in words.chunks(WORDS_AT_ONCE).enumerate() {
                // All of them before any is looked at by itself: the compiler does that several at a time.
                if some.iter().fold(false, |is_there, other| is_there | (*other == word)) {
                    let at = begins_at + number * WORDS_AT_ONCE;
                    places.extend((at..at + some.len()).filter(is_it));
                }
            }
        }
        places
    }

    /// How many there are, and how many bytes they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

/// Places of counts of traces, a power of two: many more than there are traces.
const COUNTS: usize = 1 << 15;

/// Traces of which one was of interest, so that what comes of them later is as well.
#[derive(Debug)]
pub struct Traces {
    order: VecDeque<[u64; 2]>,
    known: HashSet<[u64; 2], Keyed>,
    /// How many of them have a place by their word: of nearly all that are asked for it says at once that they are not
    /// among them.
    counts: Vec<u16>,
}

impl Default for Traces {
    fn default() -> Self {
        Self { order: VecDeque::new(), known: HashSet::default(), counts: vec![0; COUNTS] }
    }
}

impl Traces {
    /// Notes one; the oldest goes.
    pub fn note(&mut self, trace: [u64; 2]) {
        if self.known.insert(trace) {
            self.order.push_back(trace);
            self.counts[place_of(trace)] += 1;
            if self.order.len() > MOST_TRACES
                && let Some(gone) = self.order.pop_front()
            {
                self.known.remove(&gone);
                self.counts[place_of(gone)] -= 1;
            }
        }
    }

    /// Whether it was noted.
    #[inline]
    #[must_use]
    pub fn has(&self, trace: [u64; 2]) -> bool {
        self.counts[place_of(trace)] != 0 && self.known.contains(&trace)
    }
}

fn place_of(trace: [u64; 2]) -> usize {
    word_of(trace) as usize % COUNTS
}

/// No place counts more than there are, and one more for a moment.
const _: () = assert!(MOST_TRACES < u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::unknown_transaction;
    use weir_measure::part::Part;
    use weir_wire::arm::{Detail, Field};

    fn finished(number: u64, notes: Notes) -> Finished {
        Finished {
            process: Arc::new(Process { pid: 1, uid: 2, command: "shop".to_owned() }),
            described: Arc::new(unknown_transaction(None)),
            instance: None,
            class: 3,
            one_in: 4,
            id: TransactionId { trace: [5, 6], span: number },
            parent: None,
            parent_here: number.is_multiple_of(2),
            correlated: number.is_multiple_of(3),
            traced: number.is_multiple_of(5),
            reported: number.is_multiple_of(7),
            standard: 4,
            status: Status::Failed,
            thread: 7,
            start_ns: 8,
            duration_ns: 9,
            queued_ns: 10,
            blocked_ns: 0,
            updates: 0,
            children: 13,
            user: Some("customer".into()),
            threads: Vec::new(),
            notes,
        }
    }

    fn notes(number: u64) -> Notes {
        let mut notes = Notes::default();
        let detail = Detail { field: Field::Uri as u8, index: 0, offset: 0, whole_bytes: 8 };
        notes.piece(detail, &[[number, 0, 0, 0]], usize::MAX, Vec::new);
        notes
    }

    #[test]
    fn what_is_found_is_as_it_came() {
        let mut recent = Recent::default();
        let mut came = Vec::new();
        for number in 0..60 {
            let mut one = finished(number, if number % 4 == 1 { Notes::default() } else { notes(number) });
            if number % 3 == 1 {
                one.threads = vec![ThreadTime { thread: 7, parts: [number; Part::COUNT] }];
                (one.blocked_ns, one.updates) = (11, 12);
                one.notes.attributes().wait(1, true, 5);
            }
            // Of its own trace, of another, one that is none of ours.
            let parents = [([5, 6], 9), ([5, 7], 9), ([5, 6], 0)];
            let parent = parents.get(number as usize % 4).copied();
            one.parent = parent.map(|(trace, span)| Identity { trace, span, flags: 1, format: 2 });
            came.push(one.clone());
            recent.push(one);
        }
        let found = recent.find(Wanted::Trace([5, 6]), 100);
        assert_eq!(found.len(), came.len());
        for (found, came) in found.iter().zip(&came) {
            let Lately::Here(found) = found else { panic!("{found:?}") };
            assert_eq!(found.describe("host", 0), came.describe("host", 0));
            assert_eq!((found.notes.raw(), found.parent, found.class), (came.notes.raw(), came.parent, came.class));
            assert_eq!(found.correlated, came.correlated);
        }
        assert_eq!(recent.find(Wanted::Span(33), 100).len(), 1);
        assert_eq!(recent.find(Wanted::Trace([5, 6]), 7).len(), 7);
        // The same word, another trace.
        let other = [5 ^ 1 << 32, 6 ^ 1];
        assert!(word_of(other) == word_of([5, 6]) && recent.find(Wanted::Trace(other), 7).is_empty());
    }

    #[test]
    fn those_of_a_trace_are_found_wherever_they_stand() {
        let mut recent = Recent::default();
        let count = MOST_RECENT as u64 + 5_000;
        for number in 0..count {
            let mut one = finished(number, Notes::default());
            one.id.trace = [number / 3, 7];
            recent.push(one);
        }
        for trace in count / 3 - MOST_RECENT as u64 / 3 + 1..count / 3 {
            let found = recent.find(Wanted::Trace([trace, 7]), 100);
            let spans: Vec<u64> =
                found.iter().map(|one| if let Lately::Here(one) = one { one.id.span } else { 0 }).collect();
            assert_eq!(spans, [3 * trace, 3 * trace + 1, 3 * trace + 2]);
        }
        assert!(recent.find(Wanted::Trace([1, 7]), 100).is_empty(), "it has gone");
        assert_eq!(
            (recent.ids.len(), recent.traces.len(), recent.entries.len()),
            (MOST_RECENT, MOST_RECENT, MOST_RECENT)
        );
    }

    #[test]
    fn the_oldest_go_and_the_bounds_hold() {
        let mut recent = Recent::default();
        for number in 0..2 * MOST_RECENT as u64 {
            recent.push(finished(number, notes(number)));
        }
        assert_eq!(recent.size().0, MOST_RECENT);
        assert!(recent.size().1 <= MOST_RECENT_BYTES && recent.entries.capacity() < 2 * MOST_RECENT);
        assert!(recent.find(Wanted::Span(7), 1).is_empty());
        let last = recent.find(Wanted::Span(2 * MOST_RECENT as u64 - 1), 1);
        let Some(Lately::Here(last)) = last.first() else { panic!("{last:?}") };
        assert_eq!(last.notes.raw(), notes(2 * MOST_RECENT as u64 - 1).raw());
        let long = vec![[0; 4]; 8];
        for number in 0..20_000 {
            let mut notes = Notes::default();
            for index in 0..12 {
                let detail = Detail { field: Field::ContextValue as u8, index, offset: 0, whole_bytes: 256 };
                notes.piece(detail, &long, usize::MAX, Vec::new);
            }
            recent.push(finished(number, notes));
        }
        assert!(recent.size().0 < MOST_RECENT && recent.size().1 <= MOST_RECENT_BYTES);
        assert!(recent.raw.len() <= MOST_RECENT_BYTES && recent.buffers.len() <= MOST_BUFFERS);
    }

    #[test]
    fn traces_are_known_until_as_many_others_were_noted() {
        let mut traces = Traces::default();
        // Those of one place, as a client may choose them, among others.
        let trace = |number: u64| if number.is_multiple_of(2) { [number << 32, number] } else { [number, 1 << 40] };
        let all = 3 * MOST_TRACES as u64;
        for number in 0..all {
            assert!(!traces.has(trace(number)));
            traces.note(trace(number));
            traces.note(trace(number));
            assert!(traces.has(trace(number)));
        }
        let known = (0..all).filter(|number| traces.has(trace(*number)));
        assert!(known.eq(all - MOST_TRACES as u64..all));
        let counted: usize = traces.counts.iter().map(|count| usize::from(*count)).sum();
        assert_eq!((counted, traces.known.len(), traces.order.len()), (MOST_TRACES, MOST_TRACES, MOST_TRACES));
    }
}
