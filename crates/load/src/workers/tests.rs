//! A hundred workers in a simulated network: clocks that are shifted and drift, ways that take their time, connections
//! that break. What goes over the ways are the bytes that go over real ones.

use crate::counts::OwnSlice;
use crate::counts::histogram::{Histogram, histogram};
use crate::counts::series::{Counts, Strain};
use crate::counts::tally::Tally;
use crate::report::{Fate, LoadReport};
use crate::run::Made;
use crate::schedule::arrivals::{Arrivals, Part};
use crate::workers::decoder::{Decoder, encoded, greeting};
use crate::workers::{
    Act, Asked, FilePiece, FromWorker, Job, Orchestrator, Phase, Recorded, ToWorker, Worker, WorkersError,
};
use crate::{Control, Options, Packed, Schedule, Statuses, StopRule, Url};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use weir_wire::client::Outcome;

const SECOND_NS: u64 = 1_000_000_000;
const LENGTH_NS: u64 = 5 * SECOND_NS;

/// How long the request of an arrival takes: some value of its time, so that each recorder finds the same.
fn latency_ns(offset_ns: u64) -> u64 {
    200_000 + offset_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 80_000_000
}

fn options(schedule: Schedule, workers: u32) -> Options {
    let mut options = Options::new(Url::parse("http://localhost/").expect("a URL"));
    options.schedule = schedule;
    options.stop = StopRule::Duration(Duration::from_nanos(LENGTH_NS));
    options.connections = workers * 2;
    options.timeout = Duration::from_secs(1);
    options
}

/// What happens at a time of the true clock.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ToWorker(usize, Vec<u8>),
    FromWorker(usize, Vec<u8>),
    /// What a worker does of its run.
    Works(usize, Work),
    /// The connection of a worker breaks.
    Breaks(usize),
    Tick,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Work {
    Hands { interval: u64 },
    Ends,
}

/// A worker, its clock, and its way to the orchestrator.
struct Host {
    version: String,
    worker: Worker,
    decoder: Decoder<ToWorker>,
    shift_ns: i64,
    ppm: i64,
    way_ns: (u64, u64),
    /// When the last bytes arrive on either way: none overtake.
    last_ns: (u64, u64),
    job: Option<Job>,
    /// The offsets of its arrivals.
    arrivals: Vec<u64>,
    /// When its run began, by the true clock.
    began_ns: Option<u64>,
    whole: Histogram,
    is_connected: bool,
}

struct World {
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    hosts: Vec<Host>,
    random: fastrand::Rng,
    options: Options,
    control: Control,
    decoders: Vec<Decoder<FromWorker>>,
    /// What came of each worker's record.
    records: Vec<Vec<u8>>,
}

impl Host {
    fn clock(&self, now_ns: u64) -> u64 {
        (now_ns as i64 + self.shift_ns + now_ns as i64 / 1_000_000 * self.ppm) as u64
    }

    /// The true time at which its clock shows a time.
    fn true_time(&self, shown_ns: u64) -> u64 {
        let guess = shown_ns as i64 - self.shift_ns;
        (guess - guess / 1_000_000 * self.ppm) as u64
    }
}

impl World {
    fn new(options: Options, hosts: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let hosts: Vec<Host> = (0..hosts)
            .map(|_| Host {
                version: "1".to_owned(),
                worker: Worker::new("1", 0),
                decoder: Decoder::default(),
                shift_ns: random.i64(0..2 * SECOND_NS as i64),
                ppm: random.i64(-50..50),
                way_ns: (random.u64(50_000..20_000_000), random.u64(50_000..20_000_000)),
                last_ns: (0, 0),
                job: None,
                arrivals: Vec::new(),
                began_ns: None,
                whole: histogram(),
                is_connected: true,
            })
            .collect();
        let decoders = hosts.iter().map(|_| Decoder::default()).collect();
        let (control, records) = (Control::default(), vec![Vec::new(); hosts.len()]);
        let (now_ns, events) = (SECOND_NS, BinaryHeap::new());
        Self { now_ns, events, number: 0, hosts, random, options, control, decoders, records }
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time_ns, self.number, event)));
    }

    /// The bytes of a message in pieces, as a connection cuts them.
    fn send(&mut self, worker: usize, bytes: &[u8], is_to_worker: bool) {
        let jitter_ns = self.random.u64(0..3_000_000);
        let host = &mut self.hosts[worker];
        let (way_ns, last_ns) = match is_to_worker {
            true => (host.way_ns.0, &mut host.last_ns.0),
            false => (host.way_ns.1, &mut host.last_ns.1),
        };
        let at_ns = (self.now_ns + way_ns + jitter_ns).max(*last_ns);
        *last_ns = at_ns;
        for piece in bytes.chunks(self.random.usize(1..5000)) {
            let piece = piece.to_vec();
            self.at(
                at_ns,
                if is_to_worker { Event::ToWorker(worker, piece) } else { Event::FromWorker(worker, piece) },
            );
        }
    }

    /// What a worker wants done.
    fn act(&mut self, number: usize) {
        while let Some(act) = self.hosts[number].worker.next_act() {
            match act {
                Act::Send(message) => {
                    if self.hosts[number].is_connected {
                        self.send(number, &encoded(&message).expect("short enough"), false);
                    }
                }
                Act::Prepare(job) => {
                    self.hosts[number].job = Some(*job);
                    self.hosts[number].worker.prepared(Ok(()));
                }
                Act::Run { at_ns } => {
                    let start_ns = self.hosts[number].true_time(at_ns);
                    self.hosts[number].began_ns = Some(start_ns);
                    let job = self.hosts[number].job.as_ref().expect("it was prepared");
                    let (part, mut arrivals) = (Part { worker: job.worker, workers: job.workers }, Vec::new());
                    of_schedule(&self.options, part, |offset_ns| arrivals.push(offset_ns));
                    self.hosts[number].arrivals = arrivals;
                    for interval in 0..LENGTH_NS / SECOND_NS {
                        let end_ns = start_ns + (interval + 1) * SECOND_NS;
                        self.at(end_ns, Event::Works(number, Work::Hands { interval }));
                    }
                    self.at(start_ns + LENGTH_NS + 1, Event::Works(number, Work::Ends));
                }
                Act::Keep(_) => panic!("no file was sent"),
                Act::StopLoad | Act::End { .. } => {}
            }
        }
    }

    fn work(&mut self, number: usize, work: Work) {
        let host = &mut self.hosts[number];
        if host.worker.is_over() {
            return;
        }
        match work {
            Work::Hands { interval } => {
                let mut latency = histogram();
                let (begin_ns, end_ns) = (interval * SECOND_NS, (interval + 1) * SECOND_NS);
                let within = host.arrivals.iter().filter(|offset_ns| (begin_ns..end_ns).contains(*offset_ns));
                within.for_each(|offset_ns| latency.saturating_record(latency_ns(*offset_ns)));
                host.whole.add(&latency).expect("the same bounds");
                let counts = Counts { requests: latency.len(), bytes: 100 * latency.len(), ..Counts::default() };
                let strain = Strain { cpu_share: 0.25, runnable_share: 0.0 };
                let latency = Packed::of(&latency);
                host.worker.slice(OwnSlice { begin_ns, end_ns, counts, latency, connections: 0, strain });
            }
            Work::Ends => {
                let whole = host.whole.clone();
                let mut tally = Tally::new(Statuses::default());
                tally.status[200] = whole.len();
                (tally.latency, tally.first_byte) = (whole.clone(), whole);
                let made = Made { tally, stopped_ns: LENGTH_NS, known_ns: LENGTH_NS + 1, ..Made::empty() };
                for number in 0..3 {
                    host.worker.record(FilePiece { name: "segments/a".to_owned(), bytes: vec![number; 3] });
                }
                host.worker.made(Ok(made));
            }
        }
        self.act(number);
    }

    /// Runs until the orchestrator has its end.
    fn run(&mut self, names: Vec<String>) -> Orchestrator {
        let (version, words) = ("1".to_owned(), vec!["-d5s".to_owned()]);
        let asked = Asked { names, version, words, files: Vec::new(), is_recorded: true };
        let mut orchestrator = Orchestrator::new(asked, &self.options, self.now_ns);
        for number in 0..self.hosts.len() {
            self.send(number, greeting(), true);
            self.send(number, greeting(), false);
            let shown_ns = self.hosts[number].clock(self.now_ns);
            self.hosts[number].worker = Worker::new(&self.hosts[number].version, shown_ns);
        }
        self.at(self.now_ns, Event::Tick);
        while orchestrator.phase() != Phase::Over {
            while let Some((worker, message)) = orchestrator.next_message() {
                if self.hosts[worker].is_connected {
                    self.send(worker, &encoded(&message).expect("short enough"), true);
                }
            }
            let Reverse((time_ns, _, event)) = self.events.pop().expect("it ends");
            self.now_ns = time_ns;
            assert!(time_ns < 200 * SECOND_NS, "it takes too long");
            match event {
                Event::ToWorker(number, bytes) => {
                    let now_ns = self.hosts[number].clock(time_ns);
                    let host = &mut self.hosts[number];
                    host.decoder.push(&bytes);
                    while let Some(message) = host.decoder.next_message().expect("messages") {
                        host.worker.take(message, now_ns);
                    }
                    self.act(number);
                }
                Event::FromWorker(number, bytes) => {
                    self.decoders[number].push(&bytes);
                    while let Some(message) = self.decoders[number].next_message().expect("messages") {
                        let is_made = matches!(message, FromWorker::Made(_));
                        assert!(!is_made || self.records[number].len() == 9, "the record comes before the part");
                        orchestrator.take(number, message, time_ns, &self.control);
                        while let Some((of, Recorded::Piece(piece))) = orchestrator.next_record() {
                            self.records[of].extend(piece.bytes);
                        }
                    }
                }
                Event::Works(number, work) => self.work(number, work),
                Event::Breaks(number) => {
                    self.hosts[number].is_connected = false;
                    self.hosts[number].worker.gone();
                    self.act(number);
                    orchestrator.gone(number, "its connection ended".to_owned(), time_ns, &self.control);
                }
                Event::Tick => {
                    orchestrator.tick(time_ns, &self.control);
                    self.at(time_ns + 50_000_000, Event::Tick);
                }
            }
        }
        orchestrator
    }
}

/// Gives the offsets of all arrivals of a part before the end.
fn of_schedule(options: &Options, part: Part, mut each: impl FnMut(u64)) {
    let mut arrivals = Arrivals::of_part(&options.schedule, 0, (0, 1), part).expect("an open loop");
    let mut next_ns = arrivals.next_before(LENGTH_NS);
    while next_ns != u64::MAX {
        each(next_ns);
        next_ns = arrivals.following(LENGTH_NS);
    }
}

/// What one recorder has of the arrivals of these workers.
fn recorded(options: &Options, workers: u32, of: impl Fn(u32) -> bool) -> Histogram {
    let mut whole = histogram();
    for worker in (0..workers).filter(|worker| of(*worker)) {
        of_schedule(options, Part { worker, workers }, |offset_ns| whole.saturating_record(latency_ns(offset_ns)));
    }
    whole
}

fn simulated(schedule: Schedule, workers: usize, seed: u64, breaks: &[(usize, u64)]) -> (World, LoadReport) {
    let mut world = World::new(options(schedule.clone(), workers as u32), workers, seed);
    for (worker, after_ns) in breaks {
        world.at(world.now_ns + after_ns, Event::Breaks(*worker));
    }
    let orchestrator = world.run((0..workers).map(|worker| format!("host-{worker}")).collect());
    let report = orchestrator.report(options(schedule, workers as u32)).expect("some reported");
    (world, report)
}

#[test]
fn a_hundred_workers_make_the_report_of_one() {
    for seed in [1, 7] {
        let schedule = Schedule::Poisson { rate_per_s: 5_000.0, seed };
        let (world, report) = simulated(schedule, 100, seed, &[]);
        let mut single = histogram();
        of_schedule(&world.options, Part::WHOLE, |offset_ns| single.saturating_record(latency_ns(offset_ns)));
        assert_eq!(report.latency, single, "seed {seed}: bit for bit the histogram of one recorder");
        assert_eq!(report.series.whole(), &single);
        assert_eq!((report.requests, report.successes, report.errors.len()), (single.len(), single.len(), 0));
        assert_eq!(report.series.points().len(), 5);
        assert!(report.workers.iter().all(|worker| matches!(worker.fate, Fate::Reported(_))));
        assert_eq!(world.control.requests(), 0, "no counters were told");
        assert!(world.records.iter().all(|record| *record == [0, 0, 0, 1, 1, 1, 2, 2, 2]));
        positions_are_within_the_error(&world, &report);
    }
}

/// All began together, as far as the report says that the clocks are known, and that is the truth.
fn positions_are_within_the_error(world: &World, report: &LoadReport) {
    let began: Vec<u64> = world.hosts.iter().filter_map(|host| host.began_ns).collect();
    assert_eq!(began.len(), world.hosts.len());
    let middle_ns = began.iter().map(|ns| u128::from(*ns)).sum::<u128>() as u64 / began.len() as u64;
    let errors = report.workers.iter().map(|worker| worker.clock.error_ns);
    let widest_ns = errors.clone().max().expect("some");
    for (began_ns, error_ns) in began.iter().zip(errors) {
        let off_ns = began_ns.abs_diff(middle_ns);
        assert!(off_ns <= error_ns + widest_ns, "{off_ns} ns off, and {error_ns} were said");
        assert!(error_ns < 25_000_000, "{error_ns}");
    }
}

#[test]
fn of_a_lost_worker_nothing_is_told_but_the_loss() {
    let schedule = Schedule::Fixed { rate_per_s: 5_000.0 };
    let lost = [(3, 4 * SECOND_NS), (40, 4 * SECOND_NS + 7), (99, 5 * SECOND_NS)];
    let (world, report) = simulated(schedule, 100, 3, &lost);
    let is_kept = |worker: u32| !lost.iter().any(|(lost, _)| *lost == worker as usize);
    assert_eq!(report.latency, recorded(&world.options, 100, is_kept));
    for (worker, _) in lost {
        let Fate::Lost { why, after, arrivals, told } = &report.workers[worker].fate else { panic!("{worker} lives") };
        assert_eq!((why.as_str(), *arrivals), ("its connection ended", Some(250)));
        assert!(*after < Duration::from_secs(5) && *told < 250, "{after:?}, {told}");
        assert!(world.hosts[worker].worker.is_over());
        let line = report.warnings.iter().find(|line| line.contains(&format!("host-{worker} "))).expect("a warning");
        assert!(line.contains("1 of 100 parts is missing: 250 arrivals"), "{line}");
    }
}

#[test]
fn a_worker_that_is_not_ready_ends_the_run_before_it_begins() {
    let schedule = Schedule::Fixed { rate_per_s: 100.0 };
    let mut world = World::new(options(schedule.clone(), 3), 3, 1);
    world.hosts[1].version = "0.9".to_owned();
    let orchestrator = world.run(["a", "b", "c"].map(str::to_owned).to_vec());
    let error = orchestrator.report(options(schedule, 3)).expect_err("another version");
    let WorkersError::NotReady { name, why } = error else { panic!("{error}") };
    assert_eq!(name, "b");
    assert!(why.contains("version 0.9") && why.contains("install the same"), "{why}");
    assert!(world.hosts.iter().all(|host| host.began_ns.is_none()));
}

#[test]
fn a_silent_orchestrator_ends_the_load_within_seconds() {
    let mut worker = Worker::new("1", 0);
    let hello = crate::workers::Hello { protocol: 1, version: "1".to_owned() };
    let (words, interval_ns) = (Vec::new(), SECOND_NS);
    let job = Job { worker: 0, workers: 1, words, interval_ns, points_max: 512, is_recorded: false };
    for message in [ToWorker::Hello(hello), ToWorker::Job(Box::new(job))] {
        worker.take(message, 10);
    }
    worker.prepared(Ok(()));
    worker.take(ToWorker::Start { at_ns: 100 }, 20);
    worker.tick(5 * SECOND_NS);
    assert!(!worker.is_over());
    worker.tick(5 * SECOND_NS + 21);
    let acts: Vec<_> = std::iter::from_fn(|| worker.next_act()).collect();
    assert!(acts.iter().any(|act| matches!(act, Act::StopLoad)), "{acts:?}");
    assert!(matches!(acts.last(), Some(Act::End { why: Some(_) })), "{acts:?}");
}

#[test]
fn a_record_that_was_not_asked_for_or_is_too_large_loses_its_worker() {
    let control = Control::default();
    for (is_recorded, pieces, words) in [(false, 1, "does not belong there"), (true, 16_385, "larger than one may be")]
    {
        let (names, version) = (vec!["one".to_owned()], "1".to_owned());
        let asked = Asked { names, version: version.clone(), words: Vec::new(), files: Vec::new(), is_recorded };
        let mut orchestrator = Orchestrator::new(asked, &options(Schedule::Closed, 1), 0);
        let hello = crate::workers::Hello { protocol: crate::workers::PROTOCOL, version };
        orchestrator.take(0, FromWorker::Hello(hello), 1, &control);
        (0..16).for_each(|number| orchestrator.take(0, FromWorker::Pong { number, now_ns: number }, number, &control));
        orchestrator.take(0, FromWorker::Ready, 20, &control);
        let mut kept = 0;
        for _ in 0..pieces {
            let piece = FilePiece { name: "a".to_owned(), bytes: vec![0; crate::workers::PIECE_BYTES_MAX] };
            orchestrator.take(0, FromWorker::Record(Box::new(piece)), 30, &control);
            kept += std::iter::from_fn(|| orchestrator.next_record()).count();
        }
        assert_eq!((orchestrator.phase(), kept), (Phase::Over, pieces - 1));
        let error = orchestrator.report(options(Schedule::Closed, 1)).expect_err("it is lost");
        assert!(error.to_string().contains(words), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_rest_is_right_without_the_lost(
        workers in 1..12usize,
        seed in any::<u64>(),
        breaks in proptest::collection::vec((0..12usize, 0..7 * SECOND_NS), 0..4),
    ) {
        let schedule = Schedule::Poisson { rate_per_s: 500.0, seed };
        let mut world = World::new(options(schedule.clone(), workers as u32), workers, seed);
        for (worker, after_ns) in breaks {
            world.at(world.now_ns + after_ns, Event::Breaks(worker % workers));
        }
        let orchestrator = world.run((0..workers).map(|worker| worker.to_string()).collect());
        match orchestrator.report(options(schedule, workers as u32)) {
            Ok(report) => {
                let lives = |worker: u32| matches!(report.workers[worker as usize].fate, Fate::Reported(_));
                prop_assert_eq!(&report.latency, &recorded(&world.options, workers as u32, lives));
                prop_assert_eq!(report.series.whole(), &report.latency);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_messages_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::<FromWorker>::default();
        decoder.push(greeting());
        decoder.push(&bytes);
        while let Ok(Some(message)) = decoder.next_message() {
            prop_assert!(encoded(&message).is_ok());
        }
    }
}

#[test]
fn a_whole_tally_comes_as_it_went() {
    let mut tally = Tally::new(Statuses::default());
    for number in 1..500 {
        tally.failed(Outcome::Tls, 2, number * 1000);
        tally.taken_up(number, number * 9000);
        tally.reasons.note(Outcome::Tls, &format!("reason {}", number % 7), number);
        tally.goaways.count(number as u32 % 5, 1);
    }
    let made = Made { tally, left_out: vec!["words".to_owned()], ..Made::empty() };
    let bytes = encoded(&FromWorker::Made(Box::new(made))).expect("short enough");
    let mut decoder = Decoder::<FromWorker>::default();
    decoder.push(b"Welcome to this host\n");
    decoder.push(greeting());
    bytes.chunks(7).for_each(|piece| decoder.push(piece));
    let Ok(Some(message)) = decoder.next_message() else { panic!("a message") };
    assert_eq!(encoded(&message).expect("short enough"), bytes);
}
