//! Requests and responses that were published as ways to have two servers see different messages: each is refused, or
//! goes on as one message of one length.

use super::chunks::{end_chunks, write_chunk};
use super::oracle::{self, Ends, compared, in_pieces};
use super::request::{Coming, Forwarding, Peer, Rendered, Style, Unsendable, render};
use super::response::{Expected, Reader};
use super::upgrade::Upgrade;
use crate::exchange::application::RequestHead;
use crate::exchange::drain::{Drain, Part};
use crate::http::fields::{Bounds, Fields};
use crate::http::framing::Framing;
use crate::http::limits::Limits;
use crate::http::parse::parse;
use crate::http::request::{AllFields, Head, Request};
use crate::http2::message;
use crate::upstream::message::{BodyFraming, HEAD_BYTES_MAX, Outgoing};
use proptest::prelude::*;

/// A request as a strict reader sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    line: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Seen {
    fn values(&self, wanted: &str) -> Vec<&str> {
        let of = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        of.map(|(_, value)| value.as_str()).collect()
    }
}

/// Reads exactly one request; panics for bytes that two readers could understand in two ways.
fn strictly(mut input: &[u8]) -> Seen {
    let mut lines = Vec::new();
    loop {
        let end = input.iter().position(|byte| *byte == b'\n').expect("a line has an end");
        let line = input[..end].strip_suffix(b"\r").expect("a line ends with both bytes");
        input = &input[end + 1..];
        if line.is_empty() {
            break;
        }
        assert!(line.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)), "{}", line.escape_ascii());
        lines.push(line.iter().map(|&byte| char::from(byte)).collect::<String>());
    }
    let line = lines.remove(0);
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!((words.len(), words[2]), (3, "HTTP/1.1"), "{line}");
    assert!(words[1].starts_with('/') || (words[0] == "OPTIONS" && words[1] == "*"), "{line}");
    assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && !line.contains('#'), "{line}");
    let fields: Vec<(String, String)> = lines
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(':').expect("a colon");
            let is_of_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            assert!(!name.is_empty() && name.chars().all(is_of_token), "{line}");
            (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
        })
        .collect();
    let mut seen = Seen { line: line.clone(), fields, body: Vec::new() };
    assert_eq!(seen.values("host").len(), 1, "{seen:?}");
    assert!(seen.values("cookie").len() <= 1, "{seen:?}");
    for name in ["expect", "keep-alive", "proxy-connection", "proxy-authorization", "http2-settings", "proxy"] {
        assert_eq!(seen.values(name), [""; 0], "{name}");
    }
    let (lengths, codings) = (seen.values("content-length"), seen.values("transfer-encoding"));
    let body = match (&lengths[..], &codings[..]) {
        ([], []) => Vec::new(),
        ([length], []) => {
            assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "{length}");
            let (body, rest) = input.split_at(length.parse().expect("a length"));
            input = rest;
            body.to_vec()
        }
        ([], ["chunked"]) => unchunked(&mut input),
        _ => panic!("framed in two ways: {seen:?}"),
    };
    seen.body = body;
    assert!(input.is_empty(), "bytes behind the request: {}", input.escape_ascii());
    seen
}

fn unchunked(input: &mut &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = input.windows(2).position(|two| two == b"\r\n").expect("a line has an end");
        let size = std::str::from_utf8(&input[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("a size and nothing else");
        *input = &input[end + 2..];
        if size == 0 {
            break;
        }
        body.extend_from_slice(&input[..size]);
        assert_eq!(&input[size..size + 2], b"\r\n");
        *input = &input[size + 2..];
    }
    while let Some(end) = input.windows(2).position(|two| two == b"\r\n") {
        *input = &input[end + 2..];
        if end == 0 {
            break;
        }
    }
    body
}

fn outgoing<'r>(request: &'r Request<'r>, is_secure: bool) -> Outgoing<'r> {
    let client = [192, 0, 2, 7].into();
    let head =
        RequestHead { request, client, peer: client, is_secure, socket: None, ends: None, user: None, arm: None };
    let local = "198.51.100.1:8080".parse().ok();
    Outgoing { head, target: request.target, client, client_port: 40_000, local, user: None, request_id: None }
}

/// Writes the request with its body, and reads it back in three ways.
fn sent(asked: &Outgoing<'_>, forwarding: &Forwarding<'_>, body: &[u8]) -> Result<(Seen, Rendered), Unsendable> {
    let coming = if body.is_empty() { Coming::Nothing } else { Coming::More };
    let mut out = b"before".to_vec();
    let rendered = render(asked, forwarding, coming, &mut out);
    let Ok(rendered) = rendered else {
        assert_eq!(out, b"before", "a refused request leaves nothing");
        return Err(rendered.expect_err("it is one"));
    };
    let mut out = out.split_off(b"before".len());
    let head = out.clone();
    match rendered.body {
        BodyFraming::None => assert!(body.is_empty() || rendered.upgrade.is_some()),
        BodyFraming::Length(bytes) => {
            assert_eq!(bytes, body.len() as u64);
            out.extend_from_slice(body);
        }
        BodyFraming::Framed => {
            body.chunks(7).for_each(|piece| write_chunk(piece, &mut out));
            end_chunks(std::iter::empty(), &mut out);
        }
        BodyFraming::Unknown => panic!("HTTP/1.1 frames what has no length"),
    }
    let seen = strictly(&out);
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut parsed = httparse::Request::new(&mut fields);
    assert_eq!(parsed.parse(&out), Ok(httparse::Status::Complete(head.len())));
    assert_eq!(parsed.headers.len(), seen.fields.len());
    // What it has written the server itself reads as the same.
    let Head::Complete(again, bytes) = parse(&out, &Limits::default()) else { panic!("{}", out.escape_ascii()) };
    assert_eq!(bytes, head.len());
    let expected = match rendered.body {
        BodyFraming::Length(bytes) => Framing::Length(bytes),
        BodyFraming::Framed => Framing::Chunked,
        _ if seen.values("content-length").is_empty() => Framing::None,
        _ => Framing::Length(0),
    };
    assert_eq!(again.framing, expected);
    Ok((seen, rendered))
}

/// What becomes of a request that stands at the beginning of the input: none if it is refused, or never whole.
fn through(input: &[u8], forwarding: &Forwarding<'_>) -> Option<(Seen, Rendered)> {
    let Head::Complete(request, head_bytes) = parse(input, &Limits::default()) else { return None };
    let (mut drain, mut body) = (Drain::whole(request.framing, 1000), Vec::new());
    let give = &mut |part: Part<'_>| {
        if let Part::Content(bytes) = part {
            body.extend_from_slice(bytes);
        }
    };
    drain.read(&input[head_bytes..], give).ok()?;
    if !drain.is_done() {
        return None;
    }
    let (seen, rendered) = sent(&outgoing(&request, false), forwarding, &body).ok()?;
    if rendered.body != BodyFraming::None {
        assert_eq!(seen.body, body);
    }
    Some((seen, rendered))
}

const REFUSED: Option<usize> = None;

/// Requests over HTTP/1.1, and the bytes of the body that goes on; without their Host, which stands at `{H}`.
const REQUESTS: &[(&str, &str, Option<usize>)] = &[
    ("plain", "GET / HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("CL.TE", "POST / HTTP/1.1\r\n{H}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", REFUSED),
    (
        "TE.CL",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "TE.TE two lines",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    ("TE xchunked", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE space before colon", "POST / HTTP/1.1\r\n{H}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE tab before colon", "POST / HTTP/1.1\r\n{H}Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE after a tab", "POST / HTTP/1.1\r\n{H}Transfer-Encoding:\tchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Some(3)),
    ("TE with a vertical tab", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE with NUL", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE in quotes", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE folded", "POST / HTTP/1.1\r\n{H}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE folded by LF", "POST / HTTP/1.1\r\n{H}Transfer-Encoding:\n chunked\r\n\r\n0\r\n\r\n", REFUSED),
    (
        "TE behind another field",
        "POST / HTTP/1.1\r\n{H}X: x\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        Some(1),
    ),
    ("TE with a space before its line", "POST / HTTP/1.1\r\n{H} Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE behind a bare CR", "POST / HTTP/1.1\r\n{H}X: x\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE identity", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: identity\r\nContent-Length: 1\r\n\r\na", REFUSED),
    ("TE chunked, identity", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE identity, chunked", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE chunked twice", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE cow", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE over HTTP/1.0", "POST / HTTP/1.0\r\n{H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE with a parameter", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", REFUSED),
    ("TE empty", "POST / HTTP/1.1\r\n{H}Transfer-Encoding:\r\nContent-Length: 1\r\n\r\na", REFUSED),
    (
        "TE with an underscore",
        "POST / HTTP/1.1\r\n{H}Transfer_Encoding: chunked\r\nContent-Length: 1\r\n\r\na",
        Some(1),
    ),
    ("TE of other letters", "POST / HTTP/1.1\r\n{H}Transfer-\u{212a}ncoding: chunked\r\n\r\n", REFUSED),
    ("CL twice, different", "POST / HTTP/1.1\r\n{H}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", REFUSED),
    ("CL twice, the same", "POST / HTTP/1.1\r\n{H}Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", Some(2)),
    ("CL list", "POST / HTTP/1.1\r\n{H}Content-Length: 2, 2\r\n\r\nab", REFUSED),
    ("CL with a sign", "POST / HTTP/1.1\r\n{H}Content-Length: +2\r\n\r\nab", REFUSED),
    ("CL negative", "POST / HTTP/1.1\r\n{H}Content-Length: -2\r\n\r\nab", REFUSED),
    ("CL hexadecimal", "POST / HTTP/1.1\r\n{H}Content-Length: 0x2\r\n\r\nab", REFUSED),
    ("CL with zeros", "POST / HTTP/1.1\r\n{H}Content-Length: 0002\r\n\r\nab", Some(2)),
    ("CL with a space within", "POST / HTTP/1.1\r\n{H}Content-Length: 1 2\r\n\r\nab", REFUSED),
    ("CL with a space before colon", "POST / HTTP/1.1\r\n{H}Content-Length : 2\r\n\r\nab", REFUSED),
    ("CL empty", "POST / HTTP/1.1\r\n{H}Content-Length:\r\n\r\n", REFUSED),
    ("CL beyond 64 bits", "POST / HTTP/1.1\r\n{H}Content-Length: 18446744073709551618\r\n\r\nab", REFUSED),
    ("CL with an exponent", "POST / HTTP/1.1\r\n{H}Content-Length: 2e0\r\n\r\nab", REFUSED),
    ("CL with NUL", "POST / HTTP/1.1\r\n{H}Content-Length: 2\0\r\n\r\nab", REFUSED),
    ("CL with a no-break space", "POST / HTTP/1.1\r\n{H}Content-Length: 2\u{a0}\r\n\r\nab", REFUSED),
    ("CL folded", "POST / HTTP/1.1\r\n{H}Content-Length:\r\n 2\r\n\r\nab", REFUSED),
    ("CL with an underscore", "POST / HTTP/1.1\r\n{H}Content_Length: 9\r\nContent-Length: 2\r\n\r\nab", Some(2)),
    (
        "CL named by Connection",
        "POST / HTTP/1.1\r\n{H}Connection: content-length\r\nContent-Length: 2\r\n\r\nab",
        Some(2),
    ),
    (
        "TE named by Connection",
        "POST / HTTP/1.1\r\n{H}Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        Some(1),
    ),
    ("CL.0", "GET / HTTP/1.1\r\n{H}Content-Length: 5\r\n\r\nGET /", Some(5)),
    ("GET with chunks", "GET / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n", Some(5)),
    ("HEAD with a body", "HEAD / HTTP/1.1\r\n{H}Content-Length: 5\r\n\r\nGET /", Some(5)),
    ("POST without a length", "POST / HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("expect", "POST / HTTP/1.1\r\n{H}Expect: 100-continue\r\nContent-Length: 1\r\n\r\na", Some(1)),
    ("expect obfuscated", "POST / HTTP/1.1\r\n{H}Expect: y 100-continue\r\nContent-Length: 1\r\n\r\na", REFUSED),
    (
        "chunk extension",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\nab\r\n0\r\n\r\n",
        Some(2),
    ),
    (
        "chunk extension with LF",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n4c\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "chunk extension with CR",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;a\rb\r\nab\r\n0\r\n\r\n",
        REFUSED,
    ),
    ("chunk size with LF only", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n", REFUSED),
    ("chunk data with LF only", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nab\n0\r\n\r\n", REFUSED),
    ("chunk data without an end", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nab0\r\n\r\n", REFUSED),
    (
        "chunk data with other bytes at its end",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n",
        REFUSED,
    ),
    (
        "chunk size hexadecimal",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "chunk size with a sign",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n+2\r\nab\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "chunk size with an underscore",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0_2\r\nab\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "chunk size beyond 64 bits",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nab\r\n0\r\n\r\n",
        REFUSED,
    ),
    ("chunk size empty", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n", REFUSED),
    (
        "chunk size with zeros",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n002\r\nab\r\n000\r\n\r\n",
        Some(2),
    ),
    (
        "chunk size before a space",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2 \r\nab\r\n0\r\n\r\n",
        Some(2),
    ),
    ("last chunk with LF only", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0\n\nGET /", REFUSED),
    (
        "trailers that frame",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nContent-Length: 50\r\n\r\n",
        Some(2),
    ),
    (
        "trailers that are a request",
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n",
        Some(0),
    ),
    ("line ends of LF", "POST / HTTP/1.1\nHost: a\nContent-Length: 2\n\nab", Some(2)),
    ("a bare CR in the line", "GET / HTTP/1.1\rX: y\r\n{H}\r\n", REFUSED),
    ("CR CR LF", "GET / HTTP/1.1\r\n{H}X: y\r\r\n\r\n", REFUSED),
    ("NUL in a name", "GET / HTTP/1.1\r\n{H}X\0Y: y\r\n\r\n", REFUSED),
    ("an empty name", "GET / HTTP/1.1\r\n{H}: y\r\n\r\n", REFUSED),
    ("a line without a colon", "GET / HTTP/1.1\r\n{H}Content-Length\r\n\r\n", REFUSED),
    ("empty lines before", "\r\n\n\r\nGET /a:b HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("empty lines before, and several cookies", "\r\nGET /a:b HTTP/1.1\r\n{H}Cookie: a\r\nCookie: b\r\n\r\n", Some(0)),
    ("another version", "GET / HTTP/1.2\r\n{H}\r\n", Some(0)),
    ("two versions", "GET / HTTP/1.1 HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("HTTP/0.9", "GET /\r\n\r\n", REFUSED),
    ("HTTP/2 over HTTP/1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSED),
    ("lower-case version", "GET / http/1.1\r\n{H}\r\n", REFUSED),
    ("a tab in the line", "GET\t/ HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("two spaces in the line", "GET  / HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("a no-break space in the target", "GET /\u{a0}HTTP/1.1 HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("a fragment", "GET /a#b HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("TRACE", "TRACE / HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("CONNECT", "CONNECT b:443 HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("CONNECT of a path", "CONNECT / HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("absolute form", "GET http://b/c HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("absolute form with a user", "GET http://a@b/ HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("absolute form of another scheme", "GET file:///etc/passwd HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("absolute form without a path", "GET http://b?q HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("a host as the target", "GET @b/ HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("an asterisk", "GET * HTTP/1.1\r\n{H}\r\n", REFUSED),
    ("OPTIONS of all", "OPTIONS * HTTP/1.1\r\n{H}\r\n", Some(0)),
    ("Host twice", "GET / HTTP/1.1\r\n{H}Host: b\r\n\r\n", REFUSED),
    ("Host twice, the same", "GET / HTTP/1.1\r\n{H}{H}\r\n", REFUSED),
    ("Host folded", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", REFUSED),
    ("Host with a space before colon", "GET / HTTP/1.1\r\n{H}Host : b\r\n\r\n", REFUSED),
    ("Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", REFUSED),
    ("Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", REFUSED),
    ("Host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", REFUSED),
    ("no Host", "GET / HTTP/1.1\r\n\r\n", REFUSED),
    ("no Host over HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", Some(0)),
    ("Host named by Connection", "GET / HTTP/1.1\r\n{H}Connection: host\r\n\r\n", Some(0)),
    (
        "h2c",
        "GET / HTTP/1.1\r\n{H}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        Some(0),
    ),
    ("h2c among others", "GET / HTTP/1.1\r\n{H}Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", Some(0)),
    (
        "h2c in two lines",
        "GET / HTTP/1.1\r\n{H}Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
        Some(0),
    ),
    (
        "upgrade with a body",
        "POST / HTTP/1.1\r\n{H}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc",
        Some(3),
    ),
    ("cookies of two lines", "GET / HTTP/1.1\r\n{H}Cookie: a=1\r\nCookie: b=2\r\n\r\n", Some(0)),
    (
        "too many options",
        "GET / HTTP/1.1\r\n{H}Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,1,2,3,4,5,6,7\r\n\r\n",
        REFUSED,
    ),
];

#[test]
fn no_request_smuggles_another() {
    for (name, text, expected) in REQUESTS {
        let text = text.replace("{H}", "Host: a\r\n");
        for style in [Style::None, Style::Forwarded, Style::XForwarded, Style::Both] {
            for peer in [Peer::Client, Peer::Proxy([10, 0, 0, 1].into())] {
                let forwarding = Forwarding { style, peer, host: None, ..Forwarding::default() };
                let seen = through(text.as_bytes(), &forwarding);
                assert_eq!(seen.as_ref().map(|(seen, _)| seen.body.len()), *expected, "{name}: {seen:?}");
                if let Some((seen, rendered)) = seen {
                    assert_eq!(rendered.upgrade, None, "{name}");
                    assert_eq!(seen.values("upgrade"), [""; 0], "{name}");
                }
            }
        }
    }
}

fn block(fields: &[(&str, &[u8])]) -> Fields {
    let (mut block, mut size) = (Fields::default(), 0);
    for (name, value) in fields {
        let start = block.bytes.len();
        block.bytes.extend_from_slice(name.as_bytes());
        let name_end = block.bytes.len();
        block.bytes.extend_from_slice(value);
        let bounds = Bounds { bytes_max: 100_000, fields_max: 100 };
        block.keep((start, name_end), &mut size, bounds).expect("it is small");
    }
    block
}

/// What becomes of fields of HTTP/2 behind those that make the request line.
fn over_http2(fields: &[(&str, &[u8])], body: &[u8]) -> Option<Seen> {
    let has = |wanted: &str| fields.iter().any(|(name, _)| *name == wanted);
    let mut all: Vec<(&str, &[u8])> = vec![(":scheme", b"https")];
    for (name, value) in [(":method", &b"POST"[..]), (":path", b"/"), (":authority", b"a")] {
        if !has(name) {
            all.push((name, value));
        }
    }
    all.extend_from_slice(fields);
    let block = block(&all);
    let mut request = message::request(&block, 2, &Limits::default()).ok()?;
    request.all = AllFields::Block(&block);
    if matches!(request.framing, Framing::Length(bytes) if bytes != body.len() as u64) {
        // The stream is an error then (RFC 9113 section 8.1.1).
        return None;
    }
    Some(sent(&outgoing(&request, true), &Forwarding::default(), body).ok()?.0)
}

#[test]
fn no_request_of_http2_smuggles_another() {
    let body = b"0\r\n\r\nGET /admin HTTP/1.1\r\nHost: b\r\n\r\n";
    type Case<'c> = (&'c str, &'c [(&'c str, &'c [u8])], bool);
    let cases: &[Case<'_>] = &[
        ("plain", &[], true),
        ("H2.CL", &[("content-length", b"0")], false),
        ("H2.CL that fits", &[("content-length", b"37")], true),
        ("H2.CL twice", &[("content-length", b"37"), ("content-length", b"0")], false),
        ("H2.TE", &[("transfer-encoding", b"chunked")], false),
        ("H2.TE by an underscore", &[("transfer_encoding", b"chunked")], true),
        ("H2.TE in a value", &[("x", b"y\r\ntransfer-encoding: chunked")], false),
        ("LF in a value", &[("x", b"y\ntransfer-encoding: chunked")], false),
        ("CR in a value", &[("x", b"y\rz")], false),
        ("NUL in a value", &[("x", b"y\0z")], false),
        ("CR LF in a name", &[("x: y\r\ntransfer-encoding", b"chunked")], false),
        ("a colon in a name", &[("transfer-encoding: chunked\r\nx", b"y")], false),
        ("a space in a name", &[("x y", b"z")], false),
        ("an upper-case name", &[("Transfer-Encoding", b"chunked")], false),
        ("an empty name", &[("", b"z")], false),
        ("a name of a colon", &[(":", b"z")], false),
        ("space around a value", &[("x", b" y")], false),
        ("connection", &[("connection", b"close")], false),
        ("upgrade", &[("upgrade", b"h2c")], false),
        ("te", &[("te", b"chunked")], false),
        ("te of trailers", &[("te", b"trailers")], true),
        ("two methods", &[(":method", b"GET"), (":method", b"POST")], false),
        ("two paths", &[(":path", b"/a"), (":path", b"/b")], false),
        ("a request line in the method", &[(":method", b"GET / HTTP/1.1\r\nHost: b\r\n\r\nGET")], false),
        ("a space in the method", &[(":method", b"GET /admin")], false),
        ("a request line in the path", &[(":path", b"/ HTTP/1.1\r\nHost: b\r\n\r\nGET /")], false),
        ("a space in the path", &[(":path", b"/ HTTP/1.1")], false),
        ("a no-break space in the path", &[(":path", "/\u{a0}".as_bytes())], true),
        ("a path without a slash", &[(":path", b"admin")], false),
        ("an absolute path", &[(":path", b"http://b/")], false),
        ("an empty path", &[(":path", b"")], false),
        ("CR LF in the authority", &[(":authority", b"a\r\nx: y")], false),
        ("a space in the authority", &[(":authority", b"a b")], false),
        ("a path in the authority", &[(":authority", b"a/b")], false),
        ("another host", &[(":authority", b"a"), ("host", b"b")], false),
        ("the same host", &[(":authority", b"a"), ("host", b"a")], true),
        ("a pseudo-field behind a field", &[("x", b"y"), (":path", b"/b")], false),
        ("an unknown pseudo-field", &[(":x", b"y")], false),
        ("TRACE", &[(":method", b"TRACE")], false),
        ("cookies", &[("cookie", b"a=1"), ("x", b"y"), ("cookie", b"b=2")], true),
    ];
    assert_eq!(body.len(), 37);
    for (name, fields, is_sent) in cases {
        let seen = over_http2(fields, body);
        assert_eq!(seen.is_some(), *is_sent, "{name}: {seen:?}");
        if let Some(seen) = seen {
            assert_eq!(seen.body, body, "{name}");
            assert!(seen.line == "POST / HTTP/1.1" || seen.line == "POST /%C2%A0 HTTP/1.1", "{name}: {}", seen.line);
        }
    }
    let cookies = over_http2(&[("cookie", b"a=1"), ("x", b"y"), ("cookie", b"b=2")], body).expect("goes on");
    assert_eq!(cookies.values("cookie"), ["a=1; b=2"]);
}

#[test]
fn a_client_cannot_say_who_it_is_and_a_trusted_proxy_can() {
    let text = "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\n\
        X-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: other\r\nX-Forwarded-Port: 1\r\n\
        X-Real-IP: 3.3.3.3\r\nX_Forwarded_For: 4.4.4.4\r\nVia: 1.0 before\r\n\r\n";
    let seen = |style, peer| {
        through(text.as_bytes(), &Forwarding { style, peer, host: Some("in:1"), ..Forwarding::default() })
            .expect("goes on")
            .0
    };
    let untrusted = seen(Style::Both, Peer::Client);
    assert_eq!(untrusted.values("x-forwarded-for"), ["192.0.2.7"]);
    assert_eq!(untrusted.values("x-forwarded-proto"), ["http"]);
    assert_eq!(untrusted.values("x-forwarded-host"), ["shop.example"]);
    assert_eq!(untrusted.values("x-forwarded-port"), [""; 0]);
    assert_eq!(untrusted.values("x-real-ip"), ["192.0.2.7"]);
    assert_eq!(untrusted.values("forwarded"), ["for=192.0.2.7;proto=http;host=\"shop.example\""]);
    assert_eq!(untrusted.values("x_forwarded_for"), [""; 0]);
    assert_eq!(untrusted.values("via"), ["1.0 before", "1.1 weir"]);
    assert_eq!(untrusted.values("host"), ["in:1"]);
    let proxy = Peer::Proxy("2001:db8::1".parse().expect("an address"));
    let trusted = seen(Style::Both, proxy);
    assert_eq!(trusted.values("x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 2001:db8::1"]);
    assert_eq!(trusted.values("x-forwarded-proto"), ["https"]);
    assert_eq!(trusted.values("x-forwarded-host"), ["other"]);
    assert_eq!(trusted.values("x-forwarded-port"), ["1"]);
    assert_eq!(trusted.values("x-real-ip"), ["192.0.2.7"]);
    let element = "for=1.1.1.1, for=\"[2001:db8::1]\";proto=http;host=\"shop.example\"";
    assert_eq!(trusted.values("forwarded"), [element]);
    let silent = seen(Style::None, Peer::Client);
    for name in ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "forwarded"] {
        assert_eq!(silent.values(name), [""; 0], "{name}");
    }
    // A proxy whose list is in the other field: the client that it told of stands before it.
    let plain = through(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &Forwarding { style: Style::XForwarded, peer: proxy, host: None, ..Forwarding::default() },
    );
    assert_eq!(plain.expect("goes on").0.values("x-forwarded-for"), ["192.0.2.7, 2001:db8::1"]);
}

#[test]
fn fields_of_the_connection_stay_and_others_go_on() {
    let sent = |text: &str| through(text.as_bytes(), &Forwarding::default()).expect("goes on");
    let (seen, rendered) = sent(
        "GET /a?b=c HTTP/1.1\r\nHost: a\r\nAccept: x\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nKeep-Alive: 5\r\n\
         Te: gzip, trailers\r\nProxy-Authorization: x\r\nProxy: y\r\nX-Mine: 2 \r\nCookie: a\r\nCookie: b\r\n\r\n",
    );
    assert_eq!((seen.line.as_str(), rendered.body, rendered.upgrade), ("GET /a?b=c HTTP/1.1", BodyFraming::None, None));
    assert_eq!((seen.values("accept"), seen.values("x-mine")), (vec!["x"], vec!["2"]));
    assert_eq!((seen.values("x-own"), seen.values("cookie")), (vec![], vec!["a; b"]));
    assert_eq!((seen.values("connection"), seen.values("te")), (vec!["TE"], vec!["trailers"]));
    let (absolute, _) = sent("GET http://b:81?c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((absolute.line.as_str(), absolute.values("host")), ("GET /?c HTTP/1.1", vec!["b:81"]));
    let (old, _) = sent("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.values("host"), old.values("via")), (vec!["198.51.100.1:8080"], vec!["1.0 weir"]));
    let (all, _) = sent("OPTIONS http://b HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n");
    assert_eq!((all.line.as_str(), all.values("max-forwards")), ("OPTIONS * HTTP/1.1", vec!["2"]));
    let (post, _) = sent("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(post.values("content-length"), ["0"]);
    assert!(through(b"OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", &Forwarding::default()).is_none());
}

#[test]
fn upgrades_go_on_over_both_versions() {
    let text = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let (seen, rendered) = through(text.as_bytes(), &Forwarding::default()).expect("goes on");
    assert_eq!((rendered.upgrade, rendered.body), (Some(Upgrade::Passed), BodyFraming::None));
    assert_eq!((seen.values("connection"), seen.values("upgrade")), (vec!["upgrade"], vec!["websocket"]));
    assert_eq!(seen.values("sec-websocket-key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
    // Without the option the field is one of this connection, and means nothing.
    let text = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n";
    let (seen, rendered) = through(text.as_bytes(), &Forwarding::default()).expect("goes on");
    assert_eq!((rendered.upgrade, seen.values("upgrade")), (None, vec![]));
    // An extended CONNECT, as the reader of HTTP/2 gives it on.
    for (protocol, is_sent) in [(&b"websocket"[..], true), (b"h2c", false), (b"a b", false)] {
        let block = block(&[
            (":method", b"CONNECT"),
            (":protocol", protocol),
            (":scheme", b"https"),
            (":path", b"/chat"),
            (":authority", b"a"),
            ("sec-websocket-version", b"13"),
        ]);
        let mut request = Request::empty();
        (request.method_text, request.target, request.minor, request.host) = ("CONNECT", "/chat", 2, Some(&b"a"[..]));
        request.all = AllFields::Block(&block);
        let outcome = sent(&outgoing(&request, true), &Forwarding::default(), b"");
        let Some((seen, rendered)) = outcome.ok().filter(|_| is_sent) else {
            assert!(!is_sent);
            continue;
        };
        assert_eq!((rendered.upgrade, seen.line.as_str()), (Some(Upgrade::Extended), "GET /chat HTTP/1.1"));
        assert_eq!((seen.values("connection"), seen.values("upgrade")), (vec!["upgrade"], vec!["websocket"]));
        assert_eq!(seen.values("sec-websocket-version"), ["13"]);
        assert_eq!(seen.values("sec-websocket-key")[0].len(), 24);
    }
}

/// Responses that have been taken in two ways, and what is known of them here.
const RESPONSES: &[(&str, &str, Ends)] = &[
    ("plain", "200 OK\r\nContent-Length: 2\r\n\r\nab", Ends::Whole { stray_bytes: 0, keeps: true }),
    (
        "split",
        "200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        Ends::Whole { stray_bytes: 39, keeps: true },
    ),
    ("more than its length", "200 OK\r\nContent-Length: 1\r\n\r\nab", Ends::Whole { stray_bytes: 1, keeps: true }),
    ("less than its length", "200 OK\r\nContent-Length: 3\r\n\r\nab", Ends::Within),
    (
        "CL and TE",
        "200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        Ends::Whole { stray_bytes: 0, keeps: false },
    ),
    (
        "TE over HTTP/1.0",
        "1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        Ends::Whole { stray_bytes: 0, keeps: false },
    ),
    ("TE twice", "200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Ends::Head),
    ("TE gzip", "200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", Ends::Head),
    ("TE gzip, chunked", "200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Ends::Head),
    ("TE with a space before colon", "200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", Ends::Head),
    ("TE folded", "200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Ends::Head),
    ("folded", "200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n", Ends::Head),
    ("CL twice, different", "200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", Ends::Head),
    ("CL list, different", "200 OK\r\nContent-Length: 1, 2\r\n\r\nab", Ends::Head),
    ("CL list, the same", "200 OK\r\nContent-Length: 2, 2\r\n\r\nab", Ends::Whole { stray_bytes: 0, keeps: true }),
    ("CL with a sign", "200 OK\r\nContent-Length: +2\r\n\r\nab", Ends::Head),
    ("CL negative", "200 OK\r\nContent-Length: -1\r\n\r\nab", Ends::Head),
    ("CL beyond 64 bits", "200 OK\r\nContent-Length: 18446744073709551617\r\n\r\nab", Ends::Head),
    ("CL empty", "200 OK\r\nContent-Length: \r\n\r\nab", Ends::Head),
    (
        "CL with an underscore",
        "200 OK\r\nContent_Length: 9\r\nContent-Length: 2\r\n\r\nab",
        Ends::Whole { stray_bytes: 0, keeps: true },
    ),
    ("a bare CR", "200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n", Ends::Head),
    ("NUL", "200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n", Ends::Head),
    ("a bare CR in the reason", "200 O\rK\r\nContent-Length: 0\r\n\r\n", Ends::Head),
    ("LF only", "200 OK\nContent-Length: 2\n\nab", Ends::Whole { stray_bytes: 0, keeps: true }),
    ("no reason", "200\r\nContent-Length: 2\r\n\r\nab", Ends::Whole { stray_bytes: 0, keeps: true }),
    ("no status", "OK\r\n\r\n", Ends::Head),
    ("status 99", "099 OK\r\n\r\n", Ends::Head),
    ("status 600", "600 OK\r\n\r\n", Ends::Head),
    ("101 unasked", "101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", Ends::Head),
    ("100 and the response", "100 Continue\r\n\r\nHTTP/1.1 204 X\r\n\r\n", Ends::Whole { stray_bytes: 0, keeps: true }),
    (
        "103 and the response",
        "103 Hints\r\nLink: a\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 X\r\n\r\n",
        Ends::Whole { stray_bytes: 0, keeps: true },
    ),
    ("100 only", "100 Continue\r\n\r\n", Ends::Within),
    ("204 with a body", "204 X\r\nContent-Length: 2\r\n\r\nab", Ends::Whole { stray_bytes: 2, keeps: false }),
    ("304 with a length", "304 X\r\nContent-Length: 2\r\n\r\n", Ends::Whole { stray_bytes: 0, keeps: true }),
    ("until close", "200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Ends::UntilClose),
    ("close", "200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", Ends::Whole { stray_bytes: 0, keeps: false }),
    ("HTTP/1.0", "1.0 200 OK\r\nContent-Length: 0\r\n\r\n", Ends::Whole { stray_bytes: 0, keeps: false }),
    (
        "HTTP/1.0 kept",
        "1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
        Ends::Whole { stray_bytes: 0, keeps: true },
    ),
    ("chunks with LF", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n", Ends::Body),
    ("chunk extension with LF", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;\na\r\n0\r\n\r\n", Ends::Body),
    ("chunk too large", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", Ends::Body),
    ("chunk cut", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", Ends::Within),
    ("trailers that are none", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n", Ends::Body),
    (
        "trailers",
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\nContent-Length: 7\r\n\r\n",
        Ends::Whole { stray_bytes: 0, keeps: true },
    ),
    ("empty lines before", "\r\n", Ends::Head),
];

#[test]
fn no_response_smuggles_another() {
    for (name, text, expected) in RESPONSES {
        let version = if text.starts_with("1.0") { "HTTP/" } else { "HTTP/1.1 " };
        let text = if text.starts_with("\r\n") {
            format!("{text}HTTP/1.1 200 OK\r\n\r\n")
        } else {
            format!("{version}{text}")
        };
        let (parts, ends) = compared(text.as_bytes(), Expected::Response, &[3, 1, 7]);
        assert_eq!(ends, *expected, "{name}: {parts:?}");
    }
    for text in
        ["HTTP/2 200\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.2 200 OK\r\n\r\n", "\x15\x03\x01", "http/1.1 200 OK\r\n\r\n"]
    {
        assert_eq!(compared(text.as_bytes(), Expected::Response, &[2]).1, Ends::Head, "{text}");
    }
}

#[test]
fn heads_and_what_stands_before_them_are_bounded() {
    let ends = |text: &str| compared_in_large_pieces(text.as_bytes());
    let field = |bytes: usize| format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(bytes));
    assert_eq!(ends(&field(HEAD_BYTES_MAX)), Ends::TooLarge);
    assert_eq!(ends(&format!("{}\r\n\r\n", field(HEAD_BYTES_MAX - 24))), Ends::UntilClose);
    assert_eq!(ends(&format!("{}\r\n\r\n", field(HEAD_BYTES_MAX - 23))), Ends::TooLarge);
    assert_eq!(ends(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(256))), Ends::UntilClose);
    assert_eq!(ends(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(257))), Ends::TooLarge);
    assert_eq!(ends(&"HTTP/1.1 103 X\r\n\r\n".repeat(32)), Ends::Within);
    assert_eq!(ends(&"HTTP/1.1 103 X\r\n\r\n".repeat(33)), Ends::Head);
    let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
    assert_eq!(ends(&chunked(&format!("1;{}", "x".repeat(17 << 10)))), Ends::Body);
    assert_eq!(ends(&chunked(&format!("0\r\n{}", "a: b\r\n".repeat(3000)))), Ends::Body);
    assert_eq!(ends(&chunked(&format!("0\r\n{}\r\n", "a: b\r\n".repeat(65)))), Ends::Body);
}

fn compared_in_large_pieces(input: &[u8]) -> Ends {
    let (parts, ends) = oracle::read(input, Expected::Response);
    for piece in [usize::MAX, 1000, 60_000] {
        let (read, read_ends, _) = in_pieces(input, Expected::Response, &mut || piece);
        assert!(read == parts && read_ends == ends, "{read_ends:?} {ends:?}");
    }
    ends
}

#[test]
fn what_is_asked_for_decides_what_the_response_is() {
    use oracle::Part;
    let read = |text: &str, expected| compared(text.as_bytes(), expected, &[5, 2]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x-own, keep-alive\r\nX-Own: 1\r\nServer: s\r\nDate: d\r\n\r\n";
    let kept = vec![("Server".to_owned(), b"s".to_vec()), ("Date".to_owned(), b"d".to_vec())];
    let (parts, ends) = read(head, Expected::HeadOnly);
    assert_eq!(parts, [Part::Head(200, kept, Some(5)), Part::End]);
    assert_eq!(ends, Ends::Whole { stray_bytes: 0, keeps: true });
    let switched =
        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: k\r\nA: b\r\n\r\nraw";
    let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let passed = vec![field("Upgrade", "websocket"), field("Sec-WebSocket-Accept", "k"), field("A", "b")];
    let (parts, ends) = read(switched, Expected::Upgrade(Upgrade::Passed));
    assert_eq!((parts, ends), (vec![Part::Head(101, passed, None), Part::Body(b"raw".to_vec())], Ends::UntilClose));
    let (parts, _) = read(switched, Expected::Upgrade(Upgrade::Extended));
    assert_eq!(parts[0], Part::Head(101, vec![field("A", "b")], None));
    let silent = "HTTP/1.1 101 X\r\n\r\nraw";
    assert_eq!(read(silent, Expected::Upgrade(Upgrade::Passed)).1, Ends::Head);
    let refused = "HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(read(refused, Expected::Upgrade(Upgrade::Passed)).1, Ends::Whole { stray_bytes: 0, keeps: true });
}

#[test]
fn memory_is_used_again() {
    let mut reader = Reader::default();
    let mut capacity = 0;
    for _ in 0..3 {
        assert!(!reader.has_begun());
        let mut fields = Vec::new();
        let mut say = |said: crate::upstream::message::Said<'_>| {
            if let crate::upstream::message::Said::Head(head) = said {
                fields = head.fields;
            }
        };
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\nab";
        assert_eq!(reader.read(text, &mut say), Ok(text.len()));
        assert_eq!((&fields[..], reader.keeps(), reader.has_begun()), (&b"A: b\r\n"[..], true, true));
        assert!(capacity == 0 || capacity == fields.capacity());
        capacity = fields.capacity();
        reader.recycle(fields);
        reader.begin(Expected::Response);
    }
}

/// Pieces of messages, well-formed and not.
fn pieces_of_messages() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 103 X\r\n",
        "HTTP/1.1 100 Y\r\n\r\n",
        "HTTP/1.1 204 \n",
        "Content-Length: 3\r\n",
        "content-length: 3, 3\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive, x\r\n",
        "X: y\r\n",
        "X:  y \n",
        "Trailer: t\r\n",
        "Keep-Alive: 1\r\n",
        "\r\n",
        "\n",
        "3\r\nabc\r\n",
        "1;a=\"b\"\r\n",
        "0\r\n",
        "0\r\n\r\n",
        "T: v\r\n",
        " ",
        ":",
        "a",
        "\r",
        "\0",
        "HTTP/1.1 101 X\r\nUpgrade: y\r\n\r\n",
        "Upgrade: z\r\n",
        "Sec-WebSocket-Accept: q\r\n",
        "X_Forwarded_For: 1\r\n",
    ];
    let begin = proptest::sample::select(pieces[..5].to_vec());
    let rest = proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..12);
    (begin, rest).prop_map(|(begin, rest)| format!("{begin}{}", rest.concat()).into_bytes())
}

fn expectations() -> impl Strategy<Value = Expected> {
    proptest::sample::select(vec![
        Expected::Response,
        Expected::HeadOnly,
        Expected::Upgrade(Upgrade::Passed),
        Expected::Upgrade(Upgrade::Extended),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn responses_are_the_same_in_any_pieces(
        input in pieces_of_messages(),
        expected in expectations(),
        cuts in proptest::collection::vec(1_usize..20, 1..5),
    ) {
        compared(&input, expected, &cuts);
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        input in proptest::collection::vec(any::<u8>(), 0..300),
        is_begun: bool,
        cuts in proptest::collection::vec(1_usize..20, 1..5),
    ) {
        let begin: &[u8] = if is_begun { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" } else { b"" };
        compared(&[begin, &input].concat(), Expected::Response, &cuts);
    }

    #[test]
    fn each_request_that_is_accepted_goes_on_as_one(
        lines in proptest::collection::vec(proptest::sample::select(vec![
            "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Connection: x-a, upgrade\r\n", "Connection: te\r\n",
            "Upgrade: websocket\r\n", "Upgrade: h2c\r\n", "X-A: 1\r\n", "X-A: 1\n", "X-Forwarded-For: 9\r\n",
            "X-Forwarded-For: ,\r\n", "Forwarded: for=9\r\n", "X-Forwarded-Proto: a\r\n", "X_Forwarded_For: 9\r\n",
            "X-Forwarded-Port: 1\r\n", "Cookie: a\r\n", "cookie:b\r\n", "TE: trailers\r\n", "Via: 1.1 a\r\n", "Max-Forwards: 1\r\n",
            "X-Real-IP: 1\r\n", "Empty:\r\n", "Expect: 100-continue\r\n", "Proxy: a\r\n", "Content_Length: 1\r\n",
        ]), 0..10),
        line in proptest::sample::select(vec![
            "GET / HTTP/1.1\r\n", "\r\nPOST /a:b HTTP/1.1\r\n", "OPTIONS http://c HTTP/1.1\n", "HEAD / HTTP/1.0\r\n",
        ]),
        style in proptest::sample::select(vec![Style::None, Style::Forwarded, Style::XForwarded, Style::Both]),
        is_trusted: bool,
    ) {
        let peer = if is_trusted { Peer::Proxy([10, 0, 0, 1].into()) } else { Peer::Client };
        let text = format!("{line}Host: a\r\n{}\r\nabc", lines.concat());
        let chunked = format!("{line}Host: a\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n", lines.concat());
        for text in [text, chunked] {
            if let Some((seen, _)) = through(text.as_bytes(), &Forwarding { style, peer, host: None, ..Forwarding::default() }) {
                prop_assert!(seen.values("x_forwarded_for").is_empty() && seen.values("content_length").is_empty());
                let is_told = |(name, value): &(String, String)| {
                    let is_ours = value.contains("192.0.2.7");
                    name.to_ascii_lowercase().contains("forwarded") && value.contains('9') && !is_ours
                };
                prop_assert!(is_trusted || !seen.fields.iter().any(is_told));
            }
        }
    }
}
