//! What a script gives to be sent, taken apart into requests: it may be several, which go out together.

use weir_load::response::EndOfHead;

/// The most requests that go out together.
const REQUESTS_MAX: usize = 1024;

/// One request of those that go out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Whether its response has no body.
    pub(crate) is_head: bool,
    pub(crate) bytes: usize,
}

/// Why a text is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRequest {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// No method, target and version.
    #[error("line {line} is no request line, such as GET / HTTP/1.1")]
    Line {
        /// Which line of the text it is, from 1.
        line: usize,
    },
    /// The empty line behind the headers is missing.
    #[error("the empty line behind the headers of the request in line {line} is missing")]
    Head {
        /// The request's first line.
        line: usize,
    },
    /// Content-Length is no number, or the body has fewer bytes.
    #[error("the body of the request in line {line} has not as many bytes as its Content-Length says")]
    Body {
        /// The request's first line.
        line: usize,
    },
    /// The chunks of a body do not end.
    #[error("the chunked body of the request in line {line} does not end with an empty chunk")]
    Chunks {
        /// The request's first line.
        line: usize,
    },
    /// More than can be sent together.
    #[error("it holds more than {REQUESTS_MAX} requests")]
    Many,
}

/// The requests of a text, which are the whole of it.
pub(crate) fn split(text: &[u8]) -> Result<Vec<Part>, NoRequest> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if parts.len() == REQUESTS_MAX {
            return Err(NoRequest::Many);
        }
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        let part = first(&text[at..], line)?;
        at += part.bytes;
        parts.push(part);
    }
    if parts.is_empty() { Err(NoRequest::Empty) } else { Ok(parts) }
}

/// Whether a request begins as one whose response has no body.
pub(crate) fn is_head(request: &[u8]) -> bool {
    request.starts_with(b"HEAD ")
}

/// The request that a text begins with.
fn first(text: &[u8], line: usize) -> Result<Part, NoRequest> {
    let end = text.iter().position(|byte| *byte == b'\n').ok_or(NoRequest::Line { line })?;
    let words: Vec<&[u8]> = text[..end].trim_ascii_end().split(|byte| *byte == b' ').collect();
    match words.as_slice() {
        [method, target, version]
            if !method.is_empty()
                && method.iter().all(u8::is_ascii_alphabetic)
                && !target.is_empty()
                && version.starts_with(b"HTTP/1.") => {}
        _ => return Err(NoRequest::Line { line }),
    }
    let head = EndOfHead::default().find(text).ok_or(NoRequest::Head { line })?;
    let (mut length, mut chunked) = (Some(0), false);
    for field in text[..head].split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = field.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (field[..colon].trim_ascii(), field[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        }
    }
    let body = match chunked {
        true => chunks(&text[head..]).ok_or(NoRequest::Chunks { line })?,
        false => length.filter(|length| *length <= text.len() - head).ok_or(NoRequest::Body { line })?,
    };
    Ok(Part { is_head: is_head(text), bytes: head + body })
}

/// How long the chunks are that a text begins with, the last one and what follows it included.
fn chunks(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = text[at..].iter().position(|byte| *byte == b'\n')?;
        let digits = text[at..at + line].split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        at += line + 1;
        if size == 0 {
            break;
        }
        at = at.checked_add(size).filter(|end| *end <= text.len())?;
        at += text[at..].iter().position(|byte| *byte == b'\n')? + 1;
    }
    loop {
        let line = text[at..].iter().position(|byte| *byte == b'\n')?;
        let is_last = text[at..at + line].trim_ascii().is_empty();
        at += line + 1;
        if is_last {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_requests_are_told_apart() {
        let text = "GET /?foo HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\n\r\n\
                    POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\na\nb\
                    PUT / HTTP/1.1\nTransfer-Encoding: chunked\n\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n";
        let parts = split(text.as_bytes()).expect("four");
        assert_eq!(parts.iter().map(|part| part.is_head).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<usize>(), text.len());
        assert_eq!(parts[0].bytes, 31);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, wrong) in [
            ("", NoRequest::Empty),
            ("GET /", NoRequest::Line { line: 1 }),
            ("GET / HTTP/1.1\r\n\r\nwhat\r\n", NoRequest::Line { line: 3 }),
            ("GET  HTTP/1.1\r\n\r\n", NoRequest::Line { line: 1 }),
            ("GET / HTTP/1.1\r\nHost: h\r\n", NoRequest::Head { line: 1 }),
            ("GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\na", NoRequest::Body { line: 1 }),
            ("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\na", NoRequest::Body { line: 1 }),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc\r\n", NoRequest::Chunks { line: 1 }),
        ] {
            assert_eq!(split(text.as_bytes()), Err(wrong), "{text:?}");
        }
        assert_eq!(split(&b"GET / HTTP/1.1\r\n\r\n".repeat(1025)), Err(NoRequest::Many));
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(
            bytes in "(GET / HTTP/1.1\r\n(content-length: [0-9]{1,20}\r\n)?\
                (transfer-encoding: chunked\r\n)?\r\n[0-9a-f\r\n]{0,9}){0,3}",
            any in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = split(&any);
            if let Ok(parts) = split(bytes.as_bytes()) {
                prop_assert_eq!(parts.iter().map(|part| part.bytes).sum::<usize>(), bytes.len());
            }
        }
    }
}
