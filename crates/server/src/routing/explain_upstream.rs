//! Tells which servers elsewhere answer a request, and what they are asked for.

use super::explanation::{RouteAnswer, RouteScript, RouteServer, RouteUpstream};
use crate::http::target::Target;
use crate::upstream::common::Common;
use crate::upstream::gateway::script::{self, Scratch, Unsendable};
use crate::upstream::gateway::settings::{Gateway, Split};
use crate::upstream::scripts::{self, Presence};
use crate::upstream::settings::{LimitBy, Speaks, UpstreamRules, UpstreamServer};
use std::cell::RefCell;

/// What an upstream does with a request for a path; with `is_other` the target of the request is another one.
pub(super) fn answer(common: &Common, found: &Target<'_>, is_other: bool, target: &str) -> RouteAnswer {
    let target = common.target_for(found, is_other).unwrap_or_else(|| target.to_owned());
    let mut told = told(&common.rules, target);
    let what = match &common.rules.scripts {
        Some(pool) => format!("a script answers by {} in the pool {}", pool.way, told.name),
        None => format!("the upstream {} answers", told.name),
    };
    let mut answer = RouteAnswer { what, ..RouteAnswer::default() };
    if let Some(gateway) = &common.gateway {
        let (script, refusal) = script_of(gateway, &told.target);
        told.script = script;
        answer.file = told.script.as_ref().and_then(|script| script.file.clone());
        if let Some(refusal) = refusal {
            (answer.status, answer.what) = (Some(refusal.status()), refusal.to_string());
        }
    }
    answer.upstream = Some(told);
    answer
}

/// What a table says of an upstream.
pub(super) fn said(rules: &UpstreamRules) -> String {
    if rules.php.is_some() {
        return format!("php {}", rules.name);
    }
    if let Some(pool) = &rules.scripts {
        return format!("{} {}", pool.way.key(), rules.name);
    }
    let word = match rules.speaks {
        Speaks::Http1 | Speaks::Http2 | Speaks::Negotiated => "proxy",
        Speaks::FastCgi => "fastcgi",
        Speaks::Scgi => "scgi",
        Speaks::Uwsgi => "uwsgi",
    };
    let others = match rules.servers.len() {
        ..=1 => String::new(),
        servers => format!(" and {} more", servers - 1),
    };
    format!("{word} {}{others}", rules.name)
}

fn told(rules: &UpstreamRules, target: String) -> RouteUpstream {
    let server = |server: &UpstreamServer| RouteServer {
        place: match (&rules.php, &rules.scripts) {
            (Some(_), _) => "php-fpm of this server".to_owned(),
            (None, Some(pool)) => format!("{} of this server", counted(pool.workers)),
            (None, None) => server.place.to_string(),
        },
        weight: server.weight,
        is_secure: server.tls_name.is_some(),
    };
    RouteUpstream {
        name: rules.name.clone(),
        speaks: match rules.speaks {
            _ if rules.scripts.is_some() => rules.scripts.as_ref().map_or("", |pool| pool.way.name()),
            Speaks::Http1 => "HTTP/1.1",
            Speaks::Http2 => "HTTP/2",
            Speaks::Negotiated => "HTTP/2 or HTTP/1.1",
            Speaks::FastCgi => "FastCGI",
            Speaks::Scgi => "SCGI",
            Speaks::Uwsgi => "uwsgi",
        },
        servers: rules.servers.iter().map(server).collect(),
        connections_max: rules.pool.connections_max,
        is_measured: rules.pool.limit == LimitBy::Measured,
        queue_max: rules.pool.queue_max,
        target,
        script: None,
    }
}

fn counted(workers: u32) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

/// The script that a target names, and why none runs.
fn script_of(gateway: &Gateway, target: &str) -> (Option<RouteScript>, Option<Unsendable>) {
    let looked = RefCell::new(None);
    let mut exists = |name: &[u8]| {
        let (path, presence) = scripts::look(&gateway.root, name);
        let is_there = presence != Presence::Missing;
        looked.replace(Some((path, presence)));
        is_there
    };
    let mut scratch = Scratch::default();
    let found = script::find(target, gateway, &mut exists, &mut scratch);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut script, refusal) = match found {
        Ok(script) => {
            let (name, path_info) = (text(script.name), text(script.info));
            (RouteScript { name, path_info, ..RouteScript::default() }, None)
        }
        Err(why) => (RouteScript::default(), Some(why)),
    };
    if let Some((path, presence)) = looked.into_inner() {
        script.file = Some(path.display().to_string());
        script.exists = match presence {
            Presence::There => Some(true),
            Presence::Missing => Some(false),
            Presence::Elsewhere => None,
        };
    } else if refusal.is_some() || !matches!(gateway.split, Split::Application { .. }) {
        return (None, refusal);
    }
    (Some(script), refusal)
}
