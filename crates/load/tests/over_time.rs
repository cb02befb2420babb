//! A run over time: the points add up to the whole, lie where things happened, and can be looked at meanwhile.
// scripts/test: punctual

mod server;

use server::{Server, load};
use std::time::{Duration, Instant};
use weir_load::{Control, Counts, Options, Sampling, Schedule, StopRule};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn options(server: &Server, interval: Duration, time: Duration) -> Options {
    let mut options = server.options(1);
    options.connections = 8;
    options.stop = StopRule::Duration(time);
    options.sampling = Sampling { interval, ..Sampling::default() };
    options
}

#[test]
fn the_points_add_up_to_the_whole() {
    let server = Server::start(|peer| {
        // Each seventh response is not HTTP, so that there are errors to be counted, too.
        let mut count = 0;
        while peer.request().is_some() {
            count += 1;
            if !peer.send(if count == 7 {
                b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n"
            } else {
                OK.as_bytes()
            }) || count == 7
            {
                break;
            }
        }
    });
    for (threads, schedule) in
        [(1, Schedule::Closed), (2, Schedule::Closed), (2, Schedule::Fixed { rate_per_s: 2_000.0 })]
    {
        let mut options = options(&server, Duration::from_millis(50), Duration::from_millis(620));
        (options.threads, options.schedule) = (threads, schedule);
        options.sampling.points_max = 8;
        let report = load(options);
        let counts = report.series.counts();
        assert_eq!((counts.requests, counts.bytes, counts.dropped), (report.requests, report.bytes, report.dropped));
        assert_eq!((counts.queued, counts.late), (report.queued, report.generator.late));
        assert!(counts.failures() > 0, "{counts:?}");
        for (outcome, count) in &report.errors {
            assert_eq!(counts.errors[*outcome as usize], *count, "{outcome:?}");
        }
        assert_eq!(report.series.latency(), report.latency);
        assert_eq!(report.latency.len(), report.requests);
        // 13 intervals do not go into 8 points: neighbours were merged once.
        let (points, interval) = (report.series.points().len(), report.series.interval());
        assert!(points == 7 && interval == Duration::from_millis(100), "{points} points of {interval:?}");
        let last = report.series.timed().last().map(|(begin_s, length_s, _)| begin_s + length_s).expect("seven");
        assert!((0.6..2.0).contains(&last), "{last}");
        let strain = report.series.points().iter().map(|point| point.strain.cpu_share).fold(0.0, f64::max);
        assert!(strain > 0.0 && strain <= 1.0, "{strain}");
    }
}

#[test]
fn a_stall_lies_where_it_was() {
    let begin = Instant::now();
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            // From 1.0 s to 1.5 s of its life nothing is answered.
            let into = begin.elapsed().as_secs_f64() - 1.0;
            if (0.0..0.5).contains(&into) {
                std::thread::sleep(Duration::from_secs_f64(0.5 - into));
            }
            peer.send(OK.as_bytes());
        }
    });
    let mut options = options(&server, Duration::from_millis(100), Duration::from_secs(2));
    options.schedule = Schedule::Fixed { rate_per_s: 500.0 };
    options.connections = 500;
    let started_s = begin.elapsed().as_secs_f64();
    let report = load(options);
    let stalled: Vec<_> = report
        .series
        .timed()
        .filter(|(begin_s, length_s, _)| started_s + begin_s > 1.05 && started_s + begin_s + length_s < 1.45)
        .map(|(_, _, point)| point.counts.requests)
        .collect();
    assert!(stalled.len() >= 3 && stalled.iter().all(|requests| *requests == 0), "{stalled:?}");
    let slowest = report.series.timed().max_by_key(|(_, _, point)| point.summary.map_or(0, |summary| summary.max));
    let (begin_s, _, _) = slowest.expect("there are points");
    assert!((1.35..1.65).contains(&(started_s + begin_s)), "{}", started_s + begin_s);
}

#[test]
fn a_run_can_be_looked_at_while_it_goes_on() {
    let server = Server::answering(OK);
    let mut options = options(&server, Duration::from_millis(50), Duration::from_secs(60));
    options.schedule = Schedule::Fixed { rate_per_s: 400.0 };
    let control = Control::default();
    let (seen, report) = std::thread::scope(|scope| {
        let run = scope.spawn(|| weir_load::run(options, &control).expect("the run is made"));
        std::thread::sleep(Duration::from_millis(600));
        let seen: Vec<Counts> = control.look(|series| series.points().iter().map(|point| point.counts).collect());
        let open = control.look(|series| series.points().last().map(|point| point.connections));
        assert!((1..=8).contains(&open.expect("a point")), "{open:?}");
        control.stop();
        (seen, run.join().expect("no panic"))
    });
    assert!((8..=13).contains(&seen.len()), "{}", seen.len());
    let whole: Vec<_> = report.series.points().iter().map(|point| point.counts).collect();
    assert_eq!(seen, whole[..seen.len()], "what was over stays as it was");
    assert!(seen.iter().skip(1).all(|counts| (10..=30).contains(&counts.requests)), "{seen:?}");
}

#[test]
fn senseless_intervals_are_refused() {
    let server = Server::answering(OK);
    for (interval, points_max) in
        [(Duration::from_millis(1), 10), (Duration::from_secs(4000), 10), (Duration::from_secs(1), 1)]
    {
        let mut options = options(&server, interval, Duration::from_secs(1));
        options.sampling.points_max = points_max;
        assert!(options.check().is_err(), "{interval:?}, {points_max}");
    }
}
