//! Warnings about routes: what is valid, but never holds or leads in a circle.

use super::doubts::{self, HOPS_MAX, Place};
use super::led::{Led, lead};
use super::routes::RoutePlace;
use super::table::Reader;
use crate::config::options::Options;
use crate::routing::routes::path_test::PathTest;
use crate::routing::routes::route::{Act, Route};
use crate::routing::rules::Rules;

/// Looks at the routes of all hosts.
pub(super) fn look(reader: &Reader<'_>, rules: &Rules, (places, tables): (&[RoutePlace], &[Place]), options: &Options) {
    for place in places {
        let routes = &rules.hosts[usize::from(place.host)].routes;
        let route = &routes[place.route];
        if let Some(line) = shadow(routes, place.route) {
            let what = format!("the route never holds: the one in line {line} ends the scan for all that it is for");
            reader.doubt(place.at, what, "put it before that one, or leave one of them away");
        } else if matches!(route.act, Act::Redirect { .. })
            && let Some(sample) = leads_back(rules, place, options)
        {
            let what = format!("the redirect leads back to itself, as for {sample}");
            reader.doubt(place.at, what, "redirect to another path or host, or except the one that it leads to");
        }
        if matches!(route.act, Act::Https { .. }) && options.listen_clear.is_empty() {
            let what = "every address speaks TLS, so that there is nothing to redirect";
            reader.doubt(place.at, what, "add listen_clear = [\":80\"] in [tls], or leave the route away");
        }
    }
    for table in tables {
        let Some((host, number, at)) = table.of_path() else { continue };
        let host = &rules.hosts[usize::from(host)];
        let test = host.labels.get(number).and_then(|(label, _)| path_of(label));
        if let Some(line) = test.and_then(|test| answered(&host.routes, &test)) {
            let what = format!("the table never answers: the route in line {line} does for all of its paths");
            reader.doubt(at, what, "leave one of them away; allow, deny, auth and rate of the table hold all the same");
        }
    }
}

/// The line of a route that ends the scan wherever this one would hold.
fn shadow(routes: &[Route], number: usize) -> Option<usize> {
    // Behind a path that was mapped, a route sees what the ones before it did not.
    let since = routes[..number].iter().rposition(|route| matches!(route.act, Act::Map(_))).map_or(0, |at| at + 1);
    let wanted = &routes[number];
    routes[since..number].iter().find(|route| route.is_final() && covers(route, wanted)).map(|route| route.line)
}

/// Whether one route holds wherever another one does.
fn covers(one: &Route, other: &Route) -> bool {
    let covers_path = match (&one.path, &other.path) {
        (None, _) => true,
        (Some(one), Some(other)) => one.covers(other),
        (Some(_), None) => false,
    };
    let needs = match one.act {
        Act::User { .. } => return false,
        Act::Https { .. } => Some("scheme http".to_owned()),
        _ => None,
    };
    let has: Vec<String> = other.conditions.iter().map(ToString::to_string).collect();
    covers_path && one.conditions.iter().map(ToString::to_string).chain(needs).all(|needed| has.contains(&needed))
}

/// The line of a route that answers all paths of a table, by any way to them.
fn answered(routes: &[Route], test: &PathTest) -> Option<usize> {
    let is_answer = |route: &Route| matches!(route.act, Act::Redirect { .. } | Act::Fail(_));
    let covers = |route: &Route| route.path.as_ref().is_none_or(|path| path.covers(test));
    let at = routes.iter().position(|route| is_answer(route) && route.conditions.is_empty() && covers(route))?;
    // What comes before may end the scan for some of them, and what comes behind may lead to them.
    let may_pass = |route: &Route| route.is_final() && !is_answer(route);
    let may_lead = |route: &Route| matches!(route.act, Act::Map(_) | Act::Try(_));
    let is_passed = routes[..at].iter().any(may_pass) || routes[at..].iter().any(may_lead);
    (!is_passed).then(|| routes[at].line)
}

/// The paths of a table, of its label.
fn path_of(label: &str) -> Option<PathTest> {
    match label.split_once(' ')? {
        ("prefix", text) => Some(PathTest::Prefix(text.to_owned())),
        ("exact", text) => Some(PathTest::Exact(text.to_owned())),
        (_, text) => PathTest::glob(text),
    }
}

/// A path for which a route redirects in a circle, or so often that clients give up.
fn leads_back(rules: &Rules, place: &RoutePlace, options: &Options) -> Option<String> {
    let route = &rules.hosts[usize::from(place.host)].routes[place.route];
    let schemes = doubts::schemes(options);
    for path in samples(route.path.as_ref()) {
        for name in doubts::places_names(rules, place.host) {
            for is_secure in [false, true].into_iter().filter(|is_secure| schemes[usize::from(*is_secure)]) {
                let starts_here = matches!(
                    lead(rules, place.host, (is_secure, &name, path.as_bytes())),
                    Led::Away(by, _) if by == place.route
                );
                let start = (is_secure, name.clone(), path.clone().into_bytes());
                if starts_here && doubts::hops(rules, start, options) == HOPS_MAX {
                    return Some(path);
                }
            }
        }
    }
    None
}

/// Paths that a route is for, or is mostly.
fn samples(test: Option<&PathTest>) -> Vec<String> {
    match test {
        None => vec!["/".to_owned(), "/x".to_owned()],
        Some(PathTest::Prefix(text)) => vec![text.clone(), format!("{}/x", text.trim_end_matches('/'))],
        Some(PathTest::Exact(text)) => vec![text.clone()],
        Some(PathTest::Glob(_, text)) => {
            let plain = text.replace("**", "x").replace(['*', '?'], "x");
            vec![if plain.starts_with('/') { plain } else { format!("/{plain}") }]
        }
        Some(PathTest::Regex(..)) => Vec::new(),
    }
}
