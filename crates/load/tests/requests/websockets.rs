//! Messages over WebSockets: openings, answers, fragments, control frames and ends, against servers of our own.

use crate::server;

use server::websocket::{BINARY, CLOSE, PING, PONG, TEXT, frame};
use server::{Peer, Server, load};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::{AnswerRule, LoadReport, Options, Schedule, StopRule, WebSocket, WebSocketReport};
use weir_wire::client::Outcome;

fn messages(server: &Server, count: u64, websocket: WebSocket) -> Options {
    let mut options = server.options(count);
    options.io = weir_load::Io::Auto;
    options.websocket = Some(websocket);
    options
}

fn websocket(report: &LoadReport) -> &WebSocketReport {
    report.websocket.as_ref().expect("WebSockets were loaded")
}

/// A server that agrees to each upgrade.
fn agreeing(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Server {
    Server::start(move |peer| {
        if peer.upgrade("").is_some() {
            serve(peer);
        }
    })
}

fn closes(report: &LoadReport) -> Vec<(&str, u64)> {
    websocket(report).closes.iter().map(|remark| (remark.words.as_str(), remark.count)).collect()
}

#[test]
fn messages_are_answered_one_after_the_other() {
    let server = agreeing(Peer::echo);
    let report = load(messages(&server, 50, WebSocket::default()));
    let told = websocket(&report);
    assert_eq!((report.successes, report.failures(), report.latency.len()), (50, 0, 50), "{:?}", report.reasons);
    assert_eq!((told.sent, told.received, told.pushed, told.frames), (50, 50, 0, 50));
    assert_eq!((told.sent_bytes, told.received_bytes, told.handshake.len()), (250, 250, 1));
    assert_eq!((server.connections(), closes(&report)), (1, vec![]));
}

#[test]
fn each_connection_of_a_closed_loop_has_a_message_under_way() {
    let server = agreeing(|peer| {
        while let Some(received) = peer.received() {
            std::thread::sleep(Duration::from_millis(50));
            peer.send(&frame(received.first, &received.content));
        }
    });
    let mut options = messages(&server, 40, WebSocket::default());
    options.connections = 10;
    options.threads = 2;
    let report = load(options);
    assert_eq!((report.successes, server.connections()), (40, 10));
    // Four rounds of 50 ms.
    assert!((0.2..0.6).contains(&report.duration.as_secs_f64()), "{:?}", report.duration);
}

#[test]
fn the_opening_says_what_was_asked_for() {
    let (seen, requests) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(Vec::new())));
    let (own, frames) = (Arc::clone(&seen), Arc::clone(&requests));
    let server = Server::start(move |peer| {
        let Some(request) = peer.upgrade("Sec-WebSocket-Protocol: b\r\n") else { return };
        *own.lock().expect("the only writer") = request;
        while let Some(received) = peer.received() {
            let reply = frame(BINARY, &received.content);
            let is_last = received.first & 0x80 != 0;
            frames.lock().expect("the only writer").push(received);
            if is_last {
                peer.send(&reply);
            }
        }
    });
    let given = WebSocket {
        message: (0..=255).collect(),
        is_binary: true,
        protocols: vec!["a".into(), "b".into()],
        fragment_bytes: Some(100),
        ..WebSocket::default()
    };
    let mut options = messages(&server, 1, given);
    options.request.headers.push(("Origin".into(), "http://example.org".into()));
    let report = load(options);
    assert_eq!(report.successes, 1, "{:?}", report.reasons);
    let request = seen.lock().expect("it is over").clone();
    for line in ["Origin: http://example.org", "Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Version: 13"] {
        assert!(request.contains(line), "{line}: {request}");
    }
    assert!(!request.to_ascii_lowercase().contains("extensions"), "compression is not offered");
    let received = requests.lock().expect("it is over");
    let firsts: Vec<(u8, usize)> = received.iter().map(|frame| (frame.first, frame.content.len())).collect();
    assert_eq!(firsts[..3], [(0x02, 100), (0x00, 100), (0x80, 56)]);
    let whole: Vec<u8> = received[..3].iter().flat_map(|frame| frame.content.clone()).collect();
    assert_eq!(whole, (0..=255).collect::<Vec<u8>>());
    assert!(received[0].mask != received[1].mask, "each frame has a mask of its own");
}

#[test]
fn an_answer_may_come_in_fragments_with_control_frames_between() {
    let (pongs, own) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
    let (told, _own) = (Arc::clone(&pongs), own);
    let server = agreeing(move |peer| {
        while let Some(received) = peer.received() {
            match received.first {
                PONG => told.lock().expect("the only writer").push(received.content),
                TEXT => {
                    // Byte by byte, so that each cut is met.
                    let bytes = [frame(0x01, b"he"), frame(PING, b"there?"), frame(PONG, b""), frame(0x80, b"llo")];
                    for byte in bytes.concat() {
                        peer.send(&[byte]);
                    }
                }
                _ => return,
            }
        }
    });
    let given = WebSocket { answer: AnswerRule::Echo, ..WebSocket::default() };
    let report = load(messages(&server, 5, given));
    let seen = websocket(&report);
    assert_eq!((report.successes, seen.pings, seen.pongs, seen.pushed, seen.frames), (5, 5, 5, 0, 10));
    assert_eq!(pongs.lock().expect("it is over").as_slice(), vec![b"there?".to_vec(); 5]);
}

#[test]
fn what_a_server_pushes_answers_nothing() {
    let serve = |peer: &mut Peer| {
        // A greeting with the upgrade, and something before and behind each answer.
        peer.send(&frame(TEXT, b"welcome"));
        while let Some(received) = peer.received() {
            if received.first != TEXT {
                return;
            }
            peer.send(&frame(TEXT, b"news"));
            std::thread::sleep(Duration::from_millis(30));
            peer.send(&[frame(TEXT, &received.content), frame(BINARY, &received.content)].concat());
        }
    };
    let server = agreeing(serve);
    let given = WebSocket { answer: AnswerRule::Echo, ..WebSocket::default() };
    let report = load(messages(&server, 5, given));
    assert_eq!((report.successes, websocket(&report).received), (5, 16));
    assert_eq!(websocket(&report).pushed, 11);
    assert!(report.latency.min() > 25_000_000 && report.first_byte.min() > 25_000_000);
    // Where any message is an answer, the first is: that is what the rule says.
    let report = load(messages(&server, 5, WebSocket::default()));
    assert!(report.latency.min() < 25_000_000);
}

#[test]
fn an_open_loop_sends_over_all_its_connections_in_turn() {
    let server = agreeing(Peer::echo);
    let mut options = messages(&server, 200, WebSocket::default());
    options.connections = 8;
    options.schedule = Schedule::Fixed { rate_per_s: 400.0 };
    options.stop = StopRule::Duration(Duration::from_millis(500));
    let report = load(options);
    assert_eq!((report.requests, report.failures(), report.dropped), (200, 0, 0), "{:?}", report.reasons);
    assert_eq!((server.connections(), websocket(&report).handshake.len()), (8, 8));
}

#[test]
fn a_refused_upgrade_is_a_failure_of_its_own() {
    for (answer, outcome, words) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Outcome::Upgrade, "status 404"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Outcome::Upgrade, "lacks `Upgrade"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            Outcome::Upgrade,
            "does not belong to the key",
        ),
        ("SSH-2.0-OpenSSH_9\r\n", Outcome::Malformed, "not HTTP/1.1"),
        ("", Outcome::Closed, "before it answered the upgrade"),
    ] {
        let server = Server::start(move |peer| {
            if peer.request().is_some() {
                peer.send(answer.as_bytes());
            }
        });
        let report = load(messages(&server, 2, WebSocket::default()));
        assert_eq!((report.successes, &report.errors[..]), (0, &[(outcome, 2)][..]), "{words}");
        assert!(report.reasons[0].words.contains(words), "{words}: {:?}", report.reasons);
        assert_eq!((websocket(&report).not_opened, websocket(&report).sent), (2, 0));
    }
}

#[test]
fn a_server_that_closes_says_why() {
    let server = agreeing(|peer| {
        let _ = peer.received();
        peer.send(&frame(CLOSE, &[&1001u16.to_be_bytes()[..], b"restart"].concat()));
        // The client answers with the same code.
        let answered = peer.received().expect("its close frame");
        assert_eq!((answered.first, answered.content), (CLOSE, 1001u16.to_be_bytes().to_vec()));
    });
    let report = load(messages(&server, 3, WebSocket::default()));
    assert_eq!(&report.errors[..], &[(Outcome::Closed, 3)][..]);
    assert_eq!(report.reasons[0].words, "the server closed the WebSocket: 1001 (going away) \"restart\"");
    assert_eq!(closes(&report), [("1001 (going away)", 3)]);
    let cut = agreeing(|peer| drop(peer.received()));
    let report = load(messages(&cut, 2, WebSocket::default()));
    assert_eq!(closes(&report), [("1006 (without a close frame)", 2)]);
}

#[test]
fn what_breaks_the_standard_is_told_to_the_server_by_its_code() {
    for (bytes, code, words) in [
        (frame(0xc1, b"x"), 1002u16, "reserved bit"),
        (frame(0x83, b"x"), 1002, "opcode"),
        (frame(0x80, b"x"), 1002, "none is under way"),
        (vec![0x81, 0x81, 0, 0, 0, 0, b'x'], 1002, "mask"),
        (frame(TEXT, b"\xc3\x28"), 1007, "UTF-8"),
        (frame(BINARY, &[0; 200]), 1009, "longer"),
        (frame(CLOSE, b"\x03\xed"), 1002, "none may have"),
    ] {
        let told = Arc::new(Mutex::new(None));
        let own = Arc::clone(&told);
        let server = agreeing(move |peer| {
            let _ = peer.received();
            peer.send(&bytes);
            *own.lock().expect("the only writer") = peer.received();
        });
        let given = WebSocket { message_bytes_max: 100, ..WebSocket::default() };
        let report = load(messages(&server, 1, given));
        assert_eq!(&report.errors[..], &[(Outcome::Malformed, 1)][..], "{words}");
        assert!(report.reasons[0].words.contains(words), "{words}: {:?}", report.reasons);
        let mut tries = 0..200;
        while told.lock().expect("no panic").is_none() && tries.next().is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let close = told.lock().expect("no panic").clone().expect("a close frame");
        assert_eq!((close.first, close.content), (CLOSE, code.to_be_bytes().to_vec()), "{words}");
    }
}

#[test]
fn a_message_that_is_not_answered_fails_in_time() {
    let server = agreeing(|peer| while peer.received().is_some() {});
    let mut options = messages(&server, 2, WebSocket::default());
    options.timeout = Duration::from_millis(200);
    let report = load(options);
    assert_eq!((&report.errors[..], server.connections()), (&[(Outcome::TimedOut, 2)][..], 2));
    assert_eq!(report.reasons[0].words, "no answer to the message came in time");
    let silent = Server::start(|peer| while peer.request().is_some() {});
    let mut options = messages(&silent, 1, WebSocket::default());
    options.timeout = Duration::from_millis(200);
    assert_eq!(load(options).reasons[0].words, "the upgrade was not answered in time");
}

#[test]
fn connections_are_closed_as_the_standard_has_it() {
    let closed = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&closed);
    let server = agreeing(move |peer| {
        while let Some(received) = peer.received() {
            if received.first == CLOSE {
                own.lock().expect("no panic").push(received.content);
                return;
            }
            peer.send(&frame(received.first, &received.content));
        }
    });
    let mut options = messages(&server, 6, WebSocket::default());
    options.connections = 3;
    let report = load(options);
    assert_eq!((report.successes, report.failures()), (6, 0));
    assert_eq!(closed.lock().expect("no panic").as_slice(), vec![1000u16.to_be_bytes().to_vec(); 3]);
    // It closed without a word of its own.
    assert_eq!(closes(&report), [("1006 (without a close frame)", 3)]);
}

#[test]
fn long_messages_go_and_come_whole() {
    let server = agreeing(Peer::echo);
    let message: Vec<u8> = (0..3_000_000u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let given = WebSocket { message, is_binary: true, answer: AnswerRule::Echo, ..WebSocket::default() };
    let report = load(messages(&server, 4, given));
    assert_eq!((report.successes, websocket(&report).received_bytes), (4, 12_000_000), "{:?}", report.reasons);
}

#[test]
fn what_means_nothing_for_websockets_is_refused() {
    let server = agreeing(Peer::echo);
    let wrong = |change: &dyn Fn(&mut Options)| {
        let mut options = messages(&server, 1, WebSocket::default());
        change(&mut options);
        options.check().expect_err("it is refused").to_string()
    };
    assert!(wrong(&|options| options.request.method = "POST".to_owned()).contains("GET"));
    assert!(wrong(&|options| options.pipeline = 2).contains("pipeline"));
    assert!(wrong(&|options| options.keep_alive = false).contains("new connections"));
    let own = ("sec-websocket-protocol".to_owned(), "x".to_owned());
    assert!(wrong(&|options| options.request.headers.push(own.clone())).contains("subprotocols have an option"));
    let message = WebSocket { message: vec![0xff], ..WebSocket::default() };
    assert!(wrong(&|options| options.websocket = Some(message.clone())).contains("UTF-8"));
    let protocol = WebSocket { protocols: vec!["a b".into()], ..WebSocket::default() };
    assert!(wrong(&|options| options.websocket = Some(protocol.clone())).contains("subprotocol"));
}
