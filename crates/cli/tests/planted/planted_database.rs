//! Faults behind a PHP page: Apache, php-fpm and PostgreSQL, all recorded. What the last of them waits for must be
//! named, and so must it.

use crate::support;

use serde_json::Value;
use support::number;
use support::planted::{Beside, explained, first, held_by, names_first, said, share, undisturbed};
use weir_testkit::{Apache, PhpFpm, Postgres, RunningBackend, RunningDatabase, RunningServer, Site, require};

/// A site's servers, in the order in which they end: those in front first.
struct Stack {
    web: RunningServer,
    php: RunningBackend,
    database: RunningDatabase,
    _site: Site,
}

impl Stack {
    fn start(php: PhpFpm) -> Option<Self> {
        require::root_and_bpf()?;
        require::apache_module("proxy_fcgi")?;
        require::php_extension("pgsql")?;
        require::postgres()?;
        let database = Postgres::new().start().expect("PostgreSQL starts");
        database.sql(Site::TABLES).expect("the tables are made");
        let php = php.env("WEIR_POSTGRES", &database.address).start().expect("php-fpm starts");
        let site = Site::php().expect("the pages");
        let web = Apache::event().workers(16).root(site.path()).php_fpm(&php).start().expect("Apache starts");
        Some(Self { web, php, database, _site: site })
    }

    fn explained(&self, path: &str, more: &[&str]) -> Value {
        let [port, php, database] =
            [u32::from(self.web.port), self.php.pid(), self.database.pid()].map(|n| n.to_string());
        let options = ["--port", &port, "--pid", &php, "--pid", &database];
        explained(&self.web.url(path), &[&options, more].concat())
    }
}

#[test]
fn a_page_without_a_fault_is_attributed_through_all_three() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new()) else { return };
    let report = stack.explained("/lookup.php", &["-c", "1", "-d", "2s"]);
    let unknown = share(&report, "wait_process") + share(&report, "unattributed");
    assert!(unknown < 0.05, "{:.1} % of the mean is unknown: {}", unknown * 100.0, said(&report));
}

#[test]
fn a_query_that_sleeps() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new()) else { return };
    let report = stack.explained("/sleep.php?ms=20", &["-c", "2", "-d", "2s"]);
    names_first(&report, "wait_timer", "postgres");
    assert!(number(&report, "/parts_ns/wait_timer") >= 19.5e6, "{}", said(&report));
}

/// The whole table of 100,000 rows is read for one: PostgreSQL computes. Its name comes first, and the query's text
/// with its times among the queries.
#[test]
fn a_missing_index() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new()) else { return };
    let report = stack.explained("/missing_index.php", &["--packs", "auto", "-c", "1", "-d", "2s"]);
    names_first(&report, "run", "postgres");
    let queries = report["queries"].as_array().expect("queries");
    let query = queries.iter().max_by(|a, b| sum_ns(a).total_cmp(&sum_ns(b))).expect("a query");
    let text = query["text"].as_str().unwrap_or_default();
    assert!(text.contains("FROM items WHERE code ="), "{queries:?}");
    // The page asks nothing else, so a query takes most of a response and no longer than one.
    let response_ns = number(&report, "/response_ns/mean");
    let query_ns = number(query, "/mean_ns");
    assert!((0.5 * response_ns..response_ns).contains(&query_ns), "{query} of {}", said(&report));
}

fn sum_ns(query: &Value) -> f64 {
    number(query, "/count") * number(query, "/mean_ns")
}

/// Eight clients, one process: seven requests wait in front of php-fpm for seven eighths of their time.
#[test]
fn a_pool_of_one() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new().processes(1)) else { return };
    let report = stack.explained("/compute.php?rounds=20000", &["-c", "8", "-d", "2s"]);
    names_first(&report, "accept_queue", "php-fpm");
    let waiting = share(&report, "accept_queue");
    assert!((0.7..0.95).contains(&waiting), "{}", said(&report));
}

/// A row that another client of the database has locked for 95 of each 100 ms.
///
/// PostgreSQL keeps such locks itself and waits for them as for a message: its probes tell that it is a lock, the wake-up
/// who had it, and that one's statement says why.
#[test]
fn a_row_that_another_client_has_locked() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new()) else { return };
    stack
        .database
        .sql("CREATE TABLE stock (id integer PRIMARY KEY, n integer); INSERT INTO stock VALUES (1, 0)")
        .unwrap();
    stack.web_page(
        "buy.php",
        "<?php $db = pg_pconnect(getenv('WEIR_POSTGRES'));\n\
         pg_query($db, 'UPDATE stock SET n = n + 1 WHERE id = 1'); header('Content-Type: text/plain'); echo 'bought';",
    );
    let hold =
        "BEGIN; SELECT n FROM stock WHERE id = 1 FOR UPDATE; SELECT pg_sleep(0.095); COMMIT; SELECT pg_sleep(0.005);";
    let mut psql = std::process::Command::new("psql");
    psql.args(["-X", "-q", "-o", "/dev/null", "-d", &stack.database.address]);
    for _ in 0..300 {
        psql.args(["-c", hold]);
    }
    let _holder = Beside::spawn(psql);
    let report = stack.explained("/buy.php", &["--packs", "auto", "-c", "1", "-d", "2s"]);
    let (part, who) = first(&report);
    assert_eq!(part, "wait_lock", "{}", said(&report));
    assert!(who.contains("held by postgres: ") && who.contains("FOR UPDATE"), "{}", said(&report));
    // The row is locked for 95 of each 100 ms: nearly every page finds it so.
    assert!(share(&report, "wait_lock") > 0.5, "{}", said(&report));
}

/// A page keeps a row locked while it sleeps between two statements: the database's process that has the lock is at none
/// then, and whose request it is at is told all the same.
#[test]
fn a_row_that_a_page_has_locked() {
    let _turn = undisturbed();
    let Some(stack) = Stack::start(PhpFpm::new()) else { return };
    stack
        .database
        .sql("CREATE TABLE stock (id integer PRIMARY KEY, n integer); INSERT INTO stock VALUES (1, 0)")
        .unwrap();
    let page = |rest: &str| {
        format!(
            "<?php $db = pg_pconnect(getenv('WEIR_POSTGRES')); pg_query($db, 'BEGIN');\n\
             pg_query($db, 'UPDATE stock SET n = n + 1 WHERE id = 1'); {rest} pg_query($db, 'COMMIT'); echo 'done';"
        )
    };
    stack.web_page("audit.php", &page("usleep(30000);"));
    stack.web_page("buy.php", &page(""));
    let list = stack.web.root.join("urls");
    std::fs::write(&list, "/audit.php\n/buy.php\n").expect("a list");
    let list = list.to_str().expect("a readable path");
    let report = stack.explained("/", &["--packs", "auto", "--urls", list, "-c", "3", "-d", "3s"]);
    assert_eq!(first(&report).0, "wait_lock", "{}", said(&report));
    assert_eq!(held_by(&report, "wait_lock"), ("GET /audit.php", "wait_timer"), "{}", said(&report));
}

/// PHP locks the file of a session while a page runs: two pages of one user wait for each other.
#[test]
fn a_session_that_another_page_has_open() {
    let _turn = undisturbed();
    let sessions = tempfile::tempdir().expect("a temporary directory");
    open_to_all(sessions.path());
    let php = PhpFpm::new().ini("session.save_path", sessions.path().to_str().expect("a readable path"));
    let Some(stack) = Stack::start(php) else { return };
    stack.web_page(
        "cart.php",
        "<?php session_id('samesession'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;\n\
         usleep(5000); header('Content-Type: text/plain'); echo 'cart';",
    );
    let report = stack.explained("/cart.php", &["--watch", "locks", "-c", "4", "-d", "2s"]);
    // Three others are in front, each for 5 ms: the lock takes three times as long as the sleep.
    names_first(&report, "wait_lock", "php-fpm");
    assert!(
        number(&report, "/parts_ns/wait_lock") > 2.0 * number(&report, "/parts_ns/wait_timer"),
        "{}",
        said(&report)
    );
}

impl Stack {
    fn web_page(&self, name: &str, text: &str) {
        std::fs::write(self.web.root.join(name), text).expect("the page is written");
    }
}

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("the directory is ours");
}
