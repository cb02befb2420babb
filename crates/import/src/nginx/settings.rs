//! What a server or a location of nginx says of fields, access, passwords, rates and pages.

use super::context::Context;
use super::scope::Scope;
use super::variables::Variables;
use crate::access::{Network, Rule, first_counts};
use crate::directive::Directive;
use crate::document::{Table, inline, quoted};
use crate::files::{Entry, join};
use crate::headers::{self, Fields};
use crate::templates::file_below;
use crate::{units, users};

/// Errors whose page weir lets a configuration choose.
const PAGES: [u16; 15] = [400, 401, 403, 404, 405, 410, 412, 414, 416, 429, 451, 500, 502, 503, 504];

/// Where a directive has to stand to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The server, and what is around it.
    Host,
    /// A location alone.
    Location,
}

fn found<'t>(scope: &Scope<'t>, of: Of, name: &str) -> Vec<&'t Directive> {
    match of {
        Of::Host => scope.of_host(name),
        Of::Location => scope.own(name),
    }
}

/// Adds all of them to a table.
pub(crate) fn write(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, variables: &Variables, table: &mut Table) {
    fields(context, scope, of, variables).write(table);
    access(context, scope, of, table);
    auth(context, scope, of, table);
    client_certificates(context, scope, of, table);
    rate(context, scope, of, table);
    pages(context, scope, of, variables, table);
}

fn fields(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, variables: &Variables) -> Fields {
    let mut fields = Fields::default();
    for directive in found(scope, of, "expires") {
        expires(context, directive, &mut fields);
    }
    for directive in found(scope, of, "add_header") {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let Ok(value) = variables.text(value) else {
            let what = format!("`{}`: weir sets fields to fixed texts", directive.line());
            context.report.lost(directive, what, "let the application set it, or write a fixed value");
            continue;
        };
        directive.told();
        if value.is_empty() {
            continue;
        }
        match headers::problem(name, &value) {
            Some(why) => context.report.lost(directive, format!("`{name}` cannot be set: {why}"), "leave it to weir"),
            None => fields.set(name, value.trim()),
        }
    }
    for name in ["proxy_hide_header", "fastcgi_hide_header", "uwsgi_hide_header", "scgi_hide_header"] {
        for directive in found(scope, of, name) {
            let field = directive.argument(0);
            if headers::is_removable(field) {
                directive.told();
                if !fields.set.iter().any(|(own, _)| own.eq_ignore_ascii_case(field)) {
                    fields.remove(field);
                }
            } else {
                context.report.lost(directive, format!("`{field}` cannot be taken out"), "leave it to weir");
            }
        }
    }
    fields
}

fn expires(context: &mut Context<'_>, directive: &Directive, fields: &mut Fields) {
    let argument = directive.argument(0);
    let value = match argument {
        "off" => {
            directive.told();
            return;
        }
        "epoch" => Some("no-cache".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        negative if negative.starts_with('-') => Some("no-cache".to_owned()),
        time => units::milliseconds(time).map(|time| format!("max-age={}", time / 1000)),
    };
    match value.filter(|_| directive.arguments.len() == 1) {
        Some(value) => {
            directive.told();
            fields.set("Cache-Control", &value);
        }
        None => {
            let what = format!("`{}` cannot be said", directive.line());
            context.report.lost(directive, what, "write set_headers = { Cache-Control = \"max-age=SECONDS\" }");
        }
    }
}

fn access(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, table: &mut Table) {
    let allowed = found(scope, of, "allow");
    let denied = found(scope, of, "deny");
    if allowed.is_empty() && denied.is_empty() {
        return;
    }
    // In the order of the file, of the block that has both.
    let mut directives: Vec<&Directive> = allowed.into_iter().chain(denied).collect();
    directives.sort_by(|one, other| one.place.cmp(&other.place));
    let mut rules = Vec::new();
    for directive in directives {
        let lets_in = directive.name == "allow";
        match Network::read(directive.argument(0)) {
            Some(network) => {
                directive.told();
                rules.push(Rule { lets_in, network });
            }
            None => {
                let what = format!("`{}` names no network", directive.line());
                context.report.refused(directive, what, "write the networks in `allow` and `deny`");
                refuse(table, directive);
                return;
            }
        }
    }
    let (allow, deny) = first_counts(&rules, true);
    if allow.iter().any(|network| network != "all") || deny.is_empty() {
        table.list("allow", &allow);
    }
    let is_all_others = deny == ["all"] && table.has("allow");
    if !deny.is_empty() && !is_all_others {
        table.list("deny", &deny);
    }
}

/// Keeps everyone out, where nginx would have asked something that weir cannot.
pub(crate) fn refuse(table: &mut Table, directive: &Directive) {
    table.comment(format!("REFUSED, as this is not carried over: {}:{}", directive.place, directive.line()));
    table.entries.retain(|(key, _)| key != "allow");
    table.list("deny", &["all"]);
}

fn auth(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, table: &mut Table) {
    let Some(directive) = found(scope, of, "auth_basic").pop() else { return };
    if directive.argument(0) == "off" {
        directive.told();
        table.raw("auth", "false");
        return;
    }
    if let Some(satisfy) = scope.one("satisfy").filter(|satisfy| satisfy.argument(0) == "any") {
        let what = "`satisfy any`: weir asks for the network and for the password";
        context.report.lost(satisfy, what, "leave `allow` or `auth` away");
    }
    let file = scope.one("auth_basic_user_file");
    file.iter().for_each(|file| file.told());
    let path = file.map(|file| join(&context.folder, file.argument(0)));
    let why = match &path {
        None => Some("it names no file of users".to_owned()),
        Some(path) if path.contains('$') => Some("the file of users has a variable in its name".to_owned()),
        Some(path) => match context.files.read(path) {
            None => Some(format!("{path} cannot be read")),
            Some(text) => users::problem(&text).map(|why| format!("{path}: {why}")),
        },
    };
    match (why, path) {
        (None, Some(path)) => {
            directive.told();
            let realm = users::realm(directive.argument(0));
            let entries = [("realm".to_owned(), quoted(&realm)), ("users".to_owned(), quoted(&path))];
            table.raw("auth", inline(entries.into_iter()));
        }
        (why, _) => {
            let what =
                format!("the password of `{}` cannot be asked for: {}", directive.line(), why.unwrap_or_default());
            context.report.refused(directive, what, users::REMEDY);
            refuse(table, directive);
        }
    }
}

/// What TLS asks of clients. Another kind, such as `optional_no_ca`, stays untold, so that its paths are refused.
fn client_certificates(context: &Context<'_>, scope: &Scope<'_>, of: Of, table: &mut Table) {
    let one = |name| found(scope, of, name).last().copied();
    let (asks, authority, revoked) = (one("ssl_verify_client"), one("ssl_client_certificate"), one("ssl_crl"));
    let word = match asks.map_or("off", |asks| asks.argument(0)) {
        "on" => Some("require"),
        "optional" => Some("ask"),
        "off" => None,
        _ => return,
    };
    if let (Some(word), Some(authority)) = (word, authority) {
        table.text("client_ca", &join(&context.folder, authority.argument(0)));
        table.text("client_certificate", word);
        if let Some(revoked) = revoked {
            table.text("client_crl", &join(&context.folder, revoked.argument(0)));
        }
    }
    if word.is_none() || authority.is_some() {
        [asks, authority, revoked].into_iter().flatten().for_each(Directive::told);
    }
}

fn rate(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, table: &mut Table) {
    for directive in found(scope, of, "limit_req") {
        let argument = |name: &str| directive.arguments.iter().find_map(|text| text.strip_prefix(name));
        let zone = argument("zone=").and_then(|name| context.rates.get(name)).copied();
        match zone {
            Some((requests, per)) => {
                directive.told();
                let burst: u64 = argument("burst=").and_then(|burst| burst.parse().ok()).unwrap_or(0);
                let burst = (burst + 1).min(1_000_000);
                let rate = format!("{{ requests = {requests}, per = {}, burst = {burst} }}", quoted(per));
                table.raw("rate", rate);
            }
            None => {
                let what = format!("`{}`: weir counts the requests of each network", directive.line());
                let remedy = "write rate = { requests = N, per = \"1 s\", burst = N }";
                context.report.lost(directive, what, remedy);
            }
        }
    }
}

fn pages(context: &mut Context<'_>, scope: &Scope<'_>, of: Of, variables: &Variables, table: &mut Table) {
    let mut pages: Vec<(String, String)> = Vec::new();
    for directive in found(scope, of, "error_page") {
        let Some((target, codes)) = directive.arguments.split_last() else { continue };
        let changes_status = codes.iter().any(|code| code.starts_with('='));
        let root = page_root(scope, target).or_else(|| variables.root.clone());
        let file = root.and_then(|root| file_below(&root, target));
        let is_there = file.as_ref().is_some_and(|file| context.files.entry(file) == Some(Entry::File));
        let is_plain = target.starts_with('/') && !target.contains(['$', '?']);
        match file.filter(|_| is_there && is_plain && !changes_status) {
            Some(file) => {
                directive.told();
                for code in codes {
                    match code.parse::<u16>() {
                        Ok(status) if PAGES.contains(&status) => {
                            pages.retain(|(own, _)| own != code);
                            pages.push((code.clone(), quoted(&file)));
                        }
                        _ => context.report.lost(
                            directive,
                            format!("weir answers no {code} for a path"),
                            "leave it away",
                        ),
                    }
                }
            }
            None => {
                let what = format!("`{}`: the page of an error is a file", directive.line());
                let remedy = "name one in error_pages; `try_files` has a page in place of a missing one";
                context.report.lost(directive, what, remedy);
            }
        }
    }
    if !pages.is_empty() {
        table.raw("error_pages", inline(pages.into_iter()));
    }
}

/// The root of the location that is for a page alone.
fn page_root(scope: &Scope<'_>, target: &str) -> Option<String> {
    let locations = scope.innermost().iter().filter(|directive| directive.name == "location");
    let mut own = locations.filter(|location| location.arguments == ["=", target]);
    let root = own.next()?.children().iter().find(|directive| directive.name == "root")?;
    Some(root.argument(0).to_owned()).filter(|root| root.starts_with('/'))
}
