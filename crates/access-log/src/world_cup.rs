//! The logs of the World Cup of 1998 (Arlitt and Jin, "1998 World Cup Web Site Access Logs", Internet Traffic Archive):
//! records of 20 bytes, big-endian.

/// Bytes of a record.
pub const RECORD_BYTES: usize = 20;
/// The seconds of 1998, in whose spring and summer the logs were written.
const YEAR_1998: std::ops::Range<u32> = 883_612_800..915_148_800;
/// The highest number of a method (GET, HEAD, POST, PUT, DELETE, TRACE, OPTIONS, CONNECT, others).
const METHOD_MAX: u8 = 8;
/// The size that stands for none.
const NO_SIZE: u32 = u32::MAX;

/// A logged request; who asked, and what for, are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When it came, seconds since 1970.
    pub second: u32,
    /// Who asked.
    pub client: u32,
    /// What was asked for.
    pub object: u32,
    /// Bytes of the response; `None` where the log has none.
    pub bytes: Option<u32>,
    /// The method's number; 0 is GET.
    pub method: u8,
    /// The number of the status, without the version of HTTP in the two highest bits.
    pub status: u8,
    /// The type of the file: see [`TYPES`].
    pub kind: u8,
    /// The server: the region in the three highest bits, its number in the others.
    pub server: u8,
}

/// Names of the types of files.
pub const TYPES: [&str; 12] = [
    "html",
    "image",
    "audio",
    "video",
    "java",
    "formatted",
    "dynamic",
    "text",
    "compressed",
    "programs",
    "directory",
    "icl",
];

/// The statuses, by their numbers.
const STATUSES: [u16; 38] = [
    100, 101, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 305, 400, 401, 402, 403, 404, 405, 406, 407,
    408, 409, 410, 411, 412, 413, 414, 415, 500, 501, 502, 503, 504, 505, 0,
];

impl Record {
    /// Reads a record.
    #[must_use]
    pub fn parse(record: &[u8; RECORD_BYTES]) -> Self {
        let number = |at: usize| u32::from_be_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let size = number(12);
        Self {
            second: number(0),
            client: number(4),
            object: number(8),
            bytes: (size != NO_SIZE).then_some(size),
            method: record[16],
            status: record[17] & 0x3f,
            kind: record[18],
            server: record[19],
        }
    }

    /// The status as HTTP has it; `None` for a number that has none.
    #[must_use]
    pub fn status_code(&self) -> Option<u16> {
        STATUSES.get(usize::from(self.status)).copied().filter(|code| *code > 0)
    }

    /// Whether it can be one of the year of these logs, of a server that was asked by HTTP.
    fn is_plausible(&self) -> bool {
        YEAR_1998.contains(&self.second) && self.method <= METHOD_MAX && usize::from(self.kind) <= TYPES.len()
    }

    /// Whether a log begins as such records do: those that `head` holds are plausible but for a few.
    #[must_use]
    pub fn begins(head: &[u8]) -> bool {
        let (records, _) = head.as_chunks::<RECORD_BYTES>();
        let plausible = records.iter().filter(|record| Self::parse(record).is_plausible()).count();
        plausible > 0 && plausible * 10 >= records.len() * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read() {
        let bytes = [0x35, 0x4a, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0x42, 1, 0x20];
        let record = Record::parse(&bytes);
        assert_eq!((record.second, record.client, record.object), (0x354a_0001, 2, 256));
        assert_eq!((record.bytes, record.method, record.status_code()), (Some(4096), 0, Some(200)));
        assert_eq!((TYPES[usize::from(record.kind)], record.server), ("image", 0x20));
        let none = [&bytes[..12], &[0xff; 4], &bytes[16..]].concat();
        assert_eq!(Record::parse(none.first_chunk().expect("20 bytes")).bytes, None);
        assert!(Record::begins(&bytes) && !Record::begins(b"::1 - - [10/Oct/2000:13"));
        // A 0 among the first bytes makes no record: of another year, of zeros, or with bytes of xz behind it.
        let other_year = [&[0x50], &bytes[1..]].concat();
        let later = [&bytes[..], &other_year, &other_year].concat();
        let xz = [&b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01\x16\0\0\0"[..], &bytes].concat();
        for wrong in [&other_year[..], &later, &[0; 40], &bytes[..19], &xz, &[]] {
            assert!(!Record::begins(wrong), "{wrong:?}");
        }
        assert_eq!(Record::parse(&[0xff; 20]).status_code(), None);
    }
}
