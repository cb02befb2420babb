//! The ready-made servers, for a reader.
use anyhow::Context;
use weir_compare::{ReadyMade, ready_made};

/// A line for each with what it takes, and what is missing here.
pub(super) fn list() -> anyhow::Result<String> {
    let weir = std::env::current_exe().context("finding the path of this program")?.display().to_string();
    let mut text = String::from("Servers that a plan can name by from = \"NAME\":\n");
    for subject in ready_made() {
        let missing: Vec<String> =
            subject.needs().into_iter().filter(|need| !need.file.exists()).map(|need| need.package).collect();
        let state = match (missing.is_empty(), subject.version(&weir)) {
            (true, version) => version.unwrap_or_else(|| "installed".to_owned()),
            (false, _) => format!("not installed: apt-get install {}", missing.join(" ")),
        };
        let scripts = subject.script().map_or_else(String::new, |script| format!("; runs *.{script}"));
        let summary = subject.summary();
        text.push_str(&format!("\n{:<16} {summary}{scripts}\n{:<16} {state}\n", subject.name, ""));
    }
    text.push_str("\nweir compare --show-subject NAME prints a configuration, with the reason for each setting.\n");
    Ok(text)
}

/// The configuration of one.
///
/// # Errors
/// That there is none with this name.
pub(super) fn shown(name: &str) -> anyhow::Result<String> {
    let known = || ready_made().iter().map(|subject| subject.name).collect::<Vec<_>>().join(", ");
    let subject =
        ReadyMade::named(name).with_context(|| format!("there is no subject {name:?}; there are {}", known()))?;
    Ok(subject.shown())
}
