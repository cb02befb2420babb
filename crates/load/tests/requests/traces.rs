//! Requests that say of which trace they are, and the traces of the slowest in the report.

use crate::server;

use server::http2::{HEADERS, answer};
use server::{Server, load};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::{ListedRequest, LoadError, LoadReport, Options, Order, Protocol, Request, Url};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The traces that a server was told, in their order.
type Told = Arc<Mutex<Vec<String>>>;

/// Which of all requests is answered late.
const LATE: usize = 17;

/// Notes the trace of a request; the late one takes its time.
fn note(told: &Told, value: &str) {
    let parts: Vec<_> = value.split('-').collect();
    assert!(parts.len() == 4 && parts[0] == "00" && parts[3] == "01" && parts[2].len() == 16, "{value}");
    let count = {
        let mut told = told.lock().expect("no panic before");
        told.push(parts[1].to_owned());
        told.len()
    };
    if count == LATE {
        std::thread::sleep(Duration::from_millis(80));
    }
}

fn server() -> (Server, Told) {
    let told = Told::default();
    let noted = Arc::clone(&told);
    let server = Server::start(move |peer| {
        while let Some(request) = peer.request() {
            let lines: Vec<_> = request.lines().filter_map(|line| line.strip_prefix("traceparent: ")).collect();
            assert_eq!(lines.len(), 1, "{request}");
            note(&noted, lines[0]);
            if !peer.send(OK.as_bytes()) {
                return;
            }
        }
    });
    (server, told)
}

/// Each request had a trace of its own, and the late one is the first of the list.
fn check(report: &LoadReport, told: &Told, requests: usize, is_alone: bool) {
    let told = told.lock().expect("no panic before");
    assert_eq!((report.requests as usize, report.failures()), (requests, 0), "{:?}", report.reasons);
    assert_eq!(told.len(), requests);
    assert_eq!(told.iter().collect::<HashSet<_>>().len(), requests, "two requests have the same trace");
    let listed = report.slow_traces.as_ref().expect("traces were asked for");
    assert_eq!(listed.len(), requests.min(10));
    assert!(listed.windows(2).all(|pair| pair[0].latency_ns >= pair[1].latency_ns), "{listed:?}");
    assert!(listed.iter().all(|trace| told.contains(&trace.trace_id) && trace.status == 200), "{listed:?}");
    assert!(!is_alone || listed[0].trace_id == told[LATE - 1], "{listed:?}\n{told:?}");
}

fn traced(server: &Server, requests: u64) -> Options {
    let mut options = server.options(requests);
    options.requests.traces = Some(5);
    options
}

#[test]
fn each_request_says_its_trace_and_the_slowest_are_listed() {
    let (server, told) = server();
    let mut options = traced(&server, 40);
    options.requests.cookies = vec![("a".to_owned(), "b".to_owned())];
    let report = load(options);
    check(&report, &told, 40, true);
    assert_eq!(report.slow_traces.expect("listed")[0].request.as_deref(), Some("GET /path"));
}

#[test]
fn traces_go_with_lists_jars_pipelines_and_several_loops() {
    let listed = |url: Url, target: &str| {
        let request = Request { headers: vec![("Cookie".to_owned(), "x=y".to_owned())], ..Request::default() };
        ListedRequest { url: url.with_target(target), request, weight: 1 }
    };
    for (pipeline, keep_alive, jar) in [(1, true, true), (4, true, false), (1, false, false)] {
        let (server, told) = server();
        let mut options = traced(&server, 60);
        options.requests.list = vec![listed(server.url(), "/a"), listed(server.url(), "/bb?c=d")];
        options.requests.order = Order::InTurn;
        (options.pipeline, options.keep_alive, options.requests.cookie_jar) = (pipeline, keep_alive, jar);
        (options.connections, options.threads) = (4, 2);
        check(&load(options), &told, 60, false);
    }
}

#[test]
fn traces_go_over_http2() {
    for long in [0, 16_300, 40_000] {
        let told = Told::default();
        let noted = Arc::clone(&told);
        let server = Server::start(move |peer| {
            peer.greet(&[]);
            let mut block = Vec::new();
            while let Some(frame) = peer.frame() {
                // The block of a request: its first frame and those that go on with it, of which the last says so.
                if ![HEADERS, 9].contains(&frame.kind) {
                    continue;
                }
                block.extend_from_slice(&frame.payload);
                if frame.flags & 4 == 0 {
                    continue;
                }
                let name = b"\0\x0btraceparent\x37";
                let at = block.windows(name.len()).position(|window| window == name).expect("a trace") + name.len();
                note(&noted, std::str::from_utf8(&block[at..at + 55]).expect("text"));
                block.clear();
                if !peer.send(&answer(frame.stream, b"hello")) {
                    return;
                }
            }
        });
        let mut options = traced(&server, 40);
        options.protocol = Protocol::Http2 { streams: 1 };
        options.url = options.url.with_target(&format!("/{}", "x".repeat(long)));
        options.requests.cookie_jar = long == 0;
        check(&load(options), &told, 40, true);
    }
}

#[test]
fn what_says_its_trace_itself_is_refused() {
    let (server, _) = server();
    let mut options = traced(&server, 1);
    options.request.headers = vec![("Traceparent".to_owned(), "00".to_owned())];
    assert!(matches!(options.check(), Err(LoadError::Options(words)) if words.contains("traceparent")));
    let mut options = traced(&server, 1);
    options.verbatim = Some(b"GET / HTTP/1.1\r\n\r\n".to_vec());
    assert!(options.check().is_err());
    let mut options = traced(&server, 1);
    options.io = weir_load::Io::Uring;
    assert!(options.check().is_err());
    assert_eq!(load(traced(&server, 3)).slow_traces.map(|traces| traces.len()), Some(3));
}
