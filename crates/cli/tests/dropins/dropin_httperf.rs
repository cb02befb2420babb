//! `weir httperf` beside Debian's httperf on one server: the same lines, the same counts and sizes.

use crate::support;

use std::process::Command;
use std::time::Duration;
use support::{alone, output};
use weir_testkit::{Apache, Certificate, Nginx, WeirServe, require};

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
    let begins = [
        "Connection length",
        "Request size",
        "Reply size",
        "Reply status",
        "Errors:",
        "Session: avg",
        "Session length",
    ];
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
    // Several calls on each of several connections, one after the other and in bursts.
    with(&["--num-conns", "10", "--num-calls", "4"]);
    with(&["--num-conns", "5", "--num-calls", "6", "--burst-length", "3", "--close-with-reset"]);
    with(&["--num-conns", "5", "--rate", "50", "--http-version", "1.0", "--send-buffer", "8192"]);
    with(&["--period", "u0.001,0.003", "--num-conns", "30", "--recv-buffer", "8000", "--client", "1/3"]);
    with(&["--period", "e0.002", "--num-conns", "30", "--think-timeout", "2", "--timeout", "1.5"]);
    // Sessions; of status lines one is said to be a failure, so that some fail.
    with(&["--wsess=4,5,0.02", "--burst-length", "2", "--rate", "100", "--session-cookies"]);
    with(&["--wsess=2,8,0", "--burst-length", "4", "--max-piped-calls", "2", "--max-connections", "3"]);
    with(&["--wsess=3,4,0", "--http-version", "1.0"]);
    with(&["--wsess=3,3,0", "--failure-status", "200", "--rate", "50"]);
    with(&["--wsess=2,3,0", "--failure-status", "404", "--retry-on-failure"]);
}

/// A site of a page with an object, and the files that name its URIs.
fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &[u8]| std::fs::write(site.path().join(name), text).expect("a file");
    write("one.html", b"<html><!-- <img src=\"no.gif\"> --><img src=\"a.gif\"></html>");
    write("a.gif", &[b'g'; 300]);
    write("uris", b"/one.html\0/a.gif\0/none\0");
    let sessions = "# one\n/one.html think=0.05\n\t/a.gif\n  /none\n/a.gif method=POST contents=\"a b\\n\"\n\n/a.gif method=HEAD\n";
    write("sessions", sessions.as_bytes());
    site
}

#[test]
fn files_of_uris_and_sessions_are_followed_as_by_the_original() {
    let _turn = alone();
    if require::program("httperf").is_none() {
        return;
    }
    let site = site();
    let program = env!("CARGO_BIN_EXE_weir");
    let server = WeirServe::new(program).root(site.path()).start().expect("weir serve starts");
    let port = server.port.to_string();
    let (uris, sessions) = (site.path().join("uris"), site.path().join("sessions"));
    let (log, list) = (format!("--wlog=y,{}", uris.display()), format!("--wsesslog=5,0.01,{}", sessions.display()));
    for more in [
        &[log.as_str(), "--num-conns", "7", "-v"][..],
        &[&list, "--rate", "100"],
        &[&list, "--print-request", "--print-reply=header", "--add-header", "X: y\\n"],
        &["--wset=101,0.5", "--num-conns", "9", "--verbose", "--client=2/4"],
        &["--wsesspage=2,1,0.1", "--uri", "/one.html"],
        &["--uri", "/one.html", "--print-reply", "--print-request=header", "--num-conns", "2"],
        &["-v", "-v", "--uri", "/a.gif", "--num-conns", "1"],
    ] {
        let arguments = [&["--server", "127.0.0.1", "--port", &port], more].concat();
        let (status, text, complaints) = ours(&arguments);
        let (status_of_original, text_of_original) = original(&arguments);
        assert_eq!(status, status_of_original, "{more:?}: {complaints}");
        assert_eq!(exact(&text), exact(&text_of_original), "{more:?}");
        // Lines before the report, word for word: calls and URIs as they come. Times and limits of files differ.
        let varies = |line: &&str| line.contains("descriptors") || line.contains("Date: ") || line.contains(":Date");
        let begin = |text: &str| {
            let lines = text.lines().take_while(|line| !line.starts_with("Maximum connect"));
            lines.filter(|line| !varies(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(begin(&text), begin(&text_of_original), "{more:?}");
    }
}

#[test]
fn a_list_that_does_not_wrap_ends_the_run() {
    let _turn = alone();
    let site = site();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(site.path()).start().expect("weir serve starts");
    let (port, log) = (server.port.to_string(), format!("--wlog=n,{}", site.path().join("uris").display()));
    // The original sends one request more and does not wait for its reply.
    let (status, text, _) = ours(&["--server", "127.0.0.1", "--port", &port, &log, "--num-conns", "10"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("\nTotal: connections 3 requests 3 replies 3 "), "{text}");
    assert!(text.contains("2xx=2 3xx=0 4xx=1"), "{text}");
}

#[test]
fn several_servers_take_turns_and_cookies_come_back() {
    use std::io::{Read, Write};
    let _turn = alone();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port().to_string();
    let (seen, requests) = std::sync::mpsc::channel();
    // It ends with the test's process: nothing waits for it.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, seen) = (stream.expect("a connection"), seen.clone());
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut request) {
                    let text = String::from_utf8_lossy(&request[..count]).into_owned();
                    let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: user=7; path=/\r\nTransfer-Encoding: chunked\r\n\r\n\
                                  6\r\nHello\n\r\n0\r\n\r\n";
                    if seen.send(text).is_err() || stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let site = tempfile::tempdir().expect("a directory");
    let servers = site.path().join("servers");
    std::fs::write(&servers, "127.0.0.1\0localhost\0").expect("a file");
    let servers = servers.to_str().expect("a readable path");
    let (status, text, complaints) =
        ours(&["--servers", servers, "--port", &port, "--wsess=3,2,0", "--session-cookie", "--runtime", "20"]);
    assert_eq!((status, complaints.as_str()), (Some(0), ""), "{text}");
    // As in the book: the last line's end of a chunked reply is its footer.
    assert!(text.contains("content 6.0 footer 2.0 (total "), "{text}");
    assert!(text.contains("\nSession length histogram: 0 0 3\n"), "{text}");
    let requests: Vec<String> = requests.try_iter().collect();
    let hosts: Vec<_> = requests.iter().filter_map(|text| text.lines().find(|line| line.starts_with("Host"))).collect();
    let (one, two) = ("Host: 127.0.0.1", "Host: localhost");
    assert_eq!(hosts, [one, one, two, two, one, one]);
    let with_cookie: Vec<_> = requests.iter().map(|text| text.contains("\r\nCookie: user=7\r\n")).collect();
    assert_eq!(with_cookie, [false, true, false, true, false, true]);
}

#[test]
fn stepped_periods_and_the_time_limit_are_kept() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let port = server.port.to_string();
    let with =
        |more: &[&str]| ours(&[&["--server", "127.0.0.1", "--port", &port, "--uri", "/1k.txt"], more].concat()).1;
    // Five arrivals 20 ms apart, then 100 ms apart: the eleventh comes after 5 * 20 + 5 * 100 ms.
    let text = with(&["--period", "v0.02,0.1,0.1,0.5", "--num-conns", "11"]);
    let seconds = number(&text, "test-duration ");
    assert!((0.6..0.9).contains(&seconds), "{text}");
    let text = with(&["--runtime", "1", "--rate", "20", "--num-conns", "1000", "--periodic-stats"]);
    assert!((1.0..1.1).contains(&number(&text, "test-duration ")), "{text}");
    assert!((18.0..=21.0).contains(&number(&text, "Total: connections ")), "{text}");
}

#[test]
fn a_server_that_does_not_answer_is_a_timeout_of_the_client() {
    let _turn = alone();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port().to_string();
    let (status, text, _) = ours(&["--server", "127.0.0.1", "--port", &port, "--wsess=2,2,0", "--timeout", "0.3"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("Errors: total 2 client-timo 2 socket-timo 0"), "{text}");
    assert!(text.contains("(0/2)\n") && text.contains("Session failtime [s]: 0.3"), "{text}");
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
        (&["--wsess=1,2"][..], "httperf: --wsess 1,2: SESSIONS,CALLS,SECONDS is wanted"),
        (&["--wlog=y,/no/such/file"], "httperf: --wlog: can't open /no/such/file: No such file"),
        (&["--session-cookie"], "httperf: --session-cookie requires session-oriented workload"),
        (&["--ssl", "--ssl-protocol", "SSLv2"], "httperf: --ssl-protocol SSLv2: auto, TLSv1, TLSv1.2 or TLSv1.3"),
        (&["--num", "7"], "httperf: --num: it may mean --num-calls, --num-conns"),
        (&["--bogus"], "httperf: --bogus: no such option"),
        (&["--server", "127.0.0.1", "--port", "1"], "httperf: 127.0.0.1:1: cannot be reached"),
    ] {
        let (status, _, complaints) = ours(arguments);
        assert_eq!(status, Some(1), "{complaints}");
        assert!(complaints.starts_with(words), "{complaints}");
    }
}

#[test]
fn tls_is_resumed_within_a_session_as_by_the_original() {
    let _turn = alone();
    if require::program("httperf").is_none() || require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let (certificate, logs) = (Certificate::self_signed().expect("one"), tempfile::tempdir().expect("a directory"));
    let log = logs.path().display();
    // Two calls a connection, so that a session of six has three; a file for each connection says what it was.
    let server = Nginx::new()
        .tls(&certificate)
        .directive("keepalive_requests 2; ssl_protocols TLSv1.2 TLSv1.3; location / { return 200 hello; }")
        .directive(&format!("access_log \"{log}/$connection $ssl_session_reused\" combined;"));
    let server = server.start().expect("nginx starts");
    let port = server.port.to_string();
    // How each connection of a run came to its session: whole (`.`) or resumed (`r`), in the order of the connections.
    let kinds = |ours: bool, arguments: &[&str], connections: usize| {
        std::fs::read_dir(logs.path()).expect("it is there").flatten().for_each(|one| {
            std::fs::remove_file(one.path()).expect("our own file");
        });
        let common = ["--server", "localhost", "--port", &port, "--ssl", "--uri", "/"];
        let all = [&common[..], arguments].concat();
        let (status, text) = match ours {
            true => {
                let (status, _, complaints) = self::ours(&all);
                (status, complaints)
            }
            false => original(&all),
        };
        assert_eq!(status, Some(0), "{text}");
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let entries = std::fs::read_dir(logs.path()).expect("it is there").flatten();
            let lines = |one: &std::fs::DirEntry| {
                std::fs::read_to_string(one.path()).map_or(0, |text| text.matches('\n').count())
            };
            // Whole with both of its calls: a line that came later would make the file anew, for the next run to find.
            let name = |one: std::fs::DirEntry| one.file_name().into_string().expect("text");
            let mut named: Vec<(u32, String)> = entries
                .filter(|one| lines(one) == 2)
                .map(name)
                .filter_map(|name| {
                    name.split_once(' ').map(|(number, kind)| (number.parse().expect("one"), kind.to_owned()))
                })
                .collect();
            named.sort();
            if named.len() >= connections {
                return named.into_iter().map(|(_, kind)| kind).collect::<String>();
            }
            assert!(std::time::Instant::now() < deadline, "{named:?} {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for (arguments, wanted) in [
        (&["--wsess=2,6,0.01"][..], ".rr.rr"),
        (&["--wsess=2,6,0.01", "--ssl-no-reuse"], "......"),
        (&["--num-conns=3", "--num-calls=2"], "..."),
    ] {
        assert_eq!(kinds(false, arguments, wanted.len()), wanted, "the original: {arguments:?}");
        for version in ["auto", "TLSv1.2", "TLSv1.3"] {
            let ours = [arguments, &["--ssl-protocol", version]].concat();
            assert_eq!(kinds(true, &ours, wanted.len()), wanted, "{ours:?}");
        }
    }
}
