//! YAML 1.2 with the lines of its values: the core schema, aliases within a bound, merge keys of 1.1.

use crate::tree::bounds::{DEPTH_MAX, NODES_MAX, TreeError};
use crate::tree::node::{Node, Value};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use std::collections::HashMap;

/// Reads the one document of a text.
///
/// # Errors
/// [`TreeError`] at the first place that is no YAML, or exceeds a bound.
pub(crate) fn read(text: &str) -> Result<Node, TreeError> {
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder { anchors: HashMap::new(), open: Vec::new(), done: None, nodes: 0 };
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| wrong(*error.marker(), error.info().to_owned()))?;
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents > 1 {
                return Err(wrong(span.start, "a second document begins: give one document a file".to_owned()));
            }
        }
        builder.take(event, span)?;
    }
    builder.done.ok_or_else(|| TreeError { line: 1, column: 1, what: "it is empty".to_owned() })
}

fn wrong(at: Marker, what: String) -> TreeError {
    TreeError { line: at.line().max(1), column: at.col() + 1, what }
}

/// A list or map that has not ended.
struct Open {
    at: Marker,
    anchor: usize,
    holds: Holds,
}

enum Holds {
    List(Vec<Node>),
    /// Entries, and the key whose value comes next.
    Map(Vec<(String, usize, Node)>, Option<(String, usize)>),
}

/// Puts events together.
struct Builder {
    /// Values that aliases may repeat, with how many values they have.
    anchors: HashMap<usize, (Node, usize)>,
    open: Vec<Open>,
    done: Option<Node>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), TreeError> {
        let at = span.start;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, at)?;
                let value = scalar(&text, style, tag.as_deref());
                self.value(Node { line: at.line().max(1), column: at.col() + 1, value }, anchor, at)
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, Holds::List(Vec::new()), at),
            Event::MappingStart(anchor, _) => self.begin(anchor, Holds::Map(Vec::new(), None), at),
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(wrong(at, "an alias stands within what it repeats, or before it".to_owned()));
                };
                self.count(size, at)?;
                self.value(node, 0, at)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn count(&mut self, more: usize, at: Marker) -> Result<(), TreeError> {
        self.nodes += more;
        if self.nodes > NODES_MAX {
            return Err(wrong(at, format!("it has more than {NODES_MAX} values, those that aliases repeat included")));
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, holds: Holds, at: Marker) -> Result<(), TreeError> {
        self.count(1, at)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(wrong(at, format!("values lie more than {DEPTH_MAX} deep")));
        }
        self.open.push(Open { at, anchor, holds });
        Ok(())
    }

    fn end(&mut self, at: Marker) -> Result<(), TreeError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.holds {
            Holds::List(list) => Value::List(list),
            Holds::Map(entries, _) => Value::Map(merged(entries)),
        };
        self.value(Node { line: open.at.line().max(1), column: open.at.col() + 1, value }, open.anchor, at)
    }

    /// Puts a value where it belongs.
    fn value(&mut self, node: Node, anchor: usize, at: Marker) -> Result<(), TreeError> {
        if anchor > 0 {
            // What an anchor names lies deep at most as far as a whole document may, and so does each repetition.
            let (size, depth) = extent(&node);
            self.count(size, at)?;
            if depth + self.open.len() > DEPTH_MAX {
                return Err(wrong(at, format!("values lie more than {DEPTH_MAX} deep")));
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut().map(|open| &mut open.holds) {
            None => self.done = self.done.take().or(Some(node)),
            Some(Holds::List(list)) => list.push(node),
            Some(Holds::Map(entries, key)) => match key.take() {
                Some((name, line)) => entries.push((name, line, node)),
                None => match node.scalar() {
                    Some(name) => *key = Some((name, node.line)),
                    None if node.value == Value::Null => *key = Some((String::new(), node.line)),
                    None => return Err(wrong(at, "a key is a list or a map: write a text".to_owned())),
                },
            },
        }
        Ok(())
    }
}

/// How many values a value has, and how deep they lie.
fn extent(node: &Node) -> (usize, usize) {
    let within: Vec<&Node> = match &node.value {
        Value::List(list) => list.iter().collect(),
        Value::Map(entries) => entries.iter().map(|(_, _, value)| value).collect(),
        _ => return (1, 0),
    };
    within.into_iter().map(extent).fold((1, 1), |(size, depth), (own, below)| (size + own, depth.max(below + 1)))
}

/// The entries with those of merge keys (`<<`), which do not take the place of own ones.
fn merged(entries: Vec<(String, usize, Node)>) -> Vec<(String, usize, Node)> {
    if !entries.iter().any(|(key, ..)| key == "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, ..)| key == "<<");
    for (_, _, node) in merges {
        let maps = if node.list().is_empty() { vec![node] } else { node.list().to_vec() };
        for (key, line, value) in maps.iter().flat_map(Node::entries) {
            if !own.iter().any(|(name, ..)| name == key) {
                own.push((key.clone(), *line, value.clone()));
            }
        }
    }
    own
}

/// What a scalar is (YAML 1.2.2, 10.3.2).
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Truth(true),
        "false" | "False" | "FALSE" => Value::Truth(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let digits = |text: &str, is: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|byte| is(&byte));
    if let Some(rest) = text.strip_prefix("0x") {
        return digits(rest, u8::is_ascii_hexdigit);
    }
    if let Some(rest) = text.strip_prefix("0o") {
        return digits(rest, |byte| (b'0'..=b'7').contains(byte));
    }
    let unsigned = text.trim_start_matches(['+', '-']);
    let begins = unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    text.len() - unsigned.len() <= 1 && begins && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_those_of_the_core_schema() {
        let text = "a: 1\nb: 'x'\nc: [true, ~, 1.5, 0x1F, 12:30, \"1\"]\nd:\n  <<: &m {e: 1, f: 2}\n  f: 3\ng: |\n  two\n  lines\n";
        let node = read(text).expect("YAML");
        let json = r#"{"a":1,"b":"x","c":[true,null,1.5,31,"12:30","1"],"d":{"f":3,"e":1},"g":"two\nlines\n"}"#;
        assert_eq!(node.json(), json);
        assert_eq!(node.get("d").and_then(|node| node.get("f")).map(|node| node.line), Some(6));
        let error = read("a: [1\nb: 2").expect_err("no end");
        assert!(error.line >= 2, "{error}");
        assert!(read("").is_err() && read("a: 1\n---\nb: 2\n").is_err());
    }

    #[test]
    fn aliases_repeat_within_a_bound() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
        }
        let error = read(&text).expect_err("a thousand million values");
        assert!(error.what.contains("more than"), "{error}");
        assert_eq!(read("a: &x [1]\nb: *x\n").expect("YAML").json(), r#"{"a":[1],"b":[1]}"#);
        assert!(read("a: &x [*x]\n").is_err());
        assert!(read(&"[".repeat(5000)).is_err());
        assert!(read(&"- ".repeat(5000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_its_place(text in "[a&*:\\-\\[\\]{} ,\n\"'|>#!<0]{0,40}") {
            if let Err(error) = read(&text) {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(error.line <= text.matches('\n').count() + 2, "{}", error);
            }
        }
    }
}
