//! Bodies of requests.

use crate::model::{Ask, Body, Field, Text, multipart, urlencoded};
use crate::openapi::document::Document;
use crate::openapi::parameter::{Parameter, Within, example};
use crate::openapi::schema::{NoValue, Sampler};
use crate::tree::{Node, Value};

/// Why an operation has no body that can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// No value of its schema is made.
    #[error("no body is made: {0}")]
    Value(#[from] NoValue),
    /// It is of a type for which none is made.
    #[error("no body of the type {media:?} is made without an example")]
    Media {
        /// The type.
        media: String,
    },
}

/// Puts the body of an operation into a request.
///
/// # Errors
/// [`BodyError`].
pub(super) fn put<'d>(document: &Document<'d>, operation: &'d Node, ask: &mut Ask) -> Result<(), BodyError> {
    let Some(body) = operation.get("requestBody").and_then(|body| document.resolved(body)) else { return Ok(()) };
    let content = body.entries_of("content");
    let Some((media, _, node)) = content.iter().min_by_key(|(media, ..)| rank(media)) else { return Ok(()) };
    let given = example(document, node);
    let value = match (given, node.get("schema")) {
        (Some(given), _) => given.clone(),
        (None, Some(schema)) => Sampler::new(document).value(schema)?,
        (None, None) => return Err(BodyError::Media { media: media.clone() }),
    };
    write(media, &value, given.is_some(), ask)
}

/// The body of Swagger 2.0, which parameters say.
///
/// # Errors
/// [`BodyError`].
pub(super) fn put_parameters<'d>(
    document: &Document<'d>,
    operation: &'d Node,
    parameters: &[Parameter<'d>],
    ask: &mut Ask,
) -> Result<(), BodyError> {
    let own: Vec<&Parameter<'_>> = parameters.iter().filter(|parameter| parameter.within == Within::Body).collect();
    let Some(first) = own.first() else { return Ok(()) };
    let consumes = operation.get("consumes").or_else(|| document.root.get("consumes")).map_or(&[][..], Node::list);
    let media: Vec<&str> = consumes.iter().filter_map(Node::text).collect();
    if first.node.text_of("in") == Some("body") {
        let media = media.into_iter().min_by_key(|media| rank(media)).unwrap_or("application/json");
        let value = Sampler::new(document).value(first.schema())?;
        return write(media, &value, false, ask);
    }
    let mut entries = Vec::new();
    for parameter in &own {
        if let Some(value) = parameter.value(document)? {
            entries.push((parameter.name.to_owned(), parameter.node.line, value));
        }
    }
    let is_multipart = media.contains(&"multipart/form-data") && !media.contains(&"application/x-www-form-urlencoded");
    let media = if is_multipart { "multipart/form-data" } else { "application/x-www-form-urlencoded" };
    write(media, &Node::made(first.node.line, Value::Map(entries)), false, ask)
}

/// Which type is taken, if there are several: the least.
fn rank(media: &str) -> u32 {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "application/json" => 0,
        json if json.ends_with("+json") => 1,
        "application/x-www-form-urlencoded" => 2,
        "multipart/form-data" => 3,
        text if text.starts_with("text/") => 4,
        "*/*" | "application/*" => 5,
        _ => 6,
    }
}

fn write(media: &str, value: &Node, is_example: bool, ask: &mut Ask) -> Result<(), BodyError> {
    let (text, content_type) = match rank(media) {
        0 | 1 => (Text::plain(json_of(value, is_example)), media.to_owned()),
        5 => (Text::plain(json_of(value, is_example)), "application/json".to_owned()),
        2 => (urlencoded(&fields(value)), media.to_owned()),
        3 => multipart(&fields(value)),
        rank => match value.text() {
            Some(text) if is_example || rank == 4 => (Text::plain(text), media.to_owned()),
            _ => return Err(BodyError::Media { media: media.to_owned() }),
        },
    };
    ask.body = Some(Body::Text(text));
    ask.add_header("Content-Type", Text::plain(content_type));
    Ok(())
}

/// The value as JSON; an example may be JSON as a text.
fn json_of(value: &Node, is_example: bool) -> String {
    match value.text() {
        Some(text) if is_example && crate::tree::json_of(text).is_some() => text.to_owned(),
        _ => value.json(),
    }
}

fn fields(value: &Node) -> Vec<Field> {
    let text = |node: &Node| node.scalar().unwrap_or_else(|| node.json());
    let field = |name: &str, node: &Node| Field {
        name: name.to_owned(),
        value: Text::plain(text(node)),
        file: None,
        content_type: None,
    };
    let mut fields = Vec::new();
    for (name, _, node) in value.entries() {
        match &node.value {
            Value::List(list) => fields.extend(list.iter().map(|one| field(name, one))),
            _ => fields.push(field(name, node)),
        }
    }
    fields
}
