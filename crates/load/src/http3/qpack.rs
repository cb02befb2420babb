//! Blocks of fields of responses (RFC 9204), read as far as they decide anything, and the fields of requests.
//!
//! The server is told that this client keeps no table of fields (a capacity of 0 goes without saying, RFC 9204 5), so a
//! block means the same wherever it stands: one that comes again byte for byte is not decoded again.

use crate::heads::head::{set_length, set_status, status};
use crate::heads::prefixed::{put_number, take_number, take_text};
use crate::heads::remembered::Remembered;
use crate::http3::malformed::Malformed;
use crate::http3::static_table::STATIC_TABLE;

pub use crate::heads::Head;

const NO_TABLE: Malformed = Malformed::compression("a field of a table that does not exist");

/// Reads blocks, and remembers the last.
#[derive(Debug, Default)]
pub struct Decoder {
    last: Remembered,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Keeps the cookies that a block sets, for [`Decoder::cookies`].
    pub fn keep_cookies(&mut self) {
        self.last.keep_cookies();
    }

    /// Keeps all fields of a block but its status, for [`Decoder::fields`].
    pub fn keep_fields(&mut self) {
        self.last.keep_fields();
    }

    /// The fields of the block that was decoded last, a line of `name: value` for each, where they are kept.
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.last.fields()
    }

    /// The values of the `set-cookie` fields of the block that was decoded last, where they are kept.
    pub fn cookies(&self) -> impl Iterator<Item = &[u8]> {
        self.last.cookies()
    }

    /// What a whole block says.
    ///
    /// # Errors
    /// [`Malformed`] where it breaks RFC 9204, or RFC 9114 4.2 and 4.3 for a response.
    #[inline]
    pub fn decode(&mut self, block: &[u8]) -> Result<Head, Malformed> {
        if let Some(head) = self.last.again(block) {
            return Ok(head);
        }
        self.last.begin();
        let head = self.read(block)?;
        self.last.end(block, head);
        Ok(head)
    }

    fn read(&mut self, block: &[u8]) -> Result<Head, Malformed> {
        let mut rest = block;
        // RFC 9204 4.5.1: how many insertions it needs, and a base, which means nothing where it needs none.
        if take_number(&mut rest, 8)? != 0 {
            return Err(Malformed::compression("it wants a table of fields that we refused"));
        }
        take_number(&mut rest, 7)?;
        let (mut head, mut fields) = (Head::default(), 0);
        while let Some(first) = rest.first().copied() {
            self.name.clear();
            self.value.clear();
            fields += 1;
            match first {
                0xc0.. => {
                    let (name, value) = in_table(take_number(&mut rest, 6)?)?;
                    self.name.extend_from_slice(name.as_bytes());
                    self.value.extend_from_slice(value.as_bytes());
                }
                0x50..0x60 | 0x70..0x80 => {
                    self.name.extend_from_slice(in_table(take_number(&mut rest, 4)?)?.0.as_bytes());
                    take_text(&mut rest, 7, &mut self.value)?;
                }
                0x20..0x40 => {
                    take_text(&mut rest, 3, &mut self.name)?;
                    take_text(&mut rest, 7, &mut self.value)?;
                }
                _ => return Err(NO_TABLE),
            }
            self.field(&mut head, fields)?;
        }
        Ok(head)
    }

    /// A field is read, the last of so many.
    fn field(&mut self, head: &mut Head, fields: u32) -> Result<(), Malformed> {
        if self.name.is_empty() || self.name.iter().any(u8::is_ascii_uppercase) {
            return Err(Malformed::message("a field without a name, or with capitals in it"));
        }
        match self.name.as_slice() {
            b":status" => return Ok(set_status(head, status(&self.value)?, fields)?),
            [b':', ..] => return Err(Malformed::message("a response with a field of requests")),
            b"content-length" => set_length(head, &self.value)?,
            b"set-cookie" => self.last.cookie(&self.value),
            // RFC 9114 4.2: these speak of a connection of HTTP/1.
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return Err(Malformed::message("a response with a field of the connection"));
            }
            _ => {}
        }
        self.last.field(&self.name, &self.value);
        Ok(())
    }
}

fn in_table(index: u64) -> Result<(&'static str, &'static str), Malformed> {
    usize::try_from(index).ok().and_then(|index| STATIC_TABLE.get(index).copied()).ok_or(NO_TABLE)
}

/// Appends what a block begins with that needs no table.
pub(crate) fn put_prefix(block: &mut Vec<u8>) {
    block.extend_from_slice(&[0, 0]);
}

/// Appends a field: by its number in the static table, by that of its name, or in full.
pub(crate) fn put_field(block: &mut Vec<u8>, name: &str, value: &str) {
    if let Some(place) = STATIC_TABLE.iter().position(|known| *known == (name, value)) {
        return put_number(block, 0xc0, 6, place);
    }
    put_literal(block, name, value.as_bytes());
}

/// Appends a field whose value is given in full.
pub(crate) fn put_literal(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    match STATIC_TABLE.iter().position(|(known, _)| *known == name) {
        Some(place) => put_number(block, 0x50, 4, place),
        None => {
            put_number(block, 0x20, 3, name.len());
            block.extend_from_slice(name.as_bytes());
        }
    }
    put_number(block, 0, 7, value.len());
    block.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http3::malformed::code;
    use proptest::prelude::*;

    fn read(block: &[u8]) -> Result<Head, Malformed> {
        Decoder::default().decode(block)
    }

    #[test]
    fn statuses_and_lengths_are_found_however_they_are_written() {
        let head = |status, length| Ok(Head { status, length });
        // RFC 9204 B.1: a literal with a name of the static table; a path, which is no response's.
        assert!(read(b"\x00\x00\x51\x0b/index.html").is_err());
        assert_eq!(read(b"\x00\x00\xd9"), head(200, None));
        assert_eq!(read(b"\x00\x00\xd9\xc4"), head(200, Some(0)));
        assert_eq!(read(b"\x00\x00\xdb\x54\x0242"), head(404, Some(42)));
        assert_eq!(read(b"\x00\x00\xff\x08\xff\x23"), head(500, None));
        assert_eq!(read(b"\x00\x00\x5f\x09\x03299"), head(299, None));
        // In full, and in the string code: 302 is 64 02.
        assert_eq!(read(b"\x00\x00\x27\x00:status\x82\x64\x02\x27\x07content-length\x010"), head(302, Some(0)));
        assert_eq!(read(b"\x00\x00\x24name\x05value"), head(0, None));
    }

    #[test]
    fn what_no_response_may_say_is_refused() {
        for (block, wanted) in [
            (&b""[..], code::DECOMPRESSION_FAILED),
            (b"\x00", code::DECOMPRESSION_FAILED),
            (b"\x01\x00\xd9", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\x80", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\x10", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\x40\x01a", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\xff\x24", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\x54\x05a", code::DECOMPRESSION_FAILED),
            (b"\x00\x00\xd9\xd9", code::MESSAGE_ERROR),
            (b"\x00\x00\x54\x011\xd9", code::MESSAGE_ERROR),
            (b"\x00\x00\xd1", code::MESSAGE_ERROR),
            (b"\x00\x00\xd9\x21A\x01b", code::MESSAGE_ERROR),
            (b"\x00\x00\xd9\x20\x01b", code::MESSAGE_ERROR),
            (b"\x00\x00\xd9\x27\x03connection\x01b", code::MESSAGE_ERROR),
            (b"\x00\x00\xd9\x54\x011\x54\x012", code::MESSAGE_ERROR),
        ] {
            assert_eq!(read(block).map_err(|error| error.code), Err(wanted), "{block:02x?}");
        }
    }

    #[test]
    fn fields_and_cookies_are_those_of_the_block_that_was_given_last() {
        let mut decoder = Decoder::default();
        decoder.keep_cookies();
        decoder.keep_fields();
        let mut block = Vec::new();
        put_prefix(&mut block);
        for (name, value) in
            [(":status", "200"), ("set-cookie", "a=1"), ("server", "x"), ("vary", "origin"), ("x-y", "z\nw")]
        {
            put_field(&mut block, name, value);
        }
        for _ in 0..2 {
            assert_eq!(decoder.decode(&block).map(|head| head.status), Ok(200));
            assert_eq!(decoder.fields(), b"set-cookie: a=1\nserver: x\nvary: origin\nx-y: z w\n");
            assert_eq!(decoder.cookies().collect::<Vec<_>>(), [b"a=1"]);
        }
        assert!(decoder.decode(b"\x00\x00\xd9").is_ok() && decoder.cookies().next().is_none());
        assert!(decoder.fields().is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(status in 100u16..1000, length: Option<u64>, name in "[a-z][a-z0-9-]{0,20}", value in "[ -~]{0,200}") {
            prop_assume!(!["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length"].contains(&name.as_str()));
            let mut block = Vec::new();
            put_prefix(&mut block);
            put_field(&mut block, ":status", &status.to_string());
            length.iter().for_each(|length| put_field(&mut block, "content-length", &length.to_string()));
            put_field(&mut block, &name, &value);
            let mut decoder = Decoder::default();
            decoder.keep_fields();
            prop_assert_eq!(decoder.decode(&block), Ok(Head { status, length }));
            let last = decoder.fields().split(|byte| *byte == b'\n').rev().nth(1).map(<[u8]>::to_vec);
            prop_assert_eq!(last, Some(format!("{name}: {value}").into_bytes()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(block in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut decoder = Decoder::default();
            let first = decoder.decode(&block);
            prop_assert_eq!(decoder.decode(&block), first);
        }
    }
}
