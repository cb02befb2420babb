//! Bounds on the requests for some paths that are under way at once: so many are answered, so many wait, the others are
//! refused.
//!
//! When a request is finished, the one that has waited longest gets its place. Only as many as there are places are
//! woken, so that the end of a request costs the same however many wait. A client that ends its side while it waits is
//! dropped, so that it takes no place from others. Over HTTP/2 and HTTP/3 each stream waits by itself, in one queue
//! with all other requests; a stream that is reset is dropped.
//!
//! If another configuration has a bound of the same pattern, that bound takes over the requests under way and those
//! that wait.

use crate::counters::LoopCounters;
use crate::http::pattern::Pattern;
use crate::http::request::Request;
use crate::http::target;
use crate::policy::control::Controls;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bound.
#[derive(Debug, Clone)]
pub struct Throttle(pub(crate) Arc<Shared>);

/// A bound and the requests within it; all loops share it.
#[derive(Debug)]
pub(crate) struct Shared {
    glob: String,
    pattern: Pattern,
    state: Mutex<State>,
}

/// How many may be under way, how many wait, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    running_max: usize,
    queue_max: usize,
    wait_ms: u64,
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    running: usize,
    waiting: VecDeque<Waiter>,
}

/// The connection and stream of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) connection: u64,
    /// None over HTTP/1.1, where one request at a time is asked about.
    pub(crate) stream: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    asker: Asker,
    /// The loop's number.
    index: usize,
    since_ms: u64,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Gate {
    /// It may be answered, and gives its place back when the value is dropped; none where no bound is for it.
    Open(Option<Place>),
    /// It is to be asked about again.
    Wait,
    /// Too many are there; the client may come again after so many seconds.
    Full { seconds: u64 },
}

/// A place among those that are answered.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Shared>,
    controls: Arc<Controls>,
    /// How long its request waited for it.
    waited_ms: u64,
}

impl Place {
    /// How long its request waited for it, in milliseconds by the loops' clock, which goes on in steps of some 4.
    pub(crate) fn waited_ms(&self) -> u64 {
        self.waited_ms
    }
}

impl Throttle {
    /// Whether it is for a path.
    pub(crate) fn is_for(&self, path: &[u8]) -> bool {
        self.0.pattern.matches(path)
    }

    /// The paths that it is for, as they were given.
    pub(crate) fn glob(&self) -> &str {
        &self.0.glob
    }

    /// A bound for the paths that a glob matches: so many requests are answered at once, and of others so many wait so
    /// long, in milliseconds. None if the glob is too large.
    pub fn new(glob: &str, running_max: usize, queue_max: usize, wait_ms: u64) -> Option<Self> {
        let pattern = Pattern::glob(glob)?;
        let bounds = Bounds { running_max: running_max.max(1), queue_max, wait_ms };
        let state = Mutex::new(State { bounds, running: 0, waiting: VecDeque::new() });
        Some(Self(Arc::new(Shared { glob: glob.to_owned(), pattern, state })))
    }

    /// Bounds that take the place of others: those of patterns that were there before go on as they are now said to be.
    pub(crate) fn succeed(before: &[Self], now: Vec<Self>) -> Vec<Self> {
        let mut left: Vec<&Self> = before.iter().collect();
        let going_on = now.into_iter().map(|said| {
            let Some(at) = left.iter().position(|known| known.0.glob == said.0.glob) else { return said };
            let (known, bounds) = (left.remove(at), said.bounds());
            known.0.state().bounds = bounds;
            known.clone()
        });
        going_on.collect()
    }

    fn bounds(&self) -> Bounds {
        self.0.state().bounds
    }
}

/// Two are equal if their patterns and bounds are; the requests under way do not count.
impl PartialEq for Throttle {
    fn eq(&self, other: &Self) -> bool {
        self.0.glob == other.0.glob && self.bounds() == other.bounds()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held left whole entries.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The loop of the request that waits first, if there is a place.
    fn next(&self) -> Option<usize> {
        self.waiting.front().filter(|_| self.running < self.bounds.running_max).map(|next| next.index)
    }
}

/// The bounds as one loop asks them.
#[derive(Debug)]
pub(crate) struct Throttles {
    all: Vec<Throttle>,
    controls: Arc<Controls>,
    index: usize,
    /// Requests of this loop that wait.
    waiting: usize,
    /// Some of them may wait for a bound that is not the first one of their path any more.
    is_moved: bool,
    /// Requests that waited for a bound that was removed.
    released: Vec<Asker>,
    decoded: Vec<u8>,
}

impl Throttles {
    pub(crate) fn new(all: &[Throttle], controls: Arc<Controls>, index: usize) -> Option<Self> {
        let decoded = Vec::new();
        let (is_moved, released) = (false, Vec::new());
        (!all.is_empty()).then(|| Self { all: all.to_vec(), controls, index, waiting: 0, is_moved, released, decoded })
    }

    /// Other bounds hold from now on. Requests that wait for a removed bound have their turn next; all others keep
    /// their places.
    pub(crate) fn take_up(&mut self, all: &[Throttle]) {
        let is_gone = |known: &&Throttle| !all.iter().any(|one| Arc::ptr_eq(&one.0, &known.0));
        for gone in self.all.iter().filter(is_gone) {
            let mut state = gone.0.state();
            let before = self.released.len();
            self.released
                .extend(state.waiting.iter().filter(|waiter| waiter.index == self.index).map(|waiter| waiter.asker));
            state.waiting.retain(|waiter| waiter.index != self.index);
            self.waiting -= self.released.len() - before;
        }
        self.all = all.to_vec();
        self.is_moved = self.waiting > 0;
    }

    /// Whether a request may be answered now; the first bound whose paths it is of decides.
    pub(crate) fn ask(&mut self, request: &Request<'_>, asker: Asker, now_ms: u64, counters: &LoopCounters) -> Gate {
        if self.all.is_empty() {
            return Gate::Open(None);
        }
        let Ok(found) = target::resolve(request.target, true, &mut self.decoded) else { return Gate::Open(None) };
        let found =
            self.all.iter().find(|throttle| throttle.0.pattern.matches(found.path)).map(|one| Arc::clone(&one.0));
        if self.is_moved {
            self.leave_others(asker, found.as_ref());
        }
        let Some(of) = found else { return Gate::Open(None) };
        let mut state = of.state();
        let Bounds { running_max, queue_max, wait_ms } = state.bounds;
        let place = state.waiting.iter().position(|waiter| waiter.asker == asker);
        // Requests that came before have their turn first.
        if state.running < running_max && place.unwrap_or(state.waiting.len()) == 0 && !self.controls.is_over() {
            state.running += 1;
            let waited_ms = state.waiting.pop_front().map_or(0, |waiter| {
                self.waiting -= 1;
                now_ms.saturating_sub(waiter.since_ms)
            });
            let next = state.next();
            drop(state);
            next.into_iter().for_each(|index| self.controls.wake(index));
            return Gate::Open(Some(Place { of, controls: Arc::clone(&self.controls), waited_ms }));
        }
        let seconds = (wait_ms / 1000).max(1);
        match place.map(|place| (place, state.waiting[place].since_ms)) {
            Some((_, since_ms)) if now_ms.saturating_sub(since_ms) < wait_ms => return Gate::Wait,
            Some((place, _)) => {
                state.waiting.remove(place);
                self.waiting -= 1;
            }
            None if state.waiting.len() < queue_max => {
                state.waiting.push_back(Waiter { asker, index: self.index, since_ms: now_ms });
                self.waiting += 1;
                counters.throttle_queued.add(1);
                return Gate::Wait;
            }
            None => {}
        }
        counters.throttle_refused.add(1);
        Gate::Full { seconds }
    }

    /// Drops what may wait of a connection: one stream, or all that it has asked for. Returns how many did.
    pub(crate) fn forget(&mut self, connection: u64, stream: Option<u64>) -> u64 {
        let is_meant = |asker: &Asker| asker.connection == connection && (stream.is_none() || asker.stream == stream);
        let before = self.released.len();
        self.released.retain(|asker| !is_meant(asker));
        let released = before - self.released.len();
        let left = if self.waiting > 0 { self.leave(is_meant, None) } else { 0 };
        (released + left) as u64
    }

    /// Has a request wait for no other bound than this one.
    fn leave_others(&mut self, asker: Asker, of: Option<&Arc<Shared>>) {
        self.is_moved = self.waiting > 0;
        if self.is_moved {
            self.leave(|other| *other == asker, of);
        }
    }

    fn leave(&mut self, is_meant: impl Fn(&Asker) -> bool, but: Option<&Arc<Shared>>) -> usize {
        let before = self.waiting;
        for Throttle(of) in self.all.iter().filter(|one| but.is_none_or(|but| !Arc::ptr_eq(but, &one.0))) {
            let mut state = of.state();
            let waiting = state.waiting.len();
            state.waiting.retain(|waiter| !is_meant(&waiter.asker));
            let left = waiting - state.waiting.len();
            if left == 0 {
                continue;
            }
            self.waiting -= left;
            // It may have been its turn.
            let next = state.next();
            drop(state);
            next.into_iter().for_each(|index| self.controls.wake(index));
        }
        before - self.waiting
    }

    /// The requests of this loop that now get a place or have waited too long, in the order of their arrival.
    pub(crate) fn turns(&mut self, now_ms: u64) -> Vec<Asker> {
        let mut turns = std::mem::take(&mut self.released);
        if self.waiting == 0 {
            return turns;
        }
        let is_over = self.controls.is_over();
        for Throttle(of) in &self.all {
            let state = of.state();
            let free = if is_over { 0 } else { state.bounds.running_max.saturating_sub(state.running) };
            // They are in order of arrival: behind one that may still wait, none has waited long enough.
            let first = state.waiting.iter().enumerate().take_while(|(place, waiter)| {
                *place < free || now_ms.saturating_sub(waiter.since_ms) >= state.bounds.wait_ms
            });
            turns.extend(first.filter(|(_, waiter)| waiter.index == self.index).map(|(_, waiter)| waiter.asker));
        }
        turns
    }

    /// Requests of this loop that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a request of this loop waits, or one has to be asked again.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0 || !self.released.is_empty()
    }

    /// Requests under way, and those that wait, of all loops.
    pub(crate) fn fill(all: &[Throttle]) -> (u64, u64) {
        all.iter().fold((0, 0), |(running, waiting), throttle| {
            let state = throttle.0.state();
            (running + state.running as u64, waiting + state.waiting.len() as u64)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.running -= 1;
        let next = state.waiting.front().map(|next| next.index);
        drop(state);
        next.into_iter().for_each(|index| self.controls.wake(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::limits::Limits;
    use crate::http::parse;
    use crate::http::request::Head;

    fn of(connection: u64) -> Asker {
        Asker { connection, stream: None }
    }

    fn ask(throttles: &mut Throttles, target: &str, connection: u64, now_ms: u64, counters: &LoopCounters) -> Gate {
        ask_as(throttles, target, of(connection), now_ms, counters)
    }

    fn ask_as(throttles: &mut Throttles, target: &str, asker: Asker, now_ms: u64, counters: &LoopCounters) -> Gate {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let Head::Complete(request, _) = parse::parse(head.as_bytes(), &Limits::default()) else { panic!("a head") };
        throttles.ask(&request, asker, now_ms, counters)
    }

    #[test]
    fn some_run_some_wait_in_their_order_and_the_others_are_refused() {
        let throttle = Throttle::new("/a/*", 2, 2, 5000).expect("small enough");
        let controls = Arc::new(Controls::default());
        let mut throttles = Throttles::new(std::slice::from_ref(&throttle), controls, 0).expect("there is one");
        let counters = LoopCounters::default();
        let ask = |throttles: &mut Throttles, target: &str, connection: u64, now_ms| {
            ask(throttles, target, connection, now_ms, &counters)
        };
        assert!(matches!(ask(&mut throttles, "/b", 9, 0), Gate::Open(None)));
        let (Gate::Open(Some(first)), Gate::Open(Some(second))) =
            (ask(&mut throttles, "/a/x", 1, 0), ask(&mut throttles, "/%61/x?y", 2, 0))
        else {
            panic!("two run")
        };
        assert!(matches!(ask(&mut throttles, "/a/x", 3, 0), Gate::Wait));
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 0), Gate::Wait));
        assert!(matches!(ask(&mut throttles, "/a/x", 5, 0), Gate::Full { seconds: 5 }));
        assert!(matches!(ask(&mut throttles, "/a/x", 3, 4000), Gate::Wait), "asked again it has its place");
        assert_eq!(Throttles::fill(std::slice::from_ref(&throttle)), (2, 2));
        assert_eq!((throttles.turns(4000), throttles.turns(5000)), (vec![], vec![of(3), of(4)]), "none, or too long");
        drop(first);
        assert_eq!(throttles.turns(4000), [of(3)], "there is one place");
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 4000), Gate::Wait), "another one came before");
        let Gate::Open(Some(third)) = ask(&mut throttles, "/a/x", 3, 4000) else { panic!("its turn") };
        assert_eq!((second.waited_ms(), third.waited_ms()), (0, 4000));
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 5000), Gate::Full { .. }), "it has waited long enough");
        assert!(matches!(ask(&mut throttles, "/a/x", 6, 5000), Gate::Wait));
        assert_eq!((throttles.forget(6, None), throttles.forget(6, None)), (1, 0));
        assert!(!throttles.has_waiting());
        assert_eq!(Throttles::fill(&[throttle]), (2, 0));
        assert_eq!((counters.throttle_queued.read(), counters.throttle_refused.read()), (3, 2));
    }

    #[test]
    fn other_bounds_hold_for_who_is_under_way_and_who_waits_keeps_its_place() {
        let one =
            |glob: &str, running, queue, wait_ms| Throttle::new(glob, running, queue, wait_ms).expect("small enough");
        let mut all = vec![one("/a/*", 1, 3, 5000), one("/b/*", 1, 3, 5000)];
        let (controls, counters) = (Arc::new(Controls::default()), LoopCounters::default());
        let mut loops = [0, 1].map(|index| Throttles::new(&all, Arc::clone(&controls), index).expect("two"));
        let asked = |loops: &mut [Throttles; 2], which: usize, target: &str, connection: u64| {
            ask(&mut loops[which], target, connection, 0, &counters)
        };
        let (Gate::Open(Some(_first)), Gate::Open(Some(_second))) =
            (asked(&mut loops, 0, "/a/x", 1), asked(&mut loops, 0, "/b/x", 2))
        else {
            panic!("one of each")
        };
        for (which, target, connection) in
            [(0, "/a/x", 3), (1, "/a/x", 4), (0, "/a/x", 5), (1, "/b/x", 6), (0, "/b/x", 7)]
        {
            assert!(matches!(asked(&mut loops, which, target, connection), Gate::Wait));
        }
        let reload = |all: &mut Vec<Throttle>, loops: &mut [Throttles; 2], now: Vec<Throttle>| {
            *all = Throttle::succeed(all, now);
            loops.iter_mut().for_each(|one| one.take_up(all));
            Throttles::fill(all)
        };
        // More run, fewer wait: those that wait stay, in their order.
        assert_eq!(reload(&mut all, &mut loops, vec![one("/a/*", 3, 1, 5000), one("/b/*", 1, 3, 5000)]), (2, 5));
        assert_eq!([loops[0].turns(0), loops[1].turns(0)], [vec![of(3)], vec![of(4)]]);
        assert!(matches!(asked(&mut loops, 0, "/a/x", 8), Gate::Full { .. }));
        let Gate::Open(Some(_third)) = asked(&mut loops, 0, "/a/x", 3) else { panic!("its turn") };
        let Gate::Open(Some(_fourth)) = asked(&mut loops, 1, "/a/x", 4) else { panic!("its turn") };
        // A bound that was removed keeps no request, and a new bound before another gets the requests that match it.
        assert_eq!(reload(&mut all, &mut loops, vec![one("/a/x", 1, 1, 5000), one("/a/*", 3, 1, 9000)]), (3, 1));
        assert_eq!([loops[0].turns(5000), loops[1].turns(0)], [vec![of(7)], vec![of(6)]], "5 may wait longer now");
        assert!(matches!(asked(&mut loops, 0, "/b/x", 7), Gate::Open(None)));
        let Gate::Open(Some(_fifth)) = asked(&mut loops, 0, "/a/x", 5) else { panic!("there is room before it") };
        assert_eq!(Throttles::fill(&all), (4, 0), "it waits nowhere else");
        assert!(!loops[0].has_waiting() && !loops[1].has_waiting());
        assert_eq!(reload(&mut all, &mut loops, Vec::new()), (0, 0));
        assert!(matches!(asked(&mut loops, 0, "/a/x", 9), Gate::Open(None)));
    }
}
