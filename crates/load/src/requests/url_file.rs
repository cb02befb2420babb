//! A file with a URL in each line and nothing else, as `http_load` reads it.

use crate::requests::listed::REQUESTS_MAX;
use crate::{Url, UrlError};

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 8192;

/// What is wrong with a file of URLs, and in which line, from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFileError {
    /// A line without a URL, which the original takes for one of no protocol.
    #[error("line {line} is empty: each line is a URL; take it out")]
    EmptyLine {
        /// The line.
        line: usize,
    },
    /// A line that is no URL.
    #[error("line {line}: {cause}")]
    NoUrl {
        /// The line.
        line: usize,
        /// What is wrong with it.
        cause: UrlError,
    },
    /// A line that is no text, or longer than any URL.
    #[error("line {line}: no URL but {what}")]
    NoText {
        /// The line.
        line: usize,
        /// What it is.
        what: &'static str,
    },
    /// No line at all.
    #[error("there is no URL in it; write one in each line")]
    Empty,
    /// More lines than a run takes.
    #[error("line {line}: there are more than 1000000 URLs; leave some out")]
    TooMany {
        /// The line.
        line: usize,
    },
}

/// Reads a file of URLs; spaces and a carriage return at the end of a line do not count.
///
/// # Errors
/// [`UrlFileError`] for the first line that is none.
pub fn parse_url_file(bytes: &[u8]) -> Result<Vec<Url>, UrlFileError> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What stands behind the last line's end is no line.
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut urls = Vec::with_capacity(lines.len().min(REQUESTS_MAX));
    for (line, bytes) in (1..).zip(lines) {
        if line > REQUESTS_MAX {
            return Err(UrlFileError::TooMany { line });
        }
        let bytes = bytes.trim_ascii_end();
        if bytes.is_empty() {
            return Err(UrlFileError::EmptyLine { line });
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(UrlFileError::NoText { line, what: "more than 8192 bytes" });
        }
        let text = str::from_utf8(bytes).map_err(|_| UrlFileError::NoText { line, what: "bytes that are no UTF-8" })?;
        urls.push(Url::parse(text).map_err(|cause| UrlFileError::NoUrl { line, cause })?);
    }
    if urls.is_empty() { Err(UrlFileError::Empty) } else { Ok(urls) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_wrong_line_is_named() {
        assert_eq!(parse_url_file(b"http://h/a\n\nhttp://h/b\n"), Err(UrlFileError::EmptyLine { line: 2 }));
        assert_eq!(parse_url_file(b"http://h/a\n  \n"), Err(UrlFileError::EmptyLine { line: 2 }));
        assert_eq!(parse_url_file(b""), Err(UrlFileError::Empty));
        let wrong = parse_url_file(b"http://h/a\nhttp://h/b\nh/c").expect_err("no scheme").to_string();
        assert_eq!(wrong, "line 3: h/c: the URL has no scheme; did you mean http://h/c?");
        assert!(matches!(parse_url_file(b"http://h/\xff"), Err(UrlFileError::NoText { line: 1, .. })));
        let long = format!("http://h/{}", "x".repeat(LINE_BYTES_MAX));
        assert!(matches!(parse_url_file(long.as_bytes()), Err(UrlFileError::NoText { line: 1, .. })));
    }

    #[test]
    fn lines_may_end_as_they_do_elsewhere() {
        let urls = parse_url_file(b"http://h/a\r\nhttps://h:1/b ").expect("two URLs");
        assert_eq!(urls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["http://h/a", "https://h:1/b"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_urls_or_an_error(bytes: Vec<u8>) {
            let _ = parse_url_file(&bytes);
        }

        #[test]
        fn as_many_urls_come_as_there_are_lines(paths in prop::collection::vec("[a-z/?=%]{0,20}", 1..50)) {
            let text: String = paths.iter().map(|path| format!("http://host:8080/{path}\n")).collect();
            let urls = parse_url_file(text.as_bytes()).expect("URLs");
            prop_assert_eq!(urls.len(), paths.len());
            for (url, path) in urls.iter().zip(&paths) {
                prop_assert_eq!(&url.target, &format!("/{path}"));
            }
        }
    }
}
