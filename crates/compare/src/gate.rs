//! Whether a result lets a release pass (`--fail-if-worse`): a pure function of an outcome.
//!
//! A gate that looked at verdicts alone would be open for a server that answers nothing but errors, as nothing is said
//! of such a server. So it is closed for everything that a release must not have: a metric that is worse, more errors
//! than the baseline, more slices that failed, and the absence of any verdict.
use serde::Serialize;
use weir_measure::comparison::Verdict;

use crate::outcome::Outcome;
use crate::request_errors::errors;
use crate::verdict::Judgement;

/// A reason for which the gate is closed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateReason {
    /// The name of the case.
    pub case: String,
    /// What is wrong.
    pub kind: GateKind,
    /// The reason in words.
    pub words: String,
}

/// The kinds of reasons for which the gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// A metric is worse than the baseline's.
    Worse,
    /// The subject has more errors than the baseline, or more slices that failed.
    MoreErrors,
    /// No metric has a verdict other than "cannot tell".
    NoVerdict,
}

/// The reasons for which the gate is closed; none where it is open. `judgements` are those of
/// [`verdicts`](crate::verdicts).
#[must_use]
pub fn gate(outcome: &Outcome, judgements: &[Judgement]) -> Vec<GateReason> {
    let mut reasons = Vec::new();
    let case_name = |case: usize| outcome.plan.cases[case].name.clone();
    for judgement in judgements.iter().filter(|judgement| judgement.verdict == Verdict::Worse) {
        let name = outcome.plan.subject_name(judgement.subject);
        let words = format!("{name} is worse in {}", judgement.metric.name());
        reasons.push(GateReason { case: case_name(judgement.case), kind: GateKind::Worse, words });
    }
    for found in errors(outcome) {
        let mut push = |kind, words| reasons.push(GateReason { case: case_name(found.case), kind, words });
        if found.is_all() {
            push(GateKind::MoreErrors, format!("{} answered nothing but errors", found.subject));
        } else if found.is_more() {
            push(GateKind::MoreErrors, found.to_string());
        }
        if found.failed_slices > found.baseline_failed_slices {
            let (failed, others) = (found.failed_slices, found.baseline_failed_slices);
            let words = format!("slices that failed: {failed} of {}, {others} of {}", found.subject, found.baseline);
            push(GateKind::MoreErrors, words);
        }
        if !has_verdict(judgements, found.case, found.index) {
            let words = format!("no metric of {} has a verdict, so nothing says that it is not worse", found.subject);
            push(GateKind::NoVerdict, words);
        }
    }
    reasons
}

/// Whether anything is said of a subject in a case.
pub(crate) fn has_verdict(judgements: &[Judgement], case: usize, subject: usize) -> bool {
    let mut of_subject = judgements.iter().filter(|judgement| (judgement.case, judgement.subject) == (case, subject));
    of_subject.any(|judgement| judgement.verdict != Verdict::CannotTell)
}
