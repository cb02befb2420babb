//! Content that lies on other machines: a link in its place says which, and the program brings it.

use crate::harness;

use harness::Site;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_server::{ContentAway, Elsewhere, IncomingContent, Options, Wake, WantedContent};

const BYTES: u64 = 200_000;

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

type Piece = Result<Vec<u8>, ContentAway>;

/// Brings pieces from another thread, one each time that one was taken; of what is called `gone` none.
#[derive(Debug)]
struct Slowly;

#[derive(Debug)]
struct Coming {
    pieces: Arc<Mutex<VecDeque<Piece>>>,
}

impl Elsewhere for Slowly {
    fn begin(&self, wanted: &WantedContent<'_>, wake: Wake) -> Box<dyn IncomingContent> {
        let pieces = Arc::<Mutex<VecDeque<_>>>::default();
        let (of_thread, from, to) = (Arc::clone(&pieces), wanted.from as usize, wanted.to as usize);
        let is_gone = wanted.path.ends_with(b"gone.bin");
        assert_eq!((wanted.bytes, wanted.digest), (BYTES, [0xab; 32]));
        std::thread::spawn(move || {
            for piece in content()[from..to].chunks(30_000) {
                std::thread::sleep(Duration::from_millis(2));
                let why = "no machine sends it".to_owned();
                let piece = if is_gone { Err(ContentAway { why }) } else { Ok(piece.to_vec()) };
                of_thread.lock().expect("is whole").push_back(piece);
                wake.wake();
            }
        });
        Box::new(Coming { pieces })
    }
}

impl IncomingContent for Coming {
    fn next(&mut self) -> Result<Option<Vec<u8>>, ContentAway> {
        self.pieces.lock().expect("is whole").pop_front().transpose()
    }
}

/// Sends a request over a connection; the head and the body.
fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> (String, Vec<u8>) {
    stream.get_mut().write_all(request.as_bytes()).expect("writes");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("answers in time") > 0, "{head}");
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; if request.starts_with("HEAD") || head.contains(" 304 ") { 0 } else { length }];
    stream.read_exact(&mut body).expect("has a body");
    (head, body)
}

#[test]
fn it_is_served_as_it_comes_over_one_connection() {
    let text = format!(".weir-elsewhere/{}/{BYTES}/1000000000", "ab".repeat(32));
    let bring = |options: &mut Options| options.elsewhere = Some(Arc::new(Slowly));
    let site = Site::start(&[("here.txt", b"here"), ("d/other.txt", b"other")], bring);
    for name in ["a.bin", "b.bin", "gone.bin", "d/index.html", "page.txt"] {
        symlink(&text, site.directory.path().join(name)).expect("links");
    }
    let stream = site.connect();
    let mut stream = BufReader::new(stream);
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: w\r\n{more}\r\n");
    let all = content();
    for path in ["/a.bin", "/b.bin", "/here.txt", "/a.bin", "/d/"] {
        let (head, body) = ask(&mut stream, &get(path, ""));
        assert!(head.starts_with("HTTP/1.1 200 ") && (body == all || body == b"here"), "{path}: {head}");
    }
    let (head, body) = ask(&mut stream, &get("/a.bin", "Range: bytes=29999-90000\r\n"));
    assert!(head.starts_with("HTTP/1.1 206 ") && body == all[29_999..=90_000], "{head}");
    assert!(head.contains("\r\nETag: \"abababababababababababababababab\"\r\n"), "{head}");
    assert!(head.contains("\r\nLast-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"), "{head}");
    let (head, body) = ask(&mut stream, &get("/a.bin", "Range: bytes=0-1,-2\r\n"));
    assert!(head.starts_with("HTTP/1.1 206 ") && body.ends_with(b"--\r\n"), "{head}");
    let (head, _) = ask(&mut stream, &get("/a.bin", "If-None-Match: \"abababababababababababababababab\"\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 "), "{head}");
    let (head, _) = ask(&mut stream, &get("/page.txt", ""));
    assert!(head.contains("\r\nVary: Accept-Encoding\r\n"), "{head}");
    let (head, _) = ask(&mut stream, "HEAD /a.bin HTTP/1.1\r\nHost: w\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 200000\r\n"), "{head}");
    let (head, body) = ask(&mut stream, &get("/gone.bin", ""));
    assert!(head.starts_with("HTTP/1.1 503 ") && body == b"no machine sends it\n", "{head}");
    let (head, _) = ask(&mut stream, &get("/here.txt", ""));
    assert!(head.starts_with("HTTP/1.1 200 "), "the connection goes on: {head}");
}
