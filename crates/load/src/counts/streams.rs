//! What is counted of answers that come bit by bit.

use crate::counts::histogram::{Histogram, histogram};
use std::time::Duration;

/// Counts of a loop; loops' tallies add up.
#[derive(Debug, Clone)]
pub(crate) struct StreamTally {
    /// Successes by what an event of theirs is, in the order of [`crate::Form::ALL`].
    pub(crate) forms: [u64; 3],
    pub(crate) events: u64,
    /// Successes whose last event said that nothing follows.
    pub(crate) done: u64,
    /// Successes that this side ended.
    pub(crate) closed: u64,
    /// Successes that ended within an event.
    pub(crate) unfinished: u64,
    /// Events behind the one that said that nothing follows.
    pub(crate) behind: u64,
    pub(crate) first_event: Histogram,
    pub(crate) between: Histogram,
    pub(crate) events_per_answer: Histogram,
    pub(crate) bytes_per_answer: Histogram,
}

/// What a run found of streamed answers; durations are in nanoseconds.
#[derive(Debug, Clone)]
pub struct StreamReport {
    /// Successes by what an event of theirs is, in the order of [`crate::Form::ALL`].
    pub forms: [u64; 3],
    /// Events of all answers, those that failed later and those of other statuses included.
    pub events: u64,
    /// The same a second, over the time until nothing was under way.
    pub events_per_s: f64,
    /// Successes whose last event said that nothing follows (`data: [DONE]`).
    pub done: u64,
    /// Successes that this side ended ([`crate::Streaming::close_after`]).
    pub closed: u64,
    /// Successes that ended within an event, which does not count then.
    pub unfinished: u64,
    /// Events behind the one that said that nothing follows, which do not count.
    pub behind: u64,
    /// From the intended time to the end of the first event, of successes that had one.
    pub first_event: Histogram,
    /// Between each two neighbouring events of an answer whose status is expected; 0 where one reception brought both.
    pub between: Histogram,
    /// How many events each success had.
    pub events_per_answer: Histogram,
    /// How many bytes the body of each success had.
    pub bytes_per_answer: Histogram,
}

impl StreamTally {
    pub(crate) fn new() -> Self {
        Self {
            forms: [0; 3],
            events: 0,
            done: 0,
            closed: 0,
            unfinished: 0,
            behind: 0,
            first_event: histogram(),
            between: histogram(),
            events_per_answer: histogram(),
            bytes_per_answer: histogram(),
        }
    }

    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.forms.iter_mut().zip(other.forms) {
            *count += more;
        }
        self.events += other.events;
        self.done += other.done;
        self.closed += other.closed;
        self.unfinished += other.unfinished;
        self.behind += other.behind;
        for (histogram, more) in [
            (&mut self.first_event, &other.first_event),
            (&mut self.between, &other.between),
            (&mut self.events_per_answer, &other.events_per_answer),
            (&mut self.bytes_per_answer, &other.bytes_per_answer),
        ] {
            // All have the same bounds, so adding cannot fail.
            histogram.add(more).expect("histograms of the same bounds");
        }
    }

    pub(crate) fn report(&self, took: Duration) -> StreamReport {
        StreamReport {
            forms: self.forms,
            events: self.events,
            events_per_s: self.events as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE),
            done: self.done,
            closed: self.closed,
            unfinished: self.unfinished,
            behind: self.behind,
            first_event: self.first_event.clone(),
            between: self.between.clone(),
            events_per_answer: self.events_per_answer.clone(),
            bytes_per_answer: self.bytes_per_answer.clone(),
        }
    }
}
