//! `weir httperf` beside Debian's httperf on one server: the same lines, the same counts and sizes.

mod support;

use std::process::Command;
use std::time::Duration;
use support::{alone, output};
use weir_testkit::{Apache, WeirServe, require};

/// Exit status and what was printed.
fn ours(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(&[&["httperf"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn original(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("httperf").args(arguments).output().expect("httperf is installed");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines with every number as `9`.
fn form(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let mut form = String::new();
        for letter in line.chars() {
            let letter = if letter.is_ascii_digit() { '9' } else { letter };
            if letter != '9' || !form.ends_with('9') {
                form.push(letter);
            }
        }
        form
    };
    text.lines().map(one).collect()
}

/// The lines of a report that do not depend on the moment.
fn exact(text: &str) -> Vec<&str> {
    let begins = ["Connection length", "Request size", "Reply size", "Reply status", "Errors:"];
    let mut lines: Vec<&str> = text.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin))).collect();
    let total = text.lines().find_map(|line| line.strip_prefix("Total: ")?.split_once(" test-duration"));
    lines.push(total.expect("a line of totals").0);
    lines
}

/// The number behind a text.
fn number(text: &str, behind: &str) -> f64 {
    let at = text.find(behind).unwrap_or_else(|| panic!("no {behind:?} in {text}")) + behind.len();
    let digits: String = text[at..].chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
    digits.parse().unwrap_or_else(|error| panic!("{behind}: {error} in {text}"))
}

#[test]
fn the_report_has_the_lines_of_the_original_and_its_counts() {
    let _turn = alone();
    if require::apache().is_none() || require::program("httperf").is_none() {
        return;
    }
    let server = Apache::event().start().expect("Apache starts");
    // Of a file that has just been written the entity tag is longer.
    std::thread::sleep(Duration::from_secs(2));
    let port = server.port.to_string();
    let with = |more: &[&'static str]| {
        let mut arguments = vec!["--server", "127.0.0.1", "--port", &port, "--uri", "/1k.txt"];
        arguments.extend(more);
        let (status, text, complaints) = ours(&arguments);
        let (status_of_original, text_of_original) = original(&arguments);
        assert_eq!(status, status_of_original, "{more:?}: {complaints}");
        assert_eq!(form(&text), form(&text_of_original), "{more:?}");
        assert_eq!(exact(&text), exact(&text_of_original), "{more:?}");
        // The first line repeats the command line in the order of the original.
        assert_eq!(text.lines().next(), text_of_original.lines().next(), "{more:?}");
    };
    with(&["--hog", "--rate", "200", "--num-conns", "100", "--timeout", "5"]);
    with(&["--num-conns", "50", "--num-calls", "1"]);
    with(&["--num-calls", "100"]);
    with(&["--rate", "100", "--num-co", "50", "--method", "HEAD", "--server-name", "elsewhere"]);
}

#[test]
fn the_command_line_of_the_book_runs_and_its_figures_fit_together() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let port = server.port.to_string();
    let (status, text, complaints) = ours(&[
        "--server",
        "localhost",
        "--port",
        &port,
        "--uri",
        "/1k.txt",
        "--hog",
        "--rate",
        "860",
        "--num-conn",
        "5000",
        "--num-call",
        "1",
        "--timeout",
        "60",
    ]);
    assert_eq!((status, complaints.as_str()), (Some(0), ""), "{text}");
    assert!(text.contains("\nTotal: connections 5000 requests 5000 replies 5000 test-duration 5.8"), "{text}");
    let seconds = number(&text, "test-duration ");
    let near = |figure: f64, wanted: f64, step: f64| {
        assert!((figure - wanted).abs() <= step, "{figure} is not {wanted}: {text}");
    };
    near(number(&text, "Connection rate: "), 5000.0 / seconds, 0.2);
    near(number(&text, "Request rate: "), 5000.0 / seconds, 0.2);
    near(number(&text, "Connection length [replies/conn]: "), 1.0, 1e-9);
    // One whole sample of 5 s at the rate that was asked for.
    assert!(text.contains("(1 samples)"), "{text}");
    near(number(&text, "Reply rate [replies/s]: min "), 860.0, 20.0);
    near(number(&text, "content "), 1024.0, 1e-9);
    let (total, head) = (number(&text, "(total "), number(&text, "header "));
    near(total, head + 1024.0, 1e-9);
}

#[test]
fn mistakes_and_what_is_not_there_are_told() {
    for (arguments, words) in [
        (&["--wsess=1,2,3"][..], "httperf: --wsess: sessions: not there yet"),
        (&["--num", "7"], "httperf: --num: it may mean --num-calls, --num-conns"),
        (&["--bogus"], "httperf: --bogus: no such option"),
        (&["--server", "127.0.0.1", "--port", "1"], "httperf: 127.0.0.1:1: cannot be reached"),
    ] {
        let (status, _, complaints) = ours(arguments);
        assert_eq!(status, Some(1), "{complaints}");
        assert!(complaints.starts_with(words), "{complaints}");
    }
}
