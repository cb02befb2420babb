//! `weir load` of streamed answers and WebSockets: its screen, its report, its exit status, and what it refuses.

use crate::support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::time::Duration;
use support::weir;
use weir_testkit::websocket::Echo;

/// A server that answers each request by three events, 20 ms apart. It ends with the test's process.
fn streaming() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    let head =
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                    let _ = stream.write_all(head.as_bytes());
                    for _ in 0..3 {
                        std::thread::sleep(Duration::from_millis(20));
                        let _ = stream.write_all(b"9\r\ndata: x\n\n\r\n");
                    }
                    let _ = stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
                }
            });
        }
    });
    address
}

fn load(arguments: &[&str], url: &str) -> Output {
    weir().args(["load", "-q"]).args(arguments).arg(url).output().expect("it runs")
}

fn json_of(arguments: &[&str], url: &str) -> (Value, Option<i32>) {
    let output = load(&[&["--json"], arguments].concat(), url);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output.status.code())
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn events_are_on_the_screen_in_the_report_and_in_objectives() {
    let url = format!("http://{}/", streaming());
    let text = text_of(&load(&["-n", "4", "-c", "2", "--stream"], &url));
    for word in ["streamed answers", "  streams    4 of events", "3.0 an answer (3 to 3)", "  first event", "  between"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let (report, code) = json_of(
        &[
            "-n",
            "4",
            "--stream",
            "--slo",
            "first-event p95<10s",
            "--slo",
            "between p99<2ms",
            "--slo",
            "between max<10s",
        ],
        &url,
    );
    assert_eq!((code, &report["streamed"]["events"], &report["streamed"]["done"]), (Some(3), &12.into(), &4.into()));
    let met: Vec<_> = report["objectives"].as_array().expect("three").iter().map(|one| one["met"].clone()).collect();
    assert_eq!(met, [json!(true), json!(false), json!(true)], "{report:#}");
    assert_eq!(report["objectives"][1]["requests"], 8, "times between events, not requests");
    let first = report["streamed"]["first_event_ns"]["min"].as_u64().expect("times");
    assert!(first >= 20_000_000, "{first}");
    assert!(report["streams"].is_null(), "the streams of a connection of HTTP/2, which this is not");
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let output = load(&["-n", "2", "--stream", "--html", page.to_str().expect("a path")], &url);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("<dt>Streams</dt><dd>streams 2 of events; events 6 "), "its events");
    assert!(page.contains("first event p50"), "and their times");
}

#[test]
fn messages_are_on_the_screen_and_in_the_report() {
    let server = Echo::start("127.0.0.1:0".parse().expect("an address")).expect("it listens");
    let url = format!("ws://{}/chat", server.addr());
    let text = text_of(&load(&["-n", "20", "-c", "2", "--message-size", "1KB"], &url));
    for word in
        [&url[..], "texts of 1,000 B over WebSockets", "  messages             20   sent, 20 came", "  handshake"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("status"), "messages have none: {text}");
    let rate = ["--rate", "200", "-d", "300ms", "-c", "3", "--binary", "--answer", "echo", "--slo", "p99<10s"];
    let (report, code) = json_of(&rate, &url);
    assert_eq!((code, &report["successes"], &report["websocket"]["pushed"]), (Some(0), &60.into(), &0.into()));
    assert_eq!(report["websocket"]["sent_bytes"], 300, "{report:#}");
    // Where there is no WebSocket, the reason stands on the screen.
    let plain = streaming();
    let output = load(&["-n", "2"], &format!("ws://{plain}/"));
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("2 upgrade: the answer to the upgrade has the status 200, not 101"), "{text}");
}

#[test]
fn what_has_no_effect_is_refused_with_a_reason() {
    for (arguments, words) in [
        (&["--message", "x", "http://h/"][..], "needs the URL of a WebSocket"),
        (&["--http3", "wss://h/"], "leave it out"),
        (&["--stream", "ws://h/"], "leave it out"),
        (&["--check", "status=200", "ws://h/"], "leave it out"),
        (&["--slo", "between p99<1s", "http://h/"], "with --stream only"),
        (&["--stream", "--slo", "GET /: first-event p99<1s", "http://h/"], "of all requests"),
        (&["--stream", "--pipeline", "2", "http://h/"], "pipeline"),
        (&["--stream", "--stream-for", "1m", "http://h/"], "raise the timeout"),
        (&["--stream", "--io", "io_uring", "http://h/"], "io_uring"),
        (&["--message-file", "/nowhere", "ws://h/"], "cannot read /nowhere"),
        (&["-H", "Sec-WebSocket-Protocol: x", "ws://h/"], "subprotocols have an option"),
        (&["--subprotocol", "a b", "ws://h/"], "subprotocol"),
        (&["--make-fileset", "surge", "d", "--stream"], "--stream"),
    ] {
        let output = weir().arg("load").args(arguments).output().expect("it runs");
        let said = text_of(&output);
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
}
