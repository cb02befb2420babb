//! The lines of the stream: JSON, one value a line, as `docs/reference/watch-stream.md` describes them.

use super::bodies::BodiesSeen;
use super::category::WatchCategory;
use super::question::Subscription;
use super::seen::{
    ArmSeen, CacheSeen, FileSeen, HeadSeen, Network, ResponseSeen, RoutesSeen, RulesSeen, ScriptSeen, Seen, StepSeen,
    Timing, is_false,
};
use serde::Serialize;

/// The version of the stream: it is raised where a field changes its meaning or goes.
const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'s> {
    Begin {
        version: u32,
        server: &'static str,
        pid: u32,
        filter: String,
        show: String,
        budget_bytes_per_s: u32,
    },
    Request(Box<RequestLine<'s>>),
    Left(Left),
    End {
        why: &'static str,
        #[serde(flatten)]
        left: Left,
    },
}

#[derive(Serialize)]
struct RequestLine<'s> {
    number: u64,
    at_unix_us: u64,
    session: u64,
    #[serde(skip_serializing_if = "is_false")]
    begun_before: bool,
    method: &'s str,
    target: &'s str,
    status: u16,
    whole_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'s Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<&'s HeadSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<&'s RoutesSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'s CacheSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'s FileSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<&'s ScriptSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<UpstreamLine<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<&'s RulesSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<&'s ArmSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'s ResponseSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<&'s Timing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<&'s BodiesSeen>,
}

#[derive(Serialize)]
struct UpstreamLine<'s> {
    name: &'s str,
    steps: &'s [StepSeen],
}

/// How much was shown and how much was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Left {
    /// Requests that the stream holds.
    pub(super) shown: u64,
    /// Those that the budget had no room for.
    pub(super) left_out: u64,
    /// Those that a loop did not take down, as watchers wanted too many: some of them may be of this filter.
    pub(super) dropped: u64,
}

/// The first line.
pub(super) fn begin(asked: &Subscription) -> Vec<u8> {
    line(&Line::Begin {
        version: VERSION,
        server: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        filter: asked.filter.to_string(),
        show: asked.show.to_string(),
        budget_bytes_per_s: asked.budget_bytes_per_s,
    })
}

/// A request, with what is wanted of it.
pub(super) fn request(number: u64, seen: &Seen, asked: &Subscription) -> Vec<u8> {
    fn wanted<T>(asked: &Subscription, category: WatchCategory, what: T) -> Option<T> {
        asked.show.has(category).then_some(what)
    }
    let steps = seen.upstream.as_deref().map(|name| UpstreamLine { name, steps: &seen.steps });
    line(&Line::Request(Box::new(RequestLine {
        number,
        at_unix_us: seen.at_unix_ns / 1000,
        session: seen.network.session,
        begun_before: seen.begun_before,
        method: &seen.head.method,
        target: &seen.head.target,
        status: seen.response.status,
        whole_us: seen.timing.whole_us,
        network: wanted(asked, WatchCategory::Network, &seen.network),
        head: wanted(asked, WatchCategory::Head, &seen.head),
        routes: wanted(asked, WatchCategory::Routes, seen.routes.as_ref()).flatten(),
        cache: wanted(asked, WatchCategory::Cache, &seen.cache),
        file: wanted(asked, WatchCategory::File, seen.file.as_ref()).flatten(),
        script: wanted(asked, WatchCategory::Script, seen.script.as_ref()).flatten(),
        upstream: wanted(asked, WatchCategory::Upstream, steps).flatten(),
        rules: wanted(asked, WatchCategory::Rules, &seen.rules),
        arm: wanted(asked, WatchCategory::Arm, &seen.arm),
        response: wanted(asked, WatchCategory::Response, &seen.response),
        timing: wanted(asked, WatchCategory::Timing, &seen.timing),
        bodies: wanted(asked, WatchCategory::Bodies, seen.bodies.as_ref()).flatten(),
    })))
}

/// What was left out so far.
pub(super) fn left(left: Left) -> Vec<u8> {
    line(&Line::Left(left))
}

/// The last line.
pub(super) fn end(why: &'static str, left: Left) -> Vec<u8> {
    line(&Line::End { why, left })
}

fn line(line: &Line<'_>) -> Vec<u8> {
    // Names are texts and numbers are whole, so that nothing in it has no form in JSON.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}
