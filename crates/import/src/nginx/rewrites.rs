//! `return`, `rewrite`, `if`, `set` and `try_files` of nginx as routes.

use super::conditions::{self, Test};
use super::context::Context;
use super::variables::Variables;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{Table, list};
use crate::patterns;
use crate::templates::{self, Piece};
use std::collections::BTreeMap;

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
pub(crate) const STATUSES: [u16; 6] = [403, 404, 410, 451, 500, 503];
const CANDIDATES_MAX: usize = 16;

/// Where a path leads that a location stands for within nginx, by the name of the location.
pub(crate) type Named = BTreeMap<String, Vec<Piece>>;

/// The routes of a block, in its order.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub(crate) routes: Vec<Table>,
    /// A `return` without a condition: nothing behind it counts.
    pub(crate) has_ended: bool,
    /// Something that refuses could not be said, so that the whole block is to be refused: its place and line.
    pub(crate) refused: Option<String>,
}

impl Rewritten {
    fn refuse(&mut self, directive: &Directive) {
        self.refused.get_or_insert_with(|| format!("{}: {}", directive.place, directive.line()));
    }
}

/// Translates the directives of nginx's rewrite module in a block. With `inner`, paths that stay within their location
/// are led below that path.
pub(crate) fn read(
    context: &mut Context<'_>,
    block: &[Directive],
    base: &Condition,
    variables: &mut Variables,
    inner: Option<&str>,
) -> Rewritten {
    let mut out = Rewritten::default();
    for directive in block {
        if out.has_ended {
            break;
        }
        match directive.name.as_str() {
            "set" => set(context, directive, variables),
            "return" => {
                returned(context, directive, base, variables, &mut out);
                out.has_ended |= base.not.is_empty() && base.keys.is_empty();
            }
            "rewrite" => rewrite(context, directive, base, variables, inner, &mut out.routes),
            "if" => tested(context, directive, base, variables, &mut out),
            _ => {}
        }
    }
    out
}

fn set(context: &mut Context<'_>, directive: &Directive, variables: &mut Variables) {
    let name = directive.argument(0).trim_start_matches('$').to_owned();
    match variables.text(directive.argument(1)) {
        Ok(value) => {
            directive.told();
            variables.set.insert(name, value);
        }
        Err(_) => {
            variables.set.remove(&name);
            if name == "path_info" {
                return context.report.idle(directive);
            }
            let what = format!("`{}`: weir has no variables", directive.line());
            context.report.lost(directive, what, "write what is meant where it is used");
        }
    }
}

fn returned(
    context: &mut Context<'_>,
    directive: &Directive,
    base: &Condition,
    variables: &Variables,
    out: &mut Rewritten,
) {
    let (code, target) = match directive.arguments.as_slice() {
        [one] if one.starts_with("http://") || one.starts_with("https://") || one.starts_with('$') => {
            (302, one.as_str())
        }
        [code] => (code.parse().unwrap_or(0_u16), ""),
        [code, rest @ ..] => (code.parse().unwrap_or(0_u16), rest.first().map_or("", String::as_str)),
        [] => (0, ""),
    };
    if REDIRECTS.contains(&code) && !target.is_empty() {
        let routes = redirect(base, variables, target, code);
        match routes {
            Some(routes) => {
                directive.told();
                out.routes.extend(routes);
            }
            None => {
                let what = format!("`{}`: weir cannot write this address; 503 is answered", directive.line());
                context.report.lost(directive, what, "write it with $path, $query, $host and groups of the expression");
                out.routes.push(fail(base, 503, directive));
            }
        }
        return;
    }
    if STATUSES.contains(&code) && target.is_empty() {
        directive.told();
        let mut route = base.route();
        route.raw("fail", code.to_string());
        return out.routes.push(route);
    }
    let is_refusal = matches!(code, 400..=499);
    let status = if is_refusal { 403 } else { 503 };
    let what = format!("`{}`: weir cannot answer so; {status} is answered in its place", directive.line());
    let remedy = "serve a file for a text; weir answers 403, 404, 410, 451, 500 and 503 by themselves";
    if is_refusal && target.is_empty() {
        context.report.refused(directive, what, remedy);
    } else {
        context.report.lost(directive, what, remedy);
    }
    out.routes.push(fail(base, status, directive));
}

fn fail(base: &Condition, status: u16, directive: &Directive) -> Table {
    let mut route = base.route();
    route.comment(format!("In place of {}: {}", directive.place, directive.line()));
    route.raw("fail", status.to_string());
    route
}

/// Routes that redirect; two if the scheme of the request counts.
fn redirect(base: &Condition, variables: &Variables, target: &str, status: u16) -> Option<Vec<Table>> {
    let schemes: Vec<Option<&'static str>> = if target.contains("$scheme") && variables.scheme.is_none() {
        vec![Some("http"), Some("https")]
    } else {
        vec![None]
    };
    let mut routes = Vec::new();
    for scheme in schemes {
        let variables = Variables { scheme: scheme.or(variables.scheme), ..variables.clone() };
        let address = templates::address(&variables.pieces(target).ok()?)?;
        let mut base = base.clone();
        if let Some(scheme) = scheme {
            base = base.with_key("scheme", crate::document::quoted(scheme));
        }
        let mut route = base.route();
        route.text("redirect", &address);
        if status != 301 {
            route.raw("status", status.to_string());
        }
        routes.push(route);
    }
    Some(routes)
}

fn rewrite(
    context: &mut Context<'_>,
    directive: &Directive,
    base: &Condition,
    variables: &Variables,
    inner: Option<&str>,
    routes: &mut Vec<Table>,
) {
    match rewritten(directive, base, variables, inner) {
        Some(made) => {
            directive.told();
            routes.extend(made);
        }
        None => {
            let what = format!("`{}` cannot be said by a route", directive.line());
            context.report.lost(directive, what, "write a [[host.route]] with regex, and map or redirect");
        }
    }
}

/// The routes of a `rewrite`; none if weir cannot write them.
fn rewritten(
    directive: &Directive,
    base: &Condition,
    variables: &Variables,
    inner: Option<&str>,
) -> Option<Vec<Table>> {
    let (pattern, target, flag) = (directive.argument(0), directive.argument(1), directive.argument(2));
    let expression = patterns::expression(pattern, false)?;
    let base = base.with_regex(&expression);
    let mut own = variables.clone();
    own.first_is_path = patterns::captures_all(pattern);
    let keeps_query = !target.ends_with('?');
    let bare = target.trim_end_matches('?');
    let mut pieces = own.pieces(bare).ok()?;
    // Groups that are not there are empty; weir refuses them.
    let groups = patterns::groups(&expression);
    if pieces.iter().any(|piece| matches!(piece, Piece::Capture(number) if *number > groups)) {
        return None;
    }
    let has_query = bare.contains('?');
    if keeps_query && has_query && !bare.contains("$args") && !bare.contains("$query_string") {
        pieces.extend([Piece::Text("&".to_owned()), Piece::Args]);
    }
    let is_address = ["http://", "https://", "$scheme"].iter().any(|begin| bare.starts_with(begin));
    if is_address || matches!(flag, "redirect" | "permanent") {
        if keeps_query && !has_query {
            pieces.push(Piece::Query);
        }
        let mut route = base.route();
        route.text("redirect", &templates::address(&pieces)?);
        if flag != "permanent" {
            route.raw("status", "302");
        }
        return Some(vec![route]);
    }
    let inner = inner.filter(|_| flag == "break");
    if let Some(inner) = inner {
        pieces.insert(0, Piece::Text(inner.to_owned()));
    }
    let mut path = templates::path(&pieces)?;
    if !keeps_query && !has_query {
        path.push('?');
    }
    let mut routes = Vec::new();
    if path != "$path" {
        let mut route = base.route();
        route.text("map", &path);
        routes.push(route);
    }
    if let Some(inner) = inner {
        let at_inner = Condition { path: Some(("prefix", inner.to_owned())), ..Condition::default() };
        let mut route = at_inner.route();
        route.raw("pass", "true");
        routes.push(route);
    }
    Some(routes)
}

fn tested(
    context: &mut Context<'_>,
    directive: &Directive,
    base: &Condition,
    variables: &mut Variables,
    out: &mut Rewritten,
) {
    let test = conditions::read(&directive.arguments, base);
    directive.told();
    let children = directive.children();
    match test {
        Some(Test::Any(conditions)) => {
            for condition in &conditions {
                let mut own = variables.clone();
                let read = read(context, children, condition, &mut own, None);
                out.routes.extend(read.routes);
                out.refused = out.refused.take().or(read.refused);
            }
        }
        Some(Test::NoFile(counts_directories)) => no_file(context, children, counts_directories, base, variables, out),
        None => {
            let what = format!("`if {}`: weir's routes have no such condition", directive.arguments.join(" "));
            let refuses = children.iter().any(|child| child.name == "return" && child.argument(0).starts_with('4'));
            let remedy = "write a [[host.route]] with the conditions of docs/how-to/routes.md";
            if refuses {
                context.report.refused(directive, what, remedy);
                out.refuse(directive);
            } else {
                context.report.lost(directive, what, remedy);
            }
            children.iter().for_each(Directive::told);
        }
    }
}

/// `if (!-e $request_filename)`: the file, or else what it is rewritten to.
fn no_file(
    context: &mut Context<'_>,
    children: &[Directive],
    counts_directories: bool,
    base: &Condition,
    variables: &Variables,
    out: &mut Rewritten,
) {
    for child in children.iter().filter(|child| !["rewrite", "return", "break"].contains(&child.name.as_str())) {
        let what = format!("`{}` within a test for a file cannot be said", child.line());
        context.report.lost(child, what, "write a [[host.route]] with try_files");
    }
    let mut tried = vec!["$path".to_owned()];
    if counts_directories {
        tried.push("$path/".to_owned());
    }
    let Some(child) = children.iter().find(|child| ["rewrite", "return"].contains(&child.name.as_str())) else {
        return;
    };
    let mut last = None;
    let mut condition = base.clone();
    if child.name == "return" && child.argument(0) == "404" {
        last = Some("=404".to_owned());
    } else if child.name == "rewrite" && !matches!(child.argument(2), "redirect" | "permanent") {
        let pattern = child.argument(0);
        let mut own = variables.clone();
        own.first_is_path = patterns::captures_all(pattern);
        condition = patterns::expression(pattern, false).map_or(condition, |text| base.with_regex(&text));
        if own.first_is_path {
            condition = base.clone();
        }
        let bare = child.argument(1).trim_end_matches('?');
        last = own.pieces(bare).ok().and_then(|mut pieces| {
            if bare.contains('?') && bare == child.argument(1) && !bare.contains("$args") {
                pieces.extend([Piece::Text("&".to_owned()), Piece::Args]);
            }
            templates::path(&pieces)
        });
    }
    match last {
        Some(last) => {
            children.iter().for_each(Directive::told);
            tried.push(last);
            let mut route = condition.route();
            route.list("try_files", &tried);
            out.routes.push(route);
        }
        None => {
            let what = format!("`{}` where no file is cannot be said", child.line());
            context.report.lost(child, what, "write a [[host.route]] with try_files");
            children.iter().for_each(Directive::told);
        }
    }
}

/// The route of a `try_files`; none if weir does the same without one.
pub(crate) fn try_files(
    context: &mut Context<'_>,
    directive: &Directive,
    base: &Condition,
    variables: &Variables,
    named: &Named,
) -> Option<Table> {
    directive.told();
    let mut tried: Vec<String> = Vec::new();
    let last = directive.arguments.len().saturating_sub(1);
    for (number, argument) in directive.arguments.iter().enumerate() {
        let candidate = if let Some(code) = argument.strip_prefix('=') {
            let status = code.parse().ok().filter(|code| STATUSES.contains(code));
            Some(format!("={}", status.unwrap_or(404)))
        } else if argument.starts_with('@') {
            named.get(argument.as_str()).and_then(|pieces| templates::path(pieces))
        } else {
            variables.pieces(argument).ok().and_then(|pieces| templates::path(&pieces))
        };
        match candidate {
            // A file that stands twice is looked for once.
            Some(candidate) if number == last || !tried.contains(&candidate) => tried.push(candidate),
            Some(_) => {}
            None => {
                let what = format!("`{argument}` of `{}` cannot be said", directive.line());
                context.report.lost(directive, what, "write a path with $path, or a status such as =404");
                if number == last {
                    tried.push("=404".to_owned());
                }
            }
        }
    }
    if tried.len() > CANDIDATES_MAX {
        let what = format!("`{}` tries more than {CANDIDATES_MAX} files", directive.line());
        context.report.lost(directive, what, "leave some of them away");
        return None;
    }
    if tried.first().is_some_and(|first| first.starts_with('=')) {
        return None;
    }
    let is_plain = tried.iter().all(|one| ["$path", "$path/", "=404"].contains(&one.as_str()));
    if is_plain {
        return None;
    }
    let mut route = base.route();
    route.raw("try_files", list(&tried));
    Some(route)
}
