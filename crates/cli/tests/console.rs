//! `weir console --admin` on real servers, and the console within their admin address: what its page may ask, what it may
//! not, and that no answer holds the token.
// scripts/test: waits

#[path = "console/loads.rs"]
mod loads;
#[path = "console/replay.rs"]
mod replay;
mod support;
#[path = "console/within.rs"]
mod within;

use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::output;
use support::planted::wait_for;
use support::served::Served;
use weir_testkit::client::Connection;
use weir_testkit::free_port;

const TOKEN: &str = "a-token-that-no-page-may-see";
/// What a form of another page cannot send.
const OWN: &str = "X-Weir-Console: 1\r\n";

/// A console that ends with the test.
struct Shown {
    child: Child,
    port: u16,
    path: String,
}

impl Shown {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("console")
            .args(args)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.split(' ').find_map(|word| word.strip_prefix("http://127.0.0.1:")).expect("its address");
        let (port, path) = address.split_once('/').expect("a path");
        Self { child, port: port.parse().expect("a port"), path: format!("/{path}") }
    }

    /// Sends a request; the connection, on which the answer comes.
    fn send(&self, method: &str, path: &str, fields: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("ours");
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port);
        write!(stream, "{method} {path} HTTP/1.1\r\n{host}{fields}Connection: close\r\n\r\n").expect("writes");
        stream
    }

    /// Status and the whole answer, which never holds the token.
    fn asked(&self, method: &str, path: &str, fields: &str) -> (u16, String) {
        let mut answer = String::new();
        self.send(method, path, fields).read_to_string(&mut answer).expect("an answer");
        assert!(!answer.contains(TOKEN), "{method} {path} tells the token");
        (answer[9..12].parse().expect("a status"), answer)
    }

    fn call(&self, call: &str) -> String {
        format!("{}api/1/{call}", self.path)
    }

    fn json(&self, call: &str) -> (u16, Value) {
        let (status, answer) = self.asked("GET", &self.call(call), "");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        (status, serde_json::from_str(body).expect("JSON"))
    }

    /// A refusal with its words.
    fn refused(&self, call: &str, status: u16, words: &str) {
        let (told, body) = self.json(call);
        let error = body["error"].as_str().unwrap_or_default();
        assert!(told == status && error.contains(words), "{call}: {told} {body}");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A site and a token.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("site")).expect("creates");
    fs::write(folder.path().join("site/a.txt"), "hello").expect("writes");
    fs::write(folder.path().join("token"), format!("{TOKEN}\n")).expect("writes");
    fs::set_permissions(folder.path().join("token"), Permissions::from_mode(0o600)).expect("ours");
    fs::write(folder.path().join("wrong"), "another-token-than-that-of-the-server\n").expect("writes");
    folder
}

/// A server that tells by TCP, with a token; its admin address.
fn served(folder: &Path, more: &[&str]) -> (Served, String) {
    let port = free_port();
    let admin = format!("127.0.0.1:{port}");
    let args = [&["--admin", &admin, "--admin-token", "token"][..], more].concat();
    let served = Served::start(folder, &args, "site");
    wait_for(|| TcpStream::connect(&admin).ok());
    (served, admin)
}

#[test]
fn the_page_gets_what_a_server_tells_and_only_the_page_may_change_it() {
    let folder = folder();
    let (served, admin) = served(folder.path(), &["--admin-may", "stop", "--activity", "act"]);
    let shown = Shown::start(folder.path(), &["--admin", &admin, "--token", "token"]);
    let mut connection = Connection::open(served.port).expect("connects");
    connection.get("/a.txt").expect("an answer");
    let (_, has) = shown.json("has");
    assert_eq!((has["server"]["address"].as_str(), has["rooms"][8].as_str()), (Some(&*admin), Some("activity")));
    wait_for(|| (shown.json("activity?hours=1").1["whole"]["requests"] == 1).then_some(()));
    let (_, activity) = shown.json("activity?hours=1&steps=60");
    let paces = activity["steps"].as_array().expect("steps").iter().map(|step| step["requests_per_min"].as_f64());
    assert_eq!(paces.map(|pace| pace.expect("a number")).sum::<f64>(), 1.0, "steps of a minute");
    wait_for(|| (shown.json("last?filter=path%3D/a.txt").1["matching"] == 1).then_some(()));
    assert_eq!(shown.json("last?from_unix_s=1&to_unix_s=2").1["matching"], 0);
    let (_, connected) = shown.json("connections");
    assert_eq!((connected["may_stop"].as_bool(), connected["left_out"].as_u64()), (Some(true), Some(0)));
    shown.refused("rules", 404, "--policy FILE");
    for call in ["activity?hours=0", "activity?hours=673", "activity?x=1", "last?limit=1001", "connections?client=x"] {
        assert_eq!(shown.json(call).0, 400, "{call}");
    }
    shown.refused("last?filter=stauts%3D404", 400, "is no key of a filter");
    shown.refused("watch?filter=stauts%3D404", 400, "is no key of a filter");
    let calls = ["activity", "last", "connections", "rules", "watch", "stop?client=127.0.0.1"];
    for call in calls {
        assert_eq!(shown.asked("GET", &format!("/api/1/{call}"), "").0, 403, "{call} without the word");
        for field in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
            for method in ["GET", "POST"] {
                assert_eq!(shown.asked(method, &shown.call(call), &format!("{OWN}{field}")).0, 403, "{call} {field}");
            }
        }
    }
    let stop = shown.call("stop?client=127.0.0.1");
    assert_eq!((shown.asked("GET", &stop, OWN).0, shown.asked("HEAD", &stop, OWN).0), (405, 405));
    assert_eq!(shown.asked("POST", &stop, "").0, 403, "without the header that a form cannot send");
    assert_eq!(shown.asked("POST", &shown.call("activity"), OWN).0, 405);
    connection.get("/a.txt").expect("nothing was ended");
    let (status, ended) = shown.asked("POST", &stop, OWN);
    assert!(status == 200 && ended.contains("\"connections\":1"), "{ended}");
    assert!(connection.get("/a.txt").is_err(), "it was ended");
}

/// Reads lines until one has such words.
fn line_with(lines: &mut impl BufRead, words: &str) -> String {
    for _ in 0..1000 {
        let mut line = String::new();
        if lines.read_line(&mut line).expect("the stream goes on") > 0 && line.contains(words) {
            return line;
        }
    }
    panic!("no line with {words}");
}

#[test]
fn watches_are_told_line_by_line_and_bounded_and_end_with_their_page() {
    let folder = folder();
    let (served, admin) = served(folder.path(), &[]);
    let shown = Shown::start(folder.path(), &["--admin", &admin, "--token", "token"]);
    let watch = shown.call("watch?filter=path%3D/a.txt&show=response,timing");
    let mut watches: Vec<_> = (0..4).map(|_| BufReader::new(shown.send("GET", &watch, ""))).collect();
    for lines in &mut watches {
        line_with(lines, r#""type":"begin""#);
    }
    shown.refused("watch", 429, "4 watches are under way");
    let mut connection = Connection::open(served.port).expect("connects");
    connection.get("/missing").expect("an answer");
    connection.get("/a.txt").expect("an answer");
    let line = line_with(&mut watches[0], r#""type":"request""#);
    let request: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((request["target"].as_str(), request["status"].as_u64()), (Some("/a.txt"), Some(200)));
    let told = request["told"].as_array().expect("categories");
    let names: Vec<&str> = told.iter().filter_map(|one| one[0].as_str()).collect();
    assert!(names == ["response", "timing"] && line.contains("5 bytes of body"), "{line}");
    watches.pop();
    wait_for(|| (shown.asked("HEAD", &watch, "").0 == 200).then_some(()));
    drop(served);
    let gone = line_with(&mut watches[0], r#""type":"gone""#);
    assert!(gone.contains("the server went away"), "{gone}");
    shown.refused("watch", 502, "no server answers there");
}

#[test]
fn a_server_that_refuses_or_is_not_there_is_told_in_words() {
    let folder = folder();
    let (served, admin) = served(folder.path(), &[]);
    let wrong = Shown::start(folder.path(), &["--admin", &admin, "--token", "wrong"]);
    for call in ["activity", "last", "connections", "rules", "watch"] {
        wrong.refused(call, 502, "the token is missing or wrong");
    }
    let shown = Shown::start(folder.path(), &["--admin", &admin, "--token", "token"]);
    shown.refused("activity", 404, "--activity FILE");
    assert_eq!(shown.json("connections").1["may_stop"], false);
    let (status, refused) = shown.asked("POST", &shown.call("stop?client=127.0.0.1"), OWN);
    assert!(status == 403 && refused.contains("--admin-may stop"), "{refused}");
    drop(served);
    shown.refused("last", 502, "no server answers there");
    let without = Shown::start(folder.path(), &[]);
    let (_, has) = without.json("has");
    assert!(has["server"].is_null() && has["rooms"].as_array().map(Vec::len) == Some(8), "{has}");
    without.refused("activity", 404, "start it with --admin");
    for (args, words) in [
        (&["console", "--admin", "admin.sock"][..], "write unix:PATH or ADDRESS:PORT"),
        (&["console", "--admin", "127.0.0.1:1", "--token", "/there/is/none"][..], "/there/is/none"),
        (&["console", "--token", "token"][..], "--admin"),
        (
            &["console", "--admin", "unix:a", "--admin", "unix:b", "--token", "t"][..],
            "only a server that is asked over TCP",
        ),
    ] {
        let refused = output(args);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn several_servers_are_told_apart_and_a_silent_one_is_named() {
    let folder = folder();
    let (first, admin) = served(folder.path(), &[]);
    let second = Served::start(folder.path(), &["--admin", "unix:second.sock", "--admin-may", "stop"], "site");
    let shown = Shown::start(folder.path(), &["--admin", &admin, "--admin", "unix:second.sock", "--token", "token"]);
    let (_, has) = shown.json("has");
    let addresses: Vec<_> = has["servers"].as_array().expect("servers").iter().map(|one| &one["address"]).collect();
    assert_eq!((addresses[0].as_str(), addresses[1].as_str()), (Some(&*admin), Some("unix:second.sock")));
    assert_eq!(has["server"], has["servers"][0]);
    let mut connection = Connection::open(second.port).expect("connects");
    // The time that requests took is counted from the first question on.
    let (_, now) = shown.json("now?server=2");
    assert!(now["timed"].is_null() && now["p99_us"].is_null(), "{now}");
    wait_for(|| {
        connection.get("/a.txt").expect("an answer");
        let (_, now) = shown.json("now?server=2");
        let is_known = now["p99_us"].as_u64().is_some_and(|us| us > 0) && now["requests_per_s"].as_f64() > Some(0.0);
        (is_known && now["connections"] == 1).then_some(())
    });
    assert_eq!(shown.json("now").1["requests_per_s"], 0.0, "without a word it is the first one");
    let may = |server: &str| shown.json(&format!("connections{server}")).1["may_stop"].as_bool();
    assert_eq!((may(""), may("?server=1"), may("?server=2")), (Some(false), Some(false), Some(true)));
    wait_for(|| (shown.json("last?server=2&filter=path%3D/a.txt").1["matching"].as_u64() > Some(0)).then_some(()));
    assert_eq!(shown.json("last?server=1").1["matching"], 0);
    for call in ["now", "activity", "last", "connections", "rules", "watch"] {
        shown.refused(&format!("{call}?server=3"), 404, "there is no server 3 here, but 1 to 2");
        assert_eq!(shown.json(&format!("{call}?server=x")).0, 400, "{call}");
        assert_eq!(shown.json(&format!("{call}?server=0")).0, 404, "{call}");
    }
    assert_eq!(shown.asked("POST", &shown.call("stop?client=127.0.0.1&server=1"), OWN).0, 403);
    let (status, ended) = shown.asked("POST", &shown.call("stop?client=127.0.0.1&server=2"), OWN);
    assert!(status == 200 && ended.contains("\"connections\":1"), "{ended}");
    drop(first);
    shown.refused("now?server=1", 502, "no server answers there");
    assert_eq!(shown.json("now?server=2").0, 200);
}

#[test]
fn tokens_and_servers_that_do_not_fit_are_refused_in_words() {
    let folder = folder();
    let refused = |args: &[&str], words: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_weir")).arg("console").args(args).current_dir(folder.path()).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    };
    let (one, two, three) = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3");
    let servers = ["--admin", one, "--admin", two, "--admin", three, "--token", "token", "--token", "wrong"];
    refused(&servers, "2 tokens are given for 3 addresses of TCP");
    refused(&["--admin", one, "--token", "token", "--token", "wrong"], "2 tokens are given for 1 addresses");
    refused(&["--admin", one, "--admin", one, "--token", "token"], "--admin 127.0.0.1:1 is given twice");
    let nine: Vec<String> = (1..10).flat_map(|port| ["--admin".to_owned(), format!("127.0.0.1:{port}")]).collect();
    refused(&nine.iter().map(String::as_str).collect::<Vec<_>>(), "9 servers are given, and a console shows 8 at most");
    // In order: the second address gets the second token, the Unix socket between them none.
    let (_first, admin) = served(folder.path(), &[]);
    let mixed = ["--admin", one, "--admin", "unix:none", "--admin", &admin, "--token", "wrong", "--token", "token"];
    let shown = Shown::start(folder.path(), &mixed);
    assert_eq!(shown.json("connections?server=3").0, 200);
    shown.refused("connections?server=2", 502, "no server answers there");
}
