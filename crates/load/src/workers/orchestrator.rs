//! The orchestrator: has each worker prepare its part, begins all at one time, and makes one report of what they did.

use crate::counts::series::{Sampling, Series};
use crate::options::control::Control;
use crate::options::settings::Options;
use crate::report::{Fate, Generator, LoadReport, WorkerReport, WorkerShare};
use crate::run::{Made, reported};
use crate::schedule::arrivals::Part;
use crate::workers::bounds::{PROTOCOL, RECORD_BYTES_MAX, SILENT_NS};
use crate::workers::error::WorkersError;
use crate::workers::frame::{FilePiece, FromWorker, Hello, Job, ToWorker};
use crate::workers::lost::arrivals_of;
use crate::workers::seat::{self, Seat, State};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker may take until it answers, ssh included, and until it is prepared, nanoseconds.
const READY_NS: u64 = 60_000_000_000;
/// From one round trip to the next in the run, nanoseconds.
const PING_EVERY_NS: u64 = 500_000_000;
/// From the word to begin until the start, beside what the way there takes, nanoseconds.
const LEAD_NS: u64 = 300_000_000;
/// How much longer than its run a worker may take until it has said all, nanoseconds.
const GRACE_NS: u64 = 30_000_000_000;

/// What is asked of all workers.
#[derive(Debug)]
pub struct Asked {
    /// Their names, for reports and refusals.
    pub names: Vec<String>,
    /// The version of this program; workers need the same.
    pub version: String,
    /// The words of the command line that say how to load.
    pub words: Vec<String>,
    /// The files that these name, in pieces.
    pub files: Vec<Arc<FilePiece>>,
    /// Whether each worker records the events of its requests, and sends that record.
    pub is_recorded: bool,
}

/// What came of a worker's record of its requests.
#[derive(Debug)]
pub enum Recorded {
    /// The next piece of a file of it; pieces of a file follow each other.
    Piece(Box<FilePiece>),
    /// There is none, or no whole one.
    Failed {
        /// Why.
        why: String,
    },
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Workers are greeted, measured and prepared.
    Preparing,
    /// All were told to begin at this time of the orchestrator's clock.
    Running {
        /// Nanoseconds of CLOCK_MONOTONIC.
        start_ns: u64,
    },
    /// Each worker has said all or is lost; or the run was given up before it began.
    Over,
}

/// The state machine of the orchestrator.
#[derive(Debug)]
pub struct Orchestrator {
    asked: Asked,
    sampling: Sampling,
    /// How long the run takes at most, if that is known, nanoseconds.
    most_ns: Option<u64>,
    seats: Vec<Seat>,
    phase: Phase,
    start_ns: u64,
    given_up: Option<WorkersError>,
    stopped_ns: Option<u64>,
    out: VecDeque<(usize, ToWorker)>,
    /// What is to be kept; taken out after each message, so it holds no more than one brings.
    records: VecDeque<(usize, Recorded)>,
}

impl Orchestrator {
    /// Begins to greet workers, at a time of CLOCK_MONOTONIC; `options` are those of the whole run.
    #[must_use]
    pub fn new(asked: Asked, options: &Options, now_ns: u64) -> Self {
        let hello = Hello { protocol: PROTOCOL, version: asked.version.clone() };
        let out = (0..asked.names.len()).map(|worker| (worker, ToWorker::Hello(hello.clone()))).collect();
        let seats = asked.names.iter().map(|name| Seat::new(name.clone(), options.sampling, now_ns)).collect();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            asked,
            sampling: options.sampling,
            most_ns: options.stop.time().map(|time| ns(time).saturating_add(ns(options.timeout))),
            seats,
            phase: Phase::Preparing,
            start_ns: 0,
            given_up: None,
            stopped_ns: None,
            out,
            records: VecDeque::new(),
        }
    }

    /// What is to be said next, and to which worker.
    pub fn next_message(&mut self) -> Option<(usize, ToWorker)> {
        self.out.pop_front()
    }

    /// What is to be kept next of which worker's record. A record is whole when its worker's part is reported.
    pub fn next_record(&mut self) -> Option<(usize, Recorded)> {
        self.records.pop_front()
    }

    /// How far the run is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many workers are not lost.
    #[must_use]
    pub fn living(&self) -> usize {
        self.seats.iter().filter(|seat| !matches!(seat.state, State::Lost { .. })).count()
    }

    /// Takes what a worker says.
    pub fn take(&mut self, worker: usize, message: FromWorker, now_ns: u64, control: &Control) {
        let Some(seat) = self.seats.get_mut(worker).filter(|seat| !seat.is_over()) else { return };
        seat.heard_ns = now_ns;
        match (&seat.state, message) {
            (State::Greeting, FromWorker::Hello(theirs)) => self.greeted(worker, &theirs, now_ns, control),
            (_, FromWorker::Pong { number, now_ns: theirs_ns }) => self.answered(worker, number, theirs_ns, now_ns),
            (State::Preparing, FromWorker::Ready) => {
                seat.enter(State::Ready, now_ns);
                self.begin_if_ready(now_ns);
            }
            (_, FromWorker::Refused { why } | FromWorker::Failed { why }) => self.lose(worker, why, now_ns, control),
            (State::Running, FromWorker::Slice(slice)) => {
                if !seat.add(&slice, control) {
                    self.lose(worker, "it tells of more than a run can do".to_owned(), now_ns, control);
                }
            }
            (State::Running, FromWorker::Progress(counters)) => seat.publish(counters, control),
            (State::Running, FromWorker::Record(piece)) if self.asked.is_recorded => {
                seat.record_bytes += piece.bytes.len() as u64;
                seat.record_ns = now_ns;
                if seat.record_bytes > RECORD_BYTES_MAX {
                    self.lose(worker, "its record is larger than one may be".to_owned(), now_ns, control);
                } else {
                    self.records.push_back((worker, Recorded::Piece(piece)));
                }
            }
            (State::Running, FromWorker::Unrecorded { why }) if self.asked.is_recorded => {
                self.records.push_back((worker, Recorded::Failed { why }));
            }
            (State::Running, FromWorker::Made(made)) => self.made(worker, made, now_ns, control),
            _ => self.lose(worker, "it says what does not belong there".to_owned(), now_ns, control),
        }
        self.end_if_over();
    }

    /// A worker's connection ended, or cannot be made; `why` says so with the remedy.
    pub fn gone(&mut self, worker: usize, why: String, now_ns: u64, control: &Control) {
        self.lose(worker, why, now_ns, control);
        self.end_if_over();
    }

    /// The user wants an end.
    pub fn stop(&mut self, now_ns: u64) {
        if self.stopped_ns.is_some() {
            return;
        }
        self.stopped_ns = Some(now_ns);
        match self.phase {
            Phase::Preparing => self.give_up(WorkersError::Ended),
            Phase::Running { .. } => self.tell_all(&ToWorker::Stop),
            Phase::Over => {}
        }
    }

    /// Time passes.
    pub fn tick(&mut self, now_ns: u64, control: &Control) {
        for worker in 0..self.seats.len() {
            if let Some(why) = self.is_late(worker, now_ns) {
                self.lose(worker, why, now_ns, control);
            }
            let seat = &mut self.seats[worker];
            let is_asked = matches!(seat.state, State::Preparing | State::Ready | State::Running);
            // Where an answer is still owed, the next question waits for it: its time would say nothing.
            let is_due = seat.asked.is_none_or(|asked| now_ns.saturating_sub(asked.sent_ns) >= PING_EVERY_NS);
            if is_asked && is_due {
                self.ping(worker, now_ns);
            }
        }
        self.end_if_over();
    }

    /// The report of what all workers did that are not lost; `options` are those of the whole run.
    ///
    /// # Errors
    /// [`WorkersError`], if the run was given up before it began, or no worker reported.
    pub fn report(self, mut options: Options) -> Result<LoadReport, WorkersError> {
        if let Some(error) = self.given_up {
            return Err(error);
        }
        let workers = self.seats.len() as u32;
        let (mut parts, mut reports, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut series = Series::new(self.sampling);
        for (worker, seat) in (0..).zip(self.seats) {
            let (name, clock) = (seat.name, seat.clock.clock());
            let fate = match seat.state {
                State::Made(mut made) => {
                    made.tally.traces = made.tally.traces.take().map(|traces| Box::new(traces.of_worker(worker)));
                    let share = share_of(&made);
                    series = series.and(seat.series);
                    parts.push(*made);
                    Fate::Reported(Box::new(share))
                }
                State::Lost { why, at_ns } => {
                    let after = Duration::from_nanos(at_ns.saturating_sub(self.start_ns));
                    let arrivals = arrivals_of(&options, Part { worker, workers });
                    lost.push((name.clone(), why.clone()));
                    Fate::Lost { why, after, arrivals, told: seat.told.requests }
                }
                // All are over before a report is asked for.
                _ => Fate::Lost {
                    why: "it was given up".to_owned(),
                    after: Duration::ZERO,
                    arrivals: None,
                    told: seat.told.requests,
                },
            };
            reports.push(WorkerReport { name, clock, fate });
        }
        if parts.is_empty() {
            let (name, why) = lost.into_iter().next().unwrap_or_default();
            return Err(WorkersError::AllLost { name, why });
        }
        options.threads = options.threads.saturating_mul(workers);
        let mut report = reported(&options, &parts, series);
        for line in reports.iter().filter_map(|report| lost_words(report, workers)).rev() {
            report.warnings.insert(0, line);
        }
        report.workers = reports;
        Ok(report)
    }

    fn greeted(&mut self, worker: usize, theirs: &Hello, now_ns: u64, control: &Control) {
        if theirs.protocol != PROTOCOL || theirs.version != self.asked.version {
            let why = format!(
                "its weir is version {} (protocol {}), and this one is {} (protocol {PROTOCOL}); install the same there",
                theirs.version, theirs.protocol, self.asked.version
            );
            return self.lose(worker, why, now_ns, control);
        }
        self.seats[worker].enter(State::Measuring, now_ns);
        self.ping(worker, now_ns);
    }

    /// The answer to a ping came: in the beginning the next one follows.
    fn answered(&mut self, worker: usize, number: u64, theirs_ns: u64, now_ns: u64) {
        let seat = &mut self.seats[worker];
        let Some(asked) = seat.asked.filter(|asked| asked.number == number) else { return };
        seat.clock.add(asked.sent_ns, now_ns, theirs_ns);
        if !matches!(seat.state, State::Measuring) {
            return;
        }
        if !seat.clock.is_measured() {
            return self.ping(worker, now_ns);
        }
        seat.enter(State::Preparing, now_ns);
        self.out.extend(self.asked.files.iter().map(|piece| (worker, ToWorker::File(Arc::clone(piece)))));
        let job = Job {
            worker: worker as u32,
            workers: self.seats.len() as u32,
            words: self.asked.words.clone(),
            interval_ns: u64::try_from(self.sampling.interval.as_nanos()).unwrap_or(u64::MAX),
            points_max: self.sampling.points_max as u64,
            is_recorded: self.asked.is_recorded,
        };
        self.out.push_back((worker, ToWorker::Job(Box::new(job))));
    }

    fn ping(&mut self, worker: usize, now_ns: u64) {
        let seat = &mut self.seats[worker];
        let number = seat.pings;
        seat.pings += 1;
        seat.asked = Some(seat::Asked { number, sent_ns: now_ns });
        self.out.push_back((worker, ToWorker::Ping { number }));
    }

    /// Where all are ready, tells each by its own clock when the run begins.
    fn begin_if_ready(&mut self, now_ns: u64) {
        if self.phase != Phase::Preparing || !self.seats.iter().all(|seat| matches!(seat.state, State::Ready)) {
            return;
        }
        let way_ns = self.seats.iter().map(|seat| seat.clock.longest_ns()).max().unwrap_or(0);
        self.start_ns = now_ns + LEAD_NS + 2 * way_ns;
        self.phase = Phase::Running { start_ns: self.start_ns };
        for (worker, seat) in self.seats.iter_mut().enumerate() {
            seat.enter(State::Running, now_ns);
            let at_ns = seat.clock.theirs(self.start_ns);
            self.out.push_back((worker, ToWorker::Start { at_ns }));
        }
    }

    /// A worker's part is here: it is what its slices were.
    fn made(&mut self, worker: usize, made: Box<Made>, now_ns: u64, control: &Control) {
        let seat = &mut self.seats[worker];
        if made.tally.latency != *seat.series.whole() {
            let why = "its latencies are not the sum of what it told in the run".to_owned();
            return self.lose(worker, why, now_ns, control);
        }
        seat.enter(State::Made(made), now_ns);
        seat.close(control);
    }

    /// Why a worker is waited for no longer.
    fn is_late(&self, worker: usize, now_ns: u64) -> Option<String> {
        let seat = &self.seats[worker];
        let since = |time_ns: u64| now_ns.saturating_sub(time_ns);
        match seat.state {
            State::Greeting | State::Measuring | State::Preparing if since(seat.since_ns) > READY_NS => {
                Some("it was not ready within 60 s; can it be reached from here?".to_owned())
            }
            State::Running if since(seat.heard_ns) > SILENT_NS => {
                Some("it said nothing for 10 s; is its host up, and does it have a CPU left?".to_owned())
            }
            State::Running => {
                let stopped = self.stopped_ns.map(|time_ns| time_ns.saturating_add(GRACE_NS));
                let ended = self.most_ns.map(|most_ns| self.start_ns.saturating_add(most_ns).saturating_add(GRACE_NS));
                // A record takes as long as its way does.
                let sent = seat.record_ns.saturating_add(GRACE_NS);
                let is_late = stopped.into_iter().chain(ended).min().is_some_and(|end_ns| now_ns > end_ns.max(sent));
                is_late.then(|| "it did not end within 30 s after its run".to_owned())
            }
            _ => None,
        }
    }

    fn lose(&mut self, worker: usize, why: String, now_ns: u64, control: &Control) {
        let Some(seat) = self.seats.get_mut(worker).filter(|seat| !seat.is_over()) else { return };
        let name = seat.name.clone();
        seat.lose(why.clone(), now_ns, control);
        self.out.push_back((worker, ToWorker::End));
        if self.phase == Phase::Preparing {
            self.give_up(WorkersError::NotReady { name, why });
        }
    }

    fn give_up(&mut self, error: WorkersError) {
        self.given_up.get_or_insert(error);
        self.phase = Phase::Over;
        self.tell_all(&ToWorker::End);
    }

    fn end_if_over(&mut self) {
        if matches!(self.phase, Phase::Running { .. }) && self.seats.iter().all(Seat::is_over) {
            self.tell_all(&ToWorker::End);
            self.phase = Phase::Over;
        }
    }

    /// Says the same to all that are not lost.
    fn tell_all(&mut self, message: &ToWorker) {
        let living = self.seats.iter().enumerate().filter(|(_, seat)| !matches!(seat.state, State::Lost { .. }));
        self.out.extend(living.map(|(worker, _)| (worker, message.clone())));
    }
}

/// What a worker did, by itself.
fn share_of(made: &Made) -> WorkerShare {
    let tally = &made.tally;
    WorkerShare {
        requests: tally.requests(),
        successes: tally.successes(),
        failures: tally.failures(),
        dropped: tally.dropped,
        latency: tally.latency.clone(),
        generator: Generator::of_loops(tally, &made.health),
        slowest: tally.slow.slowest(&tally.latency),
    }
}

/// What is lost with a worker, in words.
fn lost_words(report: &WorkerReport, workers: u32) -> Option<String> {
    let Fate::Lost { why, after, arrivals, told } = &report.fate else { return None };
    let arrivals = match arrivals {
        Some(arrivals) => format!("{arrivals} arrivals of the schedule were its own"),
        None => format!("1/{workers} of the connections and requests was its own"),
    };
    Some(format!(
        "worker {} was lost after {:.1} s: {why}. 1 of {workers} parts is missing: {arrivals}; {told} responses that it \
         had told of are left out, and the figures are of the others",
        report.name,
        after.as_secs_f64()
    ))
}
