//! Messages: JSON-RPC 2.0, one to a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// How deep values may lie in one another.
pub const DEPTH_MAX: usize = 32;
/// The longest name of a request, in bytes.
const ID_BYTES_MAX: usize = 256;
/// The most messages of a batch.
const BATCH_MAX: usize = 32;

/// What a request is called by its client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// It wants an answer.
    Request {
        /// The name by which the answer says what it answers.
        id: Id,
        /// What is wanted.
        method: String,
        /// Its parameters; empty where it has none.
        params: Map<String, Value>,
    },
    /// It wants none.
    Notification {
        /// What has happened.
        method: String,
        /// Its parameters; empty where it has none.
        params: Map<String, Value>,
    },
    /// An answer; this server asks nothing, so it belongs to no question.
    Response,
}

/// Why a line is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is too long.
    #[error("a line may have {} bytes; send less at a time", LINE_BYTES_MAX)]
    Long,
    /// It is no JSON.
    #[error("this is no JSON ({0}); send one message a line, as UTF-8")]
    Json(String),
    /// Its values lie too deep.
    #[error("values may lie {} deep in one another; send a flatter message", DEPTH_MAX)]
    Deep,
    /// It is no message of JSON-RPC.
    #[error("this is no message of JSON-RPC 2.0: {what}")]
    Form {
        /// Which request it is, if that can be told.
        id: Option<Id>,
        /// What is wrong, and the remedy.
        what: &'static str,
    },
}

impl MessageError {
    /// The code of JSON-RPC 2.0 (section 5.1).
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::Json(_) => -32700,
            Self::Long | Self::Deep | Self::Form { .. } => -32600,
        }
    }

    /// The request that the answer names, if it is known.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Form { id, .. } => id.as_ref(),
            _ => None,
        }
    }
}

/// Reads a line: one message, or those of a batch, which revision 2025-03-26 has.
///
/// # Errors
/// The line is too long, no JSON, too deep, or a batch that is empty or too long. A message of a batch is refused by
/// itself.
pub fn read(line: &[u8]) -> Result<Vec<Result<Message, MessageError>>, MessageError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(MessageError::Long);
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| MessageError::Json(error.to_string()))?;
    if depth(&value) > DEPTH_MAX {
        return Err(MessageError::Deep);
    }
    match value {
        Value::Array(several) if several.is_empty() || several.len() > BATCH_MAX => {
            Err(MessageError::Form { id: None, what: "a batch has 1 to 32 messages; send them one by one" })
        }
        Value::Array(several) => Ok(several.into_iter().map(message).collect()),
        one => Ok(vec![message(one)]),
    }
}

/// How deep values lie; the parser itself stops at 128.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn message(value: Value) -> Result<Message, MessageError> {
    let refused = |id: Option<Id>, what| Err(MessageError::Form { id, what });
    let Value::Object(mut fields) = value else { return refused(None, "it is no object") };
    let id = match fields.remove("id") {
        None => None,
        Some(id) => match serde_json::from_value::<Id>(id) {
            Ok(Id::Text(text)) if text.len() > ID_BYTES_MAX => {
                return refused(None, "an id may have 256 bytes; give a shorter one");
            }
            Ok(id) => Some(id),
            Err(_) => return refused(None, "an id is a whole number or a text"),
        },
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refused(id, "it lacks \"jsonrpc\": \"2.0\"");
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        None if id.is_some() && (fields.contains_key("result") || fields.contains_key("error")) => {
            return Ok(Message::Response);
        }
        _ => return refused(id, "it lacks a method, which is a text"),
    };
    let params = match fields.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return refused(id, "params are an object"),
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Result<Message, MessageError> {
        read(line.as_bytes())?.remove(0)
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Ok(Message::Request { id: Id::Number(1), .. })
        ));
        assert!(matches!(one(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#), Ok(Message::Notification { .. })));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#), Ok(Message::Response));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_code() {
        for (line, code) in [
            ("{", -32700),
            ("[]", -32600),
            ("1", -32600),
            (r#"{"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32600),
        ] {
            assert_eq!(one(line).expect_err(line).code(), code, "{line}");
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}1{}}}}}"#,
            "[".repeat(40),
            "]".repeat(40)
        );
        assert_eq!(one(&deep), Err(MessageError::Deep));
        assert_eq!(read(&vec![b' '; LINE_BYTES_MAX + 1]), Err(MessageError::Long));
        let very_deep = "[".repeat(100_000);
        assert!(matches!(read(very_deep.as_bytes()), Err(MessageError::Json(_))));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&line);
        }
    }
}
