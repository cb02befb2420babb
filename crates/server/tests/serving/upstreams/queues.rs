//! Requests that wait for a place with an upstream.

use super::scripted::{Client, SOON, Seen, proxy, site, tcp, timed};
use crate::harness::{Site, wait_until};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An upstream that tells of each request, and answers it when it is told to.
pub(super) fn told() -> (SocketAddr, Seen, Receiver<String>, Sender<()>) {
    let (tell, asked) = channel();
    let (release, released) = channel::<()>();
    let (tell, released) = (Mutex::new(tell), Arc::new(Mutex::new(released)));
    let (addr, seen) = tcp(move |_, mut peer| {
        while let Some(asked) = peer.request() {
            tell.lock().expect("no panic").send(asked.target().to_owned()).expect("the test runs");
            if released.lock().expect("no panic").recv().is_err() {
                return;
            }
            peer.answer(asked.target());
        }
    });
    (addr, seen, asked, release)
}

/// A client with a request, once the server has it.
pub(super) fn ask(site: &Site, addr: SocketAddr, target: &str) -> Client {
    let mut client = Client::new(addr);
    client.ask(&format!("GET {target}"), "", b"");
    // A loop that answers what has come later has read what came before; another loop has its time.
    assert!(site.exchange(b"none\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
    std::thread::sleep(Duration::from_millis(50));
    client
}

#[test]
fn they_have_their_turn_in_the_order_of_their_coming_and_the_rest_is_refused() {
    let (addr, seen, asked, release) = told();
    let site = proxy(addr, ", connections = 1, queue = 2, queue_wait = false");
    let mut clients: Vec<Client> = (0..3).map(|number| ask(&site, site.addr, &format!("/{number}"))).collect();
    assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok("/0"));
    let (refused, time) = timed(|| site.get("/3"));
    assert_eq!(refused.status, 503);
    assert!(time < SOON);
    for (number, client) in clients.iter_mut().enumerate() {
        release.send(()).expect("it waits");
        assert_eq!(client.reply().text(), format!("/{number}"));
        if number < 2 {
            assert_eq!(asked.recv_timeout(SOON), Ok(format!("/{}", number + 1)));
        }
    }
    release.send(()).expect("it waits");
    assert_eq!(site.get("/4").status, 200, "there are places again");
    assert_eq!((seen.accepted(), site.stop().applications_failed), (1, 1));
}

#[test]
fn a_client_that_leaves_gives_its_place_up_over_several_loops_as_well() {
    let (addr, _, asked, release) = told();
    let text = format!("proxy = {{ to = \"http://{addr}\", connections = 1, queue = 2, queue_wait = false }}");
    let site = site(&text, |options| options.loops = 2);
    for round in 0..10 {
        // Which loop has which of them is the kernel's to choose.
        let mut first = ask(&site, site.addr, "/first");
        assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok("/first"), "{round}");
        let leaving = ask(&site, site.addr, "/leaves");
        let mut last = ask(&site, site.addr, "/last");
        let cancelled = site.counters.read().applications_cancelled;
        drop(leaving);
        wait_until(|| site.counters.read().applications_cancelled > cancelled);
        // Its place in the queue is free for another one.
        let mut more = ask(&site, site.addr, "/more");
        for (client, next) in [(&mut first, Some("/last")), (&mut last, Some("/more")), (&mut more, None)] {
            release.send(()).expect("it waits");
            assert_eq!(client.reply().status, 200);
            if let Some(next) = next {
                assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok(next));
            }
        }
    }
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn a_client_that_leaves_while_the_upstream_has_its_request_ends_that_at_once() {
    let (tell, asked) = channel();
    let tell = Mutex::new(tell);
    let (addr, seen) = tcp(move |_, mut peer| {
        peer.request();
        tell.lock().expect("no panic").send(()).expect("the test runs");
        peer.rest();
    });
    let site = proxy(addr, ", connections = 1, queue = 1");
    for number in 1..=5 {
        let client = ask(&site, site.addr, "/");
        asked.recv_timeout(SOON).expect("it is asked");
        let (_, time) = timed(|| {
            drop(client);
            wait_until(|| seen.ended() == number);
        });
        assert!(time < Duration::from_secs(3), "{time:?}");
    }
    assert_eq!(site.stop().applications_cancelled, 5);
}

/// Does one of many things to a request, and expects no more than that the client is not left hanging.
fn meddle(addr: SocketAddr, number: u64) {
    let mut client = Client::new(addr);
    let target = format!("/{}", number % 7);
    match number % 5 {
        0 => client.ask(&format!("GET {target}"), "", b""),
        1 => client.ask(&format!("POST {target}"), "Content-Length: 5\r\n", b"he"),
        _ => client.ask(&format!("POST {target}"), "Content-Length: 5\r\n", b"hello"),
    }
    match number % 3 {
        0 => {}
        1 => std::thread::sleep(Duration::from_millis(number % 11)),
        _ if number % 5 != 1 => drop(client.until("\r\n\r\n")),
        _ => {}
    }
}

#[test]
fn no_place_and_no_connection_is_lost_whatever_clients_and_upstreams_do() {
    let (addr, seen) = tcp(|number, mut peer| {
        while let Some(asked) = peer.request() {
            match asked.target() {
                "/0" => return,
                "/1" => {
                    peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
                    return if number % 2 == 0 { peer.reset() } else { peer.end() };
                }
                "/2" => return peer.reset(),
                "/3" => std::thread::sleep(Duration::from_millis(5)),
                "/4" => drop(peer.say(b"stray")),
                _ => {}
            }
            if !peer.answer("good") {
                return;
            }
        }
    });
    let text =
        format!("proxy = {{ to = \"http://{addr}\", connections = 2, queue = 3, queue_wait = false, keep = 1 }}");
    let site = site(&text, |options| options.loops = 2);
    let address = site.addr;
    let threads: Vec<_> = (0..6_u64)
        .map(|thread| std::thread::spawn(move || (0..60).for_each(|number| meddle(address, number * 7 + thread * 13))))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    // All places are there, for requests that come together.
    wait_until(|| site.counters.read().applications >= 300 || seen.open() <= 2);
    for _ in 0..5 {
        wait_until(|| {
            let mut clients: Vec<Client> = (0..2).map(|_| Client::new(address)).collect();
            clients.iter_mut().for_each(|client| client.ask("GET /5", "", b""));
            clients.iter_mut().all(|client| client.reply().status == 200)
        });
    }
    wait_until(|| seen.open() <= 2);
    site.stop();
    wait_until(|| seen.open() == 0);
}

#[test]
fn a_request_waits_in_the_queue_no_longer_than_it_may() {
    let (addr, _, asked, release) = told();
    let site = proxy(addr, ", connections = 1, queue = 9, queue_wait = false, timeouts = { queue = \"1 s\" }");
    let mut first = ask(&site, site.addr, "/first");
    asked.recv_timeout(SOON).expect("it is asked");
    let (reply, time) = timed(|| site.get("/late"));
    assert_eq!(reply.status, 503);
    assert!(time > Duration::from_millis(900) && time < SOON, "{time:?}");
    release.send(()).expect("it waits");
    assert_eq!(first.reply().status, 200);
    release.send(()).expect("it waits");
    assert_eq!(site.get("/next").text(), "/next");
}
