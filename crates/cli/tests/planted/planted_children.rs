//! Faults behind programs that Apache starts: what a child, or a child's child, does takes the place of the wait for it.

use crate::support;

use support::number;
use support::planted::{explained, first, names_first, said, undisturbed};
use weir_testkit::{Apache, Cgi, MariaDb, Nginx, PhpFpm, Site, require};

/// A script that runs a program that sleeps: two forks away from the server.
const SLEEPING: &[u8] = b"#!/bin/sh
/bin/sleep 0.05
printf 'Content-Type: text/plain\\n\\nslept\\n'
";

/// A script that computes for some 20 ms.
const COMPUTING: &[u8] = b"#!/bin/sh
n=0
while [ $n -lt 40000 ]; do n=$((n + 1)); done
printf 'Content-Type: text/plain\\n\\n%s\\n' $n
";

fn ready() -> Option<()> {
    require::root_and_bpf()?;
    require::apache_module("cgi")?;
    require::apache_module("cgid")
}

fn a_child(apache: Apache, cgi: Cgi, script: &[u8], part: &str, name: &str) {
    let site = Site::empty().expect("a site");
    site.write_program("order.cgi", script).expect("the script");
    let server = apache.workers(4).root(site.path()).cgi(cgi).start().expect("Apache starts");
    let port = server.port.to_string();
    let report = explained(&server.url("/order.cgi"), &["--port", &port, "-c", "1", "-d", "2s", "--no-keepalive"]);
    assert_eq!(report["errors"], serde_json::json!({}));
    names_first(&report, part, name);
}

#[test]
fn a_script_whose_child_sleeps() {
    let _turn = undisturbed();
    if ready().is_some() {
        a_child(Apache::prefork(), Cgi::Direct, SLEEPING, "wait_timer", "sleep");
    }
}

/// The daemon that runs the script is told over a Unix socket, and hands the script the pipe of its answer.
#[test]
fn a_script_whose_child_sleeps_behind_the_daemon() {
    let _turn = undisturbed();
    if ready().is_some() {
        a_child(Apache::event(), Cgi::Daemon, SLEEPING, "wait_timer", "sleep");
    }
}

#[test]
fn a_script_that_computes() {
    let _turn = undisturbed();
    if ready().is_some() {
        a_child(Apache::prefork(), Cgi::Direct, COMPUTING, "run", "order.cgi");
    }
}

/// A script whose answer is complete, and which ends 30 ms later.
///
/// Apache sends the answer, asks whether the script has ended, and sleeps for 47 ms where it has not (`apr_sleep`, a
/// `select` without descriptors). The next request of the connection lies at its socket meanwhile: it has arrived, and
/// the worker is at other work.
#[test]
fn a_script_that_ends_late() {
    let _turn = undisturbed();
    if ready().is_none() {
        return;
    }
    let script = b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\ndone\\n'\nexec >/dev/null 2>&1\nsleep 0.03\n";
    let site = Site::empty().expect("a site");
    site.write_program("order.cgi", script).expect("the script");
    let server = Apache::prefork().workers(4).root(site.path()).cgi(Cgi::Direct).start().expect("Apache starts");
    let port = server.port.to_string();
    let report = explained(&server.url("/order.cgi"), &["--port", &port, "-c", "1", "-d", "2s"]);
    let (part, _) = first(&report);
    assert!(matches!(part, "worker_queue" | "wait_timer"), "{}", said(&report));
    assert!(number(&report, &format!("/parts_ns/{part}")) > 30e6, "{}", said(&report));
}

/// MariaDB sleeps in a wait on a futex that no task wakes: two names for it are true, the timer that ended it or the
/// futex that it waited on. It is MariaDB's in both.
#[test]
fn a_query_that_sleeps_in_mariadb() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none()
        || require::nginx().is_none()
        || require::mariadb().is_none()
        || require::php_extension("mysqli").is_none()
    {
        return;
    }
    let database = MariaDb::new().start().expect("MariaDB starts");
    let php = PhpFpm::new().env("WEIR_MARIADB", &database.address).start().expect("php-fpm starts");
    let site = Site::empty().expect("a site");
    let page = "<?php $db = mysqli_connect('p:localhost', 'root', '', 'weir', 0, getenv('WEIR_MARIADB'));\n\
                mysqli_query($db, 'SELECT SLEEP(0.03)'); header('Content-Type: text/plain'); echo 'slept';";
    site.write("sleep.php", page.as_bytes()).expect("the page");
    let web = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    let [port, pool, server] = [u32::from(web.port), php.pid(), database.pid()].map(|n| n.to_string());
    let options = ["--port", &port, "--pid", &pool, "--pid", &server, "--watch", "timers", "-c", "2", "-d", "2s"];
    let report = explained(&web.url("/sleep.php"), &options);
    let (part, who) = first(&report);
    assert!(matches!(part, "wait_timer" | "wait_lock"), "{}", said(&report));
    assert!(who.contains("mariadbd"), "`{who}` is blamed: {}", said(&report));
    assert!(number(&report, &format!("/parts_ns/{part}")) > 29.5e6, "{}", said(&report));
}
