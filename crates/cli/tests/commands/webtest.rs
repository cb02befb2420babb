//! `weir webtest` as users call it: files and standard input, exit status, reports.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};
use support::schema::conforms_to_its_own;
use support::{output, weir};
use tempfile::tempdir;
use weir_testkit::{Nginx, require};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it with this on standard input.
fn piped(input: &str, arguments: &[&str]) -> Output {
    let mut command = weir();
    command.arg("webtest").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.env("WEIR_TEST_WORD", "1024").spawn().expect("the command starts");
    child.stdin.take().expect("its standard input").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn files_and_standard_input_are_run_and_the_exit_status_tells() {
    if require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let folder = tempdir().expect("a folder");
    let write = |name: &str, size: &str| {
        let path = folder.path().join(name);
        let url = server.url("/1k.txt");
        let source = format!("test_name = {name}\n  url = {url}\n  min_bytes = {size}\n  max_bytes = 1024\nend_test\n");
        fs::write(&path, source).expect("a file");
        path.display().to_string()
    };
    let (good, bad) = (write("good.wt", "\"$ENV{WEIR_TEST_WORD}\""), write("bad.wt", "1025"));

    let passed = piped(&fs::read_to_string(&good).expect("the file"), &[]);
    assert_eq!(passed.status.code(), Some(0), "{}", text(&passed.stderr));
    assert!(text(&passed.stdout).starts_with("Failed  Succeeded  Test Name\n   0          3    good.wt\n"));
    assert!(text(&passed.stdout).ends_with("Total web tests failed: 0  succeeded: 3\n"));

    let junit = folder.path().join("report.xml").display().to_string();
    let failed = piped("", &["--json", "--junit", &junit, &good, &bad]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    let json: Value = serde_json::from_slice(&failed.stdout).expect("JSON");
    conforms_to_its_own(&json);
    assert_eq!((json["failed"].as_u64(), json["succeeded"].as_u64()), (Some(1), Some(5)), "{json:#}");
    assert_eq!(json["files"][1]["tests"][0]["passed"], false);
    let junit = fs::read_to_string(junit).expect("the report");
    assert!(junit.contains("failures=\"1\"") && junit.contains("Content size check"), "{junit}");
}

#[test]
fn what_cannot_be_run_is_refused_with_file_and_line() {
    let folder = tempdir().expect("a folder");
    for (source, line, told) in [
        ("test_name = a\n  url = { 'http://a/' }\nend_test\n", 2, "Perl"),
        ("test_name = a\n  url = http://a/\n  text_requires = ( x )\nend_test\n", 3, "is text_require meant?"),
        ("test_name = a\n  url = http://a/\n  regex_require = ( 'a(?=b)' )\nend_test\n", 3, "look-ahead"),
        ("mail = success\ntest_name = a\n  url = http://a/\nend_test\n", 1, "sends no mail"),
        ("test_name = a\n  text_require = ( x )\nend_test\n", 1, "no address"),
        ("test_name = a\n  url = ftp://a/\nend_test\n", 2, "ftp"),
        ("test_name = a\n  url = http://a/\n  status_code = ok\nend_test\n", 3, "100 to 599"),
        ("plugins = ( ::Hooks )\ntest_name = a\n  url = http://a/\nend_test\n", 1, "built in"),
    ] {
        let path = folder.path().join("tests.wt").display().to_string();
        fs::write(&path, source).expect("a file");
        let refused = output(&["webtest", &path]);
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("tests.wt: line {line}:")) && stderr.contains(told), "{stderr}");
        assert!(refused.stdout.is_empty());
    }
    for (arguments, told) in [
        (&["webtest", "/absent.wt"][..], "/absent.wt"),
        (&["webtest", "--insecure", "--ca", "x"], "--ca"),
        (&["webtest", "--ca", "/absent.pem", "/dev/null"], "no test"),
    ] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(told), "{}", text(&refused.stderr));
    }
}
