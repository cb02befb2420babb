//! Authentication of a request, a folder or a collection.

use crate::model::{Ask, Text};
use crate::postman::variables::{Unset, Variables};
use crate::tree::Node;

/// What is said about authentication.
#[derive(Debug, Clone, Copy)]
pub(super) enum Auth<'n> {
    /// Nothing: what stands around it holds.
    Unsaid,
    None,
    Some(&'n Node),
}

/// Why a request cannot be authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthError {
    #[error(transparent)]
    Unset(#[from] Unset),
    /// Of a kind that needs more than the request.
    #[error("its authentication ({kind}) is none that a scenario can do")]
    Kind { kind: String },
}

impl<'n> Auth<'n> {
    pub(super) fn of(node: &'n Node) -> Self {
        match node.get("auth") {
            Some(auth) if auth.text_of("type") == Some("noauth") => Self::None,
            Some(auth) if auth.text_of("type").is_some() => Self::Some(auth),
            _ => Self::Unsaid,
        }
    }

    pub(super) fn is_said(&self) -> bool {
        !matches!(self, Self::Unsaid)
    }

    /// Puts it into a request; gives what belongs into the query.
    pub(super) fn put(&self, ask: &mut Ask, variables: &Variables) -> Result<Option<(Text, Text)>, AuthError> {
        let Self::Some(node) = self else { return Ok(None) };
        let kind = node.text_of("type").unwrap_or_default();
        let value = |key: &str| parameter(node, kind, key);
        let bearer = |token: String, ask: &mut Ask| -> Result<(), AuthError> {
            let mut text = Text::plain("Bearer ");
            text.append(&variables.text(&token)?);
            ask.add_header("Authorization", text);
            Ok(())
        };
        match kind {
            "basic" => {
                let mut user = variables.text(&value("username").unwrap_or_default())?;
                user.push(":");
                user.append(&variables.text(&value("password").unwrap_or_default())?);
                if !ask.has_header("authorization") {
                    ask.user = Some(user);
                }
            }
            "bearer" => bearer(value("token").unwrap_or_default(), ask)?,
            "oauth2" => match value("accessToken") {
                Some(token) => bearer(token, ask)?,
                None => return Err(AuthError::Kind { kind: "oauth2 without a token".to_owned() }),
            },
            "apikey" => {
                let name = value("key").unwrap_or_default();
                let text = variables.text(&value("value").unwrap_or_default())?;
                if value("in").as_deref() == Some("query") {
                    return Ok(Some((variables.text(&name)?, text)));
                }
                ask.add_header(&name, text);
            }
            other => return Err(AuthError::Kind { kind: other.to_owned() }),
        }
        Ok(None)
    }
}

/// A parameter: of 2.1 in a list, of 2.0 in a map.
fn parameter(node: &Node, kind: &str, key: &str) -> Option<String> {
    let all = node.get(kind)?;
    let listed = all.list().iter().find(|one| one.text_of("key") == Some(key));
    listed.and_then(|one| one.get("value")).or_else(|| all.get(key)).and_then(Node::scalar)
}
