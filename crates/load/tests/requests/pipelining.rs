//! Requests written in one go, and where exactly each of them and its response lie in the streams.

use crate::server;

use server::{Server, load, load_with_events};
use std::sync::{Arc, Mutex};
use weir_load::Request;

/// What the server saw of a request: (request offset, request bytes, response offset, response bytes).
type Seen = (u64, u64, u64, u64);

#[test]
fn offsets_are_those_that_the_server_sees() {
    for depth in 1..=8 {
        let seen = Arc::new(Mutex::new(Vec::<Seen>::new()));
        let log = Arc::clone(&seen);
        let server = Server::start(move |peer| {
            let mut number = 0;
            loop {
                let (at, to) = (peer.taken, peer.given);
                if peer.request().is_none() {
                    break;
                }
                // Every third answer is chunked, and their lengths differ.
                number += 1;
                let body = "b".repeat(number % 7);
                let answer = match number % 3 {
                    0 => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n".to_owned(),
                    _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
                };
                // Noted before it is sent: the test looks as soon as the last answer has come.
                log.lock().expect("no panic").push((at, peer.taken - at, to, answer.len() as u64));
                peer.send(answer.as_bytes());
            }
        });
        let mut options = server.options(100);
        options.pipeline = depth;
        let (report, connections, requests) = load_with_events(options);
        assert_eq!((report.requests, report.failures(), connections.len()), (100, 0, 1), "depth {depth}");
        let told: Vec<Seen> = requests
            .iter()
            .map(|r| (r.request_offset, u64::from(r.request_bytes), r.response_offset, r.response_bytes))
            .collect();
        assert_eq!(told, *seen.lock().expect("no panic"), "depth {depth}");
        assert!(requests.chunks(depth as usize).all(|batch| batch.iter().all(|r| r.sent_ns == batch[0].sent_ns)));
    }
}

#[test]
fn what_a_closing_server_left_unanswered_is_asked_again() {
    let server = Server::start(|peer| {
        // Answers three of each pipeline, then says that it closes.
        for last in [false, false, true] {
            if peer.request().is_none() {
                return;
            }
            let connection = if last { "close" } else { "keep-alive" };
            peer.send(format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    let mut options = server.options(80);
    options.pipeline = 8;
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (80, 0), "{:?}", report.errors);
    // Each connection answers three: what is left of a batch then goes to the next one.
    let (mut repeated, mut closed, mut room) = (0, 0, 3);
    for _ in 0..10 {
        let mut left = 8;
        while left > room {
            left -= room;
            repeated += left;
            closed += 1;
            room = 3;
        }
        room -= left;
        // The third answer says that the connection closes, so it is not used again.
        room = if room == 0 { 3 } else { room };
    }
    assert_eq!((report.resent, report.reconnects), (repeated, closed));

    let mut options = server.options(8);
    options.pipeline = 8;
    options.request = Request { method: "POST".into(), ..Request::default() };
    let report = load(options);
    assert_eq!((report.requests, report.failures(), report.resent), (3, 5, 0), "a POST is not repeated");
}

#[test]
fn the_same_through_epoll() {
    server::again_through_epoll(module_path!(), "the_same_through_epoll");
}
