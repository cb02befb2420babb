//! Values with their lines.

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// Its column, from 1.
    pub(crate) column: usize,
    pub(crate) value: Value,
}

/// What JSON and the core schema of YAML have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Truth(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// Keys and values in the order of the file, with the lines of the keys.
    Map(Vec<(String, usize, Node)>),
}

impl Node {
    pub(crate) fn at(&self) -> (usize, usize) {
        (self.line, self.column)
    }

    /// A value that no file has, at the line of one.
    pub(crate) fn made(line: usize, value: Value) -> Self {
        Self { line, column: 1, value }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, ..)| name == key).map(|(_, _, value)| value),
            _ => None,
        }
    }

    /// The text of a key.
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text, a number or a truth as a text.
    pub(crate) fn scalar(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Truth(truth) => Some(truth.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| node.value == Value::Truth(true))
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match &self.get(key)?.value {
            Value::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    /// The values of a list; none for another value.
    pub(crate) fn list(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// The values of the list of a key.
    pub(crate) fn list_of(&self, key: &str) -> &[Self] {
        self.get(key).map_or(&[], Self::list)
    }

    /// The entries of a map; none for another value.
    pub(crate) fn entries(&self) -> &[(String, usize, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The entries of the map of a key.
    pub(crate) fn entries_of(&self, key: &str) -> &[(String, usize, Self)] {
        self.get(key).map_or(&[], Self::entries)
    }

    /// How many values it has, itself included.
    pub(crate) fn size(&self) -> usize {
        match &self.value {
            Value::List(list) => list.iter().map(Self::size).sum::<usize>() + 1,
            Value::Map(entries) => entries.iter().map(|(_, _, value)| value.size()).sum::<usize>() + 1,
            _ => 1,
        }
    }

    /// The value as JSON, in one line.
    pub(crate) fn json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    fn write_json(&self, out: &mut String) {
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Truth(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::Number(text) => out.push_str(&number_json(text)),
            Value::Text(text) => out.push_str(&quoted(text)),
            Value::List(list) => {
                out.push('[');
                for (place, value) in list.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    value.write_json(out);
                }
                out.push(']');
            }
            Value::Map(entries) => {
                out.push('{');
                for (place, (key, _, value)) in entries.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    out.push_str(&quoted(key));
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number as JSON writes it; YAML has others, such as `0x1F`, `+1` and `.5`.
fn number_json(text: &str) -> String {
    if serde_json::from_str::<serde_json::Number>(text).is_ok() {
        return text.to_owned();
    }
    let radix = |prefix: &str, radix: u32| i64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    if let Some(whole) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return whole.to_string();
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.and_then(serde_json::Number::from_f64).map_or_else(|| "null".to_owned(), |number| number.to_string())
}
