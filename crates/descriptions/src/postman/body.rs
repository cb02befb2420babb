//! Bodies of requests.

use crate::files::Files;
use crate::model::{Ask, Body, Field, Text, multipart, urlencoded};
use crate::postman::variables::{Unset, Variables};
use crate::tree::Node;

/// The most bytes of a file that is a body.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a body cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error(transparent)]
    Unset(#[from] Unset),
    /// A file that is not there, or is no text.
    #[error("its body is the file {name:?}, which is no text of at most 4 MiB that can be read")]
    File { name: String },
    /// A kind that Postman had later.
    #[error("its body is of the kind {kind:?}, which is not known")]
    Kind { kind: String },
}

/// Puts the body into a request, with its type among the headers.
pub(super) fn put(body: &Node, ask: &mut Ask, variables: &Variables, files: &dyn Files) -> Result<(), BodyError> {
    if body.is_true("disabled") {
        return Ok(());
    }
    let typed = |ask: &mut Ask, content_type: &str| {
        if !ask.has_header("content-type") {
            ask.add_header("Content-Type", Text::plain(content_type));
        }
    };
    match body.text_of("mode") {
        None => {}
        Some("raw") => {
            let raw = body.text_of("raw").unwrap_or_default();
            if !raw.is_empty() {
                ask.body = Some(Body::Text(variables.text(raw)?));
                let options = body.get("options").and_then(|options| options.get("raw"));
                let language = options.and_then(|raw| raw.text_of("language"));
                let content_type = match language {
                    Some("json") => "application/json",
                    Some("xml") => "application/xml",
                    Some("html") => "text/html",
                    Some("javascript") => "application/javascript",
                    _ => "text/plain",
                };
                typed(ask, content_type);
            }
        }
        Some("urlencoded") => {
            ask.body = Some(Body::Text(urlencoded(&fields(body.list_of("urlencoded"), variables, files)?)));
            typed(ask, "application/x-www-form-urlencoded");
        }
        Some("formdata") => {
            let (text, content_type) = multipart(&fields(body.list_of("formdata"), variables, files)?);
            ask.body = Some(Body::Text(text));
            ask.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            typed(ask, &content_type);
        }
        Some("graphql") => graphql(body, ask, variables)?,
        Some("file") => {
            let name = body.get("file").and_then(|file| file.text_of("src")).unwrap_or_default();
            ask.body = Some(Body::Text(file(name, files)?));
            typed(ask, "application/octet-stream");
        }
        Some(other) => return Err(BodyError::Kind { kind: other.to_owned() }),
    }
    Ok(())
}

fn file(name: &str, files: &dyn Files) -> Result<Text, BodyError> {
    let text = files.read(name, FILE_BYTES_MAX);
    text.map(Text::plain).ok_or_else(|| BodyError::File { name: name.to_owned() })
}

fn fields(list: &[Node], variables: &Variables, files: &dyn Files) -> Result<Vec<Field>, BodyError> {
    let mut fields = Vec::new();
    for node in list.iter().filter(|node| !node.is_true("disabled")) {
        let name = node.text_of("key").unwrap_or_default().to_owned();
        let content_type = node.text_of("contentType").map(str::to_owned);
        if node.text_of("type") == Some("file") {
            let sources = node.get("src").map_or(&[][..], Node::list).iter().filter_map(Node::text);
            for source in sources.chain(node.text_of("src")) {
                let shown = source.rsplit('/').next().unwrap_or_default().to_owned();
                let (value, name) = (file(source, files)?, name.clone());
                fields.push(Field { name, value, file: Some(shown), content_type: content_type.clone() });
            }
        } else {
            let value = variables.text(&node.get("value").and_then(Node::scalar).unwrap_or_default())?;
            fields.push(Field { name, value, file: None, content_type });
        }
    }
    Ok(fields)
}

/// A query of GraphQL; its variables stay JSON where they are, and have no null, which TOML has not.
fn graphql(body: &Node, ask: &mut Ask, variables: &Variables) -> Result<(), BodyError> {
    let Some(node) = body.get("graphql") else { return Ok(()) };
    let query = variables.text(node.text_of("query").unwrap_or_default())?;
    let operation = node.text_of("operationName").filter(|name| !name.is_empty()).map(str::to_owned);
    let text = node.text_of("variables").unwrap_or_default().trim().to_owned();
    let parsed = match text.as_str() {
        "" => Some(None),
        text => {
            let value = serde_json::from_str::<serde_json::Value>(text).ok();
            match value.filter(|value| value.is_object() && fits_toml(value)) {
                Some(value) => Some(Some(templates(value, variables)?)),
                None => None,
            }
        }
    };
    match parsed {
        Some(variables) => ask.body = Some(Body::Graphql { query, variables, operation }),
        None => {
            let mut whole = Text::plain("{\"query\":");
            let quoted = |text: &str| {
                let quoted = serde_json::Value::from(text).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            };
            whole.push("\"");
            whole.append(&query.changed(quoted, false));
            whole.push("\",\"variables\":");
            whole.append(&variables.text(&text)?);
            if let Some(operation) = operation {
                whole.push(&format!(",\"operationName\":{}", serde_json::Value::from(operation)));
            }
            whole.push("}");
            ask.body = Some(Body::Text(whole));
            if !ask.has_header("content-type") {
                ask.add_header("Content-Type", Text::plain("application/json"));
            }
        }
    }
    Ok(())
}

/// Whether TOML has such a value.
fn fits_toml(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => false,
        serde_json::Value::Number(number) => number.is_i64() || number.is_f64(),
        serde_json::Value::Array(list) => list.iter().all(fits_toml),
        serde_json::Value::Object(entries) => entries.values().all(fits_toml),
        serde_json::Value::Bool(_) | serde_json::Value::String(_) => true,
    }
}

/// The value with its texts as a scenario writes them.
fn templates(value: serde_json::Value, variables: &Variables) -> Result<serde_json::Value, Unset> {
    Ok(match value {
        serde_json::Value::String(text) => variables.text(&text)?.template().into(),
        serde_json::Value::Array(list) => {
            list.into_iter().map(|one| templates(one, variables)).collect::<Result<Vec<_>, _>>()?.into()
        }
        serde_json::Value::Object(entries) => {
            let entries = entries.into_iter().map(|(key, one)| Ok((key, templates(one, variables)?)));
            serde_json::Value::Object(entries.collect::<Result<_, Unset>>()?)
        }
        other => other,
    })
}
