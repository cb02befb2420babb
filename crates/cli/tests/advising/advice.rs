//! What `weir advise` says of real servers with a setting that is wrong, and what its trials show.

use crate::support;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::advice::{advised, assert_no_copies, check_effect, finding, json, line_of, site};
use support::{alone, number, output};
use weir_testkit::{Apache, Nginx, PhpFpm, Postgres, require};

#[test]
fn a_pool_of_one_is_found_and_a_larger_one_proven() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::php_fpm().is_none() || require::apache().is_none() {
        return;
    }
    let site = site("page.php", "<?php usleep(5000); echo 'hello';");
    let php = PhpFpm::new().processes(1).start().expect("php-fpm starts");
    let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/page.php", run.path(), &["-c", "8", "-d", "2s"]);
    let found = finding(&advice, "php_pool_too_small");
    assert_eq!(found["number"], 1, "{advice:#}");
    check_effect(found);
    let setting = &found["settings"][0];
    assert_eq!((setting["name"].as_str(), setting["now"].as_str()), (Some("pm.max_children"), Some("1")));
    assert_eq!(line_of(setting), "pm.max_children = 1");
    assert!(setting["proposed"].as_str().and_then(|text| text.parse::<u32>().ok()).is_some_and(|wanted| wanted >= 8));
    assert!(number(found, "/effect/share/likely") > 0.5, "{found:#}");

    let run = run.path().to_str().expect("a readable path");
    let before = (server.pids(), php.pids());
    let advice = json(&["advise", run, "--try", "1", "--json", "--blocks", "8", "--block-seconds", "0.3"]);
    let trial = &advice["trial"];
    assert_eq!(trial["throughput"]["verdict"], "better", "{trial:#}");
    // Seven of eight requests waited: a sleeping page gains nearly eight times.
    assert!(number(trial, "/throughput/ratio/median") > 3.0, "{trial:#}");
    assert!(number(trial, "/response_ratio/median") < 0.34, "{trial:#}");
    assert_eq!((server.pids(), php.pids()), before, "the user's servers are as they were");
    assert_no_copies();
}

/// Captured, too, the pool's own queue is what is seen, and no longer a wait for another process.
#[test]
fn a_pool_of_one_is_found_where_it_is_followed() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::php_fpm().is_none() || require::apache().is_none() {
        return;
    }
    let site = site("page.php", "<?php usleep(5000); echo 'hello';");
    let php = PhpFpm::new().processes(1).start().expect("php-fpm starts");
    let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let pid = php.pid().to_string();
    let advice = advised(&server, "/page.php", run.path(), &["-c", "8", "-d", "2s", "--pid", &pid]);
    let found = finding(&advice, "php_pool_too_small");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "pm.max_children = 1");
    assert!(number(found, "/effect/share/likely") > 0.4, "{found:#}");
    let part = found["evidence"][0]["part"].as_str().expect("a part");
    assert!(["accept_queue", "worker_queue"].contains(&part), "{advice:#}");
}

#[test]
fn keep_alive_that_is_off_is_found_and_proven() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().keep_alive(false).start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/1k.txt", run.path(), &["-c", "4", "-d", "2s"]);
    let found = finding(&advice, "keep_alive_off");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "keepalive_timeout 0;");

    let (run, number_of) = (run.path().to_str().expect("a readable path"), found["number"].to_string());
    let advice = json(&["advise", run, "--try", &number_of, "--json", "--blocks", "8", "--block-seconds", "0.3"]);
    let trial = &advice["trial"];
    // On a busy machine the throughput of a fast page is noise; the CPU time of a request is not.
    let better = ["throughput", "cpu_per_request"].map(|metric| trial[metric]["verdict"] == "better");
    assert!(better.contains(&true), "{trial:#}");
    assert!(number(trial, "/throughput/ratio/median") > 1.2, "{trial:#}");
    assert!(trial["verdict"].as_str().is_some_and(|words| words.starts_with("the change helps")), "{trial:#}");
    assert_no_copies();
}

#[test]
fn too_few_workers_in_apache() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    let server = Apache::prefork().workers(2).keep_alive(false).start().expect("Apache starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/1k.txt", run.path(), &["-c", "32", "-d", "2s"]);
    let found = finding(&advice, "too_few_workers");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "MaxRequestWorkers 2");
    let also: Vec<&str> =
        found["settings"].as_array().expect("settings").iter().filter_map(|s| s["name"].as_str()).collect();
    assert!(also.contains(&"ServerLimit"), "{also:?}");
}

#[test]
fn sendfile_off_on_large_files() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    let site = weir_testkit::Site::sample().expect("a site");
    fs::write(site.path().join("large.bin"), vec![b'x'; 1 << 20]).expect("the file is written");
    let server = Apache::event()
        .root(site.path())
        .directive("EnableSendfile Off\nEnableMMAP Off")
        .start()
        .expect("Apache starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/large.bin", run.path(), &["-c", "2", "-d", "2s"]);
    let found = finding(&advice, "sendfile_off");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "EnableSendfile Off");
}

#[test]
fn a_cpu_quota_is_found_with_its_file() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() {
        return;
    }
    let Some(group) = Group::with_quota(0.2) else { return };
    let server = Apache::event().processes(1).workers(16).start().expect("Apache starts");
    group.take(&server.pids());
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/1k.txt", run.path(), &["-c", "8", "-d", "2s"]);
    let found = finding(&advice, "cpu_quota");
    check_effect(found);
    let fact = found["facts"][0].as_str().expect("a fact");
    assert!(fact.contains(&group.0.display().to_string()) && fact.contains("0.20 CPUs"), "{fact}");
    // The remedy is true: the command, carried out, gives more.
    let command = found["commands"][0].as_str().expect("a command");
    let done = Command::new("sh").args(["-c", command]).status().expect("a shell");
    assert!(done.success(), "{command}");
    assert!(group.cpus() > 0.39, "{command} leaves {} CPUs", group.cpus());
    assert_eq!(found["can_try"], false);
    assert!(found["cannot_try_because"].as_str().is_some_and(|reason| reason.contains("control group")), "{found:#}");
}

/// A control group of the test's own; it goes when the processes in it have ended.
struct Group(PathBuf);

impl Group {
    /// A group that may use so many CPUs; `None`, with the reason, where none can be made.
    fn with_quota(cpus: f64) -> Option<Self> {
        let first = Path::new("/sys/fs/cgroup/cpu");
        let root = if first.join("cgroup.procs").exists() { first } else { Path::new("/sys/fs/cgroup") };
        let group = Self(root.join(format!("weir-advice-{}", std::process::id())));
        let made = fs::create_dir(&group.0).is_ok() && group.set(cpus);
        require::or_skip(made, "no control group with a quota of CPU time can be made")?;
        Some(group)
    }

    fn set(&self, cpus: f64) -> bool {
        let quota = (cpus * 100_000.0) as u64;
        let write = |name: &str, text: String| {
            let file = self.0.join(name);
            file.exists() && fs::write(file, text).is_ok()
        };
        write("cpu.max", format!("{quota} 100000")) || write("cpu.cfs_quota_us", quota.to_string())
    }

    fn take(&self, pids: &[u32]) {
        for pid in pids {
            fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("the process moves into the group");
        }
    }

    /// CPUs that it may use now.
    fn cpus(&self) -> f64 {
        let text = fs::read_to_string(self.0.join("cpu.max"));
        let text = text.or_else(|_| fs::read_to_string(self.0.join("cpu.cfs_quota_us"))).expect("a quota");
        text.split_whitespace().next().and_then(|quota| quota.parse::<f64>().ok()).expect("a number") / 100_000.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The server is dropped before, but the kernel gives its processes up a little later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Rows of the table without an index: a scan of them takes some milliseconds.
const ROWS: u32 = 200_000;

#[test]
fn a_missing_index_is_named_with_its_query() {
    let _turn = alone();
    let needs = [require::root_and_bpf(), require::php_fpm(), require::apache(), require::postgres()];
    if needs.iter().any(Option::is_none) {
        return;
    }
    let database = Postgres::new().start().expect("PostgreSQL starts");
    let table = format!(
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, note text);
         INSERT INTO orders SELECT n, n % 20000, repeat('x', 80) FROM generate_series(1, {ROWS}) n; ANALYZE orders;"
    );
    database.sql(&table).expect("the table is made");
    let page = "<?php $c = pg_pconnect(getenv('DATABASE')); $n = (string) random_int(1, 19999);
                $r = pg_query($c, \"SELECT count(*) FROM orders WHERE customer = $n\"); echo pg_fetch_result($r, 0, 0);";
    let site = site("orders.php", page);
    let php = PhpFpm::new().processes(4).env("DATABASE", &database.address).start().expect("php-fpm starts");
    let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let (php_pid, database_pid) = (php.pid().to_string(), database.pid().to_string());
    let more = ["-c", "2", "-d", "3s", "--packs", "auto", "--pid", &php_pid, "--pid", &database_pid];
    let advice = advised(&server, "/orders.php", run.path(), &more);
    let found = finding(&advice, "missing_index");
    check_effect(found);
    let commands: Vec<&str> =
        found["commands"].as_array().expect("commands").iter().filter_map(Value::as_str).collect();
    assert!(commands[0].starts_with("EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM orders"), "{commands:?}");
    assert_eq!(commands[1], "CREATE INDEX CONCURRENTLY orders_customer ON orders (customer);");
    let kinds: Vec<&str> =
        advice["servers"].as_array().expect("servers").iter().filter_map(|server| server["kind"].as_str()).collect();
    assert_eq!(kinds, ["Apache", "php-fpm", "PostgreSQL"]);
    assert_eq!(advice["problems"], Value::Array(Vec::new()));

    // It is told, not tried: a database is its owner's.
    let refused =
        output(&["advise", run.path().to_str().expect("a readable path"), "--try", &found["number"].to_string()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("never tried on its owner's data"));

    // And it is true: with the index the page needs a fraction of the time.
    let latency = || {
        let loaded = json(&["load", &server.url("/orders.php"), "-c", "2", "-d", "1s", "--json", "-q"]);
        number(&loaded, "/latency_ns/mean")
    };
    let before_ns = latency();
    database.sql(&commands[1].replace(" CONCURRENTLY", "")).expect("the index is made");
    let after_ns = latency();
    assert!(after_ns < before_ns * (1.0 - number(found, "/effect/share/low")), "{before_ns} ns, then {after_ns} ns");
    assert!(after_ns < 0.7 * before_ns, "{before_ns} ns, then {after_ns} ns");
}

#[test]
fn where_nothing_is_wrong_nothing_is_found_and_it_says_why() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().workers(2).start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let advice = advised(&server, "/1k.txt", run.path(), &["-c", "2", "-d", "1s"]);
    let findings = advice["findings"].as_array().expect("findings");
    // Another program on this machine is a neighbour, and rightly found; no setting of the server is to blame.
    assert!(findings.iter().all(|finding| finding["rule"] == "noisy_neighbour"), "{advice:#}");
    let reason = advice["none_because"].as_str().unwrap_or_default();
    assert_eq!(reason.is_empty(), !findings.is_empty(), "{advice:#}");
    assert_eq!(advice["servers"][0]["kind"], "nginx");

    let run = run.path().to_str().expect("a readable path");
    let refused = output(&["advise", run, "--try", "99"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no finding 99"));
}

#[test]
fn without_a_run_it_says_how_to_get_one() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let refused = support::weir().arg("advise").current_dir(empty.path()).output().expect("the command starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--load URL"));
}
