//! A request for a cached file allocates nothing. It is a test binary of its own, because it counts all
//! allocations of the process.
// scripts/test: serves, also by epoll

mod harness;

use harness::Site;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_server::{AccessLog, LogTarget};

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

#[test]
fn cached_files_are_served_without_allocation() {
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
