//! The lines of a log, in bounded memory for any content.

use crate::Reason;
use std::io::{self, BufRead};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Reads lines one after the other; a line ends with LF, CR LF or CR.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    log: R,
    line: Vec<u8>,
    number: u64,
    /// Whether the last line ended with CR: an LF behind it belongs to it.
    is_behind_cr: bool,
    zeros: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `log`.
    pub(crate) fn new(log: R) -> Self {
        Self { log, line: Vec::new(), number: 0, is_behind_cr: false, zeros: 0 }
    }

    /// Goes to the next line that is not empty; its number from 1, and whether it can be one.
    pub(crate) fn advance(&mut self) -> io::Result<Option<(u64, Result<(), Reason>)>> {
        loop {
            let Some(is_whole) = self.fill()? else { return Ok(None) };
            self.number += 1;
            // A byte order mark, also of a log that was put behind another one.
            if self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            if !is_whole {
                return Ok(Some((self.number, Err(Reason::TooLong))));
            }
            if !self.line().is_empty() {
                return Ok(Some((self.number, Ok(()))));
            }
        }
    }

    /// The line to which it has gone, without blanks at its ends.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Puts another line in place of it.
    pub(crate) fn replace(&mut self, line: Vec<u8>) {
        self.line = line;
    }

    /// Bytes 0 in front of lines that were passed over: a writer that goes on at its old place in a file that was cut
    /// (logrotate's `copytruncate`) leaves them.
    pub(crate) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Reads a line; whether all of it fits, or `None` at the end of the log.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        self.line.clear();
        let (mut is_whole, mut has_begun) = (true, false);
        loop {
            let read = match self.log.fill_buf() {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if read.is_empty() {
                return Ok(has_begun.then_some(is_whole));
            }
            if std::mem::take(&mut self.is_behind_cr) && read[0] == b'\n' {
                self.log.consume(1);
                continue;
            }
            if self.line.is_empty() && read[0] == 0 {
                let zeros = read.iter().take_while(|byte| **byte == 0).count();
                self.zeros += zeros as u64;
                self.log.consume(zeros);
                continue;
            }
            has_begun = true;
            let end = read.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let length = end.unwrap_or(read.len());
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            is_whole &= length <= room;
            self.line.extend_from_slice(&read[..length.min(room)]);
            self.is_behind_cr = end.is_some_and(|end| read[end] == b'\r');
            self.log.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(is_whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Vec<(u64, Result<Vec<u8>, Reason>)>;

    fn lines(text: &[u8], capacity: usize) -> (Seen, u64) {
        let mut lines = Lines::new(io::BufReader::with_capacity(capacity, text));
        let mut seen = Vec::new();
        while let Some((number, is_line)) = lines.advance().expect("memory can be read") {
            seen.push((number, is_line.map(|()| lines.line().to_vec())));
        }
        (seen, lines.zeros())
    }

    #[test]
    fn long_and_empty_lines_are_passed_over() {
        let text = format!("a\n\n{}\n b \n{}", "x".repeat(3 * LINE_BYTES_MAX), "y".repeat(LINE_BYTES_MAX + 1));
        let long = Err(Reason::TooLong);
        let expected = [(1, Ok(b"a".to_vec())), (3, long.clone()), (4, Ok(b"b".to_vec())), (5, long)];
        assert_eq!(lines(text.as_bytes(), 1000).0, expected);
    }

    #[test]
    fn line_ends_marks_and_zeros_are_no_part_of_a_line() {
        let zeros = vec![0; 3 * LINE_BYTES_MAX];
        for (text, count) in
            [(&b"\xef\xbb\xbfa\r\n\r\nb\rc\n"[..], 0), (b"a\n\n\xef\xbb\xbfb\nc", 0), (b"\0\0a\n\n\0b\nc\n", 3)]
        {
            for capacity in [1, 2, 1000] {
                let expected: Vec<_> =
                    [(1, b"a"), (3, b"b"), (4, b"c")].map(|(at, line)| (at, Ok(line.to_vec()))).into();
                assert_eq!(lines(text, capacity), (expected, count), "{text:?}");
            }
        }
        assert_eq!(lines(&[&zeros[..], b"a"].concat(), 1000), (vec![(1, Ok(b"a".to_vec()))], zeros.len() as u64));
        assert_eq!(lines(&zeros, 1000).0, []);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(text in "[a-c\r\n ]{0,60}", capacity in 1usize..9) {
            let one_end = text.replace("\r\n", "\n").replace('\r', "\n");
            let expected: Vec<_> = one_end.lines().enumerate()
                .map(|(at, line)| (at as u64 + 1, Ok(line.trim().as_bytes().to_vec())))
                .filter(|(_, line)| line != &Ok(Vec::new()))
                .collect();
            prop_assert_eq!(lines(text.as_bytes(), capacity).0, expected);
        }
    }
}
