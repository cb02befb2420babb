//! A request of a scenario, as its table says.

use crate::form::document::{Table, Value};
use crate::form::place::Place;
use crate::form::program::{Body, Json, Need, Step};
use crate::form::scope::ScopeKind;
use crate::form::take::Take;
use crate::form::template::{Template, is_name};
use std::sync::Arc;
use weir_load::{Check, Request};

/// Methods that are keys.
const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

/// Whether a table is a request.
pub(crate) fn is_request(table: &Table<'_, '_>) -> bool {
    // All are asked for, so that each is a known key.
    METHODS
        .into_iter()
        .chain(["method", "url", "graphql", "graphql_file"])
        .filter(|key| table.get(key).is_some())
        .count()
        > 0
}

/// A text with places for values.
pub(crate) fn template(value: Value<'_, '_>, text: &str, place: &Place<'_>) -> Template {
    match Template::parse(text) {
        Ok(template) => {
            template.names().for_each(|name| place.known.uses(name, value.at));
            template
        }
        Err(error) => {
            value.wrong(format!("{text:?}: {error}"), "write ${name}, or $${ for ${ itself");
            Template::default()
        }
    }
}

fn templates(table: &Table<'_, '_>, key: &'static str, place: &Place<'_>) -> Vec<(String, Template)> {
    let Some(inner) = table.table(key, "the table") else { return Vec::new() };
    inner
        .entries()
        .filter_map(|(name, value)| {
            let text = value.scalar(&name)?;
            Some((name, template(value, &text, place)))
        })
        .collect()
}

/// Reads a request.
pub(crate) fn step(table: &Table<'_, '_>, place: &Place<'_>) -> Option<Step> {
    let (method, url) = address(table)?;
    let url_text = url.text("url")?;
    let method_shown = method.clone();
    let own_name = table.text("name").map(|(name, _)| name.to_owned());
    let name: Arc<str> = own_name.unwrap_or_else(|| format!("{method_shown} {url_text}")).into();
    let mut headers: Vec<_> = place.defaults.headers.clone();
    for (header, value) in templates(table, "headers", place) {
        headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&header));
        headers.push((header, value));
    }
    for (header, _) in &headers {
        if Request::header(&format!("{header}: x")).is_err() {
            table.wrong(format!("{header:?} is no name of a header"), "a name has letters, digits and -");
        }
    }
    if table.get("user").is_some() && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        table.wrong("user and a header Authorization say the same", "leave one of them out");
    }
    let mut tags: Vec<(Arc<str>, Arc<str>)> = vec![("name".into(), Arc::clone(&name))];
    let mut scopes = vec![0, place.known.scope(ScopeKind::Step, &name)];
    if !place.group.is_empty() {
        tags.push(("group".into(), Arc::clone(&place.group)));
        scopes.extend(place.groups().iter().map(|group| place.known.scope(ScopeKind::Group, group)));
    }
    if let Some(inner) = table.table("tags", "tags") {
        for (tag, value) in inner.entries() {
            let Some(text) = value.scalar(&tag) else { continue };
            scopes.push(place.known.scope(ScopeKind::Tag, &format!("{tag}={text}")));
            tags.push((tag.as_str().into(), text.as_str().into()));
        }
    }
    for (tag, value) in &place.defaults.tags {
        scopes.push(place.known.scope(ScopeKind::Tag, &format!("{tag}={value}")));
    }
    tags.sort();
    let body = body(table, place);
    let step = Step {
        group: Arc::clone(&place.group),
        line: place.line_of(table.at),
        method,
        url: template(url, url_text, place),
        query: templates(table, "query", place),
        headers,
        user: table.get("user").and_then(|value| Some(template(value, value.text("user")?, place))),
        body,
        takes: takes(table, place),
        checks: checks(table, "check").into_iter().map(|check| (told(&name, &check), check)).collect(),
        expects: checks(table, "expect"),
        timeout: table.duration("timeout").unwrap_or(place.defaults.timeout),
        redirects_max: table.number("redirects", 0, 100).map_or(place.defaults.redirects_max, |most| most as u32),
        tags: tags.into(),
        scopes,
        ok: table.text("ok").map_or_else(
            || place.defaults.ok.clone(),
            |(text, at)| match text.parse() {
                Ok(statuses) => Some(Arc::new(statuses)),
                Err(error) => {
                    table.document.wrong(at, format!("ok = {text:?}"), error.to_string());
                    None
                }
            },
        ),
        name,
    };
    Some(step)
}

fn told(name: &str, check: &Check) -> Arc<str> {
    Arc::from(format!("{name}: {}", check.text()))
}

/// Method and address.
fn address<'d, 't>(table: &Table<'d, 't>) -> Option<(String, Value<'d, 't>)> {
    let mut given: Vec<_> =
        METHODS.into_iter().filter_map(|key| Some((key.to_ascii_uppercase(), table.get(key)?))).collect();
    let graphql = ["graphql", "graphql_file"].into_iter().any(|key| table.get(key).is_some());
    if let Some(url) = table.get("url") {
        let default = if graphql { "POST" } else { "GET" };
        let method = table.text("method").map_or(default, |(method, _)| method);
        given.push((method.to_owned(), url));
    } else if let Some(method) = table.get("method") {
        method.wrong("method without url", "write url = \"/path\", too, or get = \"/path\"");
        return None;
    }
    if given.len() != 1 {
        table.wrong(
            "a request has one method and one address",
            "write one of get = \"/path\", post = ..., or method = \"GET\" with url = \"/path\"",
        );
        return None;
    }
    given.pop()
}

fn body(table: &Table<'_, '_>, place: &Place<'_>) -> Body {
    let keys = ["body", "body_file", "json", "form", "graphql", "graphql_file"];
    let given: Vec<_> = keys.into_iter().filter(|key| table.get(key).is_some()).collect();
    if given.len() > 1 {
        table.wrong(format!("a request has one body, not {}", given.join(" and ")), "leave one out");
    }
    let variables = table.get("variables").map(|value| (value, json(value, &value.json(), place)));
    let operation = table.text("operation").map(|(name, _)| name.to_owned());
    match given.first().copied() {
        Some("body") => match table.get("body").and_then(|value| Some((value, value.text("body")?))) {
            Some((value, text)) => Body::Text(template(value, text, place)),
            None => Body::Empty,
        },
        Some(key @ ("body_file" | "graphql_file")) => {
            let Some(value) = table.get(key) else { return Body::Empty };
            let Some(text) = value.text(key).and_then(|file| place.file(value, file)) else { return Body::Empty };
            let text = template(value, &text, place);
            match key {
                "body_file" => Body::Text(text),
                _ => Body::Graphql { query: text, variables: variables.map(|(_, json)| json), operation },
            }
        }
        Some("json") => match table.get("json") {
            Some(value) => Body::Json(json(value, &value.json(), place)),
            None => Body::Empty,
        },
        Some("form") => Body::Form(templates(table, "form", place)),
        Some(_) => match table.get("graphql").and_then(|value| Some((value, value.text("graphql")?))) {
            Some((value, text)) => Body::Graphql {
                query: template(value, text, place),
                variables: variables.map(|(_, json)| json),
                operation,
            },
            None => Body::Empty,
        },
        None => {
            if variables.is_some() || operation.is_some() {
                table.wrong("variables and operation belong to graphql", "write graphql = \"query { ... }\", too");
            }
            Body::Empty
        }
    }
}

fn json(at: Value<'_, '_>, value: &serde_json::Value, place: &Place<'_>) -> Json {
    match value {
        serde_json::Value::String(text) => Json::Text(template(at, text, place)),
        serde_json::Value::Array(list) => Json::List(list.iter().map(|value| json(at, value, place)).collect()),
        serde_json::Value::Object(entries) => {
            Json::Object(entries.iter().map(|(key, value)| (key.clone(), json(at, value, place))).collect())
        }
        other => Json::Plain(other.clone()),
    }
}

fn takes(table: &Table<'_, '_>, place: &Place<'_>) -> Vec<(String, Take, Need)> {
    let mut takes = Vec::new();
    for (key, need) in [("take", Need::Must), ("take_if_there", Need::May)] {
        let Some(inner) = table.table(key, "take") else { continue };
        for (name, value) in inner.entries() {
            let Some(text) = value.text(&name) else { continue };
            if !is_name(&name) {
                value.wrong(format!("{name:?} is no name of a value"), "a name has letters, digits, _, - and .");
            }
            place.known.define(&name);
            match Take::parse(text) {
                Some(take) => takes.push((name, take, need)),
                None => value.wrong(
                    format!("{text:?} says nothing that can be taken of an answer"),
                    "write \"json .items[0].id\", \"css input[name=csrf] @value\", \"regex id=(\\\\d+)\", \"header location\", \
                     \"cookie sid\", \"status\" or \"url\"",
                ),
            }
        }
    }
    takes
}

fn checks(table: &Table<'_, '_>, key: &'static str) -> Vec<Check> {
    let mut checks = Vec::new();
    for (text, at) in table.texts(key) {
        match text.parse::<Check>() {
            Ok(check) if check.scope().is_some() => {
                table.document.wrong(
                    at,
                    format!("{text:?}: a check of a step is of its own answer"),
                    "leave the path out",
                );
            }
            Ok(check) => checks.push(check),
            Err(error) => table.document.wrong(at, format!("{key} {text:?}"), error.to_string()),
        }
    }
    checks
}
