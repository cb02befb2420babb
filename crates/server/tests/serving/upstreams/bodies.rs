//! Bodies that are larger than what the server holds, in both directions, with slow readers on either side.

use super::scripted::{Client, pattern, proxy, receive_long, secure_proxy, send_long, tcp};
use crate::harness::{connect, wait_until};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BYTES: usize = 24 << 20;

/// Sends each body back while it comes, with pauses after so many bytes.
fn echoing(pause_every: usize) -> (std::net::SocketAddr, super::scripted::Seen) {
    tcp(move |_, mut peer| {
        while let Some(head) = peer.head() {
            let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let mut left: usize = length.expect("a length").parse().expect("a number");
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n").as_bytes());
            let mut since = 0;
            while left > 0 {
                let some = peer.some();
                if some.is_empty() || !peer.say(&some) {
                    return;
                }
                left -= some.len();
                since += some.len();
                if since >= pause_every {
                    since = 0;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    })
}

#[test]
fn large_bodies_go_up_and_down_at_once_past_slow_readers() {
    for (upstream_pauses, client_pauses) in [(usize::MAX, usize::MAX), (1 << 20, usize::MAX), (usize::MAX, 1 << 20)] {
        let (addr, _) = echoing(upstream_pauses);
        let site = proxy(addr, "");
        let mut client = Client::new(site.addr);
        client.ask("POST /", &format!("Content-Length: {BYTES}\r\n"), b"");
        let mut writer = client.stream.try_clone().expect("a second handle");
        let thread = std::thread::spawn(move || send_long(&mut writer, BYTES));
        client.until("\r\n\r\n");
        receive_long(&mut client.stream, BYTES, client_pauses);
        thread.join().expect("no panic");
        let counts = site.stop();
        assert_eq!((counts.applications, counts.applications_failed, counts.connections_broken), (1, 0, 0));
    }
}

#[test]
fn what_a_client_does_not_read_is_not_taken_from_the_upstream() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let (addr, seen) = tcp(move |_, mut peer| {
        if peer.request().is_none_or(|asked| asked.target() == "/small") {
            peer.answer("small");
            return;
        }
        peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [&b"10000\r\n"[..], &[b'x'; 1 << 16], b"\r\n"].concat();
        while peer.say(&chunk) {
            counted.fetch_add(1 << 16, Ordering::SeqCst);
        }
    });
    let site = proxy(addr, ", timeouts = { body = \"1 s\" }");
    let mut client = Client::new(site.addr);
    client.ask("GET /", "", b"");
    client.until("\r\n\r\n");
    let mut last = u64::MAX;
    while last != sent.load(Ordering::SeqCst) {
        last = sent.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(500));
    }
    // The rest are the buffers of the kernel.
    assert!(last < 24 << 20, "{last} bytes");
    // The client's slowness is no fault of the upstream, whose time begins anew.
    std::thread::sleep(Duration::from_secs(2));
    let mut block = vec![0; 64 << 10];
    for _ in 0..last >> 16 {
        client.stream.read_exact(&mut block).expect("a body");
    }
    assert_eq!(site.get("/small").text(), "small", "other clients are served");
    drop(client);
    wait_until(|| seen.ended() == 2);
}

#[test]
fn an_upstream_that_answers_early_is_heard_while_the_client_still_sends() {
    for (closes, after_ms) in [(true, 100), (true, 0), (false, 0)] {
        let (addr, seen) = tcp(move |_, mut peer| {
            while peer.head().is_some() {
                peer.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
                if closes {
                    // With unread bytes: the kernel resets the connection.
                    std::thread::sleep(Duration::from_millis(after_ms));
                    return;
                }
                peer.rest();
            }
        });
        let site = proxy(addr, "");
        for fields in ["Content-Length: 50000000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut client = Client::new(site.addr);
            client.ask("POST /", fields, b"");
            let mut writer = client.stream.try_clone().expect("a second handle");
            let thread = std::thread::spawn(move || {
                let chunk = [&b"10000\r\n"[..], &[b'x'; 1 << 16], b"\r\n"].concat();
                // Until the server has had enough.
                while writer.write_all(&chunk).is_ok() {}
            });
            let reply = client.reply();
            assert_eq!((reply.status, reply.text()), (413, "large".to_owned()), "{closes} {after_ms} {fields}");
            drop(client);
            thread.join().expect("no panic");
        }
        wait_until(|| seen.ended() == 2);
        assert_eq!(seen.accepted(), 2, "no connection whose request was not whole is used again");
        assert_eq!(site.stop().applications_failed, 0);
    }
}

#[test]
fn a_stream_of_http2_whose_window_is_closed_holds_up_no_other() {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let bytes = if asked.target() == "/large" { 1 << 20 } else { 5 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            peer.say(&[head.as_bytes(), &pattern(bytes)].concat());
        }
    });
    let site = secure_proxy(addr, ", timeouts = { body = \"1 s\" }");
    super::versions::run("h2", &site, &["window"]);
    assert_eq!(connect(site.addrs[1]).write(b"").expect("it is there"), 0);
    assert_eq!(site.stop().applications_failed, 0);
}
