//! A recording that nothing is kept of: the responses of a server, each as soon as it is over.
//!
//! The collector writes into a small run that is removed at the end. What it sees goes by batches, one for each look at the
//! kernel's rings (20 ms), to the thread that joins it: the looks end at the same time on all CPUs, so a batch that is
//! sorted by time goes on where the one before ended.

use crate::kernel;
use crate::passing_run::PassingRun;
use crate::target::{Named, has_ended, must_listen};
use crate::windows::Records;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use weir_capture::{BoundarySource, CaptureError, EventSource, KindSet, Ladder, Recorder, Target};
use weir_timeline::{Bounds, Joiner, Response};
use weir_trace::Cost;
use weir_wire::{Record, Slot};

/// Records of one look that are held, 3 MB; more are dropped with the rest of that look, and counted.
const BATCH_RECORDS_MAX: usize = 1 << 16;
/// Batches that wait to be joined; more are dropped and counted.
const BATCHES_MAX: usize = 64;
/// Disk space of the run that is removed at the end, MiB.
const DISK_MIB: u64 = 64;
/// How long the probes may take to be attached.
const ATTACHED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether the server has ended.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// The records of one look at the rings.
#[derive(Debug, Default)]
struct Batch {
    /// When it was looked, by the recording's clock.
    now_ns: u64,
    held: Records,
}

/// Listens to what is recorded, and hands it on look by look.
#[derive(Debug)]
struct Tap {
    batch: Batch,
    is_overflown: bool,
    to: SyncSender<Batch>,
    dropped: Arc<AtomicU64>,
}

impl EventSource for Tap {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        self.batch = Batch::default();
        Ok(())
    }

    fn detach(&mut self) {}

    fn sees(&self) -> KindSet {
        KindSet::ALL
    }

    fn see(&mut self, record: &Record, slots: &[Slot]) {
        if self.batch.held.len() >= BATCH_RECORDS_MAX {
            self.is_overflown = true;
            return;
        }
        self.batch.held.push(record, slots);
    }

    fn look(&mut self, now_ns: u64, _tell: &mut dyn FnMut(Record, &[Slot])) {
        let batch = Batch { now_ns, ..std::mem::take(&mut self.batch) };
        let (is_whole, is_empty) = (!std::mem::take(&mut self.is_overflown), batch.held.len() == 0);
        // An empty one only says how late it is, which the next one says as well.
        let is_taken = is_whole && self.to.try_send(batch).is_ok();
        if !(is_taken || is_whole && is_empty) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What was not seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Events that the kernel's rings had no room for.
    pub events: u64,
    /// Looks at the rings whose events were dropped, as they held too many or were joined too slowly.
    pub looks: u64,
}

/// Whether a recording goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// It does.
    On,
    /// Every process of the server has ended.
    ServerEnded,
    /// The collector has ended; [`Following::finish`] says why.
    CollectorEnded,
}

/// The recording.
#[derive(Debug)]
pub struct Following {
    recorder: Recorder,
    target: Target,
    looked: Instant,
    batches: Receiver<Batch>,
    dropped: Arc<AtomicU64>,
    joiner: Joiner,
    /// Where the collector writes; removed with it.
    _passing: PassingRun,
    /// What is to be known of the rung.
    pub notes: Vec<String>,
}

impl Following {
    /// Begins to record a server, and waits until its probes are attached; these ports, beside 443 and 8443, are encrypted.
    ///
    /// # Errors
    /// The server is not there, no probe follows requests here, or the collector cannot begin.
    pub fn start(ladder: &Ladder, named: &Named, tls_ports: &[u16]) -> anyhow::Result<Self> {
        let mut footing = kernel::with_probes(ladder)?;
        // Nothing is kept, and whose request it is, is what is asked.
        if let Some(probes) = footing.probes.as_mut() {
            probes.keep_addresses();
        }
        let target = named.find()?;
        must_listen(&target)?;
        footing.settle(&target)?;
        let passing = PassingRun::create("watch")?;
        let (to, batches) = sync_channel(BATCHES_MAX);
        let dropped: Arc<AtomicU64> = Arc::default();
        let tap = Tap { batch: Batch::default(), is_overflown: false, to, dropped: Arc::clone(&dropped) };
        let recorder = kernel::start(&passing.run, &mut footing, vec![Box::new(tap)], &target, DISK_MIB)?;
        let until = Instant::now() + ATTACHED_WITHIN;
        while !recorder.recording().is_attached() && !recorder.has_failed() {
            anyhow::ensure!(
                Instant::now() < until,
                "the probes are not attached within 10 s; is the machine overloaded?"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut joiner = Joiner::of_server(Bounds::default(), tls_ports);
        if recorder.source().misses_arrivals() {
            joiner.supply_arrivals();
        }
        let (looked, notes) = (Instant::now(), footing.notes);
        Ok(Self { recorder, target, looked, batches, dropped, joiner, _passing: passing, notes })
    }

    /// The source that request boundaries come from.
    #[must_use]
    pub fn source(&self) -> BoundarySource {
        self.recorder.source()
    }

    /// Waits so long for the next events, and gives the responses that are over by them.
    pub fn next(&mut self, wait: Duration, take: &mut dyn FnMut(&Joiner, &Response<'_>)) -> Follow {
        match self.batches.recv_timeout(wait) {
            Ok(batch) => self.join(batch, take),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Follow::CollectorEnded,
        }
        if self.recorder.has_failed() {
            return Follow::CollectorEnded;
        }
        if self.looked.elapsed() > LOOK_AFTER {
            self.looked = Instant::now();
            if has_ended(&self.target) {
                return Follow::ServerEnded;
            }
        }
        Follow::On
    }

    fn join(&mut self, mut batch: Batch, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        batch.held.give(&mut self.joiner, take);
        self.joiner.settle(batch.now_ns, take);
    }

    /// What was not seen so far.
    #[must_use]
    pub fn unseen(&self) -> Unseen {
        let events = self.recorder.recording().lost.load(Ordering::Relaxed);
        Unseen { events, looks: self.dropped.load(Ordering::Relaxed) }
    }

    /// Ends the recording, and gives what is over by its last events; what it cost.
    ///
    /// # Errors
    /// The small run could not be written on.
    pub fn finish(mut self, take: &mut dyn FnMut(&Joiner, &Response<'_>)) -> anyhow::Result<Cost> {
        self.recorder.recording().pause(true);
        let until = Instant::now() + LOOK_AFTER;
        while self.recorder.recording().is_attached() && !self.recorder.has_failed() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        while let Ok(batch) = self.batches.try_recv() {
            self.join(batch, take);
        }
        self.joiner.finish(take);
        Ok(self.recorder.finish(Vec::new())?)
    }
}
