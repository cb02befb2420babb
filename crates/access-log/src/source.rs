//! A log of any format, recognised by its first bytes.

use crate::world_cup::Record;
use crate::{Container, Requests, container, gzip};
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// How many times a log may be compressed.
const LAYERS_MAX: u32 = 3;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// A log that has been opened.
pub enum Source<'a> {
    /// Lines.
    Lines(Box<Requests<Box<dyn BufRead + 'a>>>),
    /// Records of the World Cup of 1998.
    Records(Box<dyn BufRead + 'a>),
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read, or is damaged as a compressed file.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is something else than a log.
    #[error("it is {}, no access log as it stands{}", .0.name, remedy(.0.reads))]
    Container(Container),
    /// It is compressed more than three times.
    #[error("it is compressed by gzip more than {LAYERS_MAX} times")]
    Layers,
}

fn remedy(reads: &str) -> String {
    if reads.is_empty() { String::new() } else { format!("; put `{reads} |` in front, and give /dev/stdin as the log") }
}

impl<'a> Source<'a> {
    /// Opens a log, also one that gzip has compressed.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn open(log: impl Read + 'a) -> Result<Self, SourceError> {
        let mut log: Box<dyn Read + 'a> = Box::new(log);
        for _ in 0..=LAYERS_MAX {
            let mut head = Vec::new();
            log.by_ref().take(container::HEAD_BYTES as u64).read_to_end(&mut head)?;
            let is_compressed = head.starts_with(&gzip::MAGIC);
            let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head.clone()).chain(log));
            if is_compressed {
                log = Box::new(gzip::Members::new(whole));
                continue;
            }
            if Record::begins(&head) {
                return Ok(Self::Records(Box::new(whole)));
            }
            return match container::of(&head) {
                Some(found) => Err(SourceError::Container(found)),
                None => Ok(Self::Lines(Box::new(Requests::new(Box::new(whole))))),
            };
        }
        Err(SourceError::Layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] = b"::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n";

    fn requests(bytes: &[u8]) -> Result<usize, String> {
        let Source::Lines(mut requests) = Source::open(bytes).map_err(|error| error.to_string())? else { return Ok(0) };
        let mut count = 0;
        while let Some((_, entry)) = requests.next_request().map_err(|error| error.to_string())? {
            count += usize::from(entry.is_ok());
        }
        Ok(count)
    }

    #[test]
    fn a_log_is_known_by_its_first_bytes() {
        let text = LINE.repeat(100);
        let twice = gzip::compressed(&gzip::compressed(&text));
        let zeros = [&[0; 9000][..], &text].concat();
        for log in [&text[..], &gzip::compressed(&text), &twice, &zeros, &[b"\xef\xbb\xbf", &text[..]].concat()] {
            assert_eq!(requests(log), Ok(100));
        }
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for log in [&tar[..], &gzip::compressed(&tar)] {
            assert!(requests(log).is_err_and(|said| said.contains("tar -xOf FILE |")));
        }
        assert!(requests(b"\xfd7zXZ\0\0\x04").is_err_and(|said| said.contains("xzcat FILE |")));
        assert_eq!(requests(b""), Ok(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_opened_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), zeros in 0usize..30) {
            let _ = requests(&bytes);
            let _ = requests(&[&vec![0; zeros][..], LINE, &bytes].concat());
            let _ = requests(&[&gzip::MAGIC[..], &bytes].concat());
        }
    }
}
