//! The traces of the slowest requests.

use crate::carried::{Carried, CarriedError, Reader, carried};
use crate::requests::traceparent::Tracer;

/// How many are listed.
const LISTED: usize = 10;

/// A request whose trace is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TracedOne {
    pub(crate) latency_ns: u64,
    pub(crate) trace: u128,
    pub(crate) status: u16,
    /// Which of the plan's requests it is.
    pub(crate) request: u32,
    /// Which of the run's workers sent it; 0 where there are none.
    pub(crate) worker: u32,
}

/// Gives the requests of a loop their traces, and keeps those of the slowest.
#[derive(Debug)]
pub(crate) struct TraceTally {
    pub(crate) tracer: Tracer,
    /// The slowest first.
    slowest: Vec<TracedOne>,
}

/// One of the slowest requests, by the trace that it sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowTrace {
    /// The id of the trace (W3C Trace Context), 32 hexadecimal digits.
    pub trace_id: String,
    /// From the intended time to the last byte of the response, in nanoseconds.
    pub latency_ns: u64,
    /// The response's status.
    pub status: u16,
    /// What was asked, method and target; `None` for the files of a mix.
    pub request: Option<String>,
    /// Which of the run's workers sent it, by its number; 0 where there are none.
    pub worker: u32,
}

impl TraceTally {
    pub(crate) fn new(seed: u64, lane: u32) -> Self {
        Self { tracer: Tracer::new(seed, lane), slowest: Vec::with_capacity(LISTED + 1) }
    }

    /// A response is whole.
    pub(crate) fn add(&mut self, one: TracedOne) {
        if self.slowest.len() == LISTED && self.slowest[LISTED - 1].latency_ns >= one.latency_ns {
            return;
        }
        let place = self.slowest.partition_point(|other| other.latency_ns >= one.latency_ns);
        self.slowest.insert(place, one);
        self.slowest.truncate(LISTED);
    }

    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.slowest.iter().for_each(|one| self.add(*one));
    }

    /// Those that are kept, all of which a worker sent.
    pub(crate) fn of_worker(mut self, worker: u32) -> Self {
        self.slowest.iter_mut().for_each(|one| one.worker = worker);
        self
    }

    /// The slowest, each with what `asked` says of its request.
    pub(crate) fn slowest(&self, asked: impl Fn(u32) -> Option<String>) -> Vec<SlowTrace> {
        let listed = self.slowest.iter().map(|one| SlowTrace {
            trace_id: format!("{:032x}", one.trace),
            latency_ns: one.latency_ns,
            status: one.status,
            request: asked(one.request),
            worker: one.worker,
        });
        listed.collect()
    }
}

carried!(TracedOne { latency_ns, trace, status, request, worker });

impl Carried for TraceTally {
    fn put(&self, to: &mut Vec<u8>) {
        self.slowest.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let mut tally = Self::new(0, 0);
        Vec::<TracedOne>::take(from)?.into_iter().for_each(|one| tally.add(one));
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_all_loops_are_listed_in_order() {
        let one = |latency_ns: u64| TracedOne {
            latency_ns,
            trace: u128::from(latency_ns),
            status: 200,
            request: 0,
            worker: 0,
        };
        let (mut first, mut second) = (TraceTally::new(1, 0), TraceTally::new(1, 1));
        for number in 0..100u64 {
            let loops = if number % 3 == 0 { &mut first } else { &mut second };
            loops.add(one(number * 37 % 101));
        }
        first.merge(&second);
        let listed: Vec<_> = first.slowest(|_| None).iter().map(|trace| trace.latency_ns).collect();
        let mut all: Vec<_> = (0..100u64).map(|number| number * 37 % 101).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(listed, all[..LISTED]);
    }
}
