//! A server stops under load: it completes the response to every request that it has taken up, in every version of
//! HTTP.

use crate::harness;

use harness::{Reply, Site, certificate};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn what_was_begun_is_answered_over_connections_that_stay() {
    let body = vec![7; 30_000];
    let site = Site::start(&[("a.bin", &body)], |options| options.loops = 2);
    let answered = AtomicU64::new(0);
    let counters = site.counters.clone();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut stream = site.connect();
                let mut said_goodbye = false;
                while !said_goodbye && stream.write_all(b"GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n").is_ok() {
                    let mut received = Vec::new();
                    let mut piece = vec![0; 64 << 10];
                    let is_whole = |received: &[u8]| {
                        received.windows(4).any(|four| four == b"\r\n\r\n")
                            && Reply::parse(received).0.body.len() == body.len()
                    };
                    while !is_whole(&received) {
                        match stream.read(&mut piece) {
                            // Between two responses, so that the request may be sent again elsewhere.
                            Ok(0) | Err(_) => {
                                assert!(received.is_empty(), "a part of a response: {} bytes", received.len());
                                return;
                            }
                            Ok(read) => received.extend_from_slice(&piece[..read]),
                        }
                    }
                    let reply = Reply::parse(&received).0;
                    assert!(reply.status == 200 && reply.body == body);
                    said_goodbye = reply.field("connection") == Some("close");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        harness::wait_until(|| answered.load(Ordering::Relaxed) > 2000);
        site.begin_stop();
    });
    let counts = site.stop();
    assert_eq!(counts, counters.read());
    assert_eq!(counts.requests, answered.load(Ordering::Relaxed), "every response arrived");
    assert_eq!((counts.connections_broken, counts.stop_aborted, counts.timeouts), (0, 0, 0), "{counts:?}");
}

/// Equal counts at both ends do not show a request that the server refuses or never sees, so the client counts what
/// fails.
#[test]
fn nothing_fails_that_was_asked_before_the_client_heard_of_the_end() {
    const BYTES: usize = 3000;
    let certificates = tempfile::tempdir().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_cases/busy.py");
    for is_secure in [false, true] {
        let site = Site::start(&[("a.bin", &[7; BYTES])], |options| {
            options.loops = 2;
            if is_secure {
                options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
            }
        });
        let (port, how) = (site.addr.port().to_string(), if is_secure { "secure" } else { "clear" });
        let clients = Command::new("timeout")
            .args(["60", "/usr/bin/python3"])
            .arg(&script)
            .args([&port, how, "4", "20", &BYTES.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        harness::wait_until(|| site.counters.read().requests > 500);
        let counts = site.stop();
        let told = clients.wait_with_output().expect("it ends");
        let wrong = String::from_utf8_lossy(&told.stderr);
        let told = String::from_utf8_lossy(&told.stdout);
        assert_eq!(told, format!("{} asked, 0 failed\n", counts.requests), "{how}: {wrong}; {counts:?}");
        assert_eq!((counts.connections_broken, counts.stop_aborted, counts.http2_errors), (0, 0, 0), "{counts:?}");
    }
}

#[test]
fn what_was_begun_is_answered_over_tls_and_http_2() {
    let certificates = tempfile::tempdir().expect("a directory");
    for is_secure in [false, true] {
        let site = Site::start(&[("a.bin", &[7; 30_000])], |options| {
            options.loops = 2;
            if is_secure {
                options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
            }
        });
        let url = format!("{}://{}/a.bin", if is_secure { "https" } else { "http" }, site.addr);
        let load = Command::new("timeout")
            .args(["120", "h2load", "-n", "10000000", "-c", "8", "-m", "20", &url])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("h2load starts; `make deps` installs it");
        harness::wait_until(|| site.counters.read().requests > 3000);
        let counts = site.stop();
        let told = load.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&told.stdout);
        let line = told.lines().find(|line| line.starts_with("requests:")).unwrap_or_else(|| panic!("{told}"));
        let succeeded = line.split(',').find(|part| part.contains("succeeded"));
        let succeeded = succeeded.and_then(|part| part.trim().split(' ').next()?.parse::<u64>().ok());
        assert_eq!(succeeded, Some(counts.requests), "TLS {is_secure}: {line}; {counts:?}");
        assert_eq!((counts.connections_broken, counts.stop_aborted, counts.http2_errors), (0, 0, 0), "{counts:?}");
    }
}
