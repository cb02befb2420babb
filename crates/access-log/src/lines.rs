//! The lines of a log, in bounded memory whatever it holds.

use std::io::{self, BufRead, Read};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Reads lines one after the other.
#[derive(Debug)]
pub struct Lines<R> {
    log: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `log`.
    pub fn new(log: R) -> Self {
        Self { log, line: Vec::new(), number: 0 }
    }

    /// The next line that is not empty, with its number from 1 and without blanks at its ends; `Err` = what is wrong with
    /// it as a line.
    ///
    /// # Errors
    /// Where the log cannot be read.
    #[allow(clippy::type_complexity)]
    pub fn next_line(&mut self) -> io::Result<Option<(u64, Result<&[u8], &'static str>)>> {
        loop {
            self.line.clear();
            self.log.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
            if self.line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() > LINE_BYTES_MAX {
                if !self.line.ends_with(b"\n") {
                    self.log.skip_until(b'\n')?;
                }
                return Ok(Some((self.number, Err("it is too long"))));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some((self.number, Ok(self.line.trim_ascii()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_empty_lines_are_passed_over() {
        let text = format!("a\n\n{}\n b \n{}", "x".repeat(3 * LINE_BYTES_MAX), "y".repeat(LINE_BYTES_MAX + 1));
        let mut lines = Lines::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some((number, line)) = lines.next_line().expect("memory can be read") {
            seen.push((number, line.map(<[u8]>::to_vec)));
        }
        let long = Err("it is too long");
        assert_eq!(seen, [(1, Ok(b"a".to_vec())), (3, long.clone()), (4, Ok(b"b".to_vec())), (5, long)]);
    }
}
