//! The bytes of a call, in the order of the original.

use super::arguments::Arguments;

/// What all calls have in common.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    http_version: String,
    /// The method for all calls, where one was given.
    method: Option<String>,
    host: Option<String>,
    no_host: bool,
    headers: Vec<u8>,
}

/// One call, before it is bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// Its serial number, from 0.
    pub(super) number: u64,
    pub(super) uri: String,
    method: String,
    content: Vec<u8>,
}

/// The bytes of a call: the head and all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) all: Vec<u8>,
    pub(super) head_bytes: usize,
}

impl Call {
    pub(super) fn get(number: u64, uri: String) -> Self {
        Self { number, uri, method: "GET".to_owned(), content: Vec::new() }
    }

    pub(super) fn with(number: u64, uri: String, method: String, content: Vec<u8>) -> Self {
        Self { number, uri, method, content }
    }
}

impl Calls {
    /// `headers` are those that are added to each call.
    pub(super) fn new(arguments: &Arguments, headers: Vec<u8>) -> Self {
        Self {
            http_version: arguments.http_version.clone(),
            method: arguments.method.clone(),
            host: arguments.server_name.clone(),
            no_host: arguments.no_host,
            headers,
        }
    }

    /// Whether each call has a connection of its own, which the client closes.
    pub(super) fn is_old(&self) -> bool {
        self.http_version == "1.0"
    }

    /// Whether the reply has no content although its head may announce some.
    pub(super) fn is_head(&self, call: &Call) -> bool {
        self.method.as_ref().unwrap_or(&call.method) == "HEAD"
    }

    /// The bytes that go to a server, with the session's cookie.
    pub(super) fn bytes(&self, call: &Call, server: &str, cookie: Option<&[u8]>) -> Bytes {
        let method = self.method.as_ref().unwrap_or(&call.method);
        // Its name too: other bytes would get other answers from some servers.
        let mut head =
            format!("{method} {} HTTP/{}\r\nUser-Agent: httperf/0.9.0\r\n", call.uri, self.http_version).into_bytes();
        if self.is_old() {
            head.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        if !self.no_host {
            head.extend_from_slice(format!("Host: {}\r\n", self.host.as_deref().unwrap_or(server)).as_bytes());
        }
        head.extend_from_slice(&self.headers);
        if !call.content.is_empty() {
            head.extend_from_slice(format!("Content-length: {}\r\n", call.content.len()).as_bytes());
        }
        if let Some(cookie) = cookie {
            head.extend_from_slice(b"Cookie: ");
            head.extend_from_slice(cookie);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let head_bytes = head.len();
        head.extend_from_slice(&call.content);
        Bytes { all: head, head_bytes }
    }
}
