//! Answers that no runner gives.

use weir_scripts::fastcgi::{self, kind};

/// Appends a response with a status and a line for the peer's log.
pub(crate) fn write(number: u16, (status, reason): (u16, &str), line: &str, out: &mut Vec<u8>) {
    fastcgi::push(kind::STDERR, number, format!("weir script-server: {line}\n").as_bytes(), out);
    let text = format!("Status: {status} {reason}\r\nContent-Type: text/plain\r\n\r\n{status} {reason}\n");
    fastcgi::push(kind::STDOUT, number, text.as_bytes(), out);
    fastcgi::push_end(number, 0, out);
}
