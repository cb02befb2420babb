//! Redis' protocol, RESP 2 and 3 ("Redis serialization protocol specification").

use super::protocol::{Fact, Outcome, Protocol, Seen, Turns};
use super::shape::word;

/// The longest line that is read: a number, or the first word of an error.
const LINE_BYTES_MAX: usize = 64;
/// Commands whose second word says what they do.
const FAMILIES: [&str; 13] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY", "OBJECT", "PUBSUB",
    "SCRIPT", "XGROUP",
];

/// What is awaited next in one direction.
#[derive(Debug, Default)]
enum Next {
    /// A line, so far.
    #[default]
    Line,
    /// So many bytes of a text, with its line's end.
    Text(usize),
}

/// One direction: lines, and texts whose length is told before them.
#[derive(Debug, Default)]
struct Lines {
    next: Next,
    line: Vec<u8>,
    /// Bytes of the text under way that were seen.
    text: Vec<u8>,
    lost: bool,
}

/// A piece of it.
enum Piece<'a> {
    /// A line without its end, cut after [`LINE_BYTES_MAX`]; true if a text follows as it says.
    Line(&'a [u8]),
    /// A text, as far as it was seen.
    Text(&'a [u8]),
}

impl Lines {
    /// Takes a call. `take` gives the length of the text that follows a line.
    fn push(&mut self, seen: Seen<'_>, take: &mut dyn FnMut(Piece<'_>) -> Option<usize>) {
        let (mut bytes, mut length) = (seen.bytes, seen.length);
        while length > 0 && !self.lost {
            match self.next {
                Next::Text(left) => {
                    let step = left.min(length);
                    let copied = step.min(bytes.len());
                    let room = LINE_BYTES_MAX.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&bytes[..copied.min(room)]);
                    (bytes, length) = (&bytes[copied..], length - step);
                    self.next = Next::Text(left - step);
                    if left == step {
                        let end = self.text.iter().position(|byte| *byte == b'\r').unwrap_or(self.text.len());
                        take(Piece::Text(&self.text[..end]));
                        (self.next, self.text) = (Next::Line, Vec::new());
                    }
                }
                Next::Line => {
                    let Some((first, rest)) = bytes.split_first() else {
                        self.lost = true;
                        break;
                    };
                    (bytes, length) = (rest, length - 1);
                    if *first != b'\n' {
                        if self.line.len() < LINE_BYTES_MAX && *first != b'\r' {
                            self.line.push(*first);
                        }
                        continue;
                    }
                    let follows = take(Piece::Line(&self.line));
                    self.line.clear();
                    if let Some(text) = follows {
                        self.next = Next::Text(text.saturating_add(2));
                    }
                }
            }
        }
    }
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Redis {
    given: Lines,
    /// Of the command under way: words still to come, and its name so far.
    words: u64,
    name: Vec<String>,
    taken: Lines,
    /// Elements of the reply under way that are still to come.
    elements: u64,
    /// The reply under way is one that was not asked for.
    is_push: bool,
    error: Option<String>,
    turns: Turns,
}

/// Whether the first bytes that a client gave are a command.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"*") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &rest[digits..];
    (1..7).contains(&digits) && (rest.starts_with(b"\r\n$") || b"\r\n$".starts_with(rest))
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

impl Redis {
    fn command(&mut self, piece: &Piece<'_>, tell: &mut dyn FnMut(Fact)) -> Option<usize> {
        match piece {
            Piece::Line(line) => match line.split_first() {
                Some((b'*', count)) => {
                    self.words = number(count).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
                    self.name.clear();
                    None
                }
                Some((b'$', length)) => number(length).and_then(|length| usize::try_from(length).ok()),
                // Commands as plain lines are typed by hand: they may be anything.
                _ => None,
            },
            Piece::Text(text) => {
                self.words = self.words.saturating_sub(1);
                let first = self.name.first();
                if first.is_none() || self.name.len() == 1 && first.is_some_and(|one| FAMILIES.contains(&one.as_str()))
                {
                    self.name.push(word(text).unwrap_or_else(|| "(another command)".to_owned()));
                }
                if self.words == 0 && !self.name.is_empty() {
                    let key = self.turns.ask();
                    tell(Fact::Asked(key, std::mem::take(&mut self.name).join(" ")));
                }
                None
            }
        }
    }

    fn reply(&mut self, piece: &Piece<'_>, tell: &mut dyn FnMut(Fact)) -> Option<usize> {
        let Piece::Line(line) = piece else {
            self.element(tell);
            return None;
        };
        let (kind, rest) = line.split_first().map_or((0, &line[..0]), |(kind, rest)| (*kind, rest));
        if self.elements == 0 {
            (self.elements, self.error) = (1, None);
            self.is_push = kind == b'>';
            if let Some(key) = self.turns.front().filter(|_| !self.is_push) {
                tell(Fact::Begun(key));
            }
        }
        let count = number(rest).and_then(|count| u64::try_from(count).ok());
        match kind {
            b'$' | b'=' | b'!' => match count {
                Some(length) => return usize::try_from(length).ok(),
                None => self.element(tell),
            },
            b'*' | b'~' | b'>' => self.nested(count.unwrap_or(0), tell),
            b'%' => self.nested(count.unwrap_or(0).saturating_mul(2), tell),
            // Attributes stand before the reply that they are about.
            b'|' => self.elements = self.elements.saturating_add(count.unwrap_or(0).saturating_mul(2)),
            b'-' => {
                let code = rest.split(|byte| *byte == b' ').next().and_then(word);
                if self.elements == 1 {
                    self.error = Some(code.unwrap_or_else(|| "error".to_owned()));
                }
                self.element(tell);
            }
            _ => self.element(tell),
        }
        None
    }

    /// A reply of several elements begins.
    fn nested(&mut self, count: u64, tell: &mut dyn FnMut(Fact)) {
        self.elements = self.elements.saturating_add(count);
        self.element(tell);
    }

    /// An element is over, and with the last one the reply.
    fn element(&mut self, tell: &mut dyn FnMut(Fact)) {
        self.elements = self.elements.saturating_sub(1);
        if self.elements > 0 || self.is_push {
            return;
        }
        if let Some(key) = self.turns.front() {
            self.turns.end();
            tell(Fact::Ended(key, self.error.take().map_or(Outcome::Fine(None), Outcome::Failed)));
        }
    }
}

impl Protocol for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut given = std::mem::take(&mut self.given);
        given.push(seen, &mut |piece| self.command(&piece, tell));
        if given.lost {
            // A long value hides what stands behind it; the next call begins with a command again.
            given = Lines::default();
            if let Some(name) = (!self.name.is_empty()).then(|| std::mem::take(&mut self.name)) {
                let key = self.turns.ask();
                tell(Fact::Asked(key, name.join(" ")));
            }
        }
        self.given = given;
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.push(seen, &mut |piece| self.reply(&piece, tell));
        self.taken = taken;
    }

    fn is_lost(&self) -> bool {
        self.taken.lost
    }

    fn resume(&mut self) {
        (self.taken, self.elements, self.error) = (Lines::default(), 0, None);
        self.turns.clear();
    }
}
