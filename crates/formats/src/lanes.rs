//! The lanes of a run that is made of a trace: a stream for each CPU, and one for requests that no CPU is told of.

use crate::Event;
use crate::event::shortened;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use weir_trace::{Cost, Limits, Run, Source, StreamWriter, WriteError};
use weir_wire::{Record, Slot};

/// CPUs that have a lane of their own; what is said of others is counted.
pub(crate) const CPUS_MAX: u32 = 8192;
/// Records of a lane that wait for an earlier one, at least; twice as many at most. Of some things it is known only later when they began.
const HELD_MAX: usize = 4096;
/// Texts that records refer to; what is beyond is called by the last one.
const TEXTS_MAX: usize = 1 << 15;
const BEYOND_TEXTS: &str = "(further names)";
/// The lane of requests in the run's other source.
const REQUESTS_LANE: u32 = 0;

/// A record that is not written yet.
#[derive(Debug, Default)]
struct Held {
    record: Record,
    payload: Vec<Slot>,
    text: Option<u32>,
}

#[derive(Debug)]
struct Lane {
    stream: StreamWriter,
    held: Vec<Held>,
    /// Times of those that are held, and which it is.
    order: Vec<(u64, u32)>,
    /// The memory that those which wait on are moved to, in their order.
    other: Vec<Held>,
    /// The time of the last record that was written.
    written_ns: u64,
    /// The texts that the stream has been told, by their numbers.
    defined: Vec<bool>,
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes<'a> {
    run: &'a Run,
    lanes: Vec<Lane>,
    requests: Option<Lane>,
    texts: FxHashMap<Box<str>, u32>,
    /// By their numbers, of which the first is 1.
    numbered: Vec<Box<str>>,
    not_kept: BTreeMap<&'static str, u64>,
    failed: Option<WriteError>,
    /// The first and the last time of all records, nanoseconds.
    pub(crate) span_ns: Option<(u64, u64)>,
}

/// What was written.
pub(crate) struct Written {
    /// By CPUs.
    pub(crate) kernel: Cost,
    /// Requests that no CPU is told of, if there were any.
    pub(crate) requests: Option<Cost>,
    pub(crate) not_kept: BTreeMap<&'static str, u64>,
    pub(crate) span_ns: (u64, u64),
}

impl<'a> Lanes<'a> {
    pub(crate) fn new(run: &'a Run) -> Self {
        let (lanes, texts, numbered) = (Vec::new(), FxHashMap::default(), Vec::new());
        let not_kept = BTreeMap::new();
        Self { run, lanes, requests: None, texts, numbered, not_kept, failed: None, span_ns: None }
    }

    /// Counts an event that a run has no place for.
    pub(crate) fn skip(&mut self, what: &'static str) {
        *self.not_kept.entry(what).or_default() += 1;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The number by which records refer to a text.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        let text = shortened(text);
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let text = if self.numbered.len() < TEXTS_MAX { text } else { BEYOND_TEXTS };
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        self.numbered.push(text.into());
        let number = self.numbered.len() as u32;
        self.texts.insert(text.into(), number);
        number
    }

    fn open(&self, source: Source, lane: u32) -> Lane {
        let stream = self.run.stream(source, lane, Limits::default());
        Lane { stream, held: Vec::new(), order: Vec::new(), other: Vec::new(), written_ns: 0, defined: Vec::new() }
    }

    /// The lane of a CPU.
    fn lane(&mut self, cpu: u32) -> Option<&mut Lane> {
        if cpu >= CPUS_MAX {
            self.skip("events of CPUs beyond the bound");
            return None;
        }
        while self.lanes.len() <= cpu as usize {
            let lane = self.open(Source::Kernel, self.lanes.len() as u32);
            self.lanes.push(lane);
        }
        self.lanes.get_mut(cpu as usize)
    }

    /// Writes a record on the lane that it names, `text` being the one that it refers to. It may be somewhat earlier than
    /// those before it; where it is too early for that it is told at the earliest time that is left.
    pub(crate) fn push(&mut self, record: Record, payload: &[Slot], text: Option<u32>) {
        self.reach(record.time_ns);
        self.lane(record.lane);
        let Self { lanes, numbered, .. } = self;
        let outcome = lanes.get_mut(record.lane as usize).map(|lane| lane.push(record, payload, (text, numbered)));
        if let Some(Err(error)) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    /// Writes a record of a request that no CPU is told of.
    pub(crate) fn push_request(&mut self, record: Record, payload: &[Slot], text: u32) {
        self.reach(record.time_ns);
        if self.requests.is_none() {
            self.requests = Some(self.open(Source::Client, REQUESTS_LANE));
        }
        let Self { requests, numbered, .. } = self;
        let outcome = requests.as_mut().map(|lane| lane.push(record, payload, (Some(text), numbered)));
        if let Some(Err(error)) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    fn reach(&mut self, at_ns: u64) {
        // What was there before the trace has no time.
        if at_ns > 0 {
            let (first, last) = self.span_ns.unwrap_or((at_ns, at_ns));
            self.span_ns = Some((first.min(at_ns), last.max(at_ns)));
        }
    }

    /// The source lost events on a CPU.
    pub(crate) fn lose(&mut self, event: &Event<'_>, events: u64) {
        if let Some(lane) = self.lane(event.cpu.unwrap_or(0)) {
            lane.stream.lose(events);
        }
    }

    pub(crate) fn finish(mut self) -> Result<Written, WriteError> {
        let mut failed = self.failed.take();
        let mut sum = |lanes: Vec<Lane>| {
            let mut cost = Cost::default();
            for lane in lanes {
                match lane.finish() {
                    Ok(written) => {
                        cost.events += written.records;
                        cost.bytes += written.bytes;
                        cost.lost += written.lost;
                    }
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
            cost
        };
        let requests = self.requests.take().map(|lane| sum(vec![lane]));
        let kernel = sum(std::mem::take(&mut self.lanes));
        let span_ns = self.span_ns.unwrap_or_default();
        failed.map_or(Ok(Written { kernel, requests, not_kept: self.not_kept, span_ns }), Err)
    }
}

impl Lane {
    fn push(
        &mut self,
        mut record: Record,
        payload: &[Slot],
        (text, numbered): (Option<u32>, &[Box<str>]),
    ) -> Result<(), WriteError> {
        // A stream has those texts alone that its own records refer to.
        if let Some(number) = text
            && let Some(text) = numbered.get(number as usize - 1)
        {
            let needed = self.defined.len().max(number as usize + 1);
            self.defined.resize(needed, false);
            if !std::mem::replace(&mut self.defined[number as usize], true) {
                self.stream.define(number, text);
            }
        }
        record.time_ns = record.time_ns.max(self.written_ns);
        self.order.push((record.time_ns, self.held.len() as u32));
        self.held.push(Held { record, payload: payload.to_vec(), text });
        if self.held.len() >= 2 * HELD_MAX { self.write(HELD_MAX) } else { Ok(()) }
    }

    /// Writes the earliest ones. They are sorted many at a time: to put each in its place would move all behind it.
    fn write(&mut self, records: usize) -> Result<(), WriteError> {
        // A stable sort keeps those of one time in the order in which they came.
        self.order.sort_by_key(|(at_ns, _)| *at_ns);
        let mut outcome = Ok(());
        for (at_ns, place) in self.order.drain(..records) {
            self.written_ns = at_ns;
            let Held { record, payload, text } = &self.held[place as usize];
            outcome = outcome.and(self.stream.push(*record, payload, *text));
        }
        self.other.clear();
        for (_, place) in &mut self.order {
            self.other.push(std::mem::take(&mut self.held[*place as usize]));
            *place = self.other.len() as u32 - 1;
        }
        std::mem::swap(&mut self.held, &mut self.other);
        outcome
    }

    fn finish(mut self) -> Result<weir_trace::Written, WriteError> {
        self.write(self.held.len())?;
        self.stream.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trace::RunReader;
    use weir_wire::Kind;

    #[test]
    fn records_that_come_somewhat_late_are_written_in_the_order_of_time() {
        let folder = std::env::temp_dir().join(format!("weir-formats-lanes-{}", std::process::id()));
        let run = Run::create(&folder).expect("a run");
        let mut lanes = Lanes::new(&run);
        let mut pushed = Vec::new();
        for number in 0..5 * HELD_MAX as u64 {
            // Each seventh is earlier than some before it, and two of each four have one time.
            let at_ns = 1_000 + number / 2 * 10 - if number % 7 == 0 { 250 } else { 0 };
            let record = Record { time_ns: at_ns, kind: Kind::Exec as u16, a: number, ..Record::default() };
            pushed.push((at_ns, number));
            lanes.push(record, &[], None);
        }
        lanes.finish().map(|written| assert_eq!(written.kernel.events, pushed.len() as u64)).expect("it is written");
        let mut told = Vec::new();
        RunReader::open(&folder).expect("a run").merge().each(|one| {
            told.push((one.record.time_ns, one.record.a));
            true
        });
        std::fs::remove_dir_all(&folder).expect("it is removed");
        pushed.sort_by_key(|(at_ns, _)| *at_ns);
        assert!(told == pushed, "{} of {} records", told.len(), pushed.len());
    }
}
