//! Open loops: arrivals keep to their schedule even if the server stalls.
// scripts/test: punctual

#[path = "http3/quic_server.rs"]
mod quic_server;
mod server;

use quic_server::{QuicServer, Setup};
use server::{Server, events, load, load_with_events};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::{Control, Options, Protocol, Schedule, StopRule, Trust, WebSocket};
use weir_measure::summary::Summary;
use weir_wire::Kind;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Timing tests take turns, so that they disturb each other no more than the rest of the machine does.
static TURN: Mutex<()> = Mutex::new(());

/// Looks up to five times: a machine that is busy with other things delays an honest generator, too, but nothing
/// brings a wrong one to the truth.
fn eventually(mut look: impl FnMut() -> Result<(), String>) {
    let _turn = TURN.lock();
    let mut seen = Vec::new();
    for _ in 0..5 {
        match look() {
            Ok(()) => return,
            Err(what) => seen.push(what),
        }
    }
    panic!("{seen:#?}");
}

/// An error that shows the values, unless they are as they should be.
fn expect(right: bool, values: impl std::fmt::Debug) -> Result<(), String> {
    if right { Ok(()) } else { Err(format!("{values:?}")) }
}

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
fn poisson_arrivals_are_sent_when_they_are_due() {
    let server = Server::answering(OK);
    eventually(|| {
        let mut options = fixed(&server, 1.0, Duration::from_secs(2), 20);
        options.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 11 };
        let (report, _, mut requests) = load_with_events(options);
        assert_eq!(report.requests, requests.len() as u64);
        requests.sort_unstable_by_key(|request| request.intended_ns);
        let gaps: Vec<f64> =
            requests.windows(2).map(|pair| (pair[1].intended_ns - pair[0].intended_ns) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Five standard errors of 2000 gaps.
        assert!((mean - 1.0).abs() < 0.12 && (variance - 1.0).abs() < 0.32, "{mean} ms, {variance} ms2");
        let mut delays: Vec<u64> = requests.iter().map(|request| request.sent_ns - request.intended_ns).collect();
        delays.sort_unstable();
        expect(delays[delays.len() / 2] < 300_000, delays[delays.len() / 2])
    });
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(50));
            peer.send(OK.as_bytes());
        }
    });
    let _turn = TURN.lock();
    // Two connections of 20 a second each: of 500 arrivals about 40 are served in time and 10 wait.
    let mut options = fixed(&server, 500.0, Duration::from_secs(1), 2);
    options.queue = 10;
    let (producer, mut consumer) = weir_wire::ring(1 << 14);
    options.events = vec![producer];
    let report = load(options);
    assert_eq!(report.requests + report.dropped, 500);
    assert!((15..=55).contains(&report.requests), "{}", report.requests);
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
    assert!((150e6..900e6).contains(&(latency.p50 as f64)), "{latency:?}");
    let uncorrected = Summary::of(&report.latency_uncorrected).expect("some succeeded");
    assert!((50e6..200e6).contains(&(uncorrected.p50 as f64)), "{uncorrected:?}");
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
    eventually(|| {
        let mut options = Options::new(weir_load::Url::parse(&server.url("/")).expect("a URL"));
        options.schedule = Schedule::Fixed { rate_per_s: 1000.0 };
        // Whole seconds, so that each phase of the stall is met equally often.
        let seconds = 3;
        options.stop = StopRule::Duration(Duration::from_secs(seconds));
        options.connections = 1000;
        let (report, _, requests) = load_with_events(options);
        let counts = (report.requests, report.failures(), report.dropped, requests.len() as u64);
        assert_eq!(counts, (1000 * seconds, 0, 0, 1000 * seconds), "{:?}", report.errors);
        // 800 of 1000 arrivals find the server free; the others wait for what is left of the stall: 0 to 200 ms,
        // evenly. So of all sorted by latency, the share q above 0.8 waits (q - 0.8) / 0.2 * 200 ms.
        let latency = Summary::of(&report.latency).expect("all succeeded");
        let off = |measured: u64, quantile: f64| (measured as f64 / ((quantile - 0.8) * 1e9) - 1.0).abs();
        let right = off(latency.p90, 0.9) < 0.05 && off(latency.p99, 0.99) < 0.05 && latency.p50 < 1_000_000;
        expect(right, (latency, report.generator))
    });
}

#[test]
fn a_stall_over_http3_is_in_the_percentiles_as_arithmetic_says() {
    let begin = Instant::now();
    // At each whole second of its life it does nothing for 200 ms.
    let server = QuicServer::start(Setup { streams: 400, ..Setup::default() }, move |_| {
        let into_second = Duration::from_nanos(u64::from(begin.elapsed().subsec_nanos()));
        if let Some(rest) = Duration::from_millis(200).checked_sub(into_second) {
            std::thread::sleep(rest);
        }
        quic_server::ok(b"")
    });
    eventually(|| {
        let mut options = Options::new(weir_load::Url::parse(&server.url("/")).expect("a URL"));
        options.protocol = Protocol::Http3 { streams: 100, early_data: false, migrate_every: None };
        options.trust = Trust::Anything;
        // Few enough that a server that is not optimized has soon answered what waited.
        options.schedule = Schedule::Fixed { rate_per_s: 400.0 };
        options.stop = StopRule::Duration(Duration::from_secs(2));
        let (report, _, requests) = load_with_events(options);
        let counts = (report.requests, report.failures(), report.dropped, requests.len());
        assert_eq!(counts, (800, 0, 0, 800), "{:?}", report.reasons);
        // As above: four of five arrivals find the server free, and the others wait for what is left of the stall.
        let latency = Summary::of(&report.latency).expect("all succeeded");
        let off = |measured: u64, quantile: f64| (measured as f64 / ((quantile - 0.8) * 1e9) - 1.0).abs();
        let right = off(latency.p90, 0.9) < 0.05 && off(latency.p99, 0.99) < 0.05 && latency.p50 < 5_000_000;
        expect(right, (latency, report.generator))
    });
}

#[test]
fn a_stall_is_in_the_percentiles_of_messages_as_arithmetic_says() {
    let begin = Instant::now();
    let server = Server::start(move |peer| {
        if peer.upgrade("").is_none() {
            return;
        }
        while let Some(received) = peer.received() {
            let into_second = Duration::from_nanos(u64::from(begin.elapsed().subsec_nanos()));
            if let Some(rest) = Duration::from_millis(400).checked_sub(into_second) {
                std::thread::sleep(rest);
            }
            peer.send(&server::websocket::frame(received.first, &received.content));
        }
    });
    eventually(|| {
        // Between two stalls, so that no connection is opened within one.
        let into_second = begin.elapsed().subsec_millis();
        std::thread::sleep(Duration::from_millis(u64::from((1500 - into_second) % 1000)));
        let mut options = fixed(&server, 500.0, Duration::from_secs(3), 250);
        options.websocket = Some(WebSocket::default());
        let report = load(options);
        assert_eq!((report.requests, report.failures(), report.dropped), (1500, 0, 0), "{:?}", report.errors);
        // As over HTTP: all that arrive within the stall wait for what is left of it, so that of all sorted by latency
        // the share q above 0.6 waits (q - 0.6) / 0.4 * 400 ms.
        let latency = Summary::of(&report.latency).expect("all succeeded");
        let off = |measured: u64, quantile: f64| (measured as f64 / ((quantile - 0.6) * 1e9) - 1.0).abs();
        let right = off(latency.p90, 0.9) < 0.05 && off(latency.p99, 0.99) < 0.05 && latency.p50 < 20_000_000;
        expect(right, (latency, report.generator))
    });
}

#[test]
fn a_stall_with_one_connection_counts_from_the_intended_time() {
    let server = stalling();
    eventually(|| {
        let report = load(fixed(&server, 500.0, Duration::from_secs(2), 1));
        let latency = Summary::of(&report.latency).expect("all succeeded");
        let uncorrected = Summary::of(&report.latency_uncorrected).expect("all succeeded");
        assert_eq!(report.requests, 1000);
        // One request stalls once a second; the arrivals behind it wait in the generator: only the corrected sees them.
        expect((latency.p90 as f64 / 100e6 - 1.0).abs() < 0.1, latency)?;
        expect(uncorrected.p90 < 20_000_000, uncorrected)?;
        let warned = report.warnings.iter().any(|warning| warning.contains("waited in the generator"));
        expect(report.queued > 100 && warned, &report.warnings)?;
        // The server stalls, and the arrivals wait for its connection: neither is the generator's fault.
        let slowest = report.slowest.expect("some succeeded");
        expect(slowest.unread_known > 0 && slowest.own_share() < 0.1, slowest)
    });
}

/// Threads that take a CPU for themselves, until this is dropped or a minute is over.
struct Hogs(Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>);

impl Hogs {
    fn on(cpu: usize, count: usize) -> Self {
        let (over, end) = (Arc::new(AtomicBool::new(false)), Instant::now() + Duration::from_secs(60));
        let hog = |over: Arc<AtomicBool>| {
            move || {
                // SAFETY: an all-zero set is the empty set; the set outlives the call; 0 is the calling thread.
                let pinned = unsafe {
                    let mut set: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(cpu, &mut set);
                    libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
                };
                assert_eq!(pinned, 0, "CPU {cpu}");
                while !over.load(Ordering::Relaxed) && Instant::now() < end {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(hog(Arc::clone(&over)))).collect();
        Self(over, threads)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            assert!(thread.join().is_ok() || std::thread::panicking(), "a hog failed");
        }
    }
}

/// From here on this thread and those that it starts share CPUs with others: with real-time priority, which the program
/// has, the server would wait behind the hogs as the generator does.
fn share_cpus() {
    // SAFETY: `parameters` outlives the call, which is for the calling thread.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters), 0);
    }
}

#[test]
fn a_generator_that_shares_its_cpu_is_at_fault() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if weir_testkit::require::or_skip(cpus >= 2, "the server needs a CPU that the generator has not").is_none() {
        return;
    }
    share_cpus();
    let server = Server::answering(OK);
    // In the open loop it is late, and in both the answers lie unread.
    for schedule in [Schedule::Fixed { rate_per_s: 300.0 }, Schedule::Closed] {
        eventually(|| {
            let _hogs = Hogs::on(cpus - 1, 4);
            let mut options = fixed(&server, 1.0, Duration::from_millis(800), 20);
            options.schedule = schedule.clone();
            options.cpu = Some(cpus - 1);
            let report = load(options);
            let slowest = report.slowest.expect("some succeeded");
            println!("{schedule:?}: {slowest:?}");
            let is_told = slowest.late_ns > 0.0 || schedule == Schedule::Closed;
            expect(is_told && slowest.unread_known > 0 && slowest.own_share() > 0.5, slowest)
        });
    }
}

#[test]
fn the_user_can_end_a_run() {
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            count.fetch_add(1, Ordering::Relaxed);
            peer.send(OK.as_bytes());
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
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(report.interrupted && report.requests == served.load(Ordering::Relaxed));
    assert!((0.4..3.0).contains(&report.duration.as_secs_f64()), "{:?}", report.duration);
    assert!((report.rate_per_s - 200.0).abs() < 60.0, "{}", report.rate_per_s);
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
    assert!(begin.elapsed() < Duration::from_secs(8));
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
