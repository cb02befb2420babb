//! Several requests: in their order, with their weights, over one host and over several.

use crate::server;

use server::{Server, load, load_with_events};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::{ListedRequest, Options, Order, Request, Requests, Schedule, StopRule, Url, Version};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The first lines of requests, and the rest of them, in the order in which a server got them.
type Log = Arc<Mutex<Vec<(String, String)>>>;

/// A server that notes what it is asked; `answer` makes the response of the request's number on its connection.
fn noting(answer: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> (Server, Log) {
    let log = Log::default();
    let noted = Arc::clone(&log);
    let server = Server::start(move |peer| {
        let mut number = 0;
        while let Some(request) = peer.request() {
            let (line, rest) = request.split_once("\r\n").expect("a first line");
            noted.lock().expect("no panic").push((line.to_owned(), rest.to_owned()));
            if !peer.send(answer(number, line).as_bytes()) {
                break;
            }
            number += 1;
        }
    });
    (server, log)
}

fn listed(server: &Server, method: &str, path: &str, weight: u32) -> ListedRequest {
    let request = Request { method: method.to_owned(), name: weight, ..Request::default() };
    ListedRequest { url: server.url().with_target(path), request, weight }
}

fn asked(log: &Log) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (line, _) in log.lock().expect("no panic").iter() {
        *counts.entry(line.clone()).or_default() += 1;
    }
    counts
}

fn in_turn(server: &Server, requests: u64) -> Options {
    let mut options = server.options(requests);
    options.requests.list =
        vec![listed(server, "GET", "/a", 1), listed(server, "HEAD", "/bb", 2), listed(server, "POST", "/ccc", 3)];
    options.requests.list[2].request.body = b"body".to_vec();
    options
}

fn answer(_: usize, line: &str) -> String {
    let body = if line.starts_with("HEAD") { "" } else { "hello" };
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}")
}

#[test]
fn requests_are_asked_in_turn_each_with_its_name() {
    for pipeline in [1, 2, 4] {
        let (server, log) = noting(answer);
        let mut options = in_turn(&server, 10);
        options.pipeline = pipeline;
        let (report, connections, requests) = load_with_events(options);
        assert_eq!((report.requests, report.failures(), connections.len()), (10, 0, 1), "{:?}", report.errors);
        let log = log.lock().expect("no panic");
        let lines: Vec<_> = log.iter().map(|(line, _)| line.as_str()).collect();
        let cycle = ["GET /a HTTP/1.1", "HEAD /bb HTTP/1.1", "POST /ccc HTTP/1.1"];
        assert!(lines.iter().eq(cycle.iter().cycle().take(10)), "{lines:?}");
        assert!(requests.iter().map(|request| request.name).eq([1, 2, 3].into_iter().cycle().take(10)));
        // The places in the stream are those of the bytes that the server saw.
        let mut at = 0;
        for (request, (line, rest)) in requests.iter().zip(log.iter()) {
            let bytes = (line.len() + 2 + rest.len()) as u64;
            assert_eq!((request.request_offset, u64::from(request.request_bytes)), (at, bytes), "depth {pipeline}");
            at += bytes;
        }
    }
}

#[test]
fn threads_ask_in_turn_together() {
    let (server, log) = noting(answer);
    let mut options = in_turn(&server, 301);
    (options.connections, options.threads) = (6, 3);
    assert_eq!(load(options).requests, 301);
    let counts: Vec<_> = asked(&log).into_values().collect();
    assert_eq!(counts, [101, 100, 100]);
}

#[test]
fn weights_hold_and_repeat_with_their_seed() {
    let run = |seed, rate: Option<f64>| {
        let (server, log) = noting(|_, _| OK.to_owned());
        let mut options = server.options(4000);
        options.connections = 4;
        options.requests = Requests {
            list: vec![listed(&server, "GET", "/rare", 1), listed(&server, "GET", "/often", 9)],
            order: Order::Weighted { seed },
            ..Requests::default()
        };
        if let Some(rate_per_s) = rate {
            options.schedule = Schedule::Fixed { rate_per_s };
        }
        assert_eq!(load(options).requests, 4000);
        asked(&log)["GET /rare HTTP/1.1"] as f64
    };
    let rare = run(1, None);
    // Five standard deviations of 4000 draws with 0.1.
    assert!((rare - 400.0).abs() < 95.0, "{rare}");
    // Equal, or they differ: not by chance with 4000 draws each.
    assert!((run(1, Some(10_000.0)) - rare).abs() < 0.5);
    assert!((run(2, None) - rare).abs() > 0.5);
}

#[test]
fn a_batch_of_different_requests_is_asked_again_from_where_it_was_cut() {
    // Each connection answers two requests and is then closed without a word.
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&log);
    let server = Server::start(move |peer| {
        for _ in 0..2 {
            let Some(request) = peer.request() else { return };
            let line = request.lines().next().expect("a line").to_owned();
            noted.lock().expect("no panic").push(line.clone());
            peer.send(answer(0, &line).as_bytes());
        }
    });
    let mut options = server.options(8);
    options.pipeline = 4;
    options.requests.list = (0..4).map(|number| listed(&server, "GET", &format!("/{number}"), 1)).collect();
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (8, 0), "{:?}", report.errors);
    let lines = log.lock().expect("no panic").clone();
    let expected: Vec<_> = (0..8).map(|number| format!("GET /{} HTTP/1.1", number % 4)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn several_hosts_keep_connections_of_their_own() {
    let (one, one_log) = noting(|_, _| OK.to_owned());
    let (other, other_log) = noting(|_, _| OK.to_owned());
    for rate in [None, Some(2000.0)] {
        one_log.lock().expect("no panic").clear();
        other_log.lock().expect("no panic").clear();
        let mut options = one.options(300);
        options.connections = 2;
        options.requests.list =
            vec![listed(&one, "GET", "/1", 1), listed(&other, "GET", "/2", 1), listed(&other, "GET", "/3", 1)];
        if let Some(rate_per_s) = rate {
            options.schedule = Schedule::Fixed { rate_per_s };
        }
        let before = (one.connections(), other.connections());
        let (report, connections, _) = load_with_events(options);
        assert_eq!((report.requests, report.failures()), (300, 0), "{:?}", report.errors);
        assert_eq!((asked(&one_log).len(), asked(&one_log)["GET /1 HTTP/1.1"]), (1, 100));
        assert_eq!((asked(&other_log)["GET /2 HTTP/1.1"], asked(&other_log)["GET /3 HTTP/1.1"]), (100, 100));
        // At most two to each, and kept.
        let made = (one.connections() - before.0, other.connections() - before.1);
        assert!((1..=2).contains(&made.0) && (1..=2).contains(&made.1), "{made:?}");
        assert_eq!(connections.len(), made.0 + made.1);
    }
}

#[test]
fn the_queue_of_one_host_does_not_wait_for_another() {
    let slow = Server::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            peer.send(OK.as_bytes());
        }
    });
    let quick = Server::answering(OK);
    let mut options = slow.options(1);
    options.stop = StopRule::Duration(Duration::from_secs(1));
    options.schedule = Schedule::Fixed { rate_per_s: 100.0 };
    options.queue = 10;
    options.requests.list = vec![listed(&slow, "GET", "/slow", 1), listed(&quick, "GET", "/quick", 1)];
    let (report, ..) = load_with_events(options);
    // 50 for the quick one are all answered; of those for the slow one ten wait, the others are dropped.
    assert_eq!(report.requests + report.dropped, 100);
    assert!(report.requests >= 60 && report.dropped >= 30, "{} {}", report.requests, report.dropped);
}

#[test]
fn a_connection_sends_back_the_cookies_that_it_was_given() {
    let (server, log) = noting(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nSet-Cookie: seen={number}; Path=/\r\nSet-Cookie: x=y; Path=/b\r\nContent-Length: 0\r\n\r\n"
        )
    });
    let mut options = server.options(4);
    options.requests = Requests {
        list: vec![listed(&server, "GET", "/a", 1), listed(&server, "GET", "/b", 1)],
        cookies: vec![("first".to_owned(), "1".to_owned())],
        cookie_jar: true,
        ..Requests::default()
    };
    assert_eq!(load(options).requests, 4);
    let cookies: Vec<_> = log
        .lock()
        .expect("no panic")
        .iter()
        .map(|(_, rest)| rest.lines().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or("none").to_owned())
        .collect();
    assert_eq!(cookies, ["first=1", "x=y; first=1; seen=0", "first=1; seen=1", "x=y; first=1; seen=2"]);
}

#[test]
fn a_user_keeps_the_cookies_over_new_connections() {
    let (server, log) = noting(|_, _| "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n".to_owned());
    let mut options = server.options(3);
    options.keep_alive = false;
    options.requests.cookie_jar = true;
    assert_eq!((load(options).requests, server.connections()), (3, 3));
    let with: Vec<_> = log.lock().expect("no panic").iter().map(|(_, rest)| rest.contains("Cookie: a=b\r\n")).collect();
    assert_eq!(with, [false, true, true]);
}

#[test]
fn fixed_cookies_and_old_versions_go_over_the_wire() {
    let (server, log) =
        noting(|_, _| "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n".to_owned());
    let mut options = server.options(2);
    options.request.version = Version::Http10;
    options.request.headers = vec![("Cookie".to_owned(), "own=0".to_owned())];
    options.requests.cookies = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())];
    assert_eq!((load(options).requests, server.connections()), (2, 1));
    let log = log.lock().expect("no panic");
    let (line, rest) = &log[0];
    assert!(line == "GET /path HTTP/1.0" && rest.contains("Connection: keep-alive\r\n"), "{line}\n{rest}");
    assert!(rest.contains("Cookie: own=0; a=1; b=2\r\n"), "{rest}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let server = Server::answering(OK);
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = in_turn(&server, 1);
        change(&mut options);
        options.check().expect_err("refused").to_string()
    };
    let elsewhere = Url::parse("http://elsewhere/").expect("a URL");
    assert!(
        refused(&|options| {
            options.pipeline = 2;
            options.requests.list[0].url = elsewhere.clone();
        })
        .contains("pipelining needs one host")
    );
    assert!(refused(&|options| options.requests.list[0].weight = 0).contains("weight"));
    assert!(refused(&|options| options.requests.order = Order::Listed([3].into())).contains("order"));
    assert!(refused(&|options| options.requests.cookies = vec![("a".into(), "b;c".into())]).contains("cookie"));
}
