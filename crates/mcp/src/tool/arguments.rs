//! What tools take.

use super::name::Tool;
use crate::PlaceError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most objectives of a call.
pub(super) const OBJECTIVES_MAX: usize = 16;
/// The most rows of an answer.
pub(super) const ROWS_MAX: usize = 1000;
/// The most connections of a load.
pub(super) const CONNECTIONS_MAX: u32 = 10_000;

/// The most fields of a request, and the most bytes of one and of a body.
pub(super) const FIELDS_MAX: usize = 32;
pub(super) const FIELD_BYTES_MAX: usize = 8 << 10;
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;

/// Why a tool does not run.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments are not as the schema says.
    #[error("the arguments do not fit: {0}; tools/list has their schema")]
    Arguments(#[from] serde_json::Error),
    /// They contradict each other, or leave something out.
    #[error("{0}")]
    Choice(&'static str),
    /// A number is out of its range.
    #[error("{name} is from {least} to {most}; {given} is not")]
    Range {
        /// The argument.
        name: &'static str,
        /// The least.
        least: f64,
        /// The most.
        most: f64,
        /// What was given.
        given: f64,
    },
    /// Something is out of reach.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// How a server is loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LoadArguments {
    pub(super) url: String,
    pub(super) duration_s: Option<f64>,
    pub(super) connections: Option<u32>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) requests: Option<u64>,
    pub(super) method: Option<String>,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) body: Option<String>,
    pub(super) objectives: Vec<String>,
}

/// What is explained, or advised on.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExplainArguments {
    pub(super) run: Option<String>,
    pub(super) url: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) pid: Option<u32>,
    pub(super) duration_s: Option<f64>,
    pub(super) connections: Option<u32>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) objectives: Vec<String>,
    pub(super) server_side: bool,
}

/// Which two are compared.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CompareArguments {
    pub(super) url_a: Option<String>,
    pub(super) url_b: Option<String>,
    pub(super) run_a: Option<String>,
    pub(super) run_b: Option<String>,
    pub(super) blocks: Option<u32>,
    pub(super) block_s: Option<f64>,
    pub(super) connections: Option<u32>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) smallest_effect: Option<f64>,
}

/// What is asked of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SqlArguments {
    pub(super) run: String,
    pub(super) sql: Option<String>,
    pub(super) saved: Option<String>,
    pub(super) rows_max: Option<u32>,
}

/// The schema of what a tool takes.
pub(super) fn schema(tool: Tool) -> Value {
    let text = |words: &str| json!({ "type": "string", "description": words });
    let run =
        |words: &str| text(&format!("{words}: its path below the folder of this server, as resources/list names it"));
    let url =
        |words: &str| text(&format!("{words}, http or https; its host is this machine's loopback or an allowed one"));
    let number = |least: f64, most: f64, words: &str| json!({ "type": "number", "minimum": least, "maximum": most, "description": words });
    let whole = |least: u64, most: u64, words: &str| json!({ "type": "integer", "minimum": least, "maximum": most, "description": words });
    let duration = || json!({ "type": "number", "exclusiveMinimum": 0, "description": "How long, seconds; at most as long as the server was started for (60 by default); 5 without it" });
    let connections = || whole(1, u64::from(CONNECTIONS_MAX), "Connections that the load holds open; 10 without it");
    let rate = || {
        number(
            0.1,
            1e7,
            "Requests a second by a schedule that waits for no answer; without it each connection asks as fast as it is answered",
        )
    };
    let objectives = || {
        json!({
            "type": "array", "maxItems": OBJECTIVES_MAX, "items": { "type": "string" },
            "description": "What is to be judged, as in p99<200ms or errors<1%",
        })
    };
    let (fields, required) = match tool {
        Tool::Load => (
            json!({
                "url": url("What to load"), "duration_s": duration(), "connections": connections(), "rate_per_s": rate(),
                "requests": whole(1, 1_000_000_000, "Stop after so many requests, if that comes before the time"),
                "method": text("GET without it; others than GET, HEAD and OPTIONS only if the server was started for it"),
                "fields": json!({
                    "type": "object", "maxProperties": FIELDS_MAX, "additionalProperties": { "type": "string" },
                    "description": "Fields of each request by their names, such as Content-Type",
                }),
                "body": text("What each request carries, 64 KiB at most; it may not begin with @"),
                "objectives": objectives(),
            }),
            vec!["url"],
        ),
        Tool::Explain | Tool::Advise => (
            json!({
                "run": run("A recorded run; then nothing is recorded"), "url": url("Load this meanwhile"),
                "port": whole(1, 65_535, "The port of the server that is recorded; without it that of the URL"),
                "pid": whole(1, 4_194_304, "The process of the server that is recorded, in place of a port"),
                "duration_s": duration(), "connections": connections(), "rate_per_s": rate(), "objectives": objectives(),
                "server_side": json!({ "type": "boolean", "description": "Explain from the server's side although a client has recorded its requests" }),
            }),
            vec![],
        ),
        Tool::Compare => (
            json!({
                "url_a": url("The baseline"), "url_b": url("What is judged against it"),
                "run_a": run("The baseline, a recorded run"), "run_b": run("The run that is judged against it"),
                "blocks": whole(1, 100, "Blocks, each with A, B and A again; 8 without it, and fewer than 5 give no verdict"),
                "block_s": number(0.1, 60.0, "The length of a slice, seconds; 1 without it. Three in each block"),
                "connections": connections(), "rate_per_s": rate(),
                "smallest_effect": number(0.0, 1.0, "The smallest difference that matters, a fraction; 0.05 without it. State it before you look"),
            }),
            vec![],
        ),
        Tool::Sql => (
            json!({
                "run": run("The run that is asked"), "sql": text("One SELECT, as SQLite has it"),
                "saved": text("In place of sql: the name of a saved question, such as slowest-requests or where-time-goes"),
                "rows_max": whole(1, ROWS_MAX as u64, "The most rows of the answer; 100 without it"),
            }),
            vec!["run"],
        ),
    };
    json!({ "type": "object", "properties": fields, "required": required, "additionalProperties": false })
}

/// Refuses a number that is out of its range.
pub(super) fn within(name: &'static str, given: f64, least: f64, most: f64) -> Result<f64, ToolError> {
    // Also what is no number.
    if (least..=most).contains(&given) { Ok(given) } else { Err(ToolError::Range { name, least, most, given }) }
}
