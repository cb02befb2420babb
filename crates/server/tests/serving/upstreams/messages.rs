//! Requests and responses in every framing, as both sides see them.

use super::scripted::{Asked, Client, Peer, pattern, proxy, site, tcp, telling, unix};
use crate::harness::{Reply, Site};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Answers in the way that the path says, and has what was asked in a field.
fn answer(peer: &mut Peer, asked: &Asked) -> bool {
    let sum: u64 = asked.body.iter().map(|byte| u64::from(*byte)).sum();
    let framing = asked.field("transfer-encoding").or(asked.field("content-length")).unwrap_or("none");
    let told = format!(
        "X-Asked: {} {framing} {} {sum}\r\nX-Trailers: {}\r\n",
        asked.line(),
        asked.body.len(),
        asked.trailers.trim()
    );
    let say = |head: &str, body: &[u8]| [format!("HTTP/1.1 {head}\r\n{told}\r\n").as_bytes(), body].concat();
    let large = pattern(200_000);
    let is_head = asked.line().starts_with("HEAD");
    let body = |body: &[u8]| if is_head { Vec::new() } else { body.to_vec() };
    let bytes = match asked.target() {
        "/length" => say("200 Fine\r\nContent-Length: 5", &body(b"hello")),
        "/large" => say("200 OK\r\nContent-Length: 200000", &body(&large)),
        "/chunked" => say(
            "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum",
            &body(b"2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 5\r\n\r\n"),
        ),
        "/close" => say("200 OK", &body(b"hello")),
        "/old" => [&b"HTTP/1.0"[..], &say("200 OK", &body(b"hello"))["HTTP/1.0".len()..]].concat(),
        "/204" => say("204 No Content", b""),
        "/304" => say("304 Not Modified\r\nContent-Length: 99\r\nETag: \"e\"", b""),
        _ => say("404 Not Found\r\nContent-Length: 0", b""),
    };
    peer.say(&bytes) && !matches!(asked.target(), "/close" | "/old")
}

fn answering() -> (SocketAddr, super::scripted::Seen) {
    tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            if !answer(&mut peer, &asked) {
                return;
            }
        }
    })
}

fn parse(received: &[u8]) -> Reply {
    let mut reply = Reply::parse_head(received);
    reply.0.body = reply.1.to_vec();
    reply.0
}

/// Sends a request with a close, and reads to the end.
fn ask(site: &Site, line: &str, fields: &str, body: &[u8]) -> Reply {
    let request = [format!("{line}\r\nHost: a.org\r\nConnection: close\r\n{fields}\r\n").as_bytes(), body].concat();
    parse(&site.exchange(&request))
}

#[test]
fn requests_of_every_framing_reach_the_upstream() {
    let (addr, _) = answering();
    let site = proxy(addr, "");
    let large = pattern(300_000);
    let sum = |body: &[u8]| body.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let chunked =
        [b"5;x=y\r\nhello\r\n493e0\r\n", &large[..], b"\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n"].concat();
    let length = |body: &[u8]| format!("Content-Length: {}\r\n", body.len());
    let cases: [(&str, String, &[u8], String, &str); 8] = [
        ("GET /length HTTP/1.1", String::new(), b"", "GET /length HTTP/1.1 none 0 0".to_owned(), ""),
        ("GET /length HTTP/1.0", String::new(), b"", "GET /length HTTP/1.1 none 0 0".to_owned(), ""),
        ("POST /length HTTP/1.1", String::new(), b"", "POST /length HTTP/1.1 0 0 0".to_owned(), ""),
        ("POST /length HTTP/1.1", length(b"hello"), b"hello", "POST /length HTTP/1.1 5 5 532".to_owned(), ""),
        ("POST /length HTTP/1.0", length(b"hello"), b"hello", "POST /length HTTP/1.1 5 5 532".to_owned(), ""),
        (
            "PUT /length HTTP/1.1",
            length(&large),
            &large,
            format!("PUT /length HTTP/1.1 300000 300000 {}", sum(&large)),
            "",
        ),
        (
            "POST /length HTTP/1.1",
            "Transfer-Encoding: chunked\r\n".to_owned(),
            &chunked,
            format!("POST /length HTTP/1.1 chunked 300005 {}", sum(&large) + 532),
            "X-Sum: 7",
        ),
        ("DELETE /length HTTP/1.1", length(b"x"), b"x", "DELETE /length HTTP/1.1 1 1 120".to_owned(), ""),
    ];
    for (line, fields, body, expected, trailers) in cases {
        let reply = ask(&site, line, &fields, body);
        assert_eq!((reply.status, reply.field("x-asked")), (200, Some(&*expected)), "{line} {fields}");
        assert_eq!((reply.text(), reply.field("x-trailers")), ("hello".to_owned(), Some(trailers)), "{line}");
    }
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed, counts.connections_broken), (8, 0, 0), "{counts:?}");
}

#[test]
fn responses_of_every_framing_reach_the_client() {
    let (addr, _) = answering();
    let site = proxy(addr, "");
    for version in ["1.0", "1.1"] {
        for method in ["GET", "HEAD"] {
            for target in ["/length", "/large", "/chunked", "/close", "/old", "/204", "/304"] {
                let reply = ask(&site, &format!("{method} {target} HTTP/{version}"), "", b"");
                let what = format!("{method} {target} {version} {reply:?}");
                // What is whole before its head has gone has a length in place of chunks.
                let is_short = reply.field("content-length") == Some("5") && matches!(target, "/close" | "/old");
                let is_framed = version == "1.1" && matches!(target, "/chunked" | "/close" | "/old") && !is_short;
                let status = match target {
                    "/204" => 204,
                    "/304" => 304,
                    _ => 200,
                };
                assert_eq!(reply.status, status, "{what}");
                assert_eq!(reply.field("transfer-encoding").is_some(), is_framed, "{what}");
                let body = match target {
                    _ if method == "HEAD" || status != 200 => Vec::new(),
                    "/chunked" if is_framed => b"5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n".to_vec(),
                    _ if is_framed => b"5\r\nhello\r\n0\r\n\r\n".to_vec(),
                    "/large" => pattern(200_000),
                    _ => b"hello".to_vec(),
                };
                let is_same = reply.body == body || without_sizes(&reply.body) == without_sizes(&body);
                assert!(is_same, "{method} {target} {version} {} bytes", reply.body.len());
                assert!(reply.field("date").is_some() && reply.field("x-asked").is_some(), "{what}");
            }
        }
    }
    assert_eq!(site.stop().applications_failed, 0);
}

/// Small chunked bodies, wherever they are cut into chunks.
fn without_sizes(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.split("\r\n").filter(|line| !line.chars().all(|digit| digit.is_ascii_digit())).collect()
}

#[test]
fn one_connection_of_a_client_takes_responses_of_all_framings() {
    let (addr, seen) = answering();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    // In one piece: the responses keep their order.
    let targets = ["/length", "/204", "/304", "/large", "/length"];
    targets.iter().for_each(|target| client.ask(&format!("GET {target}"), "", b""));
    for target in targets {
        let reply = crate::harness::read_reply(&mut client.stream, target == "/304");
        let bytes = match target {
            "/length" => 5,
            "/large" => 200_000,
            _ => 0,
        };
        assert_eq!(reply.body.len(), bytes, "{target}");
    }
    client.ask("GET /chunked", "", b"");
    client.until("0\r\nX-Sum: 5\r\n\r\n");
    client.ask("HEAD /chunked", "", b"");
    client.until("\r\n\r\n");
    assert_eq!(client.get("/length").text(), "hello");
    assert_eq!(seen.accepted(), 1, "one connection with the upstream does for all of them");
}

#[test]
fn a_unix_socket_is_asked_and_a_path_stands_for_another_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let targets = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&targets);
    let seen = unix(&path, move |_, mut peer| {
        while let Some(asked) = peer.request() {
            noted.lock().expect("no panic").push(asked.target().to_owned());
            peer.answer("unix");
        }
    });
    let (addr, _) = telling();
    let site = site(
        &format!(
            "proxy = \"unix:{}\"\n[[host.path]]\nprefix = \"/api/\"\nproxy = \"http://{addr}/base\"",
            path.display()
        ),
        |_| {},
    );
    for target in ["/", "/a%20b?c=d", "/api"] {
        assert_eq!(site.get(target).text(), "unix", "{target}");
    }
    assert_eq!(*targets.lock().expect("no panic"), ["/", "/a%20b?c=d", "/api"]);
    assert_eq!(seen.accepted(), 1);
    for (target, asked) in [("/api/", "/base/"), ("/api/x/y?q", "/base/x/y?q"), ("/api/%e4", "/base/%E4")] {
        let reply = site.get(target);
        assert!(reply.text().contains(&format!(" GET {asked} HTTP/1.1 ")), "{target}: {}", reply.text());
    }
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn an_interim_response_passes_except_to_old_clients_and_a_word_is_given_for_a_body() {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            assert_eq!(asked.field("expect"), None, "the server has answered that");
            peer.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
            std::thread::sleep(std::time::Duration::from_millis(100));
            // The next one comes together with the response.
            peer.say(
                b"HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
            );
        }
    });
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    for _ in 0..2 {
        client.ask("POST /", "Expect: 100-continue\r\nContent-Length: 5\r\n", b"");
        assert_eq!(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello");
        assert_eq!(client.until("\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
        assert_eq!(client.until("\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n");
        assert_eq!(client.reply().text(), "body");
    }
    let received = site.exchange(b"GET / HTTP/1.0\r\n\r\n");
    assert!(
        received.starts_with(b"HTTP/1.1 200 ") && received.ends_with(b"\r\n\r\nbody"),
        "{}",
        String::from_utf8_lossy(&received)
    );
    assert_eq!(site.stop().applications_failed, 0);
}
