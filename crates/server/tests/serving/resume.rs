//! A response that one process has begun is finished by another one, to the byte.
//!
//! The other process is this test again: with `WEIR_RESUME` in its environment it takes the connection from its
//! standard input and the response from that variable.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_server::{Options, Resumed, Resumer, Unfinished, Variant};

/// With files of a text's size in memory, and with none of them there.
const IN_MEMORY: [u64; 2] = [1 << 20, 24 << 10];

fn options(root: &Path) -> Options {
    options_with(root, IN_MEMORY[0])
}

fn options_with(root: &Path, cached_file_bytes_max: u64) -> Options {
    Options { cached_file_bytes_max, ..Options::new(root) }
}

fn advance_to_the_end(resumer: &mut Resumer, unfinished: &mut Unfinished, socket: &impl AsFd) {
    let begin = Instant::now();
    while resumer.advance(unfinished, socket.as_fd()).expect("sends") == Resumed::Unfinished {
        assert!(begin.elapsed() < Duration::from_secs(30), "the client takes no more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The part of the other process; nothing without the variable.
#[test]
fn other_process() {
    let Ok(task) = std::env::var("WEIR_RESUME") else { return };
    let (root, value) = task.split_once('\n').expect("a root and a value");
    let mut unfinished: Unfinished = serde_json::from_str(value).expect("restores");
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
    let mut resumer = Resumer::new(options(Path::new(root))).expect("opens");
    advance_to_the_end(&mut resumer, &mut unfinished, &socket);
}

/// Has another process finish it on the connection.
fn elsewhere(root: &Path, unfinished: &Unfinished, socket: TcpStream) {
    let value = serde_json::to_string(unfinished).expect("serialises");
    let status = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "resume::other_process", "--nocapture"])
        .env("WEIR_RESUME", format!("{}\n{value}", root.display()))
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .status()
        .expect("runs");
    assert!(status.success());
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("sets");
    let server = listener.accept().expect("accepts").0;
    server.set_nonblocking(true).expect("sets");
    (server, client)
}

fn site() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let large: Vec<u8> = (0..24_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(directory.path().join("large.bin"), large).expect("writes");
    let text: String = (0..30_000).map(|i| format!("line {} of {i}\n", i * 7919 % 30_011)).collect();
    std::fs::write(directory.path().join("a.txt"), text).expect("writes");
    directory
}

fn begin(resumer: &mut Resumer, request: &str) -> Unfinished {
    resumer.begin(format!("GET {request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("a whole head")
}

#[test]
fn another_process_finishes_what_one_has_begun() {
    let directory = site();
    let large = std::fs::read(directory.path().join("large.bin")).expect("reads");
    for (fields, expected) in [
        (String::new(), large.clone()),
        ("Range: bytes=1000-20000000\r\n".to_owned(), large[1000..=20_000_000].to_vec()),
    ] {
        let mut resumer = Resumer::new(options(directory.path())).expect("opens");
        let head = format!("GET /large.bin HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut unfinished = resumer.begin(head.as_bytes()).expect("a whole head");
        let (server, mut client) = pair();
        // Until the client's side is full, which reads nothing yet.
        while unfinished.response.offset < 100_000 {
            assert_eq!(resumer.advance(&mut unfinished, server.as_fd()).expect("sends"), Resumed::Unfinished);
        }
        assert!(!unfinished.response.is_finished(), "in mid-body");
        drop(resumer);
        let root = directory.path().to_owned();
        let other = std::thread::spawn(move || elsewhere(&root, &unfinished, server));
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("reads");
        other.join().expect("no panic");
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(all[head..] == expected, "{} bytes of {}", all.len() - head, expected.len());
    }
}

#[test]
fn every_form_and_cut_continues_to_the_byte_or_says_that_it_cannot() {
    for here in IN_MEMORY {
        for there in IN_MEMORY {
            every_form_and_cut_continues(here, there);
        }
    }
}

fn every_form_and_cut_continues(here: u64, there: u64) {
    let directory = site();
    let mut first = Resumer::new(options_with(directory.path(), here)).expect("opens");
    let fields = "Accept-Encoding: gzip\r\n";
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let start = Instant::now();
    let coded = loop {
        let unfinished = first.begin(request.as_bytes()).expect("a whole head");
        if unfinished.response.variant == Variant::Gzip {
            break unfinished;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no form was made");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(coded.is_made && coded.digest.is_some());
    let plain = begin(&mut first, "/a.txt");
    let error = begin(&mut first, "/none");
    let whole = |mut unfinished: Unfinished| {
        let (server, mut client) = pair();
        let mut resumer = Resumer::new(options_with(directory.path(), there)).expect("opens");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("reads");
            all
        });
        advance_to_the_end(&mut resumer, &mut unfinished, &server);
        drop(server);
        reader.join().expect("no panic")
    };
    for unfinished in [&coded, &plain, &error] {
        let all = whole(unfinished.clone());
        assert_eq!(all.len() as u64, unfinished.response.len());
        for cut in [1, all.len() / 3, all.len() - 1] {
            let mut later = unfinished.clone();
            later.response.offset = cut as u64;
            assert!(whole(later) == all[cut..], "cut at {cut}");
        }
    }
    // The same bytes in another file, as on another host: the digest tells.
    let copy = directory.path().join("copy");
    std::fs::copy(directory.path().join("a.txt"), &copy).expect("copies");
    std::fs::rename(&copy, directory.path().join("a.txt")).expect("renames");
    let mut resumer = Resumer::new(options_with(directory.path(), there)).expect("opens");
    let (server, client) = pair();
    assert!(resumer.advance(&mut plain.clone(), server.as_fd()).is_ok());
    // Other bytes, of the same length.
    let mut bytes = std::fs::read(directory.path().join("a.txt")).expect("reads");
    bytes[0] ^= 1;
    let mut file = std::fs::File::create(directory.path().join("a.txt")).expect("opens");
    file.write_all(&bytes).expect("writes");
    for unfinished in [&plain, &coded] {
        let mut resumer = Resumer::new(options_with(directory.path(), there)).expect("opens");
        let refused = resumer.advance(&mut unfinished.clone(), server.as_fd());
        assert_eq!(refused.expect_err("it is another file").kind(), std::io::ErrorKind::StaleNetworkFileHandle);
    }
    drop(client);
}
