//! What a run of scenarios found, and whether it passes.

use std::process::ExitCode;
use weir_load::LoadReport;
use weir_measure::threshold::Threshold;
use weir_report::count;
use weir_scenario::form::{Scenarios, Scope, ScopeKind, Slo};
use weir_scenario::metrics::Checked;
use weir_scenario::play::{Judged, Tally};
use weir_scenario::run::{Ended, Report};

/// Exit status of a run that missed what it was to hold.
const MISSED: u8 = 3;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) scopes: Vec<(Scope, Tally)>,
    pub(super) judged: Vec<Judged>,
    pub(super) checks: Vec<Checked>,
    /// Whether an objective says how many of all requests may fail: checks alone then miss nothing.
    pub(super) allows_errors: bool,
    pub(super) report: Report,
    pub(super) load: LoadReport,
}

impl Found {
    pub(super) fn new(
        scenarios: &Scenarios,
        slos: &[Slo],
        tallies: Vec<Tally>,
        (judged, checks): (Vec<Judged>, Vec<Checked>),
        (report, load): (Report, LoadReport),
    ) -> Self {
        let allows_errors = slos.iter().any(|slo| slo.scope == 0 && matches!(slo.threshold, Threshold::Errors { .. }));
        let scopes = scenarios.scopes.iter().cloned().zip(tallies).collect();
        Self { scopes, judged, checks, allows_errors, report, load }
    }

    /// All requests.
    pub(super) fn all(&self) -> &Tally {
        &self.scopes[0].1
    }

    pub(super) fn of_kind(&self, kind: ScopeKind) -> impl Iterator<Item = &(Scope, Tally)> {
        self.scopes.iter().filter(move |(scope, _)| scope.kind == kind)
    }

    pub(super) fn requests_words(&self) -> String {
        let all = self.all();
        format!("{} of {} requests", count(all.requests - all.failed), count(all.requests))
    }

    /// Why nothing can be said of the run, if so.
    pub(super) fn nothing(&self) -> Option<String> {
        let all = self.all();
        match &self.report.ended {
            Ended::Setup(failure) => Some(format!("setup failed: {failure}")),
            _ if all.requests == all.failed => {
                let first = all.first.as_ref().map_or_else(String::new, |words| format!(": {words}"));
                Some(format!("no request succeeded of {}{first}", count(all.requests)))
            }
            _ => None,
        }
    }

    /// What was missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let of_slos = self.judged.iter().filter(|judged| !judged.is_met);
        let of_slos = of_slos.map(|judged| format!("objective missed: {}: {}", judged.text, judged.words));
        let failed = self.checks.iter().filter(|check| check.fails > 0 && !self.allows_errors);
        let of_checks = failed.map(|check| format!("check missed: {}: {}", check.name, check_words(check)));
        of_slos.chain(of_checks).collect()
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        if self.nothing().is_some() {
            ExitCode::FAILURE
        } else if self.missed().is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(MISSED)
        }
    }
}

/// How often a check held, and what came the first time it did not.
pub(super) fn check_words(check: &Checked) -> String {
    let all = check.passes + check.fails;
    match check.fails {
        0 => format!("all of {} answers are so", count(all)),
        fails => {
            let first = check.first.as_ref().map_or_else(String::new, |words| format!("; the first: {words}"));
            format!("{} of {} answers are not so{first}", count(fails), count(all))
        }
    }
}
