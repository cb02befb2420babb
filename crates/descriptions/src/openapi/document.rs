//! A description, its version, and what references lead to.

use crate::report::Report;
use crate::tree::{Node, Value};
use crate::wanted::Wanted;

/// The references that are followed one after the other.
const REFERENCES_MAX: usize = 32;

/// The version of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Swagger 2.0.
    Two,
    /// OpenAPI 3.
    Three,
}

/// A description.
pub(super) struct Document<'d> {
    pub(super) root: &'d Node,
    pub(super) version: Version,
    pub(super) wanted: &'d Wanted,
    pub(super) report: &'d Report,
}

impl<'d> Document<'d> {
    /// Looks at the version; none where it is another one, which is told.
    pub(super) fn new(root: &'d Node, wanted: &'d Wanted, report: &'d Report) -> Option<Self> {
        let text = |key: &str| root.get(key).and_then(Node::scalar);
        let version = match (text("openapi"), text("swagger")) {
            (Some(version), _) if version == "3" || version.starts_with("3.") => Version::Three,
            (None, Some(version)) if version.starts_with('2') => Version::Two,
            (Some(version), _) | (None, Some(version)) => {
                let at = root.get("openapi").or(root.get("swagger")).map_or((1, 1), Node::at);
                report.wrong(at, format!("version {version:?} is not known"), "OpenAPI 3.x and Swagger 2.0 are");
                return None;
            }
            (None, None) => {
                report.wrong(root.at(), "this is no description of OpenAPI", "write openapi: 3.1.0 at its begin");
                return None;
            }
        };
        Some(Self { root, version, wanted, report })
    }

    /// What a value stands for: itself, or what its `$ref` leads to. None where that is not there, which is told.
    pub(super) fn resolved(&self, node: &'d Node) -> Option<&'d Node> {
        let mut node = node;
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = node.get("$ref") else { return Some(node) };
            let Some(pointer) = reference.text() else { return Some(node) };
            let Some(place) = pointer.strip_prefix('#') else {
                let remedy = "put all into one file first, such as by `redocly bundle`";
                self.report.lost(reference.line, format!("{pointer} leads to another file"), remedy);
                return None;
            };
            match self.at(place) {
                Some(next) => node = next,
                None => {
                    self.report.wrong(reference.at(), format!("{pointer} leads nowhere"), "write what it is to be");
                    return None;
                }
            }
        }
        self.report.wrong(
            node.get("$ref").map_or(node.at(), Node::at),
            "references lead from one to the next without end",
            "let one hold a value",
        );
        None
    }

    /// The value at a JSON pointer (RFC 6901).
    fn at(&self, pointer: &str) -> Option<&'d Node> {
        let mut node = self.root;
        for step in pointer.split('/').skip(1) {
            let step = percent_decoded(step).replace("~1", "/").replace("~0", "~");
            node = match &node.value {
                Value::List(list) => list.get(step.parse::<usize>().ok()?)?,
                _ => node.get(&step)?,
            };
        }
        Some(node)
    }
}

/// A text whose percent-encoded letters are decoded, where that gives UTF-8.
fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let hex = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}
