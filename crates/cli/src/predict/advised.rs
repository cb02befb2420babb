//! What the model of a run says of each finding of `weir advise`.

use super::recorded::read;
use std::path::Path;
use weir_advise::{Finding, Predicted};
use weir_predict::{Change, Trace};

/// Why the model says nothing of most settings.
const NO_STATION: &str =
    "what this changes is no station of the model, which has CPUs, workers and locks; --try measures it";

/// Adds to each finding what the model of the run predicts of it, or why nothing.
pub(crate) fn add_to(findings: &mut [Finding], run: &Path) {
    if findings.is_empty() {
        return;
    }
    let trace = read(run).map_err(|error| format!("{error:#}"));
    for finding in findings {
        finding.predicted = Some(match (&trace, finding.workers()) {
            (_, None) => Predicted::NoneBecause(NO_STATION.to_owned()),
            (Err(reason), Some(_)) => Predicted::NoneBecause(reason.clone()),
            (Ok(trace), Some((pool, workers))) => of_workers(trace, pool, workers),
        });
    }
}

fn of_workers(trace: &Trace, pool: &str, workers: u32) -> Predicted {
    let change = Change { workers: vec![(pool.to_owned(), workers)], ..Change::default() };
    let told = match weir_predict::predict(trace, &change, 1) {
        Ok(told) => told,
        Err(refusal) => return Predicted::NoneBecause(refusal.to_string()),
    };
    let now_ns = told.recorded[1];
    told.predicted.map_or_else(
        || Predicted::NoneBecause("more requests come than the server takes with this change as well".to_owned()),
        |figures| {
            let mean = figures.mean_ns;
            Predicted::Response { now_ns, then_ns: mean.value, low_ns: mean.low, high_ns: mean.high }
        },
    )
}
