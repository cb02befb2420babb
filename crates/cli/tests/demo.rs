//! `make demo` and `make demo-apache` explain what they load, the report is where they say that it is, and they ask for
//! no package that only tests need.
// scripts/test: loads

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::alone;
use weir_testkit::require;

/// The repository's own directory.
fn repository() -> &'static Path {
    // This package lies two levels below.
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs the demo of a server with the built program for a second, its run below a directory; what it prints.
fn demo(server: &str, runs: &Path) -> String {
    let output = Command::new(repository().join("scripts/demo"))
        .arg(server)
        .env("WEIR", env!("CARGO_BIN_EXE_weir"))
        // Not into the repository, where a user's own may lie.
        .env("RUNS", runs)
        .env("DURATION", "1s")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("the script starts");
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {warned}\n{said}", output.status);
    said.into_owned()
}

/// Checks that a demo says where its time goes, and where the report is, and that it is there.
fn shows(server: &str, name: &str) {
    let _turn = alone();
    let runs = tempfile::tempdir().expect("a temporary directory");
    // What an earlier demo left does not hinder the next.
    for _ in 0..2 {
        let said = demo(server, runs.path());
        assert!(said.contains("Where the time goes"), "{said}");
        let report = runs.path().join(name).join("report.html");
        assert_eq!(said.lines().last(), Some(&*format!("report: {}", report.display())), "{said}");
        let html = std::fs::read_to_string(&report).expect("the report is where it is said to be");
        assert!(html.starts_with("<!doctype html>") || html.starts_with("<!DOCTYPE html>"), "{}", &html[..40]);
        assert!(html.contains("Where the time goes"));
    }
}

#[test]
fn of_our_own_server() {
    shows("weir", "demo");
}

#[test]
fn of_apache() {
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    shows("apache", "demo-apache");
}

/// What `scripts/deps --list` says of those needs, as (package, line); its exit code where it refuses.
fn packages(needs: &[&str]) -> Result<Vec<(String, String)>, Option<i32>> {
    let output = Command::new(repository().join("scripts/deps")).arg("--list").args(needs).output();
    let output = output.expect("the script starts");
    if !output.status.success() {
        return Err(output.status.code());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = said.lines().filter(|line| line.starts_with("present ") || line.starts_with("MISSING "));
    let package = |line: &str| line.split_whitespace().nth(1).expect("a package").to_owned();
    Ok(rows.map(|line| (package(line), line.to_owned())).collect())
}

#[test]
fn packages_are_asked_for_by_need() {
    let names = |needs: &[&str]| -> Vec<String> {
        packages(needs).expect("a list").into_iter().map(|(package, _)| package).collect()
    };
    let (build, demo, all) = (names(&["build"]), names(&["build", "demo"]), names(&[]));
    assert!(["gcc", "clang", "libelf-dev"].iter().all(|wanted| build.iter().any(|name| name == wanted)), "{build:?}");
    assert!(!build.iter().any(|name| name == "apache2-bin" || name == "chromium"), "{build:?}");
    let more: Vec<&String> = demo.iter().filter(|name| !build.contains(name)).collect();
    assert_eq!(more, ["apache2-bin"]);
    assert!(demo.iter().all(|name| all.contains(name)) && all.iter().any(|name| name == "chromium"), "{all:?}");
    assert_eq!(packages(&["bild"]), Err(Some(2)), "a need that no package has is a mistake");
    let says = |target: &str| {
        let output = Command::new("make").args(["-n", "-C"]).arg(repository()).arg(target).output();
        let said = String::from_utf8_lossy(&output.expect("make is there").stdout).into_owned();
        let asked = said.lines().filter_map(|line| line.strip_prefix("scripts/deps"));
        asked.map(|needs| needs.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(says("demo"), ["build"]);
    assert_eq!(says("demo-apache"), ["build", "build demo"]);
    assert_eq!(says("test"), [""]);
}
