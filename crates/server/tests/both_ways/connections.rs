//! How connections live: pipelining, slow clients, limits, and the end of the server.

use crate::harness;

use harness::{Reply, Site, connect, read_reply, read_to_end};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

fn large() -> Vec<u8> {
    (0..24_u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let body = |i: usize| vec![b'a' + i as u8; i * 700];
    let files: Vec<(String, Vec<u8>)> = (0..10).map(|i| (format!("{i}.bin"), body(i))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    for memory in [0, 2000, 1 << 20] {
        let site = Site::start(&files, |options| options.cached_file_bytes_max = memory);
        let order: Vec<usize> = (0..200).map(|i| i * 7 % 11).collect();
        let mut requests = Vec::new();
        for i in &order {
            let method = if i % 4 == 3 { "HEAD" } else { "GET" };
            write!(requests, "{method} /{i}.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("memory");
        }
        // The writer must not wait for the reader.
        let mut stream = site.connect();
        let mut writer = stream.try_clone().expect("clones");
        let writing = std::thread::spawn(move || writer.write_all(&requests).expect("sends"));
        for &i in &order {
            let reply = read_reply(&mut stream, i % 4 == 3);
            assert_eq!(reply.status, if i == 10 { 404 } else { 200 });
            if i != 10 && i % 4 != 3 {
                assert_eq!(reply.body, body(i), "{memory}");
            }
        }
        writing.join().expect("no panic");
        assert_eq!(site.counters.read().requests, 200);
    }
}

#[test]
fn a_client_that_pipelines_but_does_not_read_is_held_back() {
    let content = large();
    let site = Site::start(&[("large.bin", &content), ("small.bin", &content[..50_000])], |_| {});
    let mut stream = site.connect();
    for _ in 0..50 {
        stream.write_all(b"GET /small.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    }
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /small.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(site.get("/small.bin").body.len(), 50_000, "others are served meanwhile");
    let bytes = read_to_end(&mut stream);
    let mut rest = bytes.as_slice();
    for i in 0..52 {
        let (reply, after) = Reply::parse(rest);
        assert!(reply.body == if i == 50 { &content[..] } else { &content[..50_000] }, "response {i}");
        rest = after;
    }
    assert!(rest.is_empty());
}

#[test]
fn a_head_may_come_a_byte_at_a_time() {
    let site = Site::start(&[("a.txt", b"hello")], |_| {});
    let mut stream = site.connect();
    let request = b"GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /a.txt HTTP/1.1\nHost: a\n\n";
    for byte in request {
        stream.write_all(&[*byte]).expect("sends");
    }
    assert_eq!(read_reply(&mut stream, false).text(), "hello");
    assert_eq!(read_reply(&mut stream, false).text(), "hello");
    assert_eq!(site.counters.read().requests, 2);
}

#[test]
fn a_slow_reader_gets_every_byte_of_a_large_file() {
    let content = large();
    for memory in [0, 64 << 20] {
        let site = Site::start(&[("large.bin", &content)], |options| options.cached_file_bytes_max = memory);
        let mut stream = site.connect();
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
        let mut bytes = Vec::new();
        let mut piece = vec![0; 700_001];
        loop {
            std::thread::sleep(Duration::from_millis(5));
            match stream.read(&mut piece).expect("reads") {
                0 => break,
                read => bytes.extend_from_slice(&piece[..read]),
            }
        }
        let reply = Reply::parse(&bytes).0;
        assert!(reply.body == content, "{} bytes of {}", reply.body.len(), content.len());
        let counts = site.stop();
        assert_eq!((counts.bytes_sent, counts.connections_broken), (bytes.len() as u64, 0));
    }
}

#[test]
fn a_client_may_end_its_side_first() {
    let content = large();
    let site = Site::start(&[("large.bin", &content), ("a.txt", b"a")], |_| {});
    let mut stream = site.connect();
    stream
        .write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sends");
    stream.shutdown(Shutdown::Write).expect("ends");
    let bytes = read_to_end(&mut stream);
    let (first, rest) = Reply::parse(&bytes);
    assert_eq!(first.text(), "a");
    assert!(Reply::parse(rest).0.body == content);
}

#[test]
fn slow_clients_are_let_go() {
    let site = Site::start(&[("large.bin", &large()), ("a.txt", b"a")], |options| {
        let short = Duration::from_millis(400);
        options.timeouts.head = short;
        options.timeouts.idle = short;
        options.timeouts.body = short;
        options.timeouts.stall = short;
    });
    // A byte now and then does not buy more time.
    let mut trickle = site.connect();
    let begin = Instant::now();
    let mut answer = [0; 12];
    let mut writer = trickle.try_clone().expect("clones");
    let writing = std::thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaa" {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    trickle.read_exact(&mut answer).expect("is told");
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(begin.elapsed() < Duration::from_secs(3));
    writing.join().expect("no panic");
    let mut idle = site.connect();
    idle.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut idle, false).text(), "a");
    assert!(read_to_end(&mut idle).is_empty());
    let mut body = site.connect();
    body.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx").expect("sends");
    assert_eq!(read_reply(&mut body, false).text(), "a");
    assert!(read_to_end(&mut body).is_empty());
    let mut stalled = site.connect();
    stalled.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(read_to_end(&mut stalled).len() < 24 << 20);
    // A connection without a byte is handed to the server about a second later only.
    let mut silent = site.connect();
    assert!(read_to_end(&mut silent).is_empty());
    assert_eq!(site.counters.read().timeouts, 5);
}

#[test]
fn beyond_the_limit_connections_get_503() {
    let site = Site::start(&[("a.txt", b"a")], |options| {
        options.limits.connections_max = 2;
        options.loops = 2;
    });
    let mut open: Vec<_> = (0..2).map(|_| site.connect()).collect();
    for stream in &mut open {
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(stream, false).status, 200);
    }
    let refused = site.get("/a.txt");
    assert_eq!((refused.status, refused.field("connection")), (503, Some("close")));
    assert_eq!(site.counters.read().connections_refused, 1);
    drop(open.pop());
    let deadline = Instant::now() + Duration::from_secs(5);
    while site.get("/a.txt").status != 200 {
        assert!(Instant::now() < deadline, "a place that became free is not given away");
    }
    open[0].write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut open[0], false).status, 200);
}

#[test]
fn a_stop_lets_a_download_finish_and_closes_the_rest() {
    let content = large();
    let site = Site::start(&[("large.bin", &content), ("a.txt", b"a")], |_| {});
    let mut idle = site.connect();
    idle.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut idle, false).status, 200);
    let mut download = site.connect();
    download.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut first = vec![0; 100_000];
    download.read_exact(&mut first).expect("a beginning");
    site.begin_stop();
    assert!(read_to_end(&mut idle).is_empty());
    std::thread::sleep(Duration::from_millis(100));
    assert!(!site.is_stopped(), "the download is in flight");
    assert!(std::net::TcpStream::connect(site.addr).is_err(), "nothing new is accepted");
    first.extend(read_to_end(&mut download));
    assert!(Reply::parse(&first).0.body == content);
    let counts = site.stop();
    assert_eq!((counts.requests, counts.stop_aborted, counts.connections_broken), (2, 0, 0));
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let site = Site::start(&[("large.bin", &large())], |options| options.timeouts.stop = Duration::from_millis(300));
    let mut download = site.connect();
    download.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut first = [0; 10];
    download.read_exact(&mut first).expect("a beginning");
    let begin = Instant::now();
    assert_eq!(site.stop().stop_aborted, 1);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_file_that_shrinks_under_way_ends_the_connection() {
    let content = large();
    let site = Site::start(&[("large.bin", &content), ("a.txt", b"a")], |_| {});
    let mut stream = site.connect();
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut first = [0; 10];
    stream.read_exact(&mut first).expect("a beginning");
    let file = std::fs::File::options().write(true).open(site.directory.path().join("large.bin")).expect("opens");
    file.set_len(1000).expect("cuts");
    assert!(read_to_end(&mut stream).len() < content.len());
    assert_eq!(site.get("/a.txt").text(), "a");
}

#[test]
fn random_bytes_are_answered_or_closed() {
    let site = Site::start(&[("a.txt", b"a")], |options| {
        options.timeouts.head = Duration::from_millis(100);
        options.timeouts.body = Duration::from_millis(100);
        options.timeouts.linger = Duration::from_millis(100);
    });
    let words = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::sample::select(vec![
            "GET /a.txt HTTP/1.1\r\n",
            "Host: a\r\n",
            "\r\n",
            "\n",
            "Content-Length: 7\r\n",
            "HEAD ",
            "/",
            " HTTP/1.0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n",
            "5\r\n",
            "0\r\n\r\n",
            "Range: bytes=0-,-1\r\n",
            "Expect: 100-continue\r\n",
            ": ",
            "If-None-Match: \"\r\n",
            "%",
            "?",
            "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
            "If-Range: W/\r\n",
            "\0",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
    ];
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(words in proptest::collection::vec(words, 1..12), split in any::<bool>())| {
        let mut stream = connect(site.addr);
        for word in &words {
            // The server may have closed already.
            let _ = stream.write_all(word);
            if split {
                std::thread::yield_now();
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let bytes = read_to_end(&mut stream);
        prop_assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 "));
    });
    assert_eq!(site.get("/a.txt").text(), "a");
}
