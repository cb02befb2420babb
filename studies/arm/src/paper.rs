//! The paper's figures, as `paper.toml` has them.

use anyhow::Context;
use serde::Deserialize;

/// The paper, and what others have published since.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    #[serde(rename = "paper")]
    pub(crate) about: About,
    /// Table 1.
    pub(crate) overhead: Vec<Overhead>,
    /// Table 2; the first row is the client.
    pub(crate) response: Vec<Response>,
    pub(crate) published: Vec<Published>,
}

/// What it measured, and on what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) title: String,
    pub(crate) machine: String,
    pub(crate) servers: String,
    pub(crate) method: String,
}

/// A row of Table 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Overhead {
    pub(crate) test: String,
    /// The subject of our plans.
    pub(crate) ours: String,
    /// What ours is, where the name does not say it.
    pub(crate) now: Option<String>,
    /// CPU time for a page, milliseconds.
    pub(crate) apache_ms: Option<f64>,
    pub(crate) agent_ms: Option<f64>,
    pub(crate) pages_per_s: Option<f64>,
    /// The changes against the first row, as printed: Apache, agent, pages.
    #[serde(default)]
    pub(crate) printed: Vec<String>,
}

/// A row of Table 2.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Response {
    pub(crate) module: String,
    pub(crate) mean_s: f64,
    pub(crate) error_percent: Option<f64>,
}

/// What others have published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) what: String,
    pub(crate) figure: String,
}

impl Paper {
    /// Reads it.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let paper: Self = toml::from_str(text)?;
        paper.overhead.first().context("there is no row of overhead")?;
        paper.response.first().context("there is no row of responses")?;
        Ok(paper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_follows_from_the_figures() {
        let paper = Paper::read(include_str!("../paper.toml")).expect("the paper");
        let base = &paper.overhead[0];
        let mut checked = 0;
        for row in &paper.overhead {
            let figures =
                [(row.apache_ms, base.apache_ms), (row.agent_ms, base.agent_ms), (row.pages_per_s, base.pages_per_s)];
            for (printed, (own, base)) in row.printed.iter().zip(figures) {
                // The one that the file says is misprinted.
                if printed == "+1304%" {
                    continue;
                }
                let change = (own.expect("a figure") / base.expect("a figure") - 1.0) * 100.0;
                let said: f64 = printed.trim_end_matches('%').parse().expect("a number");
                // The paper rounds one way here and the other there.
                assert!((change - said).abs() <= 1.0, "{}: {printed} is printed, {change} divided", row.test);
                checked += 1;
            }
        }
        assert_eq!(checked, 11);
        let client = paper.response[0].mean_s;
        for row in &paper.response[1..] {
            let error = (1.0 - row.mean_s / client) * 100.0;
            assert!((error - row.error_percent.expect("printed")).abs() < 1.0, "{}: {error}", row.module);
        }
    }
}
