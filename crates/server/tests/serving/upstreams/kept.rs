//! Connections with upstreams that are kept between requests.

use super::scripted::{Client, Peer, proxy, site, tcp, telling};
use super::scripts::{record, variables};
use crate::harness::wait_until;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Holds a request of each client until all are there, each over a connection of its own; then they are answered one
/// after the other.
fn at_once(clients: &mut [Client], seen: &super::scripted::Seen, released: &AtomicUsize) -> Vec<String> {
    released.store(0, Ordering::SeqCst);
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask("GET /held", "", b"");
        wait_until(|| seen.accepted() == number + 1);
    }
    let answer = |(number, client): (usize, &mut Client)| {
        released.store(number + 1, Ordering::SeqCst);
        client.reply().text()
    };
    clients.iter_mut().enumerate().map(answer).collect()
}

/// Answers with the number of the connection, `/held` only once that is released.
fn holding() -> (SocketAddr, super::scripted::Seen, Arc<AtomicUsize>) {
    let release = Arc::new(AtomicUsize::new(usize::MAX));
    let released = Arc::clone(&release);
    let (addr, seen) = tcp(move |number, mut peer| {
        while let Some(asked) = peer.request() {
            if asked.target() == "/held" {
                wait_until(|| released.load(Ordering::SeqCst) > number);
            }
            peer.answer(&number.to_string());
        }
    });
    (addr, seen, release)
}

#[test]
fn the_one_that_has_been_idle_longest_is_used_and_no_more_are_kept_than_may_be() {
    let (addr, seen, release) = holding();
    let site = proxy(addr, ", keep = 2");
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(site.addr)).collect();
    let answers = at_once(&mut clients, &seen, &release);
    assert_eq!(answers, ["0", "1", "2", "3"]);
    // The first two came back first and are kept.
    wait_until(|| seen.ended() == 2);
    let again: Vec<String> = (0..4).map(|_| clients[0].get("/").text()).collect();
    assert_eq!(again, ["0", "1", "0", "1"]);
    assert_eq!((seen.accepted(), seen.open()), (4, 2));
    site.stop();
    wait_until(|| seen.open() == 0);
}

/// Answers a request of FastCGI with a text.
fn answer_as_a_program(peer: &mut Peer, text: &str) {
    peer.say(&[record(6, format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes()), record(3, &[0; 8])].concat());
}

#[test]
fn of_programs_that_which_worked_last_is_asked_first() {
    let release = Arc::new(AtomicUsize::new(usize::MAX));
    let released = Arc::clone(&release);
    let (addr, seen) = tcp(move |number, mut peer| {
        while let Some((asked, _)) = variables(&mut peer) {
            if asked["REQUEST_URI"] == "/held" {
                wait_until(|| released.load(Ordering::SeqCst) > number);
            }
            answer_as_a_program(&mut peer, &number.to_string());
        }
    });
    let site = site(&format!("fastcgi = {{ to = \"{addr}\", connections = 3, endings = [] }}"), |_| {});
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(site.addr)).collect();
    assert_eq!(at_once(&mut clients, &seen, &release), ["0", "1", "2"]);
    let again: Vec<String> = (0..4).map(|_| clients[0].get("/").text()).collect();
    assert_eq!(again, ["2", "2", "2", "2"]);
    assert_eq!(seen.accepted(), 3);
}

#[test]
fn what_a_program_sends_over_tcp_is_acknowledged_at_once_while_more_is_to_come() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&times);
    let (addr, _) = tcp(move |_, mut peer| {
        while variables(&mut peer).is_some() {
            peer.say(&record(6, b"Content-Type: text/plain\r\nContent-Length: 12\r\n\r\nfirst "));
            noted.lock().expect("times").push(peer.time_to_acknowledgement());
            peer.say(&[record(6, b"second"), record(3, &[0; 8])].concat());
        }
    });
    let site = site(&format!("fastcgi = {{ to = \"{addr}\", connections = 1, endings = [] }}"), |_| {});
    let mut client = Client::new(site.addr);
    (0..30).for_each(|_| assert_eq!(client.get("/").text(), "first second"));
    // A kernel that delays acknowledgements does so for 40 ms, once the first ones of a connection have gone.
    let least = times.lock().expect("times")[20..].iter().copied().min().expect("times");
    assert!(least < Duration::from_millis(20), "{least:?}");
}

#[test]
fn none_is_kept_where_that_is_said_or_the_upstream_says_so() {
    let (addr, seen) = telling();
    let site = proxy(addr, ", keep = 0");
    let mut client = Client::new(site.addr);
    (0..3).for_each(|number| assert!(client.get("/").text().starts_with(&number.to_string())));
    wait_until(|| seen.ended() == 3);
    // By a field, by an old version, and by bytes that belong to no response, with it or behind it.
    for (head, behind) in [
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", ""),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
    ] {
        let (addr, seen) = tcp(move |_, mut peer| {
            if peer.head().is_some() && peer.say(head.as_bytes()) && !behind.is_empty() {
                std::thread::sleep(Duration::from_millis(50));
                peer.say(behind.as_bytes());
            }
            // The server closes, and not this side.
            peer.rest();
        });
        let site = proxy(addr, "");
        let mut client = Client::new(site.addr);
        for number in 1..=3 {
            assert_eq!(client.get("/").text(), "x", "{head}");
            wait_until(|| seen.ended() == number);
        }
        assert_eq!((seen.accepted(), site.stop().applications_failed), (3, 0), "{head}");
    }
}

#[test]
fn one_that_the_upstream_closes_is_closed_at_once() {
    let (addr, seen) = tcp(|_, mut peer| {
        peer.head();
        peer.answer("x");
        std::thread::sleep(Duration::from_millis(50));
        peer.end();
        peer.rest();
    });
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    for number in 1..=5 {
        assert_eq!(client.get("/").text(), "x");
        wait_until(|| seen.ended() == number);
    }
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn one_that_is_idle_for_too_long_is_closed_also_while_the_server_has_no_client() {
    let (addr, seen) = telling();
    let site = proxy(addr, ", timeouts = { idle = \"1 s\" }");
    drop(Client::new(site.addr).get("/"));
    wait_until(|| seen.ended() == 1);
    // The server has slept without end since.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(site.get("/").status, 200);
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn a_request_that_comes_after_a_long_silence_has_all_of_its_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let _seen = super::scripted::unix(&path, |_, mut peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(800));
            peer.answer("late");
        }
    });
    let text = format!("proxy = {{ to = \"unix:{}\", keep = 0, timeouts = {{ head = \"2 s\" }} }}", path.display());
    let site = site(&text, |_| {});
    assert_eq!(site.get("/").text(), "late");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(site.get("/").text(), "late");
}

#[test]
fn a_large_response_leaves_its_connection_for_the_next_request() {
    let (addr, seen) = tcp(|number, mut peer| {
        while let Some(asked) = peer.request() {
            let bytes: usize = asked.target()[1..].parse().expect("a number");
            let head = format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\nContent-Length: {bytes}\r\n\r\n");
            peer.say(&[head.as_bytes(), &vec![b'x'; bytes]].concat());
        }
    });
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    for bytes in [10, 65_000, 65_536, 131_072, 300_000, 1 << 20] {
        assert_eq!(client.get(&format!("/{bytes}")).body.len(), bytes);
        assert_eq!(client.get("/1").body, b"x");
    }
    assert_eq!(seen.accepted(), 1);
}

#[test]
fn a_request_over_a_connection_that_was_just_closed_is_sent_once_more_if_it_may() {
    // Each connection answers one request, reads the next one, and closes; the third answers all.
    let (addr, seen) = tcp(|number, mut peer| {
        let answered = if number == 0 || number == 2 { 1 } else { usize::MAX };
        for _ in 0..answered {
            if peer.request().is_none() {
                return;
            }
            peer.answer(&number.to_string());
        }
        peer.request();
    });
    let site = proxy(addr, ", retries = false, health = false");
    let mut client = Client::new(site.addr);
    assert_eq!(client.get("/").text(), "0");
    assert_eq!(client.get("/").text(), "1", "another connection takes it");
    assert_eq!(seen.accepted(), 2);
    let (addr, seen) = tcp(|number, mut peer| {
        peer.request();
        peer.answer(&number.to_string());
        peer.request();
    });
    let posts = proxy(addr, ", retries = false, health = false");
    let mut client = Client::new(posts.addr);
    assert_eq!(client.get("/").text(), "0");
    // The upstream may have done what it was asked.
    client.ask("POST /", "Content-Length: 2\r\n", b"ab");
    assert_eq!(client.reply().status, 502);
    assert_eq!(seen.accepted(), 1);
    assert_eq!(posts.stop().applications_failed, 1);
}

#[test]
fn a_new_connection_that_closes_without_a_byte_is_an_error_and_no_request_is_sent_twice() {
    let (addr, seen) = tcp(|_, mut peer| drop(peer.request()));
    let site = proxy(addr, ", retries = false, health = false");
    let mut client = Client::new(site.addr);
    assert_eq!(client.get("/").status, 502);
    assert_eq!(seen.accepted(), 1);
}
