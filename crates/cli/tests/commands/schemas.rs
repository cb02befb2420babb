//! What commands print as JSON, each run for real, held against the published schemas.

use crate::support::schema::{conforms, conforms_to_its_own};
use crate::support::served::Served;
use crate::support::weir;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs a command in a folder; what it prints.
fn printed(folder: &Path, words: &[&str]) -> String {
    let output = weir().args(words).current_dir(folder).output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(!text.is_empty(), "weir {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    text
}

fn json(folder: &Path, words: &[&str]) -> Value {
    let text = printed(folder, words);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("weir {}: {error}: {text}", words.join(" ")))
}

#[test]
fn loads_are_as_their_schemas_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("index.html"), "hello").expect("a file");
    let served = Served::start(folder, &[], ".");
    let url = format!("http://127.0.0.1:{}/", served.port);
    for more in [
        &["-n", "50", "-c", "2", "--run", "first"][..],
        &["-n", "50", "-c", "2", "--baseline", "first"],
        &[
            "-d",
            "300ms",
            "--rate",
            "200",
            "--interval",
            "100ms",
            "--ndjson",
            "lines",
            "--slo",
            "p99<1s",
            "--check",
            "status=200",
            "--slo",
            "errors<1%",
        ],
        &["-n", "20", "--http2", "--traceparent"],
    ] {
        let told = json(folder, &[&["load", "--json", "-q"], more, &[&url]].concat());
        conforms("load-1", &told);
        conforms_to_its_own(&told);
    }
    for line in fs::read_to_string(folder.join("lines")).expect("lines").lines() {
        conforms("load-line-1", &serde_json::from_str(line).expect("JSON"));
    }
    conforms_to_its_own(&json(folder, &["load", "--json", "-q", "-n", "9", &format!("{url}none")]));
    conforms_to_its_own(&json(folder, &["load", "--json", "-q", "-n", "9", "http://127.0.0.1:1/"]));
    conforms_to_its_own(&json(folder, &["load", "--json", "--make-fileset", "surge", "files", "--files", "3"]));
    let words = ["compare", "--json", "--blocks", "1", "--block-seconds", "0.1", "--warm-up", "0.05"];
    let program = env!("CARGO_BIN_EXE_weir");
    let port = weir_testkit::free_port();
    let server = format!("{program} serve --listen 127.0.0.1:{port} .");
    let at = format!("http://127.0.0.1:{port}/");
    conforms_to_its_own(&json(folder, &[&words[..], &["--a", &server, "--b", &server, "--url", &at]].concat()));
}

#[test]
fn what_is_said_of_a_run_is_as_its_schemas_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let from = root().join("crates/query/tests/recorded");
    let run = folder.join("shop");
    fs::create_dir_all(run.join("segments")).expect("a folder");
    fs::copy(from.join("manifest.jsonl"), run.join("manifest.jsonl")).expect("a copy");
    for segment in fs::read_dir(from.join("segments")).expect("segments").flatten() {
        fs::copy(segment.path(), run.join("segments").join(segment.file_name())).expect("a copy");
    }
    conforms("explain-1", &json(folder, &["explain", "--json", "shop"]));
    conforms("explain-1", &json(folder, &["explain", "--json", "--server-side", "shop"]));
    conforms("advise-1", &json(folder, &["advise", "--json", "shop"]));
    conforms("objects-1", &json(folder, &["objects", "--json", "shop"]));
    let question = "SELECT 1 AS a, 'b' AS b, NULL AS c, x'00' AS d, 0.5 AS e UNION ALL SELECT 2, 'c', NULL, NULL, 1";
    conforms("sql-1", &json(folder, &["sql", "--json", "shop", question]));
    conforms("sql-list-1", &json(folder, &["sql", "--list", "--json"]));
}

#[test]
fn what_is_said_of_files_is_as_its_schemas_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("weir.toml"), "[[host]]\nroot = \".\"\nlisten = \"127.0.0.1:8080\"\nnonsense = 1\n")
        .expect("a file");
    conforms("check-1", &json(folder, &["check", "--json", "weir.toml", "missing.toml"]));
    let log: String = (0..200)
        .map(|at| {
            format!(
                "127.0.0.1 - - [10/Oct/2025:13:{:02}:{:02} +0000] \"GET /{} HTTP/1.1\" 200 {}\n",
                at / 60,
                at % 60,
                at % 7,
                900 + at
            )
        })
        .collect();
    fs::write(folder.join("access.log"), log + "no line of a log\n").expect("a file");
    conforms("plan-1", &json(folder, &["plan", "--json", "access.log", "--service", "2ms", "--slo", "p95<200ms"]));
}

#[test]
fn a_schema_is_printed_by_its_name_or_as_an_output_says_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fs::read_to_string(root().join("docs/reference/schemas/load-1.json")).expect("a schema");
    for name in ["load", "load-1", "weir-load/1"] {
        assert_eq!(printed(folder.path(), &["schema", name]), file);
    }
    assert!(printed(folder.path(), &["schema"]).contains("load-1"));
    let output = weir().args(["schema", "nonsense"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
