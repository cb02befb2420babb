//! What the access log says, and what it does not.

mod harness;

use harness::{Site, read_reply};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_server::{AccessLog, LogFormat, LogTarget, Options};

fn log_to(path: &std::path::Path, change: impl FnOnce(&mut AccessLog)) -> impl FnOnce(&mut Options) {
    let mut log = AccessLog::new(LogTarget::File(path.to_owned()));
    change(&mut log);
    move |options| options.access_log = Some(log)
}

fn log_file(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("access.log")
}

/// Takes the time out of a line, after a look at its form.
fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once('[').expect("a time");
    let (time, after) = rest.split_once(']').expect("an end of the time");
    let form: String = time
        .chars()
        .map(|c| {
            if c.is_ascii_digit() {
                '9'
            } else if c.is_alphabetic() {
                'a'
            } else {
                c
            }
        })
        .collect();
    assert_eq!(form, "99/aaa/9999:99:99:99 +9999");
    format!("{before}[]{after}")
}

#[test]
fn lines_are_in_the_combined_form_and_redacted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let site = Site::start(&[("a.txt", b"hello"), ("e.txt", b"")], log_to(&path, |_| {}));
    site.ask("GET", "/a.txt?token=abc", "Referer: http://r/x?secret=1\r\nUser-Agent: agent \"q\" \\ \t.\r\n");
    site.ask("HEAD", "/a.txt", "");
    site.get("/e.txt");
    site.ask("GET", "/a.txt", "Range: bytes=1-2\r\n");
    site.get("/none\"x");
    site.exchange(b"nonsense\r\n\r\n");
    let counts = site.stop();
    let text = std::fs::read_to_string(&path).expect("reads");
    let lines: Vec<String> = text.lines().map(without_time).collect();
    assert_eq!(lines[0], r#"127.0.0.0 - - [] "GET /a.txt?- HTTP/1.1" 200 5 "http://r/x?-" "agent \"q\" \\ \x09.""#);
    assert_eq!(lines[1], r#"127.0.0.0 - - [] "HEAD /a.txt HTTP/1.1" 200 - "-" "-""#);
    assert_eq!(lines[2], r#"127.0.0.0 - - [] "GET /e.txt HTTP/1.1" 200 - "-" "-""#);
    assert_eq!(lines[3], r#"127.0.0.0 - - [] "GET /a.txt HTTP/1.1" 206 2 "-" "-""#);
    assert!(lines[4].starts_with(r#"127.0.0.0 - - [] "GET /none\"x HTTP/1.1" 404 "#), "{}", lines[4]);
    assert!(lines[5].starts_with(r#"127.0.0.0 - - [] "-" 400 "#), "{}", lines[5]);
    assert_eq!((lines.len(), counts.log_lines, counts.log_dropped), (6, 6, 0));
}

#[test]
fn everything_is_written_when_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let change = |log: &mut AccessLog| {
        log.format = LogFormat::Common;
        log.queries = true;
        log.addresses = true;
    };
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, change));
    site.ask("GET", "/a.txt?token=abc", "Referer: r\r\n");
    site.stop();
    let text = std::fs::read_to_string(&path).expect("reads");
    assert_eq!(without_time(text.trim_end()), r#"127.0.0.1 - - [] "GET /a.txt?token=abc HTTP/1.1" 200 5"#);
}

#[test]
fn lines_are_flushed_within_a_second_and_the_file_can_be_rotated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, |_| {}));
    let wait_for_lines = |path: &PathBuf, lines: usize| {
        let deadline = Instant::now() + Duration::from_secs(4);
        while std::fs::read_to_string(path).unwrap_or_default().lines().count() < lines {
            assert!(Instant::now() < deadline, "no line in {}", path.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    site.get("/a.txt");
    wait_for_lines(&path, 1);
    let rotated = directory.path().join("access.log.1");
    std::fs::rename(&path, &rotated).expect("renames");
    site.reopen.store(true, Ordering::Relaxed);
    site.get("/a.txt");
    wait_for_lines(&path, 1);
    site.stop();
    assert_eq!(std::fs::read_to_string(&rotated).expect("reads").lines().count(), 1);
}

#[test]
fn what_was_sent_of_an_unfinished_response_is_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let content = vec![7; 30 << 20];
    let site = Site::start(&[("large.bin", &content)], log_to(&path, |_| {}));
    let mut stream = site.connect();
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut beginning = vec![0; 100_000];
    stream.read_exact(&mut beginning).expect("a beginning");
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(5);
    while site.counters.read().connections_broken == 0 {
        assert!(Instant::now() < deadline, "the end of the client was not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    site.stop();
    let text = std::fs::read_to_string(&path).expect("reads");
    let bytes: u64 = text.split(' ').nth(9).and_then(|bytes| bytes.parse().ok()).expect("a count of bytes");
    assert!((90_000..30 << 20).contains(&bytes), "{text}");
}

#[test]
fn a_full_disk_costs_lines_but_no_response() {
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.access_log = Some(AccessLog::new(LogTarget::File("/dev/full".into())));
    });
    let mut stream = site.connect();
    for _ in 0..2000 {
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, false).status, 200);
    }
    let counts = site.stop();
    assert_eq!((counts.requests, counts.log_lines, counts.log_dropped), (2000, 0, 2000));
}
