//! What people give to the client commands: lists and recordings as other systems save them, names of hosts, times.

use crate::support::weir;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::tempdir;

/// A server that answers everything alike and keeps what it was asked; it ends with the test.
struct Listener {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || answer(&stream, &kept));
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> String {
        self.asked.lock().expect("no panic").join("")
    }
}

/// Answers the requests of a connection, each of which is kept with its body.
fn answer(stream: &TcpStream, kept: &Mutex<Vec<String>>) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap_or(0);
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        head.push_str(&String::from_utf8_lossy(&body));
        kept.lock().expect("no panic").push(head);
        if writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// Runs it with this on standard input.
fn piped(input: &[u8], arguments: &[&str]) -> Output {
    let mut command = weir();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    // A refused command reads nothing of it.
    let _ = child.stdin.take().expect("its standard input").write_all(input);
    child.wait_with_output().expect("it ends")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn lists_are_read_as_editors_of_other_systems_save_them() {
    let (server, folder) = (Listener::start(), tempdir().expect("a folder"));
    let url = format!("http://127.0.0.1:{}/", server.port);
    let whole = format!("\u{feff}{url}d\r\n");
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    };
    let test = format!("\u{feff}test_name = x\r\n  url = {url}e\r\nend_test\r\n");
    for line in [
        &["load", "-q", "-c", "1", "-n", "2", "--urls", &path("urls", b"\xef\xbb\xbf/a\r\n/b\r\n"), &url][..],
        &["load", "-q", "-c", "1", "-n", "2", "--urls", &path("mac", b"/m\r/n\r"), &url],
        &["load", "-q", "-c", "1", "-n", "1", "--sessions", &path("sessions", b"\xef\xbb\xbf/c think=0\r\n"), &url],
        &["http_load", "-parallel", "1", "-fetches", "1", &path("list", whole.as_bytes())],
        &["webtest", &path("t.wt", test.as_bytes())],
    ] {
        let run = piped(b"", line);
        assert_eq!(run.status.code(), Some(0), "{line:?}: {}", told(&run));
    }
    let run = piped(b"\xef\xbb\xbf/i\n", &["load", "-q", "-c", "1", "-n", "1", "--urls", "-", &url]);
    assert_eq!(run.status.code(), Some(0), "{}", told(&run));
    for path in ["a", "b", "m", "n", "c", "d", "e", "i"] {
        assert!(server.asked().contains(&format!("GET /{path} HTTP/1.")), "{path}");
    }
    let wide = path("wide", b"\xff\xfe/\0a\0");
    let run = piped(b"", &["load", "--urls", &wide, &url]);
    assert!(run.status.code() == Some(2) && told(&run).contains("UTF-16"), "{}", told(&run));
}

#[test]
fn a_host_is_asked_for_by_its_ascii_name() {
    let server = Listener::start();
    // RFC 3986 3.2.2, RFC 5890, RFC 9110 7.2.
    let resolve = format!("b\u{fc}cher.example:{}:127.0.0.1", server.port);
    for host in ["b\u{fc}cher.example", "B%C3%BCCHER.example", "xn--bcher-kva.example"] {
        let url = format!("http://{host}:{}/", server.port);
        let run = piped(b"", &["load", "-q", "-c", "1", "-n", "1", "--resolve", &resolve, &url]);
        assert_eq!(run.status.code(), Some(0), "{host}: {}", told(&run));
    }
    let field = format!("\r\nHost: xn--bcher-kva.example:{}\r\n", server.port);
    assert_eq!(server.asked().matches(&field).count(), 3, "{}", server.asked());
}

#[test]
fn a_recording_is_asked_again_as_it_was_and_its_losses_are_counted() {
    let (server, folder) = (Listener::start(), tempdir().expect("a folder"));
    let url = format!("http://127.0.0.1:{}/", server.port);
    let entry = |request: &str, status: u16| {
        format!(r#"{{"request": {{"url": "{url}", {request}}}, "response": {{"status": {status}}}}}"#)
    };
    let put = r#""method": "PUT", "headers": [{"name": "X_Api_Key", "value": "k"}, {"name": "X-Multi", "value": "1"},
        {"name": "X-Multi", "value": "2"}]"#;
    let form = r#""method": "POST", "postData": {"mimeType": "multipart/form-data; boundary=XYZ", "text": "",
        "params": [{"name": "orgId", "value": "50b8"}]}"#;
    let get = r#""method": "GET", "headers": null"#;
    let har = |entries: &[String]| {
        let path = folder.path().join("x.har");
        fs::write(&path, format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","))).expect("a file");
        path.display().to_string()
    };
    let run = piped(b"", &["webtest", &har(&[entry(put, 200), entry(form, 200), entry(get, 0), "null".to_owned()])]);
    assert_eq!(run.status.code(), Some(0), "{}", told(&run));
    assert!(told(&run).contains("the first is entry 4: it is no object"), "{}", told(&run));
    assert!(told(&run).contains("1 of 3 requests had no response"), "{}", told(&run));
    let asked = server.asked().to_ascii_lowercase();
    for part in ["\r\nx_api_key: k\r\n", "\r\nx-multi: 1\r\n", "\r\nx-multi: 2\r\n", "\r\ncontent-length: 0\r\n"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert!(!asked.contains("transfer-encoding"), "{asked}");
    assert!(
        asked.contains("--xyz\r\ncontent-disposition: form-data; name=\"orgid\"\r\n\r\n50b8\r\n--xyz--"),
        "{asked}"
    );
    // More requests are left out than sent.
    let run = piped(b"", &["webtest", "--json", &har(&[entry(get, 200), entry(get, 0), "null".to_owned()])]);
    assert_eq!(run.status.code(), Some(1), "{}", told(&run));
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(json["files"][0]["left_out"][0]["count"], 1, "{json:#}");
}

#[test]
fn the_end_that_comes_first_ends_a_run() {
    let server = Listener::start();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let run = |arguments: &[&str]| {
        let run = piped(b"", &[&["load", "-q", "-c", "1", "--json"], arguments, &[&url]].concat());
        assert_eq!(run.status.code(), Some(0), "{}", told(&run));
        serde_json::from_slice::<serde_json::Value>(&run.stdout).expect("JSON")
    };
    let by_requests = run(&["-n", "3", "-d", "1h2m"]);
    assert_eq!(by_requests["requests"], 3);
    assert!(by_requests["duration_s"].as_f64().is_some_and(|seconds| seconds < 60.0), "{by_requests:#}");
    let by_time = run(&["-n", "1000000", "--rate", "10", "-d", "0m0.5s"]);
    assert!(by_time["requests"].as_u64().is_some_and(|requests| requests < 100), "{by_time:#}");
    assert!(by_time["duration_s"].as_f64().is_some_and(|seconds| (0.4..60.0).contains(&seconds)), "{by_time:#}");
}

#[test]
fn what_has_no_effect_is_refused_and_other_tools_spellings_are_answered() {
    for (line, words) in [
        ("load --queue 9 http://127.0.0.1:1/", "weir load: --queue: a closed loop"),
        ("load --sni n http://127.0.0.1:1/", "weir load: --sni: an option of TLS"),
        ("explain --port 80 runs/a", "weir explain: --port: says how a run is made"),
        ("arm top --once --every 1s", "weir arm top: --every: the table is shown once"),
        ("load -k http://127.0.0.1:1/", "hint: -k: connections are kept here without it"),
        ("load -duration=5s http://127.0.0.1:1/", "two dashes: --duration"),
    ] {
        let run = piped(b"", &line.split(' ').collect::<Vec<_>>());
        assert!(run.status.code() == Some(2) && told(&run).contains(words), "{line}: {}", told(&run));
    }
}
