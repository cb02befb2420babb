//! What a server sends: answers, errors and progress.

use crate::{Id, MessageError};
use serde_json::{Value, json};

/// A resource is not there (MCP, Resources, Error Handling).
pub const NO_RESOURCE: i64 = -32002;
/// JSON-RPC 2.0, section 5.1.
pub const NO_METHOD: i64 = -32601;
/// JSON-RPC 2.0, section 5.1.
pub const BAD_PARAMS: i64 = -32602;
/// JSON-RPC 2.0, section 5.1.
pub const BAD_REQUEST: i64 = -32600;

/// A request is answered.
#[must_use]
pub fn result(id: &Id, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A request is refused.
#[must_use]
pub fn error(id: &Id, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// A line is no message.
#[must_use]
pub fn no_message(error: &MessageError) -> Value {
    json!({ "jsonrpc": "2.0", "id": error.id(), "error": { "code": error.code(), "message": error.to_string() } })
}

/// How far a call has got: `done` of `total`, both in steps or seconds.
#[must_use]
pub fn progress(token: &Value, done: f64, total: f64, words: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": { "progressToken": token, "progress": done, "total": total, "message": words },
    })
}
