//! `weir load` against servers of WebSockets and streamed answers that people run, alone and behind proxies. They come
//! from PyPI and npm (`make test-streams`).

use crate::support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::weir;
use weir_testkit::require;

/// Where the libraries are, if this run has them.
fn peers() -> Option<PathBuf> {
    let named = std::env::var_os("WEIR_STREAMS_PEERS").map(PathBuf::from);
    require::or_skip(named.is_some(), "servers of PyPI and npm are not there (make test-streams)")?;
    named
}

/// A program of a test, which ends with the value.
struct Peer {
    child: Child,
    port: u16,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loads/peers").join(file)
}

impl Peer {
    /// One that prints its port.
    fn telling(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its port");
        Self { child, port: line.trim().parse().unwrap_or_else(|error| panic!("{line:?}: {error}")) }
    }

    /// One that is told a port that is free.
    fn told(start: impl FnOnce(u16) -> Command) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let child = start(port).spawn().expect("it starts");
        let peer = Self { child, port };
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        peer
    }

    fn python(peers: &Path) -> Self {
        let mut command = Command::new(peers.join("venv/bin/python"));
        command.arg(own("echo.py"));
        Self::telling(command)
    }

    fn node(peers: &Path) -> Self {
        let mut command = Command::new("node");
        command.arg(own("echo.js")).env("NODE_PATH", peers.join("npm/node_modules"));
        Self::telling(command)
    }

    fn gunicorn(peers: &Path) -> Self {
        Self::told(|port| {
            let mut command = Command::new(peers.join("venv/bin/gunicorn"));
            command.args([
                "--threads",
                "20",
                "--log-level",
                "error",
                "--bind",
                &format!("127.0.0.1:{port}"),
                "stream:app",
            ]);
            command.current_dir(own(""));
            command
        })
    }

    fn hypercorn(peers: &Path) -> Self {
        Self::told(|port| {
            let mut command = Command::new(peers.join("venv/bin/hypercorn"));
            command.args(["--log-level", "ERROR", "--bind", &format!("127.0.0.1:{port}"), "stream_h2:app"]);
            command.current_dir(own(""));
            command
        })
    }

    /// nginx before a server, as its documentation has it for WebSockets.
    fn nginx(directory: &Path, behind: u16) -> Self {
        Self::told(|port| {
            let file = directory.join("nginx.conf");
            let place = directory.display();
            let text = format!(
                "daemon off; pid {place}/pid; error_log {place}/error.log; events {{}}\n\
                 http {{ access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;\n\
                 map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}\n\
                 server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{behind};\n\
                 proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;\n\
                 proxy_set_header Connection $connection_upgrade; }} }} }}\n"
            );
            std::fs::write(&file, text).expect("a file");
            let mut command = Command::new("nginx");
            command.arg("-p").arg(directory).arg("-c").arg(&file);
            command
        })
    }

    /// `weir serve` before a server.
    fn weir(directory: &Path, behind: u16) -> Self {
        Self::told(|port| {
            let file = directory.join("weir.toml");
            let text = format!("listen = [\"127.0.0.1:{port}\"]\n[[host]]\nproxy = \"http://127.0.0.1:{behind}\"\n");
            std::fs::write(&file, text).expect("a file");
            let mut command = weir();
            command.arg("serve").arg(&file).stdout(Stdio::null());
            command
        })
    }
}

/// The report of a load, and its exit status.
fn report(arguments: &[&str], url: &str) -> (Value, Option<i32>) {
    let output = weir().args(["load", "-q", "--json"]).args(arguments).arg(url).output().expect("it runs");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output.status.code())
}

/// What holds of any server that echoes.
fn echoes(url: &str) {
    echoes_over(&[], url);
}

/// The same with more options.
fn echoes_over(options: &[&str], url: &str) {
    for arguments in [
        &["-n", "200", "-c", "5"][..],
        &["-n", "60", "--message-size", "70000", "--binary"],
        &["-n", "60", "--message-size", "5000", "--fragment", "1KB"],
        &["-n", "60", "--message-size", "0"],
        &["--rate", "200", "-d", "500ms", "-c", "4", "--message", "h\u{e4}llo \u{20ac}"],
    ] {
        let (report, code) = report(&[options, arguments, &["--answer", "echo"]].concat(), url);
        let count = arguments.get(1).and_then(|count| count.parse::<u64>().ok()).expect("a number");
        let count = if arguments[0] == "--rate" { count / 2 } else { count };
        assert_eq!((code, &report["successes"], &report["errors"]), (Some(0), &count.into(), &json!({})), "{report:#}");
        let told = &report["websocket"];
        assert_eq!((&told["pushed"], &told["not_opened"], &told["received"]), (&0.into(), &0.into(), &count.into()));
        assert_eq!(told["closes"], json!([]), "each was closed as the standard has it");
    }
}

#[test]
fn websockets_of_python_are_spoken_to() {
    let Some(peers) = peers() else { return };
    let peer = Peer::python(&peers);
    let url = |path: &str| format!("ws://127.0.0.1:{}{path}", peer.port);
    echoes(&url("/"));
    let (big, _) = report(&["-n", "10", "--message-size", "950", "--answer", "echo"], &url("/big"));
    assert_eq!((&big["successes"], &big["websocket"]["frames"]), (&10.into(), &110.into()), "{big:#}");
    let (pushy, _) = report(&["-n", "10", "--answer", "echo"], &url("/pushy"));
    assert_eq!((&pushy["successes"], &pushy["websocket"]["pushed"]), (&10.into(), &10.into()), "{pushy:#}");
    let (ping, _) = report(&["-n", "10"], &url("/ping"));
    assert_eq!((&ping["successes"], &ping["websocket"]["pings"]), (&10.into(), &10.into()), "{ping:#}");
    // It closes behind the third echo: the fourth message of a connection fails, or finds the next connection.
    let (leave, _) = report(&["-n", "20", "-c", "2"], &url("/leave"));
    assert_eq!(leave["websocket"]["closes"][0]["words"], "1001 (going away)", "{leave:#}");
    let (wrong, _) = report(&["-n", "4"], &url("/wrong"));
    assert_eq!(wrong["websocket"]["closes"][0]["words"], "4242 (of the application)", "{wrong:#}");
    let (second, _) = report(&["-n", "3", "--subprotocol", "first,second"], &url("/"));
    assert_eq!(second["successes"], 3, "{second:#}");
}

#[test]
fn websockets_of_node_are_spoken_to() {
    let Some(peers) = peers() else { return };
    let peer = Peer::node(&peers);
    // It would compress, and is not asked to.
    echoes(&format!("ws://127.0.0.1:{}/", peer.port));
}

#[test]
fn websockets_behind_nginx_and_weir_are_spoken_to() {
    let (Some(peers), Some(())) = (peers(), require::nginx()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let peer = Peer::node(&peers);
    let nginx = Peer::nginx(directory.path(), peer.port);
    echoes(&format!("ws://127.0.0.1:{}/", nginx.port));
    let proxy = Peer::weir(directory.path(), peer.port);
    echoes(&format!("ws://127.0.0.1:{}/", proxy.port));
}

#[test]
fn websockets_over_http2_are_spoken_to() {
    let Some(peers) = peers() else { return };
    let options = ["--http2", "--streams", "4"];
    let peer = Peer::hypercorn(&peers);
    echoes_over(&options, &format!("ws://127.0.0.1:{}/", peer.port));
    // One opening that is refused, and a server that opens none.
    let (refused, code) =
        report(&[&options[..], &["-n", "4", "-c", "1"]].concat(), &format!("ws://127.0.0.1:{}/no", peer.port));
    assert_eq!((code, &refused["errors"]), (Some(1), &json!({ "upgrade": 4 })), "{refused:#}");
    // Over HTTP/2 to weir serve, which passes them on over HTTP/1.1.
    let directory = tempfile::tempdir().expect("a directory");
    let node = Peer::node(&peers);
    let proxy = Peer::weir(directory.path(), node.port);
    echoes_over(&options, &format!("ws://127.0.0.1:{}/", proxy.port));
}

/// What holds of the streams, alone and behind proxies.
fn streams(port: u16) {
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let (tokens, code) = report(&["-n", "20", "-c", "4", "--stream", "--slo", "first-event p95<2s"], &url("/tokens"));
    let told = &tokens["streamed"];
    assert_eq!(
        (code, &tokens["successes"], &told["answers"]["events"]),
        (Some(0), &20.into(), &20.into()),
        "{tokens:#}"
    );
    assert_eq!((&told["events"], &told["done"], &told["unfinished"]), (&200.into(), &20.into(), &0.into()));
    let (lines, _) = report(&["-n", "10", "--stream"], &url("/lines"));
    let told = &lines["streamed"];
    assert_eq!((&told["answers"]["lines"], &told["events"]), (&10.into(), &100.into()), "{lines:#}");
    assert!(told["between_ns"]["p50"].as_u64().is_some(), "{lines:#}");
}

#[test]
fn streams_of_flask_are_told_apart() {
    let (Some(peers), Some(())) = (peers(), require::nginx()) else { return };
    let peer = Peer::gunicorn(&peers);
    streams(peer.port);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", peer.port);
    let (tokens, _) = report(&["-n", "10", "-c", "1", "--stream"], &url("/tokens"));
    let between = tokens["streamed"]["between_ns"]["p50"].as_u64().expect("times");
    assert!((9_000_000..30_000_000).contains(&between), "it pauses for 10 ms: {between}");
    let (slow, _) = report(&["-n", "5", "-c", "1", "--stream"], &url("/slow"));
    assert_eq!(slow["streamed"]["answers"]["pieces"], 5, "{slow:#}");
    let (stall, code) = report(&["-n", "2", "-c", "2", "--stream", "--between-at-most", "500ms"], &url("/stall"));
    assert_eq!((code, &stall["errors"]), (Some(1), &json!({ "stalled": 2 })), "{stall:#}");
    let (endless, code) = report(&["-n", "4", "-c", "2", "--stream", "--stream-for", "300ms"], &url("/endless"));
    assert_eq!(
        (code, &endless["successes"], &endless["streamed"]["closed"]),
        (Some(0), &4.into(), &4.into()),
        "{endless:#}"
    );
    // Behind a proxy, which buffers or not.
    let directory = tempfile::tempdir().expect("a directory");
    streams(Peer::nginx(directory.path(), peer.port).port);
    streams(Peer::weir(directory.path(), peer.port).port);
}

#[test]
fn streams_over_http2_are_told_apart() {
    let Some(peers) = peers() else { return };
    let peer = Peer::hypercorn(&peers);
    let load = |arguments: &[&str], path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", peer.port);
        report(&[&["--http2", "--streams", "5", "-c", "2", "-n", "20", "--stream"], arguments].concat(), &url).0
    };
    let whole = load(&[], "/");
    let told = &whole["streamed"];
    assert_eq!(
        (&whole["successes"], &told["events"], &told["done"]),
        (&20.into(), &200.into(), &20.into()),
        "{whole:#}"
    );
    let stalled = load(&["--between-at-most", "500ms"], "/stall");
    assert_eq!(stalled["errors"], json!({ "stalled": 20 }), "{stalled:#}");
    let endless = load(&["--stream-for", "300ms"], "/endless");
    assert_eq!((&endless["successes"], &endless["streamed"]["closed"]), (&20.into(), &20.into()), "{endless:#}");
}
