//! Heads of responses as blocks of fields (RFC 9204): the static table and literals only, so that every block is the
//! same bytes for the same head.

use super::qpack::STATIC;
use crate::http2::encode::{each_field, integer};

/// Where a name begins in the static table, and what it has there.
fn place_of(name: &[u8]) -> Option<usize> {
    // What this server says, the most frequent first; all others are found in the whole table.
    const FREQUENT: [usize; 11] = [92, 6, 44, 4, 7, 10, 32, 36, 59, 42, 12];
    let is = |&place: &usize| STATIC[place].0.eq_ignore_ascii_case(name);
    FREQUENT.into_iter().find(is).or_else(|| (0..STATIC.len()).find(is))
}

/// Appends the block of a head as HTTP/1.1 has it: a status line and fields, up to the empty line.
pub(crate) fn block(head: &[u8], out: &mut Vec<u8>) {
    // No insertions are required, and the base is 0.
    out.extend_from_slice(&[0, 0]);
    status(head.get(9..12).unwrap_or(b"500"), out);
    each_field(head, |name, value| {
        match place_of(name) {
            Some(place) => {
                // Entries of one name follow each other.
                let same = STATIC[place..].iter().take_while(|(other, _)| *other == STATIC[place].0);
                if let Some(more) = same.map(|(_, value)| *value).position(|known| known == value) {
                    return integer(out, 0xc0, 6, place + more);
                }
                integer(out, 0x50, 4, place);
            }
            None => {
                integer(out, 0x20, 3, name.len());
                out.extend(name.iter().map(u8::to_ascii_lowercase));
            }
        }
        integer(out, 0, 7, value.len());
        out.extend_from_slice(value);
    });
}

/// Appends the block of fields behind a body, as HTTP/1.1 has their lines, by literal names: they are rare.
#[cold]
pub(crate) fn trailers(lines: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
    each_field(lines, |name, value| {
        integer(out, 0x20, 3, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        integer(out, 0, 7, value.len());
        out.extend_from_slice(value);
    });
}

fn status(digits: &[u8], out: &mut Vec<u8>) {
    let is_status = |place: &usize| STATIC[*place] == (b":status", digits);
    match (24..=28).chain(63..=71).find(is_status) {
        Some(place) => integer(out, 0xc0, 6, place),
        None => {
            integer(out, 0x50, 4, 24);
            out.push(3);
            out.extend_from_slice(digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::qpack::decode;
    use crate::http::fields::{Bounds, Fields};

    #[test]
    fn a_block_says_what_the_head_said() {
        let long = "x".repeat(300);
        for status in ["200", "206", "301", "404", "416", "503"] {
            let head = format!(
                "HTTP/1.1 {status} What Ever\r\nServer: weir\r\nDate: Mon, 21 Oct 2013 20:13:21 GMT\r\nX-Own:  {long}\r\n\
                 Connection: close\r\nETag: \"a\"\r\nContent-Type: text/html; charset=utf-8\r\nAccept-Ranges: bytes\r\n\
                 Content-Type: text/plainer\r\nContent-Length: 5\r\n\r\nX-Body: no"
            );
            let mut block = Vec::new();
            super::block(head.as_bytes(), &mut block);
            let mut fields = Fields::default();
            decode(&block, Bounds { bytes_max: 10_000, fields_max: 50 }, &mut fields).expect("well-formed");
            let text: Vec<String> =
                fields.iter().map(|(name, value)| [name, b"=", value].concat().escape_ascii().to_string()).collect();
            let expected = [
                format!(":status={status}"),
                "server=weir".to_owned(),
                "date=Mon, 21 Oct 2013 20:13:21 GMT".to_owned(),
                format!("x-own={long}"),
                "etag=\\\"a\\\"".to_owned(),
                "content-type=text/html; charset=utf-8".to_owned(),
                "accept-ranges=bytes".to_owned(),
                "content-type=text/plainer".to_owned(),
                "content-length=5".to_owned(),
            ];
            assert_eq!(text, expected);
        }
    }
}
