//! Connections on io_uring answer as those on epoll do, byte for byte, to any sequence of requests; and the server uses
//! epoll on a system that refuses io_uring.
// scripts/test: serves

mod harness;

use harness::{Site, connect, read_reply, read_to_end, wait_until};
use proptest::prelude::*;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use weir_server::{BindError, Io, Options, Server};
use weir_testkit::require;

const FILES: [(&str, &[u8]); 5] = [
    ("empty.txt", b""),
    ("small.txt", &[b's'; 100]),
    ("middle.txt", &[b'm'; 5000]),
    ("large.bin", &[b'l'; 60_000]),
    ("huge.bin", &[b'h'; 3_000_000]),
];

fn site(io: Io) -> Site {
    Site::start(&FILES, |options| {
        options.io = io;
        options.compression.on_the_fly = false;
    })
}

/// Which of the requests asks for the connection's end.
const CLOSES: usize = 10;

/// Whether this kernel allows io_uring; reports it where it does not.
fn has_ring() -> bool {
    let options = Options { listen: vec!["127.0.0.1:0".parse().expect("an address")], ..Options::new(".") };
    let server = Server::bind(options).expect("binds");
    let refused = server.without_ring().map(|error| format!("io_uring: {error}"));
    assert_eq!(server.io(), if refused.is_none() { "io_uring" } else { "epoll" });
    require::or_skip(refused.is_none(), refused.as_deref().unwrap_or_default()).is_some()
}

/// A connection that has had an answer, so that it is on the ring if there is one.
fn warm(site: &Site) -> TcpStream {
    let mut stream = site.connect();
    ask(&mut stream, "small.txt", 100);
    stream
}

fn ask(stream: &mut TcpStream, name: &str, bytes: usize) {
    write!(stream, "GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let reply = read_reply(stream, false);
    assert_eq!((reply.status, reply.body.len()), (200, bytes), "{name}");
}

/// What a client gets whose requests come in pieces of these sizes; times are made equal.
fn stream_of(site: &Site, requests: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = warm(site);
    let mut reader = stream.try_clone().expect("clones");
    let reading = std::thread::spawn(move || read_to_end(&mut reader));
    let mut rest = requests;
    for &cut in cuts.iter().cycle() {
        let (now, later) = rest.split_at(cut.min(rest.len()));
        stream.write_all(now).expect("sends");
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    stream.shutdown(Shutdown::Write).expect("shuts");
    let text = reading.join().expect("no panic");
    let mut same = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let is_time = [&b"Date: "[..], b"Last-Modified: ", b"ETag: "].iter().any(|name| line.starts_with(name));
        same.extend_from_slice(if is_time { b"" } else { line });
    }
    same
}

#[test]
fn both_ways_answer_the_same_bytes() {
    if !has_ring() {
        return;
    }
    let (by_ring, by_epoll) = (site(Io::Uring), site(Io::Epoll));
    let requests = [
        "GET /empty.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /middle.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n",
        "POST /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-20\r\n\r\n",
        "NONSENSE\r\n\r\n",
    ];
    // Those that end a connection stand for little else, so they are rare.
    let one = prop_oneof![60 => 0_usize..9, 1 => 9_usize..13, 6 => Just(11_usize)];
    let sizes = proptest::collection::vec(prop_oneof![1_usize..40, 500_usize..9000], 1..4);
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(order in proptest::collection::vec(one, 1..60), cuts in sizes)| {
        let mut bytes = Vec::new();
        for i in order {
            bytes.extend_from_slice(requests[i].as_bytes());
            bytes.resize(bytes.len() + if i == 7 { 5000 } else { 0 }, b'b');
            if i == CLOSES {
                // A client must send nothing behind it (RFC 9112, section 9.6): what it does send may be met by a
                // reset.
                break;
            }
        }
        prop_assert!(stream_of(&by_ring, &bytes, &cuts) == stream_of(&by_epoll, &bytes, &cuts));
    });
    let (ring, epoll) = (by_ring.stop(), by_epoll.stop());
    assert!(ring.ring_joined >= 60, "{ring:?}");
    assert_eq!((epoll.ring_joined, epoll.requests, epoll.bytes_sent), (0, ring.requests, ring.bytes_sent));
}

#[test]
fn a_client_that_reads_nothing_is_not_answered_without_bound() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    let mut stream = warm(&site);
    // Small responses, so that they go by the ring until the socket is full.
    let request = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let many = request.repeat(500);
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("sets");
    let (mut sent, mut asked) = (0, 1);
    loop {
        match stream.write(&many[sent % request.len()..]) {
            Ok(bytes) => sent += bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 100 << 20, "the server takes requests without bound");
    }
    asked += sent / request.len();
    let answered = site.counters.read().requests;
    assert!((answered as usize) < asked, "{answered} of {asked}");
    // Everything that was asked is answered once it reads, in order and whole.
    stream.set_write_timeout(None).expect("sets");
    let mut writer = stream.try_clone().expect("clones");
    let rest = request[sent % request.len()..].to_vec();
    let is_cut = rest.len() < request.len();
    let writing = std::thread::spawn(move || {
        if is_cut {
            writer.write_all(&rest).expect("sends");
        }
        writer.shutdown(Shutdown::Write).expect("shuts");
    });
    asked += usize::from(is_cut);
    let all = read_to_end(&mut stream);
    assert_eq!(memchr_count(&all, b"HTTP/1.1 200 OK\r\n"), asked - 1, "each once");
    assert_eq!(memchr_count(&all, &[FILES[1].1, b"HTTP/1.1 200 OK\r\n"].concat()), asked - 2, "each whole, in order");
    writing.join().expect("no panic");
    let counts = site.stop();
    assert_eq!((counts.requests as usize, counts.connections_broken), (asked, 0), "{counts:?}");
    assert!(counts.ring_left > 0, "{counts:?}");
}

#[test]
fn what_a_socket_has_no_room_for_is_sent_later() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    // A client with little room, whose requests come in batches that are answered by the ring, and that reads nothing.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("sets");
    socket.connect(&site.addr.into()).expect("connects");
    let mut stream = TcpStream::from(socket);
    ask(&mut stream, "small.txt", 100);
    let request = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(8);
    let mut asked = 1;
    while site.counters.read().ring_blocked == 0 {
        assert!(asked < 100_000, "nothing was refused");
        stream.write_all(&request).expect("sends");
        asked += 8;
        wait_until(|| site.counters.read().requests == asked || site.counters.read().ring_blocked > 0);
    }
    stream.write_all(&request).expect("sends");
    asked += 8;
    stream.shutdown(Shutdown::Write).expect("shuts");
    let all = read_to_end(&mut stream);
    assert_eq!(memchr_count(&all, b"HTTP/1.1 200 OK\r\n") as u64, asked - 1, "each once");
    assert_eq!(
        memchr_count(&all, &[FILES[1].1, b"HTTP/1.1 200 OK\r\n"].concat()) as u64,
        asked - 2,
        "each whole, in order"
    );
    let counts = site.stop();
    assert_eq!((counts.requests, counts.connections_broken), (asked, 0), "{counts:?}");
    assert!(counts.ring_left > 0, "{counts:?}");
}

fn memchr_count(all: &[u8], text: &[u8]) -> usize {
    all.windows(text.len()).filter(|window| window == &text).count()
}

#[test]
fn more_at_once_than_there_are_buffers_are_all_answered() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    let mut streams: Vec<TcpStream> = (0..700).map(|_| warm(&site)).collect();
    let counters = site.counters.clone();
    wait_until(|| counters.read().ring_joined >= 700);
    // Heads that take several buffers each.
    let field = "x".repeat(9000);
    let request = format!("GET /small.txt HTTP/1.1\r\nHost: a\r\nX: {field}\r\n\r\n");
    for _ in 0..5 {
        for stream in &mut streams {
            stream.write_all(request.as_bytes()).expect("sends");
        }
        for stream in &mut streams {
            assert_eq!(read_reply(stream, false).body, FILES[1].1);
        }
    }
    let counts = site.stop();
    assert_eq!((counts.requests, counts.connections_broken), (700 * 6, 0), "{counts:?}");
}

#[test]
fn the_end_of_a_connection_comes_after_its_last_byte() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    for round in 0..200 {
        let mut stream = warm(&site);
        let mut requests = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
        if round % 2 == 0 {
            requests.extend_from_slice(b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        }
        stream.write_all(&requests).expect("sends");
        if round % 2 == 1 {
            stream.shutdown(Shutdown::Write).expect("shuts");
        }
        let all = read_to_end(&mut stream);
        assert_eq!(memchr_count(&all, b"HTTP/1.1 200 OK"), 4 - round % 2, "{round}");
        assert!(all.ends_with(FILES[1].1), "{round}");
    }
    // Clients that go in the middle break nothing of others, whose descriptors may get the same numbers.
    let mut kept = warm(&site);
    for _ in 0..200 {
        let mut stream = warm(&site);
        stream.write_all(&b"GET /middle.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20)).expect("sends");
        drop(stream);
        ask(&mut connect(site.addr), "middle.txt", 5000);
        ask(&mut kept, "small.txt", 100);
    }
    let addr = site.addr;
    drop(site);
    assert!(TcpStream::connect(addr).is_err(), "it has ended");
}

/// The request and the end of the client's side come in one segment, so that both are there in one round, and nothing
/// else is on the ring afterwards.
#[test]
fn the_last_connection_on_the_ring_is_closed_as_well() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    for round in 0..20 {
        let mut stream = warm(&site);
        let counters = site.counters.clone();
        wait_until(|| counters.read().ring_joined == round + 1);
        let request = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let sent = socket2::SockRef::from(&stream).send_with_flags(request, libc::MSG_MORE).expect("sends");
        assert_eq!(sent, request.len());
        stream.shutdown(Shutdown::Write).expect("shuts");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("sets");
        let all = read_to_end(&mut stream);
        assert!(all.ends_with(FILES[1].1), "{round}");
    }
    let counts = site.stop();
    assert_eq!((counts.requests, counts.connections_broken), (40, 0), "{counts:?}");
}

#[test]
fn large_files_leave_the_ring_and_small_ones_come_back() {
    if !has_ring() {
        return;
    }
    let site = site(Io::Uring);
    let mut stream = warm(&site);
    ask(&mut stream, "huge.bin", 3_000_000);
    let left = site.counters.read();
    assert_eq!((left.ring_joined, left.ring_left), (1, 1), "{left:?}");
    (0..40).for_each(|_| ask(&mut stream, "small.txt", 100));
    let back = site.counters.read();
    assert_eq!((back.ring_joined, back.ring_left), (2, 1), "{back:?}");
}

#[test]
fn where_the_system_forbids_it_epoll_serves() {
    // In a thread of its own, which keeps the filter until its end.
    let forbidden = || {
        forbid_io_uring();
        let options =
            |io| Options { io, listen: vec!["127.0.0.1:0".parse().expect("an address")], ..Options::new(".") };
        let server = Server::bind(options(Io::Auto)).expect("binds");
        assert_eq!(server.io(), "epoll");
        assert_eq!(server.without_ring().and_then(std::io::Error::raw_os_error), Some(libc::EPERM));
        let refused = Server::bind(options(Io::Uring)).expect_err("is refused");
        assert!(matches!(&refused, BindError::Ring { .. }), "{refused}");
        assert!(refused.to_string().contains("--io auto"), "{refused}");
        let site = Site::start(&FILES, |options| options.io = Io::Auto);
        let mut stream = warm(&site);
        (0..10).for_each(|_| ask(&mut stream, "small.txt", 100));
        assert_eq!(site.stop().ring_joined, 0);
    };
    std::thread::spawn(forbidden).join().expect("no panic");
}

/// Has `io_uring_setup` fail for this thread and those that it starts, as containers do.
fn forbid_io_uring() {
    let step = |code: u32, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = libc::SYS_io_uring_setup as u32;
    let program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, 0x0005_0000 | libc::EPERM as u32, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0x7fff_0000, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program lives over the call, which only reads it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter), 0);
    }
}
