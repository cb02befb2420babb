//! Loads of many requests: their files, their names in a run, and that secrets stay out of it.

use crate::support;

use std::fs;
use std::process::Output;
use support::files::{contents, holds};
use support::{alone, output};
use weir_testkit::{Faulty, RunningServer};

fn server() -> RunningServer {
    Faulty::new("stall").args(["--ms", "1", "--every", "60000"]).start().expect("the server starts")
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_list_is_asked_and_its_names_are_in_the_run_but_no_secret() {
    let _turn = alone();
    let server = server();
    let directory = tempfile::tempdir().expect("a directory");
    let (list, token, run) =
        (directory.path().join("mix"), directory.path().join("token"), directory.path().join("run"));
    fs::write(&list, "# a mix\n3 /often\n1 GET /rare?key=hidden1\n1 POST /form @body\n").expect("a file");
    fs::write(directory.path().join("body"), "hidden2").expect("a file");
    fs::write(&token, "hidden3\n").expect("a file");
    let [list, token, run_name] = [&list, &token, &run].map(|path| path.to_str().expect("text").to_owned());
    let url = server.url("/");
    let base = ["load", "-n", "200", "--run", &run_name, "--urls", &list, "--json", "-q", "--cookie", "a=hidden4"];
    let more: [&str; 3] = ["--bearer", &format!("@{token}"), &url];
    let (report, _) = told(&output(&[&base[..], &more].concat()));
    assert!(report.contains("\"requests\": 200") && report.contains("3 requests of "), "{report}");
    let kept = contents(&run);
    assert!(["GET /often", "GET /rare?(redacted)", "POST /form"].iter().all(|name| holds(&kept, name)));
    assert!(!holds(&kept, "hidden"), "a secret is in the run");
    let run = directory.path().join("second");
    let run_name = run.to_str().expect("text");
    told(&output(&["load", "-n", "5", "-q", "--run", run_name, "--user", "me:hidden5", "--http1.0", &url]));
    assert!(!holds(&contents(&run), "hidden"), "a secret is in the run");
}

#[test]
fn rates_change_and_logs_are_replayed() {
    let _turn = alone();
    let server = server();
    let url = server.url("/");
    let (report, _) = told(&output(&["load", "-q", "--steps", "100/500ms,300/500ms", &url]));
    assert!(report.contains("100/s for 500ms, 300/s for 500ms for 1.00 s"), "{report}");
    assert!(report.lines().any(|line| line.contains("requests") && line.contains(" 200 ")), "{report}");
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("access.log");
    let line = |second: u32, path: &str| {
        format!("::1 - - [21/Nov/2026:18:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5\n")
    };
    fs::write(&log, [line(1, "/a"), "nonsense\n".to_owned(), line(1, "/b"), line(5, "/a")].concat()).expect("a file");
    let name = log.to_str().expect("text");
    let (report, _) = told(&output(&["load", "-q", "--replay", name, "--speed", "4", &url]));
    assert!(report.contains("3 recorded arrivals within 1.0 s") && report.contains("200: 3"), "{report}");
    assert!(report.contains("1 lines of ") && report.contains("(line 2: it is not HOST"), "{report}");
    assert!(report.contains("spread evenly"), "{report}");
    // Yesterday's log, which logrotate has compressed, with what nginx escapes.
    fs::write(&log, [line(1, "/q?x=\\x22"), line(2, "/a")].concat()).expect("a file");
    assert!(std::process::Command::new("gzip").arg(name).status().expect("gzip is there").success());
    let compressed = format!("{name}.gz");
    let (report, _) = told(&output(&["load", "-q", "--replay", &compressed, "--speed", "40", &url]));
    assert!(report.contains("2 recorded arrivals") && report.contains("200: 2"), "{report}");
    fs::write(&log, ["x\n".to_owned(), "y\n".to_owned(), line(1, "/a")].concat()).expect("a file");
    let refused = output(&["load", "-q", "--replay", name, &url]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("most of it cannot be read (line 1: it is not"), "{said}");
}

#[test]
fn users_click_think_and_click_again() {
    let _turn = alone();
    let server = server();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("users");
    fs::write(&file, "/a think=0.1\n  /b\n  /c\n/d\n").expect("a file");
    let name = file.to_str().expect("text");
    let url = server.url("/");
    let base = ["load", "-q", "--sessions", name, "-n", "4", "-c", "2", "--think", "1ms..2ms"];
    let (report, _) = told(&output(&[&base[..], &[&url]].concat()));
    assert!(report.contains("1 kind of session of ") && report.contains("2 sessions, closed loop, 4 requests each"));
    let line = report.lines().find(|line| line.starts_with("  sessions")).expect("a line of sessions");
    assert!(line.contains(" 4 ") && line.contains("0 failed, 0 unfinished, over 4 connections"), "{line}");
    let (report, _) = told(&output(&[&base[..], &["--json", &url]].concat()));
    let json: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((&json["requests"], &json["sessions"]["completed"]), (&16.into(), &4.into()), "{report}");
    assert!(json["sessions"]["lifetime_ns"]["min"].as_u64().is_some_and(|min| min >= 100_000_000), "{report}");
}

#[test]
fn wrong_usage_names_file_line_and_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let list = directory.path().join("mix");
    fs::write(&list, "/a\n/b c\n").expect("a file");
    let list = list.to_str().expect("text");
    let url = "http://127.0.0.1:1/";
    for (arguments, words) in [
        (&["--urls", list, url][..], &["mix: line 2: \"c\"", "%20"][..]),
        (&["--urls", list], &["line 1: /a: a path needs a host"]),
        (&["--urls", "/no/such/file"], &["--urls: cannot read /no/such/file"]),
        (&["--urls", list, "--body", "x", url], &["--body"]),
        (&["--keepalive", url], &["--http1.0"]),
        (&["--user", "nobody", url], &["NAME:PASSWORD"]),
        (&["--user", "a:b", "--bearer", "c", url], &["cannot be used with"]),
        (&["--bearer", "Bearer x", url], &["without `Bearer`"]),
        (&["--steps", "100/10s,x", url], &["--steps: \"x\": write RATE/TIME"]),
        (&["--steps", "100/1s", "-d", "2s", url], &["the rates end after 1s"]),
        (&["--steps", "100/1s", "--rate", "2", url], &["cannot be used with"]),
        (&["--ramp", "100/1s", url], &["FROM..TO/TIME"]),
        (&["--bursts", "7", url], &["N/TIME"]),
        (&["--bursts", "0/1s", url], &["at least one arrival"]),
        (&["--poisson", url], &["--rate, --steps or --ramp"]),
        (&["--speed", "2", url], &["--replay"]),
        (&["--replay", list, url], &["no request in it; line 1"]),
        (&["--replay", list], &["URL"]),
        (&["--sessions", list, url], &["mix: line 2: \"c\": only method="]),
        (&["--sessions", list], &["mix: line 1: /a: a path needs a host"]),
        (&["--sessions", list, "--urls", list, url], &["cannot be used with"]),
        (&["--sessions", list, "--no-keepalive", url], &["cannot be used with"]),
        (&["--think", "1s", url], &["--sessions"]),
        (&["--sessions", list, "--think", "2s..1s", url], &["the shorter time comes first"]),
        (&["--cookie", "nothing", url], &["NAME=VALUE"]),
        (&["--cookie", "a=b c", url], &["a", "NAME=VALUE"]),
    ] {
        let output = output(&[&["load"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{arguments:?}: {stderr}");
    }
}
