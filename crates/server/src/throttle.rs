//! Bounds on the requests for some paths that are under way at once: so many are answered, so many wait, the others are
//! refused.
//!
//! Who waits is asked again, in the order of coming, when one that is answered is over: those only for whom there is a
//! place, so that the end of each costs the same however many wait. A client that ends its side
//! meanwhile has gone away and is dropped, so that nobody is refused for its sake. Over HTTP/2 and HTTP/3 nobody waits.

use crate::caller::Caller;
use crate::control::Controls;
use crate::counters::LoopCounters;
use crate::front::pattern::Pattern;
use crate::request::Request;
use crate::target;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bound.
#[derive(Debug, Clone)]
pub struct Throttle(pub(crate) Arc<Shared>);

/// A bound and who is under way within it; all loops share it.
#[derive(Debug)]
pub(crate) struct Shared {
    glob: String,
    pattern: Pattern,
    running_max: usize,
    queue_max: usize,
    wait_ms: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    connection: u64,
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
}

impl Throttle {
    /// A bound for the paths that a glob matches: so many requests are answered at once, and of others so many wait so
    /// long, in milliseconds. None if the glob is too large.
    pub fn new(glob: &str, running_max: usize, queue_max: usize, wait_ms: u64) -> Option<Self> {
        let pattern = Pattern::glob(glob)?;
        let (glob, running_max) = (glob.to_owned(), running_max.max(1));
        let shared = Shared { glob, pattern, running_max, queue_max, wait_ms, state: Mutex::default() };
        Some(Self(Arc::new(shared)))
    }
}

/// Two that say the same, whoever is under way.
impl PartialEq for Throttle {
    fn eq(&self, other: &Self) -> bool {
        let said = |one: &Self| (one.0.running_max, one.0.queue_max, one.0.wait_ms);
        self.0.glob == other.0.glob && said(self) == said(other)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked meanwhile has left whole entries.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bounds as one loop asks them.
#[derive(Debug)]
pub(crate) struct Throttles {
    all: Vec<Throttle>,
    controls: Arc<Controls>,
    index: usize,
    /// Connections of this loop that wait.
    waiting: usize,
    decoded: Vec<u8>,
}

impl Throttles {
    pub(crate) fn new(all: &[Throttle], controls: Arc<Controls>, index: usize) -> Option<Self> {
        let decoded = Vec::new();
        (!all.is_empty()).then(|| Self { all: all.to_vec(), controls, index, waiting: 0, decoded })
    }

    /// Whether a request may be answered now; the first bound whose paths it is of decides.
    pub(crate) fn ask(&mut self, request: &Request<'_>, caller: &Caller, now_ms: u64, counters: &LoopCounters) -> Gate {
        let Ok(found) = target::resolve(request.target, true, &mut self.decoded) else { return Gate::Open(None) };
        let Some(throttle) = self.all.iter().find(|throttle| throttle.0.pattern.matches(found.path)) else {
            return Gate::Open(None);
        };
        let of = &throttle.0;
        let mut state = of.state();
        let place = state.waiting.iter().position(|waiter| waiter.connection == caller.connection);
        // Whoever came before has its turn first.
        if state.running < of.running_max && place.unwrap_or(state.waiting.len()) == 0 {
            state.running += 1;
            if state.waiting.pop_front().is_some() {
                self.waiting -= 1;
            }
            let next = state.waiting.front().filter(|_| state.running < of.running_max).map(|next| next.index);
            drop(state);
            next.into_iter().for_each(|index| self.controls.wake(index));
            return Gate::Open(Some(Place { of: Arc::clone(of), controls: Arc::clone(&self.controls) }));
        }
        let seconds = (of.wait_ms / 1000).max(1);
        match place.map(|place| (place, state.waiting[place].since_ms)) {
            Some((_, since_ms)) if now_ms.saturating_sub(since_ms) < of.wait_ms => return Gate::Wait,
            Some((place, _)) => {
                state.waiting.remove(place);
                self.waiting -= 1;
            }
            None if request.minor <= 1 && state.waiting.len() < of.queue_max => {
                let waiter = Waiter { connection: caller.connection, index: self.index, since_ms: now_ms };
                state.waiting.push_back(waiter);
                self.waiting += 1;
                counters.throttle_queued.add(1);
                return Gate::Wait;
            }
            None => {}
        }
        counters.throttle_refused.add(1);
        Gate::Full { seconds }
    }

    /// Drops a connection that may wait; whether it did.
    pub(crate) fn forget(&mut self, connection: u64) -> bool {
        if self.waiting == 0 {
            return false;
        }
        for throttle in &self.all {
            let mut state = throttle.0.state();
            let Some(place) = state.waiting.iter().position(|waiter| waiter.connection == connection) else { continue };
            state.waiting.remove(place);
            self.waiting -= 1;
            // It may have been its turn.
            let next = state.waiting.front().filter(|_| state.running < throttle.0.running_max).map(|next| next.index);
            drop(state);
            next.into_iter().for_each(|index| self.controls.wake(index));
            return true;
        }
        false
    }

    /// The connections of this loop that have something to get, in the order of their coming: a place, or the word that
    /// they have waited long enough.
    pub(crate) fn turns(&self, now_ms: u64) -> Vec<u64> {
        let mut turns = Vec::new();
        if self.waiting == 0 {
            return turns;
        }
        for Throttle(of) in &self.all {
            let state = of.state();
            let free = of.running_max.saturating_sub(state.running);
            // They stand in the order of time, so that behind one who may still wait nobody has waited long enough.
            let first =
                state.waiting.iter().enumerate().take_while(|(place, waiter)| {
                    *place < free || now_ms.saturating_sub(waiter.since_ms) >= of.wait_ms
                });
            turns.extend(first.filter(|(_, waiter)| waiter.index == self.index).map(|(_, waiter)| waiter.connection));
        }
        turns
    }

    /// Whether somebody of this loop waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
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
    use crate::options::Limits;
    use crate::request::{self, Head};

    #[test]
    fn some_run_some_wait_in_their_order_and_the_others_are_refused() {
        let throttle = Throttle::new("/a/*", 2, 2, 5000).expect("small enough");
        let controls = Arc::new(Controls::default());
        let mut throttles = Throttles::new(std::slice::from_ref(&throttle), controls, 0).expect("there is one");
        let counters = LoopCounters::default();
        let ask = |throttles: &mut Throttles, target: &str, connection: u64, now_ms| {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let Head::Complete(request, _) = request::parse(head.as_bytes(), &Limits::default()) else {
                panic!("a head")
            };
            let caller = Caller { client: [127, 0, 0, 1].into(), connection, socket: None };
            throttles.ask(&request, &caller, now_ms, &counters)
        };
        assert!(matches!(ask(&mut throttles, "/b", 9, 0), Gate::Open(None)));
        let (Gate::Open(Some(first)), Gate::Open(Some(_second))) =
            (ask(&mut throttles, "/a/x", 1, 0), ask(&mut throttles, "/%61/x?y", 2, 0))
        else {
            panic!("two run")
        };
        assert!(matches!(ask(&mut throttles, "/a/x", 3, 0), Gate::Wait));
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 0), Gate::Wait));
        assert!(matches!(ask(&mut throttles, "/a/x", 5, 0), Gate::Full { seconds: 5 }));
        assert!(matches!(ask(&mut throttles, "/a/x", 3, 4000), Gate::Wait), "asked again it has its place");
        assert_eq!(Throttles::fill(std::slice::from_ref(&throttle)), (2, 2));
        assert_eq!((throttles.turns(4000), throttles.turns(5000)), (vec![], vec![3, 4]), "nobody, or too long");
        drop(first);
        assert_eq!(throttles.turns(4000), [3], "there is one place");
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 4000), Gate::Wait), "another one came before");
        let Gate::Open(Some(_third)) = ask(&mut throttles, "/a/x", 3, 4000) else { panic!("its turn") };
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 5000), Gate::Full { .. }), "it has waited long enough");
        assert!(matches!(ask(&mut throttles, "/a/x", 6, 5000), Gate::Wait));
        assert!(throttles.forget(6) && !throttles.forget(6) && !throttles.has_waiting());
        assert_eq!(Throttles::fill(&[throttle]), (2, 0));
        assert_eq!((counters.throttle_queued.read(), counters.throttle_refused.read()), (3, 2));
    }
}
