//! Documents whose every value knows its line: JSON and YAML.

mod bounds;
mod json;
mod node;
mod yaml;

pub(crate) use node::{Node, Value};

use crate::report::Report;

/// Reads JSON, where the text begins as one, else YAML; what is wrong is told.
pub(crate) fn read(text: &str, report: &Report) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = text.trim_start().starts_with(['{', '[']);
    let (read, name) = if is_json { (json::read(text), "JSON") } else { (yaml::read(text), "YAML") };
    read.map_err(|error| report.wrong((error.line, error.column), error.what, format!("mend the {name} here"))).ok()
}

/// Reads JSON; what is wrong is told.
pub(crate) fn read_json(text: &str, report: &Report) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    json::read(text).map_err(|error| report.wrong((error.line, error.column), error.what, "mend the JSON here")).ok()
}

/// The value of a text that is JSON; none if it is not.
pub(crate) fn json_of(text: &str) -> Option<Node> {
    json::read(text).ok()
}
