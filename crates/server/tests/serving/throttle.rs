//! A bound on the requests under way for some paths: some are answered, some wait, the others are refused.

use crate::harness;

use harness::{Site, read_reply, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use weir_server::{Counts, Options, Throttle};

const LARGE: usize = 64 << 20;

fn start(queue_max: usize, wait_ms: u64) -> Site {
    let site = Site::start(&[("a.txt", b"free")], |options| {
        options.loops = 2;
        options.throttles = vec![Throttle::new("/t/**", 2, queue_max, wait_ms).expect("small enough")];
    });
    site.write("t/large.bin", &vec![1; LARGE]);
    site.write("t/small.txt", b"small");
    site
}

/// Asks for something that is under way until the client takes it, or closes.
fn hold(site: &Site) -> TcpStream {
    let mut stream = site.connect();
    stream.write_all(b"GET /t/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    stream.read_exact(&mut [0; 1000]).expect("it is answered");
    stream
}

fn ask(site: &Site) -> TcpStream {
    let mut stream = site.connect();
    stream.write_all(b"GET /t/small.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    stream
}

fn until(site: &Site, is_so: impl Fn(&Counts) -> bool) {
    wait_until(|| is_so(&site.counters.read()));
}

#[test]
fn some_are_answered_some_wait_and_the_others_are_refused() {
    let site = start(3, 60_000);
    let mut held = [hold(&site), hold(&site)];
    let mut waiting: Vec<TcpStream> = (1..=3)
        .map(|count| {
            let stream = ask(&site);
            until(&site, |counts| counts.throttle_queued == count);
            stream
        })
        .collect();
    let reply = read_reply(&mut ask(&site), false);
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("60")));
    assert_eq!(reply.field("cache-control"), Some("no-store"));
    assert_eq!(site.get("/a.txt").text(), "free", "other paths know nothing of it");
    // Who goes away makes room for another one.
    drop(waiting.remove(1));
    until(&site, |counts| counts.throttle_gone == 1);
    waiting.push(ask(&site));
    until(&site, |counts| counts.throttle_queued == 4);
    // A client that has its whole response or has gone makes room for one that waits, and that for the next.
    let [first, _second] = &mut held;
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).expect("receives");
    assert!(rest.len() > LARGE - 1000);
    for stream in &mut waiting {
        let reply = read_reply(stream, false);
        assert_eq!((reply.status, reply.text()), (200, "small".to_owned()));
        // The connection goes on.
        stream.write_all(b"GET /t/small.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(stream, false).status, 200);
    }
    drop(held);
    let counts = site.stop();
    assert_eq!((counts.throttle_refused, counts.server_errors), (1, 1));
}

#[test]
fn no_request_waits_longer_than_the_bound() {
    let site = start(3, 800);
    let held = [hold(&site), hold(&site)];
    let began = std::time::Instant::now();
    let reply = read_reply(&mut ask(&site), false);
    let after = began.elapsed().as_millis();
    assert!(reply.status == 503 && (750..5000).contains(&after), "{} after {after} ms", reply.status);
    drop(held);
    // Their places are given back when the server has noticed.
    wait_until(|| site.get("/t/small.txt").status == 200);
}

/// Asks for something large, which it takes none of, and behind it for something that has to wait.
fn block(site: &Site) -> TcpStream {
    let mut stream = site.connect();
    let requests = "GET /t/large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /t/small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(requests.as_bytes()).expect("sends");
    until(site, |counts| counts.throttle_queued == 1);
    // Who waits is looked at meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    stream
}

#[test]
fn who_takes_nothing_of_a_response_does_not_wait_for_the_next_one_before_others() {
    let site = start(3, 6000);
    let held = hold(&site);
    let mut slow = block(&site);
    drop(held);
    let reply = read_reply(&mut ask(&site), false);
    assert_eq!((reply.status, reply.text()), (200, "small".to_owned()));
    // It asks again when it has what was before.
    assert_eq!(read_reply(&mut slow, false).body.len(), LARGE);
    assert_eq!(read_reply(&mut slow, false).text(), "small");
    assert_eq!(site.stop().throttle_refused, 0);
}

#[test]
fn who_closes_before_it_has_taken_a_response_waits_for_none() {
    let site = start(1, 60_000);
    let held = hold(&site);
    drop(block(&site));
    drop(held);
    wait_until(|| site.get("/t/small.txt").status == 200);
    let held = [hold(&site), hold(&site)];
    let queued = site.counters.read().throttle_queued;
    let mut waiting = ask(&site);
    until(&site, |counts| counts.throttle_queued == queued + 1);
    drop(held);
    assert_eq!(read_reply(&mut waiting, false).status, 200);
}

#[test]
fn many_that_wait_get_their_answers_one_after_the_other() {
    let site = start(300, 60_000);
    let held = [hold(&site), hold(&site)];
    let mut waiting: Vec<TcpStream> = (0..200).map(|_| ask(&site)).collect();
    until(&site, |counts| counts.throttle_queued == 200);
    let began = std::time::Instant::now();
    drop(held);
    for stream in &mut waiting {
        assert_eq!(read_reply(stream, false).text(), "small");
    }
    // Each end tells the next one, rather than the look now and then.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert_eq!(site.stop().throttle_refused, 0);
}

/// Asks until a request waits.
fn ask_until_it_waits(site: &Site) -> TcpStream {
    for _ in 0..100 {
        let queued = site.counters.read().throttle_queued;
        let stream = ask(site);
        std::thread::sleep(std::time::Duration::from_millis(200));
        if site.counters.read().throttle_queued > queued {
            return stream;
        }
    }
    panic!("no request waits")
}

#[test]
fn other_bounds_hold_without_a_restart() {
    let site = start(2, 60_000);
    let held = [hold(&site), hold(&site)];
    let reload = |throttles: Vec<Throttle>| {
        let mut options = Options::new(site.directory.path());
        (options.listen, options.throttles) = (vec![site.addr.into()], throttles);
        let restart = site.reloader.reload(options);
        assert!(!restart.contains(&"throttle"), "{restart:?}");
    };
    let bound = |glob: &str, running, queue| Throttle::new(glob, running, queue, 60_000).expect("small enough");
    let wait = |count: u64| {
        let stream = ask(&site);
        until(&site, |counts| counts.throttle_queued == count);
        stream
    };
    let mut waiting = vec![wait(1), wait(2)];
    assert_eq!(read_reply(&mut ask(&site), false).status, 503);
    // One more waits; none of those that wait is answered, as no more may run.
    reload(vec![bound("/a*", 5, 5), bound("/t/**", 2, 3)]);
    waiting.push(ask_until_it_waits(&site));
    waiting.iter().for_each(|stream| {
        stream.set_nonblocking(true).expect("sets");
        assert!(stream.peek(&mut [0]).is_err(), "it waits still");
        stream.set_nonblocking(false).expect("sets");
    });
    // One more runs: those who wait have their turns in it, though two places are taken for long.
    reload(vec![bound("/t/**", 3, 3)]);
    for stream in &mut waiting {
        assert_eq!(read_reply(stream, false).text(), "small");
    }
    // When the bound is removed, waiting requests are answered.
    reload(vec![bound("/t/**", 1, 3)]);
    let mut last = ask_until_it_waits(&site);
    reload(Vec::new());
    assert_eq!(read_reply(&mut last, false).text(), "small");
    assert_eq!(site.get("/t/small.txt").text(), "small");
    drop(held);
}
