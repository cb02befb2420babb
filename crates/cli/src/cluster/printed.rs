//! What subcommands print alike.

use anyhow::Context;
use std::process::ExitCode;

/// Prints a report as JSON, with the version of the program whose form it has.
pub(super) fn print_json(name: &str, report: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
    let json = serde_json::json!({
        "schema": format!("weir-cluster-{name}/1"),
        "version": weir_terminal::VERSION,
        name: report,
    });
    println!("{}", serde_json::to_string_pretty(&json).context("JSON")?);
    Ok(ExitCode::SUCCESS)
}

/// A node of another version answers.
pub(super) fn other_answer<T>() -> anyhow::Result<T> {
    anyhow::bail!("the node answers something else; run the same weir everywhere")
}
