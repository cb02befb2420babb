//! Upstreams of HTTP/1.1 asked by clients of HTTP/2 and HTTP/3.

use super::scripted::{Seen, secure_proxy, site, tcp};
use crate::applications::{CLEAR, secure};
use crate::harness::{Site, wait_until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_server::Timeouts;

/// Runs a client of this version with these words; false where there is none.
pub(super) fn run(version: &str, site: &Site, words: &[&str]) -> bool {
    run_case("ask.py", version, site, words)
}

/// The same of another script.
pub(super) fn run_case(case: &str, version: &str, site: &Site, words: &[&str]) -> bool {
    let (python, port) = match version {
        "h3" => match weir_testkit::require::aioquic() {
            Some(python) => (python, site.quic[0].port()),
            None => return false,
        },
        "tls" => (PathBuf::from("/usr/bin/python3"), site.addr.port()),
        _ => (PathBuf::from("/usr/bin/python3"), site.addrs[CLEAR].port()),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream_cases").join(case);
    let mut command = Command::new("timeout");
    command.arg("100").arg(python).arg(script).args([version, &port.to_string()]).args(words);
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{version} {words:?}: {}", String::from_utf8_lossy(&said));
    true
}

/// Sends bodies back, and does what the path says.
pub(super) fn upstream() -> (SocketAddr, Seen) {
    tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let goes_on = match asked.target() {
                "/echo" => {
                    let framing = asked.field("transfer-encoding").or(asked.field("content-length")).unwrap_or("none");
                    let (length, trailers) = (asked.body.len(), &asked.trailers);
                    let head = format!("X-Framing: {framing}\r\nTransfer-Encoding: chunked\r\n\r\n");
                    let body = if length == 0 {
                        Vec::new()
                    } else {
                        [format!("{length:x}\r\n").as_bytes(), &asked.body, b"\r\n"].concat()
                    };
                    let end = format!("0\r\n{trailers}\r\n");
                    peer.say(&[b"HTTP/1.1 200 OK\r\n", head.as_bytes(), &body, end.as_bytes()].concat())
                }
                "/hints" => {
                    peer.say(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
                    std::thread::sleep(Duration::from_millis(50));
                    peer.say(b"HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
                }
                "/204" => peer.say(b"HTTP/1.1 204 No Content\r\n\r\n"),
                "/304" => peer.say(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
                "/close" => {
                    peer.say(b"HTTP/1.1 200 OK\r\n\r\nhello");
                    false
                }
                "/cut" => {
                    peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
                    // The client has the head by then.
                    std::thread::sleep(Duration::from_millis(200));
                    false
                }
                "/nothing" => false,
                "/early" => peer.answer("early"),
                "/hang" => {
                    peer.rest();
                    false
                }
                _ => peer.answer(&asked.head),
            };
            if !goes_on {
                return;
            }
        }
    })
}

#[test]
fn requests_of_http2_and_http3_are_asked_and_answered() {
    for version in ["h2", "h3"] {
        let (addr, seen) = upstream();
        let site = secure_proxy(addr, ", retries = false, health = false");
        if !run(version, &site, &["all"]) {
            continue;
        }
        wait_until(|| seen.open() <= 2);
        let counts = site.stop();
        // What was cut, and what was not answered.
        assert_eq!(counts.applications_failed, 2, "{version} {counts:?}");
        assert_eq!((counts.http2_errors, counts.http2_abuses, counts.http3_errors), (0, 0, 0), "{counts:?}");
        wait_until(|| seen.open() == 0);
    }
}

#[test]
fn a_stream_that_is_taken_back_ends_its_connection_with_the_upstream_at_once() {
    for version in ["h2", "h3"] {
        let (addr, seen) = upstream();
        let site = secure_proxy(addr, ", connections = 1, queue = 0");
        if !run(version, &site, &["leave"]) {
            continue;
        }
        assert_eq!(site.counters.read().applications_cancelled, 1, "{version}");
        wait_until(|| seen.open() <= 1);
    }
}

#[test]
fn a_tunnel_passes_through_tls_with_the_end_of_each_side() {
    let (addr, seen) = super::tunnels::echoing();
    let site = secure_proxy(addr, "");
    run("tls", &site, &["tunnel"]);
    wait_until(|| seen.open() == 0);
    let counts = site.stop();
    assert_eq!((counts.applications_failed, counts.connections_broken), (0, 0), "{counts:?}");
}

/// Takes the handshake of WebSocket, and sends back what comes.
pub(super) fn websocket() -> (SocketAddr, Seen) {
    tcp(|_, mut peer| {
        let Some(head) = peer.head() else { return };
        if head.contains(" /refused ") {
            peer.say(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            return;
        }
        if head.contains(" /ignored ") {
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
            return;
        }
        assert!(head.starts_with("GET /chat HTTP/1.1\r\n") && head.contains("Upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("Sec-WebSocket-Key: "), "{head}");
        std::thread::sleep(Duration::from_millis(if head.to_ascii_lowercase().contains("x-slow: ") {
            2500
        } else {
            100
        }));
        peer.say(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n");
        peer.say(b"Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello");
        loop {
            let some = peer.some();
            if some.is_empty() || some.ends_with(b"bye") {
                peer.say(b"end");
                return;
            }
            peer.say(&some);
        }
    })
}

#[test]
fn a_websocket_of_http2_and_http3_reaches_an_upstream_of_http1() {
    for version in ["h2", "h3"] {
        websocket_of(version);
    }
}

fn websocket_of(version: &str) {
    let (addr, seen) = websocket();
    let text = format!("proxy = {{ to = \"http://{addr}\", retries = false, health = false }}");
    let site = site(&text, |options| {
        secure(options);
        // A client that asks for a tunnel owes no body.
        options.timeouts = Timeouts { body: Duration::from_secs(1), ..Timeouts::default() };
    });
    run(version, &site, &["websocket"]);
    wait_until(|| seen.open() == 0);
    let counts = site.stop();
    assert_eq!((counts.http2_errors, counts.http2_abuses), (0, 0), "{counts:?}");
    assert_eq!((counts.http3_errors, counts.http3_abuses), (0, 0), "{counts:?}");
}
