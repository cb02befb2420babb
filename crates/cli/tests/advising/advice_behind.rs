//! What `weir advise` says of real servers that wait for a disk, compile their programs anew, or share their CPU. Each
//! with the wrong setting and with the right one.

use crate::support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::advice::{
    advised, advised_once, assert_absent, assert_no_copies, check_effect, finding, json, line_of, site,
};
use support::planted::{Beside, undisturbed, wait_for};
use support::{alone, number};
use weir_testkit::{Apache, PhpFpm, Postgres, Site, require};

/// A directory each of whose files is written through to the disk, as on a file system that is mounted `sync`.
fn written_through() -> Option<Site> {
    require::program("chattr")?;
    let logs = Site::empty().expect("a directory");
    let done = Command::new("chattr").arg("+S").arg(logs.path()).status().is_ok_and(|status| status.success());
    require::or_skip(done, "temporary files lie on a file system that writes nothing through (chattr +S)")?;
    Some(logs)
}

#[test]
fn a_log_that_waits_for_the_disk_is_found_and_a_buffer_proven() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    let Some(logs) = written_through() else { return };
    let log = logs.path().join("access.log");
    let started = |buffered: &str| {
        let apache = Apache::prefork().workers(4).custom_log(&log).directive(buffered);
        apache.start().expect("Apache starts")
    };
    let load = ["-c", "2", "-d", "2s", "--watch", "disk"];
    let server = started("BufferedLogs Off");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/1k.txt", run.path(), &load);
    let found = finding(&advice, "log_unbuffered");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "BufferedLogs Off");
    assert!(found["evidence"][0]["text"].as_str().is_some_and(|text| text.contains("access.log")), "{found:#}");
    assert_absent(&advised_once(&started("BufferedLogs On"), "/1k.txt", &load), "log_unbuffered");

    let (run, number_of) = (run.path().to_str().expect("a readable path"), found["number"].to_string());
    let advice = json(&["advise", run, "--try", &number_of, "--json", "--blocks", "8", "--block-seconds", "0.3"]);
    let trial = &advice["trial"];
    assert_eq!(trial["throughput"]["verdict"], "better", "{trial:#}");
    assert!(number(trial, "/throughput/ratio/median") > 2.0, "{trial:#}");
    assert_no_copies();
    let left: Vec<_> =
        std::fs::read_dir(logs.path()).expect("the logs").flatten().map(|file| file.file_name()).collect();
    assert_eq!(left, ["access.log"]);
}

#[test]
fn commits_that_wait_for_the_disk() {
    let _turn = undisturbed();
    let needs = [require::root_and_bpf(), require::php_fpm(), require::apache(), require::postgres()];
    if needs.iter().any(Option::is_none) {
        return;
    }
    let page =
        "<?php $c = pg_pconnect(getenv('DATABASE')); pg_query($c, 'INSERT INTO orders VALUES (1)'); echo 'bought';";
    let site = site("buy.php", page);
    let seen = |commit: &str| {
        let database = Postgres::new().setting("synchronous_commit", commit).start().expect("PostgreSQL starts");
        database.sql("CREATE TABLE orders (n int)").expect("the table is made");
        let php = PhpFpm::new().processes(2).env("DATABASE", &database.address).start().expect("php-fpm starts");
        let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
        let (php_pid, database_pid) = (php.pid().to_string(), database.pid().to_string());
        let load = ["-c", "2", "-d", "2s", "--watch", "disk", "--pid", &php_pid, "--pid", &database_pid];
        let advice = advised_once(&server, "/buy.php", &load);
        let line = advice["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .find(|finding| finding["rule"] == "synchronous_commit")
            .map(|finding| line_of(&finding["settings"][0]));
        (advice, line)
    };
    let (advice, line) = seen("on");
    check_effect(finding(&advice, "synchronous_commit"));
    assert_eq!(line.as_deref(), Some("synchronous_commit = 'on'"));
    assert_absent(&seen("off").0, "synchronous_commit");
}

/// A program of so many functions that compiling it takes milliseconds.
fn large_program() -> String {
    let function = |n: u32| {
        format!("function f{n}($a, $b) {{ if ($a > $b) {{ return [$a => $b, 'n' => {n}]; }} return $a . 'x' . $b; }}\n")
    };
    format!("<?php\n{}echo f1(2, 1)['n'];", (0..4000).map(function).collect::<String>())
}

#[test]
fn programs_compiled_for_each_request() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::php_extension("opcache").is_none() || require::apache().is_none() {
        return;
    }
    let site = site("large.php", &large_program());
    let seen = |cache: &str, run: &Path| {
        let php = PhpFpm::new().processes(2).pool_setting("php_admin_value[opcache.enable]", cache);
        let php = php.start().expect("php-fpm starts");
        let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
        let pid = php.pid().to_string();
        let advice = advised(&server, "/large.php", run, &["-c", "2", "-d", "2s", "--pid", &pid]);
        (advice, php, server)
    };
    let run = tempfile::tempdir().expect("a temporary directory");
    let (advice, _php, _server) = seen("0", run.path());
    let found = finding(&advice, "opcache_off");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "php_admin_value[opcache.enable] = 0");
    let other = tempfile::tempdir().expect("a temporary directory");
    assert_absent(&seen("1", other.path()).0, "opcache_off");

    let (run, number_of) = (run.path().to_str().expect("a readable path"), found["number"].to_string());
    let advice = json(&["advise", run, "--try", &number_of, "--json", "--blocks", "8", "--block-seconds", "0.3"]);
    let trial = &advice["trial"];
    assert_eq!(trial["throughput"]["verdict"], "better", "{trial:#}");
    assert_no_copies();
}

/// Takes the CPU for 8 of each 10 ms, for a minute at most.
const NEIGHBOUR: &str = "#!/usr/bin/python3
import time
for _ in range(6000):
    end = time.monotonic() + 0.008
    while time.monotonic() < end:
        pass
    time.sleep(0.002)
";

/// As a real-time task, because what else runs on the machine of the test would be a neighbour, too.
#[test]
fn a_neighbour_on_the_same_cpu() {
    let _turn = alone();
    let needs = [require::root_and_bpf(), require::apache(), require::cpus(2), require::program("python3")];
    if needs.iter().any(Option::is_none) || require::program("chrt").is_none() {
        return;
    }
    let scripts = Site::empty().expect("a directory");
    scripts.write_program("report-nightly", NEIGHBOUR.as_bytes()).expect("the script");
    let server = Apache::prefork().workers(8).pin(0).start().expect("Apache starts");
    let load = ["-c", "4", "-d", "2s", "--cpu", "1"];
    // How long a response waits for the CPU that it has.
    let named = |advice: &Value| {
        let findings = advice["findings"].as_array().expect("findings").iter();
        let mut found = findings.filter(|finding| finding["rule"] == "noisy_neighbour");
        let found =
            found.find(|finding| finding["title"].as_str().is_some_and(|title| title.contains("report-nightly")));
        found.map(|finding| number(finding, "/evidence/0/mean_ns"))
    };
    assert_eq!(named(&advised_once(&server, "/1k.txt", &load)), None);
    let mut neighbour = Command::new("taskset");
    neighbour.args(["-c", "0", "chrt", "-f", "1"]).arg(scripts.path().join("report-nightly"));
    let neighbour = Beside::spawn(neighbour);
    wait_for(|| {
        std::fs::read_to_string(format!("/proc/{}/comm", neighbour.pid())).ok()?.starts_with("report").then_some(())
    });
    let advice = advised_once(&server, "/1k.txt", &load);
    let before_ns = named(&advice).unwrap_or_else(|| panic!("{advice:#}"));
    let found = finding(&advice, "noisy_neighbour");
    check_effect(found);
    assert!(found["facts"].to_string().contains("real-time"), "{found:#}");
    // The remedy is true: carried out, the server waits less for it.
    let commands = found["commands"].as_array().expect("commands").iter().filter_map(Value::as_str);
    let commands: Vec<&str> = commands.take(2).collect();
    let pid = neighbour.pid();
    // Each thread has a niceness of its own.
    let nicer = format!("renice -n 10 -p $(ls /proc/{pid}/task)");
    assert_eq!(commands, [format!("chrt --all-tasks --other --pid 0 {pid}"), nicer]);
    for command in commands {
        assert!(Command::new("sh").args(["-c", command]).status().expect("a shell").success(), "{command}");
    }
    let after = advised_once(&server, "/1k.txt", &load);
    assert!(named(&after).is_none_or(|after_ns| after_ns < 0.5 * before_ns), "{before_ns} ns, then {after:#}");
}
