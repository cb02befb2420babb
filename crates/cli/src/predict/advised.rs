//! What the model of a run says of each finding of `weir advise`.

use super::recorded::read;
use std::path::Path;
use weir_advise::{Cure, Finding, Predicted};
use weir_predict::{Effect, NoEffect, Trace, less, others, workers};

const SEED: u64 = 1;

/// Adds to each finding what the model of the run predicts of it, or why nothing.
pub(crate) fn add_to(findings: &mut [Finding], run: &Path) {
    if findings.is_empty() {
        return;
    }
    let trace = read(run).map_err(|error| format!("{error:#}"));
    for finding in findings {
        finding.predicted = Some(match (&trace, finding.cure()) {
            (_, Cure::Unknown { why }) => Predicted::NoneBecause(why.to_owned()),
            (Err(reason), _) => Predicted::NoneBecause(reason.clone()),
            (Ok(trace), cure) => predicted(trace, &cure),
        });
    }
}

fn predicted(trace: &Trace, cure: &Cure) -> Predicted {
    let told: Result<Effect, NoEffect> = match cure {
        Cure::Workers { pool, workers: count } => workers(trace, pool, count.unwrap_or(trace.cpus), SEED),
        Cure::Less { what, saved_ns } => less(trace, what, *saved_ns, SEED),
        Cure::Others { kept } => others(trace, *kept, SEED),
        Cure::Unknown { why } => return Predicted::NoneBecause((*why).to_owned()),
    };
    match told {
        Ok(Effect { now_ns, then_ns, low_ns, high_ns }) => Predicted::Response { now_ns, then_ns, low_ns, high_ns },
        Err(reason) => Predicted::NoneBecause(reason.to_string()),
    }
}
