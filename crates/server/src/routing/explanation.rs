//! How a request is routed, told step by step: what [`super::explain`] finds out.

use serde::Serialize;
use std::net::IpAddr;

/// How a request is routed, and what answers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteExplanation {
    /// What answers.
    pub answer: RouteAnswer,
    /// The host that the request is for; none if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<RoutedHost>,
    /// The client that a trusted proxy tells of; none where it is the one at the other end of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<IpAddr>,
    /// The path as the server reads it, decoded; none where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The routes that were looked at, in their order.
    pub routes: Vec<RouteStep>,
    /// The path and query that routes have led to, if another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped: Option<String>,
    /// The tables that hold.
    pub tables: Vec<RouteTable>,
    /// What keeps clients away: networks, rates, passwords, bounds.
    pub limits: Vec<String>,
    /// Fields that the configuration sets, `NAME: VALUE`, and removes, `-NAME`, in such an answer.
    pub fields: Vec<String>,
}

/// What answers a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteAnswer {
    /// The status; none where an application or an upstream says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why, in words.
    pub what: String,
    /// Where a redirect leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The file that answers, or the first that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The servers that are asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<RouteUpstream>,
}

/// Servers elsewhere that answer a request, and how they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteUpstream {
    /// How logs call it.
    pub name: String,
    /// What is spoken with it: `HTTP/1.1`, `HTTP/2`, `HTTP/2 or HTTP/1.1`, `FastCGI`, `SCGI` or `uwsgi`.
    pub speaks: &'static str,
    /// Its servers, as the configuration has them.
    pub servers: Vec<RouteServer>,
    /// Requests that each server may have under way.
    pub connections_max: usize,
    /// Whether that number is only the highest, and how many there may be is measured.
    pub is_measured: bool,
    /// Requests that may wait; more get 503.
    pub queue_max: usize,
    /// The path and query that it is asked for.
    pub target: String,
    /// The script that runs, where the upstream is asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<RouteScript>,
}

/// One server of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteServer {
    /// `ADDRESS:PORT`, `NAME:PORT` or `unix:PATH`.
    pub place: String,
    /// Its share among the others.
    pub weight: u32,
    /// Whether TLS is spoken with it.
    pub is_secure: bool,
}

/// A script, as its program is told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteScript {
    /// SCRIPT_NAME.
    pub name: String,
    /// PATH_INFO.
    pub path_info: String,
    /// The file; none where one program answers all paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether the file is there; none where its root is on another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// A host, and how the request has led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutedHost {
    /// Its first name.
    pub name: String,
    /// The name that the request gives.
    pub asked: String,
    /// The entry of `names` that the name was found by; `*` for a host that takes all others.
    pub found_by: String,
}

/// A route that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteStep {
    /// Which of the host's, from 1.
    pub number: usize,
    /// Its line in the configuration.
    pub line: usize,
    /// What it does: `map`, `redirect`, ...
    pub act: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// The condition that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// What the request has there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What it did: a path that it has led to, files that it looked for.
    pub did: Vec<String>,
}

/// A table that holds for a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteTable {
    /// How the file writes it: `[[host]]`, `[[host.path]] prefix /a`.
    pub table: String,
    /// Its line in the configuration.
    pub line: usize,
    /// For which path: the one that was asked for, the one that routes have led to, or the file that answers.
    pub of: &'static str,
    /// What it says.
    pub says: Vec<String>,
}
