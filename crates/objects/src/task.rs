//! A task: for whom it works at each time.

use crate::events::ObjectId;
use crate::paths::PathId;
use std::collections::VecDeque;

/// Changes that a task keeps, for uses that are told after they began.
const MOST_CHANGES: usize = 64;
/// Uses that a task has at a time, calls that it is in, and places that a use passes through.
pub(crate) const MOST_HELD: usize = 64;
pub(crate) const MOST_CALLS: usize = 64;
const MOST_SLICES: usize = 256;

/// Whose work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Background,
    Transaction(u64),
    /// The job has given an answer. If it gives more, this was still its work, else it was not.
    Tail(u64),
}

/// Whose work, and which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) owner: Owner,
    pub(crate) path: PathId,
    /// The part of the background that a tail is, if it turns out to be none of the job's work.
    pub(crate) alone: PathId,
}

/// Where a task's work comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Base {
    #[default]
    Own,
    /// A job: its interaction and key, and its number, as keys are used again.
    Job((u16, u64), u64),
}

/// A use by a task that lasts.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) interaction: u16,
    pub(crate) object: ObjectId,
    /// When it was asked for; none if that was not seen.
    pub(crate) asked_ns: Option<u64>,
    pub(crate) accepted_ns: u64,
    from_ns: u64,
    pub(crate) slices: Vec<(Place, u64)>,
}

impl Held {
    pub(crate) fn new(interaction: u16, object: ObjectId, asked_ns: Option<u64>, at_ns: u64) -> Self {
        Self { interaction, object, asked_ns, accepted_ns: at_ns, from_ns: at_ns, slices: Vec::new() }
    }

    /// The use was at a place up to a time.
    pub(crate) fn cut(&mut self, place: Place, at_ns: u64) {
        let ns = at_ns.saturating_sub(self.from_ns);
        self.from_ns = self.from_ns.max(at_ns);
        if ns == 0 {
            return;
        }
        let is_full = self.slices.len() >= MOST_SLICES;
        match self.slices.iter_mut().find(|(other, _)| *other == place) {
            Some((_, sum)) => *sum = sum.saturating_add(ns),
            None if is_full => {
                let last = &mut self.slices[MOST_SLICES - 1].1;
                *last = last.saturating_add(ns);
            }
            None => self.slices.push((place, ns)),
        }
    }
}

/// Wake-ups of a server between a finish and the next accept (section 3.3.3).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wakes {
    /// Whether it was woken and has dealt with nothing since.
    idle: bool,
    /// Those that were followed by another one, and by nothing that it dealt with.
    futile: u64,
    /// A finish was seen, from which on wake-ups count.
    finished: bool,
}

impl Wakes {
    pub(crate) fn woken(&mut self) {
        self.futile += u64::from(self.idle && self.finished);
        self.idle = true;
    }

    /// It deals with something: the last wake-up was necessary.
    pub(crate) fn touched(&mut self) {
        self.idle = false;
    }

    pub(crate) fn finished(&mut self) {
        *self = Self { idle: false, futile: 0, finished: true };
    }

    /// The unnecessary wake-ups before this accept.
    pub(crate) fn accepted(&mut self) -> u64 {
        let futile = if self.finished { self.futile } else { 0 };
        *self = Self::default();
        futile
    }
}

/// What tasks of a name did as servers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Team {
    pub(crate) tasks: u64,
    pub(crate) accepts: u64,
    pub(crate) woken: u64,
    pub(crate) futile: u64,
}

impl Team {
    pub(crate) fn add(&mut self, task: &Task) {
        self.tasks += 1;
        self.accepts += task.accepts;
        self.woken += task.woken;
        self.futile += task.futile;
    }
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) base: Base,
    pub(crate) place: Place,
    pub(crate) since_ns: u64,
    pub(crate) calls: Vec<(u16, ObjectId)>,
    pub(crate) held: Vec<Held>,
    history: VecDeque<(u64, Place)>,
    forgotten: bool,
    pub(crate) ended: bool,
    pub(crate) wakes: Wakes,
    /// Wake-ups, unnecessary ones, and jobs that it took.
    pub(crate) woken: u64,
    pub(crate) futile: u64,
    pub(crate) accepts: u64,
}

impl Task {
    pub(crate) fn new(place: Place, at_ns: u64) -> Self {
        Self {
            base: Base::Own,
            place,
            since_ns: at_ns,
            calls: Vec::new(),
            held: Vec::new(),
            history: VecDeque::from([(0, place)]),
            forgotten: false,
            ended: false,
            wakes: Wakes::default(),
            woken: 0,
            futile: 0,
            accepts: 0,
        }
    }

    /// From this time on it works there. Returns how long it was where it was before.
    pub(crate) fn go(&mut self, place: Place, at_ns: u64) -> u64 {
        for held in &mut self.held {
            held.cut(self.place, at_ns);
        }
        let elapsed_ns = at_ns.saturating_sub(self.since_ns);
        (self.place, self.since_ns) = (place, self.since_ns.max(at_ns));
        self.history.push_back((at_ns, place));
        if self.history.len() > MOST_CHANGES {
            self.history.pop_front();
            self.forgotten = true;
        }
        elapsed_ns
    }

    /// Where it worked at a time; none if that is forgotten.
    pub(crate) fn at(&self, at_ns: u64) -> Option<Place> {
        let after = self.history.iter().rposition(|(since_ns, _)| *since_ns <= at_ns);
        match after {
            Some(index) => Some(self.history[index].1),
            None if self.forgotten => None,
            None => self.history.front().map(|(_, place)| *place),
        }
    }

    /// A tail turned out to be the work of this owner, or none's.
    pub(crate) fn settle(&mut self, tail: u64, owner: Owner) {
        let held = self.held.iter_mut().flat_map(|held| held.slices.iter_mut().map(|(place, _)| place));
        let history = self.history.iter_mut().map(|(_, place)| place);
        for place in held.chain(history).chain([&mut self.place]) {
            *place = place.settled(tail, owner);
        }
    }
}

impl Place {
    pub(crate) fn settled(self, tail: u64, owner: Owner) -> Self {
        if self.owner != Owner::Tail(tail) {
            return self;
        }
        let path = if owner == Owner::Background { self.alone } else { self.path };
        Self { owner, path, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONE: Place = Place { owner: Owner::Transaction(1), path: 1, alone: 9 };
    const IN_TAIL: Place = Place { owner: Owner::Tail(5), path: 1, alone: 9 };
    const ALONE: Place = Place { owner: Owner::Background, path: 9, alone: 9 };

    #[test]
    fn where_it_worked_is_known_until_it_is_forgotten() {
        let mut task = Task::new(ALONE, 10);
        assert_eq!(task.go(AT_ONE, 20), 10);
        assert_eq!(task.go(IN_TAIL, 30), 10);
        assert_eq!((task.at(15), task.at(25), task.at(30)), (Some(ALONE), Some(AT_ONE), Some(IN_TAIL)));
        task.settle(5, Owner::Background);
        assert_eq!((task.at(25), task.at(35)), (Some(AT_ONE), Some(ALONE)));
        (0..MOST_CHANGES as u64).for_each(|at| _ = task.go(AT_ONE, 100 + at));
        assert_eq!(task.at(15), None);
    }

    /// Fig. 7: of the wake-ups between a finish and the next accept one is necessary.
    #[test]
    fn all_wake_ups_but_one_are_unnecessary() {
        let mut wakes = Wakes::default();
        wakes.woken();
        wakes.woken();
        assert_eq!(wakes.accepted(), 0, "no finish was seen before");
        wakes.finished();
        (0..4).for_each(|_| wakes.woken());
        assert_eq!(wakes.accepted(), 3);
        wakes.finished();
        assert_eq!(wakes.accepted(), 0, "it never slept");
        wakes.finished();
        wakes.woken();
        wakes.touched();
        wakes.woken();
        assert_eq!(wakes.accepted(), 0, "it dealt with something else in between");
    }
}
