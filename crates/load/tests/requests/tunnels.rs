//! WebSockets over HTTP/2 (RFC 8441): many on the streams of a connection, against a server of our own.

use crate::server;

use server::http2::{DATA, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE, frame as http2_frame};
use server::websocket::{BINARY, CLOSE, PING, PONG, TEXT, frame};
use server::{Peer, Server, load};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::{
    AnswerRule, Control, LoadError, LoadReport, Options, Protocol, Schedule, StopRule, WebSocket, WebSocketReport,
};
use weir_wire::client::Outcome;

/// SETTINGS_ENABLE_CONNECT_PROTOCOL and a window that holds back nothing.
const OFFERED: &[(u16, u32)] = &[(8, 1), (4, 1 << 30)];

/// What came of a client: its opening, or a frame of a WebSocket.
#[derive(Debug, Clone, Copy)]
enum Came<'c> {
    Opening(&'c [u8]),
    Frame {
        first: u8,
        content: &'c [u8],
    },
    /// It ended its side.
    End,
}

/// A server that says these settings and does of each stream what `serve` says.
fn serving(
    settings: &'static [(u16, u32)],
    serve: impl Fn(&mut Peer, u32, Came<'_>) + Send + Sync + 'static,
) -> Server {
    Server::start(move |peer| {
        if !peer.greet(settings) || !peer.send(&http2_frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())) {
            return;
        }
        let mut streams: HashMap<u32, Vec<u8>> = HashMap::new();
        while let Some(came) = peer.frame() {
            match came.kind {
                HEADERS => serve(peer, came.stream, Came::Opening(&came.payload)),
                DATA => {
                    let bytes = streams.entry(came.stream).or_default();
                    bytes.extend(&came.payload);
                    while let Some((first, content)) = whole_frame(bytes) {
                        serve(peer, came.stream, Came::Frame { first, content: &content });
                    }
                }
                _ => {}
            }
            if came.ends() {
                serve(peer, came.stream, Came::End);
            }
        }
    })
}

/// Takes a masked frame off the beginning of bytes.
fn whole_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (head, length) = match bytes.get(1)? & 0x7f {
        126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        short => (2, usize::from(short)),
    };
    assert!(bytes[1] & 0x80 != 0, "a client's frame has a mask");
    if bytes.len() < head + 4 + length {
        return None;
    }
    let all: Vec<u8> = bytes.drain(..head + 4 + length).collect();
    let (mask, content) = all[head..].split_at(4);
    Some((all[0], content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()))
}

fn agree(peer: &mut Peer, stream: u32) {
    peer.send(&http2_frame(HEADERS, 4, stream, &[0x88]));
}

/// Sends bytes on a stream, in frames that are short enough.
fn say(peer: &mut Peer, stream: u32, bytes: &[u8]) {
    for piece in bytes.chunks(16_384) {
        peer.send(&http2_frame(DATA, 0, stream, piece));
    }
}

/// Agrees to each opening and sends back what comes.
fn echo(peer: &mut Peer, stream: u32, came: Came<'_>) {
    match came {
        Came::Opening(_) => agree(peer, stream),
        Came::Frame { first, content } => say(peer, stream, &frame(first, content)),
        Came::End => drop(peer.send(&http2_frame(DATA, 1, stream, &[]))),
    }
}

fn messages(server: &Server, count: u64, streams: u32, websocket: WebSocket) -> Options {
    let mut options = server.options(count);
    options.io = weir_load::Io::Auto;
    options.protocol = Protocol::Http2 { streams };
    options.websocket = Some(websocket);
    options
}

fn websocket(report: &LoadReport) -> &WebSocketReport {
    report.websocket.as_ref().expect("WebSockets were loaded")
}

fn closes(report: &LoadReport) -> Vec<(&str, u64)> {
    websocket(report).closes.iter().map(|remark| (remark.words.as_str(), remark.count)).collect()
}

#[test]
fn many_websockets_share_a_connection() {
    let server = serving(OFFERED, echo);
    for (streams, count) in [(1, 50), (20, 400)] {
        let report = load(messages(&server, count, streams, WebSocket::default()));
        let told = websocket(&report);
        assert_eq!((report.successes, report.failures()), (count, 0), "{:?}", report.reasons);
        assert_eq!((told.sent, told.received, told.pushed, told.frames), (count, count, 0, count));
        assert_eq!((told.sent_bytes, told.handshake.len()), (5 * count, u64::from(streams)));
        assert_eq!((closes(&report), &report.status[..]), (vec![], &[(101, count)][..]));
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn an_opening_is_an_extended_connect() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&seen);
    let server = serving(OFFERED, move |peer, stream, came| {
        if let Came::Opening(block) = came {
            own.lock().expect("no panic").extend_from_slice(block);
            let agreed = b"\x88\x00\x16sec-websocket-protocol\x01b";
            peer.send(&http2_frame(HEADERS, 4, stream, agreed));
        } else {
            echo(peer, stream, came);
        }
    });
    let given = WebSocket { protocols: vec!["a".into(), "b".into()], ..WebSocket::default() };
    let mut options = messages(&server, 3, 1, given);
    options.request.headers.push(("Origin".into(), "http://o".into()));
    let report = load(options);
    assert_eq!((report.successes, report.failures()), (3, 0), "{:?}", report.reasons);
    let text = String::from_utf8_lossy(&seen.lock().expect("no panic")).into_owned();
    for part in ["CONNECT", ":protocol\twebsocket", "/path", "version\u{2}13", "protocol\u{4}a, b", "origin"] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn a_server_without_tunnels_is_named_with_the_remedy() {
    let server = serving(&[(4, 1 << 20)], echo);
    let refused = weir_load::run(messages(&server, 5, 2, WebSocket::default()), &Control::default());
    let Err(error @ LoadError::NoTunnels { .. }) = refused else { panic!("{refused:?}") };
    let words = error.to_string();
    assert!(words.contains("SETTINGS_ENABLE_CONNECT_PROTOCOL") && words.contains("--http2"), "{words}");
    // What is asked for over another version is refused before anything is sent.
    let mut options = messages(&server, 1, 1, WebSocket::default());
    options.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every: None };
    options.url = weir_load::Url::parse("https://127.0.0.1:1/").expect("a URL");
    assert!(options.check().expect_err("over HTTP/3").to_string().contains("RFC 9220"));
}

#[test]
fn openings_that_are_refused_say_why() {
    // 404 in full, 200 that ends its stream, and one that is given up.
    for (answer, flags, outcome, words) in [
        (&b"\x8d"[..], 4u8, Outcome::Upgrade, "status 404"),
        (b"\x88", 5, Outcome::Upgrade, "ends its stream at once"),
        (b"\x88\x00\x18sec-websocket-extensions\x01x", 4, Outcome::Upgrade, "extension"),
        (b"\x88\x00\x16sec-websocket-protocol\x01z", 4, Outcome::Upgrade, "subprotocol"),
    ] {
        let server = serving(OFFERED, move |peer, stream, came| {
            if matches!(came, Came::Opening(_)) {
                peer.send(&http2_frame(HEADERS, flags, stream, answer));
            }
        });
        let report = load(messages(&server, 3, 2, WebSocket::default()));
        assert_eq!((report.requests, &report.errors[..]), (0, &[(outcome, 3)][..]), "{words}");
        assert!(report.reasons.iter().any(|reason| reason.words.contains(words)), "{:?}", report.reasons);
        assert_eq!(websocket(&report).not_opened, 3);
    }
    let server = serving(OFFERED, |peer, stream, came| {
        if matches!(came, Came::Opening(_)) {
            peer.send(&http2_frame(RST_STREAM, 0, stream, &7u32.to_be_bytes()));
        }
    });
    let report = load(messages(&server, 2, 1, WebSocket::default()));
    assert_eq!(report.errors, [(Outcome::StreamReset, 2)], "{:?}", report.reasons);
}

#[test]
fn a_websocket_that_ends_is_replaced_and_the_others_live_on() {
    // Each stream answers three messages and is then closed by the server: by a frame, by its end, by a reset.
    let counts = Mutex::new(HashMap::new());
    let server = serving(OFFERED, move |peer, stream, came| match came {
        Came::Frame { first: TEXT, content } => {
            let mut counts = counts.lock().expect("no panic");
            let count = counts.entry((peer.number, stream)).or_insert(0);
            *count += 1;
            match (*count, (stream / 2) % 3) {
                (1..=3, _) => say(peer, stream, &frame(TEXT, content)),
                (4, 0) => say(peer, stream, &frame(CLOSE, &[&1001u16.to_be_bytes()[..], b"bye"].concat())),
                (4, 1) => drop(peer.send(&http2_frame(DATA, 1, stream, &[]))),
                (4, _) => drop(peer.send(&http2_frame(RST_STREAM, 0, stream, &2u32.to_be_bytes()))),
                _ => {}
            }
        }
        Came::Frame { first: CLOSE, .. } => {}
        other => echo(peer, stream, other),
    });
    let report = load(messages(&server, 60, 3, WebSocket::default()));
    assert_eq!((report.requests + report.failures(), server.connections()), (60, 1), "{:?}", report.reasons);
    assert!((40..=48).contains(&report.successes), "{} {:?}", report.successes, report.reasons);
    let reasons: String = report.reasons.iter().map(|reason| reason.words.clone()).collect();
    for words in ["going away", "\"bye\"", "without a close frame", "gave the stream up"] {
        assert!(reasons.to_lowercase().contains(words), "{words}: {reasons}");
    }
    assert!(websocket(&report).handshake.len() >= 15, "{}", websocket(&report).handshake.len());
}

#[test]
fn pings_are_answered_and_pushed_messages_told_apart() {
    let pongs = Arc::new(Mutex::new(0));
    let own = Arc::clone(&pongs);
    let server = serving(OFFERED, move |peer, stream, came| match came {
        Came::Frame { first: BINARY, content } => {
            let all = [frame(PING, b"there?"), frame(TEXT, b"news"), frame(BINARY, content)].concat();
            say(peer, stream, &all);
        }
        Came::Frame { first: PONG, content } => {
            assert_eq!(content, b"there?");
            *own.lock().expect("no panic") += 1;
        }
        other => echo(peer, stream, other),
    });
    let given = WebSocket { is_binary: true, answer: AnswerRule::Echo, ..WebSocket::default() };
    let report = load(messages(&server, 30, 3, given));
    let told = websocket(&report);
    assert_eq!((report.successes, told.pings, told.pushed, told.received), (30, 30, 30, 60), "{:?}", report.reasons);
    assert!(*pongs.lock().expect("no panic") >= 27);
}

#[test]
fn long_messages_wait_for_the_servers_windows() {
    // Windows of a stream that open again as its content comes.
    let server = Server::start(|peer| {
        if !peer.greet(&[(8, 1), (4, 20_000)]) {
            return;
        }
        let mut streams: HashMap<u32, Vec<u8>> = HashMap::new();
        while let Some(came) = peer.frame() {
            match came.kind {
                HEADERS => agree(peer, came.stream),
                DATA if !came.payload.is_empty() => {
                    let more = (came.payload.len() as u32).to_be_bytes();
                    peer.send(
                        &[http2_frame(WINDOW_UPDATE, 0, 0, &more), http2_frame(WINDOW_UPDATE, 0, came.stream, &more)]
                            .concat(),
                    );
                    let bytes = streams.entry(came.stream).or_default();
                    bytes.extend(&came.payload);
                    while let Some((first, content)) = whole_frame(bytes) {
                        say(peer, came.stream, &frame(first, &content));
                    }
                }
                _ => {}
            }
        }
    });
    let message: Vec<u8> = (0..300_000u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let given = WebSocket { message, is_binary: true, answer: AnswerRule::Echo, ..WebSocket::default() };
    let report = load(messages(&server, 6, 2, given));
    assert_eq!((report.successes, websocket(&report).received_bytes), (6, 1_800_000), "{:?}", report.reasons);
}

#[test]
fn arrivals_go_out_at_their_times_over_all_streams() {
    let server = serving(OFFERED, echo);
    let mut options = messages(&server, 1, 10, WebSocket::default());
    options.connections = 2;
    options.schedule = Schedule::Fixed { rate_per_s: 200.0 };
    options.stop = StopRule::Duration(Duration::from_secs(1));
    let report = load(options);
    assert_eq!((report.successes, report.failures(), report.dropped), (200, 0, 0), "{:?}", report.reasons);
    assert_eq!((websocket(&report).handshake.len(), server.connections()), (20, 2));
}

#[test]
fn a_farewell_ends_only_what_the_server_did_not_take() {
    let server = serving(OFFERED, |peer, stream, came| match came {
        Came::Frame { first: TEXT, content } if peer.number == 0 && stream == 1 => {
            say(peer, stream, &frame(TEXT, content));
            // Streams up to 3 go on; the rest was not looked at.
            peer.send(&http2_frame(GOAWAY, 0, 0, &[3u32.to_be_bytes(), 0u32.to_be_bytes()].concat()));
        }
        other => echo(peer, stream, other),
    });
    let report = load(messages(&server, 40, 4, WebSocket::default()));
    assert_eq!(report.requests + report.failures(), 40, "{:?}", report.reasons);
    assert!(report.failures() <= 2 && report.successes >= 38, "{:?}", report.reasons);
}

#[test]
fn breaches_are_told_by_their_code() {
    let codes = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&codes);
    let server = serving(OFFERED, move |peer, stream, came| match came {
        // A text that is none, in a frame with a mask.
        Came::Frame { first: TEXT, .. } => say(peer, stream, &frame(TEXT, &[0xff])),
        Came::Frame { first: CLOSE, content } => {
            own.lock().expect("no panic").push(u16::from_be_bytes([content[0], content[1]]));
            say(peer, stream, &frame(CLOSE, content));
        }
        other => echo(peer, stream, other),
    });
    let report = load(messages(&server, 3, 1, WebSocket::default()));
    assert_eq!(report.errors, [(Outcome::Malformed, 3)], "{:?}", report.reasons);
    let codes = codes.lock().expect("no panic");
    assert!(codes.len() >= 2 && codes.iter().all(|code| *code == 1007), "{codes:?}");
}
