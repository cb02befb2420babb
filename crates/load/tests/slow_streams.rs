//! Slow clients over HTTP/2 and HTTP/3: streams share a client's line, whose bytes take their time both ways, and users who
//! click stop cancel a stream while its connection lives on.
// scripts/test: punctual

#[path = "http3/quic_server.rs"]
mod quic_server;
mod server;

use proptest::prelude::*;
use quic_server::{QuicServer, Setup};
use server::http2::{DATA, Frame, HEADERS, RST_STREAM, WINDOW_UPDATE, frame};
use server::{Peer, Server, load, load_with_events};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::sessions::{Session, Sessions, Think};
use weir_load::{
    ClientRequest, Link, ListedRequest, LoadError, Options, Outcome, Protocol, Request, Schedule, StopRule, Trust, Url,
};

/// The code of HTTP/2 by which a stream is cancelled (RFC 9113 7), and that of HTTP/3 (RFC 9114 8.1).
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const H3_REQUEST_CANCELLED: u64 = 0x10c;

/// The frames of a response with so many bytes of content.
fn content(stream: u32, bytes: usize) -> Vec<u8> {
    let mut all = frame(HEADERS, if bytes == 0 { 5 } else { 4 }, stream, &[0x88]);
    let whole = vec![b'x'; bytes];
    let pieces: Vec<_> = whole.chunks(16_384).collect();
    for (number, piece) in pieces.iter().enumerate() {
        all.extend(frame(DATA, u8::from(number + 1 == pieces.len()), stream, piece));
    }
    all
}

/// Answers each request over HTTP/2 with so many bytes of content.
fn answering(bytes: usize) -> Server {
    Server::start(move |peer| {
        // Windows that let any body come.
        if peer.greet(&[(4, 0x7fff_ffff)]) && peer.send(&frame(WINDOW_UPDATE, 0, 0, &0x7000_0000u32.to_be_bytes())) {
            while let Some(stream) = peer.asked() {
                if !peer.send(&content(stream, bytes)) {
                    return;
                }
            }
        }
    })
}

fn over_http2(server: &Server, requests: u64, streams: u32) -> Options {
    let mut options = server.options(requests);
    options.protocol = Protocol::Http2 { streams };
    options
}

fn over_http3(server: &QuicServer, requests: u64, streams: u32) -> Options {
    let mut options = Options::new(Url::parse(&server.url("/p")).expect("a URL"));
    options.protocol = Protocol::Http3 { streams, early_data: false, migrate_every: None };
    options.stop = StopRule::Requests(requests);
    options.connections = 1;
    options.timeout = Duration::from_secs(10);
    options.trust = Trust::Anything;
    options
}

/// Answers each request over HTTP/3 with so many bytes of content.
fn answering_http3(bytes: usize) -> QuicServer {
    QuicServer::start(Setup::default(), move |_| quic_server::ok(&vec![b'x'; bytes]))
}

/// How long all of a run's requests took, from the first that was sent to the last that was over, in seconds.
fn took_s(requests: &[ClientRequest]) -> f64 {
    let begin_ns = requests.iter().map(|request| request.sent_ns).min().expect("some");
    (requests.iter().map(|request| request.done_ns).max().expect("some") - begin_ns) as f64 / 1e9
}

/// Whether what is measured is never less than this, and once less than that: a busy machine delays, too, but nothing makes
/// a wrong generator right.
fn within(least: f64, most: f64, what: &str, mut measure: impl FnMut() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..6 {
        let found = measure();
        assert!(found >= least, "{what}: {found}, and not {least} at least");
        if found < most {
            return println!("{what}: {found:.4} between {least:.4} and {most:.4}");
        }
        seen.push(found);
    }
    panic!("{what}: {seen:?}, and not less than {most}");
}

#[test]
fn streams_share_the_line_of_their_connection() {
    for (bytes, bytes_per_s, streams) in [(10_000, 200_000.0, 8), (100_000, 1.6e6, 4), (10_000, 100_000.0, 1)] {
        let server = answering(bytes);
        let wanted_s = 8.0 * content(1, bytes).len() as f64 / bytes_per_s;
        within(wanted_s * 0.985, wanted_s * 1.05 + 0.02, &format!("{streams} streams over HTTP/2, s"), || {
            let mut options = over_http2(&server, 8, streams);
            options.slow.link.read_bytes_per_s = Some(bytes_per_s);
            let (report, connections, requests) = load_with_events(options);
            assert_eq!((report.requests, report.failures(), connections.len()), (8, 0, 1), "{:?}", report.reasons);
            took_s(&requests)
        });
    }
}

#[test]
fn datagrams_of_all_streams_share_the_line() {
    for (bytes, bytes_per_s, streams) in [(10_000, 200_000.0, 8), (100_000, 1.6e6, 4)] {
        let server = answering_http3(bytes);
        let wanted_s = (8 * bytes) as f64 / bytes_per_s;
        // Heads of packets and what else QUIC says take some of the line.
        within(wanted_s * 0.985, wanted_s * 1.15 + 0.03, &format!("{streams} streams over HTTP/3, s"), || {
            let mut options = over_http3(&server, 8, streams);
            options.slow.link.read_bytes_per_s = Some(bytes_per_s);
            let (report, connections, requests) = load_with_events(options);
            assert_eq!((report.requests, report.failures(), connections.len()), (8, 0, 1), "{:?}", report.reasons);
            let counts = report.http3.expect("counts of HTTP/3");
            assert_eq!(counts.datagrams_dropped, 0, "{counts:?}");
            // No more came in all than the line brings.
            let in_all_s = report.bytes as f64 / bytes_per_s;
            assert!(report.took.as_secs_f64() > in_all_s * 0.95, "{in_all_s} s of bytes in {:?}", report.took);
            took_s(&requests)
        });
    }
}

/// The parts of the fastest request that latency makes longer, and the connection's, in ms: until it was sent, until its
/// first byte, until its end, and until the connection was made.
fn parts_ms(options: Options) -> [f64; 4] {
    let (report, connections, requests) = load_with_events(options);
    assert_eq!((report.requests, connections.len()), (3, 1), "{:?}", report.reasons);
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    let connected_ns = connections[0].connected_ns;
    let made = ms(connections[0].connect_start_ns, connected_ns);
    let parts = |request: &ClientRequest| {
        let went = ms(request.intended_ns.max(connected_ns), request.sent_ns);
        [went, ms(request.sent_ns, request.first_byte_ns), ms(request.sent_ns, request.done_ns), made]
    };
    let least = requests.iter().map(parts).reduce(|one, other| std::array::from_fn(|at| one[at].min(other[at])));
    least.expect("some")
}

#[test]
fn latency_is_that_of_a_longer_line() {
    let latency = Duration::from_millis(80);
    let server = Server::start(|peer| {
        if !peer.greet(&[]) {
            return;
        }
        while let Some(stream) = peer.asked() {
            if !peer.send(&frame(HEADERS, 4, stream, &[0x88])) {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
            // Its end follows: a line delays each by as much.
            if !peer.send(&frame(DATA, 1, stream, b"end")) {
                return;
            }
        }
    });
    let late = |parts: [f64; 4], wanted: [f64; 4]| {
        let late = std::array::from_fn::<f64, 4, _>(|at| parts[at] - wanted[at]);
        assert!(late.iter().all(|late| *late > -0.01), "{parts:?} and not {wanted:?} at least");
        late.into_iter().fold(0.0, f64::max)
    };
    for bytes_per_s in [None, Some(1e6)] {
        within(0.0, 40.0, "late over HTTP/2, ms", || {
            let mut options = over_http2(&server, 3, 1);
            options.slow.link = Link { latency, read_bytes_per_s: bytes_per_s, write_bytes_per_s: bytes_per_s };
            // Half of it before the request, half before the response, whose end comes as much later as it was sent; and a
            // round trip for the connection.
            late(parts_ms(options), [40.0, 40.0, 70.0, 80.0])
        });
    }
    let server = answering_http3(100);
    within(0.0, 40.0, "late over HTTP/3, ms", || {
        let mut options = over_http3(&server, 3, 1);
        options.slow.link.latency = latency;
        // A datagram is sent when it is put on the line: both halves lie behind that.
        late(parts_ms(options), [0.0, 80.0, 80.0, 80.0])
    });
}

#[test]
fn a_body_is_written_at_the_limit() {
    let arrived = Arc::new(Mutex::new(0));
    let sum = Arc::clone(&arrived);
    let server = Server::start(move |peer: &mut Peer| {
        if !peer.greet(&[(4, 1 << 20)]) || !peer.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 20).to_be_bytes())) {
            return;
        }
        while let Some(frame) = peer.frame() {
            *sum.lock().expect("no panic") += frame.payload.len() + 9;
            if frame.ends() && !peer.send(&content(frame.stream, 1)) {
                return;
            }
        }
    });
    let post = Request { method: "POST".into(), body: vec![b'x'; 30_000], ..Request::default() };
    within(0.6 * 0.985, 0.6 * 1.05 + 0.02, "two bodies over HTTP/2, s", || {
        let mut options = over_http2(&server, 2, 2);
        options.request = post.clone();
        options.slow.link.write_bytes_per_s = Some(100_000.0);
        let report = load(options);
        assert_eq!((report.requests, report.failures()), (2, 0), "{:?}", report.reasons);
        report.latency.max() as f64 / 1e9
    });
    let bytes = *arrived.lock().expect("no panic");
    assert!(bytes > 60_000, "{bytes}");
    let server = QuicServer::start(Setup::default(), |_| quic_server::ok(b"taken"));
    within(0.6 * 0.985, 0.6 * 1.15 + 0.03, "two bodies over HTTP/3, s", || {
        let mut options = over_http3(&server, 2, 2);
        options.request = post.clone();
        options.slow.link.write_bytes_per_s = Some(100_000.0);
        let report = load(options);
        assert_eq!((report.requests, report.failures()), (2, 0), "{:?}", report.reasons);
        report.latency.max() as f64 / 1e9
    });
}

/// Streams that a client cancelled, and the codes by which it did.
type Cancelled = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

/// Notes which streams a client cancels, and answers each eighth of its requests.
fn seldom_answering(cancelled: Cancelled) -> Server {
    Server::start(move |peer| {
        if !peer.greet(&[]) {
            return;
        }
        let mut asked = 0;
        while let Some(Frame { kind, stream, payload, flags }) = peer.frame() {
            if kind == RST_STREAM {
                cancelled.lock().expect("no panic").push((stream, payload));
            } else if kind == HEADERS && flags & 1 != 0 {
                asked += 1;
                let head = frame(HEADERS, 4, stream, &[0x88]);
                if !peer.send(&if asked % 8 == 0 { content(stream, 10) } else { head }) {
                    return;
                }
            }
        }
    })
}

/// The times of users who clicked stop are those of their patience.
fn assert_stopped(requests: &[ClientRequest], patience_ms: f64, wanted: u64) {
    let stopped: Vec<_> = requests.iter().filter(|request| request.outcome == Outcome::Stopped).collect();
    assert_eq!(stopped.len() as u64, wanted);
    let waited = stopped.iter().map(|request| (request.done_ns - request.intended_ns) as f64 / 1e6);
    let (least, most) = waited.fold((f64::MAX, 0.0f64), |(least, most), it| (least.min(it), most.max(it)));
    assert!(least >= patience_ms - 0.01 && most < patience_ms + 250.0, "{least} to {most} ms");
}

#[test]
fn users_who_click_stop_cancel_their_stream_and_the_connection_lives_on() {
    let cancelled = Cancelled::default();
    let server = seldom_answering(Arc::clone(&cancelled));
    let mut options = over_http2(&server, 80, 4);
    options.slow.patience = Some(Think::Fixed(Duration::from_millis(60)));
    let (report, connections, requests) = load_with_events(options);
    assert_eq!((report.failures(), report.errors.len(), connections.len()), (0, 0, 1), "{:?}", report.reasons);
    assert_eq!((report.requests, report.stopped, report.series.counts().stopped()), (10, 70, 70));
    assert_stopped(&requests, 60.0, 70);
    // 70 users at most four at a time, 60 ms each: no slot rests.
    assert!((70.0 / 4.0 * 0.06..4.0).contains(&report.duration.as_secs_f64()), "{:?}", report.duration);
    let stopped: Vec<u32> =
        requests.iter().filter(|request| request.outcome == Outcome::Stopped).map(|request| request.stream).collect();
    let deadline = Instant::now() + Duration::from_secs(5);
    while cancelled.lock().expect("no panic").len() < 69 {
        assert!(Instant::now() < deadline, "{} were cancelled", cancelled.lock().expect("no panic").len());
        std::thread::sleep(Duration::from_millis(10));
    }
    let cancelled = cancelled.lock().expect("no panic");
    assert!(cancelled.iter().all(|(stream, code)| *code == CANCEL && stopped.contains(stream)), "{cancelled:?}");

    let server = QuicServer::start(Setup { at_once: true, ..Setup::default() }, {
        let mut asked = 0;
        move |_| {
            asked += 1;
            if asked % 8 == 0 { quic_server::ok(b"in time") } else { Vec::new() }
        }
    });
    let mut options = over_http3(&server, 80, 4);
    options.slow.patience = Some(Think::Fixed(Duration::from_millis(60)));
    let (report, connections, requests) = load_with_events(options);
    assert_eq!((report.failures(), report.errors.len(), connections.len()), (0, 0, 1), "{:?}", report.reasons);
    assert_eq!((report.requests, report.stopped), (10, 70));
    assert_stopped(&requests, 60.0, 70);
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen.connections, 1);
    assert!(seen.stopped.len() >= 69 && seen.stopped.iter().all(|code| *code == H3_REQUEST_CANCELLED), "{seen:?}");
}

#[test]
fn users_click_stop_while_their_connection_is_made() {
    let server = answering(10);
    let mut options = over_http2(&server, 1, 4);
    options.schedule = Schedule::Fixed { rate_per_s: 100.0 };
    options.stop = StopRule::Duration(Duration::from_millis(300));
    options.slow.link.latency = Duration::from_millis(400);
    options.slow.patience = Some(Think::Fixed(Duration::from_millis(100)));
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.failures(), report.requests), (0, 0), "{:?}", report.reasons);
    assert!(report.stopped >= 10, "{} stopped, {} dropped", report.stopped, report.dropped);
    assert!(requests.iter().all(|request| request.sent_ns == 0 || request.outcome == Outcome::Stopped), "{requests:?}");

    let server = answering_http3(10);
    let mut options = over_http3(&server, 10, 2);
    options.slow.link.latency = Duration::from_millis(400);
    options.slow.patience = Some(Think::Fixed(Duration::from_millis(100)));
    let report = load(options);
    assert_eq!((report.failures(), report.requests, report.stopped), (0, 0, 10), "{:?}", report.reasons);
}

#[test]
fn a_session_of_an_impatient_user_is_stopped() {
    let server = answering(15_000);
    let mut options = over_http2(&server, 4, 2);
    let url = options.url.clone();
    options.requests.list = vec![ListedRequest { request: Request::default(), url, weight: 1 }];
    let session = Session::new().burst(&[0]).think(Think::Fixed(Duration::from_millis(10))).burst(&[0, 0]);
    options.requests.sessions = Some(Sessions { list: vec![session], seed: 1 });
    options.slow.link.read_bytes_per_s = Some(100_000.0);
    let mut impatient = over_http2(&server, 4, 2);
    (impatient.requests, impatient.slow) = (options.requests.clone(), options.slow);
    let report = load(options);
    let sessions = report.sessions.as_ref().expect("sessions");
    assert_eq!((report.requests, sessions.completed, sessions.failed), (12, 4, 0), "{:?}", report.reasons);
    // Three times 15 000 bytes at 100 000 a second, and 10 ms of thought.
    let fastest_s = sessions.lifetime.min() as f64 / 1e9;
    assert!((0.44..0.9).contains(&fastest_s), "{fastest_s}");
    // The first burst takes 150 ms, the second 300.
    impatient.slow.patience = Some(Think::Fixed(Duration::from_millis(225)));
    let report = load(impatient);
    let sessions = report.sessions.as_ref().expect("sessions");
    assert_eq!((sessions.completed, sessions.stopped, sessions.failed, sessions.unfinished), (0, 4, 0, 0));
    assert_eq!((report.requests + report.stopped, report.failures()), (12, 0));
    assert!(report.stopped >= 4, "{}", report.stopped);
}

#[test]
fn a_limited_response_may_take_longer_than_the_timeout_as_long_as_it_comes() {
    let server = answering(30_000);
    let mut options = over_http2(&server, 1, 1);
    options.timeout = Duration::from_millis(500);
    options.slow.link.read_bytes_per_s = Some(20_000.0);
    assert_eq!(load(options).requests, 1);
    let server = answering_http3(30_000);
    let mut options = over_http3(&server, 1, 1);
    options.timeout = Duration::from_millis(700);
    options.slow.link.read_bytes_per_s = Some(20_000.0);
    assert_eq!(load(options).requests, 1);
    let silent = Server::start(|peer| {
        if peer.greet(&[]) {
            while let Some(stream) = peer.asked() {
                peer.send(&frame(HEADERS, 4, stream, &[0x88]));
            }
        }
    });
    let mut options = over_http2(&silent, 1, 1);
    options.timeout = Duration::from_millis(500);
    options.slow.link.read_bytes_per_s = Some(20_000.0);
    let report = load(options);
    assert_eq!((report.requests, report.errors), (0, vec![(Outcome::TimedOut, 1)]));
}

#[test]
fn over_tls_the_records_of_all_streams_are_limited() {
    if weir_testkit::require::nginx().is_none() || weir_testkit::require::program("openssl").is_none() {
        return;
    }
    let (certificate, port) =
        (weir_testkit::Certificate::self_signed().expect("a certificate"), weir_testkit::free_port());
    let _server = weir_testkit::Nginx::new()
        .directive(&format!("listen 127.0.0.1:{port} ssl http2;"))
        .directive(&format!("ssl_certificate \"{}\";", certificate.certificate().display()))
        .directive(&format!("ssl_certificate_key \"{}\";", certificate.key().display()))
        .start()
        .expect("nginx starts");
    let wanted_s = 4.0 * 65_536.0 / 200_000.0;
    within(wanted_s * 0.985, wanted_s * 1.06 + 0.06, "four responses over TLS, s", || {
        let mut options = Options::new(Url::parse(&format!("https://127.0.0.1:{port}/64k.bin")).expect("a URL"));
        options.protocol = Protocol::Http2 { streams: 2 };
        options.trust = Trust::Anything;
        options.connections = 1;
        options.stop = StopRule::Requests(4);
        let latency = Duration::from_millis(20);
        options.slow.link = Link { read_bytes_per_s: Some(200_000.0), write_bytes_per_s: Some(5_000.0), latency };
        let (report, connections, requests) = load_with_events(options);
        assert_eq!((report.requests, report.failures(), connections.len()), (4, 0, 1), "{:?}", report.reasons);
        let connect_s = (connections[0].connected_ns - connections[0].connect_start_ns) as f64 / 1e9;
        assert!(connect_s >= 0.04, "two round trips: {connect_s}");
        took_s(&requests)
    });
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let mut options = Options::new(Url::parse("http://127.0.0.1:1/").expect("a URL"));
    options.protocol = Protocol::Http2 { streams: 2 };
    options.slow.patience = Some(Think::Fixed(Duration::from_secs(3601)));
    let refused = options.check().expect_err("too long");
    assert!(matches!(refused, LoadError::Options(words) if words.contains("hour")), "{refused:?}");
    options.slow.patience = Some(Think::Fixed(Duration::from_secs(3600)));
    options.check().expect("an hour is allowed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// For any line and any number of streams every response is whole, and none comes before its bytes can have come.
    #[test]
    fn all_responses_are_whole_over_any_line(
        bytes in 0usize..40_000,
        read in prop::option::of(100_000.0..1e7f64),
        write in prop::option::of(5_000.0..1e7f64),
        latency_ms in prop_oneof![Just(0u64), 1u64..30],
        streams in prop_oneof![Just(1u32), 1u32..6],
        keep_alive: bool,
        over_quic: bool,
    ) {
        let latency = Duration::from_millis(latency_ms);
        let link = Link { read_bytes_per_s: read, write_bytes_per_s: write, latency };
        let (http2, http3) = (answering(bytes), over_quic.then(|| answering_http3(bytes)));
        let mut options = match &http3 {
            Some(server) => over_http3(server, 12, streams),
            None => over_http2(&http2, 12, streams),
        };
        options.slow.link = link;
        options.keep_alive = keep_alive || streams > 1;
        let wanted_s = read.map_or(0.0, |read| bytes as f64 / read) + latency.as_secs_f64();
        let report = load(options);
        prop_assert_eq!((report.requests, report.failures(), report.stopped), (12, 0, 0), "{:?}", report.reasons);
        prop_assert!(report.latency.min() as f64 / 1e9 >= wanted_s * 0.97, "{} {wanted_s}", report.latency.min());
    }
}
