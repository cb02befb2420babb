//! What servers do wrong, or refuse: it is counted by its kind, and told in words.

use crate::quic_server::{Act, QuicServer, Setup, frame, ok};
use crate::{assert_clean, load, options, reasons};
use std::time::Duration;
use weir_load::{Outcome, Request};

fn errors(report: &weir_load::LoadReport, outcome: Outcome) -> u64 {
    report.errors.iter().find(|(kind, _)| *kind == outcome).map_or(0, |(_, count)| *count)
}

#[test]
fn a_stream_that_is_given_up_is_told_by_its_code() {
    let server = QuicServer::start(Setup::default(), |asked| match asked.stream {
        8 => vec![Act::Reset(0x102)],
        _ => ok(b""),
    });
    let report = load(options(&server, 10, 1, 1));
    assert_eq!((report.requests, errors(&report, Outcome::StreamReset)), (9, 1), "{:?}", report.errors);
    assert!(reasons(&report).contains("gave the stream up: H3_INTERNAL_ERROR (0x102)"), "{}", reasons(&report));
}

#[test]
fn a_request_that_was_not_looked_at_is_sent_again() {
    let server = QuicServer::start(Setup::default(), |asked| match asked.stream {
        8 => vec![Act::Reset(0x10b)],
        _ => ok(b""),
    });
    let mut wanted = options(&server, 10, 1, 1);
    wanted.request.method = "POST".to_owned();
    let report = load(wanted);
    assert_clean(&report, 10);
    assert_eq!(report.resent, 1);
}

#[test]
fn a_farewell_moves_requests_to_another_connection() {
    // Of each connection the fifth request is not looked at, nor what follows.
    let server = QuicServer::start(Setup::default(), |asked| match asked.stream {
        16 => vec![Act::Control(frame(7, &[16]))],
        17.. => Vec::new(),
        _ => ok(b""),
    });
    let report = load(options(&server, 30, 1, 3));
    assert_clean(&report, 30);
    assert!(report.resent > 0 && report.handshakes.full >= 7, "{} {:?}", report.resent, report.handshakes);
}

#[test]
fn a_connection_that_is_ended_is_told_by_its_code() {
    let server = QuicServer::start(Setup::default(), |asked| match (asked.connection, asked.stream) {
        (0, 0) => vec![Act::Close(0x107)],
        _ => ok(b""),
    });
    let report = load(options(&server, 10, 1, 1));
    assert_eq!((report.requests, errors(&report, Outcome::Closed)), (9, 1), "{:?}", report.errors);
    assert!(reasons(&report).contains("H3_EXCESSIVE_LOAD (0x107)"), "{}", reasons(&report));
    assert_eq!(report.goaways.len(), 1, "{:?}", report.goaways);
    assert!(report.goaways[0].words.contains("H3_EXCESSIVE_LOAD"));
}

#[test]
fn a_response_that_does_not_come_is_given_up_in_time() {
    let server = QuicServer::start(Setup::default(), |asked| match asked.stream {
        4 => Vec::new(),
        8 => vec![Act::Send(frame(1, b"\0\0\xd9"))],
        _ => ok(b""),
    });
    let mut wanted = options(&server, 5, 1, 5);
    wanted.timeout = Duration::from_millis(400);
    let report = load(wanted);
    assert_eq!((report.requests, errors(&report, Outcome::TimedOut)), (3, 2), "{:?}", report.errors);
}

#[test]
fn a_body_that_is_not_wanted_is_not_sent() {
    let setup = Setup { at_once: true, window: 5000, ..Setup::default() };
    let server = QuicServer::start(setup, |_| [vec![Act::Stop(0x100)], ok(b"enough")].concat());
    let mut wanted = options(&server, 6, 1, 2);
    wanted.request = Request { method: "POST".to_owned(), body: vec![b'b'; 1_000_000], ..Request::default() };
    assert_clean(&load(wanted), 6);
}

#[test]
fn what_is_not_http3_is_malformed() {
    let head = || frame(1, b"\0\0\xd9");
    let finished = |bytes: Vec<u8>| vec![Act::Send(bytes), Act::Finish];
    let cases: Vec<(Vec<Act>, &str)> = vec![
        (finished(frame(0, b"content")), "content before a head"),
        (finished(Vec::new()), "ends before its head"),
        (finished([head(), frame(0, b"abc")[..4].to_vec()].concat()), "within a frame"),
        (finished(frame(1, b"\0\0\x80")), "a table that does not exist"),
        (finished([frame(1, b"\0\0\xd9\x54\x015"), frame(0, b"abc")].concat()), "content-length"),
        (finished([head(), head()].concat()), "two heads"),
        (finished(frame(1, b"\0\0\xff\x00")), "ends before its head"),
        (vec![Act::Send(frame(5, b"\0"))], "a push"),
        (vec![Act::Send(frame(4, b""))], "may not stand there"),
        (vec![Act::Own(vec![2, 0x3f, 0xe1, 0x1f])], "fills a table"),
        (vec![Act::Own(vec![0])], "a second stream of a kind"),
        (vec![Act::Control(frame(0, b""))], "its control stream"),
    ];
    for (acts, words) in cases {
        let server = QuicServer::start(Setup::default(), move |_| acts.clone());
        let report = load(options(&server, 2, 1, 1));
        assert_eq!((report.requests, errors(&report, Outcome::Malformed)), (0, 2), "{words}: {}", reasons(&report));
        assert!(reasons(&report).contains(words), "{words}: {}", reasons(&report));
    }
}

#[test]
fn what_may_be_is_passed_over() {
    // Frames and streams of types that are not known, an interim response, trailers, an encoder that sets no capacity.
    let server = QuicServer::start(Setup::default(), |asked| {
        let bytes = [
            frame(0x21, b"grease"),
            frame(1, b"\0\0\xff\x00"),
            frame(1, b"\0\0\xd9"),
            frame(0, b"abc"),
            frame(1, b"\0\0\x21x\x01y"),
        ];
        let mut acts = vec![Act::Send(bytes.concat()), Act::Finish];
        if asked.stream == 0 {
            acts.extend([
                Act::Own(vec![2, 0x20]),
                Act::Own(vec![3]),
                Act::Own(vec![0x21, 9]),
                Act::Control(frame(0x21, b"x")),
            ]);
        }
        acts
    });
    assert_clean(&load(options(&server, 20, 1, 2)), 20);
}
