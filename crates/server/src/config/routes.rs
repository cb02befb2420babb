//! The routes of a host: `[[host.route]]`, in the order of the file.

use super::conditions;
use super::said::{REDIRECTS, STATUSES, listed};
use super::table::{Table, Value};
use super::{header, user_directories};
use crate::config::options::Options;
use crate::routing::route_fields::RouteFields;
use crate::routing::routes::location::Location;
use crate::routing::routes::mapping::Mapping;
use crate::routing::routes::path_test::PathTest;
use crate::routing::routes::pieces::BadTemplate;
use crate::routing::routes::route::{Act, Candidate, ROUTES_MAX, Route};
use crate::routing::rules::Rules;
use crate::routing::settings::Said;
use crate::site::settings::SiteKind;
use crate::upstream::script_pool::ScriptWay;

/// Files that one route tries.
const CANDIDATES_MAX: usize = 16;
/// What a route does, by its keys: one of them.
const ACTS: [&str; 7] = ["pass", "map", "redirect", "fail", "user", "try_files", "https"];
/// What it may set beside that.
const SETS: [&str; 3] = ["set_headers", "set_error_headers", "remove_headers"];

/// Where a route is in the file.
#[derive(Debug)]
pub(super) struct RoutePlace {
    pub(super) host: u16,
    pub(super) route: usize,
    pub(super) at: usize,
}

/// What a host says in its routes.
pub(super) fn read(
    table: &Table<'_, '_>,
    number: u16,
    kind: &SiteKind,
    options: &Options,
    (rules, places): (&mut Rules, &mut Vec<RoutePlace>),
) -> (Vec<Route>, Vec<RouteFields>) {
    let tables = table.get("route").map(|value| value.tables("[[host.route]]")).unwrap_or_default();
    if tables.len() > ROUTES_MAX {
        let what = format!("the host has {} routes", tables.len());
        table.wrong(what, format!("at most {ROUTES_MAX} are possible"));
    }
    let (mut routes, mut fields) = (Vec::new(), Vec::new());
    for table in tables.iter().take(ROUTES_MAX) {
        let read = read_route(table, kind, options, rules);
        table.finish();
        let Some((route, said)) = read else { continue };
        places.push(RoutePlace { host: number, route: routes.len(), at: table.at() });
        fields.push(RouteFields::new(&said, &route.statuses, route.vary.as_deref()));
        routes.push(route);
    }
    (routes, fields)
}

fn read_route(table: &Table<'_, '_>, kind: &SiteKind, options: &Options, rules: &mut Rules) -> Option<(Route, Said)> {
    let path = conditions::path(table);
    let conditions = conditions::read(table);
    let mut said = Said::default();
    header::read(table, &mut said);
    let sets_fields = !(said.set.is_empty() && said.set_of_errors.is_empty() && said.remove.is_empty());
    let statuses = statuses(table);
    let act = act(table, path.as_ref().ok()?.as_ref(), kind, options, rules);
    let has_key = ACTS.iter().any(|key| table.get(key).is_some());
    if !has_key && !SETS.iter().any(|key| table.get(key).is_some()) {
        let what = "the route does not say what it does";
        table.wrong(what, format!("add one of {}, or {}", ACTS.join(", "), SETS.join(", ")));
        return None;
    }
    if let Some(status) = table.get("status").filter(|_| has_key && !statuses.is_empty()) {
        status.wrong("a list of statuses is for fields of responses", "give these fields a route of their own");
    }
    let (path, conditions) = (path.ok()?, conditions?);
    let vary = Route::vary_of(&conditions);
    let act = if has_key { act? } else { Act::Set };
    let line = table.line();
    Some((Route { path, conditions, act, sets_fields, statuses, vary, line }, said))
}

/// The statuses of responses that fields are set in.
fn statuses(table: &Table<'_, '_>) -> Vec<u16> {
    let Some(value) = table.get("status").filter(Value::is_list) else { return Vec::new() };
    let items = value.items();
    if items.is_empty() {
        value.wrong("the list has no status", "leave it away for all responses");
    }
    // The bounds are those of the type.
    items.iter().filter_map(|item| item.integer(200..=599)).map(|status| status as u16).collect()
}

/// What the route does; none without a word on it, or with a wrong one.
fn act(
    table: &Table<'_, '_>,
    path: Option<&PathTest>,
    kind: &SiteKind,
    options: &Options,
    rules: &mut Rules,
) -> Option<Act> {
    let given: Vec<_> = ACTS.into_iter().filter_map(|key| Some((key, table.get(key)?))).collect();
    if let [(first, _), (other, value), ..] = given.as_slice() {
        value.wrong(format!("`{first}` and `{other}` do not go together"), "give each a route of its own");
        return None;
    }
    let (key, value) = given.first()?;
    if *key != "user" {
        for way in ScriptWay::ALL {
            if let Some(scripts) = table.misplaced(way.key()) {
                let what = format!("`{}` in a route is for the directories of users", way.key());
                scripts.wrong(what, "write it in a [[host.path]] with prefix = \"/...\", or add `user` to the route");
            }
        }
    }
    let status = table.get("status").filter(|status| !status.is_list());
    if let Some(status) = status.as_ref().filter(|_| !["redirect", "https"].contains(key)) {
        status.wrong("a number is the status of a redirect", "write fail = NUMBER, or status = [NUMBER] for fields");
    }
    let status = |otherwise: u16| match &status {
        // The bounds fit.
        Some(status) => status.integer(300..=399).map(|number| number as u16).filter(|number| {
            let is_known = REDIRECTS.contains(number);
            if !is_known {
                status.wrong(
                    format!("{number} is no status of a redirect"),
                    format!("write one of {}", listed(&REDIRECTS)),
                );
            }
            is_known
        }),
        None => Some(otherwise),
    };
    match *key {
        "pass" => is_true(value).then_some(Act::Pass),
        "map" => good(value, Mapping::read(value.string()?, path)).map(Act::Map),
        "redirect" => {
            let to = good(value, Location::read(value.string()?, path))?;
            Some(Act::Redirect { status: status(301)?, to })
        }
        "fail" => {
            let number = value.integer(400..=599)? as u16;
            if !STATUSES.contains(&number) {
                let remedy = format!("write one of {}", listed(&STATUSES));
                value.wrong(format!("{number} cannot be answered just so"), remedy);
            }
            Some(Act::Fail(number))
        }
        "user" => user_directories::read(table, value, kind, rules),
        "try_files" => candidates(value, path).map(Act::Try),
        _ => Some(Act::Https { status: status(308)?, port: https_port(value, options)? }),
    }
}

fn good<T>(value: &Value<'_, '_>, read: Result<T, BadTemplate>) -> Option<T> {
    read.map_err(|error| value.wrong(format!("\"{}\" cannot be used here", value.text()), error.to_string())).ok()
}

fn is_true(value: &Value<'_, '_>) -> bool {
    let is_true = value.boolean();
    if is_true == Some(false) {
        value.wrong("`false` says nothing here", "leave the route away");
    }
    is_true == Some(true)
}

fn candidates(value: &Value<'_, '_>, path: Option<&PathTest>) -> Option<Vec<Candidate>> {
    let items = value.strings();
    if items.is_empty() || items.len() > CANDIDATES_MAX {
        let remedy = format!("give 1 to {CANDIDATES_MAX} files, such as [\"$path\", \"/index.html\"]");
        value.wrong(format!("there are {} files to try", items.len()), remedy);
        return None;
    }
    let mut candidates = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let Some(status) = item.text().strip_prefix('=') else {
            candidates.push(Candidate::File(good(item, Mapping::read(item.text(), path))?));
            continue;
        };
        match status.parse() {
            Ok(status) if STATUSES.contains(&status) && place + 1 == items.len() && place > 0 => {
                candidates.push(Candidate::Status(status));
            }
            _ => {
                let remedy = format!("write one of {} behind = at the end of the list", listed(&STATUSES));
                item.wrong(format!("\"{}\" is no status for when no file is there", item.text()), remedy);
                return None;
            }
        }
    }
    Some(candidates)
}

/// The port that clients are sent to; none within is the usual one.
fn https_port(value: &Value<'_, '_>, options: &Options) -> Option<Option<u16>> {
    const USUAL: u16 = 443;
    if options.certificates.is_empty() && options.obtain.is_none() {
        value.wrong(
            "TLS is spoken nowhere here, so that the redirect would lead to nothing",
            "add certificates in [tls], or [acme]; behind a proxy that speaks TLS let that redirect",
        );
        return None;
    }
    let port = if value.is_integer() {
        Some(value.integer(1..=65_535)? as u16)
    } else {
        if !is_true(value) {
            return None;
        }
        let ports = options.listen.iter().filter_map(|addr| addr.to_string().rsplit_once(':')?.1.parse().ok());
        ports.into_iter().find(|port| *port > 0)
    };
    Some(port.filter(|port| *port != USUAL))
}
