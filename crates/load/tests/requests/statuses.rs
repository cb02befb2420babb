//! Which responses are successes, and that times are told of those alone.

use crate::server;

use server::http2::{HEADERS, frame};
use server::{Server, load};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_load::sessions::{Sessions, Think, parse_sessions};
use weir_load::{LoadReport, Outcome, Protocol, Schedule, StopRule};

/// A server that answers at once with one status and 30 ms later with another, in turn.
fn alternating(fast: &'static str, slow: &'static str) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |peer| {
        while peer.request().is_some() {
            let is_slow = asked.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            if is_slow {
                std::thread::sleep(Duration::from_millis(30));
            }
            let status = if is_slow { slow } else { fast };
            if !peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok").as_bytes()) {
                return;
            }
        }
    })
}

/// Every figure that is told of several kinds of requests adds up.
fn assert_adds_up(report: &LoadReport) {
    assert_eq!(report.requests, report.successes + report.unexpected);
    assert_eq!(report.requests, report.status.iter().map(|(_, count)| count).sum::<u64>());
    let times = (report.latency.len(), report.unexpected_latency.len(), report.failure_time.len());
    assert_eq!(times, (report.successes, report.unexpected, report.failures()));
    assert_eq!(report.latency_uncorrected.len(), report.successes);
    assert_eq!(report.first_byte.len(), report.successes);
    let counts = report.series.counts();
    assert_eq!((counts.requests, counts.unexpected), (report.requests, report.unexpected));
    assert_eq!(report.series.latency(), report.latency);
}

#[test]
fn times_are_those_of_successes() {
    // RFC 9110 15.6: 5xx says that the server failed, however fast.
    for (fast, slow, least_ms, most_ms) in [("503", "200", 30, 10_000), ("200", "503", 0, 29)] {
        let server = alternating(fast, slow);
        let report = load(server.options(20));
        assert_adds_up(&report);
        assert_eq!((report.successes, report.unexpected, report.success_rate()), (10, 10, Some(0.5)));
        let (min_ms, median_ms) = (report.latency.min() / 1_000_000, report.latency.value_at_quantile(0.5) / 1_000_000);
        assert!(min_ms >= least_ms && median_ms <= most_ms, "{fast} {slow}: {min_ms} {median_ms} ms");
        assert!(report.warnings.iter().any(|warning| warning.contains("503: 10")), "{:?}", report.warnings);
    }
}

#[test]
fn what_is_a_success_can_be_said() {
    let server = alternating("404", "301");
    let mut options = server.options(10);
    options.expected = "404".parse().expect("a status");
    let report = load(options);
    assert_adds_up(&report);
    assert_eq!((report.successes, report.unexpected), (5, 5));
    let report = load(server.options(10));
    assert_eq!((report.successes, report.unexpected), (5, 5), "3xx is expected, 4xx is not (RFC 9110 15.4, 15.5)");
}

#[test]
fn where_nothing_succeeds_there_is_no_time_of_a_success() {
    let refusing = Server::answering("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n");
    let cutting = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        }
    });
    let closing = Server::start(|peer| drop(peer.request()));
    for (server, unexpected, errors) in
        [(refusing, 5, vec![]), (cutting, 0, vec![(Outcome::ShortBody, 5)]), (closing, 0, vec![(Outcome::Closed, 5)])]
    {
        let report = load(server.options(5));
        assert_adds_up(&report);
        assert_eq!((report.successes, report.unexpected, &report.errors), (0, unexpected, &errors));
        assert_eq!((report.success_rate(), report.latency.is_empty()), (Some(0.0), true));
        assert!(report.warnings[0].starts_with("no request succeeded"), "{:?}", report.warnings);
    }
}

#[test]
fn streams_of_http2_are_told_apart_by_status_too() {
    // Static table of RFC 7541: 8 is :status 200, 13 is 404.
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(stream) = peer.asked() {
            let status: &[u8] = if stream % 4 == 1 { b"\x88" } else { b"\x8d" };
            if !peer.send(&frame(HEADERS, 5, stream, status)) {
                return;
            }
        }
    });
    let mut options = server.options(40);
    options.protocol = Protocol::Http2 { streams: 4 };
    let report = load(options);
    assert_adds_up(&report);
    assert_eq!((report.successes, report.unexpected, report.failures()), (20, 20, 0), "{:?}", report.errors);
}

#[test]
fn a_session_with_another_status_is_told_apart() {
    let server = alternating("200", "500");
    let mut options = server.options(4);
    let parsed = parse_sessions("/a\n/b\n\n/a\n", Some(&server.url()), &options.request, Think::None);
    let (requests, list) = parsed.expect("two sessions");
    options.requests.list = requests;
    options.requests.sessions = Some(Sessions { list, seed: 1 });
    // Requests 1 to 6: 200 500, 200, 500 200, 500: of the four sessions one has none but 200.
    let report = load(options);
    assert_adds_up(&report);
    let sessions = report.sessions.expect("sessions");
    assert_eq!((sessions.completed, sessions.unexpected, sessions.lifetime.len()), (4, 3, 1));
}

#[test]
fn a_rate_has_one_numerator_and_one_denominator() {
    // One at a time, each 20 ms: at most 50 a second, even if more comes after the end.
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nokok";
    for is_closed in [false, true] {
        let server = Server::start(|peer| {
            while peer.request().is_some() {
                std::thread::sleep(Duration::from_millis(20));
                if !peer.send(ANSWER.as_bytes()) {
                    return;
                }
            }
        });
        let mut options = server.options(1);
        options.stop = StopRule::Duration(Duration::from_millis(500));
        options.schedule = if is_closed { Schedule::Closed } else { Schedule::Fixed { rate_per_s: 100.0 } };
        let report = load(options);
        assert_adds_up(&report);
        let of_bytes = report.bytes_per_s / ANSWER.len() as f64;
        assert!((of_bytes / report.rate_per_s - 1.0).abs() < 0.05, "{of_bytes} {}", report.rate_per_s);
        assert_eq!(report.rate_per_s, report.successes_per_s);
        assert!(report.rate_per_s <= 52.0, "{}", report.rate_per_s);
        assert!(report.took >= report.duration);
        if !is_closed {
            assert_eq!((report.requests, report.requests_in_time < 30), (50, true));
            assert!(report.took.as_secs_f64() > 0.9, "{:?}", report.took);
        }
    }
}
