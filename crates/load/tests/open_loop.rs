//! Open loops: arrivals keep to their schedule whatever the server does.

mod server;

use server::{Server, events, load, load_with_events};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::{Control, Options, Schedule, StopRule};
use weir_measure::summary::Summary;
use weir_wire::Kind;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn fixed(server: &Server, rate_per_s: f64, time: Duration, connections: u32) -> Options {
    let mut options = server.options(1);
    options.schedule = Schedule::Fixed { rate_per_s };
    options.stop = StopRule::Duration(time);
    options.connections = connections;
    options
}

#[test]
fn arrivals_keep_to_their_times() {
    let server = Server::answering(OK);
    let (report, _, requests) = load_with_events(fixed(&server, 500.0, Duration::from_secs(1), 10));
    assert_eq!((report.requests, report.failures(), report.dropped), (500, 0, 0));
    assert!((report.rate_per_s - 500.0).abs() < 10.0, "{}", report.rate_per_s);
    let mut intended: Vec<u64> = requests.iter().map(|request| request.intended_ns).collect();
    intended.sort_unstable();
    assert!(intended.windows(2).all(|pair| pair[1] - pair[0] == 2_000_000));
    assert!(
        requests.iter().all(|r| r.intended_ns <= r.started_ns && r.started_ns <= r.sent_ns && r.sent_ns <= r.done_ns)
    );
}

#[test]
fn poisson_arrivals_reach_the_server_as_such() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&times);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            log.lock().expect("no panic").push(Instant::now());
            peer.send(OK.as_bytes());
        }
    });
    let mut options = fixed(&server, 1.0, Duration::from_secs(2), 20);
    options.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 11 };
    let report = load(options);
    let mut times = times.lock().expect("no panic").clone();
    times.sort_unstable();
    assert_eq!(times.len() as u64, report.requests);
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // Five standard errors of 2000 gaps; wake-up noise of some 0.1 ms adds little to a variance of 1.
    assert!((mean - 1.0).abs() < 0.12, "mean {mean} ms");
    assert!((variance - 1.0).abs() < 0.4, "variance {variance} ms2");
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(50));
            peer.send(OK.as_bytes());
        }
    });
    // Two connections of 20 a second each: of 500 arrivals about 40 are served in time and 10 wait.
    let mut options = fixed(&server, 500.0, Duration::from_secs(1), 2);
    options.queue = 10;
    let (producer, mut consumer) = weir_wire::ring(1 << 14);
    options.events = vec![producer];
    let report = load(options);
    assert_eq!(report.requests + report.dropped, 500);
    assert!((35..=55).contains(&report.requests), "{}", report.requests);
    assert!(report.warnings.iter().any(|warning| warning.contains("dropped")), "{:?}", report.warnings);
    let mut told = 0;
    consumer.drain(usize::MAX, |record, _| {
        if record.kind == Kind::ClientDropped as u16 {
            told += record.a;
        }
    });
    assert_eq!(told, report.dropped);
    // A queue of 10 before 40 a second is 250 ms of waiting, and it counts.
    let latency = Summary::of(&report.latency).expect("some succeeded");
    assert!((150e6..400e6).contains(&(latency.p50 as f64)), "{latency:?}");
    let uncorrected = Summary::of(&report.latency_uncorrected).expect("some succeeded");
    assert!((50e6..80e6).contains(&(uncorrected.p50 as f64)), "{uncorrected:?}");
}

/// A server that stalls: at each whole second of its life it answers nothing for 200 ms.
fn stalling() -> Server {
    let begin = Instant::now();
    Server::start(move |peer| {
        while peer.request().is_some() {
            let into_second = Duration::from_nanos(u64::from(begin.elapsed().subsec_nanos()));
            if let Some(rest) = Duration::from_millis(200).checked_sub(into_second) {
                std::thread::sleep(rest);
            }
            peer.send(OK.as_bytes());
        }
    })
}

#[test]
fn a_stall_is_in_the_percentiles_as_arithmetic_says() {
    let server =
        weir_testkit::Faulty::new("stall").args(["--ms", "200", "--every", "1000"]).start().expect("it starts");
    // Its first second is without a stall.
    std::thread::sleep(Duration::from_secs(1));
    let mut options = Options::new(weir_load::Url::parse(&server.url("/")).expect("a URL"));
    options.schedule = Schedule::Fixed { rate_per_s: 1000.0 };
    // Whole seconds, so that each phase of the stall is met equally often.
    let seconds = 4;
    options.stop = StopRule::Duration(Duration::from_secs(seconds));
    options.connections = 1000;
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.requests, report.failures(), report.dropped), (1000 * seconds, 0, 0), "{:?}", report.errors);
    // 800 of 1000 arrivals find the server free; the others wait for what is left of the stall: 0 to 200 ms, evenly.
    // So of all sorted by latency, the share q above 0.8 waits (q - 0.8) / 0.2 * 200 ms.
    let truth_ns = |quantile: f64| (quantile - 0.8) * 1e9;
    let latency = Summary::of(&report.latency).expect("all succeeded");
    for (name, measured, truth) in [("p90", latency.p90, truth_ns(0.9)), ("p99", latency.p99, truth_ns(0.99))] {
        assert!((measured as f64 / truth - 1.0).abs() < 0.05, "{name}: {measured} ns, the truth is {truth} ns");
    }
    assert!(latency.p50 < 5_000_000, "{latency:?}");
    assert_eq!(requests.len() as u64, report.requests);
}

#[test]
fn a_stall_with_one_connection_counts_from_the_intended_time() {
    let server = stalling();
    let report = load(fixed(&server, 500.0, Duration::from_secs(2), 1));
    let latency = Summary::of(&report.latency).expect("all succeeded");
    let uncorrected = Summary::of(&report.latency_uncorrected).expect("all succeeded");
    assert_eq!(report.requests, 1000);
    // One connection stalls once a second; the arrivals behind it wait in the generator, which only the corrected sees.
    assert!((latency.p90 as f64 / 100e6 - 1.0).abs() < 0.1, "{latency:?}");
    assert!(uncorrected.p90 < 20_000_000, "{uncorrected:?}");
    assert!(report.queued > 100 && report.warnings.iter().any(|w| w.contains("waited in the generator")));
}

#[test]
fn the_user_can_end_a_run() {
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    let server = Server::start(move |peer| {
        while peer.request().is_some() && peer.send(OK.as_bytes()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let control = Control::default();
    let mut options = fixed(&server, 200.0, Duration::from_secs(600), 4);
    let (producer, mut consumer) = weir_wire::ring(1 << 12);
    options.events = vec![producer];
    let begin = Instant::now();
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| weir_load::run(options, &control).expect("the run is made"));
        std::thread::sleep(Duration::from_millis(500));
        assert!(control.requests() > 20 && control.connections() >= 1 && control.errors() == 0);
        control.stop();
        run.join().expect("no panic")
    });
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(report.interrupted && report.requests == served.load(Ordering::Relaxed));
    assert!((0.4..0.9).contains(&report.duration.as_secs_f64()), "{:?}", report.duration);
    assert!((report.rate_per_s - 200.0).abs() < 30.0, "{}", report.rate_per_s);
    assert_eq!(events(&mut consumer).1.len() as u64, report.requests);
}

#[test]
fn a_hung_server_does_not_hold_the_user() {
    let server = Server::start(|peer| while peer.request().is_some() {});
    let control = Control::default();
    let mut options = server.options(1_000_000);
    options.connections = 5;
    options.timeout = Duration::from_secs(60);
    let begin = Instant::now();
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| weir_load::run(options, &control).expect("the run is made"));
        std::thread::sleep(Duration::from_millis(200));
        control.stop();
        run.join().expect("no panic")
    });
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert_eq!((report.requests, report.abandoned, report.interrupted), (0, 5, true));
}

#[test]
fn several_threads_share_the_work_exactly() {
    let server = Server::answering(OK);
    let mut options = server.options(1001);
    options.connections = 7;
    options.threads = 3;
    let report = load(options);
    assert_eq!((report.requests, report.connect.len(), server.connections()), (1001, 7, 7));
    let mut options = fixed(&server, 1000.0, Duration::from_millis(500), 8);
    options.threads = 2;
    assert_eq!(load(options).requests, 500);
}
