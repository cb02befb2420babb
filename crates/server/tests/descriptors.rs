//! What happens when the process has no descriptor left. It is a test binary of its own, because the limit is
//! one of the whole process.
// scripts/test: serves, also by epoll

mod harness;

use harness::{Site, read_reply};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: the limit is that of the whole process.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_lack_of_descriptors_pauses_accepting_without_spinning() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::start(&[("a.txt", b"a"), ("b.txt", b"b")], |_| {});
    assert_eq!(site.get("/a.txt").text(), "a");
    let mut streams = site.connect();
    streams.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("sends");
    assert_eq!(status_of_stream(&mut streams, 1, "/a.txt"), b"\x88", "200 in the static table");
    let mut open = site.connect();
    open.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut open, false).text(), "a");
    // The client's socket takes the last descriptor, so that the server gets none for its side.
    let mut waiting = site.connect();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let none = libc::rlimit { rlim_cur: 3, ..limit };
    // SAFETY: both structures live over the calls, which only read them.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
    waiting.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let before = cpu_time();
    std::thread::sleep(Duration::from_millis(1500));
    let spent = cpu_time() - before;
    open.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut open, false).text(), "a", "open connections and cached files go on");
    // What is not in the cache cannot be opened: the client may come again, and the connection stays.
    for _ in 0..2 {
        open.write_all(b"GET /b.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut open, false).status, 503);
    }
    assert_eq!(status_of_stream(&mut streams, 3, "/b.txt")[2..], *b"503");
    assert_eq!(status_of_stream(&mut streams, 5, "/a.txt"), b"\x88");
    let pauses = site.counters.read().accept_pauses;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    assert!((3..40).contains(&pauses), "{pauses} pauses");
    assert!(spent < Duration::from_millis(500), "{spent:?} of CPU time while nothing could be done");
    let begin = Instant::now();
    assert_eq!(read_reply(&mut waiting, false).text(), "a");
    assert!(begin.elapsed() < Duration::from_secs(2));
    open.write_all(b"GET /b.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut open, false).text(), "b", "as soon as there are descriptors again");
    assert_eq!(status_of_stream(&mut streams, 7, "/b.txt"), b"\x88");
}

/// Answers each request over each connection with the connection's number.
fn upstream() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                let (mut stream, mut head, mut byte) = (stream, Vec::new(), [0]);
                while stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                        stream.write_all(answer.as_bytes()).expect("sends");
                    }
                }
            });
        }
    });
    addr
}

#[test]
fn a_lack_of_descriptors_is_no_fault_of_an_upstream_and_passes() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (kept, closed) = (upstream(), upstream());
    let text = format!(
        "[[host]]\nproxy = {{ to = \"http://{closed}\", keep = 0, connections = 1, queue = 0 }}\n\
         [[host.path]]\nprefix = \"/kept/\"\nproxy = \"http://{kept}\""
    );
    let site = Site::start(&[], |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = weir_server::parse_configuration(&text, &folder).expect("a configuration");
        (options.listen, options.loops, options.io, options.root) = (listen, 1, io, folder);
    });
    let mut client = site.connect();
    let mut ask = |path: &str| {
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("sends");
        read_reply(&mut client, false)
    };
    assert_eq!((ask("/kept/").text(), ask("/").text()), ("0".to_owned(), "0".to_owned()));
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let none = libc::rlimit { rlim_cur: 3, ..limit };
    // SAFETY: both structures live over the calls, which only read them.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
    let answers: Vec<_> = (0..3).map(|_| (ask("/").status, ask("/kept/").text())).collect();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    assert!(answers.iter().all(|answer| *answer == (503, "0".to_owned())), "{answers:?}");
    // No place was lost: there is one only.
    assert_eq!((ask("/").text(), ask("/").text()), ("1".to_owned(), "2".to_owned()));
    assert_eq!(site.stop().applications_failed, 3);
}

/// Asks for a path on a stream of HTTP/2, and returns the field :status as it is encoded.
fn status_of_stream(connection: &mut TcpStream, stream: u8, path: &str) -> Vec<u8> {
    // GET and http of the static table, then the path and the authority "a".
    let block = [&[0x82, 0x86, 0x04, path.len() as u8], path.as_bytes(), b"\x01\x01a"].concat();
    let head = [0, 0, block.len() as u8, 1, 5, 0, 0, 0, stream];
    connection.write_all(&[&head[..], &block].concat()).expect("sends");
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        connection.read_exact(&mut payload).expect("its payload");
        if head[3] == 1 && head[8] == stream {
            let len = if payload[0] & 0x80 == 0 { 2 + usize::from(payload[1]) } else { 1 };
            payload.truncate(len);
            return payload;
        }
    }
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
