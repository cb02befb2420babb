//! Requests that wait for a place with an upstream.

use super::scripted::{Client, SOON, Seen, proxy, site, tcp, timed};
use crate::harness::{Site, wait_until};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An upstream that tells of each request, and answers it when it is told to.
fn told() -> (SocketAddr, Seen, Receiver<String>, Sender<()>) {
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
fn ask(site: &Site, addr: SocketAddr, target: &str) -> Client {
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
    let site = proxy(addr, ", connections = 1, queue = 2");
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
    let text = format!("proxy = {{ to = \"http://{addr}\", connections = 1, queue = 2 }}");
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

#[test]
fn a_request_waits_in_the_queue_no_longer_than_it_may() {
    let (addr, _, asked, release) = told();
    let site = proxy(addr, ", connections = 1, queue = 9, timeouts = { queue = \"1 s\" }");
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
