//! Servers that fail: each failure is counted as what it is, none is hidden, and none hangs the run.

use crate::server;

use server::{Server, load, load_with_events};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use weir_load::{Control, Io, LoadError, LoadReport, Options, Request, StopRule, Url};
use weir_wire::client::Outcome;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn post() -> Request {
    Request { method: "POST".into(), body: b"data".to_vec(), ..Request::default() }
}

fn assert_counts(report: &LoadReport, requests: u64, errors: &[(Outcome, u64)], reconnects: u64) {
    assert_eq!((report.requests, report.errors.as_slice(), report.reconnects), (requests, errors, reconnects));
    assert_eq!(report.latency.len(), requests, "only successes have a latency");
    assert_eq!((report.successes, report.failure_time.len()), (requests, report.failures()));
}

#[test]
fn a_response_that_is_cut_is_an_error() {
    let server = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        }
    });
    let (report, _, requests) = load_with_events(server.options(3));
    assert_counts(&report, 0, &[(Outcome::ShortBody, 3)], 0);
    assert!(requests.iter().all(|request| request.outcome == Outcome::ShortBody && request.response_bytes == 43));
}

#[test]
fn a_fresh_connection_that_is_closed_without_answer_is_an_error() {
    let server = Server::start(|peer| drop(peer.request()));
    assert_counts(&load(server.options(3)), 0, &[(Outcome::Closed, 3)], 0);
}

#[test]
fn a_reset_is_an_error() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200");
        std::thread::sleep(Duration::from_millis(20));
        peer.reset();
    });
    assert_counts(&load(server.options(3)), 0, &[(Outcome::Reset, 3)], 0);
}

#[test]
fn a_kept_alive_connection_that_closes_between_requests_is_replaced() {
    let serve = |peer: &mut server::Peer| {
        // The third request is taken in and never answered, as by a server whose keep-alive time is over.
        for _ in 0..2 {
            if peer.request().is_none() || !peer.send(OK) {
                return;
            }
        }
        peer.request();
    };
    let server = Server::start(serve);
    assert_counts(&load(server.options(9)), 9, &[], 4);
    assert_eq!(server.connections(), 5);
    // The server may have acted on a POST before it closed: that is for the user to judge, so it is an error.
    let server = Server::start(serve);
    let mut options = server.options(9);
    options.request = post();
    assert_counts(&load(options), 6, &[(Outcome::Closed, 3)], 0);
}

#[test]
fn what_is_not_http_is_an_error() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(b"SSH-2.0-OpenSSH_9.2\r\n");
        peer.request();
    });
    assert_counts(&load(server.options(3)), 0, &[(Outcome::Malformed, 3)], 0);
}

#[test]
fn bytes_after_a_response_cost_the_connection_not_the_request() {
    let server = Server::start(|peer| {
        while peer.request().is_some() && peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok surplus") {}
    });
    assert_counts(&load(server.options(5)), 5, &[], 0);
    assert_eq!(server.connections(), 5);
}

/// The same bytes in one packet and in two, with time for the client to take the first: one outcome.
#[test]
fn bytes_after_a_response_count_the_same_however_they_are_cut() {
    let surplus = |first: &'static [u8], second: &'static [u8]| {
        let server = Server::start(move |peer| {
            while peer.request().is_some() && peer.send(first) {
                std::thread::sleep(Duration::from_millis(if second.is_empty() { 0 } else { 20 }));
                if !peer.send(second) {
                    return;
                }
            }
        });
        let report = load(server.options(6));
        assert_counts(&report, 6, &[], report.reconnects);
        let told: Vec<_> = report.tolerated.iter().map(|remark| remark.words.clone()).collect();
        assert_eq!(told, ["bytes behind a response"]);
    };
    surplus(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and these are surplus", b"");
    surplus(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b" and these are surplus");
}

#[test]
fn failures_have_their_reason_in_words() {
    for (answer, outcome, words) in [
        (&b""[..], Outcome::Closed, "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent", Outcome::Closed, "within the head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Outcome::ShortBody, "that its Content-Length says"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", Outcome::ShortBody, "the last chunk"),
        (b"220 mail.example ESMTP\r\n", Outcome::Malformed, "it begins with `220 mail.example`"),
        (b"\x15\x03\x01\x00\x02\x02\x46", Outcome::Malformed, "this port speaks TLS, not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", Outcome::Malformed, "two lengths"),
    ] {
        let server = Server::start(move |peer| {
            if peer.request().is_some() && !answer.is_empty() {
                peer.send(answer);
            }
        });
        let report = load(server.options(3));
        assert_counts(&report, 0, &[(outcome, 3)], 0);
        let reasons: Vec<_> = report.reasons.iter().map(|reason| (reason.outcome, reason.count)).collect();
        assert_eq!(reasons, [(outcome, 3)], "{:?}", report.reasons);
        assert!(report.reasons[0].words.contains(words), "{:?}", report.reasons);
    }
}

#[test]
fn a_server_that_wants_tls_is_told_by_its_400() {
    let server = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
        }
    });
    let report = load(server.options(3));
    assert_eq!(report.status, [(400, 3)]);
    assert!(report.warnings.iter().any(|warning| warning.contains("ask with https://")), "{:?}", report.warnings);
}

#[test]
fn a_server_that_does_not_answer_times_out() {
    let server = Server::start(|peer| {
        peer.request();
        if peer.number % 2 == 0 {
            peer.send(OK);
        }
        peer.request();
    });
    let mut options = server.options(4);
    options.timeout = Duration::from_millis(300);
    let begin = Instant::now();
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.requests, report.failures()), (2, 2), "{:?}", report.errors);
    assert!(report.errors.iter().all(|(kind, _)| *kind == Outcome::TimedOut), "{:?}", report.errors);
    assert!(begin.elapsed() < Duration::from_secs(8));
    for request in requests.iter().filter(|request| request.outcome == Outcome::TimedOut) {
        let waited = request.done_ns - request.started_ns;
        assert!((300_000_000..1_500_000_000).contains(&waited), "{waited}");
    }
}

#[test]
fn a_response_without_end_starves_no_other_connection() {
    let server = Server::start(|peer| {
        let endless = peer.number == 0;
        while peer.request().is_some() {
            if endless {
                peer.send(b"HTTP/1.1 200 OK\r\n\r\n");
                while peer.send(&[b'x'; 1 << 20]) {}
                return;
            }
            peer.send(OK);
        }
    });
    let mut options = server.options(1);
    options.connections = 2;
    options.stop = StopRule::Duration(Duration::from_millis(500));
    options.timeout = Duration::from_millis(800);
    let begin = Instant::now();
    let report = load(options);
    assert!(report.requests > 50, "{}", report.requests);
    assert_eq!(report.errors, [(Outcome::TimedOut, 1)]);
    assert!(begin.elapsed() < Duration::from_secs(8));
}

#[test]
fn an_early_answer_to_a_large_body_is_an_answer() {
    let server = Server::start(|peer| {
        let mut first = [0; 1000];
        let _ = std::io::Read::read(&mut peer.stream, &mut first);
        peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
        std::thread::sleep(Duration::from_millis(50));
    });
    let mut options = server.options(3);
    options.request = Request { body: vec![b'x'; 20_000_000], ..post() };
    let report = load(options);
    assert_eq!((report.requests, report.status.as_slice()), (3, &[(413, 3)][..]), "{:?}", report.errors);
}

#[test]
fn a_port_without_a_listener_ends_the_run() {
    let port = weir_testkit::free_port();
    let options = Options::new(Url::parse(&format!("http://127.0.0.1:{port}/")).expect("a URL"));
    let error = weir_load::run(options, &Control::default()).expect_err("no server listens");
    assert!(matches!(error, LoadError::Unreachable { .. }));
    assert!(error.to_string().contains("does a server listen there?"), "{error}");
}

#[test]
fn a_server_that_goes_away_is_counted_not_fatal() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one connection");
        std::io::Read::read(&mut stream, &mut [0; 1000]).expect("a request");
        std::io::Write::write_all(&mut stream, OK).expect("an answer");
        // Listener and connection go with this thread.
    });
    let mut options = Options::new(Url::parse(&format!("http://{address}/")).expect("a URL"));
    options.connections = 1;
    options.stop = StopRule::Duration(Duration::from_millis(300));
    let report = load(options);
    server.join().expect("it answers");
    assert_eq!(report.requests, 1);
    let refused = report.errors.iter().find(|(kind, _)| *kind == Outcome::Refused).map_or(0, |(_, count)| *count);
    // Tried again each 10 ms, not in a tight loop.
    assert!((5..=60).contains(&refused), "{refused}");
}

#[test]
fn an_unknown_host_is_named() {
    let options = Options::new(Url::parse("http://no-such-host.invalid/").expect("a URL"));
    let error = weir_load::run(options, &Control::default()).expect_err("no such host");
    assert!(matches!(error, LoadError::UnknownHost { .. }));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::new(Url::parse("http://127.0.0.1/").expect("a URL"));
        change(&mut options);
        matches!(options.check(), Err(LoadError::Options(_)))
    };
    assert!(refused(|options| options.connections = 0));
    assert!(refused(|options| options.threads = 11));
    assert!(refused(|options| (options.pipeline, options.keep_alive) = (2, false)));
    assert!(refused(|options| options.stop = StopRule::Requests(0)));
    assert!(refused(|options| options.schedule = weir_load::Schedule::Fixed { rate_per_s: f64::NAN }));
    assert!(!refused(|options| options.pipeline = 2));
    // By io_uring goes what is ready made and in the clear.
    assert!(!refused(|options| (options.io, options.pipeline) = (Io::Uring, 2)));
    assert!(refused(|options| (options.io, options.requests.cookie_jar) = (Io::Uring, true)));
    assert!(refused(|options| (options.io, options.url.encrypted) = (Io::Uring, true)));
}

#[test]
fn the_same_through_epoll() {
    server::again_through_epoll(module_path!(), "the_same_through_epoll");
}
