//! A real `weir console` that is asked as its page asks it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use weir_testkit::client::Connection;

/// A console that ends with the test.
pub(crate) struct Consoled {
    child: Child,
    port: u16,
    path: String,
}

impl Consoled {
    /// Starts one; the command has its arguments.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("weir starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.split(' ').find_map(|word| word.strip_prefix("http://127.0.0.1:")).expect("its address");
        let (port, path) = address.split_once('/').expect("a path");
        Self { child, port: port.parse().expect("a port"), path: format!("/{path}") }
    }

    /// Status and answer of a request.
    pub(crate) fn asked(&self, method: &str, call: &str) -> (u16, Value) {
        let request = format!(
            "{method} {}api/1/{call} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Weir-Console: 1\r\nContent-Length: 0\r\n\r\n",
            self.path, self.port
        );
        let reply = Connection::open(self.port).and_then(|mut open| open.exchange(request.as_bytes()));
        let reply = reply.expect("an answer");
        (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
    }

    /// The answer of a call that must succeed.
    pub(crate) fn told(&self, call: &str) -> Value {
        let (status, told) = self.asked("GET", call);
        assert_eq!(status, 200, "{call}: {told}");
        told
    }

    /// A call that must be refused in such words.
    pub(crate) fn refuses(&self, call: &str, status: u16, words: &str) {
        let (answered, told) = self.asked("GET", call);
        let error = told["error"].as_str().unwrap_or_default();
        assert!(answered == status && error.contains(words), "{call}: {answered} {told}");
    }
}

impl Drop for Consoled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
