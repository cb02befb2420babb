//! A request for a cached file allocates nothing. It is a test binary of its own, because it counts all
//! allocations of the process.
// scripts/test: serves, also by epoll

mod harness;

use harness::Site;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_server::{AccessLog, LogTarget, parse_configuration};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of this trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of this trait.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const REQUESTS: u64 = 20_000;
/// All allocations of the process are counted, so that one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn cached_files_are_served_without_allocation() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.access_log = Some(AccessLog::new(LogTarget::File("/dev/null".into())));
    });
    for path in ["/a.txt", "/a.txt?query", "/%61.txt"] {
        let mut stream = site.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sends");
        let mut response = [0; 1000];
        let response_bytes = stream.read(&mut response).expect("reads");
        assert!(response[..response_bytes].ends_with(b"\r\n\r\nhello"));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..REQUESTS {
            stream.write_all(request.as_bytes()).expect("sends");
            stream.read_exact(&mut response[..response_bytes]).expect("reads");
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        // Once a second the date is rendered and the file is looked at; now and then a block of the log goes out.
        assert!(allocations < REQUESTS / 100, "{allocations} allocations in {REQUESTS} requests for {path}");
    }
}

/// Allocations of a request that is passed on: its record, its handler, what routing does to the head of its response, and
/// the fields and the body of that.
const PASSED_ON_MOST: f64 = 5.5;

#[test]
fn requests_that_are_passed_on_take_few_allocations_and_cached_answers_fewer_than_one() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let http =
        answering(b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello");
    let output = b"\x01\x06\x00\x01\x00\x20\x00\x00Content-Type: text/plain\r\n\r\nhell";
    let ended = [&output[..], b"\x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\0\0\0\0\0"].concat();
    let fastcgi = answering(b"\x01\x05\x00\x01\x00\x00\x00\x00", ended.leak());
    let text = format!(
        "[[host]]\nroot = \".\"\n[[host.path]]\nprefix = \"/passed\"\nproxy = \"http://{http}\"\n[[host.path]]\nprefix = \"/cached\"\n\
         proxy = \"http://{http}\"\ncache = true\n[[host.path]]\nglob = \"**.php\"\nfastcgi = {{ to = \"{fastcgi}\", connections = 4 }}\n"
    );
    let site = Site::start(&[("a.php", b"")], |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.io, options.root) = (listen, 1, io, folder);
    });
    for (path, most) in [("/passed", PASSED_ON_MOST), ("/a.php", PASSED_ON_MOST), ("/cached", 0.5)] {
        let mut stream = site.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n");
        let mut response = [0; 1000];
        let mut ask = || {
            stream.write_all(request.as_bytes()).expect("sends");
            let bytes = stream.read(&mut response).expect("reads");
            assert!(response[..bytes].windows(4).any(|four| four == b"hell"), "{:?}", response[..bytes].escape_ascii());
        };
        (0..100).for_each(|_| ask());
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..REQUESTS / 10).for_each(|_| ask());
        let each = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / (REQUESTS / 10) as f64;
        eprintln!("{path}: {each:.3} allocations a request");
        assert!(each < most, "{path}: {each} allocations a request, at most {most}");
    }
}

/// Answers what ends in this way, over as many connections as it gets, without an allocation.
fn answering(end: &'static [u8], response: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = listener.local_addr().expect("an address");
    let answer = move |mut stream: TcpStream| {
        let (mut bytes, mut filled) = ([0; 4096], 0);
        while let Ok(count @ 1..) = stream.read(&mut bytes[filled..]) {
            filled += count;
            if bytes[..filled].ends_with(end) {
                filled = 0;
                if stream.write_all(response).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    addr
}
