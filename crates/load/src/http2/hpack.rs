//! Header blocks of responses (RFC 7541), read as far as they decide anything: the status and the length of the content.
//!
//! The server is told to keep no table of headers, so a block means the same wherever it stands: it is decoded without
//! any state, and one that comes again byte for byte is not decoded again.

use crate::heads::head::{set_length, set_status, status};
use crate::heads::prefixed::{take_number, take_text};
use crate::heads::remembered::Remembered;
use crate::http2::malformed::Malformed;
use weir_wire::header_tables::STATIC_FIELDS;

pub use crate::heads::Head;

/// The longest block that is read, in bytes, with all its continuations.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// The names of the static table (RFC 7541 appendix A) by their numbers, which begin with 1.
const STATIC_NAMES: u64 = 61;
/// Which of them is `content-length`.
const CONTENT_LENGTH: u64 = 28;
/// Which of them is `set-cookie`.
const SET_COOKIE: u64 = 55;
/// The statuses that have a number of their own, from 8 on.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// Reads blocks, and remembers the last.
#[derive(Debug, Default)]
pub struct Decoder {
    last: Remembered,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// One that also keeps the cookies which a block sets.
    #[must_use]
    pub fn with_cookies() -> Self {
        let mut decoder = Self::default();
        decoder.last.keep_cookies();
        decoder
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
    /// [`Malformed`] where it breaks RFC 7541, or RFC 9113 8.2 and 8.3 for a response.
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
        let (mut head, mut fields) = (Head::default(), 0);
        while let Some(first) = rest.first().copied() {
            match first {
                // An indexed field.
                0x80.. => self.indexed(take_number(&mut rest, 7)?, &mut head, &mut fields)?,
                // A literal one, to be kept in the table, which holds nothing: so it is like the other literal ones.
                0x40.. => self.literal(&mut rest, 6, &mut head, &mut fields)?,
                0x20.. => {
                    if fields > 0 || take_number(&mut rest, 5)? > 0 {
                        return Err(Malformed::compression("it wants a table of headers that we refused"));
                    }
                }
                _ => self.literal(&mut rest, 4, &mut head, &mut fields)?,
            }
        }
        Ok(head)
    }

    fn indexed(&mut self, index: u64, head: &mut Head, fields: &mut u32) -> Result<(), Malformed> {
        *fields += 1;
        if (15..=STATIC_NAMES).contains(&index) {
            let (name, value) = STATIC_FIELDS[index as usize - 1];
            self.last.field(name, value);
        }
        match index {
            8..=14 => Ok(set_status(head, STATUSES[index as usize - 8], *fields)?),
            1..=7 => Err(Malformed::protocol("a response with a field of requests")),
            // Of the static table's other fields none has a value that decides anything: `content-length` has none there.
            15..=STATIC_NAMES => Ok(()),
            _ => Err(Malformed::compression("a field of a table that does not exist")),
        }
    }

    fn literal(&mut self, rest: &mut &[u8], bits: u32, head: &mut Head, fields: &mut u32) -> Result<(), Malformed> {
        let index = take_number(rest, bits)?;
        self.name.clear();
        self.value.clear();
        if index == 0 {
            take_text(rest, 7, &mut self.name)?;
        }
        take_text(rest, 7, &mut self.value)?;
        *fields += 1;
        if index == SET_COOKIE || index == 0 && self.name == b"set-cookie" {
            self.last.cookie(&self.value);
        }
        if index == 0 || (15..=STATIC_NAMES).contains(&index) {
            let name = if index == 0 { self.name.as_slice() } else { STATIC_FIELDS[index as usize - 1].0 };
            self.last.field(name, &self.value);
        }
        match index {
            0 => {
                if self.name.is_empty() || self.name.iter().any(u8::is_ascii_uppercase) {
                    return Err(Malformed::protocol("a field without a name, or with capitals in it"));
                }
                match self.name.as_slice() {
                    b":status" => Ok(set_status(head, status(&self.value)?, *fields)?),
                    b"content-length" => Ok(set_length(head, &self.value)?),
                    [b':', ..] => Err(Malformed::protocol("a response with a field of requests")),
                    _ => Ok(()),
                }
            }
            8..=14 => Ok(set_status(head, status(&self.value)?, *fields)?),
            1..=7 => Err(Malformed::protocol("a response with a field of requests")),
            CONTENT_LENGTH => Ok(set_length(head, &self.value)?),
            15..=STATIC_NAMES => Ok(()),
            _ => Err(Malformed::compression("a name of a table that does not exist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &[u8]) -> Result<Head, Malformed> {
        Decoder::default().decode(block)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // C.5.1 without the string code and C.6.1 with it: the same response, of status 302.
        let plain = b"\x48\x03302\x58\x07private\x61\x1dMon, 21 Oct 2013 20:13:21 GMT\x6e\x17https://www.example.com";
        let coded = b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\
            \x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\
            \x82\xae\x43\xd3";
        let found = Ok(Head { status: 302, length: None });
        assert_eq!((read(plain), read(coded)), (found, found));
        // C.6.2 says the same of the fields that C.6.1 put into a table, which is refused here.
        assert_eq!(read(b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf").map_err(|error| error.code), Err(0x9));
        // C.2.1 and C.2.3: fields that decide nothing; a block without a status is one of trailers.
        assert_eq!(read(b"\x40\x0acustom-key\x0dcustom-header"), Ok(Head::default()));
        assert_eq!(read(b"\x10\x08password\x06secret"), Ok(Head::default()));
    }

    #[test]
    fn statuses_and_lengths_are_found_however_they_are_written() {
        let head = |status, length| Ok(Head { status, length });
        assert_eq!(read(b"\x88"), head(200, None));
        assert_eq!(read(b"\x20\x8d\x0f\x0d\x0242"), head(404, Some(42)));
        assert_eq!(read(b"\x08\x03299"), head(299, None));
        assert_eq!(read(b"\x00\x07:status\x03201\x00\x0econtent-length\x010"), head(201, Some(0)));
    }

    #[test]
    fn what_no_response_may_say_is_refused() {
        for (block, code) in [
            (&b"\x82"[..], 0x1),
            (b"\x88\x88", 0x1),
            (b"\x0f\x0d\x011\x88", 0x1),
            (b"\x08\x0299", 0x1),
            (b"\x08\x04+200", 0x1),
            (b"\x88\x0f\x0d\x02-1", 0x1),
            (b"\x88\x0f\x0d\x011\x0f\x0d\x012", 0x1),
            (b"\x88\x00\x01A\x01b", 0x1),
            (b"\x88\x00\x00\x01b", 0x1),
            (b"\x00\x05:path\x01/", 0x1),
            (b"\x80", 0x9),
            (b"\xbe", 0x9),
            (b"\x3f\xe1\x1f", 0x9),
            (b"\x88\x20", 0x9),
            (b"\x7f\xff\xff\xff\xff\xff\x01", 0x9),
            (b"\x00\x05ab", 0x9),
            (b"\x00", 0x9),
            (b"\x48\x81\x00", 0x9),
        ] {
            assert_eq!(read(block).map_err(|error| error.code), Err(code), "{block:02x?}");
        }
    }

    #[test]
    fn cookies_are_those_of_the_block_that_was_given_last() {
        let first = b"\x88\x0f\x28\x03a=1\x00\x0aset-cookie\x03b=2\xb7";
        let mut long = b"\x88\x0f\x28\x03c=3\x00\x01x\x7f\x81\x0f".to_vec();
        long.resize(long.len() + 0x7f + 0x781, b'y');
        let mut decoder = Decoder::with_cookies();
        let mut of = |block: &[u8]| {
            decoder.decode(block).expect("a good block");
            decoder.cookies().map(|value| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(first), ["a=1", "b=2"]);
        assert_eq!(of(first), ["a=1", "b=2"]);
        // Too long to be remembered.
        assert_eq!(of(&long), ["c=3"]);
        assert_eq!(of(first), ["a=1", "b=2"]);
        assert!(of(b"\x88").is_empty());
        let mut without = Decoder::default();
        assert!(without.decode(first).is_ok() && without.cookies().next().is_none());
    }

    #[test]
    fn all_fields_are_kept_where_they_are_wanted() {
        let block = b"\x88\x0f\x0d\x0242\x00\x01x\x03a\nb\x5f\x03t/x\x90";
        let mut decoder = Decoder::default();
        decoder.keep_fields();
        for _ in 0..2 {
            decoder.decode(block).expect("a good block");
            let fields = String::from_utf8_lossy(decoder.fields()).into_owned();
            assert_eq!(fields, "content-length: 42\nx: a b\ncontent-type: t/x\naccept-encoding: gzip, deflate\n");
        }
        let mut without = Decoder::default();
        assert!(without.decode(block).is_ok() && without.fields().is_empty());
    }

    #[test]
    fn a_block_that_was_refused_is_not_remembered() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(b"\x88").map(|head| head.status), Ok(200));
        assert!(decoder.decode(b"\x82").is_err() && decoder.decode(b"\x82").is_err());
        assert_eq!(decoder.decode(b"\x88").map(|head| head.status), Ok(200));
        assert_eq!(decoder.decode(b"\x8d").map(|head| head.status), Ok(404));
    }
}
