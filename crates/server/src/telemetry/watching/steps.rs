//! Steps with upstreams, told where they are taken.
//!
//! What is on the way of every request must not ask whether it is watched. So the steps of an upstream are told by what
//! seldom happens (a connection is made, an attempt fails, a program writes to its log), to a place of the thread that
//! is set only while a watched request has its turn.

use super::bodies::BodiesSeen;
use super::redaction::text_shown;
use super::seen::StepSeen;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// Steps that are kept of a request; further ones are left away.
const STEPS_MAX: usize = 64;

thread_local! {
    static NOW: RefCell<Option<Steps>> = const { RefCell::new(None) };
}

/// The steps of a watched request.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    began: Instant,
    list: Rc<RefCell<Taken>>,
}

/// What was taken down.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) steps: Vec<StepSeen>,
    /// Lines that a program wrote to its log.
    pub(super) output: Vec<String>,
    /// What passed of both bodies, if a watcher is told of them.
    pub(super) bodies: Option<BodiesSeen>,
}

impl Steps {
    pub(super) fn since(began: Instant) -> Self {
        Self { began, list: Rc::default() }
    }

    /// Takes down what passes of the bodies, too.
    pub(super) fn take_bodies(&self) {
        self.list.borrow_mut().bodies = Some(BodiesSeen::default());
    }

    /// Bytes of the request's body that would still be kept; none if bodies are not taken down.
    pub(crate) fn room_for_request(&self) -> Option<usize> {
        self.list.borrow().bodies.as_ref().map(|bodies| bodies.request.room())
    }

    /// So many bytes of the request's body were taken by what answers, of which these are the first.
    pub(crate) fn request_passes(&self, first: &[u8], bytes: u64) {
        if let Some(bodies) = &mut self.list.borrow_mut().bodies {
            bodies.request.pass(first, bytes);
        }
    }

    /// So many bytes of the response's body were given, of which these are the first.
    pub(crate) fn response_passes(&self, first: &[u8], bytes: u64) {
        if let Some(bodies) = &mut self.list.borrow_mut().bodies {
            bodies.response.pass(first, bytes);
        }
    }

    pub(super) fn take(&self) -> Taken {
        std::mem::take(&mut *self.list.borrow_mut())
    }

    /// Takes a step down, unless it is the same as the one before.
    pub(crate) fn tell(&self, what: String) {
        let steps = &mut self.list.borrow_mut().steps;
        let is_same = steps.last().is_some_and(|last| last.what == what);
        if !is_same && steps.len() < STEPS_MAX {
            let at_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
            steps.push(StepSeen { at_us, what });
        }
    }

    /// Does something of which the steps are these.
    pub(crate) fn during<R>(&self, what: impl FnOnce() -> R) -> R {
        let before = NOW.replace(Some(self.clone()));
        let done = what();
        NOW.set(before);
        done
    }
}

/// Takes a step down, if it is one of a watched request. Only for what seldom happens.
#[cold]
pub(crate) fn step(what: impl FnOnce() -> String) {
    let steps = NOW.with_borrow(Clone::clone);
    if let Some(steps) = steps {
        steps.tell(what());
    }
}

/// Takes a line down that a program wrote to its log, if it runs for a watched request.
#[cold]
pub(crate) fn output(line: &str) {
    NOW.with_borrow(|steps| {
        if let Some(steps) = steps {
            let output = &mut steps.list.borrow_mut().output;
            if output.len() < STEPS_MAX {
                output.push(text_shown(line.as_bytes()));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_request_that_has_its_turn() {
        let (outer, inner) = (Steps::since(Instant::now()), Steps::since(Instant::now()));
        step(|| unreachable!("nothing is watched"));
        outer.during(|| {
            step(|| "one".to_owned());
            inner.during(|| step(|| "two".to_owned()));
            step(|| "three".to_owned());
            step(|| "three".to_owned());
            output("a\x1bb");
        });
        let words = |steps: &Steps| steps.list.borrow().steps.iter().map(|step| step.what.clone()).collect::<Vec<_>>();
        assert_eq!(
            (words(&outer), words(&inner)),
            (vec!["one".to_owned(), "three".to_owned()], vec!["two".to_owned()])
        );
        assert_eq!(outer.take().output, ["a\\x1bb"]);
        (0..100).for_each(|number| outer.tell(number.to_string()));
        assert_eq!(outer.take().steps.len(), STEPS_MAX);
    }
}
