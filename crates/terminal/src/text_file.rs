//! Text that people give in files or on standard input, as editors and tools of other systems save it.
//!
//! A byte order mark of UTF-8 is no part of the text; what is no such text is refused by its name, with a remedy.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Formats that are not read, by the bytes they begin with, and the program that makes text of them.
const PACKED: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so"),
];

/// Why a file is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextFileError {
    /// It cannot be read.
    #[error("{}", without_number(.0))]
    Unreadable(#[from] io::Error),
    /// It is larger than what is read.
    #[error("it is larger than {mib} MiB")]
    TooLarge {
        /// The largest that is read.
        mib: u64,
    },
    /// It is UTF-16 or UTF-32.
    #[error(
        "it is {encoding} text; save it as UTF-8, or turn it into that: iconv -f {encoding} -t UTF-8 FILE > NEW-FILE"
    )]
    Wide {
        /// Which of them.
        encoding: &'static str,
    },
    /// It is compressed.
    #[error("it is compressed ({name}); unpack it: {program} FILE > NEW-FILE")]
    Packed {
        /// The format.
        name: &'static str,
        /// The program that unpacks it.
        program: &'static str,
    },
    /// A byte that no text has.
    #[error("line {line}: a NUL byte is no text")]
    Nul {
        /// The line, from 1.
        line: usize,
    },
    /// Bytes that are no UTF-8.
    #[error(
        "line {line}: it is not UTF-8 text; if it is Latin-1, turn it into that: iconv -f LATIN1 -t UTF-8 FILE > NEW-FILE"
    )]
    NotUtf8 {
        /// The line, from 1.
        line: usize,
    },
}

fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

/// The text of a file of at most so many bytes.
///
/// # Errors
/// [`TextFileError`].
pub fn read(path: &Path, bytes_max: u64) -> Result<String, TextFileError> {
    text_of(bytes_of(&mut File::open(path)?, bytes_max)?)
}

/// The text that stands in a file, or on standard input where its name is `-`, line by line.
///
/// # Errors
/// [`TextFileError`].
pub fn read_lines(path: &Path, bytes_max: u64) -> Result<String, TextFileError> {
    Ok(lines(if path == Path::new("-") { read_stdin(bytes_max)? } else { read(path, bytes_max)? }))
}

/// The text of standard input, which can be read once only, however often it is asked for.
fn read_stdin(bytes_max: u64) -> Result<String, TextFileError> {
    static TEXT: OnceLock<String> = OnceLock::new();
    if let Some(text) = TEXT.get() {
        return Ok(text.clone());
    }
    let text = text_of(bytes_of(&mut io::stdin().lock(), bytes_max)?)?;
    Ok(TEXT.get_or_init(|| text).clone())
}

fn bytes_of(from: &mut dyn Read, bytes_max: u64) -> Result<Vec<u8>, TextFileError> {
    let mut bytes = Vec::new();
    from.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(TextFileError::TooLarge { mib: bytes_max >> 20 }) } else { Ok(bytes) }
}

/// Bytes without their mark, if they are not of another encoding or packed.
///
/// # Errors
/// [`TextFileError::Packed`], [`TextFileError::Wide`].
pub fn unmarked(bytes: &[u8]) -> Result<&[u8], TextFileError> {
    if let Some((_, name, program)) = PACKED.iter().find(|(begin, ..)| bytes.starts_with(begin)) {
        return Err(TextFileError::Packed { name, program });
    }
    match wide(bytes) {
        Some(encoding) => Err(TextFileError::Wide { encoding }),
        None => Ok(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    }
}

/// The text of these bytes.
///
/// # Errors
/// [`TextFileError`].
pub fn text_of(bytes: Vec<u8>) -> Result<String, TextFileError> {
    let text = unmarked(&bytes)?;
    let line_of = |at: usize| 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        return Err(TextFileError::Nul { line: line_of(at) });
    }
    if let Err(error) = std::str::from_utf8(text) {
        return Err(TextFileError::NotUtf8 { line: line_of(error.valid_up_to()) });
    }
    let marked = bytes.len() - text.len();
    let mut text = String::from_utf8(bytes).unwrap_or_else(|_| unreachable!("it has just been checked"));
    text.drain(..marked);
    Ok(text)
}

/// UTF-16 or UTF-32, by its mark or by the zeros that it has in letters of ASCII.
fn wide(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] => return Some("UTF-32"),
        [0, 0, 0xfe, 0xff, ..] => return Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Some("UTF-16"),
        _ => {}
    }
    let begin = &bytes[..bytes.len().min(64) & !1];
    let zeros = |odd: usize| begin.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count();
    let pairs = begin.len() / 2;
    match (zeros(0), zeros(1)) {
        _ if pairs < 2 => None,
        (0, low) if low == pairs => Some("UTF-16LE"),
        (high, 0) if high == pairs => Some("UTF-16BE"),
        _ => None,
    }
}

/// A text whose lines end with a line feed, as old systems end them with a carriage return alone, and whose later lines
/// have no mark either, as files that were put together have.
fn lines(text: String) -> String {
    let mut text = Cow::from(text);
    if text.contains('\r') && !text.contains('\n') {
        text = text.replace('\r', "\n").into();
    }
    if text.contains("\n\u{feff}") {
        text = text.replace("\n\u{feff}", "\n").into();
    }
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_no_part_of_a_text() {
        // Unicode 16, 23.8.
        let text = |bytes: &[u8]| text_of(bytes.to_vec()).map_err(|error| error.to_string());
        assert_eq!(text(b"\xef\xbb\xbf/a\r\n"), Ok("/a\r\n".to_owned()));
        assert_eq!(text(b""), Ok(String::new()));
        assert_eq!(lines("/a\r/b\r".to_owned()), "/a\n/b\n");
        assert_eq!(lines("/a\r\n\u{feff}/b\r\n".to_owned()), "/a\r\n/b\r\n");
    }

    #[test]
    fn what_is_no_text_is_named_with_its_remedy() {
        for (bytes, told) in [
            (&b"\xff\xfe/\0a\0"[..], "UTF-16 text"),
            (b"\xfe\xff\0/\0a", "UTF-16 text"),
            (b"/\0a\0\n\0", "iconv -f UTF-16LE"),
            (b"\0/\0a\0\n", "iconv -f UTF-16BE"),
            (b"\xff\xfe\0\0/\0\0\0", "UTF-32"),
            (b"\x1f\x8b\x08\0", "gzip -dc"),
            (b"PK\x03\x04\x14", "zip"),
            (b"/a\n/\xe9\n", "line 2: it is not UTF-8"),
            (b"/a\n/b\0/c\n", "line 2: a NUL byte"),
        ] {
            let error = text_of(bytes.to_vec()).expect_err(told).to_string();
            assert!(error.contains(told), "{bytes:?}: {error}");
        }
    }
}
