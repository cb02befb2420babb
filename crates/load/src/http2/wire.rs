//! What goes out, built once: the preface, and the request as frames whose stream is filled in each time.

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, HEADERS, SETTINGS, WINDOW_UPDATE,
};
use super::hpack::BLOCK_BYTES_MAX;
use crate::{LoadError, Options, Protocol, Request, RequestError};

/// What a stream, and the connection, may send us before we say that it may send more: enough that nobody waits for it.
pub(super) const WINDOW_BYTES: u32 = (1 << 30) - 1;
/// The window that a connection has before anything is said (RFC 9113 6.9.2).
pub(super) const FIRST_WINDOW_BYTES: u32 = 65_535;

/// The constant side of a run over HTTP/2.
#[derive(Debug)]
pub(crate) struct Wire {
    /// What a connection begins with: the preface, our settings, and the connection's window.
    pub(super) preface: Vec<u8>,
    /// The request's frames up to its body, without the stream's number.
    pub(super) head: Vec<u8>,
    /// Where in `head` the stream's number stands: once for each frame.
    pub(super) streams_at: Vec<usize>,
    pub(super) body: Vec<u8>,
    /// The most requests under way on a connection.
    pub(super) streams: u32,
}

impl Wire {
    /// What the options mean; `None` if another version of HTTP is asked for.
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, LoadError> {
        let Protocol::Http2 { streams } = options.protocol else { return Ok(None) };
        let block = block(options)?;
        let body = options.request.body.clone();
        let (mut head, mut streams_at) = (Vec::new(), Vec::new());
        let pieces = block.chunks(FRAME_BYTES_MAX);
        let last = pieces.len() - 1;
        for (number, piece) in pieces.enumerate() {
            let kind = if number == 0 { HEADERS } else { CONTINUATION };
            let end = if number == 0 && body.is_empty() { END_STREAM } else { 0 };
            let flags = end | if number == last { END_HEADERS } else { 0 };
            streams_at.push(head.len() + FRAME_HEAD_BYTES - 4);
            frame(&mut head, kind, flags, 0, piece);
        }
        Ok(Some(Self { preface: preface(), head, streams_at, body, streams }))
    }
}

/// Appends a frame.
#[inline]
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut settings = Vec::new();
    // No table of headers, no pushes; what a stream may send; how long a block of headers may be.
    for (name, value) in [(1u16, 0u32), (2, 0), (4, WINDOW_BYTES), (6, BLOCK_BYTES_MAX as u32)] {
        settings.extend_from_slice(&name.to_be_bytes());
        settings.extend_from_slice(&value.to_be_bytes());
    }
    frame(&mut bytes, SETTINGS, 0, 0, &settings);
    frame(&mut bytes, WINDOW_UPDATE, 0, 0, &(WINDOW_BYTES - FIRST_WINDOW_BYTES).to_be_bytes());
    bytes
}

/// The request's block of headers: the static table's names where it has them, and nothing kept in the other one, so
/// that the block means the same on every stream.
fn block(options: &Options) -> Result<Vec<u8>, LoadError> {
    let (url, request) = (&options.url, &options.request);
    // What HTTP/1 cannot say, HTTP/2 must not: a gateway might pass it on.
    request.bytes(url, true)?;
    let own = |name: &str| request.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut block = Vec::new();
    match request.method.as_str() {
        "GET" => block.push(0x82),
        "POST" => block.push(0x83),
        method => literal(&mut block, 2, "", method),
    }
    block.push(if url.encrypted { 0x87 } else { 0x86 });
    match url.target.as_str() {
        "/" => block.push(0x84),
        target => literal(&mut block, 4, "", target),
    }
    let authority = own("Host").map_or_else(|| url.authority(), |(_, value)| value.clone());
    literal(&mut block, 1, "", &authority);
    if own("User-Agent").is_none() {
        literal(&mut block, 58, "", concat!("weir/", env!("CARGO_PKG_VERSION")));
    }
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "host" => {}
            "connection" | "keep-alive" | "proxy-connection" | "upgrade" | "http2-settings" => {
                return Err(RequestError::OfConnection { name }.into());
            }
            "te" if !value.eq_ignore_ascii_case("trailers") => {
                return Err(RequestError::OfConnection { name }.into());
            }
            _ => literal(&mut block, 0, &name, value),
        }
    }
    if announces_length(request) {
        literal(&mut block, 28, "", &request.body.len().to_string());
    }
    if block.len() > BLOCK_BYTES_MAX {
        return Err(LoadError::Options("the request's headers are longer than 65536 bytes"));
    }
    Ok(block)
}

/// As in HTTP/1: a method that means a body says its length even when there is none.
fn announces_length(request: &Request) -> bool {
    !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH")
}

/// A literal field that is not kept: its name by its number in the static table, or in full where that is 0.
fn literal(block: &mut Vec<u8>, index: u32, name: &str, value: &str) {
    integer(block, 0, 4, index as usize);
    if index == 0 {
        string(block, name);
    }
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &str) {
    integer(block, 0, 7, text.len());
    block.extend_from_slice(text.as_bytes());
}

/// A number in the low `bits` of a byte whose others are `high`, and in those behind it (RFC 7541 5.1).
fn integer(block: &mut Vec<u8>, high: u8, bits: u32, number: usize) {
    let full = (1usize << bits) - 1;
    if number < full {
        block.push(high | number as u8);
        return;
    }
    block.push(high | full as u8);
    let mut rest = number - full;
    while rest >= 0x80 {
        block.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    block.push(rest as u8);
}
