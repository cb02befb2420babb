//! A disk without room: what a load and an explanation found is told all the same, with each file that is missing and why,
//! and no half file passes for a whole one.

use crate::support;

use std::io::Write;
use std::path::Path;
use std::process::Output;
use support::files::SmallDisk;
use support::{alone, output, weir};
use weir_testkit::{Faulty, RunningServer};

fn server() -> RunningServer {
    Faulty::new("plain").start().expect("it starts")
}

/// A file system of which only so many bytes are left.
fn full(left: usize) -> Option<SmallDisk> {
    let disk = SmallDisk::mount(1)?;
    let mut file = std::fs::File::create(disk.path().join("other")).expect("room for the first file");
    while file.write_all(&[0; 4096]).is_ok() {}
    let length = file.metadata().expect("it is there").len();
    file.set_len(length.saturating_sub(left as u64)).expect("it is cut");
    Some(disk)
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

/// What is in a directory, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a directory").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_output_of_a_load_is_told_and_the_report_is_there() {
    let _turn = alone();
    let Some(disk) = full(0) else { return };
    let server = server();
    let options = ["--csv", "--hgrm", "--hdr-log", "--html", "--ndjson", "--prometheus", "--junit", "--markdown"];
    let files: Vec<_> = options.iter().map(|name| disk.path().join(&name[2..])).collect();
    let mut command = weir();
    command.args(["load", "-q", "-n", "50"]).arg(server.url("/"));
    for (option, file) in options.iter().zip(&files) {
        command.arg(option).arg(file);
    }
    let output = command.output().expect("it runs");
    let (stdout, stderr) = said(&output);
    assert!(output.status.code() == Some(1) && stdout.contains("50 of 50 requests"), "{stdout}\n{stderr}");
    for (option, file) in options.iter().zip(&files) {
        let line = stderr.lines().find(|line| line.contains(option)).unwrap_or_else(|| panic!("{option}: {stderr}"));
        assert!(line.contains("No space left") && line.contains(text(file)), "{line}");
    }
    // The stream of intervals is there from the beginning on, and none of them is in it.
    assert_eq!(names(disk.path()), ["ndjson", "other"]);
    assert_eq!(std::fs::metadata(disk.path().join("ndjson")).expect("it is there").len(), 0);
}

#[test]
fn a_record_that_finds_no_room_loses_no_report() {
    let _turn = alone();
    let server = server();
    for workers in [&[][..], &["--workers", "local:2"]] {
        let Some(disk) = full(96 << 10) else { return };
        let run = disk.path().join("run");
        let line = ["load", "-q", "-n", "4000", "--run", text(&run)];
        let made = output(&[&line[..], workers, &[&server.url("/")]].concat());
        let (stdout, stderr) = said(&made);
        assert!(stdout.contains("4,000 of 4,000 requests"), "{workers:?}: {stdout}\n{stderr}");
        assert_eq!(made.status.code(), Some(1), "{workers:?}: {stderr}");
        assert!(stderr.contains("--run") && stderr.contains("No space left"), "{workers:?}: {stderr}");
        assert!(!run.join("incoming").exists(), "what could not be kept is removed");
    }
}

#[test]
fn a_scenarios_junit_and_an_explanations_page_are_whole_or_not_there() {
    let _turn = alone();
    let Some(disk) = full(0) else { return };
    let server = server();
    let folder = tempfile::tempdir().expect("a directory");
    let (file, junit) = (folder.path().join("users.toml"), disk.path().join("users.xml"));
    let users = format!(
        "base = \"{}\"\n[[scenario]]\nname = \"users\"\nusers = 1\nduration = \"300ms\"\n\
         [[scenario.steps]]\nname = \"first\"\nget = \"/\"\n",
        server.url("/").trim_end_matches('/')
    );
    std::fs::write(&file, users).expect("written");
    let played = output(&["scenario", "-q", "--junit", text(&junit), text(&file)]);
    let (stdout, stderr) = said(&played);
    assert!(played.status.code() == Some(1) && stdout.contains("first"), "{stdout}\n{stderr}");
    assert!(
        stderr.contains("--junit") && stderr.contains(text(&junit)) && stderr.contains("No space left"),
        "{stderr}"
    );
    let (run, page) = (folder.path().join("run"), disk.path().join("page.html"));
    let made = output(&["load", "-q", "-n", "50", "--run", text(&run), &server.url("/")]);
    assert!(made.status.success(), "{}", said(&made).1);
    let explained = output(&["explain", "--html", text(&page), text(&run)]);
    let (stdout, stderr) = said(&explained);
    assert!(explained.status.code() == Some(1) && stdout.contains("50 requests"), "{stdout}\n{stderr}");
    assert!(stderr.contains(text(&page)) && stderr.contains("No space left"), "{stderr}");
    assert_eq!(names(disk.path()), ["other"]);
}

#[test]
fn a_script_of_k6_tells_its_summary_and_what_is_not_there() {
    let _turn = alone();
    let server = server();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("script.js");
    let summary =
        "\nexport function handleSummary(data) { return { [__ENV.TO]: 'all of it', stdout: 'OWN SUMMARY' }; }\n";
    for (own, printed) in [("", "http_reqs"), (summary, "OWN SUMMARY")] {
        let Some(disk) = full(0) else { return };
        let (export, to) = (disk.path().join("export"), disk.path().join("to"));
        let asks = "import http from 'k6/http';\nexport default function () { http.get(__ENV.URL); }\n";
        std::fs::write(&script, format!("{asks}{own}")).expect("a script");
        let url = format!("URL={}", server.url("/"));
        let to_word = format!("TO={}", text(&to));
        let line = ["k6", "run", "--iterations", "5", "-e", &url, "-e", &to_word, "--summary-export"];
        let made = output(&[&line[..], &[text(&export), text(&script)]].concat());
        let (stdout, stderr) = said(&made);
        assert!(stdout.contains(printed), "{stdout}\n{stderr}");
        assert_eq!(made.status.code(), Some(1), "{stderr}");
        for file in [&export, &to].into_iter().take(if own.is_empty() { 1 } else { 2 }) {
            let line = stderr.lines().find(|line| line.contains(text(file))).unwrap_or_else(|| panic!("{stderr}"));
            assert!(line.contains("cannot be written") && line.contains("No space left"), "{line}");
        }
        assert_eq!(names(disk.path()), ["other"]);
    }
}
