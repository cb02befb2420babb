//! What happens when the process has no descriptor left. It is a test binary of its own, because the limit is
//! one of the whole process.

mod harness;

use harness::{Site, read_reply};
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn a_lack_of_descriptors_pauses_accepting_without_spinning() {
    let site = Site::start(&[("a.txt", b"a")], |_| {});
    assert_eq!(site.get("/a.txt").text(), "a");
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
    let pauses = site.counters.read().accept_pauses;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    assert!((3..40).contains(&pauses), "{pauses} pauses");
    assert!(spent < Duration::from_millis(500), "{spent:?} of CPU time while nothing could be done");
    let begin = Instant::now();
    assert_eq!(read_reply(&mut waiting, false).text(), "a");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
