//! A request's head as a block of fields (RFC 9113 section 8.3.1), made of what HTTP/1.1 would send: that was filtered and
//! checked already, and the same head may go to a server that speaks HTTP/1.1.

use crate::http::frames::hpack::STATIC;
use crate::upstream::http1::names::{self, Name};

/// The first byte of a block that says that our table has no room (RFC 7541 section 6.3).
const EMPTY_TABLE: u8 = 0x20;
/// A literal that no table takes up; and one that none on the way may take up (RFC 7541 section 6.2).
const LITERAL: u8 = 0;
const NEVER_INDEXED: u8 = 0x10;

/// What stands for a request line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// TLS is spoken.
    pub(crate) is_secure: bool,
    /// It is for a tunnel (RFC 8441).
    pub(crate) is_tunnel: bool,
}

/// Why a head cannot be sent as a block; the heads that this server writes can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoHead;

/// Appends the block of a head as HTTP/1.1 has it.
///
/// # Errors
///
/// [`NoHead`] if that is none.
pub(crate) fn block(head: &[u8], target: Target, out: &mut Vec<u8>) -> Result<(), NoHead> {
    let line_end = memchr::memchr(b'\r', head).ok_or(NoHead)?;
    let mut words = head[..line_end].split(|byte| *byte == b' ');
    let (method, path) = (words.next().ok_or(NoHead)?, words.next().ok_or(NoHead)?);
    let fields = head.get(line_end + 2..).ok_or(NoHead)?;
    out.push(EMPTY_TABLE);
    let method = if target.is_tunnel { b"CONNECT" } else { method };
    field(b":method", method, LITERAL, out);
    field(b":scheme", if target.is_secure { b"https" } else { b"http" }, LITERAL, out);
    field(b":path", path, LITERAL, out);
    let host = each(fields).find(|(name, _)| names::of(name) == Name::Host);
    if let Some((_, host)) = host.filter(|(_, host)| !host.is_empty()) {
        field(b":authority", host, LITERAL, out);
    }
    let upgrade = each(fields).find(|(name, _)| names::of(name) == Name::Upgrade);
    if let Some((_, protocol)) = upgrade.filter(|_| target.is_tunnel) {
        field(b":protocol", protocol, LITERAL, out);
    }
    let mut lower = Vec::with_capacity(64);
    for (name, value) in each(fields) {
        let first = match names::of(name) {
            Name::Host | Name::Connection | Name::OfConnection | Name::TransferEncoding | Name::Upgrade => continue,
            // Of the handshake over HTTP/1.1 (RFC 8441 section 5).
            _ if target.is_tunnel && name.eq_ignore_ascii_case(b"sec-websocket-key") => continue,
            Name::Cookie => NEVER_INDEXED,
            _ if name.eq_ignore_ascii_case(b"authorization") => NEVER_INDEXED,
            _ => LITERAL,
        };
        lower.clear();
        lower.extend(name.iter().map(u8::to_ascii_lowercase));
        field(&lower, value, first, out);
    }
    Ok(())
}

/// Appends a block of fields that stand behind a body.
pub(crate) fn trailers<'t>(lines: impl Iterator<Item = (&'t str, &'t [u8])>, out: &mut Vec<u8>) {
    let mut lower = Vec::new();
    for (name, value) in lines {
        lower.clear();
        lower.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        field(&lower, value, LITERAL, out);
    }
}

/// The value of a field of a head as HTTP/1.1 has it.
pub(crate) fn value_of<'h>(head: &'h [u8], wanted: &[u8]) -> Option<&'h [u8]> {
    let line_end = memchr::memchr(b'\n', head)?;
    each(&head[line_end + 1..]).find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
}

/// Names and values of the lines of a head.
fn each(mut lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', lines)?;
        let line = lines[..end].trim_ascii_end();
        lines = &lines[end + 1..];
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// Appends a field, by indices of the static table where that has it.
fn field(name: &[u8], value: &[u8], first: u8, out: &mut Vec<u8>) {
    let is_pseudo = name.first() == Some(&b':');
    if is_pseudo && let Some(at) = STATIC.iter().position(|known| *known == (name, value)) {
        out.push(0x80 | (at as u8 + 1));
        return;
    }
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(at) => integer(first, 4, at + 1, out),
        None => {
            out.push(first);
            text(name, out);
        }
    }
    text(value, out);
}

fn text(text: &[u8], out: &mut Vec<u8>) {
    integer(0, 7, text.len(), out);
    out.extend_from_slice(text);
}

/// An integer behind some bits that mean something else (RFC 7541 section 5.1).
fn integer(first: u8, prefix_bits: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1_usize << prefix_bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fields::{Bounds, Fields};
    use crate::http::frames::hpack::Decoder;

    fn read(block: &[u8]) -> Vec<String> {
        let mut fields = Fields::default();
        let bounds = Bounds { bytes_max: 100_000, fields_max: 100 };
        Decoder::default().decode(block, bounds, &mut fields).expect("well-formed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
    }

    #[test]
    fn a_head_becomes_a_block() {
        let head = b"POST /a?b HTTP/1.1\r\nHost: a.org:81\r\nX-Own: 1\r\nCookie: a=b\r\nTransfer-Encoding: chunked\r\n\
            Connection: TE\r\nTE: trailers\r\nVia: 1.1 weir\r\n\r\n";
        let mut out = Vec::new();
        block(head, Target { is_secure: true, is_tunnel: false }, &mut out).expect("a head");
        let expected = [
            ":method=POST",
            ":scheme=https",
            ":path=/a?b",
            ":authority=a.org:81",
            "x-own=1",
            "cookie=a=b",
            "te=trailers",
            "via=1.1 weir",
        ];
        assert_eq!(read(&out), expected);
    }

    #[test]
    fn an_upgrade_becomes_a_tunnel() {
        let head = b"GET /chat HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\
            Connection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut out = Vec::new();
        block(head, Target { is_secure: false, is_tunnel: true }, &mut out).expect("a head");
        let expected = [
            ":method=CONNECT",
            ":scheme=http",
            ":path=/chat",
            ":authority=a",
            ":protocol=websocket",
            "sec-websocket-version=13",
        ];
        assert_eq!(read(&out), expected);
        assert_eq!(value_of(head, b"sec-websocket-KEY"), Some(&b"x"[..]));
    }

    #[test]
    fn trailers_and_what_is_no_head() {
        let mut out = Vec::new();
        trailers([("Grpc-Status", &b"0"[..])].into_iter(), &mut out);
        assert_eq!(read(&out), ["grpc-status=0"]);
        for text in [&b""[..], b"GET", b"GET /\r", b"GET\r\n"] {
            let none = block(text, Target { is_secure: false, is_tunnel: false }, &mut Vec::new());
            assert_eq!(none, Err(NoHead), "{}", text.escape_ascii());
        }
    }
}
