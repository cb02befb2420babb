//! Blocks of fields as heads and trailers of responses (RFC 9113 section 8), strict where a lenient reading could have two
//! readers see two messages.

use crate::http::fields::Fields;
use crate::http::request::{decimal, is_token};
use crate::upstream::http1::chunks::{is_value, put};
use crate::upstream::http1::names::{self, Name};
use crate::upstream::message::{Garbled, ResponseHead};

/// Reads the head of a response, or of an interim response: its length is what Content-Length says.
///
/// # Errors
///
/// [`Garbled`] for fields that are none of a response.
pub(crate) fn head(fields: &Fields) -> Result<ResponseHead, Garbled> {
    if fields.is_too_large {
        return Err(Garbled::TooLarge);
    }
    let mut head = ResponseHead::default();
    for (at, (name, value)) in fields.iter().enumerate() {
        if at == 0 {
            let status = if name == b":status" { decimal(value) } else { None };
            let status = status.filter(|status| value.len() == 3 && (100..600).contains(status));
            head.status = status.ok_or(Garbled::Head("it does not begin with a status"))? as u16;
            continue;
        }
        let meaning = of(name, value)?;
        match meaning {
            Name::ContentLength => {
                let bytes = decimal(value).ok_or(Garbled::Head("its Content-Length is no number"))?;
                if head.length.replace(bytes).is_some_and(|before| before != bytes) {
                    return Err(Garbled::Head("it has two lengths"));
                }
            }
            Name::OfConnection | Name::Lookalike | Name::Te => {}
            _ => put(name, value, &mut head.fields),
        }
    }
    if head.status == 0 { Err(Garbled::Head("it does not begin with a status")) } else { Ok(head) }
}

/// Reads the fields behind a body, as lines; those that must not stand there are left away.
///
/// # Errors
///
/// [`Garbled`] for fields that are none.
pub(crate) fn trailers(fields: &Fields) -> Result<Vec<u8>, Garbled> {
    if fields.is_too_large {
        return Err(Garbled::Body("its trailers are too large"));
    }
    let mut lines = Vec::new();
    for (name, value) in fields.iter() {
        of(name, value).map_err(|_| Garbled::Body("its trailers are no fields"))?;
        if names::may_trail(name) {
            put(name, value, &mut lines);
        }
    }
    Ok(lines)
}

/// What a field is for.
fn of(name: &[u8], value: &[u8]) -> Result<Name, Garbled> {
    if !is_token(name) || name.iter().any(u8::is_ascii_uppercase) || !is_value(value) {
        return Err(Garbled::Head("one of its fields is none"));
    }
    match names::of(name) {
        // Fields that say something about a connection of HTTP/1.1 (section 8.2.2).
        Name::Connection | Name::TransferEncoding | Name::Upgrade => {
            Err(Garbled::Head("it has a field that HTTP/2 does not have"))
        }
        Name::OfConnection if name == b"keep-alive" || name == b"proxy-connection" => {
            Err(Garbled::Head("it has a field that HTTP/2 does not have"))
        }
        meaning => Ok(meaning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fields::Bounds;
    use crate::http::frames::hpack::Decoder;

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut block = Vec::new();
        for (name, value) in list {
            block.extend_from_slice(&[0, name.len() as u8]);
            block.extend_from_slice(name.as_bytes());
            block.push(value.len() as u8);
            block.extend_from_slice(value.as_bytes());
        }
        let mut fields = Fields::default();
        let bounds = Bounds { bytes_max: 1000, fields_max: 10 };
        Decoder::default().decode(&block, bounds, &mut fields).expect("well-formed");
        fields
    }

    #[test]
    fn heads_are_read() {
        let read = head(&fields(&[(":status", "200"), ("content-length", "5"), ("a", "b"), ("proxy", "c")]));
        let expected = ResponseHead { status: 200, fields: b"a: b\r\n".to_vec(), length: Some(5) };
        assert_eq!(read, Ok(expected));
        for wrong in [
            &[("a", "b")][..],
            &[],
            &[(":status", "20")],
            &[(":status", "+20")],
            &[(":status", "600")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), ("A", "b")],
            &[(":status", "200"), ("a b", "c")],
            &[(":status", "200"), ("a", "b\r\nc: d")],
            &[(":status", "200"), ("content-length", "x")],
            &[(":status", "200"), ("content-length", "1"), ("content-length", "2")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), ("keep-alive", "5")],
            &[(":status", "200"), ("upgrade", "x")],
        ] {
            assert!(head(&fields(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn trailers_are_read() {
        let read = trailers(&fields(&[("grpc-status", "0"), ("content-length", "5")]));
        assert_eq!(read, Ok(b"grpc-status: 0\r\n".to_vec()));
        for wrong in [&[(":status", "200")][..], &[("A", "b")], &[("connection", "b")]] {
            assert!(trailers(&fields(wrong)).is_err(), "{wrong:?}");
        }
    }
}
