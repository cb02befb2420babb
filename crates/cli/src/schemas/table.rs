//! The schemas, and which output each describes.

/// What an output comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// A command with its option.
    Command(&'static str),
    /// A tool or resource of `weir mcp`.
    Tool(&'static str),
}

/// A published schema.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Its name, as in `load`.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: u32,
    /// What it describes.
    pub(crate) source: Source,
    /// The schema, JSON Schema 2020-12.
    pub(crate) text: &'static str,
}

impl Schema {
    /// The name of its file without `.json`, as in `load-1`.
    pub(super) fn file(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// How an output says it, as in `weir-load/1`.
    #[cfg(test)]
    pub(super) fn says(&self) -> String {
        format!("weir-{}/{}", self.name, self.version)
    }
}

/// A row of the table; the schema's file has its name and version.
macro_rules! schema {
    ($name:literal, $version:literal, $source:expr) => {
        Schema {
            name: $name,
            version: $version,
            source: $source,
            text: include_str!(concat!("../../../../docs/reference/schemas/", $name, "-", $version, ".json")),
        }
    };
}

use Source::{Command, Tool};

/// All of them; one that describes the output of several commands has a row for each.
pub(crate) const SCHEMAS: &[Schema] = &[
    schema!("activity", 1, Command("activity --json")),
    schema!("advise", 1, Command("advise --json")),
    schema!("arm-list", 1, Command("arm list --json")),
    schema!("arm-overhead", 1, Command("arm overhead --json")),
    schema!("arm-show", 1, Command("arm show --json")),
    schema!("arm-switch", 1, Command("arm on --json")),
    schema!("arm-switch", 1, Command("arm off --json")),
    schema!("arm-switch", 1, Command("arm sample --json")),
    schema!("arm-top", 1, Command("arm top --json")),
    schema!("arm-transaction", 1, Command("arm tail --json")),
    schema!("check", 1, Command("check --json")),
    schema!("cluster-activated", 1, Command("cluster activate --json")),
    schema!("cluster-atoms", 1, Command("cluster atoms --json")),
    schema!("cluster-event", 1, Command("cluster events --json")),
    schema!("cluster-nodes", 1, Command("cluster nodes --json")),
    schema!("cluster-publish", 1, Command("cluster publish --json")),
    schema!("cluster-rules", 1, Command("cluster rules --json")),
    schema!("cluster-sessions", 1, Command("cluster sessions --json")),
    schema!("cluster-status", 1, Command("cluster status --json")),
    schema!("cluster-top", 1, Command("cluster top --json")),
    schema!("cluster-versions", 1, Command("cluster versions --json")),
    schema!("compare", 4, Command("compare --json")),
    schema!("connections", 1, Command("connections --json")),
    schema!("doctor", 1, Command("doctor --json")),
    schema!("env", 1, Command("env --json")),
    schema!("explain", 1, Command("explain --json")),
    schema!("fileset", 1, Command("load --make-fileset NAME DIR --json")),
    schema!("find-max", 1, Command("load --find-max --json")),
    schema!("import-trace", 1, Command("import --run DIR --json")),
    schema!("load", 1, Command("load --json")),
    schema!("load-failed", 1, Command("load --json, where no load could be made")),
    schema!("load-line", 1, Command("load --ndjson FILE")),
    schema!("mcp-advise", 1, Tool("the tool advise")),
    schema!("mcp-compare", 1, Tool("the tool compare")),
    schema!("mcp-explain", 1, Tool("the tool explain")),
    schema!("mcp-load", 1, Tool("the tool load")),
    schema!("mcp-sql", 1, Tool("the tool sql")),
    schema!("mcp-run", 1, Tool("the resource of a run")),
    schema!("objects", 1, Command("objects --json")),
    schema!("plan", 1, Command("plan --json")),
    schema!("predict", 1, Command("predict --json")),
    schema!("replay", 1, Command("replay --json")),
    schema!("requests", 1, Command("requests --json")),
    schema!("route", 1, Command("route --json")),
    schema!("scenario", 1, Command("scenario --json")),
    schema!("sql", 1, Command("sql --json")),
    schema!("sql-list", 1, Command("sql --list --json")),
    schema!("top", 1, Command("top --json")),
    schema!("watch", 1, Command("watch --json")),
    schema!("webtest", 1, Command("webtest --json")),
    schema!("what-if", 1, Command("what-if --json")),
];
