//! Lists whose entries end with a NUL byte: httperf's files of URIs (`--wlog`) and of servers (`--servers`).

use crate::requests::listed::{HOSTS_MAX, REQUESTS_MAX};

/// The longest entry, in bytes.
const ENTRY_BYTES_MAX: usize = 8192;

/// What is wrong with a list, and in which entry, from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NulListError {
    /// Nothing in it.
    #[error("there is no entry in it; write each with a NUL byte at its end")]
    Empty,
    /// An entry that cannot stand in a request.
    #[error("entry {entry}: {what}; entries end with a NUL byte (tr '\\n' '\\0' makes such a list of lines)")]
    Entry {
        /// The entry.
        entry: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// More entries than a run takes.
    #[error("there are more than {most} entries; leave some out")]
    TooMany {
        /// The most that there may be.
        most: usize,
    },
}

/// Reads a list of URIs; empty entries do not count.
///
/// # Errors
/// [`NulListError`], with the first entry that is no URI.
pub fn parse_uri_log(bytes: &[u8]) -> Result<Vec<String>, NulListError> {
    parse(bytes, &[0], REQUESTS_MAX)
}

/// Reads a list of servers' names, one in each line or with a NUL byte at its end.
///
/// # Errors
/// [`NulListError`], with the first entry that is no name.
pub fn parse_server_list(bytes: &[u8]) -> Result<Vec<String>, NulListError> {
    parse(bytes, &[0, b'\n'], HOSTS_MAX)
}

fn parse(bytes: &[u8], ends: &[u8], most: usize) -> Result<Vec<String>, NulListError> {
    let mut list = Vec::new();
    for (entry, bytes) in (1..).zip(bytes.split(|byte| ends.contains(byte))) {
        let wrong = |what| Err(NulListError::Entry { entry, what });
        if bytes.is_empty() {
            continue;
        }
        if list.len() == most {
            return Err(NulListError::TooMany { most });
        }
        match std::str::from_utf8(bytes) {
            Err(_) => return wrong("it is no UTF-8 text"),
            Ok(text) if text.len() > ENTRY_BYTES_MAX => return wrong("it is longer than 8192 bytes"),
            Ok(text) if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => {
                return wrong("there is a space, a line's end or a control character in it");
            }
            Ok(text) => list.push(text.to_owned()),
        }
    }
    if list.is_empty() { Err(NulListError::Empty) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_end_with_nul_and_empty_ones_do_not_count() {
        assert_eq!(parse_uri_log(b"/a\0\0/b?c\0/d").expect("a list"), ["/a", "/b?c", "/d"]);
        assert_eq!(parse_server_list(b"one\ntwo\0\nthree\n").expect("a list"), ["one", "two", "three"]);
        assert_eq!(parse_uri_log(b"\0\0"), Err(NulListError::Empty));
        for (bytes, entry) in [(&b"/a\0/b\n\0"[..], 2), (b"/a b\0", 1), (b"/a\0/\xff", 2)] {
            assert!(matches!(parse_uri_log(bytes), Err(NulListError::Entry { entry: found, .. }) if found == entry));
        }
        let many = b"h\0".repeat(HOSTS_MAX + 1);
        assert_eq!(parse_server_list(&many), Err(NulListError::TooMany { most: HOSTS_MAX }));
        assert!(parse_uri_log(&[b'x'; ENTRY_BYTES_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in prop::collection::vec("/[!-~]{0,20}", 1..20)) {
            let bytes = entries.iter().fold(Vec::new(), |mut all, entry| {
                all.extend_from_slice(entry.as_bytes());
                all.push(0);
                all
            });
            prop_assert_eq!(parse_uri_log(&bytes), Ok(entries));
        }

        #[test]
        fn nothing_read_can_break_a_request(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for list in [parse_uri_log(&bytes), parse_server_list(&bytes)].into_iter().flatten() {
                prop_assert!(!list.is_empty());
                prop_assert!(list.iter().all(|entry| !entry.is_empty() && !entry.contains(['\r', '\n', ' ', '\0'])));
            }
        }
    }
}
