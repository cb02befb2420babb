//! A request that waits for other processes is followed into them: over Unix and TCP sockets, pipes, fork and exec.

mod support;

use serde_json::Value;
use support::planted::undisturbed;
use support::{alone, number, output};
use weir_testkit::{Apache, Cgi, Nginx, PhpFpm, Postgres, RunningServer, Site, require};

/// Explains a page behind a server, the processes behind it captured, too.
fn explained(server: &RunningServer, path: &str, behind: &[u32], load: &[&str]) -> Value {
    let run = tempfile::tempdir().expect("a temporary directory");
    let (url, port) = (server.url(path), server.port.to_string());
    let pids: Vec<String> = behind.iter().map(u32::to_string).collect();
    let mut arguments = vec!["explain", "--load", &url, "--port", &port, "--json"];
    arguments.extend(["--run", run.path().to_str().expect("a readable path")]);
    pids.iter().for_each(|pid| arguments.extend(["--pid", pid]));
    arguments.extend(load);
    let output = output(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {} failed: {stderr}", arguments.join(" "));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    if std::env::var_os("WEIR_SHOW").is_some() {
        let path = run.keep();
        eprintln!("kept {}", path.display());
    }
    let texts: Vec<&str> =
        report["causes"].as_array().expect("causes").iter().filter_map(|c| c["text"].as_str()).collect();
    eprintln!("{path}: {texts:#?}");
    assert!(number(&report, "/joined_fraction") > 0.99, "{}", report["unjoinable"]);
    assert!((number(&report, "/sum_of_parts_over_response/min") - 1.0).abs() < 1e-9);
    assert!((number(&report, "/sum_of_parts_over_response/max") - 1.0).abs() < 1e-9);
    report
}

/// Share of the mean response that a part has.
fn share(report: &Value, part: &str) -> f64 {
    number(report, &format!("/parts_ns/{part}")) / number(report, "/response_ns/mean")
}

/// Who is named for a part, with its share.
fn who(report: &Value, part: &str) -> Vec<(String, f64)> {
    let causes = report["causes"].as_array().expect("causes");
    let cause = causes.iter().find(|cause| cause["part"] == part);
    let who = cause.and_then(|cause| cause["who"].as_array()).cloned().unwrap_or_default();
    who.iter().map(|one| (one[0].as_str().unwrap_or_default().to_owned(), one[1].as_f64().unwrap_or(0.0))).collect()
}

fn installed() -> Option<()> {
    require::root_and_bpf()?;
    require::php_extension("pgsql")?;
    require::postgres()?;
    require::apache_module("proxy_fcgi")?;
    require::nginx()
}

#[test]
fn a_php_page_with_a_database_has_no_wait_that_is_not_followed() {
    let _turn = alone();
    if installed().is_none() {
        return;
    }
    let database = Postgres::new().start().expect("PostgreSQL starts");
    database.sql(Site::TABLES).expect("tables");
    for tcp in [false, true] {
        let address = if tcp { &database.address_tcp } else { &database.address };
        let php = PhpFpm::new().processes(4).env("WEIR_POSTGRES", address);
        let php = if tcp { php.tcp() } else { php }.start().expect("php-fpm starts");
        let site = Site::php().expect("a site");
        let apache = Apache::event().workers(16).root(site.path()).php_fpm(&php).start().expect("Apache starts");
        let nginx = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
        for server in [&apache, &nginx] {
            let behind = [php.pids()[0], database.pid()];
            let report = explained(server, "/lookup.php?id=7", &behind, &["-c", "4", "-d", "2s"]);
            let unknown = share(&report, "wait_process") + share(&report, "unattributed");
            assert!(unknown < 0.05, "{unknown} of the response is not followed: {}", report["parts_ns"]);
            let running = who(&report, "run");
            assert!(running.iter().any(|(name, _)| name.starts_with("postgres")), "{running:?}");
            assert!(running.iter().any(|(name, _)| name.starts_with("php-fpm")), "{running:?}");
            let server = if std::ptr::eq(server, &raw const apache) { "apache2" } else { "nginx" };
            for (from, to) in [(server, "php-fpm8.2"), ("php-fpm8.2", "postgres")] {
                let waiting = report["waiting"].as_array().expect("the waiting graph");
                let edge = waiting.iter().find(|edge| edge["from"] == from && edge["to"] == to);
                let edge = edge.unwrap_or_else(|| panic!("{from} does not wait for {to}: {waiting:#?}"));
                assert!(number(edge, "/mean_ns") > 0.05 * number(&report, "/response_ns/mean"), "{edge}");
            }
            let processes = report["processes"].as_array().expect("processes");
            assert!(processes.iter().any(|process| process["name"] == "postgres"), "{processes:#?}");
        }
    }
}

/// Over a pipe to the script, from the script to the program that it runs and waits for.
#[test]
fn a_script_that_sleeps_in_a_child_of_its_own() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::apache_module("cgid").is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    let script = b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nsleep 0.02\necho slept\n";
    site.write_program("slow.cgi", script).expect("a script");
    // A connection each: the worker itself sleeps 47 ms when a script is over (apr_sleep in the clean-up of its pool), and
    // the next request of the same connection waits for that.
    for (apache, cgi) in [(Apache::prefork(), Cgi::Direct), (Apache::event(), Cgi::Daemon)] {
        let server = apache.workers(4).processes(1).root(site.path()).cgi(cgi).start().expect("Apache starts");
        let report = explained(&server, "/slow.cgi", &[], &["-c", "2", "-d", "2s", "--no-keepalive"]);
        assert_eq!(report["causes"][0]["part"], "wait_timer", "{cgi:?}");
        let slept = who(&report, "wait_timer");
        assert!(slept[0].0.starts_with("sleep"), "{cgi:?}: {slept:?}");
        let unknown = share(&report, "wait_process") + share(&report, "unattributed");
        assert!(unknown < 0.05, "{cgi:?}: {unknown} of the response is not followed: {}", report["parts_ns"]);
    }
}
