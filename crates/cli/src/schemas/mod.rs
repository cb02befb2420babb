//! The `weir schema` command: the JSON Schemas of what commands print, and the name by which an output says its own.

mod table;

use std::process::ExitCode;
use table::{SCHEMAS, Schema, Source};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir schema
      the names of all schemas, with the commands whose output they describe
  weir schema load > load-1.json
      that of weir load --json, for a validator or a generator of types

A name and a version, as in weir-load/1, stand in the field schema of an output
that is an object. A field may be added within a version; none is removed, and
none changes its type, unit or meaning.

Exit status: 0, or 2 for a name that no schema has.";

/// Print the JSON Schema of what a command prints as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The schema; without it all are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// An output with the name of its schema in front.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Named<'r, R: serde::Serialize> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'r R,
}

impl<'r, R: serde::Serialize> Named<'r, R> {
    /// An output that is an object; `schema` is its schema's name and version, as in `weir-load/1`.
    pub(crate) fn new(schema: &'static str, report: &'r R) -> Self {
        Self { schema, report }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        output::print(&listed())?;
        return Ok(ExitCode::SUCCESS);
    };
    // The name alone, or as an output says it: weir-load/1.
    let bare = name.strip_prefix("weir-").unwrap_or(name);
    let found = SCHEMAS.iter().find(|schema| schema.name == bare || schema.file() == bare.replace('/', "-"));
    let Some(schema) = found else {
        eprintln!("weir schema: there is no schema {name}; weir schema lists those that are there");
        return Ok(ExitCode::from(2));
    };
    output::print(schema.text)?;
    Ok(ExitCode::SUCCESS)
}

fn listed() -> String {
    let width = SCHEMAS.iter().map(|schema| schema.file().len()).max().unwrap_or(0);
    let what = |schema: &Schema| match schema.source {
        Source::Command(line) => format!("weir {line}"),
        Source::Tool(tool) => format!("weir mcp, {tool}"),
    };
    SCHEMAS.iter().map(|schema| format!("{:<width$}  {}\n", schema.file(), what(schema))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory};
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The commands that print JSON by an option of their own.
    fn with_json(command: &Command, path: &[String], found: &mut Vec<(String, String)>) {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            if id == "json" || id == "ndjson" {
                found.push((path.join(" "), format!("--{id}")));
            }
        }
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            with_json(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
        }
    }

    #[test]
    fn every_command_that_prints_json_has_a_schema() {
        let mut found = Vec::new();
        with_json(&crate::Cli::command(), &[], &mut found);
        assert!(found.len() > 25, "{found:?}");
        let is_described = |path: &str, option: &str| {
            SCHEMAS.iter().any(|schema| {
                let Source::Command(line) = schema.source else { return false };
                line.strip_prefix(path).is_some_and(|rest| rest.starts_with(' ') && rest.contains(option))
            })
        };
        let without = found.iter().filter(|(path, option)| !is_described(path, option)).collect::<Vec<_>>();
        assert!(
            without.is_empty(),
            "no schema: {without:?}; write docs/reference/schemas/NAME-1.json and a row of SCHEMAS (schemas/table.rs)"
        );
    }

    #[test]
    fn files_and_rows_are_the_same_and_each_field_is_described() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let rows: BTreeSet<String> = SCHEMAS.iter().map(|schema| format!("{}.json", schema.file())).collect();
        assert_eq!(files, rows);
        for schema in SCHEMAS {
            let value: Value =
                serde_json::from_str(schema.text).unwrap_or_else(|error| panic!("{}: {error}", schema.name));
            assert_eq!(value["$id"], schema.says(), "{}", schema.name);
            assert_eq!(value["$schema"], "https://json-schema.org/draft/2020-12/schema", "{}", schema.name);
            assert!(value["title"].is_string() && value["description"].is_string(), "{}", schema.name);
            described(schema.name, &value);
        }
    }

    /// Each field has a description, so that a reader of the schema needs no other page.
    fn described(name: &str, schema: &Value) {
        for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
            assert!(inner["description"].is_string(), "{name}: the field {field} has no description");
            described(name, inner);
        }
        for key in ["prefixItems", "anyOf", "oneOf"] {
            schema[key].as_array().into_iter().flatten().for_each(|inner| described(name, inner));
        }
        for inner in ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key)) {
            described(name, inner);
        }
        schema["$defs"].as_object().into_iter().flatten().for_each(|(_, inner)| described(name, inner));
    }
}
