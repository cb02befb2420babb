//! Transactions as `weir explain` takes them: phases of the threads that ran them, and names of the requests that they
//! answered.
//!
//! A transaction is told when it is over, but a run's records stand in the order of their times; so what comes is kept
//! until it is asked for, within a bound. A transaction that began before the last time that this happened, and ended
//! after it, begins there.

use crate::transaction::Transaction;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use weir_wire::arm::Token;
use weir_wire::probe::{BY_APPLICATION, END, GOES_ON, INTERLEAVED, PHASE, ProbePoint, REQUEST};
use weir_wire::{Kind, Record};

/// Stretches that wait to be told; beyond, the older half must be.
const MOST_WAITING: usize = 1 << 20;
/// Transactions that are told apart by name: each has up to six points, of which readers take 4,096.
const MOST_NAMES: usize = 4096 / 6;
/// Threads whose transactions are told apart.
const MOST_THREADS: usize = 1 << 16;
/// Transactions that a thread may be in at a time.
const MOST_OPEN: usize = 64;
/// The records' lane: far from those of CPUs, whose hits have texts of their own.
const LANE: u32 = 1 << 30;

/// A thread's time in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    from_ns: u64,
    to_ns: u64,
    thread: u32,
    /// The transaction's number among the names.
    name: u16,
    /// It has no parent in the same process: it answers a request.
    outermost: bool,
    /// It began before, in a piece that was told already.
    goes_on: bool,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Name {
    application: String,
    transaction: String,
}

/// Hands on a record, with the number and the text that it names.
pub type Take<'a> = dyn FnMut(Record, (u32, &str)) + 'a;

/// Puts transactions into the order of a run.
#[derive(Debug, Default)]
pub struct Phases {
    waiting: Vec<Stretch>,
    names: Vec<Name>,
    numbers: HashMap<Name, u16>,
    texts: HashMap<String, u32>,
    /// Threads that went from one transaction to another before the first was over: what they do is for the request
    /// that they are at.
    interleaved: HashSet<u32>,
    told_ns: u64,
    lost: u64,
}

impl Phases {
    /// Takes a transaction. `true`: [`Phases::tell`] should be asked for the older half of what waits.
    pub fn push(&mut self, transaction: &Transaction) -> bool {
        // What was measured elsewhere was no thread's work here.
        if transaction.reported {
            return false;
        }
        let Some(name) = self.number(transaction) else {
            self.lost += 1;
            return false;
        };
        let outermost = transaction.parent.is_none_or(|parent| !Token::is_same(parent.span, transaction.id.span));
        let details = &transaction.details;
        let begin_ns = transaction.start_ns.saturating_add(transaction.queued_ns);
        let own = [(transaction.thread, begin_ns, transaction.end_ns())];
        let bound = details.bound.iter().map(|bound| (bound.thread, bound.from_ns, bound.to_ns));
        let stretches: Vec<_> = if details.bound.is_empty() { own.into() } else { bound.collect() };
        for (thread, from_ns, to_ns) in stretches {
            if thread == 0 || to_ns < from_ns {
                continue;
            }
            // Even what took no time begins before it ends.
            let to_ns = to_ns.max(from_ns.saturating_add(1));
            if to_ns <= self.told_ns || self.waiting.len() >= MOST_WAITING {
                self.lost += 1;
                continue;
            }
            let goes_on = from_ns < self.told_ns;
            let from_ns = from_ns.max(self.told_ns);
            self.waiting.push(Stretch { from_ns, to_ns, thread, name, outermost, goes_on });
        }
        self.waiting.len() >= MOST_WAITING
    }

    /// Tells everything up to a time, and forgets it; what began by then and goes on will go on in the next piece.
    pub fn tell(&mut self, until_ns: u64, take: &mut Take<'_>) {
        if until_ns <= self.told_ns {
            return;
        }
        let mut now: Vec<Stretch> = Vec::new();
        self.waiting.retain_mut(|stretch| {
            if stretch.from_ns >= until_ns {
                return true;
            }
            let goes_on = stretch.to_ns > until_ns;
            now.push(Stretch { to_ns: stretch.to_ns.min(until_ns), ..*stretch });
            (stretch.from_ns, stretch.goes_on) = (until_ns, true);
            goes_on
        });
        self.told_ns = until_ns;
        let events = events(&now);
        self.look_for_interleaving(&now, &events);
        let mut threads: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at_ns, _, is_begin, index) in events {
            let Some(stretch) = now.get(index).copied() else { continue };
            if threads.len() >= MOST_THREADS && !threads.contains_key(&stretch.thread) {
                self.lost += u64::from(is_begin);
                continue;
            }
            let open = threads.entry(stretch.thread).or_default();
            if is_begin {
                if open.len() >= MOST_OPEN {
                    self.lost += 1;
                    continue;
                }
                open.push(index);
                self.begin(at_ns, stretch, stretch.goes_on, take);
                continue;
            }
            let Some(place) = open.iter().rposition(|one| *one == index) else { continue };
            open.remove(place);
            // Those of one application hide each other; the one that began last is what the thread is at.
            let same = |other: &&usize| {
                now.get(**other).is_some_and(|other| self.application(other.name) == self.application(stretch.name))
            };
            if open.iter().skip(place).any(|other| same(&other)) {
                continue;
            }
            match open.iter().rev().find(same).and_then(|outer| now.get(*outer)).copied() {
                Some(outer) => self.begin(at_ns, outer, true, take),
                None => self.end(at_ns, stretch, take),
            }
        }
    }

    /// Tells all that is left.
    pub fn finish(&mut self, take: &mut Take<'_>) {
        self.tell(u64::MAX, take);
    }

    /// Half of what waits began by then.
    #[must_use]
    pub fn median_ns(&self) -> u64 {
        let mut begins: Vec<u64> = self.waiting.iter().map(|stretch| stretch.from_ns).collect();
        let middle = begins.len() / 2;
        if begins.is_empty() { self.told_ns } else { *begins.select_nth_unstable(middle).1 }
    }

    /// Stretches that are not told: they came too late, or there were too many of something.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn number(&mut self, transaction: &Transaction) -> Option<u16> {
        let name = Name { application: transaction.application.clone(), transaction: transaction.name.clone() };
        if let Some(number) = self.numbers.get(&name) {
            return Some(*number);
        }
        if self.names.len() >= MOST_NAMES {
            return None;
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Some(number)
    }

    fn application(&self, name: u16) -> &str {
        self.names.get(usize::from(name)).map_or("", |name| &name.application)
    }

    /// Finds threads that end something that is not what they began last.
    fn look_for_interleaving(&mut self, now: &[Stretch], events: &[Event]) {
        let mut threads: HashMap<u32, Vec<usize>> = HashMap::new();
        for (_, _, is_begin, index) in events {
            let Some(stretch) = now.get(*index) else { continue };
            let open = threads.entry(stretch.thread).or_default();
            if *is_begin {
                open.push(*index);
            } else if let Some(place) = open.iter().rposition(|one| one == index) {
                open.remove(place);
                if place < open.len() && self.interleaved.len() < MOST_THREADS {
                    self.interleaved.insert(stretch.thread);
                }
            }
        }
    }

    fn begin(&mut self, at_ns: u64, stretch: Stretch, goes_on: bool, take: &mut Take<'_>) {
        let is_request = stretch.outermost && !goes_on;
        let roles = PHASE | if is_request { REQUEST } else { 0 };
        self.hit(at_ns, stretch, (roles, if goes_on { GOES_ON } else { 0 }), take);
        let name = self.names.get(usize::from(stretch.name)).filter(|_| is_request);
        let Some(text) = name.map(|name| format!("{}/{}", name.application, name.transaction)) else { return };
        let id = self.text(&text);
        let kind = Kind::ProbeText as u16;
        take(Record { time_ns: at_ns, kind, lane: LANE, b: u64::from(id), ..Record::default() }, (id, &text));
    }

    fn end(&mut self, at_ns: u64, stretch: Stretch, take: &mut Take<'_>) {
        self.hit(at_ns, stretch, (END, 0), take);
    }

    fn hit(&mut self, at_ns: u64, stretch: Stretch, (roles, flags): (u16, u8), take: &mut Take<'_>) {
        let Some(Name { application, transaction }) = self.names.get(usize::from(stretch.name)).cloned() else {
            return;
        };
        let roles = roles | if self.interleaved.contains(&stretch.thread) { INTERLEAVED } else { 0 };
        let text = ProbePoint { server: application, name: transaction, roles }.write();
        let id = self.text(&text);
        let record = Record {
            time_ns: at_ns,
            kind: Kind::ProbeHit as u16,
            flags: BY_APPLICATION | flags,
            lane: LANE,
            a: u64::from(stretch.thread),
            b: u64::from(id),
            ..Record::default()
        };
        take(record, (id, &text));
    }

    /// The number of a text; as there are bounded many names, there are of these.
    fn text(&mut self, text: &str) -> u32 {
        let next = self.texts.len() as u32 + 1;
        match self.texts.get(text) {
            Some(id) => *id,
            None => {
                self.texts.insert(text.to_owned(), next);
                next
            }
        }
    }
}

/// (when, order among those of one time, whether it begins, which stretch).
type Event = (u64, (bool, Reverse<u64>), bool, usize);

/// Begins and ends in their order: of one time first the ends, then the begins of what lasts longest.
fn events(stretches: &[Stretch]) -> Vec<Event> {
    let ends =
        stretches.iter().enumerate().map(|(index, one)| (one.to_ns, (false, Reverse(one.from_ns)), false, index));
    let begins =
        stretches.iter().enumerate().map(|(index, one)| (one.from_ns, (true, Reverse(one.to_ns)), true, index));
    let mut events: Vec<Event> = ends.chain(begins).collect();
    events.sort_unstable();
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::testing::{TOKEN, transaction};
    use crate::transaction::{Bound, Details, TransactionId};
    use proptest::prelude::*;
    use weir_wire::arm::Handle;

    fn of(name: &str, from_ns: u64, to_ns: u64) -> Transaction {
        Transaction { start_ns: from_ns, ..transaction("shop", name, to_ns - from_ns) }
    }

    /// What is told, in words: when, what, of which thread.
    fn told(phases: &mut Phases, until_ns: u64) -> Vec<String> {
        let mut out = Vec::new();
        phases.tell(until_ns, &mut |record, (_, text)| {
            let Some(point) = ProbePoint::read(text) else {
                return out.push(format!("{} is {text}", record.time_ns));
            };
            let on = if record.flags & GOES_ON != 0 { "goes on with" } else { "begins" };
            let word = if point.roles & END != 0 { "ends" } else { on };
            let among = if point.roles & INTERLEAVED != 0 { " among others" } else { "" };
            out.push(format!("{} {} {word} {}{among}", record.time_ns, record.a, point.name));
        });
        out
    }

    #[test]
    fn what_is_within_another_hides_it_and_names_no_request() {
        let mut phases = Phases::default();
        let outer = of("buy", 10, 90);
        let inner = Transaction { parent: Some(outer.id), ..of("ask", 30, 50) };
        // Children end first.
        phases.push(&inner);
        phases.push(&outer);
        let expected = [
            "10 4712 begins buy",
            "10 is shop/buy",
            "30 4712 begins ask",
            "50 4712 goes on with buy",
            "90 4712 ends buy",
        ];
        assert_eq!(told(&mut phases, 1000), expected);
        // A transaction whose parent is in another process answers a request.
        let stranger = TransactionId { trace: [1, 2], span: 3 };
        phases.push(&Transaction { parent: Some(stranger), ..of("pay", 2000, 2001) });
        assert_eq!(told(&mut phases, 3000)[1], "2000 is shop/pay");
    }

    #[test]
    fn applications_do_not_hide_each_other() {
        let mut phases = Phases::default();
        let outer = of("buy", 10, 90);
        phases.push(&Transaction { application: "bank".to_owned(), parent: Some(outer.id), ..of("pay", 30, 50) });
        phases.push(&outer);
        let told = told(&mut phases, 1000);
        assert_eq!(told[2..], ["30 4712 begins pay", "50 4712 ends pay", "90 4712 ends buy"]);
    }

    #[test]
    fn threads_that_were_bound_are_those_that_count() {
        let mut phases = Phases::default();
        let bound = vec![Bound { thread: 8, from_ns: 20, to_ns: 30 }, Bound { thread: 9, from_ns: 40, to_ns: 40 }];
        let details = Box::new(Details { bound, ..Details::default() });
        phases.push(&Transaction { details, ..of("buy", 10, 90) });
        let told = told(&mut phases, 1000);
        assert_eq!(
            told,
            [
                "20 8 begins buy",
                "20 is shop/buy",
                "30 8 ends buy",
                "40 9 begins buy",
                "40 is shop/buy",
                "41 9 ends buy"
            ]
        );
        // A reported transaction was measured by the application itself, so no thread here spent its time.
        phases.push(&Transaction { reported: true, ..of("buy", 2000, 2001) });
        assert_eq!(phases.median_ns(), 1000);
    }

    #[test]
    fn an_event_loop_is_known_by_what_it_ends() {
        let mut phases = Phases::default();
        phases.push(&of("one", 10, 50));
        phases.push(&of("two", 20, 70));
        phases.push(&Transaction { thread: 1, ..of("plain", 5, 6) });
        let told = told(&mut phases, 1000);
        assert_eq!(told[..2], ["5 1 begins plain", "5 is shop/plain"]);
        assert_eq!(
            told[3..],
            [
                "10 4712 begins one among others",
                "10 is shop/one",
                "20 4712 begins two among others",
                "20 is shop/two",
                "70 4712 ends two among others"
            ]
        );
    }

    #[test]
    fn what_is_told_in_pieces_goes_on_and_what_comes_too_late_is_counted() {
        let mut phases = Phases::default();
        phases.push(&of("long", 10, 5000));
        assert_eq!(told(&mut phases, 1000), ["10 4712 begins long", "10 is shop/long", "1000 4712 ends long"]);
        phases.push(&Transaction { thread: 7, ..of("longer", 500, 3000) });
        phases.push(&of("late", 500, 900));
        assert_eq!(phases.lost(), 1);
        let again = told(&mut phases, u64::MAX);
        let expected =
            ["1000 4712 goes on with long", "1000 7 goes on with longer", "3000 7 ends longer", "5000 4712 ends long"];
        assert_eq!(again, expected);
    }

    proptest! {
        /// Times ascend, and within each piece a thread is in a transaction exactly while one of it runs.
        #[test]
        fn every_moment_of_a_thread_is_told(
            spans in proptest::collection::vec((0u64..500, 1u64..200, 1u32..3, any::<bool>()), 1..30),
            pieces in proptest::collection::vec(1u64..700, 0..3),
        ) {
            let mut phases = Phases::default();
            let mut stretches = Vec::new();
            for (number, (from_ns, length_ns, thread, inner)) in spans.into_iter().enumerate() {
                let span = TOKEN.span(Handle::new(1, 0, 7));
                let parent = inner.then_some(TransactionId { trace: TOKEN.trace(span), span });
                phases.push(&Transaction { thread, parent, ..of(&(number % 5).to_string(), from_ns, from_ns + length_ns) });
                stretches.push((thread, from_ns, from_ns + length_ns));
            }
            let mut marks: Vec<(u64, u32, bool)> = Vec::new();
            let mut take = |record: Record, (_, text): (u32, &str)| {
                if record.kind == Kind::ProbeHit as u16 {
                    let roles = ProbePoint::read(text).expect("a point").roles;
                    marks.push((record.time_ns, record.a as u32, roles & END == 0));
                }
            };
            let mut pieces = pieces;
            pieces.sort_unstable();
            pieces.into_iter().for_each(|until_ns| phases.tell(until_ns, &mut take));
            phases.finish(&mut take);
            prop_assert!(marks.is_sorted_by_key(|(at, ..)| *at) && phases.lost() == 0);
            for at in 0..700u64 {
                for thread in 1..3 {
                    let is_in = stretches.iter().any(|(own, from, to)| *own == thread && (*from..*to).contains(&at));
                    let last = marks.iter().rev().find(|(time, own, _)| *time <= at && *own == thread);
                    prop_assert_eq!(last.is_some_and(|(.., begun)| *begun), is_in, "thread {} at {}", thread, at);
                }
            }
        }
    }
}
