//! One worker, as its orchestrator sees it.

use crate::counts::OwnSlice;
use crate::counts::series::{Counts, Sampling, Series};
use crate::counts::tally::Published;
use crate::options::control::Control;
use crate::run::Made;
use crate::workers::clock::ClockFilter;

/// How far a worker is.
#[derive(Debug)]
pub(crate) enum State {
    Greeting,
    Measuring,
    Preparing,
    Ready,
    Running,
    Made(Box<Made>),
    Lost { why: String, at_ns: u64 },
}

/// A ping whose answer has not come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) sent_ns: u64,
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) clock: ClockFilter,
    pub(crate) heard_ns: u64,
    /// When its state began.
    pub(crate) since_ns: u64,
    pub(crate) asked: Option<Asked>,
    pub(crate) pings: u64,
    /// What the shared counters hold of it.
    pub(crate) published: Published,
    /// What it handed out.
    pub(crate) series: Series,
    pub(crate) told: Counts,
    /// Bytes of its record, and when the last of them came.
    pub(crate) record_bytes: u64,
    pub(crate) record_ns: u64,
}

impl Seat {
    pub(crate) fn new(name: String, sampling: Sampling, now_ns: u64) -> Self {
        Self {
            name,
            state: State::Greeting,
            clock: ClockFilter::default(),
            heard_ns: now_ns,
            since_ns: now_ns,
            asked: None,
            pings: 0,
            published: Published::default(),
            series: Series::new(sampling),
            told: Counts::default(),
            record_bytes: 0,
            record_ns: 0,
        }
    }

    pub(crate) fn enter(&mut self, state: State, now_ns: u64) {
        self.state = state;
        self.since_ns = now_ns;
    }

    /// It has said all, or is lost.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Made(_) | State::Lost { .. })
    }

    /// It will say no more; what it showed as open is not any more.
    pub(crate) fn lose(&mut self, why: String, now_ns: u64, control: &Control) {
        if !self.is_over() {
            self.enter(State::Lost { why, at_ns: now_ns }, now_ns);
            self.close(control);
        }
    }

    /// Takes its counters.
    pub(crate) fn publish(&mut self, counters: Published, control: &Control) {
        control.add(&mut self.published, counters);
    }

    /// Its connections are closed.
    pub(crate) fn close(&mut self, control: &Control) {
        let mut counters = self.published;
        counters[3] = 0;
        self.publish(counters, control);
    }

    /// Takes what one of its loops did in an interval; false where the sum is no run's.
    pub(crate) fn add(&mut self, slice: &OwnSlice, control: &Control) -> bool {
        let told = self.told.and(&slice.counts);
        if !told.are_possible() {
            return false;
        }
        self.told = told;
        self.series.add_own(slice);
        control.collect_own(slice);
        true
    }
}
