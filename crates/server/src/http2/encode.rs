//! Heads of responses as blocks of fields (RFC 7541): static names and literals only, so that no table is kept for a
//! client and every block is the same bytes for the same head.

use crate::http::frames::hpack::STATIC;

/// The first byte of a block that tells the client that our table has no room (RFC 7541 section 6.3).
pub(crate) const EMPTY_TABLE: u8 = 0x20;

/// Whether a name is this one, which stands in small letters. Its length is known where it is compiled, so that no loop is
/// left: whether the compiler unrolls one is a tenth of a request, and changed with code elsewhere.
#[inline(always)]
fn is<const LENGTH: usize>(name: &[u8], known: &[u8; LENGTH]) -> bool {
    let Ok(name) = <&[u8; LENGTH]>::try_from(name) else { return false };
    let mut differs = 0;
    for at in 0..LENGTH {
        differs |= name[at].to_ascii_lowercase() ^ known[at];
    }
    differs == 0
}

/// A name in the static table takes its index: found by its length, then compared.
#[inline(always)]
fn index_of(name: &[u8]) -> Option<usize> {
    // What this server says most; all others are found in the whole table.
    match name.len() {
        4 if is(name, b"date") => Some(33),
        4 if is(name, b"etag") => Some(34),
        6 if is(name, b"server") => Some(54),
        8 if is(name, b"location") => Some(46),
        12 if is(name, b"content-type") => Some(31),
        13 if is(name, b"last-modified") => Some(44),
        13 if is(name, b"accept-ranges") => Some(18),
        13 if is(name, b"content-range") => Some(30),
        14 if is(name, b"content-length") => Some(28),
        _ => index_of_another(name),
    }
}

#[inline(never)]
fn index_of_another(name: &[u8]) -> Option<usize> {
    (15..=STATIC.len()).find(|index| STATIC[index - 1].0.eq_ignore_ascii_case(name))
}

/// Appends the block of a head as HTTP/1.1 has it: a status line and fields, up to the empty line.
pub(crate) fn block(head: &[u8], out: &mut Vec<u8>) {
    // A line and its end are longer than the field that they become, but for lengths of several bytes.
    out.reserve(head.len() + 32);
    status(head.get(9..12).unwrap_or(b"500"), out);
    each_field(head, |name, value| {
        match index_of(name) {
            Some(index) => integer(out, 0, 4, index),
            None => {
                out.push(0);
                integer(out, 0, 7, name.len());
                out.extend(name.iter().map(u8::to_ascii_lowercase));
            }
        }
        integer(out, 0, 7, value.len());
        out.extend_from_slice(value);
    });
}

/// Appends the fields of some lines, by literal names: they are rare, and the way of heads stays in one place.
#[cold]
pub(crate) fn trailers(lines: &[u8], out: &mut Vec<u8>) {
    each_field(lines, |name, value| {
        out.push(0);
        integer(out, 0, 7, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        integer(out, 0, 7, value.len());
        out.extend_from_slice(value);
    });
}

/// Names and values of a head's fields; Connection says something about HTTP/1.1 only, and is left away.
#[inline(always)]
pub(crate) fn each_field(head: &[u8], mut field: impl FnMut(&[u8], &[u8])) {
    let mut lines = head;
    while let Some(end) = memchr::memchr(b'\n', lines) {
        let line = lines[..end].trim_ascii_end();
        lines = &lines[end + 1..];
        if line.is_empty() {
            break;
        }
        // The status line has a colon in no reason that this server gives.
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii_start());
        if !name.eq_ignore_ascii_case(b"connection") {
            field(name, value);
        }
    }
}

fn status(digits: &[u8], out: &mut Vec<u8>) {
    match STATIC[7..14].iter().position(|(_, status)| *status == digits) {
        Some(place) => out.push(0x80 | (place as u8 + 8)),
        None => {
            out.extend_from_slice(&[8, 3]);
            out.extend_from_slice(digits);
        }
    }
}

/// An integer behind some bits that mean something else (section 5.1).
#[inline]
pub(crate) fn integer(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
    let most = (1_usize << prefix_bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    rest_of_integer(out, value - most);
}

fn rest_of_integer(out: &mut Vec<u8>, mut rest: usize) {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_name_of_the_table_takes_the_index_at_which_it_stands_first() {
        for (at, (name, _)) in super::STATIC.iter().enumerate().skip(14) {
            let first = super::STATIC.iter().skip(14).position(|(other, _)| other == name).map(|place| place + 15);
            let upper = name.to_ascii_uppercase();
            assert_eq!([super::index_of(name), super::index_of(&upper)], [first; 2], "{at}: {name:?}");
        }
        assert_eq!(super::index_of(b"x-own"), None);
        assert_eq!(super::index_of(b"datf"), None);
    }

    use crate::http::fields::{Bounds, Fields};
    use crate::http::frames::hpack::Decoder;

    #[test]
    fn a_block_says_what_the_head_said() {
        let long = "x".repeat(300);
        for status in ["200", "206", "301", "404", "416"] {
            let head = format!(
                "HTTP/1.1 {status} What Ever\r\nServer: weir\r\nDate: Mon, 21 Oct 2013 20:13:21 GMT\r\nX-Own:  {long}\r\n\
                 Connection: close\r\nETag: \"a\"\r\nContent-Length: 5\r\n\r\nX-Body: no"
            );
            let mut block = Vec::new();
            super::block(head.as_bytes(), &mut block);
            let mut fields = Fields::default();
            let bounds = Bounds { bytes_max: 10_000, fields_max: 50 };
            Decoder::default().decode(&block, bounds, &mut fields).expect("well-formed");
            let text: Vec<String> =
                fields.iter().map(|(name, value)| [name, b"=", value].concat().escape_ascii().to_string()).collect();
            let expected = [
                format!(":status={status}"),
                "server=weir".to_owned(),
                "date=Mon, 21 Oct 2013 20:13:21 GMT".to_owned(),
                format!("x-own={long}"),
                "etag=\\\"a\\\"".to_owned(),
                "content-length=5".to_owned(),
            ];
            assert_eq!(text, expected);
        }
    }
}
