//! A table of a configuration file, with the position of each key and value for the messages about mistakes.

use super::{foreign, units};
use crate::policy::settings::Placed;
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};
use weir_diagnostic::Mistake;

/// Mistakes of one file that are reported at once; the others are reported when these are mended.
const MISTAKES_MAX: usize = 100;

/// The file, and what was found wrong with it.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    /// Where relative paths start: the file's own directory.
    folder: &'t Path,
    mistakes: RefCell<Vec<Mistake>>,
    warnings: RefCell<Vec<Mistake>>,
    paths: RefCell<Vec<PathBuf>>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, folder: &'t Path) -> Self {
        Self { text, folder, mistakes: RefCell::default(), warnings: RefCell::default(), paths: RefCell::default() }
    }

    /// Takes note of a mistake; the byte where it begins, what is wrong and what would be right.
    pub(super) fn wrong(&self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let (line, column) = self.place(at);
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.len() < MISTAKES_MAX {
            mistakes.push(Mistake { line, column, what: what.into(), remedy: remedy.into() });
        }
    }

    /// Takes note of what is accepted, and seldom meant.
    pub(super) fn doubt(&self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let (line, column) = self.place(at);
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < MISTAKES_MAX {
            warnings.push(Mistake { line, column, what: what.into(), remedy: remedy.into() });
        }
    }

    /// Line and column of a byte, from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = memchr::memchr_iter(b'\n', before.as_bytes()).count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        (line, column)
    }

    /// All paths that the file names.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.paths.borrow().clone()
    }

    /// The mistakes, and what is seldom meant, in the order of the file.
    pub(super) fn into_mistakes(self) -> (Vec<Mistake>, Vec<Mistake>) {
        let sorted = |list: RefCell<Vec<Mistake>>| {
            let mut list = list.into_inner();
            list.sort_by_key(|mistake| (mistake.line, mistake.column));
            list
        };
        (sorted(self.mistakes), sorted(self.warnings))
    }
}

/// One table; each key that is asked for counts as known.
#[derive(Debug)]
pub(super) struct Table<'r, 't> {
    pub(super) reader: &'r Reader<'t>,
    table: &'r DeTable<'t>,
    span: Range<usize>,
    /// How the file writes it, such as `[limits]`.
    name: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'r, 't> Table<'r, 't> {
    pub(super) fn new(reader: &'r Reader<'t>, table: &'r DeTable<'t>, span: Range<usize>, name: &str) -> Self {
        Self { reader, table, span, name: name.to_owned(), known: RefCell::default() }
    }

    pub(super) fn get(&self, key: &'static str) -> Option<Value<'r, 't>> {
        let mut known = self.known.borrow_mut();
        // What the whole server, a host and a path can say alike is asked for in several places.
        if !known.contains(&key) {
            known.push(key);
        }
        let (_, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Value { reader: self.reader, name: key.to_owned(), span: value.span(), value: value.get_ref() })
    }

    /// A key that means nothing here, if the table has it; it is not listed among those that are known.
    pub(super) fn misplaced(&self, key: &'static str) -> Option<Value<'r, 't>> {
        if self.table.iter().any(|(name, _)| name.get_ref() == key) { self.get(key) } else { None }
    }

    /// All entries, for tables whose keys the user chooses; none of them is unknown then.
    pub(super) fn entries(&self) -> Vec<(String, Range<usize>, Value<'r, 't>)> {
        let entry = |(name, value): (&'r toml::Spanned<_>, &'r toml::Spanned<DeValue<'t>>)| {
            let key: &std::borrow::Cow<'t, str> = name.get_ref();
            let of = Value { reader: self.reader, name: key.to_string(), span: value.span(), value: value.get_ref() };
            (key.to_string(), name.span(), of)
        };
        let mut entries: Vec<_> = self.table.iter().map(entry).collect();
        // The parser sorts by name; the file's order is the one that people mean.
        entries.sort_by_key(|(_, span, _)| span.start);
        entries
    }

    /// A mistake of the table as a whole.
    pub(super) fn wrong(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.reader.wrong(self.span.start, what, remedy);
    }

    /// Where it begins in the file.
    pub(super) fn at(&self) -> usize {
        self.span.start
    }

    /// The line in which it begins, from 1.
    pub(super) fn line(&self) -> usize {
        self.reader.place(self.span.start).0
    }

    /// Reports the keys that no `get` has asked for: they are unknown.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (name, span, _) in self.entries() {
            if known.contains(&name.as_str()) {
                continue;
            }
            let place =
                if self.name.is_empty() { "at the top of the file".to_owned() } else { format!("in {}", self.name) };
            // A key of another server's configuration comes first: a key that is only spelt alike would mislead.
            let remedy = foreign::remedy(&name, &self.name)
                .or_else(|| {
                    weir_diagnostic::nearest(&name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"))
                })
                .unwrap_or_else(|| format!("known {place} are: {}", known.join(", ")));
            self.reader.wrong(span.start, format!("`{name}` is not known {place}"), remedy);
        }
    }
}

/// A value with its place.
#[derive(Debug)]
pub(super) struct Value<'r, 't> {
    pub(super) reader: &'r Reader<'t>,
    name: String,
    span: Range<usize>,
    value: &'r DeValue<'t>,
}

impl<'r, 't> Value<'r, 't> {
    pub(super) fn wrong(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.reader.wrong(self.span.start, what, remedy);
    }

    /// Where it begins in the file.
    pub(super) fn at(&self) -> usize {
        self.span.start
    }

    pub(super) fn doubt(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.reader.doubt(self.span.start, what, remedy);
    }

    fn mismatch(&self, wanted: &str, example: &str) {
        self.wrong(
            format!("`{}` is {}, not {wanted}", self.name, described(self.value)),
            format!("write {} = {example}", self.name),
        );
    }

    pub(super) fn string(&self) -> Option<&'r str> {
        if let DeValue::String(text) = self.value {
            return Some(text);
        }
        self.mismatch("a text", "\"...\"");
        None
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        if let DeValue::Boolean(value) = self.value {
            return Some(*value);
        }
        self.mismatch("true or false", "true");
        None
    }

    /// What was made of it, with its place.
    pub(super) fn placed<T>(&self, value: T) -> Placed<T> {
        let (line, column) = self.reader.place(self.span.start);
        Placed { value, line, column }
    }

    /// Whether it is a text, where it may also be something else.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether it is a table, where it may also be something else.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// Whether it is a list, where it may also be something else.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Whether it is a whole number, where it may also be something else.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.value, DeValue::Integer(_))
    }

    /// Whether it is true or false, where it may also be something else.
    pub(super) fn is_boolean(&self) -> bool {
        matches!(self.value, DeValue::Boolean(_))
    }

    /// The values of a list with their places, or it alone.
    pub(super) fn items(&self) -> Vec<Value<'r, 't>> {
        match self.value {
            DeValue::Array(list) => list.iter().map(|item| self.again(item.span(), item.get_ref())).collect(),
            _ => vec![self.alone()],
        }
    }

    /// The same value once more.
    pub(super) fn alone(&self) -> Value<'r, 't> {
        self.again(self.span.clone(), self.value)
    }

    /// Whether it is just `false`, which switches off what a table would set.
    pub(super) fn is_false(&self) -> bool {
        matches!(self.value, DeValue::Boolean(false))
    }

    pub(super) fn integer(&self, within: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let DeValue::Integer(number) = self.value else {
            self.mismatch("a whole number", &within.start().to_string());
            return None;
        };
        let parsed = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        let found = parsed.filter(|number| within.contains(number));
        if found.is_none() {
            let what = format!("`{}` is {}, which is out of its bounds", self.name, number.as_str());
            self.wrong(what, format!("give a number from {} to {}", within.start(), within.end()));
        }
        found
    }

    /// A count of bytes: `"16 KiB"`, or a bare number.
    pub(super) fn bytes(&self, within: std::ops::RangeInclusive<u64>) -> Option<u64> {
        if matches!(self.value, DeValue::Integer(_)) {
            return self.integer(within);
        }
        let text = self.string_of("a size", "\"16 KiB\"")?;
        let found = units::bytes(text).filter(|bytes| within.contains(bytes));
        if found.is_none() {
            let what = format!("`{}` is no size from {} to {} bytes", self.name, within.start(), within.end());
            self.wrong(what, "write a number and B, KiB, MiB or GiB, such as \"16 KiB\"");
        }
        found
    }

    /// A time: `"10 s"`.
    pub(super) fn duration(&self, within: std::ops::RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.string_of("a time", "\"10 s\"")?;
        let found = units::duration(text).filter(|duration| within.contains(duration));
        if found.is_none() {
            let what = format!("`{}` is no time from {:?} to {:?}", self.name, within.start(), within.end());
            self.wrong(what, "write a number and ms, s, min, h or days, such as \"10 s\"");
        }
        found
    }

    fn string_of(&self, wanted: &str, example: &str) -> Option<&'r str> {
        if let DeValue::String(text) = self.value {
            return Some(text);
        }
        self.mismatch(wanted, example);
        None
    }

    /// Texts with their places: a list of them, or a single one.
    pub(super) fn strings(&self) -> Vec<Value<'r, 't>> {
        match self.value {
            DeValue::String(_) => vec![self.again(self.span.clone(), self.value)],
            DeValue::Array(list) => {
                let items = list.iter().map(|item| self.again(item.span(), item.get_ref()));
                items.filter(|item| item.string().is_some()).collect()
            }
            _ => {
                self.mismatch("a text or a list of texts", "[\"...\"]");
                Vec::new()
            }
        }
    }

    /// What was found to be a text already.
    pub(super) fn text(&self) -> &'r str {
        if let DeValue::String(text) = self.value { text } else { "" }
    }

    /// A path, from the file's directory if it is a relative one.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let text = self.string()?;
        if text.is_empty() || text.contains('\0') {
            self.wrong(format!("`{}` is no path", self.name), "give the path of a file or directory");
            return None;
        }
        let path = self.reader.folder.join(text);
        self.reader.paths.borrow_mut().push(path.clone());
        Some(path)
    }

    /// Another path, likewise.
    pub(super) fn in_folder(&self, path: &Path) -> PathBuf {
        self.reader.folder.join(path)
    }

    pub(super) fn table(&self, name: &str) -> Option<Table<'r, 't>> {
        if let DeValue::Table(table) = self.value {
            return Some(Table::new(self.reader, table, self.span.clone(), name));
        }
        self.mismatch("a table", "{ ... }");
        None
    }

    pub(super) fn tables(&self, name: &str) -> Vec<Table<'r, 't>> {
        let DeValue::Array(list) = self.value else {
            let what = format!("`{}` is {}, not a list of tables", self.name, described(self.value));
            self.wrong(what, format!("write {name}, with double brackets"));
            return Vec::new();
        };
        list.iter().filter_map(|item| self.again(item.span(), item.get_ref()).table(name)).collect()
    }

    fn again(&self, span: Range<usize>, value: &'r DeValue<'t>) -> Self {
        Self { reader: self.reader, name: self.name.clone(), span, value }
    }
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
