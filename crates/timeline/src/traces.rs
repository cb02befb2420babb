//! The traces that requests name themselves, of streams of HTTP/2 and of requests that come through a TLS library.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use weir_wire::Record;
use weir_wire::trace_context::{SPAN, TRACE, TraceContext, TraceOf};

/// CPUs of which the first half of a trace is kept until the second comes.
const MOST_LANES: usize = 1 << 13;
/// Tasks whose requests are remembered; beyond, all are forgotten.
const MOST_TASKS: usize = 1 << 14;
/// Requests of a task that are remembered.
const MOST_OF_TASK: usize = 1 << 8;

/// Puts traces together, and keeps those of requests that tasks took from their TLS library.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    halves: FxHashMap<u32, Record>,
    /// By task, in the order of time: each request with the trace that it names, if it does.
    tasks: FxHashMap<u32, VecDeque<(u64, Option<TraceContext>)>>,
}

impl Traces {
    /// Takes a record; gives the trace, and whose it is, where it tells the second half.
    pub(crate) fn push(&mut self, record: &Record) -> Option<(TraceOf, Option<TraceContext>)> {
        if record.flags == TRACE {
            if self.halves.len() < MOST_LANES || self.halves.contains_key(&record.lane) {
                self.halves.insert(record.lane, *record);
            }
            return None;
        }
        let first = self.halves.remove(&record.lane).filter(|first| first.time_ns == record.time_ns);
        let trace = first.filter(|_| record.flags & SPAN != 0).and_then(|first| TraceContext::read(&first, record));
        Some((TraceOf::read(record), trace))
    }

    /// A task takes a request at a time, which names a trace or, as far as is known, none.
    pub(crate) fn taken(&mut self, pid: u32, at_ns: u64, trace: Option<TraceContext>) {
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&pid) {
            self.tasks.clear();
        }
        let taken = self.tasks.entry(pid).or_default();
        match taken.back_mut().filter(|(last_ns, _)| *last_ns == at_ns) {
            Some((_, known)) => *known = trace.or(*known),
            None => taken.push_back((at_ns, trace)),
        }
        if taken.len() > MOST_OF_TASK {
            taken.pop_front();
        }
    }

    /// The trace of the first request that a task took within a time.
    pub(crate) fn of_task(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<TraceContext> {
        let taken = self.tasks.get(&pid)?;
        let first = taken.partition_point(|(at_ns, _)| *at_ns < from_ns);
        taken.get(first).filter(|(at_ns, _)| *at_ns <= to_ns).and_then(|(_, trace)| *trace)
    }

    /// Forgets what was before a time.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for taken in self.tasks.values_mut() {
            while taken.front().is_some_and(|(at_ns, _)| *at_ns < before_ns) {
                taken.pop_front();
            }
        }
        self.tasks.retain(|_, taken| !taken.is_empty());
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.halves.len() + self.tasks.values().map(VecDeque::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(number: u64) -> TraceContext {
        TraceContext { trace: u128::from(number), span: number, sampled: true }
    }

    #[test]
    fn a_request_has_its_own_trace_and_not_that_of_the_next() {
        let mut traces = Traces::default();
        for (at_ns, trace) in [(100, Some(context(7))), (200, None), (300, Some(context(9)))] {
            let told = trace.into_iter().flat_map(|trace| trace.write(TraceOf::Task, at_ns, 3));
            for record in [TraceOf::Task.none(at_ns, 3)].into_iter().chain(told) {
                if let Some((TraceOf::Task, trace)) = traces.push(&record) {
                    traces.taken(5, at_ns, trace);
                }
            }
        }
        assert_eq!(traces.of_task(5, 90, 400), Some(context(7)));
        assert_eq!(traces.of_task(5, 150, 400), None, "the next request names one, this one does not");
        assert_eq!(traces.of_task(5, 250, 400), Some(context(9)));
        assert_eq!((traces.of_task(5, 250, 290), traces.of_task(6, 90, 400)), (None, None));
        traces.trim(250);
        assert_eq!((traces.of_task(5, 90, 240), traces.held()), (None, 1));
    }

    #[test]
    fn halves_that_do_not_fit_are_none_and_the_room_is_bounded() {
        let mut traces = Traces::default();
        let [first, _] = context(7).write(TraceOf::Task, 100, 0);
        let [_, second] = context(8).write(TraceOf::Task, 101, 0);
        assert_eq!((traces.push(&first), traces.push(&second)), (None, Some((TraceOf::Task, None))));
        for number in 0..(MOST_TASKS + MOST_OF_TASK) as u32 {
            traces.taken(number, 1, None);
            traces.taken(1, u64::from(number), None);
        }
        assert!(traces.held() <= MOST_TASKS + MOST_OF_TASK);
    }
}
