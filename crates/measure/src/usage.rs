//! Object utilisation and waiting, from abstract events.
//!
//! Horikawa, "A Framework for Performance Evaluation Based on Event Tracing" (2000): equation (1) is the time that a
//! process uses an object, the sum of finish less accept; equation (2) the time that it waits for it, the sum of accept
//! less request.
//! Where the paper keeps one start for each object, which overlapping requests would break, ours is kept for each pair
//! of requester and object.

use std::collections::BTreeMap;

/// The abstract events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// A requester asks an object.
    Request,
    /// The object takes it up.
    Accept,
    /// It is done.
    Finish,
    /// The requester pauses until it hears of the outcome.
    Wait,
}

/// What one requester had of one object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that the requester used the object, nanoseconds: equation (1).
    pub used_ns: u64,
    /// Time that it waited for it, nanoseconds: equation (2).
    pub waited_ns: u64,
    /// How often the object was taken up.
    pub accepts: u64,
    /// How often it was asked for.
    pub requests: u64,
    asked_ns: Option<u64>,
    accepted_ns: Option<u64>,
}

/// The fold, for requesters and objects that are told apart by numbers.
#[derive(Debug, Clone, Default)]
pub struct UsageFold {
    by_pair: BTreeMap<(u64, u64), Usage>,
    most: usize,
    evicted: u64,
}

impl UsageFold {
    /// At most `most` pairs; further ones are counted as evicted and left out.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { by_pair: BTreeMap::new(), most, evicted: 0 }
    }

    /// Takes an event; the times of a pair must not run back.
    pub fn push(&mut self, verb: Verb, requester: u64, object: u64, at_ns: u64) {
        let key = (requester, object);
        // What was never asked for nor taken up has nothing to finish: after a loss, or after the pair was let go.
        if matches!(verb, Verb::Finish | Verb::Wait) && !self.by_pair.contains_key(&key) {
            return;
        }
        if !self.by_pair.contains_key(&key) && self.by_pair.len() >= self.most {
            self.evicted += 1;
            return;
        }
        let usage = self.by_pair.entry(key).or_default();
        match verb {
            Verb::Request => {
                usage.requests += 1;
                usage.asked_ns.get_or_insert(at_ns);
            }
            Verb::Accept => {
                usage.accepts += 1;
                // An accept without a request is one whose request came before the recording, or was lost.
                usage.waited_ns += usage.asked_ns.take().map_or(0, |asked| at_ns.saturating_sub(asked));
                usage.accepted_ns = Some(at_ns);
            }
            Verb::Finish => {
                usage.used_ns += usage.accepted_ns.take().map_or(0, |accepted| at_ns.saturating_sub(accepted));
            }
            Verb::Wait => {}
        }
    }

    /// What a requester had of an object so far.
    #[must_use]
    pub fn snapshot(&self, requester: u64, object: u64) -> Usage {
        self.by_pair.get(&(requester, object)).copied().unwrap_or_default()
    }

    /// Lets go of a pair whose requester is gone, which makes room for another one.
    pub fn evict(&mut self, requester: u64, object: u64) {
        self.by_pair.remove(&(requester, object));
    }

    /// All pairs: (requester, object), what the one had of the other.
    pub fn iter(&self) -> impl Iterator<Item = ((u64, u64), Usage)> {
        self.by_pair.iter().map(|(pair, usage)| (*pair, *usage))
    }

    /// Events of pairs that found no room.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: u64 = 1;

    #[test]
    fn equations_1_and_2_hold_for_overlapping_requesters() {
        let mut fold = UsageFold::new(10);
        for (verb, task, at) in [
            (Verb::Request, 7, 100),
            (Verb::Accept, 7, 110),
            (Verb::Request, 8, 120),
            (Verb::Request, 8, 125), // Asked again while it waits: still one wait.
            (Verb::Finish, 7, 150),
            (Verb::Wait, 7, 150),
            (Verb::Accept, 8, 150),
            (Verb::Finish, 8, 155),
            (Verb::Finish, 8, 160), // A finish without an accept, as after a loss, adds nothing.
        ] {
            fold.push(verb, task, CPU, at);
        }
        let (seven, eight) = (fold.snapshot(7, CPU), fold.snapshot(8, CPU));
        assert_eq!((seven.used_ns, seven.waited_ns), (40, 10));
        assert_eq!((eight.used_ns, eight.waited_ns), (5, 30));
        assert_eq!((eight.requests, eight.accepts), (2, 1));
    }

    #[test]
    fn it_is_bounded() {
        let mut fold = UsageFold::new(2);
        for task in 0..5 {
            fold.push(Verb::Request, task, CPU, 1);
        }
        assert_eq!((fold.iter().count(), fold.evicted()), (2, 3));
    }

    #[test]
    fn those_that_are_gone_make_room() {
        let mut fold = UsageFold::new(2);
        for task in 0..5 {
            fold.push(Verb::Accept, task, CPU, 1);
            fold.evict(task, CPU);
            // A task leaves the CPU for the last time when it is gone already.
            fold.push(Verb::Finish, task, CPU, 2);
            fold.push(Verb::Wait, task, CPU, 2);
        }
        assert_eq!((fold.iter().count(), fold.evicted()), (0, 0));
    }
}
