//! Heads of versions that the parser does not know.

use crate::http::limits::Limits;
use crate::http::request::{AllFields, FIELDS_MAX, Parsed, Request, is_token, is_within, partial};
use crate::http::target;

/// A head whose version the parser does not know: a higher minor one is read as 1.1 (RFC 9110 section 2.5), another
/// major one is 505 (section 15.6.6), and what is no version is 400.
#[cold]
pub(crate) fn parse<'b>(input: &'b [u8], limits: &Limits, request: &mut Request<'b>) -> Parsed {
    let begin = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(input.len());
    let Some(line_bytes) = memchr::memchr(b'\n', &input[begin..]) else { return partial(input, limits) };
    let (line, fields_at) = (&input[begin..begin + line_bytes], begin + line_bytes + 1);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Parsed::Rejected(400);
    };
    match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit() => {}
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Parsed::Rejected(505);
        }
        _ => return Parsed::Rejected(400),
    }
    let (Ok(method), Ok(target)) = (std::str::from_utf8(method), std::str::from_utf8(target)) else {
        return Parsed::Rejected(400);
    };
    if !is_token(method.as_bytes()) || target.is_empty() || !target::is_written(target.as_bytes()) {
        return Parsed::Rejected(400);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let (bytes, fields) = match httparse::parse_headers(&input[fields_at..], &mut fields) {
        Ok(httparse::Status::Complete(complete)) => complete,
        Ok(httparse::Status::Partial) => return partial(input, limits),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Rejected(431),
        Err(_) => return Parsed::Rejected(400),
    };
    let filled = is_within(target, fields_at + bytes, limits).and_then(|()| request.fill(method, target, 1, fields));
    if let Err(status) = filled {
        return Parsed::Rejected(status);
    }
    request.all = AllFields::Head(&input[..fields_at + bytes]);
    Parsed::Complete(fields_at + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::framing::Framing;
    use crate::http::parse;
    use crate::http::request::Head;

    fn outcome(text: &str) -> Result<Framing, u16> {
        match parse::parse(text.as_bytes(), &Limits::default()) {
            Head::Complete(request, head_bytes) => {
                assert_eq!((head_bytes, request.minor), (text.len(), 1));
                assert!(matches!(request.all, AllFields::Head(head) if head == text.as_bytes()));
                Ok(request.framing)
            }
            Head::Rejected(status) => Err(status),
            Head::Partial => panic!("partial: {text}"),
        }
    }

    #[test]
    fn a_higher_minor_version_is_read_as_the_one_that_is_known() {
        // RFC 9110 sections 2.5 and 15.6.6.
        for (version, expected) in [
            ("HTTP/1.2", Ok(Framing::None)),
            ("HTTP/1.9", Ok(Framing::None)),
            ("HTTP/0.9", Err(505)),
            ("HTTP/2.0", Err(505)),
            ("HTTP/3.1", Err(505)),
            ("HTTP/1.10", Err(400)),
            ("HTTP/11", Err(400)),
            ("http/1.1", Err(400)),
            ("HTTP/1.x", Err(400)),
            ("GOPHER/1.0", Err(400)),
        ] {
            let text = "GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n".replace("HTTP/1.1", version);
            assert_eq!(outcome(&text), expected, "{version}");
            for bytes in 0..text.len() {
                // A head in pieces is never refused for a version that is whole later.
                let is_refused =
                    matches!(parse::parse(&text.as_bytes()[..bytes], &Limits::default()), Head::Rejected(_));
                assert!(!is_refused || expected.is_err(), "{version}: {bytes} bytes");
            }
        }
        let text = "GET /a HTTP/1.3\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(outcome(text), Ok(Framing::Chunked));
        assert_eq!(outcome(&text.replace("Host: a", "Host: a\r\nHost: b")), Err(400));
        assert_eq!(outcome(&text.replace("/a", "/a\u{7f}")), Err(400));
        assert_eq!(outcome(&text.replace("Host: a\r\n", "")), Err(400));
    }
}
