//! Files that change while they are served: a request after a change gets the new content, and no response has bytes of
//! two versions.

use crate::harness;

use harness::{Reply, Site, read_to_end};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::time::{Duration, Instant};

const LARGE: usize = 48 << 20;

#[test]
fn a_request_after_a_change_gets_the_change() {
    let site = Site::start(&[("a.txt", b"first"), ("d/e/f.txt", b"deep")], |_| {});
    let at = |name: &str| site.directory.path().join(name);
    let mut stream = site.connect();
    let mut get = |path: &str| {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let reply = harness::read_reply(&mut stream, false);
        (reply.status, reply.text())
    };
    let ok = |text: &str| (200, text.to_owned());
    for i in 0..200 {
        // Of the same length each, so that the size tells nothing.
        let text = format!("in place {i:5}");
        site.write("a.txt", text.as_bytes());
        assert_eq!(get("/a.txt"), ok(&text));
        let text = format!("replaced {i:5}");
        site.write("new", text.as_bytes());
        std::fs::rename(at("new"), at("a.txt")).expect("renames");
        assert_eq!(get("/a.txt"), ok(&text));
    }
    let file = std::fs::File::options().write(true).open(at("a.txt")).expect("opens");
    file.write_all_at(b"RE", 0).expect("writes");
    assert!(get("/a.txt").1.starts_with("REplaced"));
    file.set_len(3).expect("truncates");
    assert_eq!(get("/a.txt"), ok("REp"));
    std::fs::remove_file(at("a.txt")).expect("removes");
    assert_eq!(get("/a.txt").0, 404);
    assert_eq!(get("/d/e/f.txt"), ok("deep"));
    std::fs::rename(at("d"), at("moved")).expect("renames");
    assert_eq!((get("/d/e/f.txt").0, get("/moved/e/f.txt")), (404, ok("deep")));
    site.write("d/e/f.txt", b"other");
    assert_eq!(get("/d/e/f.txt"), ok("other"));
    site.write("moved/e/f.txt", b"changed");
    assert_eq!(get("/moved/e/f.txt"), ok("changed"));
    site.write("d/index.html", b"index");
    assert_eq!(get("/d/"), ok("index"));
    site.write("d/index.html", b"index 2");
    assert_eq!(get("/d/"), ok("index 2"));
    std::fs::remove_file(at("d/index.html")).expect("removes");
    assert!(get("/d/").1.contains("<h1>/d/</h1>"), "the listing, as the index has gone");
    let counts = site.counters.read();
    assert!(counts.watch_events > 400 && counts.watch_overflows == 0, "{counts:?}");
}

#[test]
fn files_that_stay_as_they_are_need_no_look() {
    let site = Site::start(&[("a.txt", b"first")], |_| {});
    assert_eq!(site.get("/a.txt").text(), "first");
    let file = std::fs::File::open(site.directory.path().join("a.txt")).expect("opens");
    let before = site.counters.read();
    // Longer than a file goes without a look where the kernel tells nothing.
    std::thread::sleep(Duration::from_millis(1200));
    for _ in 0..10 {
        assert_eq!(site.get("/a.txt").text(), "first");
    }
    let counts = site.counters.read();
    assert_eq!(counts.cache_hits - before.cache_hits, 10);
    assert_eq!((counts.cache_misses, counts.cache_fills, counts.cache_stale), (1, 1, 0));
    drop(file);
}

/// Asks until the answer is the expected one.
fn comes(site: &Site, path: &str, text: &str) -> Duration {
    let begin = Instant::now();
    while site.get(path).text() != text {
        assert!(begin.elapsed() < Duration::from_secs(20), "{path} never became {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begin.elapsed()
}

#[test]
fn where_the_kernel_does_not_tell_a_look_a_second_does() {
    let outer = tempfile::tempdir().expect("a directory");
    let site = Site::start(&[("real/a.txt", b"first"), ("b.txt", b"first")], |_| {});
    let at = |name: &str| site.directory.path().join(name);
    symlink("real", at("link")).expect("links");
    std::fs::hard_link(at("b.txt"), outer.path().join("b.txt")).expect("links");
    for path in ["/link/a.txt", "/b.txt"] {
        assert_eq!(site.get(path).text(), "first");
    }
    site.write("real/a.txt", b"second");
    std::fs::write(outer.path().join("b.txt"), "second").expect("writes");
    for path in ["/link/a.txt", "/b.txt"] {
        comes(&site, path, "second");
    }
    let unwatched = Site::start(&[("a.txt", b"first")], |options| options.watches_max = 0);
    assert_eq!(unwatched.get("/a.txt").text(), "first");
    unwatched.write("a.txt", b"other");
    comes(&unwatched, "/a.txt", "other");
    std::fs::remove_file(unwatched.directory.path().join("a.txt")).expect("removes");
    comes(&unwatched, "/a.txt", &unwatched.get("/none").text());
    assert_eq!(unwatched.counters.read().watch_events, 0);
}

#[test]
fn of_many_loops_one_reads_a_file() {
    let site = Site::start(&[("a.txt", &[b'x'; 100_000])], |options| {
        options.loops = 4;
        options.cached_file_bytes_max = 1 << 20;
    });
    // Shortly after a change two contents could look the same, so nothing is shared then.
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..64 {
        assert_eq!(site.get("/a.txt").body.len(), 100_000);
    }
    let counts = site.counters.read();
    assert!(counts.cache_misses > 1, "more than one loop was asked");
    assert_eq!(counts.cache_fills, 1);
}

/// A file of one letter, and a client that has begun to read it.
fn begun(letter: u8) -> (Site, std::net::TcpStream) {
    let site = Site::start(&[("large.bin", &vec![letter; LARGE])], |_| {});
    let mut stream = site.connect();
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    let mut first = [0; 1000];
    stream.read_exact(&mut first).expect("reads");
    assert!(first.ends_with(&[letter; 100]));
    (site, stream)
}

#[test]
fn a_file_replaced_while_it_is_sent_is_sent_as_it_was() {
    let (site, mut stream) = begun(b'o');
    site.write("new", &vec![b'n'; LARGE]);
    std::fs::rename(site.directory.path().join("new"), site.directory.path().join("large.bin")).expect("renames");
    let rest = read_to_end(&mut stream);
    assert!(rest.len() > LARGE - 1000 && rest.iter().all(|&byte| byte == b'o'), "{} bytes", rest.len());
    assert!(site.get("/large.bin").body.iter().all(|&byte| byte == b'n'));
}

#[test]
fn a_file_deleted_while_it_is_sent_is_sent_as_it_was() {
    let (site, mut stream) = begun(b'o');
    std::fs::remove_file(site.directory.path().join("large.bin")).expect("removes");
    assert!(read_to_end(&mut stream).len() > LARGE - 1000);
    assert_eq!(site.get("/large.bin").status, 404);
}

#[test]
fn a_file_written_or_truncated_while_it_is_sent_ends_the_connection() {
    for truncate in [false, true] {
        let (site, mut stream) = begun(b'o');
        let file = std::fs::File::options().write(true).open(site.directory.path().join("large.bin")).expect("opens");
        if truncate {
            file.set_len(LARGE as u64 / 2).expect("truncates");
        } else {
            file.write_all_at(&vec![b'n'; 1 << 20], LARGE as u64 - (1 << 20)).expect("writes");
        }
        let rest = read_to_end(&mut stream);
        assert!(rest.len() < LARGE - 1000, "the whole length, of two versions; truncate: {truncate}");
        assert!(rest.iter().all(|&byte| byte == b'o'), "truncate: {truncate}");
        assert_eq!(site.counters.read().connections_broken, 1);
        let after = site.get("/large.bin");
        assert_eq!(after.body.len(), if truncate { LARGE / 2 } else { LARGE });
    }
}

#[test]
fn a_file_in_memory_is_sent_whole_even_if_it_changes() {
    let site = Site::start(&[("a.txt", &vec![b'o'; 1 << 20])], |options| options.cached_file_bytes_max = 1 << 20);
    let request = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16);
    let mut stream = site.connect();
    stream.write_all(request.as_bytes()).expect("sends");
    let mut first = [0; 1000];
    stream.read_exact(&mut first).expect("reads");
    site.write("a.txt", &vec![b'n'; 1 << 20]);
    stream.shutdown(std::net::Shutdown::Write).expect("ends");
    let all = [first.to_vec(), read_to_end(&mut stream)].concat();
    let mut rest = all.as_slice();
    for _ in 0..16 {
        let (reply, after) = Reply::parse(rest);
        assert_eq!(reply.body.len(), 1 << 20);
        assert!(reply.body.iter().all(|&byte| byte == reply.body[0]), "two versions in one");
        rest = after;
    }
    assert_eq!(site.get("/a.txt").body[0], b'n');
}
