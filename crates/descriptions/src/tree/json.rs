//! JSON (RFC 8259) with the lines of its values.

use crate::tree::bounds::{DEPTH_MAX, NODES_MAX, TreeError};
use crate::tree::node::{Node, Value};

/// Reads a document.
///
/// # Errors
/// [`TreeError`] at the first place that is no JSON, or exceeds a bound.
pub(crate) fn read(text: &str) -> Result<Node, TreeError> {
    let mut reader = Reader { text, at: 0, line: 1, line_begin: 0, nodes: 0 };
    reader.blanks();
    let node = reader.value(0)?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.wrong("something follows the end of the document"));
    }
    Ok(node)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    line_begin: usize,
    nodes: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: impl Into<String>) -> TreeError {
        let before = self.text.get(self.line_begin..self.at).unwrap_or_default();
        TreeError { line: self.line, column: before.chars().count() + 1, what: what.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.at += 1;
            if byte == b'\n' {
                (self.line, self.line_begin) = (self.line + 1, self.at);
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, TreeError> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("values lie more than {DEPTH_MAX} deep")));
        }
        if self.nodes > NODES_MAX {
            return Err(self.wrong(format!("it has more than {NODES_MAX} values")));
        }
        let error =
            self.wrong("a value is missing: an object, a list, a text in double quotes, a number, true, false or null");
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b't') if self.word("true") => Value::Truth(true),
            Some(b'f') if self.word("false") => Value::Truth(false),
            Some(b'n') if self.word("null") => Value::Null,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return Err(error),
        };
        Ok(Node { line: error.line, column: error.column, value })
    }

    fn word(&mut self, word: &str) -> bool {
        let is = self.text[self.at..].starts_with(word);
        self.at += if is { word.len() } else { 0 };
        is
    }

    fn number(&mut self) -> Result<Value, TreeError> {
        let rest = &self.text[self.at..];
        let is_of_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        let end = rest.bytes().position(|byte| !is_of_number(byte)).unwrap_or(rest.len());
        let text = &rest[..end];
        if serde_json::from_str::<serde_json::Number>(text).is_err() {
            return Err(self.wrong(format!("{text} is no number")));
        }
        self.at += end;
        Ok(Value::Number(text.to_owned()))
    }

    fn string(&mut self) -> Result<String, TreeError> {
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut end = begin + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => {
                    return Err(self.wrong("a text has no end: write \\n for a new line, and a quote behind it"));
                }
                Some(_) => end += 1,
            }
        }
        let quoted = self.text.get(begin..=end).unwrap_or_default();
        let text = serde_json::from_str(quoted).map_err(|_| self.wrong("a text holds what no text of JSON may"))?;
        self.at = end + 1;
        Ok(text)
    }

    fn list(&mut self, depth: usize) -> Result<Value, TreeError> {
        let mut list = Vec::new();
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(list));
                }
                _ => return Err(self.wrong("a comma or ] is missing")),
            }
            self.blanks();
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, TreeError> {
        let mut entries = Vec::new();
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes is missing"));
            }
            let line = self.line;
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.wrong("a colon is missing behind the key"));
            }
            self.at += 1;
            self.blanks();
            entries.push((key, line, self.value(depth + 1)?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(entries));
                }
                _ => return Err(self.wrong("a comma or } is missing")),
            }
            self.blanks();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistakes_have_their_places() {
        for (text, place) in [
            ("{\n  \"a\": 1,\n  b: 2\n}", (3, 3)),
            ("[1, 2", (1, 6)),
            ("{\"a\" 1}", (1, 6)),
            ("{\"a\": tru}", (1, 7)),
            ("[1]\n\n x", (3, 2)),
            ("[\"a\n\"]", (1, 2)),
            ("[01]", (1, 2)),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!((error.line, error.column), place, "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
    }

    proptest! {
        /// Another reader of JSON takes the same texts, and sees the same values.
        #[test]
        fn serde_json_sees_the_same(text in "[\\[\\]{}\",:0-9a-e\\\\truefalsn\\. \n-]{0,24}") {
            let other = serde_json::from_str::<serde_json::Value>(&text);
            match read(&text) {
                Ok(node) => {
                    let ours: serde_json::Value = serde_json::from_str(&node.json()).expect("JSON");
                    // Of a key that is there twice one is seen, here the first and there the last.
                    if !text.contains('{') {
                        prop_assert_eq!(Ok(ours), other.map_err(|error| error.to_string()));
                    }
                }
                Err(error) => prop_assert!(other.is_err(), "{}: {}", text, error),
            }
        }
    }
}
