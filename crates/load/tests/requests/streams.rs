//! Answers that come bit by bit, from real servers over HTTP/1.1 and HTTP/2: when their events came, and how they end.

use crate::server;

use server::http2::{DATA, HEADERS, RST_STREAM, frame};
use server::{Peer, Server, load};
use std::time::Duration;
use weir_load::{Form, LoadReport, Options, Protocol, StreamReport, Streaming};
use weir_wire::client::Outcome;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const PAUSE: Duration = Duration::from_millis(40);

fn streaming(server: &Server, requests: u64, streaming: Streaming) -> Options {
    let mut options = server.options(requests);
    options.io = weir_load::Io::Auto;
    options.streaming = Some(streaming);
    options
}

fn streams(report: &LoadReport) -> &StreamReport {
    report.streams.as_ref().expect("streams were looked at")
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Sends so many events with pauses between, and then the end.
fn tell(peer: &mut Peer, events: usize) -> bool {
    peer.send(HEAD)
        && (0..events).all(|event| {
            std::thread::sleep(if event == 0 { 2 * PAUSE } else { PAUSE });
            peer.send(&chunk(&format!("event: token\r\ndata: {event}\r\n\r\n")))
        })
        && peer.send(&[chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat())
}

/// Whether most of the times are at least this long, and none is shorter by more than a fifth: machines may be late.
fn assert_about(times: &weir_load::Histogram, count: u64, time: Duration) {
    let least = time.as_nanos() as u64 * 4 / 5;
    assert_eq!(times.len(), count);
    assert!(times.min() >= least && times.value_at_quantile(0.5) < 4 * least, "{} {}", times.min(), times.max());
}

#[test]
fn events_are_told_apart_and_timed() {
    let server = Server::start(|peer| while peer.request().is_some() && tell(peer, 5) {});
    let report = load(streaming(&server, 4, Streaming::default()));
    assert_eq!((report.successes, report.failures(), server.connections()), (4, 0, 1), "{:?}", report.reasons);
    let streams = streams(&report);
    assert_eq!((streams.forms, streams.events, streams.done, streams.unfinished), ([4, 0, 0], 20, 4, 0));
    assert_eq!((streams.events_per_answer.min(), streams.events_per_answer.max()), (5, 5));
    assert_about(&streams.first_event, 4, 2 * PAUSE);
    assert_about(&streams.between, 16, PAUSE);
    assert!(report.first_byte.max() < streams.first_event.min(), "the head came before any event");
}

#[test]
fn an_answer_that_ends_with_its_connection_has_events_too() {
    let server = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n{\"a\":");
            std::thread::sleep(PAUSE);
            peer.send(b"1}\n{}\n\n[]");
        }
    });
    let report = load(streaming(&server, 3, Streaming::default()));
    let streams = streams(&report);
    assert_eq!((report.successes, streams.forms, streams.events), (3, [0, 3, 0], 9));
    assert_about(&streams.first_event, 3, PAUSE);
    assert_eq!(streams.bytes_per_answer.max(), 14);
}

#[test]
fn what_comes_at_one_time_is_a_piece_and_the_form_can_be_said() {
    let respond = |peer: &mut Peer| {
        while peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n");
            for text in ["data: a", "\n\nb\nc\n\n"] {
                std::thread::sleep(PAUSE);
                peer.send(text.as_bytes());
            }
        }
    };
    let server = Server::start(respond);
    for (form, forms, events) in
        [(None, [0, 0, 2], 4), (Some(Form::Lines), [0, 2, 0], 6), (Some(Form::Events), [2, 0, 0], 2)]
    {
        let report = load(streaming(&server, 2, Streaming { form, ..Streaming::default() }));
        assert_eq!((report.successes, streams(&report).forms, streams(&report).events), (2, forms, events), "{form:?}");
    }
}

#[test]
fn a_stream_that_stalls_is_a_failure_of_its_own() {
    // It stops for ever, or for long enough.
    for pause in [Duration::from_secs(30), Duration::from_millis(700)] {
        let server = Server::start(move |peer| {
            while peer.request().is_some() {
                peer.send(HEAD);
                peer.send(&chunk("data: 1\n\n"));
                std::thread::sleep(PAUSE);
                peer.send(&chunk("data: 2\n\n"));
                std::thread::sleep(pause);
                peer.send(&[chunk("data: 3\n\n"), b"0\r\n\r\n".to_vec()].concat());
            }
        });
        let between_max = Some(Duration::from_millis(300));
        let report = load(streaming(&server, 2, Streaming { between_max, ..Streaming::default() }));
        assert_eq!((report.successes, &report.errors[..]), (0, &[(Outcome::Stalled, 2)][..]));
        assert_eq!(report.reasons[0].words, "no event came for 300ms after another");
        // Found when it is due, not with the next look at everything.
        assert!((300_000_000..600_000_000).contains(&report.failure_time.min()), "{}", report.failure_time.min());
        assert_eq!((streams(&report).events, streams(&report).first_event.len()), (4, 0));
    }
}

#[test]
fn a_stream_without_end_is_ended_without_a_failure() {
    let server = Server::start(|peer| {
        if peer.request().is_some() && peer.send(HEAD) {
            while peer.send(&chunk(": still there\n\ndata: x\n\n")) {
                std::thread::sleep(PAUSE);
            }
        }
    });
    let close_after = Some(Duration::from_millis(300));
    let report = load(streaming(&server, 3, Streaming { close_after, ..Streaming::default() }));
    assert_eq!((report.successes, report.failures(), streams(&report).closed), (3, 0, 3));
    assert_about(&report.latency_uncorrected, 3, Duration::from_millis(300));
    assert!(streams(&report).events >= 9, "{}", streams(&report).events);
    assert_eq!(server.connections(), 3);
}

#[test]
fn streams_of_http2_are_told_apart_by_their_numbers() {
    let server = Server::start(|peer| {
        peer.greet(&[(3, 100)]);
        let (mut first, mut second) = (0, 0);
        while let Some(stream) = peer.asked() {
            (first, second) = (second, stream);
            if first == 0 {
                continue;
            }
            // Two at a time, their events mixed; the kind of answer is a literal header.
            for stream in [first, second] {
                let head = [&[0x88][..], b"\x0f\x10\x11text/event-stream"].concat();
                peer.send(&frame(HEADERS, 4, stream, &head));
            }
            for round in 0..3 {
                for (place, stream) in [first, second].into_iter().enumerate() {
                    std::thread::sleep(PAUSE / 2);
                    let padded = [&[3][..], format!("data: {round}{place}\n\n").as_bytes(), &[0; 3]].concat();
                    peer.send(&frame(DATA, 8, stream, &padded));
                }
            }
            peer.send(&[frame(DATA, 1, first, b""), frame(DATA, 1, second, b"data: cut")].concat());
            (first, second) = (0, 0);
        }
        let _ = (first, second);
    });
    let mut options = streaming(&server, 4, Streaming::default());
    options.protocol = Protocol::Http2 { streams: 2 };
    let report = load(options);
    let streams = streams(&report);
    assert_eq!((report.successes, report.failures(), streams.events), (4, 0, 12), "{:?}", report.reasons);
    assert_eq!((streams.forms, streams.unfinished), ([4, 0, 0], 2));
    assert_about(&streams.between, 8, PAUSE);
}

#[test]
fn streams_of_http2_stall_and_are_ended_alone() {
    let server = Server::start(|peer| {
        peer.greet(&[(3, 100)]);
        while let Some(frame_of) = peer.frame() {
            if frame_of.kind == RST_STREAM {
                assert_eq!(frame_of.payload, [0, 0, 0, 8], "CANCEL");
            }
            if frame_of.ends() {
                let head = [&[0x88][..], b"\x0f\x10\x11text/event-stream"].concat();
                peer.send(&frame(HEADERS, 4, frame_of.stream, &head));
                peer.send(&frame(DATA, 0, frame_of.stream, b"data: 1\n\n"));
            }
        }
    });
    let time = Some(Duration::from_millis(200));
    let mut options = streaming(&server, 3, Streaming { between_max: time, ..Streaming::default() });
    options.protocol = Protocol::Http2 { streams: 1 };
    let report = load(options);
    assert_eq!((&report.errors[..], server.connections()), (&[(Outcome::Stalled, 3)][..], 1));
    let mut options = streaming(&server, 3, Streaming { close_after: time, ..Streaming::default() });
    options.protocol = Protocol::Http2 { streams: 1 };
    let report = load(options);
    assert_eq!((report.successes, report.failures(), streams(&report).closed), (3, 0, 3));
    assert_eq!((streams(&report).events, server.connections()), (3, 2));
}

#[test]
fn what_means_nothing_for_streams_is_refused() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let wrong = |change: &dyn Fn(&mut Options)| {
        let mut options = streaming(&server, 1, Streaming::default());
        change(&mut options);
        options.check().expect_err("it is refused").to_string()
    };
    assert!(wrong(&|options| options.pipeline = 2).contains("pipeline"));
    assert!(wrong(&|options| options.io = weir_load::Io::Uring).contains("io_uring"));
    assert!(wrong(&|options| options.request.method = "HEAD".to_owned()).contains("HEAD"));
    let http3 = Protocol::Http3 { streams: 1, early_data: false, migrate_every: None };
    let over_http3 = |options: &mut Options| {
        (options.protocol, options.url) = (http3, weir_load::Url::parse("https://localhost/").expect("a URL"));
    };
    assert!(wrong(&over_http3).contains("events of streamed"));
    let long = Streaming { close_after: Some(Duration::from_secs(60)), ..Streaming::default() };
    assert!(wrong(&|options| options.streaming = Some(long)).contains("timeout"));
}
