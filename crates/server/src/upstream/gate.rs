//! How many requests may be under way to an upstream at once, and the queue of the others: first in, first out, over all
//! loops.
//!
//! A request takes a place by one atomic operation as long as there are places. Where there are none it waits in one
//! queue with those of other loops, and a request that ends gives its place to the one that has waited longest. No other
//! order is fair: with last in, first out a few requests wait without end under load.

use crate::counters::upstream_counts::UpstreamCounts;
use crate::exchange::application::Wake;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places and the queue of one upstream; all loops share it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Those under way and in the queue stand among them.
    pub(crate) counts: UpstreamCounts,
    queue: Mutex<VecDeque<Arc<Place>>>,
}

/// A place in the queue.
#[derive(Debug)]
struct Place {
    stage: AtomicU8,
    wake: Wake,
}

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
}

/// What becomes of a request that comes to the gate.
#[derive(Debug)]
pub(crate) enum Entry {
    Open(Permit),
    Queued(Ticket),
    /// The queue is full as well.
    Full,
}

impl Gate {
    pub(crate) fn new(name: String) -> Self {
        Self { counts: UpstreamCounts::new(name), queue: Mutex::default() }
    }

    /// Lets a request in, or has it wait behind those that came before it. `wake` makes what has it called again.
    pub(crate) fn enter(self: &Arc<Self>, (places_max, queue_max): (u32, u32), wake: impl FnOnce() -> Wake) -> Entry {
        let permit = || Permit { gate: Arc::clone(self), places_max };
        if self.counts.waiting.load(Ordering::SeqCst) == 0 && self.take_place(places_max) {
            return Entry::Open(permit());
        }
        let mut queue = self.queue();
        if queue.len() >= queue_max as usize {
            return Entry::Full;
        }
        let place = Arc::new(Place { stage: AtomicU8::new(WAITS), wake: wake() });
        queue.push_back(Arc::clone(&place));
        self.counts.waiting.store(queue.len() as u32, Ordering::SeqCst);
        // A place that was given back since the first look was not given to a queue that was empty.
        self.grant(&mut queue, places_max);
        drop(queue);
        let ticket = Ticket { place: Some(place), gate: Arc::clone(self), places_max };
        match ticket.redeem() {
            Ok(permit) => Entry::Open(permit),
            Err(ticket) => Entry::Queued(ticket),
        }
    }

    fn take_place(&self, places_max: u32) -> bool {
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
    fn grant(&self, queue: &mut VecDeque<Arc<Place>>, places_max: u32) {
        while !queue.is_empty() && self.take_place(places_max) {
            if let Some(place) = queue.pop_front() {
                place.stage.store(GRANTED, Ordering::SeqCst);
                place.wake.wake();
            }
        }
        self.counts.waiting.store(queue.len() as u32, Ordering::SeqCst);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<Place>>> {
        // A thread that panicked with the lock held left whole entries.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The place, if it is this request's turn.
    pub(crate) fn redeem(mut self) -> Result<Permit, Self> {
        if self.place.as_ref().is_some_and(|place| place.stage.load(Ordering::SeqCst) == GRANTED) {
            self.place = None;
            return Ok(Permit { gate: Arc::clone(&self.gate), places_max: self.places_max });
        }
        Err(self)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut queue = self.gate.queue();
        queue.retain(|other| !Arc::ptr_eq(other, &place));
        self.gate.counts.waiting.store(queue.len() as u32, Ordering::SeqCst);
        drop(queue);
        if place.stage.load(Ordering::SeqCst) == GRANTED {
            self.gate.give_back(self.places_max);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
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

    fn applications() -> Applications {
        Applications::new(Wakes::new(Arc::new(Waker::new().expect("a waker"))), Duration::ZERO)
    }

    #[test]
    fn places_go_to_those_that_have_waited_longest() {
        let (gate, applications) = (Arc::new(Gate::default()), applications());
        let enter = |number| gate.enter((1, 2), || applications.caller(Some(number), number).wake());
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
    fn a_place_of_a_request_that_has_gone_is_the_next_ones() {
        let (gate, applications) = (Arc::new(Gate::default()), applications());
        let enter = |number| gate.enter((1, 9), || applications.caller(Some(number), number).wake());
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
                        let mut entry = gate.enter((3, 100), || applications.caller(None, number).wake());
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
                                Entry::Full => panic!("four threads cannot fill it"),
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
}
