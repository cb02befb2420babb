//! What the access log says, and what it does not.
// scripts/test: serves

mod harness;

use harness::{Site, read_reply};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_server::{AccessLog, LogFormat, LogTarget, Options, Rotation};

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

#[test]
fn json_is_json_for_any_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, |log| log.format = LogFormat::Json));
    site.ask("GET", "/a.txt?token=abc", "Referer: http://r/x?secret=1\r\nUser-Agent: agent \"q\" \\ \t\u{e4}.\r\n");
    site.exchange(b"nonsense\r\n\r\n");
    site.stop();
    let text = std::fs::read_to_string(&path).expect("reads");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let first = &lines[0];
    for (name, expected) in [
        ("client", "127.0.0.0"),
        ("host", "a"),
        ("method", "GET"),
        ("target", "/a.txt?-"),
        ("protocol", "HTTP/1.1"),
        ("referrer", "http://r/x?-"),
        ("user_agent", "agent \"q\" \\ \t\u{c3}\u{a4}."),
    ] {
        assert_eq!(first[name], expected, "{name}");
    }
    assert_eq!(
        (first["status"].as_u64(), first["bytes"].as_u64(), first["user"].is_null()),
        (Some(200), Some(5), true)
    );
    assert!(first["duration_us"].as_u64().is_some_and(|us| us < 60_000_000));
    let time = first["time"].as_str().expect("a time");
    assert!(time.len() == 20 && time.ends_with('Z') && time.contains('T'), "{time}");
    assert_eq!((lines[1]["status"].as_u64(), lines[1]["method"].is_null()), (Some(400), true));
}

#[test]
fn a_format_of_ones_own_has_apaches_letters() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    let change = |log: &mut AccessLog| {
        log.format = LogFormat::Own("%a|%m %U%q %H|%>s|%b|%B|%O|%{Host}i|100%%|%{ms}T".parse().expect("a format"));
    };
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, change));
    let whole = site.exchange(b"GET /a.txt?q=1 HTTP/1.1\r\nHost: x.org\r\nConnection: close\r\n\r\n").len();
    site.ask("HEAD", "/a.txt", "");
    site.stop();
    let text = std::fs::read_to_string(&path).expect("reads");
    let lines: Vec<(&str, u64)> = text
        .lines()
        .map(|line| line.rsplit_once('|').map(|(rest, ms)| (rest, ms.parse().expect("a number"))).expect("a line"))
        .collect();
    assert_eq!(lines[0].0, format!("127.0.0.0|GET /a.txt?- HTTP/1.1|200|5|5|{whole}|x.org|100%"));
    assert!(lines[1].0.starts_with("127.0.0.0|HEAD /a.txt HTTP/1.1|200|-|0|"), "{}", lines[1].0);
    assert!(lines.iter().all(|(_, ms)| *ms < 60_000));
}

#[test]
fn files_are_turned_round_by_their_size_and_so_many_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    const LARGEST: u64 = 100_000;
    let change = |log: &mut AccessLog| {
        log.rotation = Some(Rotation { bytes_max: Some(LARGEST), age_max: None, keep: 2 });
    };
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, change));
    let mut stream = site.connect();
    let mut requests = 0;
    let numbered = |number: u32| directory.path().join(format!("access.log.{number}"));
    // Until the first file has gone, which then is in neither of the two that are kept.
    while requests < 200_000 && site.counters.read().log_lines < 4 * LARGEST / 60 {
        stream
            .write_all(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nReferer: {requests}\r\n\r\n").as_bytes())
            .expect("sends");
        assert_eq!(read_reply(&mut stream, false).status, 200);
        requests += 1;
    }
    let counts = site.stop();
    assert_eq!((counts.log_lines, counts.log_dropped), (requests, 0));
    assert!(numbered(2).exists() && !numbered(3).exists());
    let mut referrers = Vec::new();
    for file in [numbered(2), numbered(1), path] {
        let text = std::fs::read_to_string(&file).expect("reads");
        assert!(text.len() as u64 <= LARGEST, "{} has {} bytes", file.display(), text.len());
        referrers.extend(
            text.lines()
                .map(|line| line.split('"').nth(3).and_then(|number| number.parse::<u64>().ok()).expect("a number")),
        );
    }
    // What is kept is the end, without a gap.
    assert!(referrers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert!(referrers.first() > Some(&0) && referrers.last() == Some(&(requests - 1)));
}

#[test]
fn files_are_turned_round_by_their_age_without_a_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = log_file(&directory);
    const OLDEST: Duration = Duration::from_millis(1500);
    let change = |log: &mut AccessLog| {
        log.rotation = Some(Rotation { bytes_max: None, age_max: Some(OLDEST), keep: 2 });
    };
    let numbered = |number: u32| directory.path().join(format!("access.log.{number}"));
    let lines = |path: &PathBuf| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let began = Instant::now();
    let site = Site::start(&[("a.txt", b"hello")], log_to(&path, change));
    for round in 1..=2_u64 {
        site.get("/a.txt");
        harness::wait_until(|| site.counters.read().log_lines == round);
        harness::wait_until(|| lines(&path) == 0 && lines(&numbered(1)) == 1);
        assert!(began.elapsed() >= OLDEST.saturating_mul(round as u32), "it was not old yet");
    }
    assert_eq!(lines(&numbered(2)), 1);
    // What holds nothing is not turned round, however old it becomes.
    std::thread::sleep(2 * OLDEST);
    assert!(!numbered(3).exists() && lines(&numbered(1)) == 1);
    site.stop();
}

#[test]
fn a_log_that_cannot_be_written_is_told_once() {
    static TOLD: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.access_log = Some(AccessLog::new(LogTarget::File("/dev/full".into())));
        options.notice = |notice| TOLD.lock().expect("no panic").push(notice.to_owned());
    });
    let mut stream = site.connect();
    for round in 1..=3 {
        for _ in 0..2000 {
            stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
            assert_eq!(read_reply(&mut stream, false).status, 200);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while site.counters.read().log_dropped < round * 1000 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    site.stop();
    let told = TOLD.lock().expect("no panic").clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("No space left") && told[0].ends_with("serving goes on"), "{told:?}");
}
