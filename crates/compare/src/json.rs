//! The report for programs: verdicts, warnings, the plan and every raw block.
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::verdict::verdicts;
use crate::warning::warnings;

/// One JSON object. Keys end in their units; `ratio` and `noise` have `median`, `low`, `high`
/// and `blocks`; `verdict` is `better`, `worse`, `the_same` or `cannot_tell`, of B against A.
/// `command` repeats the experiment.
///
/// # Errors
/// None that an outcome of this crate can cause: its numbers are finite and its keys are texts.
pub fn json_report(outcome: &Outcome, command: &str) -> serde_json::Result<Value> {
    let cases = outcome.plan.cases.iter().enumerate().map(|(index, case)| {
        let results = verdicts(outcome).into_iter().filter(|judgement| judgement.case == index);
        Ok(json!({ "name": case.name, "results": serde_json::to_value(results.collect::<Vec<_>>())? }))
    });
    Ok(json!({
        "format": "weir-compare-1",
        "cases": cases.collect::<serde_json::Result<Vec<_>>>()?,
        "warnings": warnings(outcome),
        "accounting": outcome.accounting,
        "restarted": outcome.restarted,
        "interrupted": outcome.interrupted,
        "seed": outcome.plan.seed,
        "command": command,
        "plan": serde_json::to_value(&outcome.plan)?,
        "blocks": serde_json::to_value(&outcome.blocks)?,
    }))
}
