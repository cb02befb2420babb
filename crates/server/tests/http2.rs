//! HTTP/2 against other implementations: hyperframe and hpack for each frame and each error, h2, nghttp, h2load and
//! curl as clients.
// scripts/test: loads

mod harness;

use harness::{Site, certificate};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const PYTHON: &str = "/usr/bin/python3";

fn site() -> Site {
    let large: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |_| {})
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg("120").arg(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; `make deps` installs what the tests need"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_frame_and_every_error_is_as_the_standard_has_it() {
    let site = site();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_cases/frames.py");
    let output = run(PYTHON, &[script.to_str().expect("UTF-8"), &site.addr.port().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    let counts = site.stop();
    assert!(counts.http2_errors > 40 && counts.http2_abuses >= 9, "{counts:?}");
}

#[test]
fn a_strict_state_machine_finds_nothing_wrong() {
    let site = site();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_cases/h2_client.py");
    let output = run(PYTHON, &[script.to_str().expect("UTF-8"), &site.addr.port().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    let counts = site.stop();
    assert_eq!((counts.http2_errors, counts.http2_abuses, counts.http2_streams_broken), (0, 0, 0), "{counts:?}");
}

/// The same over TLS.
fn secure_site() -> Site {
    let large: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let huge: Vec<u8> = (0..3_900_000_u32).map(|i| (i % 253) as u8).collect();
    Site::start(&[("a.txt", b"hello"), ("large.bin", &large), ("huge.bin", &huge)], |options| {
        // Beside the directory that is served.
        let directory = options.root.with_extension("certificates");
        std::fs::create_dir_all(&directory).expect("creates");
        options.certificates = vec![certificate::make(&directory, "localhost", &["localhost"])];
        // So that one file is sent from memory and one from its descriptor.
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    })
}

#[test]
fn clients_of_others_are_served_over_tls_and_in_the_clear() {
    let site = secure_site();
    for (url, how) in [
        (format!("https://localhost:{}", site.addr.port()), "--http2"),
        (format!("http://localhost:{}", site.addrs[1].port()), "--http2-prior-knowledge"),
    ] {
        for file in ["a.txt", "large.bin", "huge.bin"] {
            let received = site.directory.path().join("received");
            let (target, to) = (format!("{url}/{file}"), received.to_str().expect("UTF-8"));
            let output = run("curl", &["-sSfk", how, "-w", "%{http_version}", "-o", to, &target]);
            assert_eq!(text(&output), "2", "{target}");
            let sent = std::fs::read(site.directory.path().join(file)).expect("reads");
            assert!(std::fs::read(&received).expect("reads") == sent, "{target}");
        }
        let output = run("nghttp", &["-nv", "--no-verify-peer", &format!("{url}/a.txt"), &format!("{url}/none")]);
        let told = text(&output);
        assert!(told.contains(":status: 200") && told.contains(":status: 404"), "{told}");
        let output =
            run("h2load", &["-n", "5000", "-c", "7", "-m", "50", &format!("{url}/a.txt"), &format!("{url}/large.bin")]);
        assert!(text(&output).contains("5000 succeeded, 0 failed, 0 errored, 0 timeout"), "{}", text(&output));
    }
    let counts = site.stop();
    assert!(counts.http2_connections >= 22 && counts.http2_errors == 0 && counts.http2_abuses == 0, "{counts:?}");
}

#[test]
fn a_stop_lets_streams_end() {
    let huge = vec![7; 20_000_000];
    let site = Site::start(&[("huge.bin", &huge)], |_| {});
    let url = format!("http://{}/huge.bin", site.addr);
    let received = site.directory.path().join("received");
    let curl = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "--limit-rate", "10M", "-o"])
        .args([received.as_os_str(), url.as_ref()])
        .spawn();
    let mut curl = curl.expect("curl starts");
    harness::wait_until(|| site.counters.read().bytes_sent > 100_000);
    let counts = site.stop();
    assert!(curl.wait().expect("curl ends").success());
    assert_eq!(counts.stop_aborted, 0);
}

#[test]
fn a_stop_takes_no_request_from_anybody() {
    let site = site();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_cases/farewell.py");
    let client = Command::new("timeout")
        .args(["60", PYTHON])
        .arg(script)
        .arg(site.addr.port().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut client = client.expect("it starts");
    let (mut line, mut told) = (String::new(), String::new());
    BufReader::new(client.stdout.take().expect("piped")).read_line(&mut line).expect("it says so");
    let counts = site.stop();
    let is_well = client.wait().expect("it ends").success();
    client.stderr.take().expect("piped").read_to_string(&mut told).expect("reads");
    assert!(line == "ready\n" && is_well, "{line}{told}");
    assert_eq!((counts.requests, counts.connections_broken, counts.stop_aborted), (5, 0, 0), "{counts:?}");
    assert_eq!((counts.http2_errors, counts.http2_abuses, counts.timeouts), (0, 0, 0), "{counts:?}");
}

#[test]
fn clients_that_go_silent_are_forgotten() {
    const BORNE: Duration = Duration::from_millis(700);
    let large: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| {
        options.timeouts.idle = BORNE;
        options.timeouts.stall = BORNE;
        options.timeouts.body = BORNE;
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_cases/silent.py");
    let (port, borne) = (site.addr.port().to_string(), BORNE.as_secs_f64().to_string());
    let output = run(PYTHON, &[script.to_str().expect("UTF-8"), &port, &borne]);
    assert!(output.status.success(), "{}", text(&output));
    let counts = site.stop();
    assert_eq!((counts.timeouts, counts.http2_errors, counts.http2_abuses), (3, 0, 0), "{counts:?}");
}

#[test]
fn a_body_that_does_not_come_ends_the_connection() {
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.timeouts.body = Duration::from_millis(200);
    });
    let mut stream = site.connect();
    // A POST whose body never comes, after the preface and empty settings.
    let fields = b"\x83\x86\x84\x01\x01a";
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x04\0\0\0\x01".to_vec();
    request.extend_from_slice(fields);
    std::io::Write::write_all(&mut stream, &request).expect("sends");
    let received = harness::read_to_end(&mut stream);
    // The last frame is GOAWAY of 8 bytes.
    assert_eq!(received[received.len() - 17..received.len() - 13], [0, 0, 8, 7], "{received:?}");
    assert_eq!(site.stop().timeouts, 1);
}
