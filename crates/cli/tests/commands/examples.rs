//! The examples of the libraries do what their comments say.
//!
//! `cargo test --workspace` builds them beside the tests. A test that finds its example unbuilt is skipped, as where
//! `--test` has selected other programs.

use crate::architecture::{read, root, sources};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_testkit::require;

const LOG: &str = r#"192.0.2.1 - - [26/Nov/2026:23:59:58 +0000] "GET /index.html HTTP/1.1" 200 2326
192.0.2.2 - - [26/Nov/2026:23:59:59 +0000] "GET /gone.html HTTP/1.1" 404 120
192.0.2.3 - - [27/Nov/2026:00:00:01 +0000] "GET /index.html HTTP/1.1" 304 -
a line of another sort
"#;

/// The built example of a name, or `None` after the test was skipped.
fn built(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("this test");
    let example = test.parent().and_then(Path::parent).expect("two folders").join("examples").join(name);
    require::or_skip(example.exists(), &format!("the example {name} is not built (cargo build --release --examples)"))?;
    Some(example)
}

/// What an example prints; it succeeds.
fn printed(example: &Path, arguments: &[&Path], input: &str) -> String {
    let mut child = Command::new(example)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // An example without an input may have ended already.
    let _closed = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the example ends");
    assert!(output.status.success(), "{}: {}", example.display(), output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// By which name Cargo runs an example.
fn name_of(example: &Path) -> String {
    let own = if example.ends_with("main.rs") { example.parent().expect("a folder") } else { example };
    own.file_stem().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn each_example_says_how_to_run_it() {
    for entry in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let mut examples = Vec::new();
        sources(&entry.path().join("examples"), &mut examples);
        let package = entry.file_name().into_string().expect("a name in ASCII");
        // An example in a folder of its own is run by the folder's name, which its main file tells.
        examples.retain(|example| {
            example.parent().is_some_and(|folder| folder.ends_with("examples") || example.ends_with("main.rs"))
        });
        for example in examples {
            let (text, name) = (read(&example), name_of(&example));
            let command = format!("cargo run --release -p weir-{package} --example {name}");
            assert!(text.starts_with("//! ") && text.contains(&command), "{} lacks: {command}", example.display());
        }
    }
}

#[test]
fn derived_tables_are_made_and_timed() {
    let Some(example) = built("derive") else { return };
    let told = printed(&example, &[Path::new("6000")], "");
    let rows = |table: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(&format!("{table}: ")));
        let line = line.unwrap_or_else(|| panic!("{table}: {told}"));
        assert!(line.ends_with(" ms then"), "{line}");
        line.split(' ').next().and_then(|rows| rows.parse::<u64>().ok()).expect("a number")
    };
    // A thousand requests, of which each has a turn on a CPU and is asked for and answered; nothing tells that the last one of
    // each of eight connections is over.
    assert_eq!((rows("requests"), rows("slices")), (992, 1000), "{told}");
    assert!(rows("interactions") >= 2000 && rows("objects") >= 10, "{told}");
}

#[test]
fn an_open_loop_tells_what_users_felt() {
    let Some(example) = built("open_loop") else { return };
    let text = printed(&example, &[], "");
    assert!(text.starts_with("1000 of 1000 requests succeeded, "), "{text}");
    let slowest = text.lines().find(|line| line.starts_with("slowest")).expect("a line of the slowest");
    let ms: Vec<f64> = slowest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(ms.len() == 2 && ms[0] >= 45.0, "the server halts for 50 ms: {text}");
}

#[test]
fn without_an_agent_transactions_are_not_recorded() {
    let Some(example) = built("cost_of_a_transaction") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(example).env("WEIR_ARM_DIR", folder.path()).output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("no agent listens: 0 of 100000 transactions recorded, "), "{text}");
}

#[test]
fn percentiles_have_intervals() {
    let Some(example) = built("percentiles") else { return };
    let numbers: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    let text = printed(&example, &[], &numbers.join("\n"));
    // These ranks are those of tables for the sign test.
    assert!(text.contains("p50             500   469 to 532\n"), "{text}");
    assert!(text.contains("p99.9           999   at least 997: too few numbers for the other end\n"), "{text}");
}

#[test]
fn pairs_of_times_have_a_verdict() {
    let Some(example) = built("is_it_faster") else { return };
    let pairs = |factor: f64| -> String {
        (0..30).map(|pair| 100.0 + f64::from(pair % 7)).map(|a| format!("{a} {}\n", a * factor)).collect()
    };
    assert!(printed(&example, &[], &pairs(0.9)).starts_with("B is faster: B takes 0.900 of the time of A "));
    assert!(printed(&example, &[], &pairs(1.001)).starts_with("they are the same: "));
}

#[test]
fn the_time_of_a_response_has_parts() {
    let (Some(one), Some(run)) = (built("parts_of_a_response"), built("parts_of_a_run")) else { return };
    let text = printed(&one, &[], "");
    assert!(text.starts_with("a response of 8000 ns\n") && text.ends_with("1 of 1 joined\n"), "{text}");
    let recorded = root().join("crates/timeline/tests/golden/nginx_keep_alive");
    let text = printed(&run, &[&recorded], "");
    assert!(text.contains(" joined with the server's side\n") && text.contains("  the response\n"), "{text}");
}

#[test]
fn a_log_is_planned_and_counted() {
    let (Some(plan), Some(count)) = (built("nodes_for_a_log"), built("statuses_per_minute")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    fs::write(&log, LOG).expect("the log is written");
    let text = printed(&plan, &[&log], "");
    assert!(text.starts_with("3 requests in 4 s for 1 objects of 2326 bytes; 1 lines left out\n"), "{text}");
    assert!(text.contains("  1 times the requests: 1 nodes, placement full, "), "{text}");
    let text = printed(&count, &[&log], "");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["2026-11-26", "23:59", "0", "1", "0", "1", "0", "0"]);
    assert_eq!(lines[2], ["2026-11-27", "00:00", "0", "0", "1", "0", "0", "0"]);
    assert!(lines[3].starts_with(&["1", "lines", "left", "out:"]), "{text}");
}

#[test]
fn a_policy_is_checked_and_decides() {
    let (Some(check), Some(decide)) = (built("check_policies"), built("decide")) else { return };
    let text = printed(&decide, &[], "40\n85\n90\n95\n95\n60\n40\n");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().any(|line| line.contains("busy") && line.contains("shed 20")), "{text}");
    assert!(lines.last().is_some_and(|line| line.starts_with("   6 s  busy ")), "{text}");
    let policy = root().join("crates/adapt/tests/example.policy");
    let text = printed(&check, &[&policy], "");
    assert!(text.lines().all(|line| line.contains("example.policy:") && line.ends_with(" (warning)")), "{text}");
    let wrong = tempfile::NamedTempFile::new().expect("a file");
    fs::write(wrong.path(), "atom \"/\" { rule hot: if cpuu > 90% then alert \"hot\"; }").expect("it is written");
    let output = Command::new(check).arg(wrong.path()).output().expect("the example runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
