//! What a load command says that it did.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::curve::Curve;
use crate::fairness::Fairness;

/// What a load command says that it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadCounts {
    /// Whose output it was.
    pub tool: LoadTool,
    /// Requests answered, with any status.
    pub requests: u64,
    /// Requests that failed, and answers with an error status where the tool counts them.
    pub errors: u64,
    /// How long the tool says that it sent for, in seconds; `None` when it does not say.
    pub duration_s: Option<f64>,
    /// Bytes received, heads included; `None` when it does not say.
    pub bytes: Option<u64>,
    /// Times of responses; `None` when it does not say.
    pub latency: Option<Latency>,
    /// What else it says.
    #[serde(flatten)]
    pub details: LoadDetails,
}

/// What a load tool tells beyond its counts; everything is empty where it does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadDetails {
    /// Requests that failed, by the tool's names of the kinds, those that occurred.
    pub failures: BTreeMap<String, u64>,
    /// Answers by status: of a code (`200`) or, where the tool tells no more, of a class (`2xx`); those that occurred.
    pub statuses: BTreeMap<String, u64>,
    /// The times of responses by percentile.
    pub curve: Option<Curve>,
    /// How evenly the clients were served.
    pub fairness: Option<Fairness>,
    /// Answers a second as the tool itself tells them: of those that came within its time, where others came later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_told_per_s: Option<f64>,
    /// Bytes a second in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_told_per_s: Option<f64>,
}

impl LoadDetails {
    /// Answers whose status is none of success (200 to 299), as far as the tool tells statuses.
    #[must_use]
    pub fn unsuccessful(&self) -> u64 {
        self.statuses.iter().filter(|(status, _)| !status.starts_with('2')).map(|(_, count)| count).sum()
    }
}

/// Percentiles of the times of responses, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the responses took no longer.
    pub p50_ns: f64,
    /// 90 %.
    pub p90_ns: f64,
    /// 99 %.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// The load generators whose output is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadTool {
    /// `weir load --json`.
    Weir,
    /// wrk and wrk2.
    Wrk,
    /// ApacheBench.
    Ab,
    /// httperf.
    Httperf,
    /// h2load of nghttp2.
    H2load,
    /// hey.
    Hey,
}
