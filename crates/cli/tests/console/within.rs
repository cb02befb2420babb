//! The console within the admin address of a server: who may ask, hostile requests, bounds, and what becomes of it at the
//! server's end.

use crate::support::planted::wait_for;
use crate::support::served::Served;
use crate::{OWN, TOKEN, folder, line_with, served};
use serde_json::Value;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_testkit::client::Connection;

const PATIENCE: Duration = Duration::from_secs(20);

fn tcp(admin: &str) -> TcpStream {
    let stream = TcpStream::connect(admin).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("ours");
    stream
}

fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("ours");
    stream
}

/// Status and the whole answer.
fn ask(mut stream: impl Read + Write, request: &str, fields: &str) -> (u16, String) {
    write!(stream, "{request} HTTP/1.1\r\n{fields}\r\n").expect("sends");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.get(9..12).and_then(|status| status.parse().ok()).expect("a status"), answer)
}

fn json(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
}

/// Threads that the console of a server has.
fn threads(served: &Served) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{}/task", served.child.id())).expect("its threads").flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "weir-endpoint").count()
}

#[test]
fn calls_need_the_token_and_the_own_page_and_files_hold_no_figures() {
    let folder = folder();
    let (server, admin) = served(folder.path(), &["--admin-may", "stop", "--activity", "act"]);
    let (host, right) = (format!("Host: {admin}\r\n"), format!("Authorization: Bearer {TOKEN}\r\n"));
    let asked = |request: &str, fields: &str| ask(tcp(&admin), request, &format!("{host}{fields}"));
    let calls =
        ["has", "activity", "last", "connections", "rules", "now", "watch", "stop?client=127.0.0.1", "runs", "x"];
    for call in calls {
        let get = format!("GET /console/api/1/{call}");
        for fields in ["", "Authorization: Bearer another-token-than-the-right-one\r\n", "Cookie: token=a\r\n"] {
            assert_eq!(asked(&get, fields).0, 401, "{call} {fields}");
            assert_eq!(asked(&get.replace("GET", "POST"), &format!("{OWN}{fields}")).0, 401, "{call} {fields}");
        }
    }
    assert_eq!(threads(&server), 0, "there are threads for it before it was asked for");
    for field in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        for method in ["GET", "POST"] {
            let request = format!("{method} /console/api/1/stop?client=127.0.0.1");
            assert_eq!(asked(&request, &format!("{right}{OWN}{field}")).0, 403, "{request} {field}");
        }
    }
    let (status, page) = asked("GET /console/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n");
    assert!(status == 200 && page.contains("<title>weir console</title>"), "a link in another page: {page}");
    for words in ["Content-Security-Policy: default-src 'none'", "X-Frame-Options: DENY", "nosniff", "no-store"] {
        assert!(page.contains(words), "{words}");
    }
    for file in ["console.js", "console.css", "parts.css"] {
        let (status, file) = asked(&format!("GET /console/{file}"), "");
        assert!(status == 200 && !file.contains(TOKEN) && !file.contains(&admin));
    }
    let (_, has) = asked("GET /console/api/1/has", &right);
    let has = json(&has);
    assert_eq!((has["server"]["address"].as_str(), has["servers"].as_array().map(Vec::len)), (Some(&*admin), Some(1)));
    assert!(!has.to_string().contains("\"runs\"") && has["rooms"].as_array().map(Vec::len) == Some(6), "{has}");
    assert_eq!(asked("GET /console/api/1/runs", &right).0, 404);
    let (status, moved) = asked("GET /console", "");
    assert!(status == 308 && moved.contains("Location: console/\r\n"), "{moved}");
    let mut connection = Connection::open(server.port).expect("connects");
    connection.get("/a.txt").expect("an answer");
    wait_for(|| {
        let (_, now) = asked("GET /console/api/1/now", &right);
        (json(&now)["connections"] == 1).then_some(())
    });
    let stop = "/console/api/1/stop?client=127.0.0.1";
    assert_eq!(asked(&format!("GET {stop}"), &format!("{right}{OWN}")).0, 405);
    assert_eq!(asked(&format!("POST {stop}"), &right).0, 403, "without the header that a form cannot send");
    connection.get("/a.txt").expect("nothing was ended");
    let (status, ended) = asked(&format!("POST {stop}"), &format!("{right}{OWN}Origin: http://{admin}\r\n"));
    assert!(status == 200 && ended.contains("\"connections\":1"), "{ended}");
    assert!(connection.get("/a.txt").is_err(), "it was ended");
}

#[test]
fn paths_lead_to_nothing_but_the_console() {
    let folder = folder();
    let (_server, admin) = served(folder.path(), &[]);
    let right = format!("Host: weir\r\nAuthorization: Bearer {TOKEN}\r\n");
    let paths = [
        "/console/../status.json",
        "/console/%2e%2e/status.json",
        "/console/%2e%2e/",
        "/console/./",
        "/console//",
        "/console/..",
        "/console/token",
        "/console/../token",
        "/console/....//token",
        "/console/%2fetc%2fpasswd",
        "/console/console.js%00.css",
        "/console/api",
        "/console/api/1/",
        "/console/api/2/has",
        "/console/api/1/%68as",
        "/console/%61pi/1/has",
        "/console/./api/1/has",
        "/console/api/../api/1/has",
        "/console/<script>alert(1)</script>",
        "/consolex/",
    ];
    for path in paths {
        for fields in ["Host: weir\r\n", &right] {
            let (status, answer) = ask(tcp(&admin), &format!("GET {path}"), fields);
            assert!([400, 401, 404].contains(&status), "{path}: {answer}");
            assert!(
                !answer.contains("uptime_ms") && !answer.contains(TOKEN) && !answer.contains("<script>"),
                "{answer}"
            );
        }
        let (status, answer) = ask(tcp(&admin), &format!("GET {path}"), "Host: weir\r\n");
        assert!(!answer.contains("\"api\":1") && status != 200, "{path} without the token: {answer}");
    }
    // The second request of a connection is not looked at: the first one alone was found to have the token.
    let twice = format!("{right}\r\nGET /console/api/1/has HTTP/1.1\r\nHost: weir\r\n");
    let (_, answers) = ask(tcp(&admin), "GET /console/parts.css", &twice);
    assert!(answers.matches("HTTP/1.1").count() == 1 && !answers.contains("\"api\""), "{answers}");
    let (status, wrong) = ask(tcp(&admin), "GET /console/api/1/last?filter=%3Cb%3E%3D1", &right);
    assert!(status == 400 && wrong.contains("Content-Type: application/json"), "{wrong}");
}

#[test]
fn without_a_token_names_that_others_can_have_get_nothing() {
    let folder = folder();
    let server = Served::start(folder.path(), &["--admin", "unix:admin.sock", "--admin-may", "stop"], "site");
    let socket = folder.path().join("admin.sock");
    let asked = |request: &str, fields: &str| ask(unix(&socket), request, fields);
    for call in ["/console/", "/console/api/1/has", "/console/api/1/stop?client=127.0.0.1"] {
        for method in ["GET", "POST"] {
            let fields = format!("Host: evil.example:8090\r\n{OWN}");
            assert_eq!(asked(&format!("{method} {call}"), &fields).0, 421, "{call}: the name of a page of others");
        }
    }
    let own = "Host: localhost:8090\r\n";
    let (_, has) = asked("GET /console/api/1/has", own);
    assert_eq!(json(&has)["server"]["address"], "unix:admin.sock");
    let mut connection = Connection::open(server.port).expect("connects");
    connection.get("/a.txt").expect("an answer");
    let stop = "POST /console/api/1/stop?client=127.0.0.1";
    for fields in
        ["Origin: http://localhost:8091\r\n", "Origin: http://evil.example\r\n", "Sec-Fetch-Site: same-site\r\n"]
    {
        assert_eq!(asked(stop, &format!("{own}{OWN}{fields}")).0, 403, "{fields}");
    }
    connection.get("/a.txt").expect("nothing was ended");
    let (status, ended) = asked(stop, &format!("{own}{OWN}Origin: http://localhost:8090\r\n"));
    assert!(status == 200 && ended.contains("\"connections\":1"), "{ended}");
}

#[test]
fn clients_that_are_slow_many_or_too_large_hold_up_neither_the_server_nor_each_other() {
    let folder = folder();
    let (server, admin) = served(folder.path(), &[]);
    let right = format!("Host: weir\r\nAuthorization: Bearer {TOKEN}\r\n");
    // A head without an end.
    let mut long = tcp(&admin);
    write!(long, "GET /console/ HTTP/1.1\r\n").expect("sends");
    while long.write_all(format!("X: {}\r\n", "x".repeat(1000)).as_bytes()).is_ok() {}
    // As many requests as may be wait for their bodies.
    let mut slow: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut stream = tcp(&admin);
            let body = "Content-Length: 9\r\n";
            write!(stream, "POST /console/api/1/stop?client=127.0.0.1 HTTP/1.1\r\n{right}{OWN}{body}\r\n")
                .expect("sends");
            stream
        })
        .collect();
    let busy = wait_for(|| {
        let (status, answer) = ask(tcp(&admin), "GET /console/", &right);
        (status == 503).then_some(answer)
    });
    assert!(busy.contains("Retry-After: 1\r\n"), "{busy}");
    let begin = Instant::now();
    assert_eq!(ask(tcp(&admin), "GET /status.json", &right).0, 200);
    Connection::open(server.port).expect("connects").get("/a.txt").expect("an answer");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    // Those that are there are answered once their bodies have come.
    for stream in &mut slow {
        stream.write_all(b"123456789").expect("the rest");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--admin-may stop"), "{answer}");
    }
    // 32 at once, each with a question to the server.
    let at_once: Vec<_> = (0..32)
        .map(|_| {
            let (admin, right) = (admin.clone(), right.clone());
            std::thread::spawn(move || ask(tcp(&admin), "GET /console/api/1/connections", &right).0)
        })
        .collect();
    for client in at_once {
        assert_eq!(client.join().expect("an answer"), 200);
    }
    assert!((1..=9).contains(&threads(&server)), "{} threads", threads(&server));
}

#[test]
fn a_stream_ends_with_its_page_and_with_the_server() {
    let folder = folder();
    let (mut server, admin) = served(folder.path(), &[]);
    let right = format!("Host: weir\r\nAuthorization: Bearer {TOKEN}\r\n");
    let watch = || {
        let mut stream = tcp(&admin);
        write!(stream, "GET /console/api/1/watch?show=timing HTTP/1.1\r\n{right}\r\n").expect("sends");
        BufReader::new(stream)
    };
    let mut watches: Vec<_> = (0..4).map(|_| watch()).collect();
    for lines in &mut watches {
        line_with(lines, r#""type":"begin""#);
    }
    assert_eq!(ask(tcp(&admin), "GET /console/api/1/watch", &right).0, 429);
    Connection::open(server.port).expect("connects").get("/a.txt").expect("an answer");
    assert!(line_with(&mut watches[0], r#""type":"request""#).contains("/a.txt"));
    watches.pop();
    // The place of the page that went is free again.
    let last = wait_for(|| {
        let mut lines = watch();
        let mut status = String::new();
        std::io::BufRead::read_line(&mut lines, &mut status).ok()?;
        status.contains(" 200 ").then_some(lines)
    });
    let begin = Instant::now();
    server.signal(libc::SIGTERM);
    assert!(server.child.wait().expect("it ends").success() && begin.elapsed() < PATIENCE);
    watches.push(last);
    for mut lines in watches {
        let mut rest = String::new();
        // It may be cut off in the midst of a line.
        let _ended = lines.read_to_string(&mut rest);
    }
}

#[test]
fn the_next_server_has_its_own_console() {
    let folder = folder();
    let socket = folder.path().join("admin.sock");
    let mut first = Served::start(folder.path(), &["--admin", "unix:admin.sock"], "site");
    let own = "Host: localhost\r\n";
    let mut stream = unix(&socket);
    write!(stream, "GET /console/api/1/watch HTTP/1.1\r\n{own}\r\n").expect("sends");
    let mut lines = BufReader::new(stream);
    line_with(&mut lines, r#""type":"begin""#);
    let listen = format!("127.0.0.1:{}", first.port);
    let take_over = first.child.id().to_string();
    let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--listen", &listen, "--admin", "unix:admin.sock", "--take-over", &take_over, "site"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("the stream of the first server ends");
    assert!(first.child.wait().expect("it ends").success());
    let (_, begin) = ask(unix(&socket), "GET /console/api/1/has", own);
    assert_eq!(json(&begin)["server"]["address"], "unix:admin.sock");
    let (_, status) = ask(unix(&socket), "GET /status.json", own);
    assert_eq!(json(&status)["pid"], second.id());
    let _ = second.kill();
    let _ = second.wait();
}

#[test]
fn a_time_is_looked_for_among_a_bounded_number_of_requests() {
    let folder = folder();
    let (server, admin) = served(folder.path(), &["--history", "10000"]);
    let right = format!("Host: weir\r\nAuthorization: Bearer {TOKEN}\r\n");
    let mut connection = Connection::open(server.port).expect("connects");
    (0..5100).for_each(|_| drop(connection.get("/a.txt").expect("an answer")));
    let asked = |query: &str| json(&ask(tcp(&admin), &format!("GET /console/api/1/last?{query}"), &right).1);
    wait_for(|| (asked("limit=1")["matching"].as_u64() >= Some(5100)).then_some(()));
    assert!(asked("limit=1")["looked_through"].is_null());
    let of_time = asked("from_unix_s=1&limit=1");
    assert_eq!((of_time["looked_through"].as_u64(), of_time["matching"].as_u64()), (Some(5000), Some(5000)));
    assert!(asked("from_unix_s=1&filter=path%3D/missing")["looked_through"].is_null());
}
