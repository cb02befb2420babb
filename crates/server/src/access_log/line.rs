//! One line: written when a response begins, but for what is known at its end.

use super::format::{Format, LATE_MAX, Late, Piece};
use crate::clock::Clock;
use crate::front::host_counts::HostCounts;
use crate::options::AccessLog;
use crate::request::Request;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a request line, referrer or user agent that are logged.
const TEXT_BYTES_MAX: usize = 1024;

/// A line that lacks what is known only when the response has been sent.
#[derive(Debug, Default)]
pub(crate) struct LogLine {
    pub(super) text: Vec<u8>,
    late: [(u32, Late); LATE_MAX],
    late_count: u8,
    began: Option<Instant>,
    /// The user that was let in; empty = nobody's.
    pub(crate) user: String,
    /// The host that answers.
    pub(crate) host: Option<Arc<HostCounts>>,
}

impl LogLine {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.user.clear();
        self.host = None;
    }

    /// Writes everything that is known when a response begins. Without a request its head was unreadable.
    pub(super) fn begin(
        &mut self,
        (options, format): (&AccessLog, &Format),
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        self.text.clear();
        self.began = format.has_duration().then(Instant::now);
        let mut out = Out { bytes: &mut self.text, is_json: format.is_json, queries: options.queries };
        self.late_count = 0;
        for piece in &format.pieces {
            match piece {
                Piece::Text(text) => text.write(out.bytes),
                Piece::Client => out.client(if options.addresses { peer } else { network(peer) }),
                Piece::User => out.text(Some(self.user.as_bytes()).filter(|user| !user.is_empty())),
                Piece::Time => out.bytes.extend_from_slice(&clock.log_time),
                Piece::Rfc3339 => out.bytes.extend_from_slice(&clock.rfc3339),
                Piece::Seconds => decimal(clock.unix_s, out.bytes),
                Piece::Line => match request {
                    Some(request) => {
                        escape(request.method_text.as_bytes(), out.bytes);
                        out.bytes.push(b' ');
                        out.address(request.target.as_bytes());
                        out.bytes.push(b' ');
                        out.bytes.extend_from_slice(request.version().as_bytes());
                    }
                    None => out.bytes.push(b'-'),
                },
                Piece::Method => out.text(request.map(|request| request.method_text.as_bytes())),
                Piece::Path => out.text(request.map(|request| parts(request.target).0)),
                Piece::Query => {
                    let query = request.map(|request| parts(request.target).1).unwrap_or_default();
                    let query = if query.is_empty() || options.queries { query } else { b"?-" };
                    escape(query, out.bytes);
                }
                Piece::Target => out.quoted_address(request.map(|request| request.target.as_bytes())),
                Piece::Protocol => out.text(request.map(|request| request.version().as_bytes())),
                Piece::Status => decimal(u64::from(status), out.bytes),
                Piece::Host => out.text(self.host.as_ref().map(|host| host.name.as_bytes())),
                Piece::AskedHost => out.text(request.and_then(|request| request.host)),
                Piece::Referrer => out.quoted_address(request.and_then(|request| request.referrer)),
                Piece::UserAgent => out.text(request.and_then(|request| request.user_agent)),
                Piece::Late(what) => {
                    // A format has no more of them than places.
                    if let Some(place) = self.late.get_mut(usize::from(self.late_count)) {
                        *place = (out.bytes.len() as u32, *what);
                        self.late_count += 1;
                    }
                }
            }
        }
        self.text.push(b'\n');
    }

    /// Appends the whole line.
    pub(super) fn end(&self, body_bytes: u64, all_bytes: u64, out: &mut Vec<u8>) {
        let mut from = 0;
        for &(at, late) in self.late.iter().take(usize::from(self.late_count)) {
            let at = at as usize;
            out.extend_from_slice(&self.text[from..at]);
            from = at;
            let took = || self.began.map(|began| began.elapsed()).unwrap_or_default();
            let number: u64 = match late {
                Late::BodyOrDash if body_bytes == 0 => {
                    out.push(b'-');
                    continue;
                }
                Late::BodyOrDash | Late::Body => body_bytes,
                Late::All => all_bytes,
                // Half a million years fit.
                Late::Microseconds => took().as_micros() as u64,
                Late::Milliseconds => took().as_millis() as u64,
                Late::Seconds => took().as_secs(),
            };
            decimal(number, out);
        }
        out.extend_from_slice(&self.text[from..]);
    }
}

/// Path and query of a target.
fn parts(target: &str) -> (&[u8], &[u8]) {
    target.as_bytes().split_at(target.find('?').unwrap_or(target.len()))
}

struct Out<'o> {
    bytes: &'o mut Vec<u8>,
    is_json: bool,
    queries: bool,
}

impl Out<'_> {
    fn client(&mut self, client: IpAddr) {
        if self.is_json {
            self.bytes.push(b'"');
        }
        match client {
            IpAddr::V4(client) => {
                for (number, octet) in client.octets().into_iter().enumerate() {
                    if number > 0 {
                        self.bytes.push(b'.');
                    }
                    decimal(u64::from(octet), self.bytes);
                }
            }
            // Writing to memory does not fail.
            IpAddr::V6(client) => drop(write!(self.bytes, "{client}")),
        }
        if self.is_json {
            self.bytes.push(b'"');
        }
    }

    fn text(&mut self, text: Option<&[u8]>) {
        match (text, self.is_json) {
            (Some(text), false) => escape(text, self.bytes),
            (None, false) => self.bytes.push(b'-'),
            (Some(text), true) => {
                self.bytes.push(b'"');
                escape_json(text, self.bytes);
                self.bytes.push(b'"');
            }
            (None, true) => self.bytes.extend_from_slice(b"null"),
        }
    }

    /// A target or address, without its query unless that was asked for.
    fn address(&mut self, text: &[u8]) {
        let escape = if self.is_json { escape_json } else { escape };
        match memchr::memchr(b'?', text) {
            Some(at) if !self.queries => {
                escape(&text[..at], self.bytes);
                self.bytes.extend_from_slice(b"?-");
            }
            _ => escape(text, self.bytes),
        }
    }

    fn quoted_address(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) if self.is_json => {
                self.bytes.push(b'"');
                self.address(text);
                self.bytes.push(b'"');
            }
            Some(text) => self.address(text),
            None => self.text(None),
        }
    }
}

/// The network that an address is in, as far as a redacted log says it.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(addr) => IpAddr::V4(Ipv4Addr::from(u32::from(addr) & 0xffff_ff00)),
        IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from(u128::from(addr) & !0 << 80)),
    }
}

/// Appends a number.
#[inline]
fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len() - 1;
    while number > 9 {
        // The remainder is one digit.
        digits[at] += (number % 10) as u8;
        number /= 10;
        at -= 1;
    }
    digits[at] += number as u8;
    // Mostly a few digits: as many as a register holds are written at once.
    match digits.len() - at {
        1 => out.push(digits[19]),
        2 => out.extend_from_slice(&[digits[18], digits[19]]),
        3 => out.extend_from_slice(&[digits[17], digits[18], digits[19]]),
        _ => out.extend_from_slice(&digits[at..]),
    }
}

/// Appends text so that it can neither end its quotes nor its line.
#[inline]
fn escape(text: &[u8], out: &mut Vec<u8>) {
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    if is_plain(text) {
        return out.extend_from_slice(text);
    }
    escape_each(text, out, |byte, out| drop(write!(out, "\\x{byte:02x}")));
}

/// The same for JSON; a byte beyond ASCII is the character of that number, so that nothing is lost.
#[inline]
fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    if is_plain(text) {
        return out.extend_from_slice(text);
    }
    escape_each(text, out, |byte, out| drop(write!(out, "\\u{byte:04x}")));
}

#[cold]
fn escape_each(text: &[u8], out: &mut Vec<u8>, other: impl Fn(u8, &mut Vec<u8>)) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => other(byte, out),
        }
    }
}

/// Whether all bytes can stand as they are. Looked at in blocks without a branch in them, which are a few instructions
/// of those that work on 16 bytes at once; the last block takes again what it needs of the one before.
fn is_plain(text: &[u8]) -> bool {
    const BLOCK: usize = 16;
    let is_other = |byte: u8| !(b' '..=b'~').contains(&byte) | (byte == b'"') | (byte == b'\\');
    let has_other = |block: &[u8; BLOCK]| block.iter().fold(0, |found, &byte| found | u8::from(is_other(byte))) != 0;
    match text.last_chunk::<BLOCK>() {
        Some(last) => !text.as_chunks::<BLOCK>().0.iter().any(has_other) && !has_other(last),
        None => !text.iter().any(|&byte| is_other(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_library(number: u64, shift in 0_u32..64) {
            let mut out = Vec::new();
            decimal(number >> shift, &mut out);
            prop_assert_eq!(out, (number >> shift).to_string().into_bytes());
        }

        #[test]
        fn what_is_escaped_is_plain_and_means_the_same(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut json = vec![b'"'];
            escape_json(&text, &mut json);
            json.push(b'"');
            let read: String = serde_json::from_slice(&json).expect("a text");
            prop_assert_eq!(read.chars().map(|letter| u8::try_from(letter).expect("a byte")).collect::<Vec<u8>>(), text.clone());
            let mut plain = Vec::new();
            escape(&text, &mut plain);
            prop_assert!(plain.iter().all(|byte| (b' '..=b'~').contains(byte)));
            prop_assert_eq!(plain == text, is_plain(&text));
        }

        #[test]
        fn one_byte_anywhere_is_found(len in 1_usize..70, at in 0_usize..70, byte: u8) {
            let mut text = vec![b'a'; len];
            text[at % len] = byte;
            let is_other = !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\';
            prop_assert_eq!(is_plain(&text), !is_other);
        }

        #[test]
        fn addresses_are_those_of_the_library(v4: [u8; 4], v6: u128, is_json: bool) {
            for addr in [IpAddr::from(v4), IpAddr::from(Ipv6Addr::from(v6))] {
                let mut bytes = Vec::new();
                Out { bytes: &mut bytes, is_json, queries: false }.client(addr);
                let expected = if is_json { format!("\"{addr}\"") } else { addr.to_string() };
                prop_assert_eq!(String::from_utf8(bytes).expect("a text"), expected);
            }
        }
    }
}
