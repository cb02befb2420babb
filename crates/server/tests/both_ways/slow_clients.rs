//! Clients that are slow on purpose, as slowhttptest makes them: the server closes them, and serves others meanwhile.

use crate::harness;

use harness::{Site, certificate};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn healthy_clients_are_served_while_slow_ones_hold_on() {
    let large = vec![7; 200_000];
    let certificates = tempfile::tempdir().expect("a directory");
    let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| {
        options.limits.connections_max = 400;
        options.timeouts.head = Duration::from_secs(1);
        options.timeouts.body = Duration::from_secs(1);
        options.timeouts.stall = Duration::from_secs(1);
        options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    });
    let clear = site.addrs[1];
    for (kind, url) in [
        // Heads that never end, bodies that never come, countless ranges, responses that the client does not read.
        ("-H", format!("http://{clear}/a.txt")),
        ("-B", format!("http://{clear}/a.txt")),
        ("-R", format!("http://{clear}/large.bin")),
        ("-X", format!("http://{clear}/large.bin")),
        ("-H", format!("https://{}/a.txt", site.addr)),
    ] {
        let before = site.counters.read();
        let mut slow = Command::new("timeout")
            .args(["60", "slowhttptest", kind, "-c", "150", "-r", "150", "-i", "1", "-l", "4", "-p", "3"])
            .args(["-k", "3", "-w", "100", "-y", "200", "-n", "1", "-z", "10", "-x", "10", "-u", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("slowhttptest starts; `make deps` installs it");
        harness::wait_until(|| site.counters.read().connections >= before.connections + 150);
        let (mut worst, mut asked) = (Duration::ZERO, 0);
        // Some give up at once, as the server does not wait for their bodies.
        while slow.try_wait().expect("is ours").is_none() || asked < 10 {
            let start = Instant::now();
            let mut stream = harness::connect(clear);
            std::io::Write::write_all(&mut stream, b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .expect("sends");
            assert!(harness::read_to_end(&mut stream).ends_with(b"\r\n\r\nhello"), "{kind}");
            worst = worst.max(start.elapsed());
            asked += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        // What they can do is keep the server a little busy, not keep others waiting for their timeouts.
        assert!(worst < Duration::from_secs(5), "{kind}: {asked} requests, the worst took {worst:?}");
        let counts = site.counters.read();
        assert_eq!(counts.connections_refused, before.connections_refused, "{kind}");
        if kind == "-H" {
            assert!(
                counts.timeouts + counts.connections_broken > before.timeouts + before.connections_broken,
                "{kind}: {counts:?}"
            );
        }
    }
}

/// Connects from an address of this machine.
fn connect_from(last: u8, to: std::net::SocketAddr) -> std::net::TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, last], 0)).into()).expect("binds");
    socket.connect(&to.into()).expect("connects");
    let stream = std::net::TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream
}

const PLACES: usize = 60;
const SLOW: usize = 90;

/// What holds on to a place: what is sent, and what to wait for then.
const HOLDS: [(&str, &[u8]); 5] = [
    ("nothing", b""),
    ("a head without end", b"GET /a.txt HTTP/1.1\r\nHost: a\r\nX-A: "),
    ("a body that does not come", b"POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx"),
    ("a response that is not read", b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a connection that is idle", b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
];

#[test]
fn more_slow_clients_than_places_keep_no_client_out() {
    let large = vec![7; 20_000_000];
    for from in [2..3_u8, 2..200] {
        for (what, sent) in HOLDS {
            let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| {
                options.limits.connections_max = PLACES;
                options.limits.connections_per_address_max = Some(0);
            });
            let mut slow: Vec<std::net::TcpStream> = Vec::new();
            let hold = |slow: &mut Vec<std::net::TcpStream>| {
                let mut stream = connect_from(from.clone().cycle().nth(slow.len()).expect("not empty"), site.addr);
                // One that finds no place may be closed before.
                let _ = std::io::Write::write_all(&mut stream, sent);
                slow.push(stream);
            };
            (0..PLACES).for_each(|_| hold(&mut slow));
            harness::wait_until(|| site.counters.read().connections >= PLACES as u64);
            // What may be a client that is about to ask is given its time, and so is what may only have paused.
            std::thread::sleep(Duration::from_millis(2300));
            let before = site.counters.read();
            for _ in 0..40 {
                assert_eq!(site.get("/a.txt").text(), "hello", "{what}");
            }
            let counts = site.counters.read();
            assert!(counts.connections_displaced > 0, "{what}: {counts:?}");
            assert_eq!(counts.connections_refused, before.connections_refused, "{what}");
            while slow.len() < SLOW {
                hold(&mut slow);
                assert_eq!(site.get("/a.txt").text(), "hello", "{what}, {} of them", slow.len());
            }
            let counts = site.counters.read();
            // The kernel holds back for a while who has sent nothing.
            let displaced = if sent.is_empty() { 1 } else { (SLOW - PLACES) as u64 };
            assert!(counts.connections_displaced >= displaced, "{what}: {counts:?}");
        }
    }
}

#[test]
fn who_does_something_keeps_its_place() {
    let large = vec![7; 40_000_000];
    let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| {
        options.limits.connections_max = 4;
    });
    let ask = |stream: &mut std::net::TcpStream, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        std::io::Write::write_all(stream, request.as_bytes()).expect("sends");
    };
    // One reads its response slowly, one asks again and again, and two hold on.
    let mut reading = site.connect();
    ask(&mut reading, "/large.bin");
    let mut asking = site.connect();
    let mut head = site.connect();
    std::io::Write::write_all(&mut head, b"GET /a").expect("sends");
    let mut idle = site.connect();
    ask(&mut idle, "/a.txt");
    assert_eq!(harness::read_reply(&mut idle, false).status, 200);
    let (start, mut piece, mut read) = (Instant::now(), vec![0; 1 << 20], 0);
    while start.elapsed() < Duration::from_secs(3) {
        ask(&mut asking, "/a.txt");
        assert_eq!(harness::read_reply(&mut asking, false).text(), "hello");
        read += std::io::Read::read(&mut reading, &mut piece).expect("goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    // The idle connection is closed first, then the one within a head, and no other.
    assert_eq!(site.get("/a.txt").text(), "hello");
    assert_eq!(site.counters.read().connections_displaced, 1);
    assert!(harness::read_to_end(&mut idle).is_empty());
    let mut third = site.connect();
    ask(&mut third, "/a.txt");
    assert_eq!(harness::read_reply(&mut third, false).text(), "hello");
    assert_eq!(site.get("/a.txt").text(), "hello");
    assert_eq!(site.counters.read().connections_displaced, 2);
    assert!(harness::read_to_end(&mut head).is_empty());
    let mut fourth = site.connect();
    for stream in [&mut fourth, &mut third, &mut asking] {
        ask(stream, "/a.txt");
        assert_eq!(harness::read_reply(stream, false).text(), "hello");
    }
    assert_eq!(site.get("/a.txt").status, 503, "all others are at work, or were a moment ago");
    ask(&mut asking, "/a.txt");
    assert_eq!(harness::read_reply(&mut asking, false).text(), "hello");
    while read < large.len() {
        let more = std::io::Read::read(&mut reading, &mut piece).expect("goes on");
        assert!(more > 0, "it was cut off after {read} bytes");
        read += more;
    }
}
