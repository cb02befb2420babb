//! Parses the head of a request of HTTP/1. The parser reads its form and `request.rs` what its fields say; heads of
//! versions that the parser does not know go to `higher_version.rs`.

use crate::http::higher_version;
use crate::http::limits::Limits;
use crate::http::request::{AllFields, FIELDS_MAX, Head, Parsed, Request, is_within, partial};
use std::mem::MaybeUninit;

/// Parses the head at the beginning of `input`.
pub(crate) fn parse<'b>(input: &'b [u8], limits: &Limits) -> Head<'b> {
    let mut request = Request::empty();
    match parse_into(input, limits, &mut request) {
        Parsed::Complete(head_bytes) => Head::Complete(request, head_bytes),
        Parsed::Partial => Head::Partial,
        Parsed::Rejected(status) => Head::Rejected(status),
    }
}

/// Parses the head into an empty request: it is large, and would be copied on each step of its way.
#[expect(clippy::inline_always, reason = "it is a part of the way of every request over HTTP/1")]
#[inline(always)]
pub(crate) fn parse_into<'b>(input: &'b [u8], limits: &Limits, request: &mut Request<'b>) -> Parsed {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let head_bytes = match parsed.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return partial(input, limits),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Rejected(431),
        Err(httparse::Error::Version) => return higher_version::parse(input, limits, request),
        Err(_) => return Parsed::Rejected(400),
    };
    let (Some(method_text), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Parsed::Rejected(400);
    };
    if let Err(status) = is_within(target, head_bytes, limits) {
        return Parsed::Rejected(status);
    }
    match request.fill(method_text, target, minor, parsed.headers) {
        Ok(()) => {
            request.all = AllFields::Head(&input[..head_bytes]);
            Parsed::Complete(head_bytes)
        }
        Err(status) => Parsed::Rejected(status),
    }
}

/// Whether an empty line ends after the first `scanned` bytes.
pub(crate) fn has_empty_line(input: &[u8], scanned: usize) -> bool {
    let start = scanned.saturating_sub(3);
    memchr::memchr_iter(b'\n', &input[start..]).any(|at| {
        let rest = &input[start + at + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&input, &Limits::default());
        }
    }
}
