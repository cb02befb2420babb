//! Connections with upstreams that the loop's ring receives for, where there is one: nothing is lost or changes its place
//! when they leave it and join it again.

use super::scripted::{Client, proxy, tcp};
use crate::harness::wait_until;
use std::time::Duration;

/// Bytes of a body whose place shows.
fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// Answers with as many bytes as the path says, in pieces where it says so.
fn counting() -> (std::net::SocketAddr, super::scripted::Seen) {
    tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let mut words = asked.target()[1..].split('/');
            let bytes: usize = words.next().and_then(|word| word.parse().ok()).expect("a number");
            let piece: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(usize::MAX);
            let head = format!("HTTP/1.1 200 OK\r\nX-Taken: {}\r\nContent-Length: {bytes}\r\n\r\n", asked.body.len());
            let whole = [head.as_bytes(), &body(bytes)].concat();
            for piece in whole.chunks(piece.min(whole.len())) {
                peer.say(piece);
                if piece.len() < whole.len() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    })
}

#[test]
fn answers_of_all_sizes_come_whole_over_one_connection() {
    let (addr, seen) = counting();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    // A connection that has left the ring for a large answer joins it again after some small ones.
    for round in 0..4 {
        for path in ["/1", "/1000", "/1000/300", "/16384", "/16200", "/40000/20000", "/1"] {
            let bytes: usize = path[1..].split('/').next().and_then(|word| word.parse().ok()).expect("a number");
            assert_eq!(client.get(path).body, body(bytes), "{path}, round {round}");
        }
        for _ in 0..20 {
            assert_eq!(client.get("/700").body, body(700));
        }
        assert_eq!(client.get("/300000").body, body(300_000));
    }
    assert_eq!(seen.accepted(), 1);
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn requests_with_bodies_go_out_whole_beside_those_that_wait_for_the_ring() {
    let (addr, seen) = counting();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    for bytes in [0, 1, 3000, 5000, 100, 200_000, 0, 4000] {
        client.ask("POST /5", &format!("Content-Length: {bytes}\r\n"), &body(bytes));
        let reply = client.reply();
        assert_eq!((reply.field("x-taken"), &reply.body), (Some(bytes.to_string().as_str()), &body(5)));
        assert_eq!(client.get("/20").body, body(20));
    }
    assert_eq!(seen.accepted(), 1);
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn a_client_that_reads_slowly_gets_all_and_holds_no_other_one_up() {
    let (addr, _seen) = counting();
    let site = proxy(addr, "");
    let mut slow = Client::new(site.addr);
    // From here on its connection with the upstream is kept, and on the ring.
    assert_eq!(slow.get("/10").body, body(10));
    slow.ask("GET /1000000", "", b"");
    std::thread::sleep(Duration::from_millis(50));
    let mut other = Client::new(site.addr);
    for _ in 0..50 {
        assert_eq!(other.get("/500").body, body(500));
    }
    assert_eq!(slow.reply().body, body(1_000_000));
    assert_eq!(slow.get("/10").body, body(10));
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn a_client_that_goes_away_has_its_connection_closed() {
    let (addr, seen) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            if asked.target() == "/held" {
                peer.rest();
                return;
            }
            peer.answer("x");
        }
    });
    let site = proxy(addr, "");
    for number in 1..=3 {
        let mut client = Client::new(site.addr);
        assert_eq!(client.get("/").text(), "x");
        client.ask("GET /held", "", b"");
        wait_until(|| seen.accepted() == number);
        std::thread::sleep(Duration::from_millis(20));
        drop(client);
        wait_until(|| seen.ended() == number);
    }
}
