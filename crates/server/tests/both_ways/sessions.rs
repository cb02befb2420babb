//! Live connections that move between two servers with the same files: by the descriptor, as both are on one machine.

use crate::harness;

use harness::{Reply, Site, connect, read_reply, wait_until};
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_server::{AccessLog, LogTarget, Options, SessionSummary, TakeError, TakenSession, parse_configuration};
use weir_testkit::require;

/// Bytes in which every place differs from its neighbours.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Hexadecimal digits of the same: they get smaller by a half.
fn digits(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let digit = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"0123456789abcdef"[(state >> 60) as usize]
    };
    (0..bytes).map(digit).collect()
}

/// Two servers with these files.
pub(crate) fn pair(files: &[(&str, &[u8])], change: impl Fn(&mut Options)) -> [Site; 2] {
    [(); 2].map(|()| Site::start(files, &change))
}

/// A client with little room for what it does not read.
pub(crate) fn narrow(addr: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("sets");
    socket.connect(&addr.into()).expect("connects");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream
}

/// Takes the client's connection from a server, where it is.
pub(crate) fn take(from: &Site, client: &TcpStream) -> Result<TakenSession, TakeError> {
    let ends = (client.local_addr().expect("an address"), client.peer_addr().expect("an address"));
    from.control.take_session(ends.0, ends.1)
}

/// Goes on with it at another server, which has said first that it can.
pub(crate) fn adopt(to: &Site, taken: TakenSession, client: &TcpStream) {
    assert_eq!(to.control.session_bytes(&taken.session, 0, 0).expect("it has the same files"), b"");
    let peer = client.local_addr().expect("an address");
    to.control.adopt_session(&taken.session, taken.fd, taken.relays, peer).expect("is taken in");
}

pub(crate) fn shift(from: &Site, to: &Site, client: &TcpStream) {
    let taken = take(from, client).expect("is given away");
    adopt(to, taken, client);
}

/// A download that has begun and that the client does not read.
pub(crate) fn begun(site: &Site) -> TcpStream {
    let mut client = narrow(site.addr);
    client.write_all(b"GET /x.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    client.read_exact(&mut [0]).expect("it has begun");
    client
}

/// Reads the rest of it.
pub(crate) fn ends_whole(client: &mut TcpStream, content: &[u8]) {
    let mut head = vec![0];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let mut body = vec![0; content.len()];
    client.read_exact(&mut body).expect("a body");
    assert!(body == content);
}

/// What a response is whenever it is given, by which of two servers with copies of a file.
fn of_any_server(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let is_own = |name: &str| ["date", "etag", "last-modified"].contains(&name);
    let fields = reply.fields.iter().filter(|(name, _)| !is_own(name)).cloned().collect();
    (reply.status, fields, reply.body.clone())
}

/// A client that reads so much at once, with a pause behind each, and never past the moves that are done.
fn download_moved(sites: &[Site; 2], content: &[u8], (piece, pause): (usize, Duration)) {
    const MOVES: u64 = 20;
    let mut client = connect(sites[0].addr);
    client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mover = client.try_clone().expect("a second handle");
    let (allowed, received, is_over) = (AtomicU64::new(1), AtomicU64::new(0), AtomicBool::new(false));
    let step = content.len() as u64 / (MOVES + 1);
    let all = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut all = Vec::new();
            let mut buffer = vec![0; piece];
            let is_whole = |all: &[u8]| {
                let head = all.windows(4).take(2000).position(|four| four == b"\r\n\r\n");
                head.is_some_and(|head| all.len() >= head + 4 + content.len())
            };
            while !is_whole(&all) && !is_over.load(Ordering::Relaxed) {
                if all.len() as u64 >= allowed.load(Ordering::Relaxed) * step {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                let read = client.read(&mut buffer).expect("goes on");
                assert!(read > 0, "the connection ended after {} bytes", all.len());
                all.extend_from_slice(&buffer[..read]);
                received.store(all.len() as u64, Ordering::Relaxed);
                std::thread::sleep(pause);
            }
            all
        });
        let moving = scope.spawn(|| {
            for number in 1..=MOVES {
                let deadline = Instant::now() + Duration::from_secs(60);
                while received.load(Ordering::Relaxed) < number * step {
                    assert!(Instant::now() < deadline, "{} bytes have come", received.load(Ordering::Relaxed));
                    std::thread::sleep(Duration::from_micros(200));
                }
                let (from, to) = (&sites[(number as usize + 1) % 2], &sites[number as usize % 2]);
                let taken = take(from, &mover).expect("is given away");
                check_known(to, &taken, content);
                adopt(to, taken, &mover);
                allowed.store(number + 1 + number / MOVES, Ordering::Relaxed);
            }
        });
        let moved = moving.join();
        is_over.store(moved.is_err(), Ordering::Relaxed);
        let all = reading.join().expect("reads");
        moved.expect("moves");
        all
    });
    let reply = Reply::parse(&all).0;
    assert!(reply.status == 200 && reply.body == content, "{} bytes", reply.body.len());
    // The connection stays, and moves once more between two requests.
    shift(&sites[0], &sites[1], &client);
    client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
}

/// The other server makes the bytes again that were given to the kernel last.
fn check_known(at: &Site, taken: &TakenSession, content: &[u8]) {
    let known = taken.known_bytes;
    assert_eq!(SessionSummary::read(&taken.session).expect("is read").known_bytes, known);
    if known == 0 {
        return;
    }
    let start = at.control.session_bytes(&taken.session, 0, known.min(2000)).expect("is known");
    assert!(start.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let head = start.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    for len in [1, 5000, 300_000] {
        let len = len.min(known - head as u64);
        let bytes = at.control.session_bytes(&taken.session, known - len, len).expect("is known");
        let from = (known - len) as usize - head;
        assert!(bytes == content[from..from + len as usize], "{len} bytes before {known}");
    }
    assert!(at.control.session_bytes(&taken.session, known, 1).is_err(), "it was not given to the kernel");
}

#[test]
fn a_large_download_moves_back_and_forth_under_slow_and_fast_clients() {
    let content = noise(50_000_000);
    let files: &[(&str, &[u8])] = &[("large.bin", &content), ("a.txt", b"hello")];
    let folder = tempfile::tempdir().expect("a directory");
    let logs = ["first", "second"].map(|name| folder.path().join(name));
    let sites = logs.each_ref().map(|log| {
        Site::start(files, |options| {
            options.loops = 2;
            options.access_log = Some(AccessLog::new(LogTarget::File(log.clone())));
        })
    });
    for manner in [(1 << 20, Duration::ZERO), (128 << 10, Duration::from_micros(500))] {
        download_moved(&sites, &content, manner);
    }
    let counts = sites.map(Site::stop);
    // By the server that finished it, with all of its bytes; the downloads were begun at the first one.
    let lines = logs.map(|log| std::fs::read_to_string(log).expect("reads"));
    let all: Vec<&str> = lines.iter().flat_map(|text| text.lines()).collect();
    let of = |path: &str, bytes: &str| {
        let request = format!("\"GET {path} HTTP/1.1\" 200 {bytes} ");
        all.iter().filter(|line| line.contains(&request)).count()
    };
    assert_eq!((of("/large.bin", "50000000"), of("/a.txt", "5"), all.len()), (2, 2, 4), "{all:?}");
    let [first, second] = counts;
    assert_eq!((first.connections, second.connections), (2, 0), "what came otherwise was not accepted");
    assert_eq!((first.requests, second.requests), (2, 2));
    assert_eq!((first.sessions_given, second.sessions_adopted), (22, 22));
    assert_eq!((second.sessions_given, first.sessions_adopted), (20, 20));
    for counts in [first, second] {
        assert_eq!((counts.connections_broken, counts.sessions_given_back, counts.timeouts), (0, 0, 0), "{counts:?}");
    }
    assert!(first.bytes_sent + second.bytes_sent > 100_000_000);
}

#[test]
fn every_kind_of_response_goes_on_to_the_byte() {
    let (large, text) = (noise(9_000_000), digits(4_000_000));
    let files: &[(&str, &[u8])] = &[("large.bin", &large), ("text.txt", &text), ("a.txt", b"hello")];
    let sites = pair(files, |options| {
        options.compression.bytes_max = 16 << 20;
        // The text in memory, the other one in its file.
        options.cached_file_bytes_max = 5_000_000;
    });
    let coded = "GET /text.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    wait_until(|| sites[0].ask("GET", "/text.txt", "Accept-Encoding: gzip\r\n").field("content-encoding").is_some());
    let plain = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let parts = plain("/large.bin", "Range: bytes=0-99,1000-4000000,5000000-8999999\r\n");
    for (request, ending) in [
        (plain("/large.bin", ""), "whole"),
        (plain("/text.txt", ""), "memory"),
        (plain("/large.bin", "Range: bytes=1000-8000000\r\n"), "a range"),
        (coded.to_owned(), "made"),
        (parts, "ranges"),
        (plain("/large.bin", "Connection: close\r\n"), "the last"),
    ] {
        let mut client = narrow(sites[0].addr);
        client.write_all(request.as_bytes()).expect("sends");
        let mut all = vec![0];
        client.read_exact(&mut all).expect("it has begun");
        shift(&sites[0], &sites[1], &client);
        // As much as one part of a response takes.
        let mut more = vec![0; 3_000_000];
        client.read_exact(&mut more[..if ending == "made" { 10_000 } else { 2_000_000 }]).expect("goes on");
        more.truncate(if ending == "made" { 10_000 } else { 2_000_000 });
        all.extend(more);
        shift(&sites[1], &sites[0], &client);
        shift(&sites[0], &sites[1], &client);
        let (head, _) = Reply::parse_head(&all);
        let length: usize = head.field("content-length").expect("a length").parse().expect("a number");
        let head_bytes = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let mut rest = vec![0; head_bytes + length - all.len()];
        client.read_exact(&mut rest).expect("its end");
        all.extend(rest);
        let body = &all[head_bytes..];
        match ending {
            "whole" | "the last" => assert!(body == large),
            "memory" => assert!(body == text),
            "a range" => assert!(body == &large[1000..=8_000_000]),
            "made" => {
                let mut decoder = flate2::read::GzDecoder::new(body);
                let mut decoded = Vec::new();
                decoder.read_to_end(&mut decoded).expect("is gzip");
                assert!(decoded == text);
            }
            _ => {
                let end = |wanted: &[u8]| body.windows(wanted.len()).any(|window| window == wanted);
                assert!(end(&large[1000..=4_000_000]) && body.starts_with(b"\r\n--"));
                // Behind the last part come a line end and the boundary, of 16 digits.
                assert!(body[..body.len() - 24].ends_with(&large[5_000_000..]), "the last part");
            }
        }
        if ending == "the last" {
            assert_eq!(client.read(&mut [0]).expect("an end"), 0);
        } else {
            client.write_all(plain("/a.txt", "").as_bytes()).expect("sends");
            assert_eq!(read_reply(&mut client, false).text(), "hello", "{ending}");
        }
    }
    assert_eq!(sites.map(Site::stop).map(|counts| counts.connections_broken), [0, 0]);
}

/// Requests in two pieces with a move between them; the same answers as without one.
#[test]
fn requests_that_are_cut_by_a_move_are_answered_once_and_in_order() {
    let files: &[(&str, &[u8])] = &[("a.txt", b"hello"), ("b.txt", &[b'b'; 5000]), ("large.bin", &noise(3_000_000))];
    let sites = pair(files, |_| {});
    let requests = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
        HEAD /b.txt HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /none HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nHTTP/1.1 400\
        GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /a.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n\
        GET /b.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=10-19\r\n\r\n";
    let heads = [false, true, false, false, false, true, false];
    let read_all = |client: &mut TcpStream| heads.map(|head_only| of_any_server(&read_reply(client, head_only)));
    let expected = {
        let mut client = connect(sites[0].addr);
        client.write_all(requests.as_bytes()).expect("sends");
        read_all(&mut client)
    };
    assert_eq!(expected.each_ref().map(|reply| reply.0), [200, 200, 404, 405, 200, 304, 206]);
    for cut in (0..requests.len()).step_by(13) {
        let mut client = narrow(sites[0].addr);
        client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        read_reply(&mut client, false);
        client.write_all(&requests.as_bytes()[..cut]).expect("sends");
        shift(&sites[0], &sites[1], &client);
        client.write_all(&requests.as_bytes()[cut..]).expect("sends");
        shift(&sites[1], &sites[0], &client);
        assert!(read_all(&mut client) == expected, "cut at {cut}");
    }
}

#[test]
fn what_has_come_of_a_head_moves_with_its_connection_and_its_deadline() {
    let files: &[(&str, &[u8])] = &[("a.txt", b"hello")];
    let sites = pair(files, |options| options.timeouts.head = Duration::from_millis(1500));
    let mut client = connect(sites[0].addr);
    client.write_all(b"GET /a.t").expect("sends");
    let holds = |taken: &TakenSession| taken.session.windows(8).any(|window| window == b"GET /a.t");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut at = 0;
    loop {
        // Until the server has accepted it and read what has come; it goes on there until then.
        assert!(Instant::now() < deadline, "the head was not read");
        match take(&sites[0], &client) {
            Ok(taken) if holds(&taken) => break adopt(&sites[1], taken, &client),
            Ok(taken) => sites[0].control.give_session_back(taken),
            Err(TakeError::NoConnection { .. }) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    client.write_all(b"xt HTTP/1.1\r\nHost: a\r\n\r\nGET").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
    // However often it moves, the next head has its time and no more.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "moves give a slow client more time");
        match take(&sites[1 - at], &client) {
            Ok(taken) => adopt(&sites[at], taken, &client),
            Err(TakeError::NoConnection { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        at = 1 - at;
        std::thread::sleep(Duration::from_millis(100));
    }
    let answer = harness::read_to_end(&mut client);
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    let counts = sites.map(Site::stop);
    assert_eq!(counts[0].timeouts + counts[1].timeouts, 1);
    assert!(counts[0].sessions_given_back <= counts[0].sessions_given);
}

#[test]
fn a_small_body_under_way_moves_and_is_passed_over() {
    let sites = pair(&[("a.txt", b"hello")], |_| {});
    let mut client = connect(sites[0].addr);
    client.write_all(b"POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").expect("sends");
    client.write_all(&[b'x'; 400]).expect("sends");
    assert_eq!(read_reply(&mut client, false).status, 405);
    shift(&sites[0], &sites[1], &client);
    client.write_all(&[b'x'; 600]).expect("sends");
    client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
    assert_eq!(sites[1].counters.read().requests, 1);
}

#[test]
fn idle_connections_that_were_often_used_move_and_are_used_again() {
    // The loop of the reserve rests, and takes none in.
    let sites = pair(&[("a.txt", b"hello")], |options| (options.loops, options.reserve_loops) = (2, 1));
    let mut clients: Vec<TcpStream> = (0..10).map(|_| connect(sites[0].addr)).collect();
    for round in 0..6 {
        for client in &mut clients {
            // With the ring a connection joins it after its first request, and again after some more.
            for _ in 0..20 {
                client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
                assert_eq!(read_reply(client, false).text(), "hello");
            }
            shift(&sites[round % 2], &sites[(round + 1) % 2], client);
        }
    }
    let counts = sites.map(Site::stop);
    assert_eq!(counts.map(|counts| counts.requests), [600, 600]);
    assert_eq!(counts.map(|counts| counts.sessions_given + counts.sessions_adopted), [60, 60]);
}

#[test]
fn a_host_and_its_site_are_found_by_the_configuration() {
    let large = noise(4_000_000);
    let files: &[(&str, &[u8])] = &[("a/x.bin", b"other"), ("b/x.bin", &large)];
    let text = "[[host]]\nnames = [\"a.org\"]\nroot = \"a\"\n[[host]]\nnames = [\"b.org\"]\nroot = \"b\"\n";
    let sites = pair(files, |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.io, options.loops) = (listen, io, 1);
    });
    let mut client = narrow(sites[0].addr);
    client.write_all(b"GET /x.bin HTTP/1.1\r\nHost: b.org\r\n\r\n").expect("sends");
    let mut first = [0];
    client.read_exact(&mut first).expect("it has begun");
    shift(&sites[0], &sites[1], &client);
    let mut rest = first.to_vec();
    while !rest.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut first).expect("a head");
        rest.push(first[0]);
    }
    let mut body = vec![0; large.len()];
    client.read_exact(&mut body).expect("a body");
    assert!(body == large);
    client.write_all(b"GET /x.bin HTTP/1.1\r\nHost: a.org\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "other");
}

/// Sets a socket's repair mode (tcp(7)); false without the right to that.
fn set_repair(socket: &impl AsRawFd, value: libc::c_int) -> bool {
    let (at, len) = ((&raw const value).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes of `value`, which lives over the call.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR, at, len) == 0 }
}

#[test]
fn a_socket_in_repair_mode_is_waited_for() {
    /// Off, without a word to the peer (linux/tcp.h).
    const OFF: libc::c_int = -1;
    let content = noise(6_000_000);
    let sites = pair(&[("x.bin", &content)], |_| {});
    let mut client = begun(&sites[0]);
    let taken = take(&sites[0], &client).expect("is given away");
    let socket = taken.fd.try_clone().expect("a descriptor");
    if require::or_skip(set_repair(&socket, 1), "no right to repair sockets").is_none() {
        return;
    }
    adopt(&sites[1], taken, &client);
    for _ in 0..100 {
        let counts = sites[1].counters.read();
        assert_eq!((counts.sessions_adopted, counts.bytes_sent, counts.connections_broken), (1, 0, 0));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(set_repair(&socket, OFF));
    ends_whole(&mut client, &content);
    assert!(sites[1].counters.read().bytes_sent > 0);
}

/// Many requests in a row, whose answers the client takes slowly: a move finds heads cut anywhere, responses begun, and
/// output that the ring could not send.
#[test]
fn a_busy_connection_moves_again_and_again_without_a_response_too_many() {
    const REQUESTS: usize = 3000;
    let large = noise(150_000);
    let files: &[(&str, &[u8])] = &[("a.txt", b"hello"), ("b.txt", &[b'b'; 5000]), ("large.bin", &large)];
    let sites = pair(files, |_| {});
    let name_of = |number: usize| match number {
        _ if number.is_multiple_of(97) => 2,
        _ if number.is_multiple_of(7) => 1,
        _ => 0,
    };
    let mut client = narrow(sites[0].addr);
    let (mut writer, mover) = (client.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
    client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
    let (is_over, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let moves = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..REQUESTS {
                let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", files[name_of(number)].0);
                writer.write_all(request.as_bytes()).expect("sends");
            }
        });
        let moving = scope.spawn(|| {
            let mut moves = 0;
            while !is_over.load(Ordering::Relaxed) {
                shift(&sites[moves % 2], &sites[(moves + 1) % 2], &mover);
                moves += 1;
                moved.store(moves as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(300));
            }
            moves
        });
        let reading = scope.spawn(|| {
            let mut reader = std::io::BufReader::with_capacity(8000, &client);
            for number in 0..REQUESTS {
                // So that moves are among them, however busy the machine is.
                wait_until(|| moved.load(Ordering::Relaxed) >= (number / 100) as u64);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    assert!(reader.read_until(b'\n', &mut head).expect("a line") > 0, "no answer {number}");
                }
                let head = Reply::parse_head(&head).0;
                let mut body = vec![0; files[name_of(number)].1.len()];
                reader.read_exact(&mut body).expect("a body");
                assert!(head.status == 200 && body == files[name_of(number)].1, "answer {number}");
            }
        });
        let read = reading.join();
        is_over.store(true, Ordering::Relaxed);
        let moves = moving.join().expect("moves");
        read.expect("reads");
        moves
    });
    assert!(moves >= REQUESTS / 100 - 1, "{moves}");
    let counts = sites.map(Site::stop);
    assert_eq!(counts[0].requests + counts[1].requests, 1 + REQUESTS as u64, "{moves} moves");
    assert_eq!(counts.map(|counts| (counts.connections_broken, counts.timeouts)), [(0, 0); 2]);
}
