//! What `weir` does within, for people who debug it: events on standard error, chosen by `WEIR_LOG`.
//!
//! Without the variable no subscriber is installed, so an event costs one comparison with a number in memory.
//! Events stand where a part begins, ends, fails or changes; none stands on the way of each request or kernel event.

use std::ffi::OsStr;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The variable that holds the filter.
pub(crate) const VARIABLE: &str = "WEIR_LOG";

/// The parts that tell of events, by the names of their crates; `quinn_proto` is the library for QUIC.
const PARTS: [&str; 13] = [
    "weir",
    "weir_acme",
    "weir_agent",
    "weir_capture",
    "weir_cluster",
    "weir_directory",
    "weir_keeper",
    "weir_load",
    "weir_policy_runtime",
    "weir_scenario",
    "weir_scripts",
    "weir_server",
    "quinn_proto",
];

/// A filter that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    /// It is not text.
    #[error("{VARIABLE} is not UTF-8; {remedy}", remedy = remedy())]
    NotText,
    /// A word is no level.
    #[error("{VARIABLE}: `{0}` is no level; {remedy}", remedy = remedy())]
    Level(String),
    /// A part is not known.
    #[error("{VARIABLE}: no part is called `{0}`; {remedy}", remedy = remedy())]
    Part(String),
}

fn remedy() -> String {
    format!(
        "give error, warn, info, debug, trace or off, alone or for a part, as in {VARIABLE}=info,weir_server=debug; \
         the parts are {}",
        PARTS.join(", ")
    )
}

/// Begins to tell events on standard error, if the variable is set and not empty.
///
/// # Errors
/// [`FilterError`], if its value cannot be understood.
pub(crate) fn begin(value: Option<&OsStr>) -> Result<(), FilterError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(()) };
    let targets = targets(value.to_str().ok_or(FilterError::NotText)?)?;
    let events = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // It fails only where another subscriber is installed already, and this is the only place that installs one.
    let _ = tracing_subscriber::registry().with(events).with(targets).try_init();
    Ok(())
}

/// The filter of a text such as `info,weir_server=debug`.
fn targets(text: &str) -> Result<Targets, FilterError> {
    let mut targets = Targets::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (part, level) =
            word.split_once('=').map_or((None, word), |(part, level)| (Some(part.trim()), level.trim()));
        let level: LevelFilter = level.parse().map_err(|_| FilterError::Level(level.to_owned()))?;
        targets = match part {
            None => targets.with_default(level),
            Some(part) if PARTS.contains(&part.split("::").next().unwrap_or(part)) => targets.with_target(part, level),
            Some(part) => return Err(FilterError::Part(part.to_owned())),
        };
    }
    Ok(targets)
}

/// Tells which command runs, with which arguments: their names, as values may be secrets.
pub(crate) fn command_begins(command: &clap::Command, matches: &clap::ArgMatches) {
    let (mut names, mut of, mut command) = (Vec::new(), matches, command);
    while let Some((name, matches)) = of.subcommand()
        && let Some(sub) = command.find_subcommand(name)
    {
        names.push(name);
        (of, command) = (matches, sub);
    }
    let given = command.get_arguments().map(|argument| argument.get_id().as_str());
    let given = given.filter(|id| of.value_source(id) == Some(clap::parser::ValueSource::CommandLine));
    let arguments = given.collect::<Vec<_>>().join(" ");
    tracing::info!(command = names.join(" "), arguments, version = env!("CARGO_PKG_VERSION"), "begins");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use tracing::Level;

    #[test]
    fn a_filter_is_a_level_and_levels_of_parts() {
        let filter = targets("info, weir_server=debug,quinn_proto = off,weir::serve=trace").expect("a filter");
        for (part, level, passes) in [
            ("weir_load", Level::INFO, true),
            ("weir_load", Level::DEBUG, false),
            ("weir_server::tls", Level::DEBUG, true),
            ("weir::serve", Level::TRACE, true),
            ("quinn_proto::connection", Level::ERROR, false),
        ] {
            assert_eq!(filter.would_enable(part, &level), passes, "{part} {level}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_remedy() {
        assert_eq!(targets("debgu").map(drop), Err(FilterError::Level("debgu".to_owned())));
        assert_eq!(targets("weir_server").map(drop), Err(FilterError::Level("weir_server".to_owned())));
        let error = targets("info,server=debug").map(drop).expect_err("no part");
        assert!(error.to_string().contains("`server`") && error.to_string().contains("weir_server=debug"), "{error}");
    }

    /// A part that is missing in the list could not be chosen.
    #[test]
    fn every_crate_that_tells_events_can_be_chosen() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
        for folder in fs::read_dir(crates).expect("crates") {
            let folder = folder.expect("a crate").path();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
            if manifest.contains("\ntracing.workspace") {
                let name = folder.file_name().expect("a name").to_string_lossy().replace('-', "_");
                let name = if name == "cli" { "weir".to_owned() } else { format!("weir_{name}") };
                assert!(PARTS.contains(&name.as_str()), "{name} is missing in PARTS");
            }
        }
    }
}
