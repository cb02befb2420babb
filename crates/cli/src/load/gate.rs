//! Whether a run passes: what its objectives and checks say, the reason first.

use super::baseline::Baseline;
use super::finding::{Finding, Kind, Outcome};
use super::judge::JudgeArgs;
use super::slo::{Figures, Judgement, Slo};
use super::workers::lost_of;
use serde_json::{Value, json};
use std::process::ExitCode;
use weir_load::{CheckReport, LoadReport};
use weir_report::count;

/// Exit status of a run that missed what it was to hold.
const MISSED: u8 = 3;

/// What is said of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    pub(super) findings: Vec<Finding>,
}

impl Gate {
    /// What the options that judge say of a run.
    pub(super) fn of(judge: &JudgeArgs, baseline: &Baseline, report: &LoadReport) -> Self {
        let of_slos = judge.slos().iter().map(|slo| of_slo(judge, slo, report));
        let allowing = judge.allows_errors().map(Slo::to_string);
        let of_checks = report.checks.iter().map(|check| of_check(check, allowing.as_deref()));
        Self { findings: of_slos.chain(of_checks).chain(baseline.findings(report)).collect() }
    }

    /// Those that were missed.
    pub(super) fn missed(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.outcome == Outcome::Missed)
    }

    /// Why the run does not pass, in one line; `None` where it does.
    pub(super) fn reason(&self) -> Option<String> {
        let mut missed = self.missed();
        let first = missed.next()?;
        let more = match missed.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!("{} missed: {}: {}{more}", first.kind.name(), first.name, first.words))
    }

    /// The exit status of the run.
    pub(super) fn exit_code(&self, report: &LoadReport) -> ExitCode {
        if report.successes == 0 {
            ExitCode::FAILURE
        } else if self.missed().next().is_some() {
            ExitCode::from(MISSED)
        } else if lost_of(report).is_some() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    /// For programs: the first objective, which was the only one for long, and all of them.
    pub(super) fn json(&self, report: &LoadReport) -> Value {
        let of_kind = |kind| self.findings.iter().filter(move |finding| finding.kind == kind);
        let objectives: Vec<&Value> = of_kind(Kind::Objective).map(|finding| &finding.figures).collect();
        let checks: Vec<&Value> = of_kind(Kind::Check).map(|finding| &finding.figures).collect();
        let compared: Vec<&Value> = of_kind(Kind::Comparison).map(|finding| &finding.figures).collect();
        let reasons: Vec<String> = self.missed().map(Finding::line).collect();
        json!({
            "objective": objectives.first(),
            "objectives": objectives,
            "checks": checks,
            "compared": compared,
            "passed": report.successes > 0 && reasons.is_empty() && lost_of(report).is_none(),
            "missed": reasons,
        })
    }
}

fn of_slo(judge: &JudgeArgs, slo: &Slo, report: &LoadReport) -> Finding {
    let figures = match &slo.scope {
        None => Some(Figures::of_run(report)),
        Some(scope) => {
            // The report tells them in the order of the options.
            let place = judge.scopes().iter().position(|other| other == scope);
            let scope = place.and_then(|place| report.scopes.get(place));
            scope.map(|scope| Figures::of_scope(scope, report.interrupted))
        }
    };
    let judgement = figures.map_or_else(Judgement::nothing, |figures| figures.judge(slo.threshold));
    // Without any request it was not met.
    let outcome = if judgement.is_met == Some(true) { Outcome::Met } else { Outcome::Missed };
    let mut figures = json!({
        "objective": slo.to_string(),
        "met": outcome == Outcome::Met,
        "words": judgement.words,
    });
    if let Some((judged, allowed)) = judgement.shares {
        figures["requests"] = json!(judged.requests);
        figures["missed"] = json!(judged.bad);
        figures["missed_share"] = json!(judged.bad_share());
        figures["allowed_share"] = json!(allowed);
    }
    Finding { kind: Kind::Objective, name: slo.to_string(), outcome, words: judgement.words, figures }
}

/// No response may fail a check, unless an objective says how many requests may.
fn of_check(check: &CheckReport, allowing: Option<&str>) -> Finding {
    let (failed, responses) = (count(check.failed), count(check.responses));
    let example = check.example.as_ref().map_or_else(String::new, |example| format!("; such as {example}"));
    let (outcome, words) = match (check.responses, check.failed, allowing) {
        (0, ..) => (Outcome::Missed, "no whole response came that it could look at".to_owned()),
        (_, 0, _) => (Outcome::Met, format!("all of {responses} responses are so")),
        (.., Some(slo)) => {
            (Outcome::Met, format!("{failed} of {responses} responses are not so, which {slo} judges{example}"))
        }
        (.., None) => (Outcome::Missed, format!("{failed} of {responses} responses are not so{example}")),
    };
    let figures = json!({
        "check": check.check,
        "met": outcome == Outcome::Met,
        "responses": check.responses,
        "failed": check.failed,
        "example": check.example,
    });
    Finding { kind: Kind::Check, name: check.check.clone(), outcome, words, figures }
}
