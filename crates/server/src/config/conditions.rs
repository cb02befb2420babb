//! Conditions of routes.

use super::table::{Table, Value};
use crate::http::access::Network;
use crate::http::request::is_token;
use crate::routing::routes::condition::{Condition, Wanted};
use crate::routing::routes::hours::Hours;
use crate::routing::routes::path_test::PathTest;
use crate::routing::routes::text_glob::TextGlob;

/// Conditions within `not` within `not`.
const NESTED_MAX: usize = 4;
const KINDS: [&str; 4] = ["prefix", "exact", "glob", "regex"];

/// The paths that a route is for; none within for all.
pub(super) fn path(table: &Table<'_, '_>) -> Result<Option<PathTest>, ()> {
    if let Some(value) = table.get("path") {
        value.wrong("`path` does not say how it is meant", "write prefix, exact, glob or regex = \"...\"");
        return Err(());
    }
    let given: Vec<_> = KINDS.into_iter().filter_map(|kind| Some((kind, table.get(kind)?))).collect();
    match given.as_slice() {
        [] => Ok(None),
        [(kind, value)] => test(kind, value).map(Some).ok_or(()),
        [(first, _), (kind, value), ..] => {
            value.wrong(format!("`{kind}` and `{first}` do not go together"), "keep one of them");
            Err(())
        }
    }
}

fn test(kind: &str, value: &Value<'_, '_>) -> Option<PathTest> {
    let text = value.string()?;
    if kind == "regex" {
        let read = PathTest::regex(text);
        return read
            .map_err(|error| {
                // The compiler shows the place in lines of its own.
                let what = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
                let remedy = "write it as the crate regex of Rust has it, without look-around and back references";
                value.wrong(format!("\"{text}\" is no regular expression that can be used: {what}"), remedy);
            })
            .ok();
    }
    super::said::is_path(kind, value)?;
    match kind {
        "prefix" => Some(PathTest::Prefix(text.to_owned())),
        "exact" => Some(PathTest::Exact(text.to_owned())),
        _ => {
            let glob = PathTest::glob(text);
            if glob.is_none() {
                value.wrong("the pattern is too large", "write a shorter one");
            }
            glob
        }
    }
}

/// What has to hold beside the path; none if something of it is wrong.
pub(super) fn read(table: &Table<'_, '_>) -> Option<Vec<Condition>> {
    read_within(table, 0)
}

fn read_within(table: &Table<'_, '_>, depth: usize) -> Option<Vec<Condition>> {
    let mut conditions = Vec::new();
    let mut is_good = true;
    let mut add = |read: Option<Condition>| match read {
        Some(condition) => conditions.push(condition),
        None => is_good = false,
    };
    if let Some(value) = table.get("method") {
        add(methods(&value));
    }
    if let Some(value) = table.get("scheme") {
        add(scheme(&value));
    }
    if let Some(value) = table.get("host") {
        add(all(&value, |item| glob(item, false)).map(Condition::Host));
    }
    if let Some(value) = table.get("address") {
        add(all(&value, network).map(Condition::Address));
    }
    for (key, make) in [
        ("header", Condition::Header as fn(String, Wanted) -> Condition),
        ("cookie", Condition::Cookie),
        ("query", Condition::Query),
    ] {
        if let Some(value) = table.get(key) {
            named(key, &value, make).into_iter().for_each(&mut add);
        }
    }
    if let Some(value) = table.get("time") {
        add(all(&value, hours).map(Condition::Time));
    }
    if let Some(value) = table.get("not") {
        negated(&value, depth).into_iter().for_each(&mut add);
    }
    is_good.then_some(conditions)
}

/// All items of a list, each read; none if one is wrong, or there is none.
fn all<T>(value: &Value<'_, '_>, read: impl Fn(&Value<'_, '_>) -> Option<T>) -> Option<Vec<T>> {
    let items = value.strings();
    if items.is_empty() {
        value.wrong("the condition can never hold", "give something that it holds for, or leave it away");
        return None;
    }
    items.iter().map(read).collect()
}

fn methods(value: &Value<'_, '_>) -> Option<Condition> {
    let read = |item: &Value<'_, '_>| {
        let is_method = is_token(item.text().as_bytes());
        if !is_method {
            item.wrong(format!("\"{}\" is no method", item.text()), "such as GET, in capital letters");
        } else if item.text().bytes().any(|byte| byte.is_ascii_lowercase()) {
            item.doubt(format!("methods have a case, and {} is none", item.text()), "write it in capital letters");
        }
        is_method.then(|| item.text().to_owned())
    };
    all(value, read).map(Condition::Method)
}

fn scheme(value: &Value<'_, '_>) -> Option<Condition> {
    match value.string()? {
        "http" => Some(Condition::Secure(false)),
        "https" => Some(Condition::Secure(true)),
        other => {
            value.wrong(format!("\"{other}\" is no scheme"), "write \"http\" or \"https\"");
            None
        }
    }
}

fn glob(item: &Value<'_, '_>, has_case: bool) -> Option<TextGlob> {
    let glob = TextGlob::new(item.text(), has_case);
    if glob.is_none() {
        item.wrong("the pattern is too large", "write a shorter one");
    }
    glob
}

fn network(item: &Value<'_, '_>) -> Option<Network> {
    let network = item.text().parse();
    if network.is_err() {
        let remedy = "write an address, or a network such as 10.0.0.0/8 without bits beyond it";
        item.wrong(format!("\"{}\" is no network", item.text()), remedy);
    }
    network.ok()
}

fn hours(item: &Value<'_, '_>) -> Option<Hours> {
    let hours = Hours::read(item.text());
    if hours.is_none() {
        let remedy =
            "write DAYS HH:MM-HH:MM ZONE, such as \"Mon-Fri 08:00-18:00 +01:00\"; the zone is UTC or an offset";
        item.wrong(format!("\"{}\" is no time of the week", item.text()), remedy);
    }
    hours
}

/// Conditions on values by their names.
fn named(key: &str, value: &Value<'_, '_>, make: fn(String, Wanted) -> Condition) -> Vec<Option<Condition>> {
    let Some(table) = value.table(key) else { return vec![None] };
    let read = |(name, span, value): (String, std::ops::Range<usize>, Value<'_, '_>)| {
        if key != "query" && !is_token(name.as_bytes()) {
            let what = format!("\"{name}\" is no name of a {key}");
            table.reader.wrong(span.start, what, "letters, digits and hyphens make one");
            return None;
        }
        let wanted = if value.is_boolean() {
            if value.boolean()? { Wanted::Present } else { Wanted::Absent }
        } else if value.is_text() {
            Wanted::Like(glob(&value, true)?)
        } else {
            value.wrong(
                format!("what is wanted of {name} is neither a pattern nor true or false"),
                "write a text in which * stands for anything, true if it is there, or false if it is not",
            );
            return None;
        };
        Some(make(name, wanted))
    };
    let entries = table.entries();
    if entries.is_empty() {
        value.wrong(format!("`{key}` names nothing"), format!("write {key} = {{ NAME = \"PATTERN\" }}"));
    }
    entries.into_iter().map(read).collect()
}

/// Conditions of which not all may hold: one table, or several.
fn negated(value: &Value<'_, '_>, depth: usize) -> Vec<Option<Condition>> {
    if depth >= NESTED_MAX {
        value.wrong("there is `not` within `not` again and again", "say it the other way round");
        return vec![None];
    }
    let tables =
        if value.is_table() { value.table("not").into_iter().collect() } else { value.tables("not = [{ ... }]") };
    let read = |table: &Table<'_, '_>| {
        let path = path(table);
        let conditions = read_within(table, depth + 1);
        table.finish();
        let mut all: Vec<_> = path.ok()?.map(Condition::Path).into_iter().collect();
        all.extend(conditions?);
        if all.is_empty() {
            table.wrong("`not` has no condition, so that it never holds", "add one, or leave it away");
            return None;
        }
        Some(Condition::Not(all))
    };
    let read: Vec<_> = tables.iter().map(read).collect();
    if read.is_empty() { vec![None] } else { read }
}
