//! What goes out, built once: the preface, and the request as frames whose stream is filled in each time.

use crate::grpc::CallKind;
use crate::grpc::messages::prefixed;
use crate::http2::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, HEADERS, SETTINGS, WINDOW_UPDATE,
};
use crate::http2::hpack::BLOCK_BYTES_MAX;
use crate::requests::traceparent::{self, TraceIds};
use crate::{Grpc, LoadError, Options, Protocol, Request, RequestError, Url};

/// What a stream, and the connection, may send us before we grant more: so much that the server never waits for it.
pub(crate) const WINDOW_BYTES: u32 = (1 << 30) - 1;
/// The window that a connection has before anything is said (RFC 9113 6.9.2).
pub(crate) const FIRST_WINDOW_BYTES: u32 = 65_535;

/// The number of `cookie` in the static table.
const COOKIE: usize = 32;

/// The constant side of a run over HTTP/2.
#[derive(Debug)]
pub(crate) struct Wire {
    /// What a connection begins with: the preface, our settings, and the connection's window.
    pub(crate) preface: Vec<u8>,
    /// The requests, in the order of the plan's.
    pub(crate) requests: Vec<PreparedRequest>,
    /// The most requests under way on a connection.
    pub(crate) streams: u32,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    /// Whether requests are put together as they go, with the cookies of their connection's jar.
    pub(crate) cookie_jar: bool,
}

/// A request.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// Its frames up to the body, without the stream's number.
    pub(crate) head: Vec<u8>,
    /// Where in `head` the stream's number stands: once for each frame.
    streams_at: Vec<usize>,
    pub(crate) body: Vec<u8>,
    /// Where in its body the messages of a call of gRPC end.
    pub(crate) message_ends: Vec<usize>,
    /// Bytes of the body that go out before an answer comes.
    at_once_bytes: usize,
    /// Where in its block of headers the value begins by which it says of which trace it is, if it does.
    trace_at: Option<usize>,
    /// Its block of headers, where cookies are to be added.
    block: Vec<u8>,
}

impl PreparedRequest {
    /// The request with these cookies; `None` = with those of a jar, when it goes out.
    fn new(
        url: &Url,
        request: &Request,
        cookies: Option<&[(String, String)]>,
        (is_traced, grpc): (bool, Option<&Grpc>),
    ) -> Result<Self, LoadError> {
        let mut traced = Vec::new();
        if is_traced {
            literal(&mut traced, 0, traceparent::NAME, traceparent::PLACEHOLDER);
        }
        let (body, message_ends) = grpc.map_or_else(|| (request.body.clone(), Vec::new()), messages);
        // Of a call whose sides both stream each message waits for an answer to the one before it.
        let is_paced = grpc.is_some_and(|grpc| grpc.kind == CallKind::Bidirectional);
        let at_once_bytes = message_ends.first().copied().filter(|_| is_paced).unwrap_or(body.len());
        let length = (grpc.is_none() && announces_length(request)).then_some(body.len());
        let (block, traced_at) = block(url, request, (cookies.unwrap_or_default(), length), &traced)?;
        let trace_at = is_traced.then(|| traced_at + traced.len() - traceparent::PLACEHOLDER.len());
        let mut head = Vec::new();
        frames(&mut head, &block, 0, body.is_empty());
        let pieces = block.len().div_ceil(FRAME_BYTES_MAX);
        let streams_at =
            (0..pieces).map(|piece| piece * (FRAME_HEAD_BYTES + FRAME_BYTES_MAX) + FRAME_HEAD_BYTES - 4).collect();
        let block = if cookies.is_none() { block } else { Vec::new() };
        Ok(Self { head, streams_at, body, message_ends, at_once_bytes, trace_at, block })
    }

    /// Bytes of its body that go out before an answer comes.
    pub(crate) fn at_once_bytes(&self) -> usize {
        self.at_once_bytes
    }

    /// How much of a call may go out when so many messages were answered.
    pub(crate) fn released_bytes(&self, answered: u64) -> usize {
        let next = usize::try_from(answered).unwrap_or(usize::MAX);
        self.message_ends.get(next).copied().unwrap_or(self.body.len())
    }

    /// Appends its frames up to the body, for a stream, with the value of a Cookie header; gives their length.
    pub(crate) fn begin_with(&self, out: &mut Vec<u8>, block: &mut Vec<u8>, stream: u32, cookies: &[u8]) -> u32 {
        let before = out.len();
        if cookies.is_empty() {
            self.begin(out, stream);
            return (out.len() - before) as u32;
        }
        block.clear();
        block.extend_from_slice(&self.block);
        integer(block, 0, 4, COOKIE);
        integer(block, 0, 7, cookies.len());
        block.extend_from_slice(cookies);
        frames(out, block, stream, self.body.is_empty());
        (out.len() - before) as u32
    }

    /// Says of which trace it is, in its frames that were just made.
    pub(crate) fn put_trace(&self, frames: &mut [u8], ids: TraceIds) {
        let Some(at) = self.trace_at else { return };
        for (place, byte) in (at..).zip(ids.value()) {
            // Each frame of the block has a head of its own.
            frames[place + (place / FRAME_BYTES_MAX + 1) * FRAME_HEAD_BYTES] = byte;
        }
    }

    /// Appends its frames up to the body, for a stream.
    #[inline]
    pub(crate) fn begin(&self, out: &mut Vec<u8>, stream: u32) {
        let at = out.len();
        out.extend_from_slice(&self.head);
        for place in &self.streams_at {
            out[at + place..at + place + 4].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

impl Wire {
    /// What the options mean; `None` if another version of HTTP is asked for.
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, LoadError> {
        let Protocol::Http2 { streams } = options.protocol else { return Ok(None) };
        options.check()?;
        let requests = &options.requests;
        let cookies = (!requests.cookie_jar).then_some(requests.cookies.as_slice());
        let one = [(&options.url, &options.request)];
        let more = (requests.traces.is_some(), options.grpc.as_ref());
        let list: Result<Vec<_>, _> = match requests.list.is_empty() {
            true => one.iter().map(|(url, request)| PreparedRequest::new(url, request, cookies, more)).collect(),
            false => {
                let each = requests.list.iter();
                each.map(|listed| PreparedRequest::new(&listed.url, &listed.request, cookies, more)).collect()
            }
        };
        let keep_alive = options.keep_alive;
        Ok(Some(Self { preface: preface(), requests: list?, streams, keep_alive, cookie_jar: requests.cookie_jar }))
    }
}

/// Appends the frames of a block of headers.
fn frames(out: &mut Vec<u8>, block: &[u8], stream: u32, is_all: bool) {
    let pieces = block.chunks(FRAME_BYTES_MAX);
    let last = pieces.len() - 1;
    for (number, piece) in pieces.enumerate() {
        let kind = if number == 0 { HEADERS } else { CONTINUATION };
        let end = if number == 0 && is_all { END_STREAM } else { 0 };
        frame(out, kind, end | if number == last { END_HEADERS } else { 0 }, stream, piece);
    }
}

/// Appends a frame.
#[inline]
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// What a connection begins with.
pub(crate) fn preface() -> Vec<u8> {
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
/// that the block means the same on every stream; `traced` is put in as it is, and its place given.
fn block(
    url: &Url,
    request: &Request,
    (cookies, length): (&[(String, String)], Option<usize>),
    traced: &[u8],
) -> Result<(Vec<u8>, usize), LoadError> {
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
    let traced_at = block.len();
    block.extend_from_slice(traced);
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
    for (name, value) in cookies {
        // RFC 9113 8.2.3: each may be a field of its own.
        literal(&mut block, COOKIE as u32, "", &format!("{name}={value}"));
    }
    if let Some(length) = length {
        literal(&mut block, 28, "", &length.to_string());
    }
    if block.len() > BLOCK_BYTES_MAX {
        return Err(LoadError::Options("the request's headers are longer than 65536 bytes"));
    }
    Ok((block, traced_at))
}

/// The body of a call of gRPC, and where its messages end.
fn messages(grpc: &Grpc) -> (Vec<u8>, Vec<usize>) {
    let mut body = Vec::new();
    let mut end = |message: &Vec<u8>| {
        prefixed(&mut body, message);
        body.len()
    };
    let ends = grpc.messages.iter().map(&mut end).collect();
    (body, ends)
}

/// As in HTTP/1: a method that means a body says its length even when there is none.
fn announces_length(request: &Request) -> bool {
    !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH")
}

/// A literal field that is not kept: its name by its number in the static table, or in full where that is 0.
pub(crate) fn literal(block: &mut Vec<u8>, index: u32, name: &str, value: &str) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(change: impl FnOnce(&mut Options)) -> Result<PreparedRequest, LoadError> {
        let mut options = Options::new(Url::parse("http://h:81/p?q").expect("a URL"));
        options.protocol = Protocol::Http2 { streams: 3 };
        change(&mut options);
        Ok(Wire::new(&options)?.expect("HTTP/2").requests.remove(0))
    }

    #[test]
    fn a_request_is_one_frame_of_literal_fields() {
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        let wire = wire(|_| {}).expect("a request");
        let mut block = b"\x82\x86\x04\x04/p?q\x01\x04h:81\x0f\x2b".to_vec();
        block.push(agent.len() as u8);
        block.extend_from_slice(agent.as_bytes());
        let mut frame = vec![0, 0, block.len() as u8, HEADERS, END_STREAM | END_HEADERS, 0, 0, 0, 0];
        frame.extend_from_slice(&block);
        assert_eq!((wire.head, wire.streams_at), (frame, vec![5]));
    }

    #[test]
    fn long_headers_go_on_in_more_frames() {
        let wire = wire(|options| {
            options.request.method = "POST".to_owned();
            options.request.body = b"abc".to_vec();
            options.request.headers =
                vec![("X-Long".to_owned(), "x".repeat(40_000)), ("Host".to_owned(), "o".to_owned())];
        })
        .expect("a request");
        assert_eq!(wire.streams_at.len(), 3);
        for (number, at) in wire.streams_at.iter().enumerate() {
            let kind = if number == 0 { HEADERS } else { CONTINUATION };
            assert_eq!(wire.head[at - 2..at + 4], [kind, if number == 2 { END_HEADERS } else { 0 }, 0, 0, 0, 0]);
        }
        let text = String::from_utf8_lossy(&wire.head);
        assert!(text.contains("x-long") && text.contains("\x01\x01o") && text.contains("\x0f\x0d\x013"), "{text:.100}");
    }

    #[test]
    fn headers_of_the_connection_are_refused() {
        for (name, value) in [("Connection", "close"), ("keep-alive", "5"), ("TE", "gzip"), ("Transfer-Encoding", "x")]
        {
            let refused = wire(|options| options.request.headers = vec![(name.to_owned(), value.to_owned())]);
            assert!(matches!(refused, Err(LoadError::Request(_))), "{name}");
        }
        assert!(wire(|options| options.request.headers = vec![("TE".to_owned(), "trailers".to_owned())]).is_ok());
        assert!(wire(|options| options.request.headers = vec![("X".to_owned(), "y".repeat(70_000))]).is_err());
        assert!(wire(|options| options.pipeline = 2).is_err());
        // Three streams, of which a connection for one request has no use.
        assert!(wire(|options| options.keep_alive = false).is_err());
        assert!(wire(|options| options.protocol = Protocol::Http2 { streams: 0 }).is_err());
    }
}
