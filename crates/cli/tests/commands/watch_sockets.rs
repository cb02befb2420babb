//! `weir watch --port`: requests of servers that know nothing of weir, as their sockets and the scheduler show them.

use crate::support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use support::{alone, output, weir};
use weir_testkit::{Faulty, Nginx, require};

/// A watch whose first line has come: the probes are attached.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn begin(port: u16, args: &[&str]) -> Self {
        let mut command: Command = weir();
        command.args(["watch", "--json", "--port", &port.to_string()]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().expect("a line").expect("it is read");
        let begin: Value = serde_json::from_str(&first).expect("JSON");
        assert!(begin["type"] == "begin" && begin["version"] == 1 && begin["source"].is_string(), "{begin}");
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("it is read");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Its exit status, and what it says.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("it is read");
        (self.child.wait().expect("it ends").code(), said)
    }
}

/// Asks once, and reads until the response has come.
fn ask(client: &mut TcpStream) {
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
    let mut answer = [0; 4096];
    assert!(client.read(&mut answer).expect("an answer") > 0);
}

/// The nanoseconds of each part of a request.
fn parts(request: &Value) -> Vec<(&str, u64)> {
    let parts = request["parts"].as_array().expect("parts").iter();
    parts.map(|part| (part["part"].as_str().expect("a name"), part["ns"].as_u64().expect("a time"))).collect()
}

#[test]
fn requests_of_nginx_are_shown_with_what_their_time_went_to() {
    let _turn = alone();
    if require::root_and_bpf().and_then(|()| require::nginx()).is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let mut watch = Watch::begin(server.port, &["-n", "2", "client=127.0.0.0/8"]);
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
    let port = client.local_addr().expect("an address").port();
    ask(&mut client);
    ask(&mut client);
    for number in 1..=2 {
        let request = watch.next();
        assert!(request["type"] == "request" && request["number"] == number, "{request}");
        assert!(request["network"]["client"] == "127.0.0.1" && request["network"]["port"] == port, "{request}");
        let parts = parts(&request);
        assert!(parts.iter().any(|(part, ns)| *part == "run" && *ns > 0), "{request}");
        let sum_us = parts.iter().map(|(_, ns)| ns).sum::<u64>() / 1000;
        assert_eq!(Some(sum_us), request["whole_us"].as_u64(), "{request}");
    }
    let end = watch.next();
    assert!(end["type"] == "end" && end["why"] == "requests" && end["shown"] == 2, "{end}");
    let (status, said) = watch.end();
    assert!(status == Some(0) && said.contains("2 requests shown"), "{said}");
}

/// The client sends nothing more and keeps its connection open: that the response is over, its silence says.
#[test]
fn a_slow_request_is_shown_while_its_connection_stays_open_and_the_servers_end_is_told() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").args(["--ms", "60"]).start().expect("the server starts");
    let mut watch = Watch::begin(server.port, &["duration>30ms"]);
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
    ask(&mut client);
    let request = watch.next();
    let slept = parts(&request).into_iter().find(|(part, _)| *part == "wait_timer").map(|(_, ns)| ns);
    assert!(slept.is_some_and(|ns| ns >= 60_000_000), "{request}");
    drop(server);
    while watch.next()["type"] != "end" {}
    let (status, said) = watch.end();
    assert!(status == Some(1) && said.contains("every process of the server has ended"), "{said}");
}

#[test]
fn what_sockets_do_not_tell_is_refused() {
    for (line, words) in [
        (&["watch", "--port", "80", "host=a"][..], "sockets do not tell the host"),
        (&["watch", "--port", "80", "--show", "all"][..], "it is for weir serve"),
        (&["watch", "--port", "80", "--budget", "2048"][..], "it is for weir serve"),
        (&["watch", "--tls-port", "8444"][..], "it is for servers of any kind"),
        (&["watch", "--rung", "fentry"][..], "it is for servers of any kind"),
    ] {
        let made = output(line);
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.code() == Some(2) && said.contains(words), "{line:?}: {said}");
    }
}
