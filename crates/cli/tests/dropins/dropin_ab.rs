//! `weir ab` beside Debian's `ab` on one server: the same lines, the same counts and sizes, figures that fit together.

use crate::support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;
use support::{alone, output};
use weir_testkit::{Apache, RunningServer, WeirServe, require};

/// What one of the two printed.
#[derive(Debug)]
struct Said {
    stdout: String,
    stderr: String,
    status: Option<i32>,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code(),
        }
    }

    /// The values by their labels; of a label that comes twice the second has a mark.
    fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        for line in self.stdout.lines() {
            if let Some((label, value)) = line.split_once(':') {
                let again = fields.contains_key(label);
                let label = if again { format!("{label} (2)") } else { label.to_owned() };
                fields.insert(label, value.trim().to_owned());
            }
        }
        fields
    }

    /// A number behind a label.
    fn number(&self, label: &str) -> f64 {
        let fields = self.fields();
        let value = fields.get(label).unwrap_or_else(|| panic!("no {label} in {}", self.stdout));
        let number = value.split_whitespace().next().expect("a value");
        number.parse().unwrap_or_else(|error| panic!("{label}: {value}: {error}"))
    }
}

fn ours(arguments: &[&str]) -> Said {
    Said::of(&output(&[&["ab"], arguments].concat()))
}

fn original(arguments: &[&str]) -> Said {
    Said::of(&Command::new("ab").args(arguments).output().expect("ab is installed"))
}

/// Every digit becomes `9` and rows of spaces one, so that only the form is left; warnings about deviations depend on
/// the moment, and the first three lines say who made the report.
fn form(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut skip = 0;
    for line in text.lines().skip(if text.starts_with("<p>") { 4 } else { 3 }) {
        if line.starts_with("WARNING: The median") || line.starts_with("ERROR: The median") {
            skip = 1;
            continue;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let mut form = String::new();
        for letter in line.chars() {
            let letter = if letter.is_ascii_digit() { '9' } else { letter };
            if matches!(letter, '9' | ' ') && form.ends_with(letter) {
                continue;
            }
            form.push(letter);
        }
        lines.push(form);
    }
    lines
}

/// Apache, once its files are old enough: of one that has just been written the entity tag is longer.
fn server() -> RunningServer {
    let server = Apache::event().start().expect("Apache starts");
    std::thread::sleep(Duration::from_secs(2));
    server
}

/// Whether both are there.
fn both() -> Option<()> {
    require::apache()?;
    require::program("ab")
}

/// The lines whose values do not depend on the moment.
const EXACT: [&str; 10] = [
    "Server Software",
    "Server Hostname",
    "Server Port",
    "Document Path",
    "Document Length",
    "Concurrency Level",
    "Complete requests",
    "Failed requests",
    "Total transferred",
    "HTML transferred",
];

/// Compares the two on one command line.
fn agree(arguments: &[&str], more: &[&str]) {
    let (original, ours) = (original(arguments), ours(arguments));
    assert_eq!(ours.status, original.status, "{arguments:?}: {} {}", ours.stderr, original.stderr);
    assert_eq!(form(&ours.stdout), form(&original.stdout), "{arguments:?}");
    // With -v, ours also says what bends the figures.
    let stderr: String = ours.stderr.split_inclusive('\n').filter(|line| !line.starts_with("weir: ")).collect();
    assert_eq!(stderr, original.stderr, "{arguments:?}");
    if ours.stdout.starts_with("<p>") {
        return;
    }
    let (original_fields, our_fields) = (original.fields(), ours.fields());
    for label in EXACT.iter().chain(more) {
        assert_eq!(our_fields.get(*label), original_fields.get(*label), "{arguments:?}: {label}");
    }
    fits_together(&ours, arguments);
}

/// The figures of one report follow from each other.
fn fits_together(said: &Said, arguments: &[&str]) {
    let (done, elapsed_s) = (said.number("Complete requests"), said.number("Time taken for tests"));
    let concurrency = said.number("Concurrency Level");
    // The time is printed to a millisecond and the others to what they show: both roundings are in the tolerance.
    let near = |figure: f64, wanted: f64, step: f64| {
        let tolerance = step / 2.0 + wanted * 0.000_51 / (elapsed_s - 0.000_51);
        assert!((figure - wanted).abs() <= tolerance, "{arguments:?}: {figure} is not {wanted}: {}", said.stdout);
    };
    if elapsed_s < 0.01 {
        // Of a few milliseconds too few digits are printed.
        return;
    }
    near(said.number("Requests per second"), done / elapsed_s, 0.01);
    near(said.number("Time per request"), concurrency * elapsed_s * 1000.0 / done, 0.001);
    near(said.number("Time per request (2)"), elapsed_s * 1000.0 / done, 0.001);
    near(said.number("Transfer rate"), said.number("Total transferred") / 1024.0 / elapsed_s, 0.01);
    // The two times per request come of one figure: one is the other times the connections.
    let (mean, across) = (said.number("Time per request"), said.number("Time per request (2)"));
    assert!((mean - concurrency * across).abs() <= 0.0005 * (concurrency + 1.0) + 1e-9, "{}", said.stdout);
}

#[test]
fn the_report_has_the_lines_of_the_original_and_its_counts() {
    let (Some(()), _turn) = (both(), alone()) else { return };
    let server = server();
    let url = server.url("/1k.txt");
    let work = tempfile::tempdir().expect("a directory");
    let post = work.path().join("post.txt");
    std::fs::write(&post, "a=1&b=2").expect("the directory is ours");
    let post = post.to_str().expect("a readable path");
    agree(&["-n", "100", &url], &[]);
    agree(&["-n", "500", "-c", "10", &url], &[]);
    agree(&["-kc5", "-n300", &url], &["Keep-Alive requests"]);
    agree(&["-q", "-n", "200", "-c", "3", "-i", &url], &[]);
    agree(&["-S", "-n", "50", &url], &[]);
    agree(&["-d", "-n", "50", &url], &[]);
    agree(&["-l", "-n", "50", &url], &[]);
    agree(&["-n", "1", &url], &[]);
    agree(&["-n", "20", &server.url("/not-there")], &["Non-2xx responses"]);
    agree(&["-n", "20", "-p", post, "-T", "application/x-www-form-urlencoded", &url], &["Total body sent"]);
    agree(&["-n", "20", "-u", post, &url], &["Total body sent", "Non-2xx responses"]);
    agree(&["-n", "20", "-m", "OPTIONS", &url], &[]);
    agree(&["-n", "20", "-H", "Range: bytes=0-9", "-C", "a=b", "-A", "user:secret", &url], &[]);
    agree(&["-w", "-n", "20", &url], &[]);
    agree(&["-k", "-x", "border=1", "-y", "class=r", "-z", "class=c", "-n", "20", &url], &[]);
    agree(&["-n", "5", "-v", "2", &url], &[]);
    agree(&["-n", "5", "-v", "3", &server.url("/0.txt")], &[]);
}

#[test]
fn mistakes_have_the_words_and_the_status_of_the_original() {
    if both().is_none() {
        return;
    }
    // Where a server is named, none is there: nothing listens at port 1.
    for arguments in [
        &[][..],
        &["-n", "0", "http://127.0.0.1:1/"],
        &["-n", "5", "-c", "10", "http://127.0.0.1:1/"],
        &["-n"],
        &["http://127.0.0.1:1"],
        &["-i", "-p", "/dev/null", "http://127.0.0.1:1/"],
        &["-p", "/not/there", "http://127.0.0.1:1/"],
        &["http://127.0.0.1:1/"],
        &["-n", "200", "http://127.0.0.1:1/"],
        &["http://127.0.0.1:1/", "-k"],
        &["-h"],
    ] {
        let (original, ours) = (original(arguments), ours(arguments));
        assert_eq!(ours.status, original.status, "{arguments:?}: {}", ours.stderr);
        let without_own =
            |text: &str| text.lines().filter(|line| !line.contains("--strict")).collect::<Vec<_>>().join("\n");
        assert_eq!(without_own(&ours.stderr), without_own(&original.stderr), "{arguments:?}");
        assert_eq!(form(&ours.stdout), form(&original.stdout), "{arguments:?}");
    }
}

#[test]
fn its_files_have_the_columns_and_the_order_of_the_original() {
    let (Some(()), _turn) = (both(), alone()) else { return };
    let server = server();
    let url = server.url("/1k.txt");
    let work = tempfile::tempdir().expect("a directory");
    let path = |name: &str| work.path().join(name).to_str().expect("a readable path").to_owned();
    let read = |name: &str| std::fs::read_to_string(work.path().join(name)).expect("the file is written");
    let arguments =
        |csv: &str, tsv: &str| ["-q", "-n", "120", "-c", "4", "-e", csv, "-g", tsv, &url].map(str::to_owned);
    let run = |names: [&str; 2]| arguments(&path(names[0]), &path(names[1]));
    original(&run(["original.csv", "original.tsv"]).iter().map(String::as_str).collect::<Vec<_>>());
    ours(&run(["ours.csv", "ours.tsv"]).iter().map(String::as_str).collect::<Vec<_>>());
    let shape = |text: &str| -> Vec<usize> { text.lines().map(|line| line.split([',', '\t']).count()).collect() };
    for kind in ["csv", "tsv"] {
        let (original, ours) = (read(&format!("original.{kind}")), read(&format!("ours.{kind}")));
        assert_eq!(ours.lines().next(), original.lines().next());
        assert_eq!(shape(&ours), shape(&original), "{ours}");
    }
    let csv = read("ours.csv");
    let times: Vec<f64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(1).expect("a time").parse().expect("ms")).collect();
    assert!(times.len() == 101 && times.is_sorted() && times[0] > 0.0, "{csv}");
    let tsv = read("ours.tsv");
    let rows: Vec<Vec<&str>> = tsv.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let totals: Vec<u64> = rows.iter().map(|row| row[4].parse().expect("ms")).collect();
    assert!(totals.is_sorted());
    // The first column is the second one as a date, in this machine's time zone.
    for row in &rows {
        let date = Command::new("date")
            .args(["-d", &format!("@{}", row[1]), "+%a %b %d %H:%M:%S %Y"])
            .env("LC_ALL", "C")
            .output();
        assert_eq!(String::from_utf8_lossy(&date.expect("date").stdout).trim(), row[0]);
    }
}

#[test]
fn scripts_that_read_its_report_find_their_fields() {
    let (Some(()), _turn) = (both(), alone()) else { return };
    let server = server();
    let url = server.url("/1k.txt");
    let arguments = ["-n", "200", "-c", "4", &url];
    let (original, ours) = (original(&arguments), ours(&arguments));
    for script in [
        "grep 'Requests per second' | awk '{print $4}'",
        "awk '/^Requests per second/ {print $4}'",
        "grep '^Time per request' | head -1 | awk '{print $4 $5}'",
        "sed -n 's/^Transfer rate: *\\([0-9.]*\\) .*/\\1/p'",
        "grep -oP 'Failed requests:\\s+\\K\\d+'",
        "awk '/Complete requests/{c=$3} /Failed requests/{f=$3} END{print c \";\" f}'",
        "awk '/^Total:/ {print $2 \",\" $3 \",\" $5 \",\" $6}'",
        "awk '$1 ~ /^(50|95|99|100)%$/ {print $1 \"=\" $2}'",
        "awk -F: '/^Document Length/ {gsub(/ bytes/,\"\",$2); print $2+0}'",
        "tail -n +5 | head -1",
    ] {
        let run = |text: &str| {
            let mut shell = Command::new("sh");
            shell.arg0("sh").args(["-c", &format!("printf '%s' \"$0\" | {script}"), text]);
            String::from_utf8_lossy(&shell.output().expect("a shell").stdout).into_owned()
        };
        let shape = |text: &str| {
            text.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect::<String>()
        };
        let squeezed = |text: String| {
            let mut text = shape(&text);
            while text.contains("99") {
                text = text.replace("99", "9");
            }
            text
        };
        let (of_original, of_ours) = (run(&original.stdout), run(&ours.stdout));
        assert!(!of_ours.trim().is_empty(), "{script} finds nothing");
        assert_eq!(squeezed(of_ours.clone()), squeezed(of_original), "{script}: {of_ours}");
    }
}

#[test]
fn a_time_limit_ends_the_run_and_is_its_time() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    // Behind -t, -n takes away the bound of 50000 requests.
    let said = ours(&["-q", "-k", "-c", "2", "-t", "1", "-n", "100000000", &server.url("/1k.txt")]);
    assert_eq!(said.status, Some(0), "{}", said.stderr);
    assert!((said.number("Time taken for tests") - 1.0).abs() < 0.01, "{}", said.stdout);
    assert!(said.number("Complete requests") > 100.0);
    fits_together(&said, &["-t", "1"]);
}

#[test]
fn a_link_of_its_name_is_the_command() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let work = tempfile::tempdir().expect("a directory");
    let link = work.path().join("ab");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link");
    let said = Said::of(&Command::new(&link).args(["-n", "10", &server.url("/1k.txt")]).output().expect("it starts"));
    assert_eq!(said.number("Complete requests") as u64, 10);
    let mistake = Said::of(&Command::new(&link).output().expect("it starts"));
    assert!(mistake.stderr.starts_with(&format!("{}: wrong number of arguments\nUsage: ", link.display())));
}

#[test]
fn what_cannot_be_honoured_is_refused_in_words() {
    for arguments in [&["-f", "SSL2"][..], &["-X", "proxy-without-port"]] {
        let said = ours(&[arguments, &["http://127.0.0.1:1/"]].concat());
        assert_eq!(said.status, Some(1));
        assert!(said.stderr.starts_with(&format!("ab: {}", arguments[0])), "{}", said.stderr);
    }
}

#[test]
fn a_proxy_and_a_source_address_are_used() {
    let (Some(()), _turn) = (both(), alone()) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = listener.local_addr().expect("its address").to_string();
    let (seen, asked) = std::sync::mpsc::channel();
    // It ends with the test's process: nothing waits for it.
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            // The client may be gone, and so may the test.
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let _ = seen.send((peer.ip().to_string(), String::from_utf8_lossy(&request[..length]).into_owned()));
        }
    });
    let arguments = ["-n", "2", "-X", &proxy, "-P", "user:secret", "-B", "127.0.0.2", "http://not.there/page?a=b"];
    let (original, ours) = (original(&arguments), ours(&arguments));
    assert_eq!(form(&ours.stdout), form(&original.stdout), "{}", ours.stderr);
    let asked: Vec<(String, String)> = asked.iter().take(4).collect();
    assert!(asked[0].1.starts_with("GET http://not.there/page?a=b HTTP/1.0\r\nProxy-Authorization: Basic "));
    assert_eq!(asked[0].0, "127.0.0.2");
    assert!(asked.iter().all(|one| *one == asked[0]), "{asked:?}");
}

#[test]
fn command_lines_of_the_book_run_unchanged() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    let said = ours(&["-n", "5000", "-c", "10", &server.url("/1k.txt")]);
    assert_eq!((said.status, said.number("Complete requests") as u64), (Some(0), 5000), "{}", said.stderr);
    assert!(said.stderr.ends_with("Completed 5000 requests\nFinished 5000 requests\n"), "{}", said.stderr);
    fits_together(&said, &["-n", "5000", "-c", "10"]);
}
