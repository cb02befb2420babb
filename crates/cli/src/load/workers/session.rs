//! A worker's threads: one reads and one writes the connection to the orchestrator, one runs the load, and one moves the
//! state machine.

use super::super::files::Copies;
use super::conduct::now_ns;
use super::limits::Limits;
use super::own_record::{Loaded, OwnRecord, OwnRecordError, loaded};
use super::reading::{Part, prepare};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use weir_load::workers::{Act, Decoder, Made, OwnSlice, PartError, ToWorker, Worker, encoded, greeting};
use weir_load::{Control, LoadError};

/// Messages that wait to be taken in, or to be written.
const WAITING_MAX: usize = 1024;
/// Intervals of loops that wait to be sent: beyond, loops go on with the interval that they have.
const SLICES_MAX: usize = 64;
/// Bytes of a record that wait to be written, at most; a piece more.
const RECORD_WAITING_MAX: usize = 2 << 20;
/// How often it is looked at the clock and at slices.
const LOOK: Duration = Duration::from_millis(10);
/// How often counters are told.
const PROGRESS_NS: u64 = 250_000_000;

/// What happens to a worker.
enum Event {
    Told { message: Box<ToWorker>, at_ns: u64 },
    Misled,
    Gone,
    Loaded(Box<Loaded>),
}

/// Whether a worker may take a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Free,
    /// It makes another orchestrator's run.
    Busy,
}

/// A run that is under way.
struct Run {
    control: Arc<Control>,
    slices: Receiver<OwnSlice>,
}

/// A part that is made, behind the record that goes out before it.
struct Finished {
    made: Result<Made, LoadError>,
    record: Option<OwnRecord>,
}

/// One session with an orchestrator.
struct Session<'a> {
    worker: Worker,
    copies: Copies,
    limits: &'a Limits,
    turn: Turn,
    prepared: Option<Part>,
    run: Option<Run>,
    finished: Option<Finished>,
    out: SyncSender<Vec<u8>>,
    /// Bytes that wait to be written.
    unwritten: Arc<AtomicUsize>,
    events: SyncSender<Event>,
    told_ns: u64,
}

/// Does what an orchestrator says until it has its report or is gone; why it ended, where it was not that all is done.
pub(super) fn session(
    from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
    limits: &Limits,
    turn: Turn,
) -> Option<&'static str> {
    let (events, happened) = sync_channel(WAITING_MAX);
    let (out, unsent) = sync_channel::<Vec<u8>>(WAITING_MAX);
    let unwritten = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&unwritten);
    let writing = std::thread::spawn(move || write(to, &unsent, &left));
    let reader = events.clone();
    std::thread::spawn(move || read(from, &reader));
    let mut session = Session {
        worker: Worker::new(weir_terminal::VERSION, now_ns()),
        copies: Copies::default(),
        limits,
        turn,
        prepared: None,
        run: None,
        finished: None,
        out,
        unwritten,
        events,
        told_ns: 0,
    };
    let why = session.until_end(&happened);
    let run = session.run.take();
    // What was said last is written before the process may end.
    drop(session);
    if why.is_none() {
        let _has_ended = writing.join();
    }
    if let Some(run) = run {
        run.control.stop();
        // The loops have a second to end what is under way.
        let _is_over = happened.recv_timeout(Duration::from_secs(3));
    }
    why
}

fn write(mut to: impl Write, unsent: &Receiver<Vec<u8>>, left: &AtomicUsize) {
    if to.write_all(greeting()).and_then(|()| to.flush()).is_err() {
        return;
    }
    while let Ok(bytes) = unsent.recv() {
        // An orchestrator that is gone is told of by the reader.
        if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
            return;
        }
        left.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
}

fn read(mut from: impl Read, events: &SyncSender<Event>) {
    let mut decoder = Decoder::<ToWorker>::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match from.read(&mut buffer) {
            // If there is no receiver any more, the session is over.
            Ok(0) | Err(_) => return drop(events.send(Event::Gone)),
            Ok(length) => length,
        };
        let at_ns = now_ns();
        decoder.push(&buffer[..length]);
        loop {
            let event = match decoder.next_message() {
                Ok(None) => break,
                Ok(Some(message)) => Event::Told { message: Box::new(message), at_ns },
                Err(_) => return drop(events.send(Event::Misled)),
            };
            if events.send(event).is_err() {
                return;
            }
        }
    }
}

impl Session<'_> {
    /// Moves the state machine until it wants an end; why, where it is not that all is done.
    fn until_end(&mut self, happened: &Receiver<Event>) -> Option<&'static str> {
        loop {
            if let ControlFlow::Break(why) = self.acts() {
                return why;
            }
            let mut event = happened.recv_timeout(LOOK).ok();
            while let Some(one) = event {
                self.take(one);
                event = happened.try_recv().ok();
            }
            self.hand_on();
            self.finish();
            self.worker.tick(now_ns());
        }
    }

    /// Does what is to be done; an end where the session is to have one, with why.
    fn acts(&mut self) -> ControlFlow<Option<&'static str>> {
        while let Some(act) = self.worker.next_act() {
            if let Act::End { why } = act {
                return ControlFlow::Break(why);
            }
            self.act(act);
        }
        ControlFlow::Continue(())
    }

    fn take(&mut self, event: Event) {
        match event {
            // The time at which it came, but for what is asked of the clock itself.
            Event::Told { message, at_ns } => {
                let is_ping = matches!(*message, ToWorker::Ping { .. });
                self.worker.take(*message, if is_ping { at_ns } else { now_ns() });
            }
            Event::Misled => self.worker.misled("the orchestrator sent what is no message of this version"),
            Event::Gone => self.worker.gone(),
            Event::Loaded(loaded) => {
                // All slices were handed out before.
                self.hand_on();
                self.run = None;
                let Loaded { made, record } = *loaded;
                let record = record.and_then(|record| record.map_err(|error| self.unrecorded(&error)).ok());
                self.finished = Some(Finished { made, record });
            }
        }
    }

    fn unrecorded(&mut self, error: &OwnRecordError) {
        self.worker.unrecorded(error.to_string());
    }

    /// Sends the record of a run that is over, as its way takes it, and the part behind it.
    fn finish(&mut self) {
        let Some(mut finished) = self.finished.take() else { return };
        let mut waiting = self.unwritten.load(Ordering::Relaxed);
        while let Some(record) = &mut finished.record {
            if waiting > RECORD_WAITING_MAX || self.worker.is_over() {
                self.finished = Some(finished);
                return;
            }
            match record.next_piece() {
                Ok(Some(piece)) => {
                    waiting += piece.bytes.len();
                    self.worker.record(piece);
                }
                Ok(None) => finished.record = None,
                Err(error) => {
                    self.unrecorded(&error);
                    finished.record = None;
                }
            }
        }
        self.worker.made(finished.made.map_err(PartError::from));
    }

    /// Tells what the loops handed out, and the counters from time to time.
    fn hand_on(&mut self) {
        let Some(run) = &self.run else { return };
        while let Ok(slice) = run.slices.try_recv() {
            self.worker.slice(slice);
        }
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.told_ns) >= PROGRESS_NS {
            self.told_ns = now_ns;
            self.worker.progress(run.control.published());
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send(message) => match encoded(&message) {
                Ok(bytes) => self.send(bytes),
                Err(_) => self.worker.misled("its report is larger than a message may be"),
            },
            Act::Keep(piece) => {
                if self.copies.add(&piece).is_err() {
                    self.worker.misled("a file of the run finds no room on this host");
                }
            }
            Act::Prepare(job) => {
                let result = match self.turn {
                    Turn::Busy => Err(PartError::Busy),
                    Turn::Free => prepare(&job, std::mem::take(&mut self.copies), self.limits),
                };
                self.worker.prepared(result.map(|prepared| self.prepared = Some(prepared)));
            }
            Act::Run { at_ns } => self.run(at_ns),
            Act::StopLoad => {
                if let Some(run) = &self.run {
                    run.control.stop();
                }
            }
            Act::End { .. } => {}
        }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.unwritten.fetch_add(bytes.len(), Ordering::Relaxed);
        match self.out.try_send(bytes) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.worker.misled("the orchestrator takes nothing in any more"),
            Err(TrySendError::Disconnected(_)) => self.worker.gone(),
        }
    }

    /// Begins the load.
    fn run(&mut self, at_ns: u64) {
        let Some(Part { prepared, events }) = self.prepared.take() else { return };
        let (hand_out, slices) = sync_channel(SLICES_MAX);
        let control = Arc::new(Control::handing_out(hand_out));
        let (of_run, tell) = (Arc::clone(&control), self.events.clone());
        std::thread::spawn(move || {
            let loaded = loaded(events, || prepared.make(at_ns, &of_run));
            // If there is no receiver any more, the session is over.
            let _ = tell.send(Event::Loaded(Box::new(loaded)));
        });
        self.run = Some(Run { control, slices });
    }
}
