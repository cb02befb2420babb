//! Blocks of fields as HTTP/3 has them (RFC 9204), without a dynamic table: a block depends on nothing that came before
//! it, so that no stream ever waits for another one.

use crate::http::fields::{Bounds, Fields, Unreadable};
use crate::http::frames::hpack::Input;

/// Reads a whole block. We allow no dynamic table, so a block that refers to one cannot be read.
pub(crate) fn decode(block: &[u8], bounds: Bounds, out: &mut Fields) -> Result<(), Unreadable> {
    out.clear();
    let mut input = Input(block);
    // The insertions that are required, then the base with its sign (section 4.5.1).
    if input.integer(8)? != 0 || input.0.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Err(Unreadable);
    }
    input.integer(7)?;
    let mut size = 0;
    while let Some(&first) = input.0.first() {
        let start = out.bytes.len();
        let name_end;
        if first & 0xc0 == 0xc0 {
            let (name, value) = entry(input.integer(6)?)?;
            out.bytes.extend_from_slice(name);
            name_end = out.bytes.len();
            out.bytes.extend_from_slice(value);
        } else {
            if first & 0xd0 == 0x50 {
                let (name, _) = entry(input.integer(4)?)?;
                out.bytes.extend_from_slice(name);
            } else if first & 0xe0 == 0x20 {
                input.string(3, &mut out.bytes)?;
            } else {
                return Err(Unreadable);
            }
            name_end = out.bytes.len();
            input.string(7, &mut out.bytes)?;
        }
        out.keep((start, name_end), &mut size, bounds)?;
    }
    Ok(())
}

fn entry(index: usize) -> Result<(&'static [u8], &'static [u8]), Unreadable> {
    STATIC.get(index).copied().ok_or(Unreadable)
}

/// The static table (appendix A).
pub(crate) static STATIC: [(&[u8], &[u8]); 99] = [
    (b":authority", b""),
    (b":path", b"/"),
    (b"age", b"0"),
    (b"content-disposition", b""),
    (b"content-length", b"0"),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"referer", b""),
    (b"set-cookie", b""),
    (b":method", b"CONNECT"),
    (b":method", b"DELETE"),
    (b":method", b"GET"),
    (b":method", b"HEAD"),
    (b":method", b"OPTIONS"),
    (b":method", b"POST"),
    (b":method", b"PUT"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"103"),
    (b":status", b"200"),
    (b":status", b"304"),
    (b":status", b"404"),
    (b":status", b"503"),
    (b"accept", b"*/*"),
    (b"accept", b"application/dns-message"),
    (b"accept-encoding", b"gzip, deflate, br"),
    (b"accept-ranges", b"bytes"),
    (b"access-control-allow-headers", b"cache-control"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"max-age=0"),
    (b"cache-control", b"max-age=2592000"),
    (b"cache-control", b"max-age=604800"),
    (b"cache-control", b"no-cache"),
    (b"cache-control", b"no-store"),
    (b"cache-control", b"public, max-age=31536000"),
    (b"content-encoding", b"br"),
    (b"content-encoding", b"gzip"),
    (b"content-type", b"application/dns-message"),
    (b"content-type", b"application/javascript"),
    (b"content-type", b"application/json"),
    (b"content-type", b"application/x-www-form-urlencoded"),
    (b"content-type", b"image/gif"),
    (b"content-type", b"image/jpeg"),
    (b"content-type", b"image/png"),
    (b"content-type", b"text/css"),
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-type", b"text/plain"),
    (b"content-type", b"text/plain;charset=utf-8"),
    (b"range", b"bytes=0-"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains; preload"),
    (b"vary", b"accept-encoding"),
    (b"vary", b"origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-xss-protection", b"1; mode=block"),
    (b":status", b"100"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"302"),
    (b":status", b"400"),
    (b":status", b"403"),
    (b":status", b"421"),
    (b":status", b"425"),
    (b":status", b"500"),
    (b"accept-language", b""),
    (b"access-control-allow-credentials", b"FALSE"),
    (b"access-control-allow-credentials", b"TRUE"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-allow-methods", b"get"),
    (b"access-control-allow-methods", b"get, post, options"),
    (b"access-control-allow-methods", b"options"),
    (b"access-control-expose-headers", b"content-length"),
    (b"access-control-request-headers", b"content-type"),
    (b"access-control-request-method", b"get"),
    (b"access-control-request-method", b"post"),
    (b"alt-svc", b"clear"),
    (b"authorization", b""),
    (b"content-security-policy", b"script-src 'none'; object-src 'none'; base-uri 'none'"),
    (b"early-data", b"1"),
    (b"expect-ct", b""),
    (b"forwarded", b""),
    (b"if-range", b""),
    (b"origin", b""),
    (b"purpose", b"prefetch"),
    (b"server", b""),
    (b"timing-allow-origin", b"*"),
    (b"upgrade-insecure-requests", b"1"),
    (b"user-agent", b""),
    (b"x-forwarded-for", b""),
    (b"x-frame-options", b"deny"),
    (b"x-frame-options", b"sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { bytes_max: 10_000, fields_max: 100 };

    fn read(block: &[u8]) -> Option<Vec<String>> {
        let mut fields = Fields::default();
        decode(block, BOUNDS, &mut fields).ok()?;
        Some(fields.iter().map(|(name, value)| [name, b"=", value].concat().escape_ascii().to_string()).collect())
    }

    #[test]
    fn every_form_without_a_dynamic_table_is_read() {
        // The first example of the standard (appendix B.1).
        let example = b"\0\0\x51\x0b/index.html";
        assert_eq!(read(example).expect("well-formed"), [":path=/index.html"]);
        // Indexed, by an index of one byte and of two; a name in full; both coded by Huffman.
        let block = b"\0\0\xd1\xff\x23\x23abc\x03def\x5f\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let expected = [":method=GET", "x-frame-options=sameorigin", "abc=def", "user-agent=www.example.com"];
        assert_eq!(read(block).expect("well-formed"), expected);
        assert_eq!(read(b"\0\0").expect("empty"), [""; 0]);
    }

    #[test]
    fn what_refers_to_a_dynamic_table_or_ends_early_is_not_read() {
        for block in [
            &b""[..],
            b"\0",
            // Insertions are required; the base lies before the beginning.
            b"\x02\0\xd1",
            b"\0\x80\xd1",
            // Indexed and by name, relative and behind the base.
            b"\0\0\x80",
            b"\0\0\x10",
            b"\0\0\x40\x01a",
            b"\0\0\x00\x01a",
            // No such entry.
            b"\0\0\xff\x24",
            b"\0\0\x51\x0b/index",
            b"\0\0\x23ab",
            b"\0\0\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(read(block), None, "{}", block.escape_ascii());
        }
    }

    #[test]
    fn more_than_is_wanted_is_told_and_not_kept() {
        let mut fields = Fields::default();
        let bounds = Bounds { bytes_max: 100, fields_max: 2 };
        decode(b"\0\0\xd1\xd1\xd1", bounds, &mut fields).expect("well-formed");
        assert!(fields.is_too_large && fields.iter().count() == 2);
        let mut endless = vec![0; 2];
        endless.extend([0xff, 0x16].repeat(200));
        assert!(decode(&endless, bounds, &mut fields).is_err(), "reading for nothing has an end");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_read_within_the_bounds(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut fields = Fields::default();
            let bounds = Bounds { bytes_max: 200, fields_max: 4 };
            let _ = decode(&[&[0, 0], block.as_slice()].concat(), bounds, &mut fields);
            let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
            prop_assert!(bytes <= 200 && fields.iter().count() <= 4);
        }
    }
}
