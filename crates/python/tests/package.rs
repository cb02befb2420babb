//! The package for Python does what it says: `python/tests` run against nginx.
//!
//! The module is the one that Cargo has built beside this test, so that no package index is needed.
// scripts/test: counts

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_testkit::{Nginx, require};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The package as a folder of a search path.
fn package() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let to = folder.path().join("weir");
    fs::create_dir(&to).expect("a new directory");
    for entry in fs::read_dir(repository().join("python/weir")).expect("the package").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
    let built = std::env::current_exe().expect("this test").with_file_name("libweir_python.so");
    fs::copy(&built, to.join("_native.abi3.so")).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    folder
}

/// Runs a file of tests; its output is shown where one fails.
fn run(name: &str) {
    if require::program("python3").is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let package = package();
    let output = Command::new("python3")
        .arg(repository().join("python/tests").join(name))
        .env("PYTHONPATH", package.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WEIR_TEST_URL", server.url("/1k.txt"))
        .stdin(Stdio::null())
        .output()
        .expect("python3 starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn samples_have_the_numbers_of_the_report() {
    run("test_numbers.py");
}

#[test]
fn what_is_asked_arrives() {
    run("test_asking.py");
}

#[test]
fn runs_end_early_and_errors_are_told() {
    run("test_ending.py");
}

/// Names of options stand in three places: what Python offers is what the module takes.
#[test]
fn every_option_is_taken_by_the_module() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).expect(path);
    let asking = read("python/weir/asking.py");
    let offered = asking.split("class Options(").nth(1).and_then(|rest| rest.split("\n\n\n").next()).expect("options");
    let offered: Vec<&str> = offered
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with('#'))
        .collect();
    assert!(offered.len() > 30, "{offered:?}");
    let taken = read("crates/python/src/options.rs");
    let (taken, _) = taken.split_once("impl Wanted").expect("the struct");
    for name in offered {
        let is_of_requests = ["method", "headers", "body", "user", "bearer"].contains(&name);
        assert!(is_of_requests || taken.contains(&format!(" {name}: ")), "{name} is passed over");
    }
}
