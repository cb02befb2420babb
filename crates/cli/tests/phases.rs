//! Phases of real servers' work are within their responses and in their order, and queries are named without their
//! values.

#[path = "phases/scripts.rs"]
mod scripts;
mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{alone, explain, number, output};
use weir_testkit::{Apache, MariaDb, Nginx, PhpFpm, Postgres, RunningDatabase, RunningServer, WeirServe, require};

/// A phase of a report, by its server's and its own name.
fn phase<'r>(report: &'r Value, server: &str, name: &str) -> &'r Value {
    let phases = report["phases"].as_array().expect("a list of phases");
    let found = phases.iter().find(|phase| phase["server"] == server && phase["name"] == name);
    found.unwrap_or_else(|| panic!("no phase {server} {name} in {phases:#?}"))
}

/// Loads a server with its pack; what must hold for every server's phases.
fn phases(server: &RunningServer, path: &str, pack: &str, connections: &str) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let options = ["--packs", pack, "-d", "1s", "-c", connections];
    let report = explain(&server.url(path), server.port, run.path(), &options);
    assert!(number(&report, "/observer_cost/lost") < 1.0);
    let sum = |part: &str| -> f64 {
        let phases = report["phases"].as_array().expect("a list").iter().filter(|phase| phase["server"] == pack);
        phases.map(|phase| number(phase, part)).sum()
    };
    let server_ns: f64 = [
        "run",
        "wait_cpu",
        "wait_disk",
        "wait_lock",
        "wait_process",
        "wait_network",
        "wait_timer",
        "unattributed",
        "request_transit",
    ]
    .iter()
    .map(|part| number(&report, &format!("/parts_ns/{part}")))
    .sum();
    let within = sum("/mean_ns");
    eprintln!("{pack}: phases are {within:.0} ns of the server's {server_ns:.0} ns a response: {:#}", report["phases"]);
    assert!(within > 0.0 && within <= server_ns * 1.001, "phases are {within} of {server_ns} ns");
    assert!(sum("/parts_ns/run") <= number(&report, "/parts_ns/run") * 1.001);
    for phase in report["phases"].as_array().expect("a list") {
        let parts: f64 = phase["parts_ns"].as_object().expect("parts").values().filter_map(Value::as_f64).sum();
        assert!((parts - number(phase, "/mean_ns")).abs() < 1.0, "{phase:#}");
    }
    report
}

/// The names of a server's phases within responses, in the report's order, each at its first place.
fn order(report: &Value, server: &str) -> Vec<String> {
    let phases = report["phases"].as_array().expect("a list of phases");
    let within = phases.iter().filter(|phase| phase["server"] == server && number(phase, "/mean_ns") > 0.0);
    within.map(|phase| phase["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn apaches_five_phases_are_seen_and_those_of_a_response_are_in_order() {
    let _turn = alone();
    if require::apache().and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    // Several listeners make the children take turns in accepting, by a lock.
    let server = Apache::prefork().workers(4).more_ports(1).keep_alive(false).start().expect("Apache starts");
    let report = phases(&server, "/1k.txt?token=secret", "apache", "2");
    let requests = number(&report, "/requests");
    for name in ["open connection", "read request", "process request", "handler"] {
        let count = number(phase(&report, "apache", name), "/count");
        assert!(count > 0.9 * requests, "{name}: {count} of {requests}");
    }
    // The phases of the paper's figure: preparing, lock, accept, processing, closing. Of those outside of responses the
    // tasks' own time is told.
    for name in ["prepare", "accept lock", "accept", "process request", "close"] {
        assert!(number(phase(&report, "apache", name), "/elapsed_ns") > 0.0, "{name}");
    }
    let order = order(&report, "apache");
    let place = |name: &str| order.iter().position(|one| one == name).unwrap_or_else(|| panic!("{name} in {order:?}"));
    assert!(place("open connection") < place("read request"), "{order:?}");
    assert!(place("read request") < place("process request"), "{order:?}");
    assert!(place("process request") < place("handler"), "{order:?}");
}

#[test]
fn an_event_loop_is_in_the_phase_of_the_request_that_it_is_at() {
    let _turn = alone();
    if require::nginx().and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    let nginx = Nginx::new().start().expect("nginx starts");
    let report = phases(&nginx, "/1k.txt", "nginx", "8");
    let (count, requests) =
        (number(phase(&report, "nginx", "process request"), "/count"), number(&report, "/requests"));
    assert!((count / requests - 1.0).abs() < 0.02, "each request passes it once: {count} of {requests}");
    let weir = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("it starts");
    let report = phases(&weir, "/1k.txt", "weir", "8");
    let requests = number(&report, "/requests");
    for name in ["read", "route", "cache", "send"] {
        let count = number(phase(&report, "weir", name), "/count");
        assert!((count / requests - 1.0).abs() < 0.02, "each request passes {name} once: {count} of {requests}");
    }
    let mut seen = order(&report, "weir");
    seen.retain(|name| name != "file");
    assert_eq!(seen, ["read", "route", "cache", "send"]);
    // Where nothing is kept in memory, each request opens its file.
    let uncached = WeirServe::new(env!("CARGO_BIN_EXE_weir")).args(["--cache-mib", "0"]).start().expect("it starts");
    let report = phases(&uncached, "/1k.txt", "weir", "8");
    let (count, requests) = (number(phase(&report, "weir", "file"), "/count"), number(&report, "/requests"));
    assert!((count / requests - 1.0).abs() < 0.02, "each request passes file once: {count} of {requests}");
    assert_eq!(order(&report, "weir"), ["read", "route", "cache", "file", "send"]);
}

/// A directory with one page, which php-fpm may read as any user.
fn page(text: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    fs::write(root.path().join("page.php"), text).expect("written");
    root
}

/// Loads a page that asks a database; the report.
fn page_of(database: &RunningDatabase, text: &str, run: &Path, more: &[&str]) -> Value {
    let root = page(text);
    let php = PhpFpm::new().env("DATABASE", &database.address).start().expect("php-fpm starts");
    let apache = Apache::prefork().php_fpm(&php).root(root.path()).start().expect("Apache starts");
    let (php, database) = (php.pid().to_string(), database.pid().to_string());
    let mut options = vec!["--pid", &php, "--pid", &database, "--packs", "auto", "-d", "3s", "-c", "2"];
    options.extend(more);
    let report = explain(&apache.url("/page.php"), apache.port, run, &options);
    assert_eq!(report["status"]["200"], report["requests"], "{}", report["status"]);
    report
}

/// Whether any file of a run holds a text.
fn holds(run: &Path, text: &[u8]) -> bool {
    let files = fs::read_dir(run).expect("the run").flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = files.partition(|path| path.is_dir());
    let holds_file = |path: &std::path::PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text)
    };
    files.iter().any(holds_file) || folders.iter().any(|folder| holds(folder, text))
}

const POSTGRESQL_PAGE: &str = r#"<?php
$database = pg_pconnect(getenv('DATABASE'));
pg_query($database, "SELECT pg_sleep(0.02), 'a-secret-value'");
pg_query_params($database, 'SELECT $1::int + 1', [4711]);
echo "done";
"#;

#[test]
fn a_slow_query_is_named_and_its_values_are_not_kept() {
    let _turn = alone();
    let needs = require::apache_module("proxy_fcgi").and_then(|()| require::php_extension("pgsql"));
    if needs.and_then(|()| require::postgres()).and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    let database = Postgres::new().start().expect("PostgreSQL starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = page_of(&database, POSTGRESQL_PAGE, run.path(), &[]);
    let requests = number(&report, "/requests");
    let slowest = &report["queries"][0];
    assert_eq!(slowest["text"], "SELECT pg_sleep(?), ?", "{:#}", report["queries"]);
    assert_eq!(slowest["server"], "postgresql");
    assert!((number(slowest, "/count") / requests - 1.0).abs() < 0.05, "{slowest:#} of {requests} requests");
    let (mean, max) = (number(slowest, "/mean_ns"), number(slowest, "/max_ns"));
    assert!((20e6..40e6).contains(&mean) && max >= mean, "{slowest:#}");
    let second =
        report["queries"].as_array().expect("a list").iter().find(|query| query["text"] == "SELECT ?::int + ?");
    assert!(second.is_some(), "{:#}", report["queries"]);
    for name in ["startup", "script"] {
        assert!(number(phase(&report, "php-fpm", name), "/elapsed_ns") > 0.0);
    }
    for name in ["parse", "plan", "execute"] {
        assert!(number(phase(&report, "postgresql", name), "/elapsed_ns") > 0.0);
    }
    assert!(!holds(run.path(), b"a-secret-value"), "no value reaches the disk");
    // With --keep-queries they are kept.
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = page_of(&database, POSTGRESQL_PAGE, run.path(), &["--keep-queries"]);
    assert_eq!(report["queries"][0]["text"], "SELECT pg_sleep(0.02), 'a-secret-value'");
    assert!(holds(run.path(), b"a-secret-value"));
}

const MARIADB_PAGE: &str = r#"<?php
$database = new mysqli('localhost', 'root', '', 'weir', 0, getenv('DATABASE'));
$database->query("SELECT SLEEP(0.02), 'a-secret-value'");
echo "done";
"#;

#[test]
fn mariadbs_queries_are_named_too() {
    let _turn = alone();
    let needs = require::apache_module("proxy_fcgi").and_then(|()| require::php_extension("mysqli"));
    if needs.and_then(|()| require::mariadb()).and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    let database = MariaDb::new().start().expect("MariaDB starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = page_of(&database, MARIADB_PAGE, run.path(), &[]);
    let slowest = &report["queries"][0];
    assert_eq!(slowest["text"], "SELECT SLEEP(?), ?", "{:#}", report["queries"]);
    assert!((20e6..60e6).contains(&number(slowest, "/mean_ns")), "{slowest:#}");
    assert!(number(phase(&report, "mariadb", "execute"), "/elapsed_ns") > 15e6);
    assert!(!holds(run.path(), b"a-secret-value"), "no value reaches the disk");
}

#[test]
fn a_probe_that_cannot_be_had_is_refused_before_anything_is_recorded() {
    let _turn = alone();
    if require::apache().and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    let server = Apache::prefork().workers(2).start().expect("Apache starts");
    let port = server.port.to_string();
    for (option, value, words) in [
        ("--probe", "apache2:ap_run_handler:ret", ["17 to 24 us", "--allow-slow-probes"]),
        ("--probe", "apache2:ap_run_handlers", ["ap_run_handler", "nm -D"]),
        ("--probe", "nginx:ngx_http_handler", ["no process of the server", "whole path"]),
        ("--packs", "postgresql", ["--packs postgresql", "postgres"]),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = folder.path().join("run");
        let run_text = run.to_str().expect("a readable path");
        let output = output(&["record", "--port", &port, "--run", run_text, "-d", "1s", option, value]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.iter().all(|word| stderr.contains(word)), "{value}: {stderr}");
        assert!(!run.exists(), "{value} left a run behind");
    }
}

#[test]
fn what_php_fpm_did_for_the_request_before_is_in_no_phase_of_the_next() {
    let _turn = alone();
    let needs = require::apache_module("proxy_fcgi").and_then(|()| require::socket_tracepoints());
    if needs.is_none() {
        return;
    }
    let root = page("<?php usleep(2000); echo 'done';");
    let php = PhpFpm::new().start().expect("php-fpm starts");
    let apache = Apache::prefork().php_fpm(&php).root(root.path()).start().expect("Apache starts");
    let (run, pid) = (tempfile::tempdir().expect("a temporary directory"), php.pid().to_string());
    // More at a time than there are workers: requests wait until a worker has ended the one before.
    let options = ["--pid", &pid, "--packs", "php-fpm", "-d", "2s", "-c", "8"];
    let report = explain(&apache.url("/page.php"), apache.port, run.path(), &options);
    let order = order(&report, "php-fpm");
    assert_eq!(order.iter().filter(|name| *name != "compile").collect::<Vec<_>>(), ["startup", "script", "shutdown"]);
    let requests = number(&report, "/requests");
    for name in ["startup", "shutdown"] {
        let count = number(phase(&report, "php-fpm", name), "/count");
        assert!((count / requests - 1.0).abs() < 0.05, "{name}: {count} of {requests}");
    }
}
