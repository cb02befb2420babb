//! An observer sees every request and every byte, and nothing else.

use crate::server;

use server::{Server, load};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use weir_load::{ClientRequest, Observer, Outcome};

#[derive(Debug, Default)]
struct Seen {
    begins: Vec<u64>,
    open: i64,
    opened: u64,
    pending: HashMap<u64, Vec<u8>>,
    responses: Vec<(Outcome, Vec<u8>)>,
    times: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Watch(Arc<Mutex<Seen>>);

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        self.0.lock().expect("no panic before").begins.push(at_ns);
    }

    fn opens(&mut self, _connection: u64) {
        let mut seen = self.0.lock().expect("no panic before");
        seen.open += 1;
        seen.opened += 1;
    }

    fn closes(&mut self, _connection: u64) {
        self.0.lock().expect("no panic before").open -= 1;
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        self.0.lock().expect("no panic before").pending.entry(connection).or_default().extend_from_slice(bytes);
    }

    fn request(&mut self, request: &ClientRequest) {
        let mut seen = self.0.lock().expect("no panic before");
        let bytes = seen.pending.remove(&request.connection).unwrap_or_default();
        seen.responses.push((request.outcome, bytes));
        seen.times.push((request.started_ns, request.done_ns));
    }
}

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn every_request_and_every_byte_is_seen() {
    let server = Server::answering(RESPONSE);
    let watch = Watch::default();
    let mut options = server.options(100);
    options.connections = 4;
    options.keep_alive = false;
    options.observers = vec![Box::new(watch.clone())];
    let report = load(options);
    let seen = watch.0.lock().expect("no panic before");
    assert_eq!((report.requests, seen.responses.len(), seen.opened, seen.open), (100, 100, 100, 0));
    assert!(seen.responses.iter().all(|(outcome, bytes)| *outcome == Outcome::Done && bytes == RESPONSE.as_bytes()));
    let [begin] = seen.begins[..] else { panic!("one begin: {:?}", seen.begins) };
    assert!(seen.times.iter().all(|(started, done)| begin <= *started && started < done));
}

#[test]
fn what_came_of_a_response_that_broke_off_is_seen_too() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
    });
    let watch = Watch::default();
    let mut options = server.options(3);
    options.observers = vec![Box::new(watch.clone())];
    load(options);
    let seen = watch.0.lock().expect("no panic before");
    assert_eq!(seen.responses.len(), 3);
    assert!(seen.responses.iter().all(|(outcome, bytes)| *outcome == Outcome::ShortBody && bytes.ends_with(b"hello")));
}

#[test]
fn a_request_given_word_for_word_arrives_so() {
    let given = "GET /as-it-is HTTP/1.0\r\nX-Odd:  two spaces \r\nHost: elsewhere\r\n\r\n";
    let server = Server::start(move |peer| {
        let echo = peer.request().is_some_and(|request| request == given);
        peer.send(if echo { b"HTTP/1.0 200 OK\r\n\r\n" } else { b"HTTP/1.0 400 No\r\n\r\n" });
    });
    let mut options = server.options(2);
    options.keep_alive = false;
    options.verbatim = Some(given.as_bytes().to_vec());
    assert_eq!(load(options).status, [(200, 2)]);
}

#[test]
fn each_thread_needs_an_observer_of_its_own() {
    let server = Server::answering(RESPONSE);
    let mut options = server.options(2);
    (options.connections, options.threads) = (2, 2);
    options.observers = vec![Box::new(Watch::default())];
    assert!(options.check().is_err());
    options.observers.push(Box::new(Watch::default()));
    assert!(options.check().is_ok());
}
