//! What `weir load` shows beside its report: the view on a terminal, files, Prometheus, and within what memory.

use crate::support;

use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{alone, weir};
use weir_testkit::{Faulty, RunningServer, WeirServe};

fn server() -> RunningServer {
    Faulty::new("plain").start().expect("it starts")
}

/// The lines of a CSV file as (column, value) pairs.
fn rows(csv: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    lines
        .map(|fields| {
            assert_eq!(fields.len(), header.len(), "{fields:?}");
            header.iter().cloned().zip(fields).collect()
        })
        .collect()
}

fn field(row: &[(String, String)], name: &str) -> f64 {
    let (_, value) = row.iter().find(|(column, _)| column == name).unwrap_or_else(|| panic!("no column {name}"));
    value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
}

#[test]
fn files_hold_what_the_report_says() {
    let _turn = alone();
    let server = server();
    let folder = tempfile::tempdir().expect("a directory");
    let (csv, metrics) = (folder.path().join("times.csv"), folder.path().join("weir.prom"));
    let [hgrm, hdr_log, ndjson] = ["a.hgrm", "a.hlog", "a.ndjson"].map(|name| folder.path().join(name));
    let output = weir()
        .args(["load", "--rate", "400", "-d", "1s", "--interval", "200ms", "--json", "--csv"])
        .arg(&csv)
        .arg("--prometheus")
        .arg(&metrics)
        .arg("--hgrm")
        .arg(&hgrm)
        .arg("--hdr-log")
        .arg(&hdr_log)
        .arg("--ndjson")
        .arg(&ndjson)
        .arg(server.url("/?secret=1"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let requests = report["requests"].as_f64().expect("a number");
    let text = std::fs::read_to_string(&csv).expect("the CSV file");
    let rows = rows(&text);
    assert_eq!(rows.len(), 5, "{text}");
    assert_eq!(rows.iter().map(|row| field(row, "requests")).sum::<f64>(), requests);
    assert_eq!(rows.iter().map(|row| field(row, "bytes")).sum::<f64>(), report["bytes"].as_f64().expect("bytes"));
    for (index, row) in rows.iter().enumerate() {
        assert!((field(row, "start_s") - 0.2 * index as f64).abs() < 1e-9, "{text}");
        let percentiles = ["min_ms", "p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "p99_9_ms", "max_ms"];
        let times = percentiles.map(|name| field(row, name));
        assert!(times.is_sorted() && times[0] > 0.0, "{text}");
    }
    let points = report["series"]["points"].as_array().expect("points");
    assert_eq!(points.len(), rows.len());
    assert_eq!(points[2]["requests"].as_f64(), Some(field(&rows[2], "requests")));
    let metrics = std::fs::read_to_string(&metrics).expect("the metrics");
    assert!(
        metrics.contains(&format!("weir_load_requests_total{{url=\"{}\"}} {requests}\n", server.url("/?(redacted)")))
    );
    assert!(!metrics.contains("secret"), "a query may hold secrets");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("the directory").flatten().collect();
    assert_eq!(left.len(), 5, "nothing is left behind: {left:?}");
    let lines = std::fs::read_to_string(&ndjson).expect("the stream");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert_eq!(lines.len(), points.len());
    let rounded = |point: &Value| {
        let mut point = point.clone();
        for name in ["start_s", "length_s", "rate_per_s", "successes_per_s", "bytes_per_s"] {
            point[name] = ((point[name].as_f64().expect(name) * 1e3).round() / 1e3).into();
        }
        point
    };
    assert_eq!(lines.iter().map(rounded).collect::<Vec<_>>(), points.iter().map(rounded).collect::<Vec<_>>());
    let successes = report["successes"].as_u64().expect("a number");
    let hgrm = std::fs::read_to_string(&hgrm).expect("the distribution");
    assert!(hgrm.contains(&format!("Total count    = {successes:12}]")), "{hgrm}");
    assert_eq!(counts_of_log(&hdr_log).iter().sum::<u64>(), successes);
    assert_eq!(counts_of_log(&hdr_log).len(), points.len());
}

/// A decoder of HdrHistogram's log and its encoding V2 that shares nothing with ours: the values of each interval.
const DECODER: &str = r##"
import base64, struct, sys, zlib

def counts(data):
    at = 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte if shift == 56 else byte & 0x7f) << shift
            shift += 7
            if byte < 0x80 or shift == 63:
                break
        value = (value >> 1) ^ -(value & 1)
        if value > 0:
            yield value

lines = [line for line in open(sys.argv[1]) if not line.startswith("#")]
assert lines[0].startswith('"StartTimestamp"'), lines[0]
for line in lines[1:]:
    start, length, most, encoded = line.split(",")
    float(start), float(length), float(most)
    data = base64.b64decode(encoded.strip(), validate=True)
    cookie, size = struct.unpack(">II", data[:8])
    assert cookie == 0x1C849314 and size == len(data) - 8, (hex(cookie), size)
    data = zlib.decompress(data[8:])
    cookie, size, offset, digits, low, high, ratio = struct.unpack(">IIIIQQd", data[:40])
    assert (cookie, size, offset, digits, low, ratio) == (0x1C849313, len(data) - 40, 0, 3, 1, 1.0)
    print(sum(counts(data[40:])))
"##;

fn counts_of_log(log: &std::path::Path) -> Vec<u64> {
    let output = Command::new("python3").args(["-c", DECODER]).arg(log).output().expect("python3 is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().expect("a number")).collect()
}

#[test]
fn intervals_are_streamed_while_the_load_runs() {
    let _turn = alone();
    let server = server();
    let mut load = Ended(
        weir()
            .args(["load", "-q", "--rate", "300", "-d", "30s", "--interval", "100ms", "--ndjson", "-"])
            .arg(server.url("/"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts"),
    );
    let mut stdout = std::io::BufReader::new(load.0.stdout.take().expect("piped"));
    let mut first = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut first).expect("a line");
    assert!(load.0.try_wait().expect("a child").is_none(), "the first line comes before the end: {first}");
    interrupt(&load.0);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("the other lines");
    let sum: u64 = [first.as_str()]
        .into_iter()
        .chain(rest.lines())
        .map(|line| {
            let point: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            point["requests"].as_u64().expect("a number")
        })
        .sum();
    let mut report = String::new();
    load.0.stderr.take().expect("piped").read_to_string(&mut report).expect("the report");
    let told = report.lines().find(|line| line.starts_with("  requests ")).unwrap_or_else(|| panic!("{report}"));
    let told = told.split_whitespace().nth(1).expect("a number").replace(',', "");
    assert_eq!(sum.to_string(), told, "{report}");
    let refused = weir().args(["load", "--json", "--ndjson", "-", "http://127.0.0.1:9/"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn the_report_says_who_is_at_fault() {
    let _turn = alone();
    let server = Faulty::new("slow-handler").args(["--ms", "20", "--sleep"]).start().expect("it starts");
    let folder = tempfile::tempdir().expect("a directory");
    let page = folder.path().join("report.html");
    let load = |arguments: &[&str]| {
        let output = weir().args(["load", "-q", "-n", "20"]).args(arguments).arg(server.url("/slow")).output();
        String::from_utf8(output.expect("it runs").stdout).expect("text")
    };
    let text = load(&["--html", &page.to_string_lossy()]);
    let line = text.lines().find(|line| line.starts_with("  at fault   ")).unwrap_or_else(|| panic!("{text}"));
    let words = line.trim_start_matches("  at fault   ");
    assert!(words.contains(") is the generator's own") && words.contains(": late "), "{line}");
    assert!(text.lines().any(|line| line.starts_with("  generator ") && line.ends_with(" of CPU a request")), "{text}");
    let page = std::fs::read_to_string(&page).expect("the page").replace("&#39;", "'").replace('\u{a0}', " ");
    assert!(page.contains(words), "{words}");
    let report: Value = serde_json::from_str(&load(&["--json"])).expect("JSON");
    let slowest = &report["generator"]["slowest"];
    let [own, latency, unread, late] =
        ["own_ns", "latency_ns", "unread_ns", "late_ns"].map(|name| slowest[name].as_f64().expect(name));
    assert!(
        latency > 20e6 && (own - unread - late).abs() < 1.0 && slowest["known"] == slowest["requests"],
        "{slowest}"
    );
    assert!(slowest["culprit"].is_string() && slowest["cpu_ns_per_request"].as_f64() > Some(0.0), "{slowest}");
}

#[test]
fn what_cannot_be_written_is_refused_before_the_run() {
    let begin = Instant::now();
    for (option, file) in [("--csv", "/no/such/folder/x.csv"), ("--prometheus", "/proc/x.prom"), ("--csv", "/tmp")] {
        let output = weir().args(["load", option, file, "http://127.0.0.1:9/"]).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(option) && stderr.contains(file), "{stderr}");
    }
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn prometheus_is_answered_while_the_load_runs() {
    let _turn = alone();
    let server = server();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()));
    let mut load = weir()
        .args([
            "load",
            "--rate",
            "300",
            "-d",
            "20s",
            "--interval",
            "100ms",
            "--prometheus-listen",
            &address.to_string(),
        ])
        .arg(server.url("/"))
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let scrape = || {
        let mut stream = TcpStream::connect(address).ok()?;
        std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
        let line = answer.lines().find(|line| line.starts_with("weir_load_requests_total"))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let mut seen = Vec::new();
    let begin = Instant::now();
    while seen.len() < 3 && begin.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(100));
        seen.extend(scrape().filter(|requests| seen.last().is_none_or(|last| last < requests)));
    }
    interrupt(&load);
    assert!(load.wait().expect("it ends").success());
    assert!(seen.len() == 3 && seen[2] > 100, "{seen:?}");
}

#[test]
fn prometheus_takes_what_is_pushed() {
    let _turn = alone();
    if weir_testkit::require::program("prometheus").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let port = weir_testkit::free_port();
    std::fs::write(folder.path().join("prometheus.yml"), "").expect("a file");
    let _prometheus = Ended(
        Command::new("prometheus")
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--web.enable-remote-write-receiver")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts"),
    );
    let ask = |target: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        std::io::Write::write_all(&mut stream, format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").filter(|(head, _)| head.contains(" 200 ")).map(|(_, body)| body.to_owned())
    };
    let begin = Instant::now();
    while ask("/-/ready").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "prometheus is not ready");
        std::thread::sleep(Duration::from_millis(50));
    }
    let server = server();
    let push = format!("http://127.0.0.1:{port}/api/v1/write");
    let load = |push: &str| {
        let mut command = weir();
        command.args(["load", "-q", "-n", "120", "--json", "--prometheus-push", push]).arg(server.url("/"));
        command.output().expect("it runs")
    };
    let output = load(&push);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    for (series, value) in [("weir_load_requests_total", "120"), ("weir_load_latency_seconds_count", "120")] {
        let answer = ask(&format!("/api/v1/query?query={series}")).expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let result = &answer["data"]["result"][0];
        assert_eq!((&result["value"][1], &result["metric"]["job"]), (&value.into(), &"weir-load".into()), "{answer}");
        assert_eq!(result["metric"]["url"], server.url("/"), "{answer}");
    }
    let refused = load(&push.replace("/write", "/nothing"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--prometheus-push") && said.contains("404"), "{said}");
    // What could not be handed on is all that is lost.
    let report: Value = serde_json::from_slice(&refused.stdout).expect("the report");
    assert_eq!(report["successes"], 120, "{report}");
    assert_eq!(load("nonsense").status.code(), Some(2));
}

fn interrupt(child: &Child) {
    // SAFETY: the call takes numbers only; the child has not been waited for, so that the number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Where it has ended already, that is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal of a test's own: what is written to it, and the other end.
struct Terminal {
    ours: File,
    theirs: Option<OwnedFd>,
}

impl Terminal {
    fn new(columns: u16, rows: u16) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        let none = std::ptr::null_mut::<libc::c_char>();
        // SAFETY: both places are valid for the results, and nothing else is asked for or given.
        let made =
            unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null_mut(), std::ptr::null_mut()) };
        assert_eq!(made, 0, "a pseudo-terminal can be made");
        // SAFETY: both descriptors were just made, and nothing else owns them.
        let (ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // SAFETY: the call takes numbers only.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let terminal = Self { ours, theirs: Some(theirs) };
        terminal.resize(columns, rows);
        terminal
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCSWINSZ reads a winsize, which is what the pointer is to.
        assert_eq!(unsafe { libc::ioctl(self.ours.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// Starts a command with its stderr here.
    fn start(&mut self, command: &mut Command) -> Child {
        let theirs = self.theirs.take().expect("one command for each terminal");
        command.stderr(theirs).stdout(Stdio::piped()).process_group(0).spawn().expect("it starts")
    }

    /// What came until now.
    fn read(&mut self) -> String {
        let mut bytes = Vec::new();
        // Ends with an error: there is no more now, or the other end is gone.
        let _ = self.ours.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// As much of a terminal as the view needs: what stands on it after a text.
struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Screen {
    fn new() -> Self {
        Self { cells: vec![Vec::new()], row: 0, column: 0 }
    }

    fn show(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['));
                    let mut number = String::new();
                    let command = loop {
                        match rest.next().expect("a whole sequence") {
                            digit if digit.is_ascii_digit() || digit == ';' => number.push(digit),
                            command => break command,
                        }
                    };
                    self.obey(command, &number);
                }
                shown => {
                    self.fit();
                    let line = &mut self.cells[self.row];
                    line.resize(line.len().max(self.column + 1), ' ');
                    line[self.column] = shown;
                    self.column += 1;
                }
            }
        }
        self.fit();
    }

    fn fit(&mut self) {
        let rows = self.cells.len().max(self.row + 1);
        self.cells.resize(rows, Vec::new());
    }

    fn obey(&mut self, command: char, number: &str) {
        self.fit();
        match (command, number) {
            ('A', up) => {
                let up: usize = up.parse().expect("a number");
                assert!(up <= self.row, "above the first line");
                self.row -= up;
            }
            ('K', "") => self.cells[self.row].truncate(self.column),
            ('J', "") => {
                self.cells[self.row].truncate(self.column);
                self.cells.truncate(self.row + 1);
            }
            ('J', "2") => self.cells.iter_mut().for_each(Vec::clear),
            ('H', "") => (self.row, self.column) = (0, 0),
            ('m', _) => {}
            other => panic!("{other:?} is not known to every terminal"),
        }
    }

    fn lines(&self) -> Vec<String> {
        let all: Vec<String> =
            self.cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect();
        let filled = all.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        all[..filled].to_vec()
    }
}

/// Runs a load on a terminal, lets `during` look at it, and gives what was written after the end and the report.
fn on_terminal(
    colours: bool,
    columns: u16,
    during: impl FnOnce(&mut Terminal, &mut Screen),
) -> (String, Screen, String) {
    let server = server();
    let mut terminal = Terminal::new(columns, 24);
    let mut command = weir();
    if colours {
        command.env_remove("NO_COLOR").env("TERM", "xterm");
    }
    command.args(["load", "--rate", "500", "-d", "60s", "--interval", "100ms"]).arg(server.url("/missing"));
    let mut child = Ended(terminal.start(command.env("LC_ALL", "C.UTF-8")));
    let mut screen = Screen::new();
    during(&mut terminal, &mut screen);
    interrupt(&child.0);
    let mut report = String::new();
    child.0.stdout.take().expect("piped").read_to_string(&mut report).expect("a report");
    assert!(child.0.wait().expect("it ends").success());
    let rest = terminal.read();
    screen.show(&rest);
    (rest, screen, report)
}

#[test]
fn the_view_is_drawn_in_its_place() {
    let _turn = alone();
    let mut raw = String::new();
    let (_, screen, report) = on_terminal(false, 80, |terminal, screen| {
        // A machine that stands still for a moment draws less meanwhile: then there is some time more.
        for more_ms in [2200, 1300] {
            if raw.matches("\x1b[J").count() < 5 {
                std::thread::sleep(Duration::from_millis(more_ms));
                let text = terminal.read();
                screen.show(&text);
                raw.push_str(&text);
            }
        }
        let lines = screen.lines();
        assert!((8..=10).contains(&lines.len()), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:#?}");
        let line = |begin: &str| {
            lines
                .iter()
                .find(|line| line.trim_start().starts_with(begin))
                .unwrap_or_else(|| panic!("{begin}: {lines:#?}"))
        };
        for name in ["rate", "p50", "p90", "p99", "max"] {
            let drawn = line(name).chars().filter(|shown| ('▁'..='█').contains(shown)).count();
            assert!((8..=24).contains(&drawn), "a character for each interval so far: {lines:#?}");
        }
        assert!(line("success").contains("errors: none") && line("generator").contains("% CPU"), "{lines:#?}");
        assert!(lines[1].contains("s left"), "{lines:#?}");
        // Much narrower, and the view fits again.
        terminal.resize(44, 24);
        std::thread::sleep(Duration::from_millis(900));
        screen.show(&terminal.read());
        let lines = screen.lines();
        assert!((8..=10).contains(&lines.len()), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < 44), "{lines:#?}");
        // So low that not all fits: what stands above must not be lost to it.
        terminal.resize(44, 5);
        std::thread::sleep(Duration::from_millis(900));
        screen.show(&terminal.read());
        assert!(screen.lines().len() <= 4, "{:#?}", screen.lines());
    });
    assert!(raw.matches("\x1b[J").count() >= 5, "drawn a few times a second");
    assert!(!raw.contains('m') || !raw.contains("\x1b[1m"), "no colours against NO_COLOR");
    assert_eq!(screen.lines(), Vec::<String>::new(), "the view is gone at the end");
    assert!(report.contains("ended by you") && report.contains("p99 of successes over time"), "{report}");
}

#[test]
fn colours_are_for_terminals() {
    let _turn = alone();
    let (mut raw, mut seen) = (String::new(), 0);
    on_terminal(true, 100, |terminal, screen| {
        std::thread::sleep(Duration::from_millis(900));
        raw = terminal.read();
        screen.show(&raw);
        seen = raw.matches("\x1b[1m").count();
    });
    assert!(seen >= 1, "{raw:?}");
}

#[test]
fn millions_of_requests_take_little_memory() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("it starts");
    // Into a file: we do not read meanwhile, so a full pipe would keep it from ending.
    let mut json = tempfile::tempfile().expect("a file");
    // Many short intervals, so that their bound is reached as in a run of hours.
    let mut load = weir()
        .args(["load", "-n", "3000000", "-c", "64", "--pipeline", "16", "--interval", "10ms", "--json"])
        .arg(server.url("/1k.txt"))
        .stdout(json.try_clone().expect("a second descriptor"))
        .spawn()
        .expect("it starts");
    let status = format!("/proc/{}/status", load.id());
    let peak = || -> Option<u64> {
        let text = std::fs::read_to_string(&status).ok()?;
        text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
    };
    let (mut peak_kb, begin) = (0, Instant::now());
    while load.try_wait().expect("a child").is_none() && begin.elapsed() < Duration::from_secs(120) {
        peak_kb = peak().unwrap_or(0).max(peak_kb);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(load.wait().expect("it ends").success());
    json.seek(SeekFrom::Start(0)).expect("a file");
    let report: Value = serde_json::from_reader(json).expect("JSON");
    assert_eq!(report["requests"], 3_000_000, "{}", report["errors"]);
    assert!(report["series"]["points"].as_array().is_some_and(|points| points.len() <= 512));
    println!(
        "{peak_kb} kB at the most, {} intervals of {} s",
        report["series"]["points"].as_array().map_or(0, Vec::len),
        report["series"]["interval_s"]
    );
    assert!((1_000..50_000).contains(&peak_kb), "{peak_kb} kB");
}
