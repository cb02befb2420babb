//! What options say, and what is wrong with them.

use serde_json::Value;
use weir_scenario::metrics::{MetricError, ThresholdError};

/// Options of the command line that take the place of the script's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Given {
    /// Options of a file, which come behind the script's.
    pub(crate) config: serde_json::Map<String, Value>,
    /// Options by their names in scripts.
    pub(crate) options: serde_json::Map<String, Value>,
}

/// What a script exports, and what of it is not run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    pub(crate) functions: Vec<String>,
    pub(crate) without_setup: bool,
    pub(crate) without_teardown: bool,
    pub(crate) without_thresholds: bool,
}

/// Why options cannot be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum OptionError {
    #[error("option {path}: {wanted} is needed, and not {given}")]
    Kind { path: String, wanted: &'static str, given: String },
    #[error("option {path} is not known; k6's own names are, as vus, duration, stages, scenarios and thresholds")]
    Unknown { path: String, name: String },
    #[error("option {name} is refused: {why}")]
    Refused { name: String, why: &'static str },
    #[error("option {path} is missing: {why}")]
    Missing { path: String, why: &'static str },
    #[error(
        "scenario {scenario}: executor {executor:?} is none of shared-iterations, per-vu-iterations, constant-vus, ramping-vus, constant-arrival-rate, ramping-arrival-rate"
    )]
    Executor { scenario: String, executor: String },
    #[error("scenario {scenario}: the script exports no function {exec:?}; export it, or name another by exec")]
    Exec { scenario: String, exec: String },
    #[error("{of}: {words}")]
    Range { of: String, words: String },
    #[error("thresholds: {key:?} names no metric; write a metric's name, or name{{tag:value}}")]
    Selector { key: String },
    #[error(
        "thresholds: there is no metric {name:?}; k6's own are http_req_duration, http_reqs, checks and others, the script's are those that it makes while it begins"
    )]
    NoMetric { name: String },
    #[error("thresholds of {key}: {wrong}")]
    Threshold { key: String, wrong: ThresholdError },
    #[error("thresholds of {key}: {wrong}")]
    Metric { key: String, wrong: MetricError },
}

impl OptionError {
    pub(super) fn kind(path: &str, wanted: &'static str, given: &Value) -> Self {
        let given: String = given.to_string().chars().take(60).collect();
        Self::Kind { path: path.to_owned(), wanted, given }
    }

    pub(crate) fn range(of: &str, words: impl std::fmt::Display) -> Self {
        Self::Range { of: of.to_owned(), words: words.to_string() }
    }

    /// The word of the script that it is about.
    pub(crate) fn word(&self) -> &str {
        let path = match self {
            Self::Kind { path, .. } | Self::Missing { path, .. } => path,
            Self::Unknown { name, .. } | Self::Refused { name, .. } | Self::NoMetric { name } => name,
            Self::Executor { executor, .. } => executor,
            Self::Exec { exec, .. } => exec,
            Self::Range { of, .. } => of,
            Self::Selector { key } | Self::Metric { key, .. } => key,
            Self::Threshold { wrong, key } => match wrong {
                ThresholdError::Form { given } | ThresholdError::Unfit { given, .. } => {
                    if given.is_empty() {
                        key
                    } else {
                        given
                    }
                }
            },
        };
        path.rsplit('.').next().unwrap_or(path)
    }
}
