//! How many requests a load command did, read from what it printed.
mod ab;
mod h2load;
mod hey;
mod httperf;
mod weir;
mod wrk;

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

/// An output that none of the known tools prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the output is not that of weir load --json, wrk, ab, httperf, h2load or hey")]
pub struct LoadOutputError;

/// Reads the standard output of a load command, which may be any of the known tools.
///
/// # Errors
/// [`LoadOutputError`] when it is none of them, or cut off before the counts.
pub fn parse_load_output(output: &str) -> Result<LoadCounts, LoadOutputError> {
    // Each parser asks for a line that only its tool prints, so their order does not matter.
    [weir::parse, wrk::parse, ab::parse, httperf::parse, h2load::parse, hey::parse]
        .iter()
        .find_map(|parse| parse(output))
        .ok_or(LoadOutputError)
}

/// Those of the pairs whose count is not zero.
fn counted<N: AsRef<str>>(pairs: impl IntoIterator<Item = (N, u64)>) -> BTreeMap<String, u64> {
    pairs.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.as_ref().to_owned(), count)).collect()
}

/// What follows `label` on the first line that begins with it, without the space around.
fn after<'a>(output: &'a str, label: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// The number at the beginning of `text`.
fn leading<T: std::str::FromStr>(text: &str) -> Option<T> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number after the word `label` in `text`, as in `connect 3, read 0` or `4xx=1`.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let position = text.find(label)?;
    leading(text[position + label.len()..].trim_start_matches([' ', '=', ':']))
}

/// The number before the word `label` in `text`, as in `100 total, 97 succeeded`.
fn before(text: &str, label: &str) -> Option<u64> {
    text.split(',').find_map(|part| part.trim().strip_suffix(label))?.trim().parse().ok()
}

/// Seconds from a positive count and rate: finer than the two decimals that tools print.
fn seconds(requests: u64, rate_per_s: Option<f64>) -> Option<f64> {
    rate_per_s.filter(|rate| *rate > 0.0 && requests > 0).map(|rate| requests as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_outputs_are_refused() {
        for output in ["", "curl: (7) Failed to connect", "{}", "{\"requests\": -1}", "[1]", "Requests/sec: 3"] {
            assert_eq!(parse_load_output(output), Err(LoadOutputError), "{output:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_output_breaks_a_parser(output in "(?s)(Requests/sec:|Total: |requests: |finished in |Complete requests:|[0-9. ]|\\PC|\n){0,40}") {
            let _counts_or_not = parse_load_output(&output);
        }
    }
}
