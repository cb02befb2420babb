//! Requests that name the trace they belong to: their spans stand below their callers', where reading heads is allowed.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use support::planted::{Beside, wait_for};
use support::recording::attached;
use support::{alone, output};
use weir_testkit::{Certificate, Nginx, Site, free_port, require};

/// A thread for each connection; a millisecond for each request.
const SERVER: &str = "#!/usr/bin/python3
import socket, sys, threading, time
server = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=64)
def one(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while client.recv(4096):
        time.sleep(0.001)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
while True:
    client, _ = server.accept()
    threading.Thread(target=one, args=(client,), daemon=True).start()
";

const REQUESTS: usize = 60;

/// The field of a request, where it has one: each other request, over each of the connections.
fn field(number: usize) -> Option<(String, String)> {
    (number % 4 < 2).then(|| (format!("{:032x}", 0xabc_0000 + number), format!("{:016x}", 0xdef_0000 + number)))
}

/// Asks one request after the other, over two connections in turn.
fn ask(port: u16) {
    let mut connections = [(); 2].map(|()| TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
    for number in 0..REQUESTS {
        let connection = &mut connections[number % 2];
        let field = field(number).map(|(trace, span)| format!("Traceparent: 00-{trace}-{span}-01\r\n"));
        let head =
            format!("GET /{number} HTTP/1.1\r\nHost: h\r\nCookie: id=very-secret\r\n{}\r\n", field.unwrap_or_default());
        connection.write_all(head.as_bytes()).expect("asked");
        let mut answer = [0; 200];
        assert!(connection.read(&mut answer).expect("answered") > 0);
    }
}

/// Records while these requests are asked; the spans of the requests, in the order of time, with those of their parts.
fn spans(port: u16, run: &Path, options: &[&str], ask: impl FnOnce()) -> Vec<(Value, Vec<Value>)> {
    let (port_text, run_text) = (port.to_string(), run.to_str().expect("a readable path"));
    let recording = attached(&[&["--port", &port_text, "-d", "1s", "--run", run_text], options].concat());
    ask();
    let (status, said) = recording.end();
    assert!(status.success(), "{said}");
    let file = run.join("spans.jsonl");
    let explained = output(&["explain", "--otlp", file.to_str().expect("a readable path"), run_text]);
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let told: Value = serde_json::from_slice(&fs::read(&file).expect("spans")).expect("JSON");
    let all = told.pointer("/resourceSpans/0/scopeSpans/0/spans").and_then(Value::as_array).expect("spans").clone();
    let (mut roots, parts): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|span| span["kind"] == 2);
    roots.sort_by_key(|span| span["startTimeUnixNano"].as_str().and_then(|ns| ns.parse::<u64>().ok()));
    let of = |root: &Value| parts.iter().filter(|part| part["parentSpanId"] == root["spanId"]).cloned().collect();
    roots.into_iter().map(|root| (of(&root), root)).map(|(parts, root)| (root, parts)).collect()
}

#[test]
fn a_requests_own_trace_is_gone_on_with() {
    let _turn = alone();
    if require::socket_tracepoints().is_none() || require::program("python3").is_none() {
        return;
    }
    let site = Site::empty().expect("a directory");
    site.write_program("traced-server", SERVER.as_bytes()).expect("the server");
    let port = free_port();
    let _server = Beside::start(&site.path().join("traced-server"), &[&port.to_string()]);
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    let run = site.path().join("run");
    let told = spans(port, &run, &["--trace-headers"], || ask(port));
    assert_eq!(told.len(), REQUESTS, "each request is told");
    for (number, (root, parts)) in told.iter().enumerate() {
        match field(number) {
            Some((trace, span)) => {
                assert_eq!((root["traceId"].as_str(), root["parentSpanId"].as_str()), (Some(&*trace), Some(&*span)));
            }
            None => assert!(root["parentSpanId"].is_null(), "request {number} names no trace: {root:#}"),
        }
        assert!(!parts.is_empty() && parts.iter().all(|part| part["traceId"] == root["traceId"]), "{number}");
    }
    // Nothing else of a head is kept, nor are pieces of it: those that are copied have eight bytes.
    let secret: Vec<&[u8]> = b"very-secret".windows(4).collect();
    for file in fs::read_dir(run.join("segments")).expect("segments").flatten() {
        let bytes = fs::read(file.path()).expect("a segment");
        assert!(!bytes.windows(4).any(|some| secret.contains(&some)), "{}", file.path().display());
    }
    let told = spans(port, &site.path().join("without"), &[], || ask(port));
    assert!(told.len() == REQUESTS && told.iter().all(|(root, _)| root["parentSpanId"].is_null()));
}

/// Asks over one connection, one request after the other, each for a path of its own.
fn curl(url: &str, version: &str, numbers: std::ops::Range<usize>) {
    let mut command = Command::new("curl");
    let first = numbers.start;
    for number in numbers {
        if number > first {
            command.arg("--next");
        }
        command.args(["-s", "--insecure", version, "-H", "Cookie: id=very-secret"]);
        if let Some((trace, span)) = field(number) {
            command.args(["-H", &format!("traceparent: 00-{trace}-{span}-01")]);
        }
        command.arg(format!("{url}t{number}"));
    }
    assert!(command.stdout(Stdio::null()).status().is_ok_and(|status| status.success()), "curl asks");
}

/// Over TLS, by HTTP/2 and by HTTP/1.1.
#[test]
fn traces_are_gone_on_with_over_tls() {
    let _turn = alone();
    if require::socket_tracepoints().is_none()
        || require::nginx().is_none()
        || require::program("openssl").is_none()
        || require::program("curl").is_none()
    {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = Nginx::new().tls(&certificate).http2().start().expect("nginx starts");
    let folder = Site::empty().expect("a directory");
    let run = folder.path().join("run");
    let told = spans(server.port, &run, &["--trace-headers"], || {
        curl(&server.url("/"), "--http2", 0..20);
        curl(&server.url("/"), "--http1.1", 20..40);
    });
    for number in 0..40 {
        let name = format!("GET /t{number}");
        let (root, _) =
            told.iter().find(|(root, _)| root["name"] == *name).unwrap_or_else(|| panic!("{name}: {told:#?}"));
        let (trace, span) = field(number).unzip();
        assert_eq!(root["parentSpanId"].as_str(), span.as_deref(), "{root:#}");
        assert!(trace.is_none() || root["traceId"].as_str() == trace.as_deref(), "{root:#}");
    }
    let secret: Vec<&[u8]> = b"very-secret".windows(4).collect();
    for file in fs::read_dir(run.join("segments")).expect("segments").flatten() {
        let bytes = fs::read(file.path()).expect("a segment");
        assert!(!bytes.windows(4).any(|some| secret.contains(&some)), "{}", file.path().display());
    }
}
