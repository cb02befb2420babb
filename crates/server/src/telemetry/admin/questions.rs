//! Questions about activity, requests and connections at the admin address, and orders to end or mark something: what is
//! asked, and the answer as a status and a text.

use super::connected::{ConnectionId, Stop};
use super::status::View;
use crate::http::query;
use crate::telemetry::activity::shown::{ACTIVITY_HOURS_MAX, ACTIVITY_STEPS_MAX};
use crate::telemetry::recent::Past;
use crate::telemetry::request_filter::RequestFilter;
use std::net::IpAddr;

/// Requests that are told without a number.
const REQUESTS_USUAL: usize = 100;

/// The answer to a question or an order: JSON, or why not with its status.
pub(super) type Answered = Result<String, (u16, String)>;

fn refused<T>(status: u16, words: impl Into<String>) -> Result<T, (u16, String)> {
    Err((status, format!("{}\n", words.into())))
}

fn number<N>(name: &str, value: &str, least: N, most: N) -> Result<N, (u16, String)>
where
    N: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    match value.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => refused(400, format!("{name} is a number from {least} to {most}")),
    }
}

/// `/activity.json?hours=24&steps=120`.
pub(super) fn activity(query: &str, view: &View) -> Answered {
    let Some(kept) = &view.activity else {
        return refused(404, "the server keeps no activity; start it with --activity FILE");
    };
    let (mut hours, mut steps) = (24, 120);
    for (name, value) in query::pairs(query) {
        match name.as_str() {
            "hours" => hours = number("hours", &value, 1, ACTIVITY_HOURS_MAX)?,
            "steps" => steps = number("steps", &value, 1, ACTIVITY_STEPS_MAX)?,
            _ => return refused(400, "there are hours and steps"),
        }
    }
    let shown = kept.shown(hours, steps).map_err(|error| (503, format!("the activity cannot be read: {error}\n")))?;
    let mut json = serde_json::to_value(shown).unwrap_or_default();
    json["writing"] = serde_json::to_value(kept.state()).unwrap_or_default();
    Ok(json.to_string())
}

/// `/requests.json?filter=status%3D5xx&limit=100`.
pub(super) fn requests(query: &str, view: &View) -> Answered {
    let Some(recent) = &view.recent else {
        return refused(404, "the server keeps no history of requests; start it without --history 0");
    };
    let (mut filter, mut limit) = (RequestFilter::default(), REQUESTS_USUAL);
    for (name, value) in query::pairs(query) {
        match name.as_str() {
            "filter" => {
                filter = value.parse::<RequestFilter>().map_err(|error| (400, format!("{error}\n")))?;
                if let Some(key) = filter.key_beside(&Past::KEYS) {
                    return refused(400, format!("the history does not keep the {} of a request", key.name()));
                }
            }
            "limit" => limit = number("limit", &value, 1, usize::MAX)?,
            _ => return refused(400, "there are filter and limit"),
        }
    }
    Ok(recent.json(&filter, limit))
}

/// `/connections.json?client=192.0.2.7`.
pub(super) fn connections(query: &str, view: &View) -> Answered {
    let mut client = None;
    for (name, value) in query::pairs(query) {
        match (name.as_str(), value.parse::<IpAddr>()) {
            ("client", Ok(address)) => client = Some(address),
            ("client", Err(_)) => return refused(400, "client is no address"),
            _ => return refused(400, "there is client"),
        }
    }
    let mut json = serde_json::to_value(view.connected.connections(client)).unwrap_or_default();
    json["may_stop"] = view.rights.stop.into();
    Ok(json.to_string())
}

/// `POST /stop?connection=0-17`, `request=0-17/5` or `client=192.0.2.7`.
pub(super) fn stop(query: &str, view: &View) -> Answered {
    const HOW: &str = "write POST /stop?connection=ID, request=ID/STREAM or client=ADDRESS";
    if !view.rights.stop {
        return refused(403, "nothing may be ended here; start the server with --admin-may stop");
    }
    let mut pairs = query::pairs(query);
    let (Some((name, value)), None) = (pairs.next(), pairs.next()) else { return refused(400, HOW) };
    let id = |text: &str| text.parse::<ConnectionId>().ok();
    let what = match name.as_str() {
        "connection" => id(&value).map(Stop::Connection),
        "request" => value
            .split_once('/')
            .and_then(|(connection, stream)| Some(Stop::Request(id(connection)?, stream.parse().ok()?))),
        "client" => value.parse().ok().map(Stop::Client),
        _ => None,
    };
    let Some(what) = what else { return refused(400, HOW) };
    let stopped = view.connected.stop(what);
    if stopped.connections + stopped.requests + stopped.silent_loops == 0 {
        return refused(404, format!("there is no {name} {value} any more"));
    }
    Ok(serde_json::to_string(&stopped).unwrap_or_default())
}

/// `POST /mark?text=release%201.4`.
pub(super) fn mark(query: &str, view: &View) -> Answered {
    if !view.rights.mark {
        return refused(403, "nothing may be marked here; start the server with --admin-may mark");
    }
    let Some(kept) = &view.activity else {
        return refused(404, "the server keeps no activity; start it with --activity FILE");
    };
    let mut pairs = query::pairs(query);
    match (pairs.next(), pairs.next()) {
        (Some((name, text)), None) if name == "text" && !text.trim().is_empty() => {
            kept.mark_deploy(text.trim()).map_err(|error| (503, format!("the mark was not written: {error}\n")))?;
            Ok("{\"marked\":true}\n".to_owned())
        }
        _ => refused(400, "write POST /mark?text=WORDS, percent-encoded"),
    }
}
