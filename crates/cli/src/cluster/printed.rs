//! What subcommands print alike.

use anyhow::Context;
use serde_json::Value;
use std::process::ExitCode;

/// Prints a report as JSON, with the version of the program whose form it has.
pub(super) fn print_json(name: &str, report: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
    println!("{}", serde_json::to_string_pretty(&json_of(name, report)?).context("JSON")?);
    Ok(ExitCode::SUCCESS)
}

/// What is printed so.
pub(super) fn json_of(name: &str, report: &impl serde::Serialize) -> anyhow::Result<Value> {
    Ok(serde_json::json!({
        "schema": format!("weir-cluster-{name}/1"),
        "version": weir_terminal::VERSION,
        name: serde_json::to_value(report).context("JSON")?,
    }))
}

/// A node of another version answers.
pub(super) fn other_answer<T>() -> anyhow::Result<T> {
    anyhow::bail!("the node answers something else; run the same weir everywhere")
}
