//! Calls of gRPC against a server of the test's own: what goes out, in which order, and how calls end.

use crate::server;

use server::http2::{DATA, HEADERS, frame};
use server::{Peer, Server, load};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::grpc::{CallKind, messages};
use weir_load::{Grpc, LoadReport, Options, Outcome, Statuses};

/// The head of an answer, without the status of gRPC.
const HEAD: &[u8] = b"\x88\x00\x0ccontent-type\x10application/grpc";

fn options(server: &Server, calls: u64, kind: CallKind, sent: &[&[u8]]) -> Options {
    let mut options = server.options(calls);
    let sent = sent.iter().map(|message| message.to_vec()).collect();
    options.call(Grpc::new("/t.Service/Method".to_owned(), kind, sent)).expect("no header of its own");
    options
}

fn message(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages::prefixed(&mut bytes, content);
    bytes
}

fn status(code: &str) -> Vec<u8> {
    [&b"\x00\x0bgrpc-status"[..], &[code.len() as u8], code.as_bytes()].concat()
}

/// A whole answer: its head, messages, and trailers.
fn answered(stream: u32, content: &[u8], trailers: &[u8]) -> Vec<u8> {
    [frame(HEADERS, 4, stream, HEAD), frame(DATA, 0, stream, content), frame(HEADERS, 5, stream, trailers)].concat()
}

/// Answers each call that is all there.
fn answering(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |peer| {
        peer.greet(&[]);
        while let Some(stream) = peer.asked() {
            if !peer.send(&answer(stream)) {
                return;
            }
        }
    })
}

fn unary(server: &Server, calls: u64) -> LoadReport {
    load(options(server, calls, CallKind::Unary, &[b"abc"]))
}

#[test]
fn a_call_goes_out_as_grpc_wants_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let server = Server::start(move |peer| {
        peer.greet(&[]);
        while let Some(frame) = peer.frame() {
            let ends = frame.ends();
            kept.lock().expect("no panic").push(frame.clone());
            if ends && !peer.send(&answered(frame.stream, &message(b"x"), &status("0"))) {
                return;
            }
        }
    });
    let mut options = options(&server, 1, CallKind::Unary, &[b"abc"]);
    options.request.headers.push(("x-token".to_owned(), "secret".to_owned()));
    let report = load(options);
    assert_eq!((report.successes, report.failures(), report.status.as_slice()), (1, 0, &[(0, 1)][..]));
    let frames = seen.lock().expect("no panic");
    let [head, content] = [HEADERS, DATA].map(|kind| frames.iter().find(|frame| frame.kind == kind).expect("a frame"));
    assert_eq!((content.payload.as_slice(), content.ends()), (message(b"abc").as_slice(), true));
    let text = String::from_utf8_lossy(&head.payload).into_owned();
    for field in ["/t.Service/Method", "te\u{8}trailers", "application/grpc", "10000000u", "identity", "x-token"] {
        assert!(text.contains(field), "{field}: {text:?}");
    }
    // 0x83 is `:method: POST`, 0x0f 0x0d `content-length`.
    assert!(head.payload.contains(&0x83) && !head.payload.windows(2).any(|two| two == b"\x0f\x0d"), "{text:?}");
}

#[test]
fn the_status_of_a_call_is_that_of_its_trailers() {
    let server = answering(|stream| match stream / 2 % 4 {
        0 | 1 => answered(stream, &message(b"hello"), &status("0")),
        // No head but the trailers (Trailers-Only), and trailers behind a head.
        2 => frame(HEADERS, 5, stream, &[HEAD, &status("5"), b"\x00\x0cgrpc-message\x09no%20item"].concat()),
        _ => answered(stream, b"", &status("14")),
    });
    let report = unary(&server, 40);
    assert_eq!(report.status, [(0, 20), (5, 10), (14, 10)]);
    assert_eq!((report.requests, report.successes, report.unexpected, report.failures()), (40, 20, 20, 0));
    assert_eq!((report.status_name(5), report.expected_names()), ("NOT_FOUND".to_owned(), "OK".to_owned()));
    assert!(report.warnings.iter().any(|words| words.contains("NOT_FOUND: 10")), "{:?}", report.warnings);
    let grpc = report.grpc.expect("calls");
    let details: Vec<_> =
        grpc.details.iter().map(|detail| (detail.status, detail.words.as_str(), detail.count)).collect();
    assert_eq!(details, [(14, "", 10), (5, "no item", 10)]);
    assert_eq!((grpc.sent, grpc.received, grpc.received_bytes), (40, 20, 100));
    assert!(report.slowest.is_some() && grpc.first_message.len() == 20);
    let mut options = options(&server, 8, CallKind::Unary, &[b""]);
    options.expected = Statuses::parse_grpc("NOT_FOUND").expect("a name");
    assert_eq!(load(options).successes, 2);
}

#[test]
fn what_is_no_answer_to_a_call_fails_with_the_reason() {
    type Answer = fn(u32) -> Vec<u8>;
    let cases: [(Answer, &str); 6] = [
        (|stream| frame(HEADERS, 5, stream, b"\x48\x03503"), "status 503"),
        (|stream| server::http2::answer(stream, b"<html>"), "status 200 and without a content-type"),
        (|stream| answered(stream, b"\x01\0\0\0\x01x", &status("0")), "compressed message"),
        (|stream| answered(stream, b"\0\0\0\0\x05x", &status("0")), "within a message"),
        (|stream| answered(stream, &message(b"x"), b"\x00\x01a\x01b"), "without grpc-status"),
        (
            |stream| [frame(HEADERS, 4, stream, HEAD), frame(DATA, 1, stream, &message(b"x"))].concat(),
            "without grpc-status",
        ),
    ];
    for (answer, words) in cases {
        let report = unary(&answering(answer), 3);
        assert_eq!((report.requests, report.errors.as_slice()), (0, &[(Outcome::Malformed, 3)][..]), "{words}");
        assert!(report.reasons[0].words.contains(words), "{words}: {:?}", report.reasons);
    }
}

#[test]
fn a_client_that_streams_sends_all_and_then_ends_its_side() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(content) = call(peer) {
            let (stream, content) = content;
            assert_eq!(content, [message(b"a"), message(b""), message(&[7; 40_000])].concat());
            if !peer.send(&answered(stream, &message(b"3"), &status("0"))) {
                return;
            }
        }
    });
    let report = load(options(&server, 4, CallKind::ClientStreaming, &[b"a", b"", &[7; 40_000]]));
    assert_eq!((report.successes, report.grpc.expect("calls").sent), (4, 12));
    // Without any message its side ends with the head.
    let server = answering(|stream| answered(stream, &message(b""), &status("0")));
    let report = load(options(&server, 2, CallKind::ClientStreaming, &[]));
    assert_eq!((report.successes, report.grpc.map(|grpc| (grpc.sent, grpc.received))), (2, Some((0, 2))));
}

/// The content of the next call.
fn call(peer: &mut Peer) -> Option<(u32, Vec<u8>)> {
    let mut content = Vec::new();
    loop {
        let frame = peer.frame()?;
        if frame.kind == DATA {
            content.extend_from_slice(&frame.payload);
        }
        if frame.ends() {
            return Some((frame.stream, content));
        }
        // Windows for what is longer than the first ones.
        let more = frame.payload.len().max(1) as u32;
        for stream in [0, frame.stream] {
            peer.send(&server::http2::frame(server::http2::WINDOW_UPDATE, 0, stream, &more.to_be_bytes()));
        }
    }
}

#[test]
fn of_a_bidirectional_call_each_message_waits_for_the_answer_to_the_one_before() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        let mut sent: u32 = 0;
        while let Some(frame) = peer.frame() {
            let stream = frame.stream;
            if frame.kind == HEADERS {
                sent = 0;
                peer.send(&server::http2::frame(HEADERS, 4, stream, HEAD));
            }
            if frame.kind != DATA {
                continue;
            }
            sent += 1;
            assert_eq!((frame.payload.as_slice(), frame.ends()), (message(&[sent as u8]).as_slice(), sent == 3));
            std::thread::sleep(Duration::from_millis(10));
            peer.send(&server::http2::frame(DATA, 0, stream, &message(b"yes")));
            if frame.ends() {
                peer.send(&server::http2::frame(HEADERS, 5, stream, &status("0")));
            }
        }
    });
    let report = load(options(&server, 5, CallKind::Bidirectional, &[&[1], &[2], &[3]]));
    assert_eq!((report.successes, report.failures()), (5, 0), "{:?}", report.reasons);
    let grpc = report.grpc.expect("calls");
    assert_eq!((grpc.sent, grpc.received, grpc.between.len(), grpc.messages_per_call.max()), (15, 15, 10, 3));
    assert!(grpc.between.min() >= 9_900_000 && grpc.first_message.min() >= 9_900_000, "{:?}", grpc.between.min());
    // A server that ends the call before all is said: what is left is not sent.
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(frame) = peer.frame() {
            if frame.kind == DATA {
                peer.send(&answered(frame.stream, &message(b""), &status("8")));
            }
        }
    });
    let report = load(options(&server, 3, CallKind::Bidirectional, &[&[1], &[2], &[3]]));
    assert_eq!((report.status.as_slice(), report.grpc.map(|grpc| grpc.sent)), (&[(8, 3)][..], Some(3)));
}

#[test]
fn messages_of_a_server_that_streams_are_timed() {
    let server = Server::start(|peer| {
        peer.greet(&[]);
        while let Some(stream) = peer.asked() {
            peer.send(&frame(HEADERS, 4, stream, HEAD));
            let all = [message(b"ab"), message(b"c"), message(b"d")].concat();
            for piece in [&all[..6], &all[6..13], &all[13..]] {
                std::thread::sleep(Duration::from_millis(10));
                peer.send(&frame(DATA, 0, stream, piece));
            }
            peer.send(&frame(HEADERS, 5, stream, &status("0")));
        }
    });
    let report = load(options(&server, 3, CallKind::ServerStreaming, &[b""]));
    let grpc = report.grpc.expect("calls");
    assert_eq!((report.successes, grpc.received, grpc.messages_per_call.min()), (3, 9, 3));
    assert!(grpc.first_message.min() >= 19_800_000, "{}", grpc.first_message.min());
    assert_eq!((grpc.between.len(), grpc.between.min()), (6, 0));
    assert!(grpc.between.max() >= 9_900_000 && report.latency.min() >= 29_000_000);
}

#[test]
fn a_server_without_http2_is_told_so() {
    let server = Server::start(|peer| {
        peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let refused = weir_load::run(options(&server, 1, CallKind::Unary, &[b""]), &weir_load::Control::default());
    let told = refused.expect_err("no HTTP/2").to_string();
    assert!(told.contains("over which gRPC goes") && told.contains("grpcs://"), "{told}");
}
