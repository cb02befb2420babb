//! Every way in which a response may end, from a real server.

use crate::server;

use server::{Server, load, load_with_events};
use std::time::Duration;
use weir_load::{Io, LoadReport, Request};

fn assert_all_done(report: &LoadReport, requests: u64) {
    assert_eq!((report.requests, report.failures(), report.resent), (requests, 0, 0), "{:?}", report.errors);
    assert_eq!((report.latency.len(), report.first_byte.len()), (requests, requests));
}

#[test]
fn content_length_keeps_the_connection() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let report = load(server.options(50));
    assert_all_done(&report, 50);
    assert_eq!(report.status, [(200, 50)]);
    assert_eq!(report.bytes, 50 * 43);
    assert_eq!((server.connections(), report.connect.len()), (1, 1));
}

#[test]
fn chunks_and_trailers_end_where_they_end() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nT: 1\r\n\r\n",
    );
    let report = load(server.options(20));
    assert_all_done(&report, 20);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_response_may_end_with_its_connection() {
    let server = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
        }
    });
    let report = load(server.options(7));
    assert_all_done(&report, 7);
    assert_eq!((server.connections(), report.connect.len()), (7, 7));
}

#[test]
fn http_1_0_keeps_the_connection_only_when_it_says_so() {
    let closing = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    assert_all_done(&load(closing.options(5)), 5);
    assert_eq!(closing.connections(), 5);
    let keeping = Server::answering("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
    assert_all_done(&load(keeping.options(5)), 5);
    assert_eq!(keeping.connections(), 1);
}

#[test]
fn head_and_bodiless_statuses_have_no_body() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
    let mut options = server.options(5);
    options.request = Request { method: "HEAD".into(), ..Request::default() };
    assert_all_done(&load(options), 5);
    for head in ["204 No Content\r\nX: y", "304 Not Modified\r\nContent-Length: 9"] {
        let response: &'static str = format!("HTTP/1.1 {head}\r\n\r\n").leak();
        assert_all_done(&load(Server::answering(response).options(5)), 5);
    }
}

#[test]
fn interim_responses_are_part_of_the_final_one() {
    let response = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
                    HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx";
    let server = Server::answering(response);
    let (report, _, requests) = load_with_events(server.options(4));
    assert_eq!((report.requests, report.unexpected, report.failures()), (4, 4, 0), "{:?}", report.errors);
    assert_eq!(report.status, [(404, 4)]);
    assert!(requests.iter().all(|request| request.response_bytes == response.len() as u64));
}

#[test]
fn bytes_may_trickle_one_by_one() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" {
                peer.send(&[*byte]);
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let (report, _, requests) = load_with_events(server.options(3));
    assert_all_done(&report, 3);
    for request in requests {
        assert!(request.done_ns - request.first_byte_ns > 5_000_000, "63 pauses of 0.2 ms lie between them");
    }
}

#[test]
fn large_bodies_come_whole() {
    let body = "x".repeat(3_000_000);
    let response: &'static str = format!("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{body}").leak();
    let report = load(Server::answering(response).options(5));
    assert_all_done(&report, 5);
    assert_eq!(report.bytes, 5 * response.len() as u64);
}

#[test]
fn a_body_is_sent_whole_however_slowly_it_is_taken() {
    let server = Server::start(|peer| {
        while let Some(request) = peer.request() {
            std::thread::sleep(Duration::from_millis(50));
            let answer = format!("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Length: {}\r\n\r\n", request.len());
            assert!(request.ends_with("yy") && peer.send(answer.as_bytes()));
        }
    });
    let mut options = server.options(4);
    options.request = Request { method: "POST".into(), body: vec![b'y'; 8_000_000], ..Request::default() };
    let (report, _, requests) = load_with_events(options);
    assert_all_done(&report, 4);
    assert_eq!(report.status, [(201, 4)]);
    for (index, request) in requests.iter().enumerate() {
        assert_eq!(request.request_offset, index as u64 * u64::from(request.request_bytes));
        assert!(request.request_bytes > 8_000_000);
    }
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    let server = Server::start(|peer| {
        if let Some(request) = peer.request() {
            assert!(request.contains("Connection: close\r\n"));
            peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut options = server.options(200);
    options.keep_alive = false;
    options.connections = 4;
    let (report, connections, requests) = load_with_events(options);
    assert_all_done(&report, 200);
    assert_eq!((server.connections(), connections.len(), report.connect.len()), (200, 200, 200));
    for request in &requests {
        let connection = connections.iter().find(|connection| connection.connection == request.connection);
        let connection = connection.expect("a connection for each request");
        assert!(request.opened_connection && request.request_offset == 0 && request.response_offset == 0);
        assert!(request.intended_ns <= connection.connect_start_ns && connection.connected_ns <= request.sent_ns);
        assert!(request.sent_ns <= request.first_byte_ns && request.first_byte_ns <= request.done_ns);
        assert_eq!(connection.remote, server.address);
    }
}

#[test]
fn odd_heads_are_taken_and_told() {
    let server =
        Server::answering("HTTP/1.1 200 OK\r\nX-Long: one\r\n two\r\n\tthree\r\nContent-Length: 5\r\n\r\nhello");
    let report = load(server.options(20));
    assert_all_done(&report, 20);
    let told: Vec<_> = report.tolerated.iter().map(|remark| (remark.words.as_str(), remark.count)).collect();
    assert_eq!(told, [("folded header line", 20)]);
    assert_eq!(server.connections(), 1);
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 5\r\n\r\nhello", "X: y\r\n".repeat(200)).leak();
    assert_all_done(&load(Server::answering(many).options(5)), 5);
}

/// Long responses leave io_uring, on their connections and then altogether; nothing of what comes meanwhile is lost.
#[test]
fn long_responses_go_another_way() {
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    let length = long.len() as u64;
    let count = std::sync::atomic::AtomicU64::new(0);
    // Some short ones first, so that connections are in the ring when the first long one comes.
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            let short = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 100;
            peer.send(if short { b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" } else { long.as_bytes() });
        }
    });
    let mut options = server.options(400);
    options.connections = 8;
    let report = load(options);
    assert_all_done(&report, 400);
    assert_eq!(report.bytes, 100 * 43 + 300 * length);
    assert_eq!((server.connections(), report.generator.io), (8, Io::Epoll));
    // Where nothing else is wanted, they stay.
    let mut options = server.options(50);
    options.io = if options.io == Io::Epoll { Io::Epoll } else { Io::Uring };
    let wanted = options.io;
    let report = load(options);
    assert_all_done(&report, 50);
    assert_eq!((report.bytes, wanted == Io::Uring), (50 * length, report.generator.io == Io::Uring));
}

#[test]
fn the_same_through_epoll() {
    server::again_through_epoll(module_path!(), "the_same_through_epoll");
}
