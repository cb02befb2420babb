//! HTTP::WebTest's specification files: global parameters and blocks from `test_name` to `end_test`.
//!
//! Only the form is read here; what the parameters mean stands in [`crate::interpret`].
//! Perl is never evaluated: blocks in braces are refused, and of what double quotes interpolate only `$ENV{NAME}` is
//! taken.

pub(crate) mod quoted;

use std::fmt;

/// Lists may stand in lists so deep; a specification needs three.
const DEPTH_MAX: usize = 16;

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar.
    Text(String),
    /// `( … )`; the pairs of `( name => value )` stand one after the other.
    List(Vec<Value>),
}

/// `name = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
    /// The line of the name, from 1.
    pub line: usize,
}

/// From `test_name` to `end_test`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block {
    /// What stands after `test_name =`, if anything does.
    pub name: Option<String>,
    /// The line of `test_name`, from 1.
    pub line: usize,
    /// The other parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Specification {
    /// Parameters outside of tests, wherever they stand.
    pub globals: Vec<Parameter>,
    /// The tests, in order.
    pub tests: Vec<Block>,
}

/// What is wrong in a line of a file, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub what: String,
}

/// Reads a specification; `variable` answers `$ENV{NAME}`.
///
/// # Errors
/// The first thing that is not of the format, with its line.
pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Specification, SyntaxError> {
    let mut reader = Reader { text, at: 0, variable };
    let mut specification = Specification::default();
    loop {
        reader.skip_blank();
        if reader.rest().is_empty() {
            return Ok(specification);
        }
        if reader.takes_word("test_name") {
            let block = reader.block()?;
            specification.tests.push(block);
        } else {
            let parameter = reader.parameter("a global parameter or test_name")?;
            specification.globals.push(parameter);
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    variable: &'t dyn Fn(&str) -> Option<String>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn line(&self) -> usize {
        1 + self.text[..self.at].bytes().filter(|byte| *byte == b'\n').count()
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line(), what: what.into() })
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Spaces and tabs.
    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// White space and comments; a comment begins a line, so that `#` may stand in addresses.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let line_so_far = self.text[..self.at].rsplit('\n').next().unwrap_or_default();
            if !self.rest().starts_with('#') || !line_so_far.trim().is_empty() {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Whether this word comes next, whole; it is then passed.
    fn takes_word(&mut self, word: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        let whole = !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        if whole {
            self.at += word.len();
        }
        whole
    }

    /// `=` and the white space around it, which may hold one end of a line.
    fn takes_equals(&mut self) -> bool {
        let before = self.at;
        self.skip_spaces();
        if !self.rest().starts_with('=') {
            self.at = before;
            return false;
        }
        self.at += 1;
        self.skip_spaces();
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            self.at += rest.len() - after.len();
            self.skip_spaces();
        }
        true
    }

    fn block(&mut self) -> Result<Block, SyntaxError> {
        let mut block = Block { line: self.line(), ..Block::default() };
        if self.takes_equals() {
            block.name = self.scalar()?;
            if block.name.is_none() {
                return self.wrong("test_name has no name; write test_name = some words");
            }
        }
        loop {
            self.skip_blank();
            if self.takes_word("end_test") {
                return Ok(block);
            }
            if self.rest().is_empty() {
                let begun = block.line;
                return self.wrong(format!("the test that begins in line {begun} has no end_test"));
            }
            if self.rest().starts_with("test_name") {
                let begun = block.line;
                return self.wrong(format!("a test begins within the one of line {begun}; write end_test before it"));
            }
            block.parameters.push(self.parameter("a parameter or end_test")?);
        }
    }

    fn parameter(&mut self, expected: &str) -> Result<Parameter, SyntaxError> {
        let (line, rest) = (self.line(), self.rest());
        let end = rest.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '_').unwrap_or(rest.len());
        if end == 0 {
            let near: String = rest.lines().next().unwrap_or_default().chars().take(40).collect();
            return self.wrong(format!("{expected} is expected, not `{near}`"));
        }
        let name = rest[..end].to_owned();
        self.at += end;
        if !self.takes_equals() {
            return self.wrong(format!("= is expected after {name}"));
        }
        match self.value(0)? {
            Some(value) => Ok(Parameter { name, value, line }),
            None => self.wrong(format!("{name} has no value; write '' for an empty one")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Option<Value>, SyntaxError> {
        if !self.rest().starts_with('(') {
            return Ok(self.scalar()?.map(Value::Text));
        }
        if depth == DEPTH_MAX {
            return self.wrong(format!("lists stand in lists more than {DEPTH_MAX} deep"));
        }
        let begun = self.line();
        self.at += 1;
        let mut list = Vec::new();
        loop {
            self.skip_blank();
            match self.next() {
                Some(')') => {
                    self.at += 1;
                    return Ok(Some(Value::List(list)));
                }
                // Perl's habit; an item of this format never begins with a comma.
                Some(',') => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            if self.rest().starts_with("=>") {
                return self.wrong("=> stands where a name is expected; each pair has a line of its own, or quotes");
            }
            let missing = format!("the list that begins in line {begun} has no closing bracket");
            let Some(item) = self.value(depth + 1)? else { return self.wrong(missing) };
            list.push(item);
            self.skip_spaces();
            if self.rest().starts_with("=>") {
                self.at += 2;
                self.skip_blank();
                let Some(item) = self.value(depth + 1)? else { return self.wrong("a value is missing after =>") };
                list.push(item);
            }
        }
    }

    fn scalar(&mut self) -> Result<Option<String>, SyntaxError> {
        match self.next() {
            Some(quote @ ('\'' | '"')) => {
                let begun = self.line();
                let (text, length) = quoted::parse(self.rest(), quote, self.variable)
                    .map_err(|error| SyntaxError { line: begun, what: error.to_string() })?;
                self.at += length;
                Ok(Some(text))
            }
            Some('{') => self.wrong(
                "Perl in braces is not evaluated; write a literal value, or \"$ENV{NAME}\" for what differs from run to \
                 run; for a check by a program, run that program on the output of --json",
            ),
            _ => Ok(self.words()),
        }
    }

    /// Words as they stand, as far as the line, a closing bracket or `=>`.
    fn words(&mut self) -> Option<String> {
        let rest = self.rest();
        let mut end = 0;
        for (at, letter) in rest.char_indices() {
            if letter == ')' || letter == '\n' || letter == '\r' || rest[at..].starts_with("=>") {
                break;
            }
            end = at + letter.len_utf8();
        }
        let words = rest[..end].trim_end();
        self.at += words.len();
        (!words.is_empty()).then(|| words.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&written(text)),
            Self::List(items) => {
                f.write_str("(")?;
                for item in items {
                    write!(f, " {item}")?;
                    // Unquoted words reach to the end of the line.
                    f.write_str("\n")?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A scalar as it is written: bare where that means the same, else in single quotes.
#[must_use]
pub fn written(text: &str) -> String {
    let bare = !text.is_empty()
        && text.trim() == text
        && !text.starts_with(['#', ','])
        && !text.contains("=>")
        && !text.contains(|letter: char| "()'\"{}\\".contains(letter) || letter.is_control());
    if bare { text.to_owned() } else { format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| text(item)).collect())
    }

    fn read(source: &str) -> Result<Specification, SyntaxError> {
        parse(source, &|name| (name == "PORT").then(|| "8080".to_owned()))
    }

    #[test]
    fn a_file_of_the_manual_is_read() {
        let source = "# globals\nignore_case = yes\n\ntest_name = Some pages\n  url = http://a.example/x#y\n  \
                      text_require = ( one two\n    'three' \"four\\n\" )\n  params = ( a => b c\n d => 'e f' )\n\
                      end_test\nauth = ( me\n you )\n";
        let read = read(source).unwrap();
        assert_eq!(
            read.globals.iter().map(|p| (&*p.name, p.line)).collect::<Vec<_>>(),
            [("ignore_case", 2), ("auth", 11)]
        );
        let test = &read.tests[0];
        assert_eq!((test.name.as_deref(), test.line), (Some("Some pages"), 4));
        assert_eq!(test.parameters[0].value, text("http://a.example/x#y"));
        assert_eq!(test.parameters[1].value, list(&["one two", "three", "four\n"]));
        assert_eq!(test.parameters[2].value, list(&["a", "b c", "d", "e f"]));
    }

    #[test]
    fn variables_of_the_environment_are_the_only_ones() {
        let read = |source: &str| read(&format!("url = {source}\n"));
        assert_eq!(read("\"http://a:$ENV{PORT}/\"").unwrap().globals[0].value, text("http://a:8080/"));
        assert!(read("\"$ENV{ABSENT}\"").unwrap_err().what.contains("ABSENT is not set"));
        assert!(read("\"a@b.example\"").unwrap_err().what.contains("\\@"));
        assert!(read("\"$server\"").unwrap_err().what.contains("Perl"));
        assert_eq!(read("'$server'").unwrap().globals[0].value, text("$server"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (source, line, told) in [
            ("\n\nurl = { 'a' }\n", 3, "not evaluated"),
            ("test_name = a\nurl = b\n", 3, "no end_test"),
            ("test_name = a\nurl = b\ntest_name = c\nend_test\n", 3, "within the one of line 1"),
            ("a = ( b\n c\n", 3, "no closing bracket"),
            ("a = 'b\n", 1, "no closing"),
            ("a =\n\nb = c\n", 2, "has no value"),
            ("a = ( b => c d => e )\n", 1, "a line of its own"),
            ("a b\n", 1, "= is expected"),
            ("%a = b\n", 1, "`%a = b`"),
        ] {
            let error = read(source).unwrap_err();
            assert!(error.line == line && error.what.contains(told), "{source}: {error}");
        }
    }

    fn scalars() -> impl Strategy<Value = String> {
        prop_oneof!["[ -~\n]{0,12}", "\\PC{0,8}"]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(items in proptest::collection::vec(scalars(), 0..5), name in scalars()) {
            let value = Value::List(items.into_iter().map(Value::Text).collect());
            let source = format!("test_name = {}\n p = {value}\nend_test\n", written(&name));
            let read = read(&source).unwrap();
            prop_assert_eq!(read.tests[0].name.as_deref(), Some(&*name));
            prop_assert_eq!(&read.tests[0].parameters[0].value, &value);
        }

        #[test]
        fn any_text_is_read_or_refused_within_its_lines(source in "[a-z_=(){}'\"$@#\\\\,> \n]{0,80}") {
            if let Err(error) = read(&source) {
                prop_assert!(error.line >= 1 && error.line <= source.lines().count() + 1);
            }
        }
    }
}
