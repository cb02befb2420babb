//! `weir watch` of requests over HTTP/2 and HTTP/3: each category is told as over HTTP/1.1, with stream, bytes and times.

use super::watch::watch;
use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::planted::wait_for;
use support::served::Served;
use support::{output, weir};
use weir_testkit::Certificate;
use weir_testkit::require;

const SECRET: &str = "s3cr3tW0rd";
const LARGE_BYTES: u64 = 300_000;
const SCRIPT: &str = "#!/bin/sh\necho 'a word for the log' >&2\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello'\n";

/// How the server is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    /// HTTP/2 in the clear.
    ClearH2,
    /// HTTP/2 over TLS.
    SecureH2,
    H3,
}

/// A server with files, a script and an upstream.
struct Stand {
    folder: tempfile::TempDir,
    served: Served,
    _upstream: Served,
    _certificate: Option<Certificate>,
    asked: Asked,
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
    fs::write(path, content).expect("writes");
}

impl Stand {
    fn new(asked: Asked) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
        let at = |name: &str| folder.path().join(name);
        write(&at("site/a.txt"), b"hello");
        write(&at("site/large.bin"), &vec![b'x'; LARGE_BYTES as usize]);
        let slow = SCRIPT.replace("printf", "sleep 1\nprintf");
        for (name, script) in [("site/cgi-bin/hello.sh", SCRIPT), ("site/cgi-bin/slow.sh", slow.as_str())] {
            write(&at(name), script.as_bytes());
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).expect("sets");
        }
        write(&at("behind/api/b.txt"), b"from behind");
        let upstream = Served::start(folder.path(), &[], "behind");
        let text = format!(
            "[[host]]\nroot = \"site\"\n[[host.route]]\nglob = \"/old/**\"\nmap = \"/$1\"\n\
             [[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n\
             [[host.path]]\nprefix = \"/api/\"\nproxy = {{ to = [\"http://127.0.0.1:{}\"] }}\n",
            upstream.port
        );
        write(&at("weir.toml"), text.as_bytes());
        let certificate =
            (asked != Asked::ClearH2).then(|| Certificate::self_signed().expect("openssl makes a certificate"));
        let mut args = vec!["--admin".to_owned(), "unix:admin.sock".to_owned()];
        if let Some(made) = &certificate {
            let path = |path: std::path::PathBuf| path.display().to_string();
            args.extend(["--tls-cert".to_owned(), path(made.certificate()), "--tls-key".to_owned(), path(made.key())]);
            args.extend((asked == Asked::H3).then(|| "--http3".to_owned()));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let served = Served::start(folder.path(), &args, "weir.toml");
        Self { folder, served, _upstream: upstream, _certificate: certificate, asked }
    }

    /// A client that asks for a path so many times over one connection, with further fields.
    fn client(&self, path: &str, count: usize, fields: &[&str]) -> Command {
        let scheme = if self.asked == Asked::ClearH2 { "http" } else { "https" };
        let url = format!("{scheme}://127.0.0.1:{}{path}", self.served.port);
        let mut command = if self.asked == Asked::H3 {
            let mut command = weir();
            command.args(["load", "-q", "--http3", "--insecure", "-c", "1", "-n", &count.to_string(), &url]);
            command
        } else {
            let mut command = Command::new("curl");
            let version = if self.asked == Asked::ClearH2 { "--http2-prior-knowledge" } else { "--http2" };
            command.args(["--silent", "--insecure", version]);
            command.args((0..count).flat_map(|_| [&url, "--output", "/dev/null"]));
            command
        };
        command.args(fields.iter().flat_map(|field| ["-H", field]));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn ask(&self, path: &str, count: usize, fields: &[&str]) {
        // What a status other than 200 means for the client is no matter here.
        let _status = self.client(path, count, fields).status().expect("it starts");
    }

    /// What is told of requests of a filter; they are asked for until they are seen, as loops learn of a watcher a moment
    /// later.
    fn seen(&self, filter: &[&str], count: usize, ask: &dyn Fn()) -> Vec<Value> {
        let number = count.to_string();
        let mut child = watch(self.folder.path(), &[&["--json", "--show", "all", "-n", &number], filter].concat());
        for _ in 0..200 {
            ask();
            std::thread::sleep(Duration::from_millis(50));
            if child.try_wait().expect("asks").is_some() {
                break;
            }
        }
        // One that has seen nothing ends with an error.
        let _ended = child.kill();
        let output = child.wait_with_output().expect("ends");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(!told.contains(SECRET), "{told}");
        let lines = told.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let seen: Vec<Value> = lines.filter(|line: &Value| line["type"] == "request").collect();
        assert_eq!(seen.len(), count, "{filter:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
        seen
    }

    fn seen_one(&self, filter: &[&str], path: &str, fields: &[&str]) -> Value {
        self.seen(filter, 1, &|| self.ask(path, 1, fields)).remove(0)
    }
}

fn text<'v>(of: &'v Value, at: &str) -> &'v str {
    of.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("no {at} in {of:#}"))
}

fn count(of: &Value, at: &str) -> u64 {
    of.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {at} in {of:#}"))
}

/// The parts are as long as the whole, as far as each is told in whole microseconds.
fn check_times(seen: &Value) {
    let head = seen.pointer("/timing/head_us").and_then(Value::as_u64).unwrap_or(0);
    let parts = count(seen, "/timing/answer_us") + head + count(seen, "/timing/send_us");
    assert!(parts.abs_diff(count(seen, "/whole_us")) <= 2, "{seen:#}");
    assert!((1..20_000_000).contains(&count(seen, "/whole_us")), "{seen:#}");
}

fn check_network(seen: &Value, stand: &Stand) {
    let protocol = if stand.asked == Asked::H3 { "HTTP/3" } else { "HTTP/2" };
    assert_eq!((text(seen, "/network/protocol"), text(seen, "/network/client")), (protocol, "127.0.0.1"), "{seen:#}");
    assert_eq!(seen["network"]["tls"].as_bool(), Some(stand.asked != Asked::ClearH2), "{seen:#}");
    assert!(count(seen, "/network/port") > 0 && count(seen, "/session") == count(seen, "/network/session"), "{seen:#}");
    // Streams of clients: odd numbers over HTTP/2 (RFC 9113 section 5.1.1), multiples of four over QUIC (RFC 9000
    // section 2.1).
    let stream = count(seen, "/network/stream");
    assert!(if stand.asked == Asked::H3 { stream.is_multiple_of(4) } else { stream % 2 == 1 }, "{seen:#}");
}

fn check_file(stand: &Stand) {
    let fields = [format!("Authorization: Bearer {SECRET}")];
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let path = format!("/old/a.txt?token={SECRET}");
    let seen = stand.seen_one(&["path=/old/a.txt", "status=200"], &path, &fields);
    check_network(&seen, stand);
    check_times(&seen);
    assert_eq!((text(&seen, "/method"), text(&seen, "/target")), ("GET", "/old/a.txt?(hidden)"));
    assert!(text(&seen, "/head/host").starts_with("127.0.0.1"), "{seen:#}");
    let fields = seen["head"]["fields"].to_string().to_ascii_lowercase();
    assert!(fields.contains("[\"authorization\",\"(17 bytes hidden)\"]") && !fields.contains(":path"), "{fields}");
    assert!(seen["routes"]["routes"].to_string().contains("route 1 (map"), "{seen:#}");
    assert_eq!(seen["rules"]["names"][0], "route:1", "{seen:#}");
    assert_eq!(count(&seen, "/cache/hits") + count(&seen, "/cache/misses"), 1, "{seen:#}");
    assert_eq!((text(&seen, "/file/path"), count(&seen, "/file/bytes")), ("/a.txt", 5));
    assert_eq!((count(&seen, "/status"), count(&seen, "/response/body_bytes")), (200, 5), "{seen:#}");
    assert!((6..1000).contains(&count(&seen, "/response/sent_bytes")), "{seen:#}");
    assert_eq!(seen["response"]["is_complete"], true, "{seen:#}");
    assert!(seen["response"]["fields"].to_string().contains("text/plain"), "{seen:#}");
    assert_eq!((&seen["rules"]["asked"], &seen["arm"]["told"]), (&false.into(), &false.into()), "{seen:#}");
    assert!(seen.get("script").is_none() && seen.get("upstream").is_none(), "{seen:#}");
}

fn check_large(stand: &Stand) {
    let seen = stand.seen_one(&["bytes>200kB"], "/large.bin", &[]);
    check_times(&seen);
    assert_eq!((count(&seen, "/response/body_bytes"), &seen["response"]["is_complete"]), (LARGE_BYTES, &true.into()));
    assert!((LARGE_BYTES + 1..LARGE_BYTES + 1000).contains(&count(&seen, "/response/sent_bytes")), "{seen:#}");
}

fn check_script(stand: &Stand) {
    let seen = stand.seen_one(&["path=/cgi-bin/**"], "/cgi-bin/hello.sh/info", &[]);
    check_network(&seen, stand);
    check_times(&seen);
    assert_eq!((text(&seen, "/script/name"), text(&seen, "/script/path_info")), ("/cgi-bin/hello.sh", "/info"));
    assert!(seen["script"]["output"].to_string().contains("a word for the log"), "{seen:#}");
    assert_eq!((count(&seen, "/status"), count(&seen, "/response/body_bytes")), (200, 5), "{seen:#}");
    assert!(count(&seen, "/timing/head_us") > 0, "{seen:#}");
}

fn check_upstream(stand: &Stand) {
    let seen = stand.seen_one(&["rule=/api/", "status=200"], "/api/b.txt", &[]);
    check_network(&seen, stand);
    check_times(&seen);
    let steps = seen["upstream"]["steps"].to_string();
    for word in ["attempt 1 with 127.0.0.1", "the head of the response has come", "the response is whole"] {
        assert!(steps.contains(word), "no {word:?} in {steps}");
    }
    assert_eq!(
        (count(&seen, "/response/body_bytes"), &seen["response"]["is_complete"]),
        (11, &true.into()),
        "{seen:#}"
    );
    assert!(seen["response"]["fields"].to_string().contains("text/plain"), "{seen:#}");
    assert!(count(&seen, "/timing/head_us") > 0, "{seen:#}");
}

/// Requests of one connection have its session, and streams of their own.
fn check_streams(stand: &Stand) {
    let seen = stand.seen(&["path=/a.txt"], 12, &|| stand.ask("/a.txt", 6, &[]));
    let mut streams: Vec<_> = seen.iter().map(|one| (count(one, "/session"), count(one, "/network/stream"))).collect();
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 12, "{streams:?}");
    // curl opens a connection for each request in the clear.
    let shares = stand.asked != Asked::ClearH2;
    assert!(!shares || streams.windows(3).any(|three| three.iter().all(|one| one.0 == three[0].0)), "{streams:?}");
}

/// A request that is under way as the watcher comes is told at its end, with what is known from then on.
fn check_under_way(stand: &Stand) {
    let connections = || {
        let admin = format!("unix:{}", stand.folder.path().join("admin.sock").display());
        let told: Value = serde_json::from_slice(&output(&["connections", "--json", &admin]).stdout).expect("JSON");
        let all = told["connections"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["under_way"].as_array().is_some_and(|list| !list.is_empty()))
    };
    let mut client = stand.client("/cgi-bin/slow.sh", 1, &[]).spawn().expect("it starts");
    let before = wait_for(connections);
    let seen = stand.seen(&["status=200"], 1, &|| {}).remove(0);
    client.wait().expect("it ends");
    check_network(&seen, stand);
    check_times(&seen);
    assert_eq!((&seen["begun_before"], &before["under_way"][0]["stream"]), (&true.into(), &seen["network"]["stream"]));
    assert_eq!((count(&seen, "/response/body_bytes"), &seen["response"]["is_complete"]), (5, &true.into()), "{seen:#}");
    assert!(seen["response"]["fields"].to_string().contains("text/plain"), "{seen:#}");
}

/// What cannot be answered as a request is told with its connection and stream. Our client of HTTP/3 begins to send such a
/// head before it has read the server's settings: the frame's length alone has to be too much.
fn check_unfit(stand: &Stand) {
    let bytes = if stand.asked == Asked::H3 { 40_000 } else { 20_000 };
    let field = format!("X-Large: {}", "x".repeat(bytes));
    let seen = stand.seen_one(&["status=431"], "/a.txt", &[&field]);
    check_network(&seen, stand);
    assert_eq!((text(&seen, "/method"), count(&seen, "/status")), ("", 431), "{seen:#}");
}

fn check_all(asked: Asked) {
    let stand = Stand::new(asked);
    check_file(&stand);
    check_large(&stand);
    check_script(&stand);
    check_upstream(&stand);
    check_streams(&stand);
    check_under_way(&stand);
    check_unfit(&stand);
}

#[test]
fn requests_over_http2_are_told_with_all_categories() {
    let (Some(()), Some(())) = (require::program("curl"), require::program("openssl")) else { return };
    check_all(Asked::ClearH2);
    let secure = Stand::new(Asked::SecureH2);
    check_file(&secure);
    check_streams(&secure);
}

#[test]
fn requests_over_http3_are_told_with_all_categories() {
    let Some(()) = require::program("openssl") else { return };
    check_all(Asked::H3);
}
