//! The explanation of a run as JSON, and what the console reads of it.

use crate::refusal::ReadingError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_measure::class::Grouping;

/// Raised when explanations change their meaning: kept ones of before are then made anew.
const VERSION: u32 = 1;

/// What the difference of two runs is made of. Times are nanoseconds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) rate_per_s: f64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) response_ns: Option<Response>,
    pub(crate) noise_floor: Option<f64>,
    pub(crate) parts_ns: BTreeMap<String, f64>,
    pub(crate) median_parts_ns: BTreeMap<String, f64>,
    pub(crate) slow_parts_ns: BTreeMap<String, f64>,
    pub(crate) causes: Vec<Blamed>,
    pub(crate) boundary: String,
    pub(crate) host: String,
}

/// Response times of a run, nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Response {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

/// A part, and who it was spent on.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Blamed {
    pub(crate) part: String,
    pub(crate) who: Vec<(String, f64)>,
}

/// An explanation.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) json: Vec<u8>,
    pub(crate) figures: Figures,
}

/// Explains a run, or reads what was kept of its explanation for the same contents.
///
/// It is kept in the run's folder `derived`, as tiles and tables are; where that cannot be written it is made anew.
pub(crate) fn explained(run: &Path, name: &str, fingerprint: u64) -> Result<Explained, ReadingError> {
    let kept = kept(run, fingerprint);
    if let Some(explained) = std::fs::read(&kept).ok().and_then(|json| read(json).ok()) {
        return Ok(explained);
    }
    let view = weir_explain::View::default();
    let explanation = weir_explain::explain(run, name.to_owned(), Grouping::new(Vec::new()), &view)?;
    let json = serde_json::to_vec(&explanation)?;
    keep(&kept, &json);
    Ok(read(json)?)
}

fn read(json: Vec<u8>) -> serde_json::Result<Explained> {
    Ok(Explained { figures: serde_json::from_slice(&json)?, json })
}

fn kept(run: &Path, fingerprint: u64) -> PathBuf {
    // Another version of weir may explain the same run otherwise.
    let version = env!("CARGO_PKG_VERSION");
    run.join("derived").join(format!("answer-{VERSION}-{version}-{fingerprint:016x}.json"))
}

/// Writes it whole or not at all, and removes those of other contents.
fn keep(path: &Path, json: &[u8]) {
    let Some(folder) = path.parent() else { return };
    let _may_be_read_only = std::fs::create_dir(folder);
    let Ok(part) = tempfile::Builder::new().prefix("answer-part-").tempfile_in(folder) else { return };
    // What cannot be kept is made anew the next time.
    if std::fs::write(part.path(), json).is_err() || part.persist(path).is_err() {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("answer-") && !name.starts_with("answer-part-") && entry.path() != path {
            // It is of no use any more, and of no harm where it cannot be removed.
            let _left = std::fs::remove_file(entry.path());
        }
    }
}
