//! The objects of an array in a JSON text, one after the other, without the text in memory.

use super::told::Told;
use crate::ReadError;
use crate::json::{Fault, Json};
use std::io::BufRead;

/// Bytes of one object.
const ELEMENT_MAX: usize = 16 << 20;
/// The member of the outer object that holds the events.
const EVENTS: &[u8] = b"traceEvents";
/// Bytes of a member's name that are kept.
const NAME_MAX: usize = 64;

pub(crate) struct Elements<R> {
    input: R,
    at: u64,
    element: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Elements<R> {
    /// Goes to the array: the outermost one, or the member `traceEvents` of the outermost object.
    pub(crate) fn new(input: R) -> Result<Self, ReadError> {
        let mut elements = Self { input, at: 0, element: Vec::new(), is_over: false };
        match elements.after_blanks()? {
            Some(b'[') => elements.pass(1),
            Some(b'{') => {
                elements.pass(1);
                elements.find_events()?;
            }
            _ => return Err(ReadError::wrong(elements.at, "it begins with neither an object nor an array")),
        }
        Ok(elements)
    }

    fn chunk(&mut self) -> Result<&[u8], ReadError> {
        let at = self.at;
        loop {
            match self.input.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { at, source }),
                Ok(_) => break,
            }
        }
        self.input.fill_buf().map_err(|source| ReadError::Io { at, source })
    }

    fn pass(&mut self, bytes: usize) {
        self.input.consume(bytes);
        self.at += bytes as u64;
    }

    /// The first byte that is no blank, which stays; none at the end.
    fn after_blanks(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            match chunk.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(found) => {
                    let byte = chunk[found];
                    self.pass(found);
                    return Ok(Some(byte));
                }
                None => {
                    let all = chunk.len();
                    self.pass(all);
                }
            }
        }
    }

    fn cut(&self) -> ReadError {
        ReadError::Cut { at: self.at, within: "an object of the trace viewer's" }
    }

    fn find_events(&mut self) -> Result<(), ReadError> {
        loop {
            match self.after_blanks()?.ok_or_else(|| self.cut())? {
                b',' => self.pass(1),
                b'"' => {
                    let mut name = Vec::new();
                    self.value(Some(&mut name))?;
                    if self.after_blanks()? != Some(b':') {
                        return Err(ReadError::wrong(self.at, "a member's value is missing"));
                    }
                    self.pass(1);
                    let is_array = self.after_blanks()? == Some(b'[');
                    if name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")) == Some(EVENTS) && is_array {
                        self.pass(1);
                        return Ok(());
                    }
                    self.value(None)?;
                }
                b'}' => {
                    self.is_over = true;
                    return Ok(());
                }
                _ => return Err(ReadError::wrong(self.at, "a member's name is missing")),
            }
        }
    }

    /// Passes over a value; the first bytes of it are kept where there is room for them.
    fn value(&mut self, mut kept: Option<&mut Vec<u8>>) -> Result<(), ReadError> {
        let mut scan = Scan::default();
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                // A number at the very end is a value of its own, which no file ends with.
                return Err(self.cut());
            }
            let (used, is_whole) = scan.go(chunk);
            if let Some(kept) = &mut kept {
                let room = NAME_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..used.min(room)]);
            }
            self.pass(used);
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Hands out the next event with its bytes; false at the end.
    pub(crate) fn next(&mut self, take: impl FnOnce(&Told<'_>, &[u8])) -> Result<bool, ReadError> {
        if self.is_over {
            return Ok(false);
        }
        loop {
            match self.after_blanks()? {
                Some(b',') => self.pass(1),
                Some(b'{') => break,
                // An array may lack its end, as where a program was killed that wrote it.
                None | Some(b']') => {
                    self.is_over = true;
                    return Ok(false);
                }
                Some(_) => return Err(ReadError::wrong(self.at, "an event is no object")),
            }
        }
        // Where it lies whole in memory, its end is found by reading it.
        let chunk = self.chunk()?;
        let mut json = Json::new(chunk);
        if let Ok(told) = Told::read(&mut json) {
            let used = json.at();
            take(&told, &chunk[..used]);
            self.pass(used);
            return Ok(true);
        }
        let (at, element) = self.whole()?;
        let told = Told::read(&mut Json::new(element)).map_err(|fault| match fault {
            Fault::Cut => ReadError::Cut { at, within: "an event" },
            Fault::Wrong(place, what) => {
                let what = format!("an event is no object of the trace viewer's: {what}");
                ReadError::wrong(at + place as u64, what)
            }
        })?;
        take(&told, element);
        Ok(true)
    }

    /// The object that begins here, which comes in pieces, with the byte at which it begins.
    fn whole(&mut self) -> Result<(u64, &[u8]), ReadError> {
        let at = self.at;
        self.element.clear();
        let mut scan = Scan::default();
        loop {
            let mut element = std::mem::take(&mut self.element);
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Err(ReadError::Cut { at, within: "an event" });
            }
            let (used, is_whole) = scan.go(chunk);
            element.extend_from_slice(&chunk[..used]);
            self.pass(used);
            self.element = element;
            if self.element.len() > ELEMENT_MAX {
                return Err(ReadError::wrong(at, format!("an event has more than {ELEMENT_MAX} bytes")));
            }
            if is_whole {
                return Ok((at, &self.element));
            }
        }
    }
}

/// Where a value ends that comes in pieces.
#[derive(Debug, Default)]
struct Scan {
    depth: u64,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    /// Within a number or a word at the outermost level.
    Bare,
    Text,
    Escaped,
}

impl Scan {
    /// How many bytes belong to the value, and whether it ends there.
    fn go(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Escaped => {
                    self.state = State::Text;
                    at += 1;
                }
                State::Text => {
                    let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) else { return (bytes.len(), false) };
                    at += found + 1;
                    if bytes[at - 1] == b'\\' {
                        self.state = State::Escaped;
                        continue;
                    }
                    self.state = State::Outside;
                    if self.depth == 0 {
                        return (at, true);
                    }
                }
                State::Bare => match bytes[at] {
                    b',' | b'}' | b']' => return (at, true),
                    byte if byte.is_ascii_whitespace() => return (at, true),
                    _ => at += 1,
                },
                State::Outside => {
                    at += 1;
                    match bytes[at - 1] {
                        b'"' => self.state = State::Text,
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' => {
                            self.depth = self.depth.saturating_sub(1);
                            if self.depth == 0 {
                                return (at, true);
                            }
                        }
                        byte if self.depth == 0 && !byte.is_ascii_whitespace() => self.state = State::Bare,
                        _ => {}
                    }
                }
            }
        }
        (at, false)
    }
}
