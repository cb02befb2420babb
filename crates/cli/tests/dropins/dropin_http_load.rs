//! `weir http_load`: its command lines run, its lines have the original's form, its counts are the server's.

use crate::support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use support::{alone, output};
use weir_testkit::WeirServe;

/// A file of URLs in a directory of its own.
struct Urls {
    work: tempfile::TempDir,
}

impl Urls {
    fn new(text: &str) -> Self {
        let work = tempfile::tempdir().expect("a directory");
        std::fs::write(work.path().join("urls"), text).expect("the directory is ours");
        Self { work }
    }

    fn path(&self) -> String {
        self.work.path().join("urls").to_str().expect("a readable path").to_owned()
    }
}

/// Runs the command: exit status, what it printed, what it complained of.
fn http_load(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(&[&["http_load"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Words that are numbers become `#`.
fn form(text: &str) -> Vec<String> {
    let word = |word: &str| {
        if word.trim_end_matches(',').parse::<f64>().is_ok() {
            word.replace(|letter: char| letter != ',', "#")
        } else {
            word.to_owned()
        }
    };
    let squeezed = |word: String| word.chars().filter(|letter| *letter != '#').collect::<String>();
    text.lines()
        .map(|line| {
            let words = line.split(' ').map(|part| {
                let replaced = word(part);
                if replaced.starts_with('#') { format!("#{}", squeezed(replaced)) } else { replaced }
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// The number before a word.
fn number(text: &str, before: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| word.trim_end_matches(',') == before);
    let at = at.unwrap_or_else(|| panic!("no {before} in {text}"));
    words[at - 1].parse().unwrap_or_else(|error| panic!("{}: {error}", words[at - 1]))
}

/// The original's output in the book, line by line.
const LINES: [&str; 7] = [
    "# fetches, # max parallel, # bytes, in # seconds",
    "# mean bytes/connection",
    "# fetches/sec, # bytes/sec",
    "msecs/connect: # mean, # max, # min",
    "msecs/first-response: # mean, # max, # min",
    "HTTP response codes:",
    "  code # -- #",
];

#[test]
fn the_command_line_of_the_book_prints_its_lines() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let urls = Urls::new(&format!("{}\n", server.url("/1k.txt")));
    let (status, text, complaints) = http_load(&["-rate", "860", "-seconds", "5", &urls.path()]);
    assert_eq!((status, complaints.as_str()), (Some(0), ""), "{text}");
    assert_eq!(form(&text), LINES, "{text}");
    // 860 a second for 5 s, not rounded to whole milliseconds; the last ones are still under way.
    let fetches = number(&text, "fetches");
    assert!((4250.0..=4300.0).contains(&fetches), "{text}");
    assert!((number(&text, "seconds") - 5.0).abs() < 1e-9, "{text}");
    assert!((number(&text, "fetches/sec") - fetches / 5.0).abs() < 0.01, "{text}");
    assert!((number(&text, "bytes") - fetches * 1024.0).abs() <= 5.0, "{text}");
    assert!(text.ends_with(&format!("\n  code 200 -- {fetches}\n")), "{text}");
}

#[test]
fn urls_are_chosen_at_random_and_repeatably_from_several_hosts() {
    let _turn = alone();
    let one = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let other = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let urls = Urls::new(&format!("{}\n{}\n{}\n", one.url("/1k.txt"), other.url("/64k.bin"), other.url("/not-there")));
    let run = |seed: &str| {
        let (status, text, _) = http_load(&["--seed", seed, "-parallel", "3", "-fetches", "600", &urls.path()]);
        assert_eq!(status, Some(0), "{text}");
        let codes: BTreeMap<String, u64> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  code ")?.split_once(" -- "))
            .map(|(code, count)| (code.to_owned(), count.parse().expect("a count")))
            .collect();
        assert_eq!(number(&text, "max") as u64, 3, "{text}");
        codes
    };
    let (first, again, different) = (run("1"), run("1"), run("2"));
    assert_eq!(first, again);
    assert_ne!(first, different);
    assert_eq!(first.values().sum::<u64>(), 600);
    // A third of 600, give or take five standard deviations.
    assert!(first["404"].abs_diff(200) < 58, "{first:?}");
}

#[test]
fn a_content_that_changes_is_found_by_length_or_checksum() {
    let _turn = alone();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    // It ends with the test's process: nothing waits for it.
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            log.lock().expect("no panic before").push(String::from_utf8_lossy(&request[..length]).into_owned());
            let content = if count % 10 == 9 { "hullo" } else { "hello" };
            // The client may be gone.
            let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{content}").as_bytes());
        }
    });
    let urls = Urls::new(&format!("http://{address}/page\n"));
    let (_, text, complaints) = http_load(&["-parallel", "1", "-fetches", "20", &urls.path()]);
    assert!(!text.contains("bad") && complaints.is_empty(), "all are as long: {text} {complaints}");
    let (_, text, complaints) = http_load(&["-checksum", "-parallel", "1", "-fetches", "20", &urls.path()]);
    assert!(text.contains("\n2 bad checksums\n"), "{text}");
    assert_eq!(complaints, format!("http://{address}/page: checksum wrong\n").repeat(2));
    for request in asked.lock().expect("no panic before").iter() {
        assert!(
            request.starts_with("GET /page HTTP/1.0\r\n") && request.contains(&format!("Host: {address}\r\n")),
            "{request}"
        );
    }
}

#[test]
fn a_wrong_line_of_the_file_is_named() {
    let urls = Urls::new("http://127.0.0.1:1/a\n\nhttp://127.0.0.1:1/b\n");
    let (status, text, complaints) = http_load(&["-rate", "1", "-seconds", "1", &urls.path()]);
    assert_eq!((status, text.as_str()), (Some(1), ""));
    assert_eq!(complaints, format!("http_load: {}: line 2 is empty: each line is a URL; take it out\n", urls.path()));
    let (status, _, complaints) = http_load(&["-p", "1", "-f", "1", "/not/there"]);
    assert_eq!((status, complaints.as_str()), (Some(1), "http_load: /not/there: No such file or directory\n"));
}

#[test]
fn usage_is_told_and_what_is_not_there_is_refused() {
    for arguments in [&[][..], &["urls"], &["-parallel", "1", "urls"]] {
        let (status, _, complaints) = http_load(arguments);
        assert_eq!(status, Some(1));
        assert!(complaints.starts_with("usage:  http_load [-checksum]"), "{complaints}");
    }
    let (status, _, complaints) = http_load(&["-cipher", "fastsec", "-p", "1", "-f", "1", "urls"]);
    assert_eq!(status, Some(1));
    assert!(complaints.contains("-cipher fastsec"), "{complaints}");
}

#[test]
fn a_throttled_fetch_takes_the_time_of_a_modem() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let urls = Urls::new(&format!("{}\n", server.url("/1k.txt")));
    // The content and a head: 1.1 to 1.5 KB. -Throttle counts tenths of bytes.
    for (throttle, bytes_per_s) in [(&["-throttle"][..], 3360.0), (&["-Throttle", "20000"], 2000.0)] {
        let file = urls.path();
        let (status, text, complaints) =
            http_load(&[throttle, &["-parallel", "2", "-fetches", "4", file.as_str()]].concat());
        assert_eq!((status, complaints.as_str()), (Some(0), ""), "{text}");
        assert_eq!((number(&text, "fetches"), number(&text, "bytes")), (4.0, 4096.0), "{text}");
        let (least_s, most_s) = (2.0 * 1100.0 / bytes_per_s, 2.0 * 1500.0 / bytes_per_s + 0.5);
        assert!((least_s..most_s).contains(&number(&text, "seconds")), "{text}");
    }
    // Where the run ends first, no fetch is whole yet, and http_load does not wait for them.
    let urls = Urls::new(&format!("{}\n", server.url("/64k.bin")));
    let (status, text, _) = http_load(&["-throttle", "-rate", "5", "-seconds", "1", &urls.path()]);
    assert_eq!((status, number(&text, "fetches"), number(&text, "seconds")), (Some(0), 0.0, 1.0), "{text}");
}

#[test]
fn a_link_of_its_name_is_the_command() {
    let work = tempfile::tempdir().expect("a directory");
    let link: PathBuf = work.path().join("http_load");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link");
    let output = Command::new(&link).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with(&format!("usage:  {} ", link.display())));
}
