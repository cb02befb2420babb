//! Lines, each of which is an event, as those of JSON (NDJSON, JSON Lines). What stands in them is not looked at.

use memchr::memchr;

/// Lines of a stream, fed in any pieces they come.
#[derive(Debug, Clone, Default)]
pub struct JsonLines {
    /// Whether something but blanks has come of the line under way.
    holds_text: bool,
}

impl JsonLines {
    /// Takes the next bytes of the stream; gives how many lines they end, blank ones apart.
    pub fn feed(&mut self, mut bytes: &[u8]) -> u64 {
        let mut lines = 0;
        while let Some(end) = memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            lines += u64::from(std::mem::take(&mut self.holds_text));
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
        lines
    }

    /// Whether a last line has come without its end.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.holds_text
    }

    fn add(&mut self, bytes: &[u8]) {
        self.holds_text = self.holds_text || !bytes.trim_ascii_start().is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blank_lines_are_none() {
        let mut lines = JsonLines::default();
        assert_eq!(lines.feed(b"{}\n\n \t\r\n{\"a\":1}\r\n[]"), 2);
        assert!(lines.is_unfinished());
        assert_eq!((lines.feed(b"\n"), lines.is_unfinished()), (1, false));
    }

    proptest! {
        #[test]
        fn pieces_say_the_same_as_the_whole(text in "[ {}\r\n]{0,40}") {
            let whole = text.split('\n').map(str::trim_ascii).rev().skip(1).filter(|line| !line.is_empty()).count();
            let mut lines = JsonLines::default();
            let sum: u64 = text.bytes().map(|byte| lines.feed(&[byte])).sum();
            prop_assert_eq!(sum, whole as u64);
        }
    }
}
