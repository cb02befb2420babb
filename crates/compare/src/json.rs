//! The report for programs: verdicts, warnings, the plan and every raw block.
use serde_json::{Value, json};

use crate::facts::subject_facts;
use crate::gate::gate;
use crate::outcome::Outcome;
use crate::reasons::reasons;
use crate::request_errors::errors;
use crate::verdict::{Judgement, verdicts};
use crate::warning::warnings_of;

/// One JSON object. Keys end in their units; each result names its `subject` and `baseline`; `ratio` and `noise` have
/// `median`, `low`, `high` and `blocks`; `verdict` is `better`, `worse`, `the_same` or `cannot_tell`, of the subject
/// against the baseline. `subjects` of a case are what each did and used ([`SubjectFacts`](crate::SubjectFacts)).
/// `command` repeats the experiment.
///
/// The form `weir-compare-4` has the keys of `weir-compare-3`, and more: `gate` with the reasons for which
/// `--fail-if-worse` fails, `errors` of a case, and in a result `errors_differ` and `blocks_needed`.
///
/// # Errors
/// None that an outcome of this crate can cause: its numbers are finite and its keys are texts.
pub fn json_report(outcome: &Outcome, command: &str) -> serde_json::Result<Value> {
    let judgements = verdicts(outcome);
    let errors = errors(outcome);
    let result = |judgement: &Judgement| -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(judgement)?;
        value["subject"] = json!(outcome.plan.subject_name(judgement.subject));
        value["baseline"] = json!(outcome.plan.subject_name(outcome.plan.cases[judgement.case].baseline()));
        Ok(value)
    };
    let cases = outcome.plan.cases.iter().enumerate().map(|(index, case)| {
        let of_case = judgements.iter().filter(|judgement| judgement.case == index);
        Ok(json!({
            "name": case.name,
            "results": of_case.map(result).collect::<serde_json::Result<Vec<_>>>()?,
            "errors": errors.iter().filter(|found| found.case == index).collect::<Vec<_>>(),
            "subjects": serde_json::to_value(subject_facts(outcome, index))?,
            "reasons": serde_json::to_value(reasons(outcome, index))?,
        }))
    });
    let reasons = gate(outcome, &judgements);
    Ok(json!({
        "gate": { "is_open": reasons.is_empty(), "reasons": reasons },
        "schema": "weir-compare/4",
        "format": "weir-compare-4",
        "cases": cases.collect::<serde_json::Result<Vec<_>>>()?,
        "warnings": warnings_of(outcome, &judgements),
        "accounting": outcome.accounting,
        "restarted": outcome.restarted,
        "ending": outcome.ending,
        "seed": outcome.plan.seed,
        "command": command,
        "plan": serde_json::to_value(&outcome.plan)?,
        "blocks": serde_json::to_value(&outcome.blocks)?,
        "observed": serde_json::to_value(&outcome.observed)?,
        "unobserved": outcome.unobserved,
    }))
}
