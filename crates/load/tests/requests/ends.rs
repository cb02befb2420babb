//! An end that was said is kept: what is under way then has one timeout more, and what is cut is counted.

use crate::server;

use server::{Server, load};
use std::time::{Duration, Instant};
use weir_load::sessions::{Sessions, Think, parse_sessions};
use weir_load::{Control, LoadReport, Options, Outcome, Protocol, Schedule, StopRule};

const TIME: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_millis(700);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_millis(650);
const RATE_PER_S: f64 = 100.0;

/// A server that takes requests of either protocol in and never answers.
fn silent() -> Server {
    Server::start(|peer| while peer.frame().is_some() || peer.request().is_some() {})
}

fn timed(server: &Server) -> Options {
    let mut options = server.options(1);
    options.stop = StopRule::Duration(TIME);
    options.timeout = TIMEOUT;
    options.connections = 5;
    options
}

fn open(server: &Server) -> Options {
    Options { schedule: Schedule::Fixed { rate_per_s: RATE_PER_S }, ..timed(server) }
}

/// The run keeps to its time and one timeout; gives its report.
fn bounded(options: Options, what: &str) -> LoadReport {
    let begin = Instant::now();
    let report = load(options);
    let took = begin.elapsed();
    assert!(took < TIME + TIMEOUT + SLACK, "{what}: {took:?}");
    assert!(report.took >= TIMEOUT && report.took <= took, "{what}: {:?} of {took:?}", report.took);
    assert_eq!(report.duration, TIME, "{what}");
    report
}

#[test]
fn a_run_ends_one_timeout_after_its_time() {
    let server = silent();
    let arrivals = (RATE_PER_S * TIME.as_secs_f64()) as u64;
    for (what, streams) in [("HTTP/1.1", None), ("HTTP/2", Some(1))] {
        let mut options = open(&server);
        if let Some(streams) = streams {
            options.protocol = Protocol::Http2 { streams };
        }
        let report = bounded(options, what);
        // Those that began in time had their timeout; those that took their places did not.
        assert_eq!(report.errors, [(Outcome::TimedOut, 5)], "{what}");
        assert_eq!(report.abandoned, arrivals - 5, "{what}");
        assert!(report.warnings.iter().any(|warning| warning.contains("were cut")), "{what}: {:?}", report.warnings);
    }
    let report = bounded(timed(&server), "a closed loop");
    assert_eq!((report.errors.as_slice(), report.abandoned), (&[(Outcome::TimedOut, 5)][..], 0));
}

#[test]
fn sessions_end_one_timeout_after_the_time() {
    let server = silent();
    let mut options = open(&server);
    let parsed = parse_sessions("/a\n/b\n", Some(&server.url()), &options.request, Think::None);
    let (requests, list) = parsed.expect("a session");
    options.requests.list = requests;
    options.requests.sessions = Some(Sessions { list, seed: 1 });
    let report = bounded(options, "sessions");
    let sessions = report.sessions.as_ref().expect("sessions");
    assert_eq!((sessions.completed, sessions.failed), (0, 5), "{:?}", report.errors);
    // Those that took their places were under way; the others had not begun.
    assert_eq!((sessions.unfinished, report.abandoned), (5, 25));
}

#[test]
fn a_wish_to_end_it_never_makes_a_run_longer() {
    let server = silent();
    let control = Control::default();
    let begin = Instant::now();
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| weir_load::run(open(&server), &control).expect("the run is made"));
        std::thread::sleep(TIME + TIMEOUT - Duration::from_millis(150));
        control.stop();
        run.join().expect("no panic")
    });
    assert!(begin.elapsed() < TIME + TIMEOUT + SLACK, "{:?}", begin.elapsed());
    assert_eq!((report.requests, report.interrupted), (0, true));
    assert_eq!(report.abandoned + report.failures(), 30, "{:?}", report.errors);
    // What the user cut might have succeeded.
    assert_eq!(report.ended(), report.failures());
}
