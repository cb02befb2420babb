//! How a request is routed, told step by step: what [`super::explain`] finds out.

use serde::Serialize;

/// How a request is routed, and what answers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RouteExplanation {
    /// What answers.
    pub answer: RouteAnswer,
    /// The host that the request is for; none if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<RoutedHost>,
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
    /// The status; none where an application says it.
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
