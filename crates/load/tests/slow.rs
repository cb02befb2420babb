//! Slow clients: what they read and write in any 5 s, the latency of their lines, and users who click stop.
// scripts/test: punctual

mod server;

use proptest::prelude::*;
use server::{Server, load, load_with_events};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::sessions::{Session, Sessions, Think};
use weir_load::{
    ClientRequest, Control, Io, Link, ListedRequest, LoadError, Observer, Options, Outcome, Request, StopRule,
};

const WINDOW_NS: u64 = 5_000_000_000;

/// What came, in the order of time: connection, time, bytes.
type Reads = Arc<Mutex<Vec<(u64, u64, usize)>>>;

/// Notes each reception with its time.
struct Watch {
    begin: Instant,
    reads: Reads,
}

impl Observer for Watch {
    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let at_ns = self.begin.elapsed().as_nanos() as u64;
        self.reads.lock().expect("no panic before").push((connection, at_ns, bytes.len()));
    }

    fn request(&mut self, _: &ClientRequest) {}
}

fn watch(options: &mut Options) -> Reads {
    let reads = Reads::default();
    options.observers = vec![Box::new(Watch { begin: Instant::now(), reads: Arc::clone(&reads) })];
    reads
}

/// The fullest and the emptiest window of 5 s of a connection, as shares of what the limit allows; in the times of `pauses`
/// no client could have read.
fn extremes(reads: &[(u64, usize)], bytes_per_s: f64, pauses: &[(u64, u64)]) -> Option<(f64, f64)> {
    let wanted = bytes_per_s * 5.0;
    let sum = |from: usize, to: usize| reads[from..to].iter().map(|(_, bytes)| *bytes).sum::<usize>() as f64 / wanted;
    let last_ns = reads.last()?.0;
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    for (index, (at_ns, _)) in reads.iter().enumerate() {
        if at_ns + WINDOW_NS > last_ns {
            break;
        }
        let before = reads.partition_point(|(time, _)| *time < at_ns + WINDOW_NS);
        let after = reads.partition_point(|(time, _)| *time <= at_ns + WINDOW_NS);
        most = most.max(sum(index, before));
        let end_ns = at_ns + WINDOW_NS;
        let paused_ns: u64 = pauses.iter().map(|(from, to)| to.min(&end_ns).saturating_sub(*from.max(at_ns))).sum();
        least = least.min(sum(index + 1, after) + paused_ns as f64 / WINDOW_NS as f64);
    }
    (most > f64::MIN).then_some((least, most))
}

fn by_connection(reads: &Reads) -> HashMap<u64, Vec<(u64, usize)>> {
    let mut each: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
    for (connection, at_ns, bytes) in reads.lock().expect("no panic before").iter() {
        each.entry(*connection).or_default().push((*at_ns, *bytes));
    }
    each
}

/// A body of so many bytes, and the head before it.
fn response(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
}

fn answering(bytes: usize) -> Server {
    let response = response(bytes);
    Server::start(move |peer| while peer.request().is_some() && peer.send(response.as_bytes()) {})
}

#[test]
fn a_response_takes_the_time_of_its_bytes() {
    for (bytes, bytes_per_s) in [(20_000, 40_000.0), (300_000, 1e6), (100, 3360.0), (2_000_000, 1e7)] {
        let server = answering(bytes);
        let mut options = server.options(4);
        options.slow.link.read_bytes_per_s = Some(bytes_per_s);
        let report = load(options);
        assert_eq!((report.requests, report.failures(), report.generator.io), (4, 0, Io::Epoll));
        let wanted_s = response(bytes).len() as f64 / bytes_per_s;
        let fastest_s = report.latency.min() as f64 / 1e9;
        // Nothing is faster than the line, and only what surrounds it makes it slower.
        assert!(fastest_s > wanted_s * 0.985 && fastest_s < wanted_s * 1.1 + 0.03, "{fastest_s} of {wanted_s} s");
    }
}

/// What is on its way along a line for long has room beside what is read: else the line would be half as fast.
#[test]
fn a_line_with_a_long_way_brings_its_rate() {
    std::thread::scope(|scope| {
        for name in ["edge", "2g", "3g-slow"] {
            scope.spawn(move || {
                let link = Link::named(name).expect("known");
                let bytes_per_s = link.read_bytes_per_s.expect("limited");
                let server = answering((bytes_per_s * 4.0) as usize);
                let mut options = server.options(1);
                options.slow.link = link;
                let reads = watch(&mut options);
                assert_eq!(load(options).requests, 1);
                let reads = reads.lock().expect("no panic before");
                let ((_, first_ns, first), (_, last_ns, _)) = (reads[0], reads[reads.len() - 1]);
                let bytes = reads.iter().map(|(_, _, bytes)| *bytes).sum::<usize>() - first;
                let share = bytes as f64 / ((last_ns - first_ns) as f64 / 1e9) / bytes_per_s;
                println!("{name}: {:.1} % of its rate", share * 100.0);
                assert!((0.9..1.05).contains(&share), "{name}: {share}");
            });
        }
    });
}

#[test]
fn a_thousand_clients_of_one_core_read_what_their_lines_bring_in_any_5_s() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let server = weir_testkit::Nginx::new().start().expect("nginx starts");
    let url = weir_load::Url::parse(&server.url("/64k.bin")).expect("a URL");
    let mut options = Options::new(url);
    options.connections = 1000;
    options.stop = StopRule::Duration(Duration::from_secs(12));
    options.slow.link.read_bytes_per_s = Some(3360.0);
    let reads = watch(&mut options);
    let control = Control::default();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(12_300));
            control.stop();
        });
        weir_load::run(options, &control).expect("a run")
    });
    let each = by_connection(&reads);
    assert_eq!(each.len(), 1000);
    // Some client's time comes each 20 us: where no client read for long, others had the generator's CPU.
    let times: Vec<u64> = reads.lock().expect("no panic before").iter().map(|(_, at_ns, _)| *at_ns).collect();
    // 40 ms are made up for.
    let pauses = times.windows(2).map(|pair| (pair[0] + 40_000_000, pair[1])).filter(|(from, to)| from < to);
    let pauses: Vec<_> = pauses.collect();
    let paused_ns = pauses.iter().map(|(from, to)| to - from).sum::<u64>();
    // They are not the generator's own doing.
    let own_share = paused_ns as f64 / 12e9 - report.generator.runnable_share;
    assert!(own_share < 0.02, "it read nothing for {} ms, but {:?}", paused_ns / 1_000_000, report.generator);
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    for (connection, reads) in &each {
        let (low, high) = extremes(reads, 3360.0, &pauses)
            .unwrap_or_else(|| panic!("{connection}: it read for less than 5 s: {reads:?}"));
        (least, most) = (least.min(low), most.max(high));
    }
    println!(
        "1000 clients of 3360 B/s: windows of 5 s between {least:.4} and {most:.4} of the limit, {} reads, \
         {:.1} % of a core, waited for it {:.1} % of the time, {} pauses of {} ms",
        reads.lock().expect("no panic before").len(),
        report.generator.cpu_share * 100.0,
        report.generator.runnable_share * 100.0,
        pauses.len(),
        paused_ns / 1_000_000
    );
    let has_cpu = report.generator.runnable_share < 0.3;
    if weir_testkit::require::or_skip(has_cpu, "others had the generator's CPU for most of the time").is_none() {
        return;
    }
    assert!(report.generator.cpu_share < 0.9, "{:?}", report.generator);
    assert!(least >= 0.98 && most <= 1.02, "{least} to {most}: {:?}", report.generator);
}

#[test]
fn a_request_is_written_at_the_limit() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&arrived);
    let begin = Instant::now();
    let server = Server::start(move |peer| {
        use std::io::Read;
        let (mut buffer, mut sum) = (vec![0; 1 << 16], 0);
        while let Ok(count @ 1..) = peer.stream.read(&mut buffer) {
            sum += count;
            log.lock().expect("no panic before").push((begin.elapsed().as_nanos() as u64, count));
            if sum >= 140_000 {
                peer.send(response(1).as_bytes());
            }
        }
    });
    let mut options = server.options(1);
    options.request.method = "POST".to_owned();
    options.request.body = vec![b'x'; 140_000];
    options.slow.link.write_bytes_per_s = Some(20_000.0);
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.requests, report.failures()), (1, 0), "{:?}", report.errors);
    let sent = arrived.lock().expect("no panic before");
    let (least, most) = extremes(&sent, 20_000.0, &[]).expect("it takes 7 s");
    assert!(least >= 0.98 && most <= 1.02, "{least} to {most}");
    let bytes = f64::from(requests[0].request_bytes);
    // It is sent for good a moment behind its first bytes: longer, where others have the CPU then.
    let took_s = (requests[0].first_byte_ns - requests[0].started_ns) as f64 / 1e9;
    assert!((took_s - bytes / 20_000.0).abs() < 0.05, "{took_s} s for {bytes} bytes");
}

#[test]
fn latency_is_that_of_a_longer_line() {
    let latency = Duration::from_millis(80);
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            // Its end follows: a line delays each by as much.
            let all = response(10);
            let (begin, end) = all.split_at(20);
            if !peer.send(begin.as_bytes()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
            if !peer.send(end.as_bytes()) {
                return;
            }
        }
    });
    for bytes_per_s in [None, Some(1e6)] {
        let mut options = server.options(5);
        options.slow.link = Link { latency, read_bytes_per_s: bytes_per_s, write_bytes_per_s: bytes_per_s };
        let (report, connections, requests) = load_with_events(options);
        assert_eq!((report.requests, connections.len()), (5, 1));
        let ms = |from: u64, to: u64| (to - from) as f64 / 1e6;
        let connect = ms(connections[0].connect_start_ns, connections[0].connected_ns);
        assert!((80.0..140.0).contains(&connect), "a round trip: {connect} ms");
        // Half of it before the request, half before the response, whose end comes as much later as it was sent. None is
        // faster; a busy machine may add to most, but the fastest takes about so long.
        let connected_ns = connections[0].connected_ns;
        let parts = |request: &ClientRequest| {
            let went = ms(request.intended_ns.max(connected_ns), request.sent_ns);
            [went, ms(request.sent_ns, request.first_byte_ns), ms(request.sent_ns, request.done_ns)]
        };
        let fastest = requests.iter().map(parts).reduce(|one, other| std::array::from_fn(|at| one[at].min(other[at])));
        for (fastest, wanted) in fastest.expect("five").into_iter().zip([40.0, 40.0, 70.0]) {
            assert!((wanted..wanted + 60.0).contains(&fastest), "{fastest} of {wanted} ms");
        }
    }
}

#[test]
fn users_who_click_stop_are_no_errors_and_others_take_their_places() {
    // A response that never ends, and one in time for each eighth connection.
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            let (whole, is_in_time) = (response(5000), peer.number % 8 == 7);
            if !peer.send(&whole.as_bytes()[..1000]) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
            if is_in_time && !peer.send(&whole.as_bytes()[1000..]) {
                return;
            }
        }
    });
    let mut options = server.options(40);
    options.connections = 4;
    options.slow.patience = Some(Think::Fixed(Duration::from_millis(150)));
    options.stop = StopRule::Duration(Duration::from_millis(1500));
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.failures(), report.errors.len()), (0, 0));
    let stopped: Vec<_> = requests.iter().filter(|request| request.outcome == Outcome::Stopped).collect();
    assert_eq!((stopped.len() as u64, report.series.counts().stopped()), (report.stopped, report.stopped));
    assert!(report.stopped >= 16 && report.requests > 0, "{} {}", report.stopped, report.requests);
    for request in stopped {
        let waited_ms = (request.done_ns - request.intended_ns) as f64 / 1e6;
        assert!((150.0..250.0).contains(&waited_ms), "{waited_ms}");
        assert!(request.first_byte_ns > 0 && request.response_bytes == 1000, "in mid-response: {request:?}");
    }
    assert!(server.connections() as u64 >= report.stopped, "each stopped user leaves with the connection");
}

#[test]
fn patience_is_distributed_as_it_was_asked_for() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            if !peer.send(response(10).as_bytes()) {
                return;
            }
        }
    });
    let mut options = server.options(1000);
    options.connections = 20;
    options.slow.patience = Some(Think::Exponential(Duration::from_millis(20)));
    options.slow.seed = 5;
    let report = load(options);
    assert_eq!((report.requests + report.stopped, report.failures()), (1000, 0), "{:?}", report.errors);
    // 1 - 1/e = 0.632 stop within the 20 ms of a response, which never takes less: five standard errors are 0.076, and a
    // loaded machine makes responses later, so that more stop.
    let share = report.stopped as f64 / 1000.0;
    assert!((0.55..0.85).contains(&share), "{share}");
}

#[test]
fn a_session_of_a_slow_client_goes_its_way_or_is_stopped() {
    let server = answering(1500);
    let mut options = server.options(4);
    let url = options.url.clone();
    options.requests.list = vec![ListedRequest { request: Request::default(), url, weight: 1 }];
    let session = Session::new().burst(&[0]).think(Think::Fixed(Duration::from_millis(10))).burst(&[0, 0]);
    options.requests.sessions = Some(Sessions { list: vec![session], seed: 1 });
    options.slow.link.read_bytes_per_s = Some(10_000.0);
    let mut stopped = server.options(4);
    (stopped.requests, stopped.slow) = (options.requests.clone(), options.slow);
    let report = load(options);
    let sessions = report.sessions.as_ref().expect("sessions");
    assert_eq!((report.requests, sessions.completed, sessions.failed), (12, 4, 0));
    // 3 times 1500 bytes and their heads, and 10 ms of thought.
    let fastest_s = sessions.lifetime.min() as f64 / 1e9;
    assert!((0.46..0.7).contains(&fastest_s), "{fastest_s}");
    // The first burst takes 154 ms, the second 308.
    stopped.slow.patience = Some(Think::Fixed(Duration::from_millis(230)));
    let report = load(stopped);
    let sessions = report.sessions.as_ref().expect("sessions");
    assert_eq!((sessions.completed, sessions.stopped, sessions.failed, sessions.unfinished), (0, 4, 0, 0));
    assert_eq!((report.requests, report.stopped, report.failures()), (8, 4, 0));
}

#[test]
fn over_tls_the_records_are_limited() {
    if weir_testkit::require::nginx().is_none() || weir_testkit::require::program("openssl").is_none() {
        return;
    }
    let certificate = weir_testkit::Certificate::self_signed().expect("a certificate");
    let server = weir_testkit::Nginx::new().tls(&certificate).start().expect("nginx starts");
    let mut options = Options::new(weir_load::Url::parse(&server.url("/64k.bin")).expect("a URL"));
    options.trust = weir_load::Trust::Anything;
    options.connections = 2;
    options.stop = StopRule::Requests(4);
    options.slow.link =
        Link { read_bytes_per_s: Some(50_000.0), write_bytes_per_s: Some(5_000.0), latency: Duration::from_millis(20) };
    let (report, connections, requests) = load_with_events(options);
    assert_eq!((report.requests, report.failures(), connections.len()), (4, 0, 2));
    for request in requests {
        let took_s = (request.done_ns - request.sent_ns) as f64 / 1e9;
        // The bytes of records, as the events count them; the request's own and half of the latency lie before.
        let wanted_s = request.response_bytes as f64 / 50_000.0;
        assert!(request.response_bytes > 65_536 + 200, "{}", request.response_bytes);
        assert!(took_s >= wanted_s * 0.98 && took_s < wanted_s * 1.05 + 0.06, "{took_s} of {wanted_s} s");
    }
    for connection in connections {
        // Two round trips; the certificate's time on the line may come before the request as well.
        let took_s = (connection.connected_ns - connection.connect_start_ns) as f64 / 1e9;
        assert!((0.04..0.3).contains(&took_s), "{took_s}");
    }
}

#[test]
fn a_limited_response_may_take_longer_than_the_timeout_as_long_as_it_comes() {
    let server = answering(30_000);
    let mut options = server.options(1);
    options.timeout = Duration::from_millis(500);
    options.slow.link.read_bytes_per_s = Some(20_000.0);
    assert_eq!(load(options).requests, 1);
    let silent =
        Server::start(|peer| while peer.request().is_some() && peer.send(&response(30_000).as_bytes()[..10_000]) {});
    let mut options = silent.options(1);
    options.timeout = Duration::from_millis(500);
    options.slow.link.read_bytes_per_s = Some(20_000.0);
    let report = load(options);
    assert_eq!((report.requests, report.errors), (0, vec![(Outcome::TimedOut, 1)]));
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let refusal = |change: fn(&mut Options)| {
        let mut options = Options::new(weir_load::Url::parse("http://127.0.0.1:1/").expect("a URL"));
        options.slow.link.read_bytes_per_s = Some(1000.0);
        change(&mut options);
        match options.check() {
            Err(LoadError::Options(words)) => words,
            other => panic!("{other:?}"),
        }
    };
    assert!(refusal(|options| options.io = Io::Uring).contains("io_uring"));
    assert!(refusal(|options| options.slow.link.write_bytes_per_s = Some(0.0)).contains("0.1 B/s"));
    assert!(refusal(|options| options.slow.link.read_bytes_per_s = Some(f64::NAN)).contains("0.1 B/s"));
    assert!(refusal(|options| options.slow.link.latency = Duration::MAX).contains("hour"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// For any limits of a client, every response is whole, and none comes before its bytes can have come.
    #[test]
    fn all_responses_are_whole_over_any_line(
        bytes in 0usize..60_000,
        read in prop::option::of(50_000.0..1e7f64),
        write in prop::option::of(5_000.0..1e7f64),
        latency_ms in prop_oneof![Just(0u64), 1u64..30],
        connections in 1u32..4,
        pipeline in 1u32..3,
        keep_alive: bool,
    ) {
        let server = answering(bytes);
        let mut options = server.options(12);
        options.connections = connections;
        options.keep_alive = keep_alive;
        options.pipeline = if keep_alive { pipeline } else { 1 };
        options.hang_up = true;
        let latency = Duration::from_millis(latency_ms);
        options.slow.link = Link { read_bytes_per_s: read, write_bytes_per_s: write, latency };
        let wanted_s = read.map_or(0.0, |read| bytes as f64 / read) + latency.as_secs_f64();
        let report = load(options);
        prop_assert_eq!((report.requests, report.failures(), report.stopped), (12, 0, 0));
        prop_assert_eq!(report.bytes, 12 * response(bytes).len() as u64);
        prop_assert!(report.latency.min() as f64 / 1e9 >= wanted_s * 0.98, "{} {wanted_s}", report.latency.min());
    }
}
