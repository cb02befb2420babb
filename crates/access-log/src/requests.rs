//! The requests of a log, line by line, with what goes beyond a line: columns that a line above names, lines that a
//! container's runtime has cut into parts, and whether the parts of seconds are any.

use crate::lines::{LINE_BYTES_MAX, Lines};
use crate::w3c::Directives;
use crate::{Entry, Reason, escape};
use std::io::{self, BufRead};

/// From so many parts of seconds on, most of which are zero, those stand for whole seconds.
const PARTS_MIN: u64 = 100;

/// What the times of a log are, as far as it has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    written: u64,
    zero: u64,
}

impl Parts {
    fn push(&mut self, logged_ns: Option<u32>) {
        self.written += u64::from(logged_ns.is_some());
        self.zero += u64::from(logged_ns == Some(0));
    }

    /// Whether a part of a second that is zero stands for a whole second: all are, or most of many. A log that was
    /// exported with milliseconds which its source did not have has `.000` everywhere.
    #[must_use]
    pub fn are_apparent(&self) -> bool {
        self.zero > 0 && (self.zero == self.written || (self.written >= PARTS_MIN && self.zero * 2 > self.written))
    }

    /// Whether a request of the log has a whole second only, though it has this nanosecond.
    #[must_use]
    pub fn is_whole(&self, nanosecond: u32) -> bool {
        // Where all are zero another number comes from what was taken from them.
        self.are_apparent() && (nanosecond == 0 || self.zero == self.written)
    }
}

/// Reads requests one after the other.
#[derive(Debug)]
pub struct Requests<R> {
    lines: Lines<R>,
    directives: Directives,
    /// The parts of a line that were written one by one.
    joined: Vec<u8>,
    parts: Parts,
}

/// Where the line stands that is to be read.
enum Place {
    Line(usize),
    Joined,
}

impl<R: BufRead> Requests<R> {
    /// The requests of `log`.
    pub fn new(log: R) -> Self {
        Self { lines: Lines::new(log), directives: Directives::default(), joined: Vec::new(), parts: Parts::default() }
    }

    /// The next request with the number of its line, from 1; `Err` = why the line is none.
    ///
    /// # Errors
    /// Where the log cannot be read.
    #[allow(clippy::type_complexity)]
    pub fn next_request(&mut self) -> io::Result<Option<(u64, Result<Entry<'_>, Reason>)>> {
        let (number, place) = loop {
            let Some((number, is_line)) = self.lines.advance()? else { return Ok(None) };
            if let Err(reason) = is_line {
                return Ok(Some((number, Err(reason))));
            }
            let line = self.lines.line();
            if self.directives.take(line) {
                continue;
            }
            let Some((is_last, at)) = runtime_prefix(line) else { break (number, Place::Line(0)) };
            if is_last && self.joined.is_empty() {
                break (number, Place::Line(at));
            }
            if self.joined.len() + line.len() > LINE_BYTES_MAX {
                self.joined.clear();
                return Ok(Some((number, Err(Reason::TooLong))));
            }
            self.joined.extend_from_slice(&line[at..]);
            if is_last {
                break (number, Place::Joined);
            }
        };
        let line = match place {
            Place::Line(at) => &self.lines.line()[at..],
            Place::Joined => {
                // What was joined is read from the line's own memory, so that the next parts find none.
                self.lines.replace(std::mem::take(&mut self.joined));
                self.lines.line()
            }
        };
        let entry = if self.directives.are_there() && line.first() != Some(&b'{') {
            match std::str::from_utf8(line) {
                Ok(line) => self.directives.parse(line),
                Err(_) => self.directives.parse(&escape::with_escapes(line)).map(Entry::into_owned),
            }
        } else {
            Entry::parse(line)
        };
        if let Ok(entry) = &entry {
            self.parts.push(entry.logged_ns);
        }
        Ok(Some((number, entry)))
    }

    /// What the parts of seconds are that were read so far.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// Bytes 0 in front of lines, which were passed over.
    pub fn zeros(&self) -> u64 {
        self.lines.zeros()
    }
}

/// `2026-03-12T12:00:00.123456789Z stdout F `, as the Container Runtime Interface has it in front of each line: whether it
/// is the last part of a line, and where that begins.
fn runtime_prefix(line: &[u8]) -> Option<(bool, usize)> {
    if !line.first()?.is_ascii_digit() {
        return None;
    }
    let mut words = line.split(|byte| *byte == b' ');
    let (time, stream, tag) = (words.next()?, words.next()?, words.next()?);
    if !matches!(stream, b"stdout" | b"stderr") || !time.contains(&b'T') {
        return None;
    }
    let is_last = match tag.split(|byte| *byte == b':').next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some((is_last, (time.len() + stream.len() + tag.len() + 3).min(line.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Vec<(u64, Result<String, Reason>)>;

    fn read(text: &[u8]) -> (Seen, Parts) {
        let mut requests = Requests::new(text);
        let mut seen = Vec::new();
        while let Some((number, entry)) = requests.next_request().expect("memory can be read") {
            seen.push((number, entry.map(|entry| format!("{} {}", entry.method, entry.target))));
        }
        (seen, requests.parts())
    }

    #[test]
    fn what_a_runtime_has_cut_is_joined() {
        let text = "2026-03-12T12:00:00.5Z stdout P ::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a\n\
            2026-03-12T12:00:00.5Z stdout F b HTTP/1.1\" 200 5\n\
            2026-03-12T12:00:00.5Z stdout F {\"ts\":971211336,\"method\":\"GET\",\"uri\":\"/c\"}\n\
            2026-03-12T12:00:00.5Z stderr F starting\n";
        let (seen, _) = read(text.as_bytes());
        let expected = [(2, Ok("GET /ab".to_owned())), (3, Ok("GET /c".to_owned())), (4, Err(Reason::Form))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn columns_hold_for_the_lines_below() {
        let text = "1 2\n#Fields: date time cs-method cs-uri-stem\n#Remark: none\n2000-10-10 20:55:36 GET /caf\u{e9}\n2000-10-10 20:55:36 GET\n";
        let (seen, _) = read(text.as_bytes());
        assert_eq!(seen, [(1, Err(Reason::Form)), (4, Ok("GET /caf%C3%A9".to_owned())), (5, Err(Reason::W3cShort))]);
    }

    #[test]
    fn parts_of_seconds_that_are_all_zero_are_none() {
        let apparent = |times: &[&str]| {
            let line = |time: &&str| format!("::1 - - [{time}] \"GET / HTTP/1.1\" 200 5\n");
            read(times.iter().map(line).collect::<String>().as_bytes()).1.are_apparent()
        };
        let (zero, half, whole) =
            ("2000-10-10T20:55:36.000Z", "2000-10-10T20:55:36.500Z", "10/Oct/2000:20:55:36 +0000");
        assert!(apparent(&[zero]) && apparent(&[zero, zero, whole]) && !apparent(&[zero, half]));
        assert!(!apparent(&[whole]) && !apparent(&[]));
        // Two sources in one log, of which one has whole seconds.
        assert!(apparent(&[&[zero; 80][..], &[half; 40]].concat()));
        assert!(!apparent(&[&[zero; 40][..], &[half; 80]].concat()));
    }

    proptest! {
        #[test]
        fn every_line_is_read_or_refused(lines in prop::collection::vec("[ -~]{0,40}|#Fields: time [a-z-]{1,9}|\\PC{0,20}", 0..20)) {
            let text = lines.join("\n");
            let (seen, _) = read(text.as_bytes());
            prop_assert!(seen.len() <= lines.len());
            prop_assert!(seen.is_sorted_by_key(|(number, _)| *number));
        }
    }
}
