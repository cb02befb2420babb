//! A client's session: what is to be done for each message.

use crate::answer::{self, BAD_PARAMS, BAD_REQUEST, NO_METHOD, NO_RESOURCE};
use crate::{Id, Message, Tool, run_name};
use serde_json::{Map, Value, json};

/// Revisions of the protocol that are spoken, the newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];
/// Said to the model that uses the tools.
const INSTRUCTIONS: &str = "Measures web servers. Each result has `uncertainty` and `notes`: do not call a difference \
real where its verdict is cannot_tell. Runs are resources (weir://run/NAME); explain, advise and sql read a run, and \
explain can make one. Only this machine is loaded unless its user allowed other hosts.";

/// What is to be done for a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send this.
    Send(Value),
    /// Run a tool, and answer.
    Call {
        /// The request.
        id: Id,
        /// The tool.
        tool: Tool,
        /// Its arguments.
        arguments: Value,
        /// The token by which the client wants to hear of progress, if it does.
        progress: Option<Value>,
    },
    /// Stop what runs for a request; it has no answer.
    Cancel(Id),
    /// Answer with the list of runs.
    ListRuns(Id),
    /// Answer with the summary of a run.
    ReadRun {
        /// The request.
        id: Id,
        /// The run's path below the folder of runs.
        name: String,
    },
    /// Answer with the tables that questions may name.
    ReadTables(Id),
    /// Nothing.
    Nothing,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    version: &'static str,
    phase: Phase,
    with_outputs: bool,
    /// Whether a load may change something at a server.
    may_change: bool,
}

/// How far a session has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client has not said what it speaks.
    New,
    /// Both have agreed on a revision.
    Agreed,
}

/// The address of the list of tables.
const TABLES_URI: &str = "weir://sql/tables";

impl Session {
    /// A session with a client that has said nothing; `version` is that of the program, and `may_change` says whether a
    /// load may change something at a server.
    #[must_use]
    pub fn new(version: &'static str, may_change: bool) -> Self {
        Self { version, phase: Phase::New, with_outputs: true, may_change }
    }

    /// What a message asks for.
    pub fn take(&mut self, message: Message) -> Action {
        match message {
            Message::Request { id, method, params } => self.asked(id, &method, params),
            Message::Notification { method, mut params } if method == "notifications/cancelled" => {
                let id = params.remove("requestId").and_then(|id| serde_json::from_value(id).ok());
                id.map_or(Action::Nothing, Action::Cancel)
            }
            // Such as notifications/initialized: there is nothing to wait for.
            Message::Notification { .. } | Message::Response => Action::Nothing,
        }
    }

    fn asked(&mut self, id: Id, method: &str, params: Map<String, Value>) -> Action {
        let send = |result: &Value| Action::Send(answer::result(&id, result));
        let refuse = |code, words: &str| Action::Send(answer::error(&id, code, words));
        match (method, self.phase) {
            ("ping", _) => send(&json!({})),
            ("initialize", Phase::New) => send(&self.initialize(&params)),
            ("initialize", Phase::Agreed) => refuse(BAD_REQUEST, "the session has begun already; start another server"),
            (_, Phase::New) => refuse(BAD_REQUEST, "send initialize first"),
            ("tools/list", _) => {
                let tools: Vec<Value> =
                    Tool::ALL.iter().map(|tool| tool.definition(self.with_outputs, self.may_change)).collect();
                send(&json!({ "tools": tools }))
            }
            ("tools/call", _) => call(id, params),
            ("resources/list", _) => Action::ListRuns(id),
            ("resources/templates/list", _) => send(&json!({ "resourceTemplates": [{
                "uriTemplate": "weir://run/{name}",
                "name": "run",
                "description": "A run directory: what was recorded, when, and by which commands",
                "mimeType": "application/json",
            }] })),
            ("resources/read", _) => match params.get("uri").and_then(Value::as_str) {
                Some(TABLES_URI) => Action::ReadTables(id),
                Some(uri) => match run_name(uri) {
                    Some(name) => Action::ReadRun { id, name },
                    None => refuse(NO_RESOURCE, "there is no such resource; resources/list names those that are there"),
                },
                None => refuse(BAD_PARAMS, "resources/read takes a uri, a text"),
            },
            _ => refuse(NO_METHOD, "this server has tools and resources only"),
        }
    }

    /// Agrees on a revision: the client's, or the newest of ours, which the client may refuse.
    fn initialize(&mut self, params: &Map<String, Value>) -> Value {
        let wanted = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let revision = REVISIONS.into_iter().find(|known| *known == wanted).unwrap_or(REVISIONS[0]);
        self.phase = Phase::Agreed;
        // Earlier revisions have no structured results.
        self.with_outputs = revision == REVISIONS[0];
        json!({
            "protocolVersion": revision,
            "capabilities": { "tools": { "listChanged": false }, "resources": { "listChanged": false, "subscribe": false } },
            "serverInfo": { "name": "weir", "title": "weir", "version": self.version },
            "instructions": INSTRUCTIONS,
        })
    }
}

fn call(id: Id, mut params: Map<String, Value>) -> Action {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(tool) = Tool::named(name) else {
        let words = format!("there is no tool {name:.60}; tools/list names them");
        return Action::Send(answer::error(&id, BAD_PARAMS, &words));
    };
    let token = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
    let progress = token.filter(|token| token.is_string() || token.is_number());
    let arguments = params.remove("arguments").unwrap_or_else(|| json!({}));
    Action::Call { id, tool, arguments, progress }
}

/// The list of resources, of runs by name and title.
#[must_use]
pub fn resources(runs: &[(String, String)]) -> Value {
    let tables = json!({
        "uri": TABLES_URI, "name": "tables", "mimeType": "text/plain",
        "description": "The tables of a run and their columns, which the tool sql asks",
    });
    let run = |(name, title): &(String, String)| json!({ "uri": crate::run_uri(name), "name": name, "description": title, "mimeType": "application/json" });
    json!({ "resources": std::iter::once(tables).chain(runs.iter().map(run)).collect::<Vec<_>>() })
}

/// A resource that was read.
#[must_use]
pub fn contents(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "contents": [{ "uri": uri, "mimeType": mime_type, "text": text }] })
}

/// The list of tables that was read.
#[must_use]
pub fn tables(text: &str) -> Value {
    contents(TABLES_URI, "text/plain", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn take(session: &mut Session, line: &str) -> Action {
        let message = read(line.as_bytes()).expect("a line").remove(0).expect("a message");
        session.take(message)
    }

    fn sent(action: &Action) -> &Value {
        match action {
            Action::Send(value) => value,
            other => panic!("nothing is sent: {other:?}"),
        }
    }

    #[test]
    fn a_revision_is_agreed_on() {
        for (wanted, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2099-01-01", "2025-06-18"),
        ] {
            let mut session = Session::new("1", false);
            let early = take(&mut session, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
            assert_eq!(sent(&early)["error"]["code"], BAD_REQUEST);
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"initialize","params":{{"protocolVersion":"{wanted}"}}}}"#
            );
            assert_eq!(sent(&take(&mut session, &line))["result"]["protocolVersion"], agreed);
            let tools = take(&mut session, r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
            let first = &sent(&tools)["result"]["tools"][0];
            assert_eq!(first["outputSchema"].is_object(), agreed == "2025-06-18", "{wanted}");
        }
    }

    #[test]
    fn unknown_methods_tools_and_resources_are_refused_with_codes() {
        let mut session = Session::new("1", false);
        take(&mut session, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
        for (rest, code) in [
            (r#""prompts/list""#, NO_METHOD),
            (r#""tools/call","params":{"name":"rm"}"#, BAD_PARAMS),
            (r#""resources/read","params":{"uri":"file:///etc/passwd"}"#, NO_RESOURCE),
            (r#""resources/read""#, BAD_PARAMS),
            (r#""initialize""#, BAD_REQUEST),
        ] {
            let action = take(&mut session, &format!(r#"{{"jsonrpc":"2.0","id":2,"method":{rest}}}"#));
            assert_eq!(sent(&action)["error"]["code"], code, "{rest}");
        }
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(take(&mut session, cancel), Action::Cancel(Id::Number(7)));
    }
}
