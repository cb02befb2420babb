//! Upstreams that do not do their part: what their clients get, and what is left of it.

use super::scripted::{Client, Peer, SOON, Seen, proxy, site, tcp, timed};
use crate::harness::{Reply, Site, wait_until};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// One place, so that a place that is lost is noticed, and no second try.
const ONE: &str = ", connections = 1, queue = 0, retries = false, health = false";

/// Times that are short, all but one.
fn times(phase: &str) -> String {
    let time = |own: &str| if own == phase { "1 s" } else { "20 s" };
    let all = ["connect", "send", "head", "body"].map(|own| format!("{own} = \"{}\"", time(own)));
    format!("{ONE}, timeouts = {{ {} }}", all.join(", "))
}

/// An upstream that does this where it is asked for `/bad`, and answers otherwise.
fn spoiled(script: impl Fn(&mut Peer) -> bool + Send + Sync + 'static) -> (SocketAddr, Seen) {
    tcp(move |_, mut peer| {
        while let Some(head) = peer.head() {
            let is_bad = head.contains(" /bad ");
            if is_bad && script(&mut peer) {
                return peer.reset();
            }
            if is_bad {
                return;
            }
            if !peer.answer("good") {
                return;
            }
        }
    })
}

/// That the upstream is asked as if nothing had been: no place and no connection is lost.
fn is_as_before(site: &Site, seen: &Seen) {
    assert_eq!(site.get("/good").text(), "good");
    wait_until(|| seen.open() <= 1);
}

fn bad(site: &Site) -> (Vec<u8>, bool) {
    let mut client = Client::new(site.addr);
    // Of a connection that stays open the end would come only when it has been idle for long.
    client.ask("GET /bad", "Connection: close\r\n", b"");
    client.rest()
}

#[test]
fn what_is_no_response_is_answered_by_502() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(300));
    let interims = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20);
    for response in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "garbage\r\n\r\n",
        "\0\0\0\x04\x01\0\0\0\0",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 099 Odd\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        &long,
        &many,
        &interims,
    ] {
        let bytes = response.to_owned();
        let (addr, seen) = spoiled(move |peer| {
            peer.say(bytes.as_bytes());
            // The end of its side, without a reset for what the server did not read.
            peer.end();
            peer.rest();
            false
        });
        let site = proxy(addr, ONE);
        let mut client = Client::new(site.addr);
        client.ask("GET /bad", "Connection: close\r\n", b"");
        let text = String::from_utf8_lossy(&client.rest().0).into_owned();
        let text = text.trim_start_matches("HTTP/1.1 103 Early Hints\r\n\r\n");
        let (reply, _) = Reply::parse(text.as_bytes());
        assert_eq!(reply.status, 502, "{response:.80}");
        is_as_before(&site, &seen);
        let counts = site.stop();
        assert_eq!((counts.applications, counts.applications_failed), (2, 1), "{response:.80}");
    }
}

#[test]
fn an_endless_head_and_endless_interim_responses_are_not_read_for_ever() {
    for piece in ["A: b\r\n", "\r\nHTTP/1.1 102 Processing\r\n"] {
        let (addr, seen) = spoiled(move |peer| {
            peer.say(b"HTTP/1.1 102 Processing\r\n");
            while peer.say(piece.as_bytes()) {}
            true
        });
        let site = proxy(addr, ONE);
        let (received, _) = bad(&site);
        let text = String::from_utf8_lossy(&received).into_owned();
        assert!(text.contains("HTTP/1.1 502 ") && text.matches(" 102 ").count() <= 8, "{text:.300}");
        is_as_before(&site, &seen);
    }
}

#[test]
fn a_head_that_trickles_in_has_no_longer_time_than_another() {
    let (addr, seen) = spoiled(|peer| {
        peer.say(b"HTTP/1.1 200 OK\r\nA: ");
        while peer.say(b"x") {
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    });
    let site = proxy(addr, &times("head"));
    let (reply, time) = timed(|| site.get("/bad"));
    assert_eq!(reply.status, 504);
    assert!(time > Duration::from_millis(900) && time < Duration::from_secs(6), "{time:?}");
    is_as_before(&site, &seen);
}

#[test]
fn a_body_that_is_cut_is_told_from_a_whole_one() {
    for (response, framed_to_end) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n|zz\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\nsome", true),
    ] {
        for resets in [false, true] {
            let (addr, seen) = spoiled(move |peer| {
                for piece in response.split('|') {
                    peer.say(piece.as_bytes());
                    std::thread::sleep(Duration::from_millis(150));
                }
                resets
            });
            let site = proxy(addr, ONE);
            let (received, _) = bad(&site);
            let text = String::from_utf8_lossy(&received);
            let has_ended = text.ends_with("0\r\n\r\n");
            assert!(text.contains("HTTP/1.1 200 OK\r\n") && text.contains("some"), "{text}");
            assert_eq!(has_ended, framed_to_end && !resets, "{response} {resets}: {text}");
            // An old client without a length can only be told by a reset.
            let mut client = Client::new(site.addr);
            client.send("GET /bad HTTP/1.0\r\n\r\n");
            let (received, was_reset) = client.rest();
            let text = String::from_utf8_lossy(&received);
            let is_told = was_reset || text.contains("Content-Length: 1000\r\n");
            assert_eq!(is_told, !framed_to_end || resets, "{response} {resets}: {text}");
            is_as_before(&site, &seen);
        }
    }
}

#[test]
fn a_reset_in_place_of_a_response_is_answered_by_502() {
    let (addr, seen) = spoiled(|_| true);
    let site = proxy(addr, ONE);
    assert_eq!(site.get("/bad").status, 502);
    is_as_before(&site, &seen);
}

#[test]
fn a_response_before_its_request_passes_and_a_second_one_reaches_no_client() {
    let (addr, _) = tcp(|_, mut peer| {
        peer.answer("early");
        peer.request();
        peer.answer("evil");
        peer.rest();
    });
    let site = proxy(addr, ONE);
    let mut client = Client::new(site.addr);
    for _ in 0..5 {
        assert_eq!(client.get("/").text(), "early");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn silence_in_any_phase_is_answered_by_504_or_a_cut() {
    let (addr, seen) = spoiled(|peer| {
        peer.rest();
        false
    });
    let site = proxy(addr, &times("head"));
    let (reply, time) = timed(|| site.get("/bad"));
    assert_eq!(reply.status, 504);
    assert!(time > Duration::from_millis(900) && time < Duration::from_secs(6), "{time:?}");
    is_as_before(&site, &seen);
    drop(site);
    let (addr, seen) = spoiled(|peer| {
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
        peer.rest();
        false
    });
    let site = proxy(addr, &times("body"));
    let ((received, _), time) = timed(|| bad(&site));
    assert!(received.ends_with(b"some"));
    assert!(time > Duration::from_millis(900) && time < Duration::from_secs(6), "{time:?}");
    is_as_before(&site, &seen);
    drop(site);
    // It takes nothing of the request.
    let (addr, seen) = spoiled(|_| {
        std::thread::sleep(Duration::from_secs(8));
        false
    });
    let site = proxy(addr, &times("send"));
    let mut client = Client::new(site.addr);
    client.ask("POST /bad", "Content-Length: 50000000\r\n", b"");
    let mut writer = client.stream.try_clone().expect("a second handle");
    std::thread::spawn(move || while std::io::Write::write_all(&mut writer, &[b'x'; 1 << 16]).is_ok() {});
    let (reply, time) = timed(|| client.reply());
    assert_eq!(reply.status, 504);
    assert!(time > Duration::from_millis(900) && time < Duration::from_secs(7), "{time:?}");
    drop(client);
    is_as_before(&site, &seen);
}

#[test]
fn a_client_that_sends_slowly_is_no_fault_of_the_upstream() {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            peer.answer(&asked.body.len().to_string());
        }
    });
    let every = "connect = \"1 s\", send = \"1 s\", head = \"1 s\", body = \"1 s\"";
    let site = proxy(addr, &format!("{ONE}, timeouts = {{ {every} }}"));
    for fields in ["Content-Length: 6\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut client = Client::new(site.addr);
        client.ask("POST /", fields, b"");
        let pieces = if fields.starts_with('C') { ["abc", "def"] } else { ["3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"] };
        for piece in pieces {
            std::thread::sleep(Duration::from_millis(1800));
            client.send(piece);
        }
        assert_eq!(client.reply().text(), "6");
    }
}

/// A port where nothing listens.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address")
}

#[test]
fn an_upstream_that_is_not_there_is_answered_by_502_and_the_next_one_is_tried() {
    let (good, seen) = spoiled(|_| false);
    let site = proxy(closed_port(), ONE);
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 502);
    }
    drop(site);
    for absent in [format!("http://{}", closed_port()), "unix:/nowhere/socket".to_owned()] {
        let (first, second) = (absent, format!("http://{good}"));
        let text =
            format!("proxy = {{ to = [\"{first}\", \"{second}\"], connections = 1, queue = 0, health = false }}");
        let site = super::scripted::site(&text, |_| {});
        let mut client = Client::new(site.addr);
        for _ in 0..4 {
            client.ask("POST /", "Content-Length: 0\r\n", b"");
            assert_eq!(client.reply().text(), "good");
        }
        assert_eq!(site.stop().applications_failed, 0);
    }
    assert!(seen.accepted() <= 8);
}

#[test]
fn an_upstream_whose_queue_of_connections_is_full_is_answered_by_504() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().expect("an address").into()).expect("binds");
    socket.listen(0).expect("listens");
    let addr = socket.local_addr().expect("an address").as_socket().expect("an address");
    // With one more than it may have the kernel answers no further attempt.
    let filling: Vec<_> = (0..3).map(|_| TcpStream::connect_timeout(&addr, Duration::from_millis(300))).collect();
    assert!(filling.iter().any(Result::is_err), "its queue is full");
    let site = proxy(addr, &times("connect"));
    for _ in 0..2 {
        let (reply, time) = timed(|| site.get("/"));
        assert_eq!(reply.status, 504);
        assert!(time > Duration::from_millis(900) && time < Duration::from_secs(6), "{time:?}");
    }
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_asked_again_until_the_time_to_connect_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&socket2::SockAddr::unix(&path).expect("an address")).expect("binds");
    socket.listen(0).expect("listens");
    // Its queue has room for one.
    let _waiting = std::os::unix::net::UnixStream::connect(&path).expect("connects");
    let text = format!(
        "proxy = {{ to = \"unix:{}\", connections = 1, queue = 0, timeouts = {{ connect = \"2 s\" }} }}",
        path.display()
    );
    let site = site(&text, |_| {});
    let (reply, time) = timed(|| site.get("/"));
    assert_eq!(reply.status, 504);
    assert!(time > Duration::from_millis(1500) && time < Duration::from_secs(7), "{time:?}");
    let mut client = Client::new(site.addr);
    client.ask("GET /", "", b"");
    std::thread::sleep(Duration::from_millis(700));
    // The one that waits, and then the server's.
    let first = socket.accept().expect("accepts");
    let (mut second, _) = socket.accept().expect("accepts");
    std::io::Write::write_all(&mut second, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").expect("sends");
    assert_eq!(client.reply().text(), "good");
    drop(first);
    assert_eq!(site.stop().applications_failed, 1);
}

#[test]
fn an_upstream_that_hangs_holds_up_no_file_and_no_other_upstream() {
    let (hanging, _) = tcp(|_, mut peer| drop(peer.rest()));
    let (good, _) = spoiled(|_| false);
    let text = format!(
        "root = \".\"\n[[host.path]]\nprefix = \"/hangs/\"\nproxy = \"http://{hanging}\"\n\
         [[host.path]]\nprefix = \"/good/\"\nproxy = \"http://{good}\""
    );
    let site = site(&text, |_| {});
    let mut hung: Vec<Client> = (0..20).map(|_| Client::new(site.addr)).collect();
    hung.iter_mut().for_each(|client| client.ask("GET /hangs/", "", b""));
    let (_, time) = timed(|| {
        for _ in 0..10 {
            assert_eq!(site.get("/a.txt").text(), "file");
            assert_eq!(site.get("/good/").text(), "good");
        }
    });
    assert!(time < SOON, "{time:?}");
    drop(hung);
    assert_eq!(site.stop().applications_failed, 0);
}
