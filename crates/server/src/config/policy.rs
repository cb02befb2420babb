//! `policy`: the file of the rules, and how they are used. Here it is only checked that the file exists; the adviser
//! reads the rules.

use super::table::{Table, Value};
use crate::policy::settings::{Placed, PolicyOptions};
use std::path::PathBuf;
use std::time::Duration;

/// How long a tick may be.
const TICK: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// `policy = "FILE"`, or a table with more.
pub(super) fn read(value: &Value<'_, '_>) -> Option<PolicyOptions> {
    if value.is_text() {
        return file(value).map(PolicyOptions::new);
    }
    let table = value.table("[policy]")?;
    let found = table.get("file");
    if found.is_none() {
        table.wrong("it does not say where the rules are", "add file = \"flood.policy\"");
    }
    let more = PolicyOptions {
        tick: table.get("tick").and_then(|value| value.duration(TICK)),
        node: text(&table, "node", "give the name that pools have for this node, such as \"n1\""),
        forecast: text(&table, "forecast", "write \"least-squares\", \"robust\" or \"seasonal:24h\""),
        decisions: to_write(&table, "decisions"),
        environment: to_write(&table, "environment"),
        webhook: text(&table, "webhook", "give an address, such as \"http://127.0.0.1:9000/alerts\""),
        ..PolicyOptions::new(PathBuf::new())
    };
    table.finish();
    Some(PolicyOptions { file: file(&found?)?, ..more })
}

fn file(value: &Value<'_, '_>) -> Option<PathBuf> {
    let path = value.path()?;
    if !path.is_file() {
        value.wrong(format!("{} is no file", path.display()), "give a file of rules, such as \"flood.policy\"");
        return None;
    }
    Some(path)
}

fn text(table: &Table<'_, '_>, key: &'static str, remedy: &str) -> Option<Placed<String>> {
    let value = table.get(key)?;
    let text = value.string()?;
    if text.is_empty() {
        value.wrong(format!("`{key}` is empty"), remedy);
        return None;
    }
    Some(value.placed(text.to_owned()))
}

/// A file that another process writes: none that is read again.
fn to_write(table: &Table<'_, '_>, key: &'static str) -> Option<Placed<PathBuf>> {
    let value = table.get(key)?;
    let path = value.string()?;
    if path.is_empty() || path.contains('\0') {
        value.wrong(format!("`{key}` is no path"), "give the path of a file");
        return None;
    }
    Some(value.placed(value.in_folder(path.as_ref())))
}
