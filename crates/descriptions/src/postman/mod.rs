//! Collections of Postman 2.0 and 2.1: folders are groups, requests are steps.

mod auth;
mod body;
mod request;
mod variables;

use crate::files::Files;
use crate::model::{Does, Group, Plan, Step};
use crate::postman::auth::Auth;
use crate::postman::request::Reader;
use crate::postman::variables::Variables;
use crate::report::Report;
use crate::tree::{Node, Value, read_json};
use crate::wanted::{Selection, Wanted};

/// The plan of a collection; what is wrong is told.
pub(crate) fn plan(text: &str, wanted: &Wanted, files: &dyn Files, report: &Report) -> Option<Plan> {
    let root = read_json(text, report)?;
    // The program's interface for other programs has it one deeper.
    let root = root.get("collection").unwrap_or(&root);
    let schema = root.get("info").and_then(|info| info.text_of("schema")).unwrap_or_default();
    if schema.contains("/v1.") || root.get("requests").is_some() {
        report.wrong(root.at(), "this is a collection of version 1", "export it from Postman as v2.1");
        return None;
    }
    let Some(items) = root.get("item").filter(|node| matches!(node.value, Value::List(_))) else {
        report.wrong(root.at(), "this is no collection of Postman", "give a file that has info and item");
        return None;
    };
    let variables = Variables::read(root, wanted, report)?;
    let reader = Reader { variables: &variables, files, report };
    let only = match &wanted.selection {
        Selection::Only(words) => Some(words.as_slice()),
        _ => None,
    };
    let walk = Walk { reader: &reader, only };
    tell_scripts(root, "the collection", report);
    let steps = walk.steps(items.list(), &Auth::of(root), only.is_none());
    if let Some(word) = only.and_then(|words| words.iter().find(|word| !has_name(items, word))) {
        report.wrong(
            (1, 1),
            format!("no folder and no request is named {word:?}"),
            "write a name as the collection has it",
        );
    }
    let name = root.get("info").and_then(|info| info.text_of("name")).unwrap_or("collection").to_owned();
    let group = Group { line: 1, name, steps, ..Group::default() };
    let (vars, env) = variables.into_used();
    Some(Plan { vars, env, groups: vec![group], ..Plan::default() })
}

/// Goes through folders.
struct Walk<'w> {
    reader: &'w Reader<'w>,
    only: Option<&'w [String]>,
}

impl Walk<'_> {
    /// The steps of a folder; `is_taken` if it or one around it was asked for.
    fn steps(&self, items: &[Node], auth: &Auth<'_>, is_taken: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for item in items {
            let name = item.text_of("name").unwrap_or_default();
            let is_taken = is_taken || self.only.is_some_and(|words| words.iter().any(|word| word == name));
            if let Some(within) = item.get("item") {
                let own = Auth::of(item);
                let auth = if own.is_said() { &own } else { auth };
                if is_taken {
                    tell_scripts(item, name, self.reader.report);
                }
                let within = self.steps(within.list(), auth, is_taken);
                if !within.is_empty() {
                    let group = if name.is_empty() { None } else { Some(name.to_owned()) };
                    steps.push(Step::new(item.line, Does::Steps(group, within)));
                }
            } else if item.get("request").is_some() {
                if is_taken {
                    tell_scripts(item, name, self.reader.report);
                    let ask = self.reader.ask(item, auth);
                    steps.extend(ask.map(|ask| Step::new(item.line, Does::Ask(Box::new(ask)))));
                }
            } else {
                self.reader.report.wrong(item.at(), "this is neither a folder nor a request", "write item or request");
            }
        }
        steps
    }
}

fn has_name(items: &Node, word: &str) -> bool {
    items
        .list()
        .iter()
        .any(|item| item.text_of("name") == Some(word) || item.get("item").is_some_and(|within| has_name(within, word)))
}

/// Lists the scripts of an item, which are not run.
fn tell_scripts(item: &Node, name: &str, report: &Report) {
    for event in item.list_of("event") {
        let Some(script) = event.get("script") else { continue };
        let exec = script.get("exec");
        let lines = exec.map_or(&[][..], Node::list).iter().filter_map(Node::text).chain(exec.and_then(Node::text));
        if lines.clone().all(|line| line.trim().is_empty()) {
            continue;
        }
        let (kind, remedy) = match event.text_of("listen") {
            Some("prerequest") => ("pre-request script", "write what it sets into [vars], or give --set NAME=VALUE"),
            _ => ("test script", "write check, expect and take into the step"),
        };
        report.lost(event.line, format!("the {kind} of {name} ({} lines) is not run", lines.count()), remedy);
    }
}
