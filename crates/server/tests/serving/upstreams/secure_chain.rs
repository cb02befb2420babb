//! Two of these servers, one behind the other over HTTP/2: what clients of any version ask passes both.

use super::scripted::{proxy, secure_proxy, site};
use super::versions::{run, upstream, websocket};
use crate::applications::{CLEAR, secure};
use crate::harness::{Site, wait_until};

/// A site that asks another one over HTTP/2, in the clear or over TLS.
fn before(behind: &Site, is_secure: bool, settings: &str) -> Site {
    let to = if is_secure {
        let ca = behind.directory.path().with_extension("certificates").join("localhost.pem");
        let port = behind.addr.port();
        format!("to = \"https://127.0.0.1:{port}\", server_name = \"localhost\", ca = \"{}\"", ca.display())
    } else {
        format!("to = \"h2c://{}\"", behind.addrs[CLEAR])
    };
    site(&format!("proxy = {{ {to}, retries = false, health = false{settings} }}"), secure)
}

#[test]
fn requests_of_every_framing_pass_over_http2() {
    for is_secure in [true, false] {
        let (addr, seen) = upstream();
        let behind = secure_proxy(addr, ", retries = false, health = false");
        let site = before(&behind, is_secure, "");
        for version in ["h2", "h3"] {
            run(version, &site, &["all"]);
        }
        drop(site);
        let counts = behind.stop();
        assert_eq!((counts.http2_errors, counts.http2_abuses), (0, 0), "{counts:?}");
        wait_until(|| seen.open() == 0);
    }
}

#[test]
fn websockets_of_both_versions_pass_over_http2() {
    let (addr, seen) = websocket();
    let behind = secure_proxy(addr, ", retries = false, health = false");
    for is_secure in [true, false] {
        let site = before(&behind, is_secure, "");
        run("h2", &site, &["websocket"]);
    }
    wait_until(|| seen.open() == 0);
    let counts = behind.stop();
    assert_eq!((counts.http2_errors, counts.http2_abuses), (0, 0), "{counts:?}");
}

#[test]
fn one_connection_carries_the_requests_of_a_loop() {
    let behind = Site::start(&[("a.txt", b"hello")], |_| {});
    let site = proxy(behind.addr, ", protocol = \"2\"");
    let clients: Vec<_> = (0..20).map(|_| super::scripted::Client::new(site.addr)).collect();
    for mut client in clients {
        for _ in 0..5 {
            assert_eq!(client.get("/a.txt").text(), "hello");
        }
    }
    let counts = behind.stop();
    assert_eq!((counts.connections, counts.requests), (1, 100), "{counts:?}");
}
