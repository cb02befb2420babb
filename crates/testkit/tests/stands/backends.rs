//! PHP, databases, CGI, proxies and TLS: each launcher's server answers, through the ones before it
//! where it stands behind others, and is gone afterwards.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_testkit::client::Connection;
use weir_testkit::{Apache, Certificate, Cgi, MariaDb, Nginx, PhpFpm, Postgres, RunningServer, Site, require};

fn get(port: u16, path: &str) -> (u16, String) {
    // Without keep-alive, as pages without a Content-Length end with the connection.
    let output = Command::new("curl")
        .args(["-s", "-k", "-m", "10", "-w", "\n%{http_code}"])
        .arg(format!("http://127.0.0.1:{port}{path}"))
        .output()
        .expect("curl starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

fn page(server: &RunningServer, path: &str) -> String {
    let (status, body) = get(server.port, path);
    assert_eq!(status, 200, "{path}: {body}; log: {}", server.log());
    body
}

fn all_end(pids: &[u32]) {
    let alive = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    let start = Instant::now();
    while let Some(pid) = pids.iter().find(|pid| alive(pid)) {
        assert!(start.elapsed() < Duration::from_secs(5), "process {pid} of {pids:?} still lives");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn php_and_postgres() -> Option<()> {
    require::php_extension("pgsql")?;
    require::postgres()?;
    require::apache_module("proxy_fcgi")?;
    require::nginx()?;
    require::program("curl")
}

#[test]
fn a_page_asks_the_database_through_apache_and_nginx() {
    if php_and_postgres().is_none() {
        return;
    }
    let database = Postgres::new().start().unwrap_or_else(|error| panic!("{error}"));
    database.sql(Site::TABLES).unwrap();
    assert_eq!(database.sql("SELECT id, name FROM items WHERE id = 7").unwrap(), "7\titem 7\n");
    let complaint = database.sql("SELECT nothing FROM nowhere").unwrap_err().to_string();
    assert!(complaint.contains("nowhere"), "{complaint}");

    for tcp in [false, true] {
        let address = if tcp { &database.address_tcp } else { &database.address };
        let php = PhpFpm::new().processes(3).opcache(!tcp).env("WEIR_POSTGRES", address);
        let php = if tcp { php.tcp() } else { php }.start().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(php.pids().len(), 1 + 3);
        assert_eq!((php.socket.is_some(), php.port.is_some()), (!tcp, tcp));
        let site = Site::php().unwrap();
        let apache = Apache::event().workers(8).root(site.path()).php_fpm(&php).start().unwrap();
        let nginx = Nginx::new().root(site.path()).php_fpm(&php).start().unwrap();
        for server in [&apache, &nginx] {
            assert!(page(server, "/lookup.php?id=7").starts_with("7 item 7 "));
            assert!(page(server, "/missing_index.php?code=7919").starts_with("1 item 1"));
            assert_eq!(page(server, "/sleep.php?ms=30"), "slept\n");
            assert_eq!(page(server, "/hello.php"), "hello\n");
            assert_eq!(page(server, "/compute.php?rounds=3").len(), 41);
        }
        let pids = php.pids();
        drop(php);
        all_end(&pids);
    }
    let pids = [database.backend.pids(), vec![database.pid()]].concat();
    assert!(pids.len() > 2, "PostgreSQL has helpers");
    drop(database);
    all_end(&pids);
}

#[test]
fn mariadb_answers_and_ends() {
    if require::mariadb().is_none() || require::php_extension("mysqli").is_none() || require::nginx().is_none() {
        return;
    }
    let database = MariaDb::new().setting("max_connections", "20").start().unwrap_or_else(|error| panic!("{error}"));
    database.sql("CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2)").unwrap();
    assert_eq!(database.sql("SELECT n, @@max_connections FROM t").unwrap(), "1\t20\n2\t20\n");
    let php = PhpFpm::new().env("WEIR_MARIADB", &database.address).start().unwrap();
    let site = Site::empty().unwrap();
    let query = "<?php $db = mysqli_connect(null, 'root', '', 'weir', 0, getenv('WEIR_MARIADB'));\n\
                 echo mysqli_fetch_row(mysqli_query($db, 'SELECT sum(n) FROM t'))[0];";
    site.write("sum.php", query.as_bytes()).unwrap();
    let nginx = Nginx::new().root(site.path()).php_fpm(&php).start().unwrap();
    assert_eq!(get(nginx.port, "/sum.php"), (200, "3".to_owned()), "{}", php.log());
    let pids = database.backend.pids();
    drop(database);
    all_end(&pids);
}

#[test]
fn apache_runs_programs_itself_and_by_its_daemon() {
    if require::apache_module("cgid").is_none() || require::program("curl").is_none() {
        return;
    }
    let site = Site::empty().unwrap();
    site.write_program("who.cgi", b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho $PPID $QUERY_STRING\n")
        .unwrap();
    for (apache, cgi) in [(Apache::prefork(), Cgi::Direct), (Apache::event(), Cgi::Daemon)] {
        let server = apache.workers(2).processes(1).root(site.path()).cgi(cgi).start().unwrap();
        let body = page(&server, "/who.cgi?a=1");
        let (parent, query) = body.trim().split_once(' ').unwrap();
        assert_eq!(query, "a=1");
        assert!(server.pids().contains(&parent.parse().unwrap()), "{parent} of {:?}", server.pids());
    }
}

#[test]
fn apache_and_nginx_pass_requests_on() {
    if require::nginx().is_none() || require::apache_module("proxy_http").is_none() {
        return;
    }
    let site = Site::sample().unwrap();
    let behind = Nginx::new().root(site.path()).start().unwrap();
    let url = behind.url("/");
    let apache = Apache::event().workers(4).proxy("/app/", &url).start().unwrap();
    let nginx = Nginx::new().proxy("/app/", &url).start().unwrap();
    for server in [apache, nginx] {
        assert_eq!(page(&server, "/app/1k.txt").len(), 1024);
    }
}

#[test]
fn apache_and_nginx_answer_https() {
    if require::nginx().is_none() || require::apache_module("ssl").is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().unwrap();
    let apache = Apache::event().workers(4).tls(&certificate).start().unwrap();
    let nginx = Nginx::new().tls(&certificate).start().unwrap();
    for server in [apache, nginx] {
        let url = server.url("/1k.txt");
        assert!(url.starts_with("https://"));
        let output = Command::new("curl").arg("-s").arg("--cacert").arg(certificate.certificate()).arg(&url).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{url}: {output:?}; {}", server.log());
        assert_eq!(output.stdout.len(), 1024);
    }
}

#[test]
fn apache_listens_twice_with_a_mutex_and_logs() {
    if require::apache().is_none() {
        return;
    }
    let logs = Site::empty().unwrap();
    let log = logs.path().join("access.log");
    let apache = Apache::prefork().workers(3).more_ports(1).custom_log(&log).directive("Mutex sysvsem mpm-accept");
    let server = apache.start().unwrap_or_else(|error| panic!("{error}"));
    for port in [server.port, server.more_ports[0]] {
        assert_eq!(Connection::open(port).unwrap().get("/1k.txt").unwrap().status, 200);
    }
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let start = Instant::now();
    // A line is written after its response.
    while lines().matches("GET /1k.txt").count() < 2 {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", lines());
        std::thread::sleep(Duration::from_millis(5));
    }
}
