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
use crate::policy::throttle_law::{Law, Stages};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
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

#[derive(Debug)]
struct State {
    law: Law,
    running: usize,
    /// Those that run, by their users, where the law bounds them.
    by_user: HashMap<User, usize>,
    waiting: VecDeque<Waiter>,
}

/// For whom a request is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum User {
    /// A user whose password was right.
    Named(Box<str>),
    /// A client that did not say who it is.
    At(IpAddr),
}

/// The connection and stream of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) connection: u64,
    /// None over HTTP/1.1, where one request at a time is asked about.
    pub(crate) stream: Option<u64>,
}

#[derive(Debug, Clone)]
struct Waiter {
    asker: Asker,
    /// None where the law bounds no users.
    user: Option<User>,
    /// The loop's number.
    index: usize,
    since_ms: u64,
    /// It had its turn by having waited long enough, and too many were there.
    has_passed: bool,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Gate {
    /// It may be answered, and gives its place back when the value is dropped; none where no bound is for it.
    Open(Option<Place>),
    /// It is to be asked about again.
    Wait,
    /// Something else is to be done than to answer it at once.
    Aside(Aside),
}

/// What is done with a request that does not take the usual way.
#[derive(Debug)]
pub(crate) enum Aside {
    /// Too many are there; the client may come again after so many seconds.
    Full { seconds: u64 },
    /// A watcher may want to see what becomes of it; it has its place, where a bound is for it.
    Watched(Option<Place>),
    /// The same where too many are there.
    WatchedFull { seconds: u64 },
}

/// A place among those that are answered.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Shared>,
    controls: Arc<Controls>,
    /// How long its request waited for it.
    waited_ms: u64,
    user: Option<User>,
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
        Self::by(glob, Law::Plain { running_max: running_max.max(1), queue_max, wait_ms })
    }

    /// A bound for the paths that a glob matches, by WASD's numbers. None if the glob is too large.
    pub fn staged(glob: &str, stages: Stages) -> Option<Self> {
        Self::by(glob, Law::Staged(stages))
    }

    fn by(glob: &str, law: Law) -> Option<Self> {
        let pattern = Pattern::glob(glob)?;
        let state = Mutex::new(State { law, running: 0, by_user: HashMap::new(), waiting: VecDeque::new() });
        Some(Self(Arc::new(Shared { glob: glob.to_owned(), pattern, state })))
    }

    /// What it allows, in words.
    pub(crate) fn said(&self) -> String {
        self.law().to_string()
    }

    /// Its requests under way, and those that wait.
    pub(crate) fn now(&self) -> (u64, u64) {
        let state = self.0.state();
        (state.running as u64, state.waiting.len() as u64)
    }

    /// Bounds that take the place of others: those of patterns that were there before go on as they are now said to be.
    pub(crate) fn succeed(before: &[Self], now: Vec<Self>) -> Vec<Self> {
        let mut left: Vec<&Self> = before.iter().collect();
        let going_on = now.into_iter().map(|said| {
            let Some(at) = left.iter().position(|known| known.0.glob == said.0.glob) else { return said };
            let (known, law) = (left.remove(at), said.law());
            known.0.state().law = law;
            known.clone()
        });
        going_on.collect()
    }

    fn law(&self) -> Law {
        self.0.state().law
    }
}

/// Two are equal if their patterns and bounds are; the requests under way do not count.
impl PartialEq for Throttle {
    fn eq(&self, other: &Self) -> bool {
        self.0.glob == other.0.glob && self.law() == other.law()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held left whole entries.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Requests that run and that wait.
    fn all(&self) -> usize {
        self.running + self.waiting.len()
    }

    /// Whether another request of this user may run.
    fn has_room_for(&self, user: Option<&User>) -> bool {
        match (self.law.per_user(), user) {
            (Some(most), Some(user)) => self.by_user.get(user).is_none_or(|running| *running < most),
            _ => true,
        }
    }

    /// The place of the request that waits first of those whose users have room.
    fn first(&self) -> Option<usize> {
        self.waiting.iter().position(|waiter| self.has_room_for(waiter.user.as_ref()))
    }

    /// The loop of the request that has its turn, if there is a place.
    fn next(&self) -> Option<usize> {
        let first = self.first().filter(|_| self.running < self.law.running_max(self.all()))?;
        Some(self.waiting[first].index)
    }

    /// Whether one that waits has room beside those of its user that have their turn before it.
    fn has_turn<'w>(&self, waiter: &'w Waiter, taken: &mut HashMap<&'w User, usize>) -> bool {
        let (Some(most), Some(user)) = (self.law.per_user(), &waiter.user) else { return true };
        let before = taken.entry(user).or_default();
        let has_room = self.by_user.get(user).copied().unwrap_or(0) + *before < most;
        *before += usize::from(has_room);
        has_room
    }

    /// Counts a request among those that run.
    fn run(&mut self, user: Option<&User>) {
        self.running += 1;
        if let Some(user) = user {
            *self.by_user.entry(user.clone()).or_default() += 1;
        }
    }

    fn end(&mut self, user: Option<&User>) {
        self.running -= 1;
        if let Some(user) = user
            && let Some(running) = self.by_user.get_mut(user)
        {
            *running -= 1;
            if *running == 0 {
                self.by_user.remove(user);
            }
        }
    }
}

/// The bounds as one loop asks them.
#[derive(Debug)]
pub(crate) struct Throttles {
    all: Vec<Throttle>,
    /// Those that a request is compared with at first: all, or none while requests are watched, so that those who do not
    /// watch pay nothing for it.
    first: Vec<Throttle>,
    is_watched: bool,
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
        (!all.is_empty()).then(|| Self {
            all: all.to_vec(),
            first: all.to_vec(),
            is_watched: false,
            controls,
            index,
            waiting: 0,
            is_moved: false,
            released: Vec::new(),
            decoded: Vec::new(),
        })
    }

    /// Has every request be one that may be watched, or none. `all` are the bounds, where there were none so far; none is
    /// returned where there is nothing to be asked about.
    pub(crate) fn watched(
        before: Option<Self>,
        is_watched: bool,
        controls: Arc<Controls>,
        index: usize,
    ) -> Option<Self> {
        let none = || Self {
            all: Vec::new(),
            first: Vec::new(),
            is_watched,
            controls,
            index,
            waiting: 0,
            is_moved: false,
            released: Vec::new(),
            decoded: Vec::new(),
        };
        let mut throttles = before.or_else(|| is_watched.then(none))?;
        throttles.is_watched = is_watched;
        throttles.first = if is_watched { Vec::new() } else { throttles.all.clone() };
        let is_idle = throttles.all.is_empty() && throttles.waiting == 0 && throttles.released.is_empty();
        (is_watched || !is_idle).then_some(throttles)
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
        self.first = if self.is_watched { Vec::new() } else { all.to_vec() };
        self.is_moved = self.waiting > 0;
    }

    /// Whether a request may be answered now; the first bound whose paths it is of decides. `user` says for whom it is,
    /// where that matters.
    pub(crate) fn ask(
        &mut self,
        (request, user): (&Request<'_>, &mut dyn FnMut() -> User),
        asker: Asker,
        now_ms: u64,
        counters: &LoopCounters,
    ) -> Gate {
        if self.first.is_empty() {
            return self.ask_aside((request, user), asker, now_ms, counters);
        }
        let Ok(found) = target::resolve(request.target, true, &mut self.decoded) else { return Gate::Open(None) };
        let found =
            self.first.iter().find(|throttle| throttle.0.pattern.matches(found.path)).map(|one| Arc::clone(&one.0));
        if self.is_moved {
            self.leave_others(asker, found.as_ref());
        }
        let Some(of) = found else { return Gate::Open(None) };
        let state = of.state();
        match state.waiting.iter().position(|waiter| waiter.asker == asker) {
            Some(place) => self.ask_again(&of, state, place, now_ms, counters),
            None => {
                let user = state.law.per_user().map(|_| user());
                self.ask_first(&of, state, (asker, user), now_ms, counters)
            }
        }
    }

    /// The same while requests are watched, and where there are no bounds.
    #[cold]
    fn ask_aside(
        &mut self,
        request: (&Request<'_>, &mut dyn FnMut() -> User),
        asker: Asker,
        now_ms: u64,
        counters: &LoopCounters,
    ) -> Gate {
        let gate = if self.all.is_empty() {
            Gate::Open(None)
        } else {
            self.first.clone_from(&self.all);
            let gate = self.ask(request, asker, now_ms, counters);
            self.first.clear();
            gate
        };
        match gate {
            _ if !self.is_watched => gate,
            Gate::Open(place) => Gate::Aside(Aside::Watched(place)),
            Gate::Aside(Aside::Full { seconds }) => Gate::Aside(Aside::WatchedFull { seconds }),
            Gate::Wait | Gate::Aside(_) => gate,
        }
    }

    /// Whether a request that has just come may be answered.
    fn ask_first(
        &mut self,
        of: &Arc<Shared>,
        mut state: MutexGuard<'_, State>,
        (asker, user): (Asker, Option<User>),
        now_ms: u64,
        counters: &LoopCounters,
    ) -> Gate {
        let has_turn = state.first().is_none() && state.has_room_for(user.as_ref());
        if has_turn && state.running < state.law.running_max(state.all() + 1) && !self.controls.is_over() {
            state.run(user.as_ref());
            drop(state);
            return self.open(of, 0, user);
        }
        if !state.law.may_wait(state.waiting.len(), state.running) {
            counters.throttle_refused.add(1);
            return Gate::Aside(Aside::Full { seconds: state.law.again_s() });
        }
        state.waiting.push_back(Waiter { asker, user, index: self.index, since_ms: now_ms, has_passed: false });
        self.waiting += 1;
        counters.throttle_queued.add(1);
        // One more that waits may be one more that runs.
        let next = state.next();
        drop(state);
        next.into_iter().for_each(|index| self.controls.wake(index));
        Gate::Wait
    }

    /// Whether a request may be answered that waits at a place of the queue.
    fn ask_again(
        &mut self,
        of: &Arc<Shared>,
        mut state: MutexGuard<'_, State>,
        place: usize,
        now_ms: u64,
        counters: &LoopCounters,
    ) -> Gate {
        let waited_ms = now_ms.saturating_sub(state.waiting[place].since_ms);
        // Requests that came before have their turn first.
        let has_turn = state.first() == Some(place) && state.running < state.law.running_max(state.all());
        let is_late = !has_turn && !state.waiting[place].has_passed && state.law.is_to_run(waited_ms);
        let runs = has_turn
            || is_late && state.law.may_run(state.all()) && state.has_room_for(state.waiting[place].user.as_ref());
        if runs && !self.controls.is_over() {
            let user = state.waiting.remove(place).and_then(|waiter| waiter.user);
            self.waiting -= 1;
            state.run(user.as_ref());
            let next = state.next();
            drop(state);
            next.into_iter().for_each(|index| self.controls.wake(index));
            return self.open(of, waited_ms, user);
        }
        state.waiting[place].has_passed |= is_late;
        if !state.law.is_over(waited_ms) {
            return Gate::Wait;
        }
        state.waiting.remove(place);
        self.waiting -= 1;
        counters.throttle_refused.add(1);
        Gate::Aside(Aside::Full { seconds: state.law.again_s() })
    }

    fn open(&self, of: &Arc<Shared>, waited_ms: u64, user: Option<User>) -> Gate {
        Gate::Open(Some(Place { of: Arc::clone(of), controls: Arc::clone(&self.controls), waited_ms, user }))
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
            let all = state.all();
            let mut free = if is_over { 0 } else { state.law.running_max(all).saturating_sub(state.running) };
            let mut taken: HashMap<&User, usize> = HashMap::new();
            for waiter in &state.waiting {
                let waited_ms = now_ms.saturating_sub(waiter.since_ms);
                let is_late = state.law.is_over(waited_ms)
                    || !waiter.has_passed && state.law.is_to_run(waited_ms) && state.has_room_for(waiter.user.as_ref());
                let has_turn = free > 0 && state.has_turn(waiter, &mut taken);
                free -= usize::from(has_turn);
                if !has_turn && !is_late {
                    // They are in order of arrival: none behind it has its turn, or has waited long enough, unless what
                    // holds it back is of itself.
                    if state.law.per_user().is_none() && !waiter.has_passed {
                        break;
                    }
                    continue;
                }
                if waiter.index == self.index {
                    turns.push(waiter.asker);
                }
            }
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
        all.iter().map(Throttle::now).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.end(self.user.as_ref());
        let next = state.first().map(|first| state.waiting[first].index);
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
        throttles.ask((&request, &mut || User::At([192, 0, 2, asker.connection as u8].into())), asker, now_ms, counters)
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
        assert!(matches!(ask(&mut throttles, "/a/x", 5, 0), Gate::Aside(Aside::Full { seconds: 5 })));
        assert!(matches!(ask(&mut throttles, "/a/x", 3, 4000), Gate::Wait), "asked again it has its place");
        assert_eq!(Throttles::fill(std::slice::from_ref(&throttle)), (2, 2));
        assert_eq!((throttles.turns(4000), throttles.turns(5000)), (vec![], vec![of(3), of(4)]), "none, or too long");
        drop(first);
        assert_eq!(throttles.turns(4000), [of(3)], "there is one place");
        assert!(matches!(ask(&mut throttles, "/a/x", 4, 4000), Gate::Wait), "another one came before");
        let Gate::Open(Some(third)) = ask(&mut throttles, "/a/x", 3, 4000) else { panic!("its turn") };
        assert_eq!((second.waited_ms(), third.waited_ms()), (0, 4000));
        assert!(
            matches!(ask(&mut throttles, "/a/x", 4, 5000), Gate::Aside(Aside::Full { .. })),
            "it has waited long enough"
        );
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
        assert!(matches!(asked(&mut loops, 0, "/a/x", 8), Gate::Aside(Aside::Full { .. })));
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
