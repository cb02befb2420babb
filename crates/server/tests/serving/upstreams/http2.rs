//! Upstreams of HTTP/2 that do what a test says, frame by frame.

use super::scripted::{Client, Peer, SOON, Seen, site, tcp, timed};
use crate::harness::{Site, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn fields(list: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in list {
        assert!(name.len() < 127 && value.len() < 127);
        block.extend_from_slice(&[0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// A whole response.
fn response(stream: u32, body: &str) -> Vec<u8> {
    let length = body.len().to_string();
    let head = frame(HEADERS, END_HEADERS, stream, &fields(&[(":status", "200"), ("content-length", &length)]));
    [head, frame(DATA, END_STREAM, stream, body.as_bytes())].concat()
}

trait Frames {
    fn begin(&mut self, settings: &[u8]);
    fn frame(&mut self) -> Option<Frame>;
    fn next(&mut self, kind: u8) -> Option<Frame>;
}

impl Frames for Peer {
    /// The preface, and the settings of both sides.
    fn begin(&mut self, settings: &[u8]) {
        assert_eq!(self.exactly(PREFACE.len()), PREFACE);
        self.say(settings);
    }

    fn frame(&mut self) -> Option<Frame> {
        let head = self.exactly(9);
        if head.len() < 9 {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let payload = self.exactly(number(&head[..3]) as usize);
        Some(Frame { kind: head[3], flags: head[4], stream: number(&head[5..]), payload })
    }

    /// The next frame of a kind; those before it are let go.
    fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }
}

fn h2c(addr: SocketAddr, settings: &str) -> Site {
    site(&format!("proxy = {{ to = \"h2c://{addr}\"{settings} }}"), |_| {})
}

/// Answers each request as it comes, with the number of its connection and stream.
fn telling(settings: Vec<u8>) -> (SocketAddr, Seen) {
    tcp(move |number, mut peer| {
        peer.begin(&settings);
        while let Some(asked) = peer.next(HEADERS) {
            peer.say(&response(asked.stream, &format!("{number} {}", asked.stream)));
        }
    })
}

#[test]
fn a_frame_that_is_none_ends_the_connection_and_its_requests_get_502() {
    let ok = frame(SETTINGS, 0, 0, b"");
    let with = |more: Vec<u8>| [ok.clone(), more].concat();
    let long = fields(&[("a", &"x".repeat(120))]).repeat(600);
    let mut continued = frame(HEADERS, 0, 1, &fields(&[(":status", "200")]));
    for piece in long.chunks(16_000) {
        continued.extend_from_slice(&frame(9, 0, 1, piece));
    }
    for (what, bytes) in [
        ("HTTP/1.1", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ("no settings", frame(PING, 0, 0, &[0; 8])),
        ("a large frame", with(frame(DATA, 0, 1, &[0; 16_385]))),
        ("settings of 5 bytes", with(frame(SETTINGS, 0, 0, &[0; 5]))),
        ("a push", with(frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]))),
        ("a stream that is not there", with(frame(HEADERS, END_HEADERS, 3, &fields(&[(":status", "200")])))),
        ("an even stream", with(frame(HEADERS, END_HEADERS, 2, &fields(&[(":status", "200")])))),
        ("a broken block", with(frame(HEADERS, END_HEADERS, 1, &[0xff; 9]))),
        ("a head too long", with(continued)),
        ("a stray continuation", with(frame(9, END_HEADERS, 1, b""))),
        ("a window too far", with(frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2))),
        ("a flood of PING", with(frame(PING, 0, 0, &[0; 8]).repeat(3000))),
        ("a flood of SETTINGS", with(ok.repeat(3000))),
        ("a flood of empty DATA", {
            let head = frame(HEADERS, END_HEADERS, 1, &fields(&[(":status", "200")]));
            with([head, frame(DATA, 0, 1, b"").repeat(3000)].concat())
        }),
    ] {
        let (addr, seen) = tcp(move |_, mut peer| {
            assert_eq!(peer.exactly(PREFACE.len()), PREFACE);
            peer.next(HEADERS);
            peer.say(&bytes);
            peer.rest();
        });
        let site = h2c(addr, ", retries = false, health = false");
        let mut client = Client::new(site.addr);
        client.ask("GET /", "Connection: close\r\n", b"");
        let (text, _) = client.rest();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_cut = what == "a flood of empty DATA" && text.starts_with("HTTP/1.1 200 ");
        assert!(is_cut || text.starts_with("HTTP/1.1 502 "), "{what}: {text}");
        wait_until(|| seen.open() == 0);
    }
}

#[test]
fn a_response_that_is_none_ends_its_stream_alone() {
    let head = |list: &[(&str, &str)], flags| frame(HEADERS, END_HEADERS | flags, 3, &fields(list));
    let ok = head(&[(":status", "200")], 0);
    let of_length = head(&[(":status", "200"), ("content-length", "5")], 0);
    for (what, bytes) in [
        ("no status", head(&[("a", "b")], END_STREAM)),
        ("a field of a connection", head(&[(":status", "200"), ("connection", "close")], END_STREAM)),
        ("an upper-case name", head(&[(":status", "200"), ("A", "b")], END_STREAM)),
        ("a line end", head(&[(":status", "200"), ("a", "b\r\nc: d")], END_STREAM)),
        ("an interim end", head(&[(":status", "103")], END_STREAM)),
        ("switching", head(&[(":status", "101")], 0)),
        ("a body before its head", frame(DATA, END_STREAM, 3, b"body")),
        ("two heads", [ok.clone(), ok].concat()),
        ("too much", [of_length.clone(), frame(DATA, END_STREAM, 3, b"123456")].concat()),
        ("too little", [of_length, frame(DATA, END_STREAM, 3, b"1234")].concat()),
        ("a reset", frame(RST_STREAM, 0, 3, &[0, 0, 0, 2])),
    ] {
        let (addr, seen) = tcp(move |_, mut peer| {
            peer.begin(&frame(SETTINGS, 0, 0, b""));
            while let Some(asked) = peer.next(HEADERS) {
                let is_bad = asked.stream == 3;
                if is_bad {
                    peer.say(&bytes);
                } else {
                    peer.say(&response(asked.stream, "good"));
                }
            }
        });
        let site = h2c(addr, ", retries = false, health = false");
        assert_eq!(site.get("/").text(), "good");
        let mut client = Client::new(site.addr);
        client.ask("GET /", "Connection: close\r\n", b"");
        let (text, is_reset) = client.rest();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_cut = is_reset || !text.ends_with("0\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 502 ") || is_cut, "{what}: {text}");
        assert_eq!(site.get("/").text(), "good", "{what}");
        assert_eq!(seen.accepted(), 1, "{what}");
    }
}

#[test]
fn requests_that_the_upstream_has_not_looked_at_go_over_another_connection() {
    // It takes one request, and says with the second that it leaves; or it refuses the second.
    for refusal in ["GOAWAY", "REFUSED_STREAM"] {
        let (addr, seen) = tcp(move |number, mut peer| {
            peer.begin(&frame(SETTINGS, 0, 0, b""));
            let first = peer.next(HEADERS).expect("a request");
            if number > 0 {
                peer.say(&response(first.stream, "other"));
                peer.rest();
                return;
            }
            let second = peer.next(HEADERS).expect("a request");
            if refusal == "GOAWAY" {
                peer.say(&frame(GOAWAY, 0, 0, &[&first.stream.to_be_bytes()[..], &[0; 4]].concat()));
            } else {
                peer.say(&frame(RST_STREAM, 0, second.stream, &[0, 0, 0, 7]));
                let third = peer.next(HEADERS).expect("it is sent again");
                peer.say(&response(third.stream, "other"));
            }
            std::thread::sleep(Duration::from_millis(200));
            peer.say(&response(first.stream, "first"));
            peer.rest();
        });
        let site = h2c(addr, ", health = false");
        let (mut first, mut second) = (Client::new(site.addr), Client::new(site.addr));
        // The method is not idempotent, which does not count.
        first.ask("POST /", "Content-Length: 0\r\n", b"");
        second.ask("POST /", "Content-Length: 0\r\n", b"");
        let mut both = [first.reply().text(), second.reply().text()];
        both.sort();
        assert_eq!(both, ["first", "other"], "{refusal}");
        assert_eq!(seen.accepted(), if refusal == "GOAWAY" { 2 } else { 1 }, "{refusal}");
    }
}

#[test]
fn no_more_requests_are_on_a_connection_than_both_sides_allow() {
    for (settings, own, most) in [(setting(3, 2), "", 2), (frame(SETTINGS, 0, 0, b""), ", streams = 3", 3)] {
        let (under_way, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, highest) = (Arc::clone(&under_way), Arc::clone(&held));
        let (addr, seen) = tcp(move |_, mut peer| {
            peer.begin(&settings);
            // The settings are there before a second request is.
            let mut streams = Vec::new();
            while let Some(asked) = peer.next(HEADERS) {
                counted.fetch_add(1, Ordering::SeqCst);
                streams.push(asked.stream);
                highest.fetch_max(streams.len(), Ordering::SeqCst);
                if streams.len() == most {
                    // All requests have come by then: those of the first round, or all.
                    wait_until(|| [most, 3 * most].contains(&counted.load(Ordering::SeqCst)));
                    for stream in streams.drain(..) {
                        peer.say(&response(stream, "good"));
                    }
                }
            }
        });
        let site = h2c(addr, &format!("{own}, health = false"));
        // One that is alone, so that what the upstream allows is known.
        let mut clients: Vec<_> = (0..most).map(|_| Client::new(site.addr)).collect();
        for client in &mut clients {
            client.ask("GET /", "", b"");
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.reply().text(), "good"));
        let mut clients: Vec<_> = (0..2 * most).map(|_| Client::new(site.addr)).collect();
        clients.iter_mut().for_each(|client| client.ask("GET /", "", b""));
        clients.iter_mut().for_each(|client| assert_eq!(client.reply().text(), "good"));
        assert!(held.load(Ordering::SeqCst) <= most && seen.accepted() >= 2, "{held:?} {most} {seen:?}");
    }
}

#[test]
fn a_client_that_takes_its_response_slowly_holds_back_its_stream_alone() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let (addr, seen) = tcp(move |_, mut peer| {
        peer.begin(&frame(SETTINGS, 0, 0, b""));
        let slow = peer.next(HEADERS).expect("a request").stream;
        peer.say(&frame(HEADERS, END_HEADERS, slow, &fields(&[(":status", "200")])));
        let mut window = 65_536_usize;
        loop {
            while window >= 16_000 {
                peer.say(&frame(DATA, 0, slow, &[b'x'; 16_000]));
                window -= 16_000;
                counted.fetch_add(16_000, Ordering::SeqCst);
            }
            match peer.frame() {
                Some(frame) if frame.kind == HEADERS => drop(peer.say(&response(frame.stream, "quick"))),
                Some(frame) if frame.kind == WINDOW_UPDATE && frame.stream == slow => {
                    window += u32::from_be_bytes(frame.payload[..4].try_into().expect("four")) as usize;
                }
                Some(_) => {}
                None => return,
            }
        }
    });
    let site = h2c(addr, ", health = false");
    let mut slow = Client::new(site.addr);
    slow.ask("GET /", "", b"");
    // As much as the client's socket, the server's memory and the window hold, and then no more.
    let mut before = usize::MAX;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(200));
        let now = sent.load(Ordering::SeqCst);
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before < 64 << 20, "{before}");
    for _ in 0..20 {
        assert_eq!(site.get("/").text(), "quick");
    }
    assert_eq!(seen.accepted(), 1);
    let mut taken = vec![0; 1 << 20];
    std::io::Read::read_exact(&mut slow.stream, &mut taken).expect("it goes on");
    drop(slow);
    wait_until(|| site.get("/").text() == "quick");
}

#[test]
fn a_window_that_is_not_opened_holds_back_its_body_alone_and_has_its_time() {
    let (addr, seen) = tcp(|_, mut peer| {
        // Streams have windows of 1,000 bytes, which are opened for none.
        peer.begin(&setting(4, 1000));
        while let Some(asked) = peer.next(HEADERS) {
            if asked.flags & END_STREAM != 0 {
                peer.say(&response(asked.stream, "quick"));
            }
        }
    });
    let site = h2c(addr, ", retries = false, health = false, timeouts = { send = \"1 s\" }");
    assert_eq!(site.get("/").text(), "quick");
    let mut client = Client::new(site.addr);
    client.ask("POST /", "Content-Length: 100000\r\n", &[b'x'; 100_000]);
    for _ in 0..5 {
        assert_eq!(site.get("/").text(), "quick");
    }
    let (reply, time) = timed(|| client.reply());
    assert!(reply.status == 504 && time < SOON, "{} {time:?}", reply.status);
    // As nothing has come on that connection since, further requests may use another.
    assert_eq!(site.get("/").text(), "quick");
    assert!(seen.accepted() <= 2);
}

#[test]
fn a_request_whose_client_leaves_is_reset_and_the_connection_stays() {
    let resets = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&resets);
    let (addr, seen) = tcp(move |_, mut peer| {
        peer.begin(&frame(SETTINGS, 0, 0, b""));
        while let Some(got) = peer.frame() {
            match got.kind {
                RST_STREAM => drop(counted.fetch_add(1, Ordering::SeqCst)),
                HEADERS if got.stream > 1 => drop(peer.say(&response(got.stream, "good"))),
                _ => {}
            }
        }
    });
    let site = h2c(addr, ", health = false");
    let mut client = Client::new(site.addr);
    client.ask("GET /", "", b"");
    wait_until(|| seen.accepted() == 1);
    std::thread::sleep(Duration::from_millis(100));
    drop(client);
    wait_until(|| resets.load(Ordering::SeqCst) == 1);
    assert_eq!((site.get("/").text().as_str(), seen.accepted()), ("good", 1));
}

#[test]
fn interim_responses_trailers_and_pings_are_passed_on_and_answered() {
    let (addr, _) = tcp(|_, mut peer| {
        peer.begin(&frame(SETTINGS, 0, 0, b""));
        while let Some(asked) = peer.next(HEADERS) {
            let stream = asked.stream;
            let wants = asked.payload.windows(8).any(|part| part == b"trailers");
            assert!(wants, "TE is passed on: {}", asked.payload.escape_ascii());
            peer.say(&frame(PING, 0, 0, b"12345678"));
            let pong = loop {
                let got = peer.frame().expect("an answer");
                if got.kind == PING {
                    break got;
                }
            };
            assert_eq!((pong.flags, &pong.payload[..]), (1, &b"12345678"[..]));
            let head = [(":status", "200"), ("content-type", "application/grpc")];
            let all = [
                frame(HEADERS, END_HEADERS, stream, &fields(&[(":status", "103"), ("link", "</a.css>")])),
                frame(HEADERS, END_HEADERS, stream, &fields(&head)),
                frame(DATA, 0, stream, b"mess"),
                frame(DATA, 8, stream, &[&[3][..], b"age", &[0; 3]].concat()),
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields(&[("grpc-status", "0")])),
            ];
            peer.say(&all.concat());
        }
    });
    let site = h2c(addr, "");
    let mut client = Client::new(site.addr);
    for _ in 0..2 {
        client.ask("POST /", "Content-Length: 4\r\nTE: trailers\r\nConnection: TE\r\n", b"body");
        let text = client.until("grpc-status: 0\r\n\r\n").to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 103 early hints\r\n") && text.contains("link: </a.css>\r\n"), "{text}");
        assert!(text.contains("content-type: application/grpc\r\n"), "{text}");
    }
}

#[test]
fn a_websocket_is_refused_in_words_where_the_upstream_has_no_tunnels() {
    let (addr, _) = telling(frame(SETTINGS, 0, 0, b""));
    let site = h2c(addr, ", health = false");
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    assert_eq!(site.ask("GET", "/chat", fields).status, 501);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_websocket_of_http1_is_a_tunnel_over_http2() {
    let (addr, seen) = tcp(|_, mut peer| {
        peer.begin(&setting(8, 1));
        let asked = peer.next(HEADERS).expect("a request");
        let text = String::from_utf8_lossy(&asked.payload).into_owned();
        assert!(text.contains("CONNECT") && text.contains(":protocol\twebsocket"), "{text:?}");
        assert!(!text.contains("sec-websocket-key"), "{text:?}");
        peer.say(&frame(HEADERS, END_HEADERS, asked.stream, &fields(&[(":status", "200")])));
        peer.say(&frame(DATA, 0, asked.stream, b"hello"));
        while let Some(got) = peer.next(DATA) {
            peer.say(&frame(DATA, 0, asked.stream, &got.payload));
            if got.flags & END_STREAM != 0 {
                peer.say(&frame(DATA, END_STREAM, asked.stream, b"end"));
                peer.rest();
                return;
            }
        }
    });
    let site = h2c(addr, "");
    let mut client = Client::new(site.addr);
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    client.ask("GET /chat", fields, b"");
    let head = client.until("hello");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // The example of RFC 6455 section 1.3.
    assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
    client.send("ping");
    client.until("ping");
    client.stream.shutdown(std::net::Shutdown::Write).expect("ends");
    assert_eq!(client.rest().0, b"end");
    drop(site);
    wait_until(|| seen.open() == 0);
}

#[test]
fn an_idle_connection_ends_in_its_time_and_a_lost_one_is_made_anew() {
    let (addr, seen) = telling(frame(SETTINGS, 0, 0, b""));
    let site = h2c(addr, ", timeouts = { idle = \"200 ms\" }");
    assert_eq!(site.get("/").text(), "0 1");
    wait_until(|| seen.open() == 0);
    assert_eq!(site.get("/").text(), "1 1");
    let (addr, _) = tcp(|number, mut peer| {
        peer.begin(&frame(SETTINGS, 0, 0, b""));
        let first = peer.next(HEADERS).expect("a request");
        peer.say(&response(first.stream, &number.to_string()));
        // It leaves with the second request, without a word.
        if number == 0 {
            peer.next(HEADERS);
            return;
        }
        peer.rest();
    });
    let site = h2c(addr, "");
    assert_eq!([site.get("/").text(), site.get("/").text()], ["0", "1"]);
}

#[test]
fn servers_are_asked_for_their_health_over_http2() {
    let (addr, _) = tcp(|_, mut peer| {
        peer.begin(&frame(SETTINGS, 0, 0, b""));
        while let Some(asked) = peer.next(HEADERS) {
            let is_probe = asked.payload.windows(7).any(|part| part == b"/health");
            let status = if is_probe { "500" } else { "200" };
            peer.say(&frame(HEADERS, END_HEADERS | END_STREAM, asked.stream, &fields(&[(":status", status)])));
        }
    });
    let (well, _) = telling(frame(SETTINGS, 0, 0, b""));
    let health = "{ path = \"/health\", every = \"200 ms\", fall = 1, failures = 0, percent = 0 }";
    let text = format!(
        "proxy = {{ to = [\"h2c://{addr}\", \"h2c://{well}\"], balance = \"round robin\", health = {health} }}"
    );
    let site = site(&text, |_| {});
    // The bad one is out once it was asked; the other one says what it is.
    wait_until(|| (0..4).all(|_| site.get("/").text().contains(' ')));
}
