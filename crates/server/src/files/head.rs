//! Response heads.

use crate::files::resource::Resource;
use crate::io::clock::Clock;

/// What a response says about the connection after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It stays open, as HTTP/1.1 has it without a word.
    Stays,
    /// It stays open, which an HTTP/1.0 client must be told.
    StaysForOld,
    /// It closes.
    Closes,
}

impl Persistence {
    pub(crate) fn of(minor: u8, stays: bool) -> Self {
        match (stays, minor) {
            (false, _) => Self::Closes,
            (true, 0) => Self::StaysForOld,
            (true, _) => Self::Stays,
        }
    }

    /// The Connection field, if any, and the end of the head.
    pub(crate) fn end_of_head(self) -> &'static [u8] {
        match self {
            Self::Stays => b"\r\n",
            Self::StaysForOld => b"Connection: keep-alive\r\n\r\n",
            Self::Closes => b"Connection: close\r\n\r\n",
        }
    }
}

/// The head of a response with the whole content: copies only, nothing is formatted.
pub(crate) fn whole(out: &mut Vec<u8>, resource: &Resource, clock: &Clock, persistence: Persistence) {
    out.extend_from_slice(&clock.ok_and_date);
    out.extend_from_slice(&resource.fields);
    match persistence {
        // Two bytes that are known here are one move, and no call.
        Persistence::Stays => out.extend_from_slice(b"\r\n"),
        _ => out.extend_from_slice(persistence.end_of_head()),
    }
}

/// Any other head: the status, then `fields`, each with its line end.
pub(crate) fn other(out: &mut Vec<u8>, status: u16, fields: &[&[u8]], clock: &Clock, persistence: Persistence) {
    out.extend_from_slice(format!("HTTP/1.1 {status} {}\r\n", reason(status)).as_bytes());
    out.extend_from_slice(&clock.server_and_date);
    for field in fields {
        out.extend_from_slice(field);
    }
    out.extend_from_slice(persistence.end_of_head());
}

/// The head of another server's response: what it says of itself and of its date stays.
pub(crate) fn relayed(out: &mut Vec<u8>, status: u16, fields: &[&[u8]], clock: &Clock, persistence: Persistence) {
    let says = |name: &[u8]| fields.iter().any(|lines| has_field(lines, name));
    match (status, says(b"Date"), says(b"Server")) {
        (200, false, false) => out.extend_from_slice(&clock.ok_and_date),
        (_, has_date, has_server) => {
            status_line(out, status);
            if !has_server {
                out.extend_from_slice(clock.server());
            }
            if !has_date {
                out.extend_from_slice(clock.date());
            }
        }
    }
    for field in fields {
        out.extend_from_slice(field);
    }
    out.extend_from_slice(persistence.end_of_head());
}

/// The head behind which a connection is something else (RFC 9110 section 7.8); the fields say what.
pub(crate) fn switch(out: &mut Vec<u8>, status: u16, fields: &[&[u8]]) {
    status_line(out, status);
    fields.iter().for_each(|field| out.extend_from_slice(field));
    out.extend_from_slice(b"\r\n");
}

/// An interim response (RFC 9110 section 15.2).
pub(crate) fn interim(out: &mut Vec<u8>, status: u16, fields: &[u8]) {
    switch(out, status, &[fields]);
}

fn status_line(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    let digits = [status / 100 % 10, status / 10 % 10, status % 10];
    out.extend(digits.map(|digit| b'0' + digit as u8));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Whether lines of fields have one of this name.
fn has_field(lines: &[u8], name: &[u8]) -> bool {
    let is_it = |line: &[u8]| line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
    let mut at = 0;
    while at < lines.len() {
        if is_it(&lines[at..]) {
            return true;
        }
        at = memchr::memchr(b'\n', &lines[at..]).map_or(lines.len(), |end| at + end + 1);
    }
    false
}

/// The reason phrase of a status that this server sends or passes on (RFC 9110 section 15, and the registry).
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        402 => "Payment Required",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}
