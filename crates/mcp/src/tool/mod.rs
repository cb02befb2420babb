//! The tools: what they are called, what they take, what they run and what they tell.

mod arguments;
mod name;
mod plan;
mod told;

pub use arguments::ToolError;
pub use name::Tool;
pub use plan::{Done, Plan, Step};
use serde_json::{Value, json};
pub use told::Told;

impl Tool {
    /// The schema of what it takes, JSON Schema 2020-12.
    #[must_use]
    pub fn input_schema(self) -> Value {
        arguments::schema(self)
    }

    /// The text of the schema of what it tells.
    #[must_use]
    pub fn output_schema(self) -> &'static str {
        match self {
            Self::Explain => include_str!("../../../../docs/reference/schemas/mcp-explain-1.json"),
            Self::Compare => include_str!("../../../../docs/reference/schemas/mcp-compare-1.json"),
            Self::Load => include_str!("../../../../docs/reference/schemas/mcp-load-1.json"),
            Self::Advise => include_str!("../../../../docs/reference/schemas/mcp-advise-1.json"),
            Self::Sql => include_str!("../../../../docs/reference/schemas/mcp-sql-1.json"),
        }
    }

    fn describes(self) -> (&'static str, &'static str) {
        match self {
            Self::Explain => (
                "Explain a server's response times",
                "Where the time of each request goes (parts of the response, causes, slowest requests), of a recorded \
                 run, or of a new recording of a server on this machine: with url it is loaded meanwhile, with port or \
                 pid alone its own clients are watched. A new recording needs root or CAP_BPF; it makes a run directory.",
            ),
            Self::Compare => (
                "Compare two servers or runs",
                "Whether B is better or worse than A, with intervals of 95 % and the noise: two URLs are loaded in \
                 alternating blocks, A twice in each; or two recorded runs.",
            ),
            Self::Load => (
                "Load a server",
                "Sends requests to a URL and measures latencies from the intended time of each. Gives load to the \
                 server: by default only to this machine, and only by methods that change nothing.",
            ),
            Self::Advise => (
                "Advise on settings",
                "What to change in the configuration of the servers of a run, with the range of the expected effect. \
                 Changes nothing.",
            ),
            Self::Sql => (
                "Ask a run in SQL",
                "Answers one SELECT (SQLite) or a saved question on a recorded run; the resource weir://sql/tables lists \
                 the tables and columns. Runs are not changed.",
            ),
        }
    }

    /// How tools/list describes it; revisions before 2025-06-18 have no schema of results.
    #[must_use]
    pub(crate) fn definition(self, with_output: bool, may_change: bool) -> Value {
        let (title, description) = self.describes();
        let reads = matches!(self, Self::Sql);
        let mut definition = json!({
            "name": self.name(),
            "description": description,
            "inputSchema": self.input_schema(),
            "annotations": {
                "title": title,
                // A recording makes a directory, and a load asks a server.
                "readOnlyHint": reads,
                "destructiveHint": may_change && matches!(self, Self::Load),
                "idempotentHint": reads,
                "openWorldHint": !reads,
            },
        });
        if with_output {
            definition["title"] = title.into();
            definition["outputSchema"] = serde_json::from_str(self.output_schema()).unwrap_or_default();
        }
        definition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_has_schemas_of_what_it_takes_and_tells() {
        for tool in Tool::ALL {
            let definition = tool.definition(true, false);
            assert_eq!(definition["outputSchema"]["type"], "object", "{tool:?}");
            assert_eq!(definition["inputSchema"]["type"], "object", "{tool:?}");
            let fields = definition["inputSchema"]["properties"].as_object().expect("fields");
            assert!(fields.values().all(|field| field["description"].is_string()), "{tool:?}");
            assert_eq!(Tool::named(tool.name()), Some(tool));
        }
    }
}
