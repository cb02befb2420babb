//! `weir record-session`: what a browser and other clients do is passed on, recorded, masked, and can be asked again.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use support::{output, weir};
use tempfile::{TempDir, tempdir};
use weir_testkit::browser::Browser;
use weir_testkit::{Apache, Certificate, Nginx, PhpFpm, RunningBackend, RunningServer, Site, require};

/// A recorder that runs, with its address.
struct Recording {
    child: Child,
    address: String,
    told: BufReader<std::process::ChildStderr>,
}

impl Recording {
    fn start(to: &str, out: &Path, more: &[&str]) -> Self {
        let mut command = weir();
        command.args(["record-session", "--listen", "127.0.0.1:0", "--to", to, "--out"]).arg(out).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
        let mut told = BufReader::new(child.stderr.take().expect("its standard error"));
        let mut line = String::new();
        told.read_line(&mut line).expect("a line");
        let address = line.split("http://").last().and_then(|rest| rest.split('/').next()).unwrap_or_default();
        assert!(line.starts_with("recording") && address.contains(':'), "{line}");
        Self { address: address.to_owned(), child, told }
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: the process is a child of ours that has not been waited for.
        unsafe { libc::kill(pid, signal) };
    }

    /// Ends it as Ctrl-C does; what it has told.
    fn end(mut self) -> String {
        self.signal(libc::SIGINT);
        let mut told = String::new();
        self.told.read_to_string(&mut told).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{told}");
        told
    }

    /// One request over a connection of its own; the whole response.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).expect("it is sent");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("a response");
        String::from_utf8_lossy(&response).into_owned()
    }

    fn get(&self, path: &str, more: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\nHost: {}\n{more}Connection: close\n\n", self.address))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn har(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    whole["log"]["entries"].as_array().expect("entries").clone()
}

fn stdout(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const PHP: &[(&str, &str)] = &[
    (
        "in.php",
        r#"<?php session_start(); header('Content-Type: text/html'); if ($_SERVER['REQUEST_METHOD'] === 'POST') {
  if ($_POST['password'] !== 'open sesame') { http_response_code(403); exit('wrong'); }
  session_regenerate_id(true); $_SESSION['user'] = $_POST['user']; header('Location: home.php', true, 303); exit; } ?>
<html><head><title>Sign in</title><link rel="icon" href="data:,"></head><body>
<form method="post"><input name="user"><input type="password" name="password"><input type="submit" id="go" value="Go"></form>"#,
    ),
    (
        "home.php",
        r#"<?php session_start(); if (!isset($_SESSION['user'])) { http_response_code(401); exit('who?'); } ?>
<html><head><title>Hello <?= htmlspecialchars($_SESSION['user']) ?></title><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"></head><body><a id="next" href="next.html?page=2">Next</a>"#,
    ),
    ("next.html", "<html><head><title>Next</title><link rel=\"icon\" href=\"data:,\"></head>next</html>"),
    ("style.css", "body { color: black }"),
];

fn php() -> Option<(Site, RunningBackend, RunningServer, TempDir)> {
    require::php_fpm()?;
    require::apache_module("proxy_fcgi")?;
    let site = Site::sample().expect("a site");
    for (name, text) in PHP {
        fs::write(site.path().join(name), text).expect("a page");
    }
    let php = PhpFpm::new().ini("session.save_path", "/tmp").start().expect("php-fpm starts");
    let apache = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
    Some((site, php, apache, tempdir().expect("a folder")))
}

#[test]
fn a_browser_is_recorded_and_replayed_without_its_secrets() {
    let Some((_site, _php, server, folder)) = php() else { return };
    if require::browser().is_none() {
        return;
    }
    let out = folder.path().join("session.har");
    let recording = Recording::start(&server.url(""), &out, &[]);
    {
        let mut browser = Browser::start();
        browser.open(&format!("http://{}/in.php", recording.address));
        browser.value("document.querySelector('[name=user]').value = 'Ali'; document.querySelector('[name=password]').value = 'open sesame'; document.querySelector('#go').click(); 1");
        browser.wait_for("document.title === 'Hello Ali' && document.readyState === 'complete'");
        browser.value("document.querySelector('#next').click(); 1");
        browser.wait_for("document.title === 'Next'");
    }
    let told = recording.end();
    assert!(told.contains("secrets are masked"), "{told}");

    let text = fs::read_to_string(&out).expect("the recording");
    assert!(!text.contains("sesame"), "{text}");
    let entries = har(&out);
    let of = |entry: &Value| {
        let url = entry["request"]["url"].as_str().unwrap_or_default();
        (
            entry["request"]["method"].as_str().unwrap_or_default().to_owned(),
            url.replace(&server.url(""), ""),
            entry["response"]["status"].as_u64().unwrap_or(0),
        )
    };
    let seen: Vec<(String, String, u64)> = entries.iter().map(of).collect();
    let get = |path: &str| ("GET".to_owned(), path.to_owned(), 200);
    for expected in [
        get("/in.php"),
        ("POST".to_owned(), "/in.php".to_owned(), 303),
        get("/home.php"),
        get("/style.css"),
        get("/next.html?page=2"),
    ] {
        assert!(seen.contains(&expected), "{expected:?} is not in {seen:?}");
    }

    // The password is missing, and the replay says so; with it the whole session passes, with other cookies.
    let file = out.to_str().expect("a path");
    let lacking = output(&["webtest", file]);
    assert_eq!(lacking.status.code(), Some(2));
    assert!(stdout(&lacking).contains("-password"), "{}", stdout(&lacking));
    let passed = output(&["webtest", "--sizes=50", "--secret", "password=open sesame", file]);
    assert_eq!(passed.status.code(), Some(0), "{}", stdout(&passed));
    let wrong = output(&["webtest", "--secret", "password=guess", file]);
    assert_eq!(wrong.status.code(), Some(1), "{}", stdout(&wrong));

    // The other forms say the same.
    for (form, end) in [("webtest", "wt"), ("monkeywrench", "pl")] {
        let converted = output(&["webtest", "--convert", file, "--to", form]);
        assert_eq!(converted.status.code(), Some(0), "{}", stdout(&converted));
        let path = folder.path().join(format!("session.{end}"));
        fs::write(&path, &converted.stdout).expect("a file");
        let passed = output(&["webtest", "--secret", "password=open sesame", path.to_str().expect("a path")]);
        assert_eq!(passed.status.code(), Some(0), "{}", stdout(&passed));
        assert!(stdout(&passed).contains("<title>Hello Ali</title>"), "{}", stdout(&passed));
    }
    let sessions = stdout(&output(&["webtest", "--convert", file, "--to", "sessions"]));
    assert!(sessions.contains("\n/in.php method=POST") && sessions.contains("\n    /style.css\n"), "{sessions}");
}

#[test]
fn users_are_told_apart_by_their_cookie() {
    let Some((_site, _php, server, folder)) = php() else { return };
    let out = folder.path().join("user.har");
    let recording = Recording::start(&server.url(""), &out, &["--session-cookie", "PHPSESSID"]);
    let form = "user=me&password=open+sesame";
    for _ in 0..2 {
        let first = recording.get("/in.php", "");
        let cookie = |response: &str| {
            let line = response.lines().rfind(|line| line.to_ascii_lowercase().starts_with("set-cookie:"));
            line.and_then(|line| line.split([' ', ';']).find(|part| part.starts_with("PHPSESSID")))
                .expect("a cookie")
                .to_owned()
        };
        let before = cookie(&first);
        let posted = recording.ask(&format!(
            "POST /in.php HTTP/1.1\nHost: {}\nCookie: {before}\nContent-Type: application/x-www-form-urlencoded\n\
             Content-Length: {}\nConnection: close\n\n{form}",
            recording.address,
            form.len()
        ));
        assert!(posted.starts_with("HTTP/1.1 303"), "{posted}");
        let home = recording.get("/home.php", &format!("Cookie: {}\n", cookie(&posted)));
        assert!(home.contains("Hello me"), "{home}");
    }
    recording.get("/style.css", "");
    recording.end();
    let count = |number: u32| har(&folder.path().join(format!("user-{number}.har"))).len();
    assert_eq!((count(0), count(1), count(2)), (1, 3, 3));
}

#[test]
fn bodies_methods_and_protocols_are_passed_or_refused_in_words() {
    if require::nginx().is_none() {
        return;
    }
    let site = Site::sample().expect("a site");
    fs::write(site.path().join("big.txt"), "x".repeat(300_000)).expect("a file");
    fs::write(site.path().join("small.bin"), [0, 159, 146, 150]).expect("a file");
    let server = Nginx::new()
        .root(site.path())
        .directive("location /there { return 302 /small.bin; }")
        .start()
        .expect("nginx starts");
    let folder = tempdir().expect("a folder");
    let out = folder.path().join("all.har");
    let recording = Recording::start(&server.url(""), &out, &["--body-kib", "100", "--requests-max", "5"]);
    assert!(recording.get("/big.txt", "").ends_with(&"x".repeat(1000)));
    assert!(
        recording.get("/small.bin", "Cookie: a=secret-value\nX-Token: secret-token\n").contains("Content-Length: 4")
    );
    let head = recording.ask(&format!("HEAD /big.txt HTTP/1.1\nHost: {}\nConnection: close\n\n", recording.address));
    assert!(head.contains("Content-Length: 300000") && head.ends_with("\r\n\r\n"), "{head}");
    // Two requests on one connection, the second with a chunked body.
    let kept = recording.ask(&format!(
        "GET /absent HTTP/1.1\nHost: {0}\n\nPOST /1k.txt HTTP/1.1\nHost: {0}\nTransfer-Encoding: chunked\n\
         Connection: close\n\n3\nabc\n0\n\n",
        recording.address
    ));
    assert!(kept.contains("404 Not Found") && kept.contains("HTTP/1.1 405"), "{kept}");
    let redirect = recording.get("/there", "");
    assert!(redirect.contains(&format!("http://{}/small.bin", recording.address)), "{redirect}");
    let socket = recording.get("/", "Upgrade: websocket\nSec-WebSocket-Key: a\n");
    assert!(socket.starts_with("HTTP/1.1 501") && socket.contains("websocket"), "{socket}");
    let told = recording.end();
    assert!(told.contains("1 requests were not kept") && told.contains("1 requests were refused"), "{told}");
    let entries = har(&out);
    assert_eq!(entries.len(), 5);
    let content = |index: usize| &entries[index]["response"]["content"];
    assert!(content(0)["text"].is_null() && content(0)["size"] == 300_000, "{:#}", content(0));
    assert!(content(1)["comment"].as_str().is_some_and(|note| note.contains("not text")), "{:#}", content(1));
    assert_eq!(entries[4]["request"]["postData"]["text"], "abc");
    assert!(!fs::read_to_string(&out).expect("the file").contains("secret-"));
}

#[test]
fn an_https_server_is_recorded_and_one_that_is_away_is_told() {
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("a certificate");
    let mut server = Nginx::new().tls(&certificate).start().expect("nginx starts");
    let folder = tempdir().expect("a folder");
    let out = folder.path().join("tls.har");
    let ca = certificate.certificate().display().to_string();
    let recording = Recording::start(&server.url(""), &out, &["--ca", &ca]);
    assert!(recording.get("/1k.txt", "").starts_with("HTTP/1.1 200"));
    server.kill();
    let away = recording.get("/1k.txt", "");
    assert!(away.starts_with("HTTP/1.1 502") && away.contains("gave no response"), "{away}");
    assert!(recording.end().contains("1 requests were without a response"));
    assert_eq!(har(&out).len(), 2);
}

#[test]
fn a_kill_loses_little() {
    if require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let folder = tempdir().expect("a folder");
    let out = folder.path().join("killed.har");
    let recording = Recording::start(&server.url(""), &out, &[]);
    for _ in 0..7 {
        recording.get("/1k.txt", "");
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(out.exists() && har(&out).len() == 7) {
        assert!(Instant::now() < deadline, "it is not written in time");
        std::thread::sleep(Duration::from_millis(50));
    }
    recording.signal(libc::SIGKILL);
    drop(recording);
    assert_eq!(har(&out).len(), 7);
    assert_eq!(output(&["webtest", "--sizes", out.to_str().expect("a path")]).status.code(), Some(0));
}

#[test]
fn wrong_usage_is_refused() {
    for (arguments, told) in [
        (&["--to", "http://a/", "--out", "x.txt"][..], ".har, .wt"),
        (&["--to", "ftp://a/", "--out", "x.har"], "https://HOST"),
        (&["--to", "http://a/path", "--out", "x.har"], "without a path"),
        (&["--to", "http://a/", "--out", "/absent/x.har"], "no such directory"),
    ] {
        let refused = output(&[&["record-session"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(stdout(&refused).contains(told), "{}", stdout(&refused));
    }
    let unused: PathBuf = tempdir().expect("a folder").path().join("x.wt");
    for (arguments, told) in [
        (&["webtest", "--base", "http://a/", unused.to_str().expect("a path")][..], "recordings"),
        (&["webtest", "--convert", "x.har"], "--to"),
        (&["webtest", "--sizes=500", "x.har"], "0 to 100"),
    ] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stdout(&refused).contains(told), "{}", stdout(&refused));
    }
}
