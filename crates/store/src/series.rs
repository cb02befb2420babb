//! What is kept: minutes and records of series, and how they are asked for.

use crate::{Fold, Outcome};

/// Whose events they are. An empty text stands for what is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// Where they come from: an application, a server.
    pub source: String,
    /// Of which class they are.
    pub class: String,
    /// On whose behalf they ran.
    pub user: String,
}

/// One minute of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// Minutes since 1970, UTC.
    pub minute: u64,
    /// Whose.
    pub series: Series,
    /// What happened in it.
    pub fold: Fold,
}

/// One event whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it ended, milliseconds since 1970, UTC.
    pub at_ms: u64,
    /// Whose.
    pub series: Series,
    /// How long it took.
    pub duration_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The trace that it belongs to.
    pub trace: [u64; 2],
    /// Its number in the trace.
    pub span: u64,
    /// The whole of it, as the writer puts it; the store does not look into it.
    pub body: String,
}

/// Which minutes or records are asked for. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Select {
    /// From this time on, milliseconds since 1970; of minutes the one that it is in.
    pub from_ms: Option<u64>,
    /// Before this time, milliseconds since 1970.
    pub to_ms: Option<u64>,
    /// Only of this source.
    pub source: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only of this user.
    pub user: Option<String>,
}
