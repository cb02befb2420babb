//! One line: written when a response begins, but for what is known at its end.

use super::format::{Format, LATE_MAX, Late, Piece};
use crate::clock::{Clock, civil};
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
    late: [(u32, Option<Late>); LATE_MAX],
    began: Option<Instant>,
    /// The user that was let in; empty = nobody's.
    pub(crate) user: String,
    /// The host that answers.
    pub(crate) host: Option<Arc<str>>,
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
        self.late = Default::default();
        self.began = format.has_duration().then(Instant::now);
        let mut out = Out { bytes: &mut self.text, is_json: format.is_json, queries: options.queries };
        let mut late = 0;
        for piece in &format.pieces {
            match piece {
                Piece::Text(text) => out.bytes.extend_from_slice(text.as_bytes()),
                // Writing to memory does not fail.
                Piece::Client => {
                    let client = if options.addresses { peer } else { network(peer) };
                    let _ = if out.is_json { write!(out.bytes, "\"{client}\"") } else { write!(out.bytes, "{client}") };
                }
                Piece::Nothing => out.bytes.push(b'-'),
                Piece::User => out.text(Some(self.user.as_bytes()).filter(|user| !user.is_empty())),
                Piece::Time => out.bytes.extend_from_slice(&clock.log_time),
                Piece::Rfc3339 => {
                    let (year, month, day, hour, minute, second) = civil(clock.unix_s);
                    let _ = write!(out.bytes, "\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"");
                }
                Piece::Seconds => drop(write!(out.bytes, "{}", clock.unix_s)),
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
                Piece::Status => drop(write!(out.bytes, "{status}")),
                Piece::Host => out.text(self.host.as_ref().map(|host| host.as_bytes())),
                Piece::AskedHost => out.text(request.and_then(|request| request.host)),
                Piece::Referrer => out.quoted_address(request.and_then(|request| request.referrer)),
                Piece::UserAgent => out.text(request.and_then(|request| request.user_agent)),
                Piece::Late(what) => {
                    // A format has no more of them than places.
                    if let Some(place) = self.late.get_mut(late) {
                        *place = (out.bytes.len() as u32, Some(*what));
                        late += 1;
                    }
                }
            }
        }
        self.text.push(b'\n');
    }

    /// Appends the whole line.
    pub(super) fn end(&self, body_bytes: u64, all_bytes: u64, out: &mut Vec<u8>) {
        let mut from = 0;
        for (at, late) in self.late {
            let Some(late) = late else { break };
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
            let _ = write!(out, "{number}");
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

/// Appends text so that it can neither end its quotes nor its line.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text.iter().take(TEXT_BYTES_MAX) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
}

/// The same for JSON; a byte beyond ASCII is the character of that number, so that nothing is lost.
fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text.iter().take(TEXT_BYTES_MAX) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => drop(write!(out, "\\u{byte:04x}")),
        }
    }
}
