//! Values of schemas: an example, a default, or one that is made.

use crate::openapi::document::Document;
use crate::openapi::pattern::fitting;
use crate::tree::{Node, Value};

/// The deepest value that is made.
const DEPTH_MAX: usize = 24;
/// The most values of one that is made.
const NODES_MAX: usize = 5000;
/// The most items and letters that a least number asks for.
const LEAST_MAX: f64 = 1000.0;

/// Why no value is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoValue {
    /// A reference leads nowhere, which has been told.
    #[error("what it refers to is not there")]
    Reference,
    /// It contains itself, and must.
    #[error("it contains itself, or lies too deep")]
    Endless,
    /// The pattern is not known, or no text was found.
    #[error("no text was found for its pattern {pattern:?}")]
    Pattern {
        /// The expression.
        pattern: String,
    },
    /// The bounds leave no number.
    #[error("no number was found within its bounds")]
    Bounds,
    /// It has more values than are made.
    #[error("a value of it would be larger than what is made")]
    Large,
}

/// Makes values.
pub(super) struct Sampler<'s, 'd> {
    document: &'s Document<'d>,
    /// The schemas that are being made, by their places in memory.
    open: Vec<*const Node>,
    nodes: usize,
}

impl<'s, 'd> Sampler<'s, 'd> {
    pub(super) fn new(document: &'s Document<'d>) -> Self {
        Self { document, open: Vec::new(), nodes: 0 }
    }

    /// A value of a schema.
    ///
    /// # Errors
    /// [`NoValue`].
    pub(super) fn value(&mut self, schema: &'d Node) -> Result<Node, NoValue> {
        let schema = self.document.resolved(schema).ok_or(NoValue::Reference)?;
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(NoValue::Large);
        }
        if let Some(given) = given(schema) {
            self.nodes += given.size();
            return if self.nodes > NODES_MAX { Err(NoValue::Large) } else { Ok(given.clone()) };
        }
        if self.open.len() >= DEPTH_MAX || self.open.contains(&std::ptr::from_ref(schema)) {
            return Err(NoValue::Endless);
        }
        self.open.push(std::ptr::from_ref(schema));
        let made = self.made(schema);
        self.open.pop();
        made
    }

    fn made(&mut self, schema: &'d Node) -> Result<Node, NoValue> {
        let all = schema.list_of("allOf");
        if !all.is_empty() {
            return self.merged(schema, all);
        }
        for key in ["oneOf", "anyOf"] {
            let ways = schema.list_of(key);
            if ways.is_empty() || schema.get("properties").is_some() {
                continue;
            }
            let mut first = Err(NoValue::Endless);
            for way in ways {
                match self.value(way) {
                    Ok(node) => return Ok(node),
                    Err(error) => first = first.or(Err(error)),
                }
            }
            return first;
        }
        let value = match kind(schema) {
            Kind::Object => self.object(schema)?,
            Kind::Array => self.array(schema)?,
            Kind::Text => Value::Text(text(schema)?),
            Kind::Whole => Value::Number(number(schema, 1.0)?),
            Kind::Number => Value::Number(number(schema, 0.0)?),
            Kind::Truth => Value::Truth(true),
            Kind::Null => Value::Null,
        };
        Ok(Node::made(schema.line, value))
    }

    /// All of several: the entries of objects together, else the first value.
    fn merged(&mut self, schema: &'d Node, all: &'d [Node]) -> Result<Node, NoValue> {
        let mut entries: Vec<(String, usize, Node)> = Vec::new();
        let mut other = None;
        for one in all {
            match self.value(one)? {
                Node { value: Value::Map(own), .. } => {
                    for entry in own {
                        entries.retain(|(name, ..)| *name != entry.0);
                        entries.push(entry);
                    }
                }
                node => other = other.or(Some(node)),
            }
        }
        if schema.get("properties").is_some()
            && let Value::Map(own) = self.object(schema)?
        {
            for entry in own {
                entries.retain(|(name, ..)| *name != entry.0);
                entries.push(entry);
            }
        }
        match other {
            Some(node) if entries.is_empty() => Ok(node),
            _ => Ok(Node::made(schema.line, Value::Map(entries))),
        }
    }

    fn object(&mut self, schema: &'d Node) -> Result<Value, NoValue> {
        let required: Vec<&str> = schema.list_of("required").iter().filter_map(Node::text).collect();
        let mut entries = Vec::new();
        for (name, line, property) in schema.entries_of("properties") {
            let resolved = self.document.resolved(property).ok_or(NoValue::Reference)?;
            if resolved.is_true("readOnly") || property.is_true("readOnly") {
                continue;
            }
            match self.value(property) {
                Ok(value) => entries.push((name.clone(), *line, value)),
                // What may be left out is, where it would contain itself or no value is found.
                Err(NoValue::Endless | NoValue::Pattern { .. } | NoValue::Bounds)
                    if !required.contains(&name.as_str()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Value::Map(entries))
    }

    fn array(&mut self, schema: &'d Node) -> Result<Value, NoValue> {
        let least = schema.number("minItems").unwrap_or(0.0);
        if least > LEAST_MAX {
            return Err(NoValue::Large);
        }
        let most = schema.number("maxItems").unwrap_or(f64::MAX);
        let Some(items) = schema.get("items") else { return Ok(Value::List(Vec::new())) };
        let mut list = Vec::new();
        for _ in 0..(least.max(1.0).min(most)) as usize {
            match self.value(items) {
                Ok(value) => list.push(value),
                Err(NoValue::Endless) if least < 1.0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Value::List(list))
    }
}

/// The value that a schema itself gives.
pub(super) fn given(schema: &Node) -> Option<&Node> {
    let named = ["example", "const", "default"].into_iter().find_map(|key| schema.get(key));
    let first = |key: &str| schema.list_of(key).first();
    named.or_else(|| first("examples")).or_else(|| first("enum"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    Text,
    Whole,
    Number,
    Truth,
    Null,
}

fn kind(schema: &Node) -> Kind {
    // From 3.1 on there may be several.
    let several = schema.list_of("type").iter().filter_map(Node::text).find(|name| *name != "null");
    let name = schema.text_of("type").or(several).or((!schema.list_of("type").is_empty()).then_some("null"));
    match name {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("integer") => Kind::Whole,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Truth,
        Some("null") => Kind::Null,
        None if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() => Kind::Object,
        None if schema.get("items").is_some() => Kind::Array,
        None if schema.get("minimum").is_some() || schema.get("maximum").is_some() => Kind::Number,
        _ => Kind::Text,
    }
}

/// A text of a format, of a pattern, or of a length.
fn text(schema: &Node) -> Result<String, NoValue> {
    let least = schema.number("minLength").unwrap_or(0.0);
    if least > LEAST_MAX {
        return Err(NoValue::Large);
    }
    let least = least as usize;
    if let Some(pattern) = schema.text_of("pattern") {
        return fitting(pattern, least).ok_or_else(|| NoValue::Pattern { pattern: pattern.to_owned() });
    }
    let mut text = match schema.text_of("format").unwrap_or_default() {
        "date" => "2026-01-31",
        "date-time" => "2026-01-31T12:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "P1D",
        "uuid" => "7d444840-9dc0-11d1-b245-5ffdce74fad2",
        "email" | "idn-email" => "user@example.com",
        "uri" | "url" | "iri" => "https://example.com/",
        "uri-reference" | "iri-reference" => "/",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "byte" => "dGV4dA==",
        _ => "text",
    }
    .to_owned();
    while text.chars().count() < least {
        text.push('x');
    }
    let most = schema.number("maxLength").unwrap_or(f64::MAX);
    if (text.chars().count() as f64) > most {
        text = text.chars().take(most.max(0.0) as usize).collect();
    }
    Ok(text)
}

/// A number near to one, within the bounds. `step` is the least distance of two numbers; 0 = any.
fn number(schema: &Node, step: f64) -> Result<String, NoValue> {
    let (mut least, mut most) =
        (schema.number("minimum").unwrap_or(f64::MIN), schema.number("maximum").unwrap_or(f64::MAX));
    let multiple = schema.number("multipleOf").filter(|multiple| *multiple > 0.0).unwrap_or(step);
    let gap = if multiple > 0.0 { multiple } else { 0.5 };
    // Up to 3.0 it is a truth beside the bound, from 3.1 on the bound itself.
    if schema.is_true("exclusiveMinimum") {
        least += gap;
    } else if let Some(bound) = schema.number("exclusiveMinimum") {
        least = least.max(bound + gap);
    }
    if schema.is_true("exclusiveMaximum") {
        most -= gap;
    } else if let Some(bound) = schema.number("exclusiveMaximum") {
        most = most.min(bound - gap);
    }
    let mut value = 1.0_f64.max(least).min(most);
    if multiple > 0.0 {
        value = (value / multiple).ceil() * multiple;
        if value > most {
            value = (most / multiple).floor() * multiple;
        }
    }
    if !(least..=most).contains(&value) || !value.is_finite() {
        return Err(NoValue::Bounds);
    }
    Ok(value.to_string())
}
