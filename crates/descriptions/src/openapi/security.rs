//! Security schemes: headers, queries and cookies whose values come from the environment.

use crate::model::{Ask, Plan, Text, name_of};
use crate::openapi::document::{Document, Version};
use crate::tree::Node;
use crate::wanted::Wanted;

/// The values that operations need, in the order in which they are needed.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    names: Vec<String>,
}

/// What a scheme puts into requests.
enum Puts<'d> {
    Basic,
    Bearer,
    Header(&'d str),
    Query(&'d str),
    Cookie(&'d str),
}

/// Why a scenario cannot prove who asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SecurityError {
    /// The scheme is of a kind that a scenario cannot do.
    #[error("the security scheme {name} is of a kind that a scenario cannot do ({kind})")]
    Kind {
        /// The scheme's name.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// The description does not define the scheme.
    #[error("there is no security scheme {name}")]
    Undefined {
        /// The scheme's name.
        name: String,
    },
}

impl Secrets {
    /// Puts what the first alternative that a scenario can do asks for into a request.
    ///
    /// # Errors
    /// [`SecurityError`] of the last alternative, if a scenario can do none.
    pub(super) fn put<'d>(
        &mut self,
        document: &Document<'d>,
        operation: &'d Node,
        ask: &mut Ask,
        path: &mut String,
    ) -> Result<(), SecurityError> {
        let alternatives = operation.get("security").or_else(|| document.root.get("security"));
        let Some(alternatives) = alternatives.map(Node::list).filter(|list| !list.is_empty()) else { return Ok(()) };
        let mut wrong = None;
        for alternative in alternatives {
            let mut puts = Vec::new();
            let mut own_wrong = None;
            for (name, line, _) in alternative.entries() {
                match scheme(document, name) {
                    Some(Ok(put)) => puts.push((name, put)),
                    Some(Err(error)) => own_wrong = Some(error),
                    None => {
                        let error = SecurityError::Undefined { name: name.clone() };
                        document.report.wrong((*line, 1), error.to_string(), "define it below securitySchemes");
                        own_wrong = Some(error);
                    }
                }
            }
            if own_wrong.is_none() {
                puts.iter().for_each(|(name, put)| self.put_one(name, put, ask, path));
                return Ok(());
            }
            wrong = own_wrong;
        }
        wrong.map_or(Ok(()), Err)
    }

    fn put_one(&mut self, scheme: &str, put: &Puts<'_>, ask: &mut Ask, path: &mut String) {
        let name = name_of(scheme);
        if !self.names.contains(&name) {
            self.names.push(name.clone());
        }
        match put {
            Puts::Basic => ask.user = Some(Text::value(&name)),
            Puts::Bearer => {
                let mut value = Text::plain("Bearer ");
                value.push_value(&name);
                ask.add_header("Authorization", value);
            }
            Puts::Header(header) => ask.add_header(header, Text::value(&name)),
            Puts::Cookie(cookie) => {
                let mut value = Text::plain(format!("{cookie}="));
                value.push_value(&name);
                ask.add_header("Cookie", value);
            }
            Puts::Query(key) => {
                path.push(if path.contains('?') { '&' } else { '?' });
                path.push_str(&format!("{}=", crate::model::encoded(key)));
                // The value is put behind it by the operation, as it is no plain text.
                path.push_str(&mark(&name));
            }
        }
    }

    /// Where the values come from: what the user sets, or variables of the environment.
    pub(super) fn into_plan(self, plan: &mut Plan, wanted: &Wanted) {
        for name in self.names {
            match wanted.set.get(&name) {
                Some(value) => plan.vars.push((name, value.clone())),
                None => {
                    let fits =
                        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
                    let variable: String = name.chars().map(fits).collect();
                    plan.env.push((name, variable));
                }
            }
        }
    }
}

/// A mark for a value within a plain text: letters that no description has.
fn mark(name: &str) -> String {
    format!("\u{1}{name}\u{2}")
}

/// The text in which marks are places for values, percent-encoded.
pub(super) fn with_values(text: &str) -> Text {
    let mut out = Text::default();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\u{1}') {
        out.push(before);
        let (name, after) = behind.split_once('\u{2}').unwrap_or((behind, ""));
        out.append(&Text::value(name).changed(str::to_owned, true));
        rest = after;
    }
    out.push(rest);
    out
}

/// What a scheme puts, or why a scenario cannot; none where there is no such scheme.
fn scheme<'d>(document: &Document<'d>, name: &'d str) -> Option<Result<Puts<'d>, SecurityError>> {
    let schemes = match document.version {
        Version::Two => document.root.get("securityDefinitions"),
        Version::Three => document.root.get("components").and_then(|node| node.get("securitySchemes")),
    };
    let node = document.resolved(schemes?.get(name)?)?;
    let kind = node.text_of("type").unwrap_or_default();
    let own = node.text_of("name").unwrap_or(name);
    Some(match (kind, node.text_of("in"), node.text_of("scheme").map(str::to_ascii_lowercase).as_deref()) {
        ("apiKey", Some("header"), _) => Ok(Puts::Header(own)),
        ("apiKey", Some("query"), _) => Ok(Puts::Query(own)),
        ("apiKey", Some("cookie"), _) => Ok(Puts::Cookie(own)),
        ("http", _, Some("basic")) | ("basic", ..) => Ok(Puts::Basic),
        ("http", _, Some("bearer")) | ("oauth2" | "openIdConnect", ..) => Ok(Puts::Bearer),
        _ => Err(SecurityError::Kind { name: name.to_owned(), kind: kind.to_owned() }),
    })
}
