//! OpenAPI 3.0 and 3.1, and Swagger 2.0: each operation is a step, each tag a group.

mod body;
mod document;
mod operation;
mod parameter;
mod pattern;
mod schema;
mod security;
mod server;

use crate::model::{Does, Group, Plan, Step};
use crate::openapi::document::Document;
use crate::openapi::operation::Operation;
use crate::openapi::security::Secrets;
use crate::report::Report;
use crate::tree::{Node, Value, read};
use crate::wanted::{Selection, Wanted};

/// Methods of the keys of a path (OpenAPI 3.1, 4.8.9).
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The plan of a description; what is wrong is told.
pub(crate) fn plan(text: &str, wanted: &Wanted, report: &Report) -> Option<Plan> {
    let root = read(text, report)?;
    let document = Document::new(&root, wanted, report)?;
    let mut plan = Plan { base: server::base(&document, root.list_of("servers")), ..Plan::default() };
    let mut secrets = Secrets::default();
    let mut groups: Vec<(Option<String>, Vec<Step>)> = Vec::new();
    let mut not_asked = NotAsked::default();
    for (path, line, item) in paths(&root, &document) {
        let Some(item) = document.resolved(item) else { continue };
        for (method, own_line, node) in item.entries() {
            if !METHODS.contains(&method.as_str()) {
                continue;
            }
            let operation = Operation { document: &document, path, method, line: *own_line, item, node };
            if !is_asked(&operation, wanted, &mut not_asked) {
                continue;
            }
            let Some(ask) = operation.ask(&mut secrets) else { continue };
            let step = Step::new(*own_line, Does::Ask(Box::new(ask)));
            let tag = operation.tags().first().cloned();
            match groups.iter_mut().find(|(own, _)| *own == tag) {
                Some((_, steps)) => steps.push(step),
                None => groups.push((tag, vec![step])),
            }
        }
        if item.entries().is_empty() {
            report.lost(line, format!("{path}: it has no operation"), "leave it out");
        }
    }
    not_asked.tell(report, wanted);
    beside(&root, report);
    secrets.into_plan(&mut plan, wanted);
    let mut steps = Vec::new();
    for (tag, within) in groups {
        match tag {
            Some(_) => steps.push(Step::new(within.first().map_or(1, |step| step.line), Does::Steps(tag, within))),
            None => steps.extend(within),
        }
    }
    let title = root.get("info").and_then(|info| info.text_of("title")).unwrap_or("operations").to_owned();
    plan.groups.push(Group { line: 1, name: title, steps, ..Group::default() });
    Some(plan)
}

/// The paths, each with its line.
fn paths<'d>(root: &'d Node, document: &Document<'d>) -> Vec<(&'d str, usize, &'d Node)> {
    let Some(paths) = root.get("paths") else {
        // From 3.1 on a description may have webhooks alone.
        if root.get("webhooks").is_none() {
            document.report.wrong(root.at(), "there are no paths", "write paths: with operations");
        }
        return Vec::new();
    };
    if !matches!(paths.value, Value::Map(_) | Value::Null) {
        document.report.wrong(paths.at(), "paths is no map", "write /path: with get: below it");
    }
    let mut found = Vec::new();
    for (path, line, item) in paths.entries() {
        if path.starts_with('/') {
            found.push((path.as_str(), *line, item));
        } else if !path.starts_with("x-") {
            document.report.wrong((*line, 1), format!("{path:?} is no path"), "a path begins with /");
        }
    }
    found
}

/// What was not asked for.
#[derive(Default)]
struct NotAsked {
    changing: Vec<(usize, String)>,
    others: usize,
    /// Which words of `--only` fit something.
    fitting: Vec<bool>,
}

fn is_asked(operation: &Operation<'_, '_>, wanted: &Wanted, not_asked: &mut NotAsked) -> bool {
    let is_safe = ["get", "head", "options", "trace"].contains(&operation.method);
    let is_asked = match &wanted.selection {
        Selection::All => true,
        Selection::Safe => is_safe,
        Selection::Only(words) => {
            not_asked.fitting.resize(words.len(), false);
            let (mut by_name, mut by_tag) = (false, false);
            for (word, fits) in words.iter().zip(&mut not_asked.fitting) {
                let named = operation.is_named(word);
                let tagged = operation.tags().iter().any(|tag| tag.eq_ignore_ascii_case(word));
                *fits |= named || tagged;
                by_name |= named;
                by_tag |= tagged;
            }
            if !by_name && !by_tag {
                not_asked.others += 1;
                return false;
            }
            by_name || is_safe
        }
    };
    if !is_asked {
        not_asked.changing.push((operation.line, operation.shown()));
    }
    is_asked
}

impl NotAsked {
    fn tell(&self, report: &Report, wanted: &Wanted) {
        for (line, shown) in &self.changing {
            let what = format!("{shown} may change data, and is left out");
            report.left_out(*line, what, format!("add --all, or --only '{shown}'"));
        }
        if self.others > 0 {
            let what = format!("{} operations are not among those of --only", self.others);
            report.left_out(1, what, "add their names, or leave --only out");
        }
        if let Selection::Only(words) = &wanted.selection {
            for (word, _) in words.iter().zip(&self.fitting).filter(|(_, fits)| !**fits) {
                let remedy = "write an operationId, METHOD /path, or a tag";
                report.wrong((1, 1), format!("no operation has the name or tag {word:?} of --only"), remedy);
            }
        }
    }
}

/// What a description has beside operations, and a scenario has not.
fn beside(root: &Node, report: &Report) {
    for (name, line, _) in root.entries_of("webhooks") {
        report.lost(*line, format!("the webhook {name} is a request of the server's"), "leave it out");
    }
}
