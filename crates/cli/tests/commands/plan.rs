//! `weir plan` as its users run it: logs of every kind, plans in words, JSON and a page, and refusals with their remedy.

use crate::support;

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::schema::conforms_to_its_own;
use support::{output, weir};

/// A log of a minute, 50 requests a second, half of them for one page.
fn log_text() -> String {
    let mut text = String::new();
    for number in 0..3000 {
        let path =
            if number % 2 == 0 { "/front.html".to_owned() } else { format!("/news/{}.html?x={number}", number % 97) };
        let _ = writeln!(
            text,
            "::1 - - [10/Oct/2000:13:55:{:02} +0000] \"GET {path} HTTP/1.1\" 200 {}",
            number / 50,
            5000 + number % 97
        );
    }
    text
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a new file");
        path.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    let told = serde_json::from_str(&said(&output(&[&["plan", "--json"], arguments].concat()))).expect("JSON");
    conforms_to_its_own(&told);
    told
}

#[test]
fn a_plan_is_told_in_words_first() {
    let folder = Folder::new();
    let log = folder.file("access.log", log_text());
    let (html, placement) = (folder.path("plan.html"), folder.path("where.tsv"));
    let name = |path: &Path| path.display().to_string();
    let (html_name, placement_name) = (name(&html), name(&placement));
    let arguments =
        ["plan", &log, "--service", "40ms", "--slo", "p95<200ms", "--html", &html_name, "--placement", &placement_name];
    let text = said(&output(&arguments));
    let first = text.split("\n\n").next().expect("the answer").replace('\n', " ");
    assert!(first.starts_with("3 nodes; ") && first.contains(": p95 ") && first.ends_with('.'), "{text}");
    for word in [
        "queueing",
        "storage",
        "missed",
        "met",
        "3,000 requests in 60 s, 50.0/s; 98 objects",
        "40.0 ms a request, given",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let page = std::fs::read_to_string(html).expect("the page");
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("Queueing delay against nodes")
            && !page.contains("http://")
    );
    let placement = std::fs::read_to_string(placement).expect("the placement");
    let lines: Vec<Vec<&str>> = placement.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines[0].as_slice(), lines.len()), (&["path", "bytes", "requests", "nodes"][..], 99));
    let front = lines.iter().find(|line| line[0] == "/front.html").expect("the page");
    assert_eq!((front[2], front[3].split(',').count() > 1), ("1500", true), "{front:?}");
}

#[test]
fn every_format_is_the_same_log() {
    let folder = Folder::new();
    let common = log_text();
    let as_json: String = common
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let second: u32 = words[3].rsplit(':').next().and_then(|second| second.parse().ok()).expect("a second");
            let (target, bytes) = (words[6], words[9]);
            format!(
                "{{\"ts\":{},\"method\":\"GET\",\"uri\":\"{target}\",\"status\":200,\"size\":{bytes}}}\n",
                971_186_100 + second
            )
        })
        .collect();
    let plain = folder.file("common.log", &common);
    let objects = folder.file("objects.log", &as_json);
    let figures = |log: &str| {
        let report = json(&[log, "--service", "40ms", "--nodes", "3", "--policy", "full"]);
        (report["log"].clone(), report["tried"].clone())
    };
    let expected = figures(&plain);
    assert_eq!(expected.0["requests"], 3000);
    assert_eq!(figures(&objects), expected);
    let gzip = std::process::Command::new("gzip").arg("--keep").arg(&plain).status().expect("gzip is there");
    assert!(gzip.success());
    assert_eq!(figures(&format!("{plain}.gz")), expected);
}

#[test]
fn figures_are_those_of_the_seed_and_growth_counts() {
    let folder = Folder::new();
    let log = folder.file("access.log", log_text());
    let plan = |more: &[&str]| json(&[&[&*log, "--service", "40ms", "--slo", "p95<200ms"], more].concat());
    let first = plan(&[]);
    assert_eq!(first, plan(&[]));
    assert_eq!(first["best"]["nodes"], 3);
    let grown = plan(&["--growth", "5x"])["best"]["nodes"].as_u64().expect("a plan");
    assert!((10..=13).contains(&grown), "{grown}");
    // Half of the service, half of the nodes; and a shared node is not faster in the mean.
    let workers = plan(&["--workers", "4"]);
    assert_eq!(workers["best"]["nodes"], 1);
    let policies = json(&[&log, "--service", "40ms", "--nodes", "4"]);
    assert_eq!((policies["tried"].as_array().map(Vec::len), &policies["best"]), (Some(12), &Value::Null));
}

#[test]
fn what_cannot_be_planned_is_said_with_its_remedy() {
    let folder = Folder::new();
    let log = folder.file("access.log", format!("nonsense\n{}", log_text()));
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = output(&[&["plan"], arguments].concat());
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{text}");
        for word in words {
            assert!(text.replace("\n", " ").contains(word), "{word:?} is not said in: {text}");
        }
    };
    refused(&[&log, "--slo", "p95<1s"], 2, &["--service"]);
    refused(&[&log, "--service", "1ms"], 2, &["--slo"]);
    refused(&[&log, "--service", "1ms", "--nodes", "65"], 2, &["64"]);
    refused(&[&log, "--service", "1ms", "--nodes", "2", "--policy", "all"], 2, &["hash-bounded"]);
    refused(&["/no/such/log", "--service", "1ms", "--nodes", "2"], 1, &["/no/such/log"]);
    refused(
        &[&folder.file("empty.log", "nonsense\n"), "--service", "1ms", "--nodes", "2"],
        1,
        &["no request", ":1: it is not"],
    );
    refused(&[&log, "--service", "1ms", "--slo", "errors<1%"], 1, &["p95<200ms"]);
    let report = folder.file(
        "report.json",
        r#"{"requests": 5, "bytes": 50, "connections": 10, "latency_uncorrected_ns": {"mean": 1.0}}"#,
    );
    refused(&[&log, "--measured", &report, "--nodes", "2"], 1, &["report.json", "-c 1"]);
    refused(&[&log, "--measured", &report, "--bandwidth", "5MB/s", "--nodes", "2"], 2, &["--bandwidth", "--measured"]);
    let of_errors = folder.file(
        "errors.json",
        r#"{"requests": 5, "bytes": 50, "connections": 1, "status": {"404": 5}, "latency_uncorrected_ns": {"mean": 1.0}}"#,
    );
    refused(&[&log, "--measured", &of_errors, "--nodes", "2"], 1, &["errors.json", "404", "answered with 200"]);
    let mostly = folder.file("mostly.log", format!("a\nb\n{}", log_text().lines().next().expect("a line")));
    refused(&[&mostly, "--service", "1ms", "--nodes", "2"], 1, &["most of the logs", "2 lines are no requests"]);
    for (name, head, remedy) in [
        ("a.xz", &b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01\x16\0\0\0"[..], "xzcat FILE |"),
        ("a.zst", b"\x28\xb5\x2f\xfd\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "zstdcat FILE |"),
        ("a.log", b"\xff\xfe1\x009\x002\x00", "iconv -f UTF-16LE"),
    ] {
        let file = folder.file(name, head);
        refused(&[&file, "--service", "1ms", "--nodes", "2"], 1, &[name, remedy]);
    }
    // Nothing is faster than its service.
    let warned = "1 line is no request";
    refused(
        &[&log, "--service", "40ms", "--slo", "p95<30ms", "--nodes", "4"],
        1,
        &["no plan of up to 4 nodes", "p95<30.0ms", warned],
    );
}

#[test]
fn what_a_plan_does_not_rest_on_is_told() {
    let folder = Folder::new();
    let line = |second: u32, tail: &str| format!("::1 - - [10/Oct/2000:13:55:{second:02} +0000] \"GET /{tail}\n");
    let one = folder.file("one.log", line(1, "a HTTP/1.1\" 200 5"));
    let plan = |log: &str, more: &[&str]| json(&[&[log, "--service", "20ms", "--slo", "p95<100ms"], more].concat());
    // The largest seed is followed by the smallest.
    let largest = plan(&one, &["--seed", "18446744073709551615"]);
    assert_eq!((&largest["best"]["nodes"], &largest["seeds"]), (&1.into(), &3.into()));
    assert!(largest["best"]["figures"]["response_asked_ns"]["mean"].as_f64().is_some_and(|ns| ns >= 20e6));
    assert_eq!(largest["warnings"], serde_json::json!([]));
    // Two and a half nodes' work, and an objective that is long for it.
    let flood: String = (0..3000).map(|number| line(number / 50, "a HTTP/1.1\" 200 5")).collect();
    let flood = folder.file("flood.log", flood);
    let report = said(&output(&["plan", &flood, "--service", "50ms", "--slo", "p95<20s"])).replace("\n          ", " ");
    assert!(report.starts_with("2 nodes") && report.contains("2 nodes cannot keep up: a queue grows"), "{report}");
    assert!(report.contains("the work is that of 2.5 nodes"), "{report}");
    let odd =
        [line(1, "a HTTP/1.1\" 206 5"), line(2, "b HTTP/1.1\" x"), line(3, "c HTTP/1.1\" 404 9"), line(4, "\" 400 9")];
    let odd = folder.file("odd.log", odd.concat().replace("\"GET /\"", "\"-\""));
    let report = plan(&odd, &[]);
    let log = &report["log"];
    for (key, value) in [
        ("requests", 3),
        ("errors", 1),
        ("malformed", 1),
        ("without_status", 1),
        ("without_size", 1),
        ("objects_sized_by_parts", 1),
        ("objects_without_size", 1),
        ("bytes", 5),
    ] {
        assert_eq!(log[key], value, "{key}: {log}");
    }
    assert_eq!(log["malformed_by_reason"][0]["count"], 1);
    let html = folder.path("odd.html").display().to_string();
    said(&output(&["plan", &odd, "--service", "20ms", "--slo", "p95<1s", "--html", &html]));
    let page = std::fs::read_to_string(html).expect("the page");
    assert!(page.contains("1 line is no request") && page.contains("1 of 3 requests have no status"), "{page}");
}

#[test]
fn a_full_disk_is_told_and_nothing_is_called_written() {
    let folder = Folder::new();
    let log = folder.file("access.log", log_text());
    let plan = ["plan", &log, "--service", "4ms", "--nodes", "2"];
    for (to_stdout, more) in [
        (true, &[][..]),
        (true, &["--json"]),
        (false, &["--html", "/dev/full"]),
        (false, &["--placement", "/dev/full"]),
    ] {
        let stdout = std::fs::File::options().write(true).open(if to_stdout { "/dev/full" } else { "/dev/null" });
        let said = weir().args([&plan[..], more].concat()).stdout(stdout.expect("a device")).output().expect("it runs");
        let told = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(1), "{more:?}: {told}");
        assert!(told.contains("No space left on device"), "{more:?}: {told}");
        assert!(told.contains(if to_stdout { "standard output" } else { "/dev/full" }), "{more:?}: {told}");
    }
}
