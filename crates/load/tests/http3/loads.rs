//! Requests and whole responses: what goes out, and what is counted of it.

use crate::quic_server::{Act, QuicServer, Setup, frame, ok};
use crate::server::load_with_events;
use crate::{assert_clean, load, options};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::{Check, ListedRequest, Order, Protocol, Request, Schedule, StopRule};

#[test]
fn every_request_is_answered_and_told() {
    let server = QuicServer::start(Setup::default(), |_| ok(b"hello"));
    for (connections, streams) in [(1, 1), (1, 50), (4, 10)] {
        let (report, connected, told) = load_with_events(options(&server, 500, connections, streams));
        assert_clean(&report, 500);
        assert_eq!((report.latency.len(), report.handshakes.full), (500, u64::from(connections)));
        assert_eq!((connected.len(), told.len()), (connections as usize, 500));
        for request in told {
            // A head of 6 bytes and a frame of 8: no byte is lost or counted twice.
            assert_eq!((request.http_version, request.encrypted, request.response_bytes), (3, true, 14), "{request:?}");
            let times =
                [request.intended_ns, request.started_ns, request.sent_ns, request.first_byte_ns, request.done_ns];
            assert!(times.is_sorted() && times[0] > 0, "{request:?}");
        }
        // A server grants streams anew when its responses have arrived, which may hold several requests up.
        let counts = report.http3.expect("counts of HTTP/3");
        assert!((streams > 1 || counts.streams_held == 0) && counts.windows_told == 0, "{counts:?}");
    }
    assert_eq!(server.seen.lock().expect("no panic").connections, 6);
}

#[test]
fn methods_headers_and_bodies_go_out_as_they_are() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let server = QuicServer::start(Setup::default(), move |request| {
        kept.lock().expect("no panic").push(request.bytes.clone());
        ok(b"")
    });
    let mut wanted = options(&server, 1, 1, 1);
    wanted.request = Request {
        method: "POST".to_owned(),
        headers: vec![("X-Own".to_owned(), "yes".to_owned())],
        body: b"some text".to_vec(),
        ..Request::default()
    };
    wanted.requests.cookies = vec![("a".to_owned(), "1".to_owned())];
    assert_clean(&load(wanted), 1);
    let text = String::from_utf8_lossy(&asked.lock().expect("no panic")[0]).into_owned();
    for part in ["/p?q", "%x-own\u{3}yes", "\u{3}a=1", "127.0.0.1:", "weir/", "\0\tsome text"] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    // POST, https and a length of 9 by the static table (RFC 9204 appendix A): 20, 23, and the name of 4.
    let bytes = &asked.lock().expect("no panic")[0];
    for part in [&b"\xd4\xd7"[..], b"\x54\x019"] {
        assert!(bytes.windows(part.len()).any(|piece| piece == part), "{part:02x?} in {bytes:02x?}");
    }
}

#[test]
fn a_large_body_waits_for_the_servers_window_and_that_is_told() {
    let setup = Setup { window: 20_000, ..Setup::default() };
    let server = QuicServer::start(setup, |request| ok(&vec![b'x'; request.bytes.len()]));
    let mut wanted = options(&server, 10, 1, 2);
    wanted.request = Request { method: "PUT".to_owned(), body: vec![b'b'; 300_000], ..Request::default() };
    let report = load(wanted);
    assert_clean(&report, 10);
    let counts = report.http3.expect("counts of HTTP/3");
    assert!(counts.bodies_held >= 10 && counts.bodies_held_ns > 0, "{counts:?}");
    assert!(report.bytes > 3_000_000 && counts.windows_told == 0, "{} {counts:?}", report.bytes);
}

#[test]
fn a_server_with_few_streams_is_named() {
    let server = QuicServer::start(Setup { streams: 2, ..Setup::default() }, |_| ok(b""));
    let report = load(options(&server, 200, 1, 10));
    assert_clean(&report, 200);
    let counts = report.http3.expect("counts of HTTP/3");
    assert!(counts.streams_held > 0 && counts.streams_held_ns > 0, "{counts:?}");
    assert!(report.warnings.iter().any(|warning| warning.contains("allows 2 streams")), "{:?}", report.warnings);
}

#[test]
fn a_connection_for_each_request() {
    let server = QuicServer::start(Setup::default(), |_| ok(b""));
    let mut wanted = options(&server, 20, 3, 1);
    wanted.keep_alive = false;
    let report = load(wanted);
    assert_clean(&report, 20);
    let seen = server.seen.lock().expect("no panic");
    assert_eq!((seen.connections, report.handshakes.full, report.connect.len()), (20, 20, 20));
    // Each was told that nothing is wrong.
    assert!(seen.ends.len() >= 15 && seen.ends.iter().all(|words| words.contains("256")), "{:?}", seen.ends);
}

#[test]
fn checks_traces_lists_and_cookies() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let server = QuicServer::start(Setup::default(), move |request| {
        kept.lock().expect("no panic").push(request.bytes.clone());
        // Status 200, a cookie, and a type in full.
        let fields = b"\0\0\xd9\x5e\x05sid=7\x24kind\x05plain";
        vec![Act::Send([frame(1, fields), frame(0, b"hello "), frame(0, b"world")].concat()), Act::Finish]
    });
    let mut wanted = options(&server, 40, 1, 4);
    wanted.checks =
        ["body~hello world", "header kind=plain", "size=11B"].map(|text| text.parse().expect("a check")).to_vec();
    wanted.requests.traces = Some(7);
    wanted.requests.cookie_jar = true;
    let list = ["/one", "/two"].map(|path| ListedRequest {
        url: wanted.url.with_target(path),
        request: Request::default(),
        weight: 1,
    });
    (wanted.requests.list, wanted.requests.order) = (list.to_vec(), Order::InTurn);
    let report = load(wanted);
    assert_clean(&report, 40);
    assert_eq!((report.unfit, report.successes), (0, 40));
    let traces = report.slow_traces.expect("they were asked for");
    assert_eq!(traces.len(), 10);
    let asked: Vec<_> =
        asked.lock().expect("no panic").iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
    assert!(traces.iter().all(|trace| asked.iter().any(|request| request.contains(&trace.trace_id))));
    assert_eq!(asked.iter().filter(|request| request.contains("/one")).count(), 20);
    assert!(asked.iter().filter(|request| request.contains("sid=7")).count() >= 30, "the jar gives cookies back");
    let mut failing = options(&server, 5, 1, 1);
    failing.checks = vec!["body~nothing".parse::<Check>().expect("a check")];
    assert_eq!(load(failing).unfit, 5);
}

#[test]
fn arrivals_are_sent_at_their_rate() {
    let server = QuicServer::start(Setup::default(), |_| ok(b"hello"));
    let mut wanted = options(&server, 1, 2, 10);
    wanted.schedule = Schedule::Fixed { rate_per_s: 200.0 };
    wanted.stop = StopRule::Duration(Duration::from_secs(1));
    let report = load(wanted);
    assert_clean(&report, 200);
    // Of a response of HTTP/3 it is known in nanoseconds when it came.
    let slowest = report.slowest.expect("some succeeded");
    assert!(slowest.unread_known > 0 && slowest.tick_ns == 1000, "{slowest:?}");
}

#[test]
fn connections_move_to_other_ports() {
    let server = QuicServer::start(Setup::default(), |_| ok(b"hello"));
    let mut wanted = options(&server, 1, 2, 1);
    let migrate_every = Some(Duration::from_millis(100));
    wanted.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every };
    wanted.schedule = Schedule::Fixed { rate_per_s: 100.0 };
    wanted.stop = StopRule::Duration(Duration::from_secs(1));
    let report = load(wanted);
    assert_clean(&report, 100);
    let (counts, seen) = (report.http3.expect("counts of HTTP/3"), server.seen.lock().expect("no panic"));
    assert!(counts.moves >= 3 && counts.moves_lost == 0, "{counts:?}");
    assert!(seen.connections <= 2 && seen.ports.len() > counts.moves as usize, "{seen:?}");
}

#[test]
fn threads_share_the_work() {
    let server = QuicServer::start(Setup::default(), |_| ok(b"hello"));
    let mut wanted = options(&server, 301, 3, 5);
    wanted.threads = 2;
    let report = load(wanted);
    assert_clean(&report, 301);
    assert_eq!(report.handshakes.full, 3);
}
