//! HTTP/2 against servers that are strict, slow or wrong.

use crate::server;

use server::http2::{DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, answer, frame, settings};
use server::{Peer, Server, load, load_with_events};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, LoadReport, Options, Outcome, Protocol, Request, Schedule, StopRule};

/// Settings by their numbers: streams at a time, the first window, the longest frame.
const STREAMS: u16 = 3;
const WINDOW: u16 = 4;
const FRAME: u16 = 5;

fn options(server: &Server, requests: u64, streams: u32) -> Options {
    let mut options = server.options(requests);
    options.protocol = Protocol::Http2 { streams };
    options
}

fn assert_clean(report: &LoadReport, requests: u64) {
    assert_eq!((report.requests, report.failures(), report.abandoned), (requests, 0, 0), "{:?}", report.errors);
}

/// Answers every request at once.
fn answers(peer: &mut Peer) {
    while let Some(stream) = peer.asked() {
        if !peer.send(&answer(stream, b"hello")) {
            return;
        }
    }
}

#[test]
fn responses_may_come_in_any_order_and_any_pieces() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        let mut streams = Vec::new();
        while let Some(stream) = peer.asked() {
            streams.push(stream);
            if streams.len() < 5 {
                continue;
            }
            // The last first; with an interim response, padding, an unknown frame, and trailers.
            for stream in streams.drain(..).rev() {
                let mut bytes = frame(HEADERS, 4, stream, b"\x08\x03103");
                bytes.extend(frame(HEADERS, 0xc, stream, &[&[2][..], b"\x88\x0f\x0d\x0210", &[0; 2]].concat()));
                bytes.extend(frame(DATA, 8, stream, b"\x03hello\0\0\0"));
                bytes.extend(frame(0xfa, 0, stream, b"anything"));
                bytes.extend(frame(DATA, 0, stream, b"hello"));
                bytes.extend(frame(HEADERS, 5, stream, b"\x00\x01t\x01v"));
                for piece in bytes.chunks(7) {
                    if !peer.send(piece) {
                        return;
                    }
                }
            }
        }
    });
    let (report, connections, requests) = load_with_events(options(&server, 500, 5));
    assert_clean(&report, 500);
    assert_eq!((report.status.as_slice(), connections.len()), (&[(200, 500)][..], 1));
    for request in &requests {
        assert_eq!((request.http_version, request.response_bytes), (2, 14 + 18 + 18 + 14 + 14), "{request:?}");
        assert!(request.intended_ns <= request.started_ns && request.started_ns <= request.sent_ns, "{request:?}");
        assert!(request.sent_ns < request.first_byte_ns && request.first_byte_ns <= request.done_ns, "{request:?}");
    }
    // The requests lie behind each other in the stream to the server.
    let mut offsets: Vec<(u64, u32)> = requests.iter().map(|r| (r.request_offset, r.request_bytes)).collect();
    offsets.sort_unstable();
    assert!(offsets.windows(2).all(|pair| pair[0].0 + u64::from(pair[0].1) <= pair[1].0), "{offsets:?}");
}

#[test]
fn no_more_streams_than_allowed() {
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    let server = Server::start(move |peer| {
        peer.greet(&[(STREAMS, 1)]);
        let (mut settled, mut highest) = (false, 0u32);
        while let Some(frame) = peer.frame() {
            if !frame.ends() {
                continue;
            }
            settled |= frame.stream > 199;
            highest = highest.max(frame.stream);
            // As a strict server does: only the first of those that were sent before the settings arrived is worked on.
            let bytes = match frame.stream {
                1 => answer(1, b"hello"),
                stream if !settled && stream < 200 && peer.number == 0 && highest < 200 && stream <= 39 => {
                    self::frame(RST_STREAM, 0, stream, &7u32.to_be_bytes())
                }
                stream => {
                    // A second one at the same time would be there already.
                    std::thread::sleep(Duration::from_millis(1));
                    let mut waiting = [0; 1];
                    peer.stream.set_nonblocking(true).expect("a socket");
                    let more = matches!(peer.stream.peek(&mut waiting), Ok(1));
                    peer.stream.set_nonblocking(false).expect("a socket");
                    seen.fetch_max(1 + u64::from(more), Ordering::Relaxed);
                    answer(stream, b"hello")
                }
            };
            if !peer.send(&bytes) {
                return;
            }
        }
    });
    let report = load(options(&server, 60, 20));
    assert_clean(&report, 60);
    assert_eq!((report.resent, report.connect.len()), (19, 1), "those that were refused are sent again");
    assert_eq!(report.reconnects, 0, "over the same connection");
    assert_eq!(most.load(Ordering::Relaxed), 1);
    assert!(report.warnings.iter().any(|warning| warning.contains("allows 1 streams")), "{:?}", report.warnings);
}

#[test]
fn bodies_keep_to_the_windows() {
    let server = Server::start(|peer| {
        peer.greet(&[(WINDOW, 1000), (FRAME, 20_000)]);
        // What the client may still send in all, and what of each stream came and was allowed.
        let (mut whole, mut streams) = (65_535i64, std::collections::HashMap::new());
        while let Some(frame) = peer.frame() {
            if frame.kind == HEADERS {
                streams.insert(frame.stream, (0i64, 1000i64));
            }
            if frame.kind != DATA {
                continue;
            }
            let length = frame.payload.len() as i64;
            whole -= length;
            let (taken, allowed) = streams.get_mut(&frame.stream).expect("a stream that was begun");
            *taken += length;
            assert!(whole >= 0 && length <= 16_384 && frame.payload.iter().all(|byte| *byte == b'p'));
            // The first ones began before our settings were there, with a window of 65,535.
            assert!(taken <= allowed || frame.stream <= 7, "{taken} of {allowed}");
            let mut bytes = Vec::new();
            if frame.flags & 1 != 0 {
                assert_eq!(*taken, 200_000);
                bytes.extend(answer(frame.stream, b"thanks"));
            } else if taken >= allowed {
                let more = *taken - *allowed + 30_000;
                *allowed += more;
                bytes.extend(self::frame(WINDOW_UPDATE, 0, frame.stream, &(more as u32).to_be_bytes()));
            }
            if whole < 30_000 {
                whole += 100_000;
                bytes.extend(self::frame(WINDOW_UPDATE, 0, 0, &100_000u32.to_be_bytes()));
            }
            if !peer.send(&bytes) {
                return;
            }
        }
    });
    let mut options = options(&server, 40, 4);
    options.request = Request { method: "POST".into(), body: vec![b'p'; 200_000], ..Request::default() };
    let (report, _, requests) = load_with_events(options);
    assert_clean(&report, 40);
    assert!(requests.iter().all(|request| request.request_bytes > 200_000), "{:?}", requests[0]);
}

#[test]
fn an_early_answer_ends_the_request() {
    let server = Server::start(|peer| {
        peer.greet(&[(WINDOW, 10)]);
        let (mut cancelled, mut asked) = (0, 0);
        while let Some(frame) = peer.frame() {
            match frame.kind {
                HEADERS => {
                    asked += 1;
                    peer.send(&self::frame(HEADERS, 5, frame.stream, b"\x08\x03413"));
                }
                RST_STREAM => cancelled += 1,
                _ => {}
            }
        }
        assert!(cancelled + 1 >= asked, "{cancelled} of {asked}");
    });
    let mut options = options(&server, 50, 5);
    options.request = Request { method: "POST".into(), body: vec![b'p'; 100_000], ..Request::default() };
    let report = load(options);
    assert_clean(&report, 50);
    assert_eq!(report.status, [(413, 50)]);
}

#[test]
fn streams_that_a_farewell_excludes_go_elsewhere() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        let mut left = 25;
        while let Some(stream) = peer.asked() {
            if left == 0 {
                continue;
            }
            left -= 1;
            let mut bytes = answer(stream, b"hello");
            if left == 0 {
                // First that it is about to go, then which was the last.
                bytes = [&farewell(0x7fff_ffff)[..], &bytes, &farewell(stream)].concat();
            }
            if !peer.send(&bytes) {
                return;
            }
        }
    });
    let mut options = options(&server, 500, 10);
    // Even what must not be asked twice: the server says that it did not look at it.
    options.request = Request { method: "POST".into(), ..Request::default() };
    let (report, connections, requests) = load_with_events(options);
    assert_clean(&report, 500);
    assert!(connections.len() >= 20, "{}", connections.len());
    let retried = requests.iter().filter(|request| request.retried).count() as u64;
    assert!(retried > 0 && retried <= report.resent, "{retried} of {}", report.resent);
    assert!((1..connections.len() as u64).contains(&report.reconnects), "{}", report.reconnects);
}

fn farewell(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), 0u32.to_be_bytes()].concat())
}

#[test]
fn a_server_that_only_says_farewell_is_not_asked_for_ever() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        peer.send(&farewell(0));
        while peer.frame().is_some() {}
    });
    let report = load(options(&server, 20, 10));
    assert_eq!((report.requests, report.errors), (0, vec![(Outcome::Closed, 20)]));
    assert!(server.connections() < 200, "{}", server.connections());
}

#[test]
fn resets_are_an_outcome_of_their_own() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(stream) = peer.asked() {
            let bytes = match stream % 10 {
                1 => frame(RST_STREAM, 0, stream, &2u32.to_be_bytes()),
                // In the middle of a response.
                3 => [frame(HEADERS, 4, stream, &[0x88]), frame(RST_STREAM, 0, stream, &0u32.to_be_bytes())].concat(),
                _ => answer(stream, b"hello"),
            };
            if !peer.send(&bytes) {
                return;
            }
        }
    });
    let (report, connections, requests) = load_with_events(options(&server, 1000, 10));
    assert_eq!((report.requests, report.errors, connections.len()), (600, vec![(Outcome::StreamReset, 400)], 1));
    assert_eq!(requests.iter().filter(|request| request.outcome == Outcome::StreamReset).count(), 400);
    // RFC 9113 7: codes 0 and 2.
    let told: Vec<_> = report.reasons.iter().map(|reason| (reason.words.as_str(), reason.count)).collect();
    let words = |code| format!("the server gave the stream up: {code}");
    assert_eq!(told, [(words("INTERNAL_ERROR (2)").as_str(), 200), (words("NO_ERROR (0)").as_str(), 200)]);
}

#[test]
fn a_farewell_with_a_code_is_told() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        let Some(stream) = peer.asked() else { return };
        // RFC 9113 7: 11 is ENHANCE_YOUR_CALM. Every second connection ends within its response.
        let code = 11u32.to_be_bytes();
        let goodbye = frame(GOAWAY, 0, 0, &[stream.to_be_bytes(), code].concat());
        let begun = frame(HEADERS, 4, stream, &[0x88]);
        peer.send(&[goodbye, if peer.number % 2 == 0 { answer(stream, b"hello") } else { begun }].concat());
    });
    let report = load(options(&server, 4, 1));
    // A connection that is closed with something unread in it is reset (RFC 1122 4.2.2.13), which may come first.
    let cut = report.errors.iter().filter(|(outcome, _)| [Outcome::ShortBody, Outcome::Reset].contains(outcome));
    assert_eq!((report.requests, cut.map(|(_, count)| count).sum::<u64>()), (2, 2), "{:?}", report.errors);
    let remarks = |remarks: &[weir_load::Remark]| -> Vec<_> {
        remarks.iter().map(|remark| (remark.words.clone(), remark.count)).collect()
    };
    assert_eq!(remarks(&report.goaways), [("ENHANCE_YOUR_CALM (11)".to_owned(), 4)]);
    assert!(report.reasons[0].words.contains("GOAWAY with ENHANCE_YOUR_CALM (11)"), "{:?}", report.reasons);
}

#[test]
fn refused_streams_are_not_repeated_for_ever() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(stream) = peer.asked() {
            if !peer.send(&frame(RST_STREAM, 0, stream, &7u32.to_be_bytes())) {
                return;
            }
        }
    });
    let report = load(options(&server, 10, 5));
    assert_eq!((report.requests, report.errors), (0, vec![(Outcome::StreamReset, 10)]));
    assert_eq!((report.resent, report.reconnects), (80, 0));
}

#[test]
fn nonsense_is_malformed_and_never_a_hang() {
    let block = |status: &[u8]| [&b"\x08\x03"[..], status].concat();
    let of_stream: Vec<Vec<u8>> = vec![
        frame(DATA, 1, 1, b"content before any status"),
        frame(HEADERS, 5, 1, &block(b"101")),
        frame(HEADERS, 5, 1, &block(b"100")),
        frame(HEADERS, 5, 1, b"\x00\x01t\x01v"),
        [frame(HEADERS, 4, 1, b"\x88\x0f\x0d\x0210"), frame(DATA, 1, 1, b"short")].concat(),
        frame(WINDOW_UPDATE, 0, 1, &0x7fff_ffffu32.to_be_bytes()),
    ];
    let of_connection: Vec<Vec<u8>> = vec![
        frame(HEADERS, 5, 1, &block(b"2x0")),
        frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff"),
        frame(HEADERS, 5, 7, &[0x88]),
        frame(HEADERS, 5, 2, &[0x88]),
        frame(DATA, 0, 0, b"x"),
        frame(PING, 0, 0, b"short"),
        frame(SETTINGS, 0, 1, &[]),
        frame(SETTINGS, 0, 0, &[0; 5]),
        settings(&[(WINDOW, 0x8000_0000)]),
        settings(&[(FRAME, 1)]),
        frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes()),
        frame(5, 4, 1, &[0, 0, 0, 2, 0x82]),
        frame(9, 4, 1, &[0x88]),
        [frame(HEADERS, 1, 1, &[]), frame(DATA, 1, 1, b"x")].concat(),
        [frame(HEADERS, 1, 1, &[]), frame(9, 0, 1, &[]).repeat(100)].concat(),
        frame(HEADERS, 0xd, 1, &[200, 0x88]),
        vec![0xff; 100],
        // More than what the kernels of both sides hold.
        frame(PING, 0, 0, &[0; 8]).repeat(2_000_000),
    ];
    for (whole, cases) in [(false, of_stream), (true, of_connection)] {
        for wrong in cases {
            let shown = wrong[..wrong.len().min(40)].to_vec();
            let server = Server::start(move |peer| {
                peer.greet(&[]);
                if peer.number == 0 && peer.asked() == Some(1) {
                    peer.send(&wrong);
                    if !whole {
                        // The connection goes on.
                        return answers(peer);
                    }
                }
                while peer.number == 0 && peer.frame().is_some() {}
                answers(peer);
            });
            let begin = Instant::now();
            let report = load(options(&server, 5, 1));
            assert_eq!((report.requests, &report.errors[..]), (4, &[(Outcome::Malformed, 1)][..]), "{shown:02x?}");
            assert_eq!(report.connect.len(), 1 + u64::from(whole), "{shown:02x?}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{shown:02x?}");
        }
    }
}

#[test]
fn a_server_of_http_1_is_named() {
    let server = Server::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let error = weir_load::run(options(&server, 5, 1), &Control::default()).expect_err("no HTTP/2 there");
    assert!(matches!(error, LoadError::NotHttp2 { .. }), "{error}");
    assert!(error.to_string().contains("without --http2"), "{error}");
}

#[test]
fn a_lost_connection_is_replaced() {
    // Ten requests each, then the end or a reset, with others under way.
    for reset in [false, true] {
        let server = Server::start(move |peer| {
            peer.greet(&[]);
            for _ in 0..10 {
                let Some(stream) = peer.asked() else { return };
                peer.send(&answer(stream, b"hello"));
            }
            while peer.asked().is_some_and(|stream| stream < 27) {}
            if reset {
                peer.reset();
            }
        });
        let report = load(options(&server, 100, 4));
        assert_clean(&report, 100);
        assert_eq!(report.connect.len(), 10, "reset: {reset}");
        // Each but the last was lost once, with what was under way.
        assert_eq!(report.reconnects, 9);
        assert!(report.resent >= 9, "{}", report.resent);
        // What changes something when it is asked twice is not asked twice.
        let mut options = options(&server, 100, 4);
        options.request = Request { method: "POST".into(), ..Request::default() };
        let report = load(options);
        assert!(report.failures() > 0 && report.requests + report.failures() == 100, "{:?}", report.errors);
    }
}

#[test]
fn slow_requests_time_out_and_silent_connections_are_given_up() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&cancelled);
    let server = Server::start(move |peer| {
        peer.greet(&[]);
        while let Some(frame) = peer.frame() {
            match (frame.kind, frame.stream % 4) {
                (HEADERS, 1) => {
                    peer.send(&answer(frame.stream, b"hello"));
                }
                (RST_STREAM, _) => seen.lock().expect("whole").push(frame.payload),
                _ => {}
            }
        }
    });
    let mut slow = options(&server, 1, 2);
    slow.stop = StopRule::Duration(Duration::from_millis(1000));
    slow.schedule = Schedule::Fixed { rate_per_s: 20.0 };
    slow.protocol = Protocol::Http2 { streams: 20 };
    slow.timeout = Duration::from_millis(300);
    let report = load(slow);
    assert_eq!((report.requests, report.errors, report.connect.len()), (10, vec![(Outcome::TimedOut, 10)], 1));
    std::thread::sleep(Duration::from_millis(50));
    let cancelled = cancelled.lock().expect("whole");
    // The last may have been given up with the connection, on which nothing came any more.
    assert!(cancelled.len() >= 9 && cancelled.iter().all(|code| *code == 8u32.to_be_bytes()), "{cancelled:?}");

    let silent = Server::start(|peer| {
        peer.greet(&[]);
        while peer.frame().is_some() {}
    });
    let mut options = options(&silent, 9, 3);
    options.timeout = Duration::from_millis(200);
    let report = load(options);
    assert_eq!((report.requests, report.errors), (0, vec![(Outcome::TimedOut, 9)]));
    // Where its greeting came some time after the first three requests had gone, it has said something within their
    // time-out, and is given up with the next three.
    assert!((2..=3).contains(&report.connect.len()), "{}", report.connect.len());
}

/// A server that answers nothing for a while: arrivals go on, and their latencies count from their own times.
#[test]
fn a_stall_is_seen_by_everyone_who_arrives_in_it() {
    // Few enough that a server on a slow machine has soon answered what waited.
    const RATE_PER_S: f64 = 250.0;
    let (cycle, stall) = (Duration::from_secs(1), Duration::from_millis(200));
    let server = Server::start(move |peer| {
        peer.greet(&[]);
        let begin = Instant::now();
        while let Some(stream) = peer.asked() {
            let within = Duration::from_nanos((begin.elapsed().as_nanos() % cycle.as_nanos()) as u64);
            if within < stall {
                std::thread::sleep(stall - within);
            }
            if !peer.send(&answer(stream, b"hello")) {
                return;
            }
        }
    });
    // A busy machine delays, too, but nothing makes a wrong generator right.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let mut options = options(&server, 1, 1000);
        options.schedule = Schedule::Fixed { rate_per_s: RATE_PER_S };
        options.stop = StopRule::Duration(Duration::from_secs(2));
        let report = load(options);
        assert_clean(&report, 500);
        assert_eq!(report.connect.len(), 1);
        // A fifth of all arrive within the stall and wait for the rest of it: the p-quantile, above 0.8, is that of a wait
        // that is spread evenly from 0 to 200 ms.
        let figures: Vec<f64> = [0.9, 0.95, 0.99].map(|p| report.latency.value_at_quantile(p) as f64 / 1e6).to_vec();
        let right =
            [100.0, 150.0, 190.0].iter().zip(&figures).all(|(truth, found)| (found - truth).abs() < 0.05 * truth);
        if right && report.latency.value_at_quantile(0.5) < 5_000_000 {
            return;
        }
        seen.push(figures);
    }
    panic!("{seen:?}");
}

#[test]
fn what_would_arrive_first_after_the_end_does_not_come() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        answers(peer);
    });
    let mut late = options(&server, 1, 5);
    (late.threads, late.connections) = (2, 2);
    late.stop = StopRule::Duration(Duration::from_millis(200));
    // The second loop's only arrival is the second one.
    late.schedule = Schedule::Recorded(Arc::from([0, 400_000_000]));
    assert_clean(&load(late), 1);
}
