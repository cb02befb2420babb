//! How a watched request is routed, told by the functions that tell how any request is ([`super::explain`]), without what
//! may be a secret in it.

use super::explanation::{RouteExplanation, RouteStep, RouteTable};
use super::router::Router;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::telemetry::watching::{RoutesSeen, ScriptSeen, Underway, address_shown, text_shown};
use std::net::IpAddr;

/// Conditions whose values are told. Fields, cookies and parameters may hold secrets.
const TOLD: [&str; 5] = ["method ", "scheme ", "host ", "address ", "time "];

impl Router {
    /// How many decisions the rules of the policy have made; none where that cannot be told without a wait.
    #[cold]
    pub(crate) fn decisions(&self) -> Option<u64> {
        let policy_client = match self {
            Self::Plain(site) => site.policy_client(),
            Self::Hosts(hosts) => hosts.share.policy_client.as_ref(),
        };
        policy_client.map_or(Some(0), |policy_client| policy_client.decisions())
    }

    /// Tells how a request is routed; the names of routes and tables by which filters choose.
    #[cold]
    pub(crate) fn watch_routes(
        &mut self,
        request: &Request<'_>,
        socket: (IpAddr, bool),
        clock: &Clock,
        underway: &mut Underway,
    ) -> Vec<String> {
        let Self::Hosts(hosts) = self else {
            let answer = "one directory answers all requests".to_owned();
            underway.routed(RoutesSeen { answer, ..RoutesSeen::default() }, None, None);
            return Vec::new();
        };
        let told = hosts.explain(request, socket, clock);
        let routes = told.routes.iter().filter(|step| step.holds).map(|step| format!("route:{}", step.number));
        let tables =
            told.tables.iter().filter_map(|table| Some(text_shown(table.table.rsplit_once(' ')?.1.as_bytes())));
        let names = routes.chain(tables).collect();
        let upstream = told.answer.upstream.as_ref().map(|upstream| text_shown(upstream.name.as_bytes()));
        let script =
            told.answer.upstream.as_ref().and_then(|upstream| upstream.script.as_ref()).map(|script| ScriptSeen {
                name: address_shown(script.name.as_bytes()),
                path_info: address_shown(script.path_info.as_bytes()),
                file: script.file.as_deref().map(|file| address_shown(file.as_bytes())),
                output: Vec::new(),
            });
        underway.routed(seen(&told), script, upstream);
        names
    }
}

fn seen(told: &RouteExplanation) -> RoutesSeen {
    let host = told.host.as_ref().map(|host| format!("{} found by {}", host.name, host.found_by));
    let location = told.answer.location.as_deref().map(|to| format!(" to {}", address_shown(to.as_bytes())));
    let file = told.answer.file.as_deref().map(|file| format!(": {}", address_shown(file.as_bytes())));
    let answer = text_shown(told.answer.what.as_bytes());
    RoutesSeen {
        host: host.map(|host| text_shown(host.as_bytes())),
        routes: told.routes.iter().map(step).collect(),
        mapped: told.mapped.as_deref().map(|mapped| address_shown(mapped.as_bytes())),
        tables: told.tables.iter().map(table).collect(),
        limits: told.limits.iter().map(|limit| text_shown(limit.as_bytes())).collect(),
        answer: format!("{answer}{}{}", location.unwrap_or_default(), file.unwrap_or_default()),
    }
}

/// A route, and why it holds or not.
fn step(step: &RouteStep) -> String {
    let RouteStep { number, line, act, .. } = step;
    let begin = format!("route {number} ({act}, line {line})");
    let Some(condition) = step.condition.as_deref().filter(|_| !step.holds) else {
        // What it did names paths, in quotes, with their queries.
        let did: Vec<String> = step.did.iter().map(|did| address_shown(did.as_bytes())).collect();
        let behind = if did.is_empty() { String::new() } else { format!(": {}", did.join("; ")) };
        return format!("{begin} holds{behind}");
    };
    let actual = step.actual.as_deref().unwrap_or_default();
    let actual = match condition {
        _ if condition.starts_with("path ") => address_shown(actual.trim_matches('"').as_bytes()),
        _ if TOLD.iter().any(|word| condition.starts_with(word)) => text_shown(actual.as_bytes()),
        _ => "(hidden)".to_owned(),
    };
    format!("{begin} does not hold: {}, and it is {actual}", text_shown(condition.as_bytes()))
}

fn table(told: &RouteTable) -> String {
    let RouteTable { table, line, of, says } = told;
    let says = if says.is_empty() { "nothing".to_owned() } else { says.join(", ") };
    text_shown(format!("{table} (line {line}, {of}): {says}").as_bytes())
}
