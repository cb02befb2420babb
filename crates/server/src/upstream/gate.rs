//! How many requests may be under way to an upstream at once, and the queue of the others: first in, first out, over all
//! loops.
//!
//! A request takes a place by one atomic operation as long as there are places. Where there are none it waits in one
//! queue with those of other loops, and a request that ends gives its place to the one that has waited longest. No other
//! order is fair: with last in, first out a few requests wait without end under load.
//!
//! # Overload
//!
//! A longer queue answers no more requests; it only answers each of them later, and at last none whose client still
//! waits. So what bounds the queue is the time in it (CoDel; Nichols, Jacobson: Controlling Queue Delay, 2012), and not
//! its length alone: a request is refused at once if those before it would keep it waiting for longer than `queue_wait`.
//! How long that is, is measured (`queueing.rs`), and nothing is held back in order to find it out.
//!
//! Under overload others answer the newest request first (adaptive LIFO; Maurer: Fail at Scale, 2015), as those that have
//! waited longest are those whose clients have most likely gone. Here a client that goes takes its request out of the
//! queue, and the wait of those that are let in is bounded, so that the oldest is still wanted: in the order of their
//! coming all of them are answered within that bound. The newest first would answer as many; it would keep the others
//! waiting until they give up, where here they are told at once.

use super::queueing::Queueing;
use crate::counters::upstream_counts::UpstreamCounts;
use crate::exchange::application::Wake;
use crate::io::clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places and the queue of one upstream; all loops share it.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Those under way and in the queue stand among them.
    pub(crate) counts: UpstreamCounts,
    queue: Mutex<Queue>,
    /// Places that a rule has ordered; 0 for those of the configuration.
    ordered: AtomicU32,
    /// The loops, which keep connections without a request.
    keepers: Mutex<Vec<Wake>>,
    /// Nanoseconds of a clock that only goes forward.
    now_ns: fn() -> u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            counts: UpstreamCounts::default(),
            queue: Mutex::default(),
            ordered: AtomicU32::new(0),
            keepers: Mutex::default(),
            now_ns: weir_arm::now_ns,
        }
    }
}

/// The requests that wait, and how long that takes.
#[derive(Debug, Default)]
struct Queue {
    places: VecDeque<Arc<Place>>,
    queueing: Queueing,
}

/// What bounds requests to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateBounds {
    /// Requests under way.
    pub(crate) places_max: u32,
    /// Requests that wait.
    pub(crate) queue_max: u32,
    /// How long they may have to wait, in nanoseconds.
    pub(crate) wait_max_ns: u64,
}

/// A place in the queue.
#[derive(Debug)]
struct Place {
    stage: AtomicU8,
    since_ns: u64,
    wake: Wake,
}

const NS_PER_MS: u64 = 1_000_000;
const WAITS: u8 = 0;
const GRANTED: u8 = 1;

/// A request in the queue; dropped, it leaves the queue, or gives its place to the next one.
#[derive(Debug)]
pub(crate) struct Ticket {
    place: Option<Arc<Place>>,
    gate: Arc<Gate>,
    places_max: u32,
}

/// A place among the requests under way; dropped, it is the next one's.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    places_max: u32,
    /// When it was taken, by a clock that goes on in steps of some milliseconds: on average that is exact, and it costs
    /// next to nothing.
    since_ms: u64,
    /// How long its request had waited for it.
    waited_ns: u64,
}

/// What becomes of a request that comes to the gate.
#[derive(Debug)]
pub(crate) enum Entry {
    Open(Permit),
    Queued(Ticket),
    /// The queue is full as well.
    Full,
    /// It would have to wait for too long.
    Late,
}

impl Gate {
    pub(crate) fn new(name: String) -> Self {
        Self { counts: UpstreamCounts::new(name), ..Self::default() }
    }

    /// The same by another clock.
    #[cfg(test)]
    fn by(now_ns: fn() -> u64) -> Self {
        Self { now_ns, ..Self::default() }
    }

    /// Lets a request in, or has it wait behind those that came before it. `wake` makes what has it called again.
    pub(crate) fn enter(self: &Arc<Self>, bounds: GateBounds, wake: impl FnOnce() -> Wake) -> Entry {
        let GateBounds { places_max, queue_max, wait_max_ns } = bounds;
        if self.counts.waiting.load(Ordering::SeqCst) == 0 && self.take_place(places_max) {
            return Entry::Open(self.permit(places_max, None));
        }
        let now_ns = (self.now_ns)();
        let mut queue = self.queue();
        if queue.places.len() >= queue_max as usize {
            return Entry::Full;
        }
        let oldest_ns = queue.places.front().map_or(0, |oldest| now_ns.saturating_sub(oldest.since_ns));
        let before = (queue.places.len(), oldest_ns);
        if !queue.queueing.admits(before, now_ns, wait_max_ns) {
            UpstreamCounts::add(&self.counts.shed);
            return Entry::Late;
        }
        let place = Arc::new(Place { stage: AtomicU8::new(WAITS), since_ns: now_ns, wake: wake() });
        queue.places.push_back(Arc::clone(&place));
        UpstreamCounts::add(&self.counts.queued);
        self.counts.waiting.store(queue.places.len() as u32, Ordering::SeqCst);
        // A place that was given back since the first look was not given to a queue that was empty.
        self.grant(&mut queue, places_max);
        drop(queue);
        let ticket = Ticket { place: Some(place), gate: Arc::clone(self), places_max };
        match ticket.redeem() {
            Ok(permit) => Entry::Open(permit),
            Err(ticket) => Entry::Queued(ticket),
        }
    }

    fn permit(self: &Arc<Self>, places_max: u32, queued_ns: Option<u64>) -> Permit {
        let waited_ns = queued_ns.map_or(0, |queued_ns| (self.now_ns)().saturating_sub(queued_ns));
        Permit { gate: Arc::clone(self), places_max, since_ms: clock::now_ms(), waited_ns }
    }

    /// The places there are: as ordered, else as the configuration says.
    pub(crate) fn places(&self, places_max: u32) -> u32 {
        match self.ordered.load(Ordering::SeqCst) {
            0 => places_max,
            ordered => ordered,
        }
    }

    /// Has so many places from now on; with `None` as many as the configuration says. Requests that wait get new ones.
    pub(crate) fn order(&self, places: Option<u32>, places_max: u32) {
        let places = places.unwrap_or(0);
        if self.ordered.swap(places, Ordering::SeqCst) != places {
            self.grant(&mut self.queue(), places_max);
        }
    }

    /// Takes note of a loop, for good.
    pub(super) fn note_keeper(&self, wake: &Wake) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        if !keepers.iter().any(|known| Arc::ptr_eq(&known.0, &wake.0)) {
            keepers.push(wake.clone());
        }
    }

    /// Has all loops look whether to close connections that they keep, as there are more than places: a worker may wait
    /// for a request on one of them while another request waits for a worker.
    #[cold]
    pub(super) fn call_keepers(&self) {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Wake::wake);
    }

    fn take_place(&self, places_max: u32) -> bool {
        let places_max = self.places(places_max);
        let more = |under_way: u32| (under_way < places_max).then_some(under_way + 1);
        self.counts.under_way.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn give_back(&self, places_max: u32) {
        self.counts.under_way.fetch_sub(1, Ordering::SeqCst);
        if self.counts.waiting.load(Ordering::SeqCst) > 0 {
            self.grant(&mut self.queue(), places_max);
        }
    }

    /// Gives free places to those that have waited longest.
    fn grant(&self, queue: &mut Queue, places_max: u32) {
        while !queue.places.is_empty() && self.take_place(places_max) {
            if let Some(place) = queue.places.pop_front() {
                let now_ns = (self.now_ns)();
                queue.queueing.granted(now_ns, queue.places.is_empty());
                UpstreamCounts::add_time(&self.counts.waited_ns, now_ns.saturating_sub(place.since_ns));
                place.stage.store(GRANTED, Ordering::SeqCst);
                place.wake.wake();
            }
        }
        self.counts.waiting.store(queue.places.len() as u32, Ordering::SeqCst);
    }

    /// Nanoseconds that the request has waited which has waited longest; 0 if none waits.
    pub(crate) fn oldest_ns(&self) -> u64 {
        let now_ns = (self.now_ns)();
        self.queue().places.front().map_or(0, |oldest| now_ns.saturating_sub(oldest.since_ns))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A thread that panicked with the lock held left whole entries.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The place, if it is this request's turn.
    pub(crate) fn redeem(mut self) -> Result<Permit, Self> {
        let is_granted = |place: &&Arc<Place>| place.stage.load(Ordering::SeqCst) == GRANTED;
        match self.place.as_ref().filter(is_granted).map(|place| place.since_ns) {
            Some(since_ns) => {
                self.place = None;
                Ok(self.gate.permit(self.places_max, Some(since_ns)))
            }
            None => Err(self),
        }
    }
}

impl Permit {
    /// Nanoseconds that its request waited for it.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut queue = self.gate.queue();
        let waited = queue.places.len();
        queue.places.retain(|other| !Arc::ptr_eq(other, &place));
        if queue.places.len() < waited {
            UpstreamCounts::add(&self.gate.counts.left);
        }
        self.gate.counts.waiting.store(queue.places.len() as u32, Ordering::SeqCst);
        drop(queue);
        if place.stage.load(Ordering::SeqCst) == GRANTED {
            self.gate.give_back(self.places_max);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let counts = &self.gate.counts;
        let held_ms = clock::now_ms().saturating_sub(self.since_ms);
        UpstreamCounts::add_time(&counts.served_ns, held_ms.saturating_mul(NS_PER_MS));
        UpstreamCounts::add(&counts.served);
        self.gate.give_back(self.places_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::application::Applications;
    use crate::exchange::wakes::Wakes;
    use crate::io::epoll::Waker;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Requests under way, and those that wait.
    fn fill(gate: &Gate) -> (u32, u32) {
        let read = gate.counts.read();
        (read.under_way, read.waiting)
    }

    fn bounds(places_max: u32, queue_max: u32) -> GateBounds {
        GateBounds { places_max, queue_max, wait_max_ns: u64::MAX }
    }

    fn applications() -> Applications {
        Applications::new(Wakes::new(Arc::new(Waker::new().expect("a waker"))), Duration::ZERO)
    }

    #[test]
    fn places_go_to_those_that_have_waited_longest() {
        let (gate, applications) = (Arc::new(Gate::default()), applications());
        let enter = |number| gate.enter(bounds(1, 2), || applications.caller(Some(number), number).wake());
        let Entry::Open(first) = enter(1) else { panic!("there is a place") };
        let (Entry::Queued(second), Entry::Queued(third)) = (enter(2), enter(3)) else { panic!("they wait") };
        assert!(matches!(enter(4), Entry::Full));
        assert_eq!(fill(&gate), (1, 2));
        drop(first);
        assert_eq!(applications.wakes.take().iter().map(|address| address.connection).collect::<Vec<_>>(), [2]);
        let third = third.redeem().expect_err("not its turn");
        let Ok(second) = second.redeem() else { panic!("its turn") };
        assert!(matches!(enter(5), Entry::Queued(_)), "and it leaves again, as the value is dropped");
        drop(third);
        assert_eq!(fill(&gate), (1, 0));
        drop(second);
        assert_eq!(fill(&gate), (0, 0));
    }

    #[test]
    fn places_that_are_ordered_are_given_at_once_and_taken_back_as_requests_end() {
        let gate = Arc::new(Gate::default());
        let applications = applications();
        let enter = |number| gate.enter(bounds(1, 9), || applications.caller(Some(number), number).wake());
        let Entry::Open(first) = enter(1) else { panic!("there is a place") };
        let mut tickets: Vec<Ticket> = (2..5)
            .map(|number| match enter(number) {
                Entry::Queued(ticket) => ticket,
                other => panic!("no place is left: {other:?}"),
            })
            .collect();
        gate.order(Some(3), 1);
        assert_eq!((fill(&gate), gate.places(1)), ((3, 1), 3));
        let mut permits: Vec<Permit> = tickets.drain(..2).map(|ticket| ticket.redeem().expect("a place")).collect();
        gate.order(None, 1);
        drop(first);
        permits.pop();
        assert_eq!(fill(&gate), (1, 1), "there are fewer again");
        permits.pop();
        assert_eq!(fill(&gate), (1, 0), "the one is for the next");
    }

    #[test]
    fn a_place_of_a_request_that_has_gone_is_the_next_ones() {
        let (gate, applications) = (Arc::new(Gate::default()), applications());
        let enter = |number| gate.enter(bounds(1, 9), || applications.caller(Some(number), number).wake());
        let Entry::Open(first) = enter(1) else { panic!("there is a place") };
        let (Entry::Queued(second), Entry::Queued(third)) = (enter(2), enter(3)) else { panic!("they wait") };
        drop(first);
        // It was granted, and its client has gone before it could be redeemed.
        drop(second);
        assert!(third.redeem().is_ok());
        assert_eq!(fill(&gate), (0, 0));
    }

    #[test]
    fn many_threads_never_hold_more_places_than_there_are_and_lose_none() {
        let gate = Arc::new(Gate::default());
        let most = Arc::new(AtomicU32::new(0));
        let held = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let applications = applications();
                    for number in 0..2000 {
                        let mut entry = gate.enter(bounds(3, 100), || applications.caller(None, number).wake());
                        let permit = loop {
                            match entry {
                                Entry::Open(permit) => break permit,
                                Entry::Queued(ticket) => {
                                    std::thread::yield_now();
                                    entry = match ticket.redeem() {
                                        Ok(permit) => Entry::Open(permit),
                                        Err(ticket) => Entry::Queued(ticket),
                                    };
                                }
                                Entry::Full | Entry::Late => panic!("four threads cannot fill it"),
                            }
                        };
                        most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!(fill(&gate), (0, 0));
    }

    std::thread_local! {
        static NOW_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    fn now_ns() -> u64 {
        NOW_NS.get()
    }

    /// Numbers that a seed leads to (xorshift; Marsaglia: Xorshift RNGs, 2003).
    struct Rolls(u64);

    impl Rolls {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, most: usize) -> usize {
            (self.next() % most as u64) as usize
        }

        /// A time of this mean, as those of independent events are.
        fn time_ns(&mut self, mean_ns: f64) -> u64 {
            let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
            (-mean_ns * (1.0 - share).ln()) as u64
        }
    }

    #[test]
    fn whenever_clients_leave_no_place_is_lost_and_the_order_stays() {
        let applications = applications();
        for seed in 1..=200 {
            let (gate, mut rolls) = (Arc::new(Gate::default()), Rolls(seed));
            let bounds = bounds(1 + rolls.below(4) as u32, rolls.below(9) as u32);
            let (mut permits, mut tickets): (Vec<Permit>, VecDeque<Ticket>) = (Vec::new(), VecDeque::new());
            for number in 0..300 {
                match rolls.below(5) {
                    0 | 1 => match gate.enter(bounds, || applications.caller(None, number).wake()) {
                        Entry::Open(permit) => permits.push(permit),
                        Entry::Queued(ticket) => tickets.push_back(ticket),
                        Entry::Full => assert_eq!(fill(&gate).1, bounds.queue_max, "seed {seed}"),
                        Entry::Late => panic!("seed {seed}: nothing bounds the time"),
                    },
                    2 if !permits.is_empty() => drop(permits.swap_remove(rolls.below(permits.len()))),
                    // A client leaves: it waits, or has its turn already.
                    3 if !tickets.is_empty() => drop(tickets.remove(rolls.below(tickets.len()))),
                    // Those that have their turn take it, some later.
                    _ => {
                        let mut waits = VecDeque::new();
                        for ticket in tickets.drain(..) {
                            match ticket.redeem() {
                                Ok(permit) => {
                                    assert!(waits.is_empty(), "seed {seed}: another one came before");
                                    permits.push(permit);
                                }
                                Err(ticket) => waits.push_back(ticket),
                            }
                        }
                        tickets = waits;
                    }
                }
                let (under_way, waiting) = fill(&gate);
                assert!(under_way <= bounds.places_max, "seed {seed}");
                // No place is free while a request waits.
                assert!(waiting == 0 || under_way == bounds.places_max, "seed {seed}");
            }
            drop((permits, tickets));
            assert_eq!(fill(&gate), (0, 0), "seed {seed}");
        }
    }

    /// What becomes of requests that come at twice the rate at which they can be answered: waits of those that were let
    /// in, and how many were refused.
    fn overload(seed: u64, wait_max_ns: u64) -> (Vec<u64>, usize) {
        const PLACES: u32 = 4;
        let (service_ns, between_ns) = (40e6, 5e6);
        NOW_NS.set(0);
        let (gate, mut rolls, applications) = (Arc::new(Gate::by(now_ns)), Rolls(seed), applications());
        let bounds = GateBounds { places_max: PLACES, queue_max: 100_000, wait_max_ns };
        let (mut next_ns, mut refused, mut waits) = (0, 0, Vec::new());
        let (mut running, mut tickets): (Vec<(u64, Permit)>, VecDeque<Ticket>) = (Vec::new(), VecDeque::new());
        while now_ns() < 60_000_000_000 {
            let end = running
                .iter()
                .enumerate()
                .min_by_key(|(_, (end_ns, _))| *end_ns)
                .map(|(at, (end_ns, _))| (at, *end_ns));
            let mut opened = Vec::new();
            match end.filter(|(_, end_ns)| *end_ns <= next_ns) {
                Some((at, end_ns)) => {
                    NOW_NS.set(end_ns);
                    drop(running.swap_remove(at));
                    while let Some(ticket) = tickets.pop_front() {
                        match ticket.redeem() {
                            Ok(permit) => opened.push(permit),
                            Err(ticket) => {
                                tickets.push_front(ticket);
                                break;
                            }
                        }
                    }
                }
                None => {
                    NOW_NS.set(next_ns);
                    next_ns += rolls.time_ns(between_ns);
                    match gate.enter(bounds, || applications.caller(None, 0).wake()) {
                        Entry::Open(permit) => opened.push(permit),
                        Entry::Queued(ticket) => tickets.push_back(ticket),
                        Entry::Full => panic!("seed {seed}: it is long enough"),
                        Entry::Late => refused += 1,
                    }
                }
            }
            for permit in opened {
                waits.push(permit.waited_ns());
                running.push((now_ns() + rolls.time_ns(service_ns), permit));
            }
        }
        waits.sort_unstable();
        (waits, refused)
    }

    #[test]
    fn under_overload_requests_wait_as_long_as_they_may_and_no_place_is_idle() {
        for seed in 1..=10 {
            let wait_max_ns = 500_000_000;
            let (waits, refused) = overload(seed, wait_max_ns);
            // In a minute 6,000 can be answered, give or take what chance does to the times of service.
            assert!((5500..6500).contains(&waits.len()), "seed {seed}: {}", waits.len());
            assert!((5000..7000).contains(&refused), "seed {seed}: {refused}");
            let p99_ns = waits[waits.len() * 99 / 100];
            assert!(p99_ns < wait_max_ns, "seed {seed}: {p99_ns}");
        }
    }
}
