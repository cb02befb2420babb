//! Server-sent events (WHATWG HTML 9.2.6): where an event ends, and which one says that nothing follows.
//!
//! What an event says is not kept, so that its length needs no bound.

use memchr::memchr2;

/// What streams of language models say last.
const DONE: &[u8] = b"[DONE]";
/// So much of a line's begin is kept: a byte order mark, `data: ` and [`DONE`].
const KEPT_BYTES: usize = 3 + 6 + 6;
/// The byte order mark, which may stand before the first line.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Events of a stream, fed in any pieces they come.
#[derive(Debug, Clone, Default)]
pub struct EventStream {
    line: Line,
    /// Lines that are over.
    lines: u64,
    /// Lines of data of the event under way.
    data_lines: u64,
    /// Whether these are one, which is [`DONE`].
    says_done: bool,
    /// Whether such an event came.
    is_done: bool,
    /// Whether a line ended with a carriage return: a line feed behind it belongs to it.
    after_return: bool,
}

/// The line under way.
#[derive(Debug, Clone, Default)]
struct Line {
    begin: [u8; KEPT_BYTES],
    bytes: u64,
}

/// What came to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Events.
    pub events: u64,
    /// Events behind the one that says that nothing follows.
    pub behind: u64,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        if let Some(room) = usize::try_from(self.bytes).ok().and_then(|at| self.begin.get_mut(at..)) {
            let kept = room.len().min(bytes.len());
            room[..kept].copy_from_slice(&bytes[..kept]);
        }
        self.bytes += bytes.len() as u64;
    }

    /// What is kept of it.
    fn begin(&self) -> &[u8] {
        &self.begin[..usize::try_from(self.bytes).map_or(KEPT_BYTES, |bytes| bytes.min(KEPT_BYTES))]
    }
}

impl EventStream {
    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Found {
        let mut found = Found::default();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', bytes) else {
                self.line.add(bytes);
                break;
            };
            self.line.add(&bytes[..end]);
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.line_ends(&mut found);
        }
        found
    }

    /// Whether an event came that says that nothing follows: `data: [DONE]`.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the begin of an event came and not its end, which the standard has clients forget.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.data_lines > 0 || self.line.bytes > 0
    }

    fn line_ends(&mut self, found: &mut Found) {
        let line = std::mem::take(&mut self.line);
        let (mut begin, mut bytes) = (line.begin(), line.bytes);
        if self.lines == 0
            && let Some(behind) = begin.strip_prefix(MARK)
        {
            (begin, bytes) = (behind, bytes - MARK.len() as u64);
        }
        self.lines += 1;
        if bytes > 0 {
            return self.field(begin, bytes);
        }
        if std::mem::take(&mut self.data_lines) == 0 {
            // Without data it is no event (WHATWG HTML 9.2.6).
            return;
        }
        if self.is_done {
            found.behind += 1;
        } else if std::mem::take(&mut self.says_done) {
            self.is_done = true;
        } else {
            found.events += 1;
        }
    }

    /// Takes a line by its begin and its length; comments and fields other than data decide nothing.
    fn field(&mut self, begin: &[u8], bytes: u64) {
        let (value, value_bytes) = match begin.strip_prefix(b"data") {
            Some([]) => (&[][..], 0),
            Some([b':', b' ', value @ ..]) => (value, bytes - 6),
            Some([b':', value @ ..]) => (value, bytes - 5),
            _ => return,
        };
        self.data_lines += 1;
        self.says_done = self.data_lines == 1 && value_bytes == DONE.len() as u64 && value.starts_with(DONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &[u8]) -> (Found, bool, bool) {
        let mut stream = EventStream::default();
        let found = stream.feed(text);
        (found, stream.is_done(), stream.is_unfinished())
    }

    #[test]
    fn events_end_where_the_standard_says() {
        for (text, events) in [
            ("", 0),
            ("data: a\n\n", 1),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 2),
            ("data: a\r\rdata: b\r\r", 2),
            ("\u{feff}data: a\n\n", 1),
            // The examples of the standard.
            ("data: YHOO\ndata: +2\ndata: 10\n\n", 1),
            (": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n", 3),
            ("data\n\ndata\ndata\n\ndata:", 2),
            ("data:test\n\ndata: test\n\n", 2),
            // No data, no event; another field's name begins alike.
            ("event: ping\nid: 7\n\nretry: 10\n\n", 0),
            ("database: x\n\ndat: x\n\n data: x\n\n", 0),
            // What is not ended by an empty line is forgotten.
            ("data: a\n\ndata: b\n", 1),
        ] {
            assert_eq!(whole(text.as_bytes()).0, Found { events, behind: 0 }, "{text:?}");
        }
    }

    #[test]
    fn the_end_is_told_and_what_is_behind_it() {
        let (found, is_done, _) = whole(b"data: a\n\ndata: [DONE]\n\ndata: b\n\n");
        assert_eq!((found, is_done), (Found { events: 1, behind: 1 }, true));
        // These only look like it.
        let (found, is_done, _) = whole(b"data: [DONE] \n\ndata: x\ndata: [DONE]\n\ndata: [DONE]\ndata: x\n\n");
        assert_eq!((found, is_done), (Found { events: 3, behind: 0 }, false));
        assert!(whole(b"data: a").2 && whole(b"data: a\n").2 && !whole(b"data: a\n\n").2);
    }

    proptest! {
        #[test]
        fn pieces_say_the_same_as_the_whole(
            text in "((data|event|id)?:? ?(a|\\[DONE\\]|\u{feff})?(\n|\r|\r\n)){0,12}",
            cuts in proptest::collection::vec(0usize..80, 0..8),
        ) {
            let text = text.as_bytes();
            let mut stream = EventStream::default();
            let mut sum = Found::default();
            let mut ends: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([text.len()]).collect();
            ends.sort_unstable();
            let mut at = 0;
            for end in ends {
                let found = stream.feed(&text[at..end]);
                sum = Found { events: sum.events + found.events, behind: sum.behind + found.behind };
                at = end;
            }
            prop_assert_eq!((sum, stream.is_done(), stream.is_unfinished()), whole(text));
            let mut stream = EventStream::default();
            let single: u64 = text.iter().map(|byte| stream.feed(&[*byte]).events).sum();
            prop_assert_eq!(single, sum.events);
        }
    }
}
