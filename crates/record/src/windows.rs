//! The records of a window in memory, within a bound, to be joined as soon as the window is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use weir_capture::{CaptureError, EventSource, KindSet};
use weir_timeline::{Joiner, Response};
use weir_wire::{Kind, Record, Slot};

/// Records in memory, as they come: each CPU's in order.
#[derive(Debug, Default)]
pub(crate) struct Records {
    records: Vec<(Record, u32)>,
    slots: Vec<Slot>,
}

impl Records {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn push(&mut self, record: &Record, slots: &[Slot]) {
        self.records.push((*record, self.slots.len() as u32));
        self.slots.extend_from_slice(slots);
    }

    /// Gives them to a joiner in the order of time.
    pub(crate) fn give(&mut self, joiner: &mut Joiner, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        // A stable sort: each CPU's records stay in their order.
        self.records.sort_by_key(|(record, _)| record.time_ns);
        for (record, at) in &self.records {
            let slots = self.slots.get(*at as usize..).unwrap_or_default();
            let slots = slots.get(..usize::from(record.slots)).unwrap_or_default();
            joiner.push(record, slots, None, take);
        }
    }
}

/// The records of a window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    held: Records,
    overflown: bool,
}

impl Window {
    /// Gives its records to a joiner in the order of time, and ends it.
    pub(crate) fn join(&mut self, joiner: &mut Joiner, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        self.held.give(joiner, take);
        joiner.finish(take);
    }

    /// How long it was, by its edges, nanoseconds.
    pub(crate) fn length_ns(&self) -> u64 {
        let edge = |ends: bool| {
            let is_it = |record: &Record| record.kind == Kind::Window as u16 && (record.flags != 0) == ends;
            self.held.records.iter().map(|(record, _)| record).find(|record| is_it(record)).map_or(0, |record| record.b)
        };
        edge(true).saturating_sub(edge(false))
    }
}

/// What a tap has counted, readable while it listens.
#[derive(Debug, Default)]
pub(crate) struct TapCounts {
    missed: AtomicU64,
    held: AtomicUsize,
}

impl TapCounts {
    /// Windows that held too many records, or that were not taken in time.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Records of the present window so far.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Listens to what is recorded, and hands it on window by window.
#[derive(Debug)]
pub(crate) struct Tap {
    name: &'static str,
    records_max: usize,
    window: Window,
    to: SyncSender<Window>,
    counts: Arc<TapCounts>,
}

impl Tap {
    /// One that holds so many records of a window at most.
    pub(crate) fn new(name: &'static str, records_max: usize, to: SyncSender<Window>, counts: Arc<TapCounts>) -> Self {
        Self { name, records_max, window: Window::default(), to, counts }
    }
}

impl EventSource for Tap {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        self.window = Window::default();
        self.counts.held.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn detach(&mut self) {}

    fn sees(&self) -> KindSet {
        KindSet::ALL
    }

    fn see(&mut self, record: &Record, slots: &[Slot]) {
        if self.window.held.len() >= self.records_max {
            self.window.overflown = true;
        } else {
            self.window.held.push(record, slots);
            self.counts.held.store(self.window.held.len(), Ordering::Relaxed);
        }
        if record.kind == Kind::Window as u16 && record.flags != 0 {
            let window = std::mem::take(&mut self.window);
            if window.overflown || self.to.try_send(window).is_err() {
                self.counts.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
