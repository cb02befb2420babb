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
    fn end_of_head(self) -> &'static [u8] {
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
    out.extend_from_slice(persistence.end_of_head());
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

/// The reason phrase of a status that this server sends.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
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
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}
