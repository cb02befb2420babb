//! The command lines that the book and the manuals of ab, httperf and http_load show, run as they stand: only hosts,
//! ports and files are put in the originals' place.

use crate::support;

use std::path::Path;
use support::{alone, output};
use weir_testkit::{Apache, Certificate, WeirServe, require};

/// A command line as it is printed somewhere.
struct Shown {
    /// Where.
    source: &'static str,
    line: &'static str,
    /// What is appended to shorten it: the manual's sessions of 10 bursts take 15 minutes.
    more: &'static str,
    /// What it prints, or how it is refused.
    says: &'static [&'static str],
}

const BOOK: &str = "Practical mod_perl, 9.1";
const MANUAL: &str = "httperf(1)";
const MANUAL_AB: &str = "ab(1)";

const fn shown(source: &'static str, line: &'static str, says: &'static [&'static str]) -> Shown {
    Shown { source, line, more: "", says }
}

const ALL: [Shown; 23] = [
    shown(BOOK, "./ab -n 5000 -c 10 http://localhost/perl/simple_test.pl", &["Complete requests:      5000\n"]),
    shown(
        BOOK,
        "/usr/local/apache/bin/ab -n 5000 -c 10 http://localhost/cgi-bin/simple_test_mod_cgi.pl",
        &["Complete requests:      5000\n", "Failed requests:        0\n"],
    ),
    shown(
        BOOK,
        "httperf --server localhost --port 80 --uri /perl/simple_test.pl --hog --rate 860 --num-conn 5000 --num-call 1 \
         --timeout 60",
        &["\nTotal: connections 5000 requests 5000 replies 5000 ", "content 6.0 ", "Errors: total 0 "],
    ),
    shown(
        BOOK,
        "http_load -rate 860 -seconds 5 urls",
        &[" max parallel, ", "6 mean bytes/connection\n", "  code 200 -- "],
    ),
    shown(BOOK, "./http_load -rate 870 -seconds 5 urls", &["6 mean bytes/connection\n", " fetches/sec, "]),
    shown(MANUAL, "httperf --hog --server www", &["Total: connections 1 requests 1 replies 1 "]),
    shown(
        MANUAL,
        "httperf --hog --server www --num-conns 100 --ra 10 --timeout 5",
        &["Total: connections 100 requests 100 replies 100 ", "Errors: total 0 "],
    ),
    shown(
        MANUAL,
        "httperf --hog --server=www --wsess=10,5,2 --rate 1 --timeout 5",
        &["Total: connections 10 requests 50 replies 50 test-duration 17.", "(10/10)\n", "Session lifetime [s]: 8."],
    ),
    shown(
        MANUAL,
        "httperf --hog --server=www --wsess=10,5,2 --rate=1 --timeout=5 --ssl",
        &["Total: connections 10 requests 50 replies 50 test-duration 17.", "(10/10)\n", "--ssl "],
    ),
    // No library of today has ciphers of 40 bits.
    shown(
        MANUAL,
        "httperf --hog --server www --wsess=10,5,2 --rate=1 --timeout=5 --ssl \
         --ssl-ciphers=EXP-RC4-MD5:EXP-RC2-CBC-MD5 --ssl-no-reuse --http-version=1.0",
        &["EXP-RC4-MD5: no such cipher suite"],
    ),
    Shown {
        source: MANUAL,
        line: "httperf --server www --wsess=100,50,10 --burst-len 5",
        more: "--runtime 1",
        says: &["Total: connections 1 requests 5 replies 5 ", "--wsess=100,50,10.000 --burst-length=5"],
    },
    shown(MANUAL, "httperf --server www --burst=10", &["--burst-length=10", "requests 1 replies 1 "]),
    shown(MANUAL, "httperf --server www --burst 10 --num-calls 20", &["connections 1 requests 20 replies 20 "]),
    shown(
        MANUAL,
        "httperf --server www --add-header \"Referer: foo\\nAuth: secret\\n\" --print-request=header",
        &["SH0:Referer: foo\r\nSH0:Auth: secret\r\nSH0:\r\n"],
    ),
    shown(MANUAL, "httperf --server www --wsess 1,1,0 --failure-status=504", &["(1/1)\n"]),
    shown(MANUAL, "httperf --server www --rate=5 --num-conns 3", &["--rate=5 ", "replies 3 "]),
    shown(MANUAL, "httperf --server www --period=d0.2 --num-conns 3", &["--rate=5 ", "replies 3 "]),
    shown(MANUAL, "httperf --server www --period=0.2 --num-conns 3", &["--rate=5 ", "replies 3 "]),
    shown(MANUAL, "httperf --server www --period=u1,3 --num-conns 2 --timeout 3.5", &["--period=u1,3 ", "replies 2 "]),
    shown(MANUAL, "httperf -vV", &["httperf: httperf-0.9.0"]),
    shown(MANUAL, "httperf -v -V", &["httperf: httperf-0.9.0"]),
    shown(MANUAL_AB, "ab -H \"Accept-Encoding: zip/zop;8bit\" http://localhost/", &["Complete requests:      1\n"]),
    shown(
        MANUAL_AB,
        "ab -p post -T application/x-www-form-urlencoded -b 4096 -n 3 http://localhost/",
        &["Complete requests:      3\n", "Total body sent:"],
    ),
];

/// The words of a line; quotes hold some together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().expect("one at least").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The line with this test's hosts, ports and files: nothing else is changed.
fn in_place(line: &str, site: &Path, port: u16) -> Vec<String> {
    let mut words = words(line);
    let program = words[0].rsplit('/').next().expect("a name").to_owned();
    let file = |name: &str| site.join(name).to_str().expect("a readable path").to_owned();
    for at in 0..words.len() {
        words[at] = match words[at].as_str() {
            "www" | "localhost" => "127.0.0.1".to_owned(),
            "--server=www" => "--server=127.0.0.1".to_owned(),
            "80" if words[at - 1] == "--port" => port.to_string(),
            name @ ("urls" | "post") => file(name),
            word => word.replace("http://localhost/", &format!("http://127.0.0.1:{port}/")),
        };
    }
    words[0] = program;
    if line.contains(" www") || line.contains("=www") {
        words.extend(["--port".to_owned(), port.to_string()]);
    }
    words
}

#[test]
fn each_line_runs_as_it_is_printed() {
    let _turn = alone();
    let site = tempfile::tempdir().expect("a directory");
    for name in ["perl/simple_test.pl", "cgi-bin/simple_test_mod_cgi.pl", "index.html"] {
        let path = site.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, "Hello\n").expect("a file");
    }
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(site.path()).start().expect("weir serve starts");
    std::fs::write(site.path().join("urls"), server.url("/perl/simple_test.pl") + "\n").expect("a file");
    std::fs::write(site.path().join("post"), "name=value").expect("a file");
    let certificate = Certificate::self_signed().expect("a certificate");
    let encrypted = require::apache().map(|_| Apache::event().tls(&certificate).start().expect("Apache starts"));
    let run = |shown: &Shown| {
        let port = match (&encrypted, shown.line.contains("--ssl")) {
            (None, true) => return None,
            (Some(encrypted), true) => encrypted.port,
            (_, false) => server.port,
        };
        let mut words = in_place(shown.line, site.path(), port);
        words.extend(shown.more.split_whitespace().map(str::to_owned));
        let output = output(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let missing: Vec<_> = shown.says.iter().filter(|says| !format!("{stdout}{stderr}").contains(**says)).collect();
        let told = format!("{}: {}: {missing:?} is not in\n{stdout}{stderr}", shown.source, shown.line);
        (!missing.is_empty()).then_some(told)
    };
    // They wait more than they work, so all run at a time.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = ALL.iter().map(|shown| scope.spawn(|| run(shown))).collect();
        all.into_iter().filter_map(|one| one.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
