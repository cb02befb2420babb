//! Parameters: their values, and how they are written (OpenAPI 3.1, 4.8.12).

use crate::model::{Ask, Text, encoded};
use crate::openapi::document::Document;
use crate::openapi::schema::{NoValue, Sampler, given};
use crate::tree::{Node, Value};

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Path,
    Query,
    Header,
    Cookie,
    /// The body, or a field of it: of Swagger 2.0 only.
    Body,
}

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter<'d> {
    pub(super) node: &'d Node,
    pub(super) name: &'d str,
    pub(super) within: Within,
}

impl<'d> Parameter<'d> {
    /// Reads a parameter, none where it is wrong, which is told.
    pub(super) fn read(document: &Document<'d>, node: &'d Node) -> Option<Self> {
        let node = document.resolved(node)?;
        let wrong = |what: &str, remedy: &str| {
            document.report.wrong(node.at(), what, remedy);
            None
        };
        let Some(name) = node.text_of("name") else { return wrong("a parameter has no name", "write name: below it") };
        let within = match node.text_of("in") {
            Some("path") => Within::Path,
            Some("query") => Within::Query,
            Some("header") => Within::Header,
            Some("cookie") => Within::Cookie,
            Some("body" | "formData") => Within::Body,
            _ => return wrong("a parameter stands nowhere", "write in: path, query, header or cookie"),
        };
        Some(Self { node, name, within })
    }

    /// The schema: of Swagger 2.0 the parameter itself.
    pub(super) fn schema(&self) -> &'d Node {
        self.node.get("schema").unwrap_or(self.node)
    }

    pub(super) fn is_required(&self) -> bool {
        self.within == Within::Path || self.node.is_true("required")
    }

    /// Its value: what the user sets, an example, a default; of one that is required also another of its schema. None
    /// where it is not sent.
    ///
    /// # Errors
    /// [`NoValue`] of one that is required.
    pub(super) fn value(&self, document: &Document<'d>) -> Result<Option<Node>, NoValue> {
        if let Some(set) = document.wanted.set.get(self.name) {
            return Ok(Some(Node::made(self.node.line, Value::Text(set.clone()))));
        }
        if let Some(example) = example(document, self.node) {
            return Ok(Some(example.clone()));
        }
        let content = self.node.entries_of("content").first().map(|(_, _, media)| media);
        if let Some(example) = content.and_then(|media| example(document, media)) {
            return Ok(Some(example.clone()));
        }
        let schema = content.and_then(|media| media.get("schema")).unwrap_or_else(|| self.schema());
        if self.is_required() {
            return Sampler::new(document).value(schema).map(Some);
        }
        let resolved = document.resolved(schema).ok_or(NoValue::Reference)?;
        let is_choice = resolved.get("enum").is_some()
            && ["example", "default", "const"].iter().all(|key| resolved.get(key).is_none());
        Ok(given(resolved).filter(|_| !is_choice).cloned())
    }

    /// Puts the value where it stands in a request; `path` is what the address has so far.
    pub(super) fn put(&self, value: &Node, ask: &mut Ask, path: &mut String) {
        let value = match self.node.get("content") {
            Some(_) => Node::made(value.line, Value::Text(value.json())),
            None => value.clone(),
        };
        match self.within {
            Within::Path => *path = path.replace(&format!("{{{}}}", self.name), &self.in_path(&value)),
            Within::Query => {
                for pair in self.in_query(&value) {
                    path.push(if path.contains('?') { '&' } else { '?' });
                    path.push_str(&pair);
                }
            }
            Within::Header => ask.add_header(self.name, Text::plain(flat(&value, self.explodes(false), ","))),
            Within::Cookie => {
                let pair = format!("{}={}", self.name, encoded(&flat(&value, false, ",")));
                ask.add_header("Cookie", Text::plain(pair));
            }
            Within::Body => {}
        }
    }

    fn explodes(&self, default: bool) -> bool {
        match self.node.get("explode").map(|node| &node.value) {
            Some(Value::Truth(truth)) => *truth,
            _ => default,
        }
    }

    fn in_path(&self, value: &Node) -> String {
        let explode = self.explodes(false);
        let simple = flat_encoded(value, explode, ",");
        match self.node.text_of("style") {
            Some("label") => format!(".{}", if explode { flat_encoded(value, true, ".") } else { simple }),
            Some("matrix") => match (&value.value, explode) {
                (Value::List(list), true) => {
                    list.iter().map(|one| format!(";{}={}", self.name, encoded(&plain(one)))).collect()
                }
                (Value::Map(entries), true) => {
                    entries.iter().map(|(key, _, own)| format!(";{}={}", encoded(key), encoded(&plain(own)))).collect()
                }
                _ => format!(";{}={simple}", self.name),
            },
            _ => simple,
        }
    }

    /// The pairs that it makes in a query.
    fn in_query(&self, value: &Node) -> Vec<String> {
        let name = encoded(self.name).replace("%5B", "[").replace("%5D", "]");
        let keeps = self.node.is_true("allowReserved");
        let reserved = |text: &str| text.replace(char::is_control, "").replace(' ', "%20").replace('&', "%26");
        let encode = |text: &str| if keeps { reserved(text) } else { encoded(text) };
        let (style, collection) = (self.node.text_of("style"), self.node.text_of("collectionFormat"));
        match &value.value {
            Value::List(list) => {
                let parts: Vec<String> = list.iter().map(|one| encode(&plain(one))).collect();
                let joined = |sign: &str| vec![format!("{name}={}", parts.join(sign))];
                match (style, collection) {
                    (_, Some("multi")) => parts.iter().map(|part| format!("{name}={part}")).collect(),
                    (Some("spaceDelimited"), _) | (_, Some("ssv")) if !self.explodes(false) => joined("%20"),
                    (Some("pipeDelimited"), _) | (_, Some("pipes")) if !self.explodes(false) => joined("%7C"),
                    (_, Some("tsv")) => joined("%09"),
                    // Swagger 2.0 puts commas between them.
                    (None, _) if self.node.get("schema").is_none() => joined(","),
                    _ if self.explodes(true) => parts.iter().map(|part| format!("{name}={part}")).collect(),
                    _ => joined(","),
                }
            }
            Value::Map(entries) if style == Some("deepObject") => {
                let pair =
                    |(key, _, own): &(String, usize, Node)| format!("{name}[{}]={}", encode(key), encode(&plain(own)));
                entries.iter().map(pair).collect()
            }
            Value::Map(entries) if self.explodes(true) => {
                entries.iter().map(|(key, _, own)| format!("{}={}", encode(key), encode(&plain(own)))).collect()
            }
            Value::Map(_) => vec![format!("{name}={}", flat_encoded(value, false, ","))],
            _ => vec![format!("{name}={}", encode(&plain(value)))],
        }
    }
}

/// The example of a parameter or of a media type.
pub(super) fn example<'d>(document: &Document<'d>, node: &'d Node) -> Option<&'d Node> {
    if let Some(example) = node.get("example") {
        return Some(example);
    }
    let (_, _, first) = node.entries_of("examples").first()?;
    document.resolved(first)?.get("value")
}

/// One value as a text.
fn plain(node: &Node) -> String {
    match &node.value {
        Value::Null => String::new(),
        Value::List(_) | Value::Map(_) => node.json(),
        _ => node.scalar().unwrap_or_default(),
    }
}

/// A value in one text: items and entries with a sign between them.
fn flat(node: &Node, explode: bool, sign: &str) -> String {
    flat_by(node, explode, sign, str::to_owned)
}

fn flat_encoded(node: &Node, explode: bool, sign: &str) -> String {
    flat_by(node, explode, sign, encoded)
}

fn flat_by(node: &Node, explode: bool, sign: &str, change: fn(&str) -> String) -> String {
    let parts: Vec<String> = match &node.value {
        Value::List(list) => list.iter().map(|one| change(&plain(one))).collect(),
        Value::Map(entries) => {
            let between = if explode { "=" } else { sign };
            entries.iter().map(|(key, _, own)| format!("{}{between}{}", change(key), change(&plain(own)))).collect()
        }
        _ => vec![change(&plain(node))],
    };
    parts.join(sign)
}
