//! JSON, read where it lies (RFC 8259): what is not asked for is passed over without being made.

use std::borrow::Cow;

/// Objects and arrays within each other.
const DEPTH_MAX: u32 = 128;

/// Why a text is no JSON, or none of the expected form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It ends too early.
    Cut,
    /// The byte where something else is expected, and what.
    Wrong(usize, &'static str),
}

/// A text of JSON, and a place in it.
#[derive(Debug, Clone)]
pub(crate) struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

/// A text within quotes, with its escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    raw: &'a [u8],
    at: usize,
    has_escapes: bool,
}

impl<'a> Text<'a> {
    /// The text; what is no UTF-8 is a fault.
    pub(crate) fn text(self) -> Result<Cow<'a, str>, Fault> {
        let wrong = Fault::Wrong(self.at, "a text is no UTF-8, or has an escape that is none");
        let text = std::str::from_utf8(self.raw).map_err(|_| wrong)?;
        if !self.has_escapes {
            return Ok(Cow::Borrowed(text));
        }
        // Escapes are rare; the library knows all of them.
        serde_json::from_str(&format!("\"{text}\"")).map(Cow::Owned).map_err(|_| wrong)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// Its bytes, if it has no escapes: the names of fields have none.
    pub(crate) fn plain(self) -> &'a [u8] {
        if self.has_escapes { &[] } else { self.raw }
    }
}

impl<'a> Json<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Result<u8, Fault> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(Fault::Cut)
    }

    fn expect(&mut self, expected: u8, what: &'static str) -> Result<(), Fault> {
        if self.peek()? != expected {
            return Err(Fault::Wrong(self.at, what));
        }
        self.at += 1;
        Ok(())
    }

    /// How many bytes have been read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether a text stands here.
    pub(crate) fn is_text(&mut self) -> Result<bool, Fault> {
        Ok(self.peek()? == b'"')
    }

    /// That nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Ok(_) => Err(Fault::Wrong(self.at, "nothing more was expected")),
            Err(_) => Ok(()),
        }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Fault::Wrong(self.at, "objects are nested too deep")) } else { Ok(()) }
    }

    /// Whether `null` stands here, which is passed over.
    fn is_null(&mut self) -> Result<bool, Fault> {
        let is_it = self.peek()? == b'n';
        if is_it {
            self.word(b"null")?;
        }
        Ok(is_it)
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        let rest = &self.bytes[self.at..];
        if !rest.starts_with(word) {
            return Err(if word.starts_with(rest) { Fault::Cut } else { Fault::Wrong(self.at, "no value begins so") });
        }
        self.at += word.len();
        Ok(())
    }

    /// Hands out the names of an object's fields, each with its value to be read; `null` is an object without fields.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, &'a [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.is_null()? {
            return Ok(());
        }
        self.expect(b'{', "an object was expected")?;
        self.deeper()?;
        if self.peek()? != b'}' {
            loop {
                let name = self.quoted()?;
                self.expect(b':', "a colon was expected")?;
                field(self, name.plain())?;
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.expect(b'}', "a comma or the end of an object was expected")
    }

    /// Hands out an array's elements, to be read; `null` is an array without elements.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.is_null()? {
            return Ok(());
        }
        self.expect(b'[', "an array was expected")?;
        self.deeper()?;
        if self.peek()? != b']' {
            loop {
                element(self)?;
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.expect(b']', "a comma or the end of an array was expected")
    }

    fn quoted(&mut self) -> Result<Text<'a>, Fault> {
        self.expect(b'"', "a text was expected")?;
        let (at, mut has_escapes) = (self.at, false);
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let found = quote_or_escape(rest).ok_or(Fault::Cut)?;
            if rest[found] == b'"' {
                let raw = &self.bytes[at..self.at + found];
                self.at += found + 1;
                return Ok(Text { raw, at, has_escapes });
            }
            has_escapes = true;
            self.at += found + 2;
        }
    }

    /// A text; `null` is none.
    pub(crate) fn text(&mut self) -> Result<Option<Text<'a>>, Fault> {
        if self.is_null()? { Ok(None) } else { self.quoted().map(Some) }
    }

    /// A number or a text, as its bytes; none of another value, which is passed over.
    pub(crate) fn scalar(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        match self.peek()? {
            b'"' => self.quoted().map(|text| Some(text.plain())),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            _ => self.skip().map(|()| None),
        }
    }

    fn number(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let number = &rest[..length];
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        let ends = number.last().is_some_and(u8::is_ascii_digit);
        if !digits.first().is_some_and(u8::is_ascii_digit) || !ends {
            return Err(if length == rest.len() { Fault::Cut } else { Fault::Wrong(self.at, "no number looks so") });
        }
        self.at += length;
        Ok(number)
    }

    /// Passes over a value.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        match self.peek()? {
            b'{' => self.object(|json, _| json.skip()),
            b'[' => self.array(Self::skip),
            b'"' => self.quoted().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(drop),
        }
    }
}

/// The first quote or backslash. Most texts are short, so that to call a search costs more than to look at eight bytes
/// at a time here.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    // The highest bit of each byte that is 0; of those above the lowest such one it may be wrong.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let mut at = 0;
    while let Some((eight, _)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|found| at + found)
}

/// A whole number that is written in digits alone.
pub(crate) fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Reads a value as the library would make it, without fractions.
    fn made(json: &mut Json<'_>) -> Result<Value, Fault> {
        match json.peek()? {
            b'{' => {
                let mut fields = serde_json::Map::new();
                json.object(|json, name| {
                    let name = String::from_utf8_lossy(name).into_owned();
                    fields.insert(name, made(json)?);
                    Ok(())
                })?;
                Ok(Value::Object(fields))
            }
            b'[' => {
                let mut elements = Vec::new();
                json.array(|json| {
                    elements.push(made(json)?);
                    Ok(())
                })?;
                Ok(Value::Array(elements))
            }
            b'"' => Ok(Value::String(json.text()?.expect("no null").text()?.into_owned())),
            b'0'..=b'9' => Ok(json.scalar()?.and_then(whole).map_or(Value::Null, Value::from)),
            b't' => json.skip().map(|()| Value::Bool(true)),
            _ => json.skip().map(|()| Value::Null),
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(Value::Bool(true)),
            any::<u64>().prop_map(Value::from),
            ".{0,24}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                proptest::collection::vec(("[a-z ]{0,20}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_the_library_writes_is_read(value in value(), is_laid_out: bool) {
            let text = if is_laid_out { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("it is written");
            let mut json = Json::new(text.as_bytes());
            prop_assert_eq!(made(&mut json), Ok(value.clone()));
            prop_assert_eq!(json.end(), Ok(()));
            let mut passed = Json::new(text.as_bytes());
            prop_assert_eq!(passed.skip().and_then(|()| passed.end()), Ok(()));
            // A part of a value that has brackets or quotes is cut.
            if matches!(value, Value::Object(_) | Value::Array(_) | Value::String(_)) {
                for length in (0..text.len()).filter(|length| text.is_char_boundary(*length)) {
                    prop_assert_eq!(Json::new(&text.as_bytes()[..length]).skip(), Err(Fault::Cut));
                }
            }
        }

        #[test]
        fn quotes_and_escapes_are_found_at_each_place(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            text in "[!-#\\[-\\]]{0,20}",
        ) {
            for bytes in [&bytes[..], text.as_bytes()] {
                let expected = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                prop_assert_eq!(quote_or_escape(bytes), expected);
            }
        }

        #[test]
        fn what_is_no_json_is_refused_as_the_library_refuses_it(text in "[\\[\\]{}:,\"a1 nul-]{0,12}") {
            let mut json = Json::new(text.as_bytes());
            let is_read = json.skip().and_then(|()| json.end()).is_ok();
            // Numbers may begin with zeros here, and texts hold bytes below the blank.
            if serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert!(is_read, "{}", text);
            } else if is_read {
                prop_assert!(text.contains('1'), "{}", text);
            }
        }
    }

    #[test]
    fn what_is_nested_without_end_is_refused() {
        let fault = Json::new(&b"[".repeat(1 << 20)).skip();
        assert!(matches!(fault, Err(Fault::Wrong(_, "objects are nested too deep"))), "{fault:?}");
    }
}
