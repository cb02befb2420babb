//! The runtimes of persistent scripts: C, Perl, Python and shell do the same in both forms of the variables.

use super::client::Stand;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_scripts::Way;

fn runtimes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/cgiplus").canonicalize().expect("the runtimes are there")
}

fn stand(is_struct: bool) -> Stand {
    let folder = runtimes().to_string_lossy().into_owned();
    Stand::new(Way::Cgiplus, |pool| {
        pool.workers = 1;
        pool.is_struct = is_struct;
        pool.env = ["PERL5LIB", "PYTHONPATH", "RUNTIMES"].map(|name| (name.to_owned(), folder.clone())).into();
        pool.env.push(("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()));
    })
}

/// Puts the script into the pool's root; that of C is built.
fn script(stand: &Stand, name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/persistent").join(name);
    if name.ends_with(".c") {
        let built = stand.pool.root.join("asks");
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"]).arg(runtimes());
        assert!(cc.arg(file).arg("-o").arg(&built).status().expect("cc").success());
        return built;
    }
    stand.script(name, &fs::read_to_string(file).expect("text"))
}

fn answers(name: &str, is_struct: bool) {
    let stand = stand(is_struct);
    let path = script(&stand, name);
    let mut conn = stand.connect();
    let mut number = 0;
    let mut ask = |query: &str, body: &[u8], expected: &str| {
        number += 1;
        let response = conn.ask(&path, &[("QUERY_STRING", query)], body);
        let whole = format!("Content-Type: text/plain\n\n{number} {query}\n{expected}");
        assert!(response.text() == whole, "{name} {query}: {:.500?}, {}", response.text(), response.log);
        assert_eq!(response.log, "", "{name} {query}");
        assert_eq!(response.end, Some(0), "{name} {query}");
    };
    let lines: String = (0..50_000).map(|line| format!("{line}\n")).collect();
    for bytes in [3, 4096, 5000, 100_000] {
        let body = &b"0123456789".repeat(bytes / 10 + 1)[..bytes];
        ask("none", b"", "");
        ask("whole", body, &format!("{bytes} 012\n"));
        ask("part", body, "012");
        // What is left of one body is no part of the next.
        ask("ignored", body, "");
        ask("whole", b"abcdef", "6 abc\n");
        ask("ask", b"", "200\n");
        if bytes == 3 {
            ask("long", b"", &lines);
        }
    }
}

#[test]
fn scripts_in_c_read_what_they_want_of_a_body_and_no_other() {
    answers("asks.c", true);
    answers("asks.c", false);
}

#[test]
fn scripts_of_perl_read_what_they_want_of_a_body_and_no_other() {
    answers("asks.pl", true);
    answers("asks.pl", false);
}

#[test]
fn scripts_of_python_read_what_they_want_of_a_body_and_no_other() {
    answers("asks.py", true);
    answers("asks.py", false);
}

#[test]
fn scripts_of_the_shell_read_what_they_want_of_a_body_and_no_other() {
    answers("asks.sh", false);
}

#[test]
fn a_script_that_lists_its_environment_does_not_end_its_response() {
    let stand = stand(false);
    let text = ". \"$RUNTIMES/cgiplus.sh\"\nwhile cgiplus_next; do\n  printf 'Content-Type: text/plain\\n\\n'\n  env\n  echo end\n  cgiplus_end\ndone\n";
    let path = stand.script("env.sh", &format!("#!/bin/sh\n{text}"));
    let mut conn = stand.connect();
    for query in ["a", "b"] {
        let text = conn.ask(&path, &[("QUERY_STRING", query)], b"").text();
        assert!(text.ends_with("\nend\n") && !text.contains("CGIPLUSEOF"), "{text}");
        assert!(text.contains(&format!("\nQUERY_STRING={query}\n")), "{text}");
    }
}

#[test]
fn the_programs_answer_one_request_of_plain_cgi() {
    let stand = stand(false);
    for name in ["asks.c", "asks.pl", "asks.py", "asks.sh"] {
        let path = script(&stand, name);
        let folder = runtimes();
        let mut command = Command::new(path);
        command.envs(["PERL5LIB", "PYTHONPATH", "RUNTIMES"].map(|name| (name, &folder)));
        let output = command.env("QUERY_STRING", "plain").env("PYTHONDONTWRITEBYTECODE", "1").output().expect("runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "Content-Type: text/plain\n\n1 plain\n", "{name}");
    }
}
