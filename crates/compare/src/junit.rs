//! The report for continuous integration: JUnit's XML, a test case for each judgement and for each figure of a history.
use weir_measure::comparison::Verdict;
use weir_report::junit::{State, Test, suite};

use crate::gate::has_verdict;
use crate::history::{Trend, Trends};
use crate::outcome::{Ending, Outcome};
use crate::request_errors::{Errors, errors};
use crate::terminal::{in_words, why};
use crate::verdict::{Judgement, verdicts};

/// The report as JUnit's XML. Each metric of each subject and case is a test: it fails where the subject is worse than
/// the baseline, is skipped where one cannot tell, and passes else. Two more of each subject and case fail where it has more
/// errors than the baseline, and where no metric has a verdict. An experiment that failed is an error.
///
/// With a history each of its figures is one more: it fails where the figure has shifted for the worse for good and that
/// is not accepted, and is skipped where there are too few results for a shift to be found.
#[must_use]
pub fn junit_report(outcome: &Outcome, trends: Option<&Trends>) -> String {
    let judgements = verdicts(outcome);
    let gated = errors(outcome).into_iter().flat_map(|found| of_errors(outcome, &judgements, &found));
    let judged = judgements.iter().map(|judgement| of_judgement(outcome, judgement));
    let shifts = trends.into_iter().flat_map(|trends| trends.figures.iter().map(|trend| of_trend(trends, trend)));
    let to_the_end = match &outcome.ending {
        Ending::Failed(why) => Some(why),
        _ => None,
    };
    let to_the_end = to_the_end.map(|why| Test {
        class: "weir compare".to_owned(),
        name: "to the end".to_owned(),
        state: State::Error(why.clone()),
    });
    let tests: Vec<Test> = judged.chain(gated).chain(shifts).chain(to_the_end).collect();
    let slices = outcome.blocks.iter().flat_map(|block| &block.slices);
    let all_s: f64 = slices.map(|found| found.slice.wall_s).sum();
    // What of the history could not be read is no test, and is not to be lost either.
    let damaged: Vec<String> = trends.into_iter().flat_map(|trends| &trends.damaged).cloned().collect();
    suite("weir compare", &tests, all_s, &damaged)
}

fn of_judgement(outcome: &Outcome, judgement: &Judgement) -> Test {
    let plan = &outcome.plan;
    let case = &plan.cases[judgement.case];
    let (subject, baseline) = (plan.subject_name(judgement.subject), plan.subject_name(case.baseline()));
    let words = in_words(judgement, &subject, &baseline, plan.smallest_effect);
    let words = [vec![words], why(outcome, &[judgement])].concat().join("; ");
    let state = match judgement.verdict {
        Verdict::Worse => State::Failed(words),
        Verdict::CannotTell => State::Skipped(words),
        Verdict::Better | Verdict::TheSame => State::Passed(words),
    };
    let name = format!("{subject} against {baseline}: {}", judgement.metric.name());
    Test { class: case.name.clone(), name, state }
}

/// Two tests that the metrics cannot be: that the subject has no more errors than the baseline, and that anything is said
/// of it at all.
fn of_errors(outcome: &Outcome, judgements: &[Judgement], found: &Errors) -> [Test; 2] {
    let test = |name: &str, state| Test {
        class: outcome.plan.cases[found.case].name.clone(),
        name: format!("{} against {}: {name}", found.subject, found.baseline),
        state,
    };
    let (failed, others) = (found.failed_slices, found.baseline_failed_slices);
    let errors = if found.is_all() {
        State::Failed(format!("{} answered nothing but errors: {found}", found.subject))
    } else if found.is_more() {
        State::Failed(found.to_string())
    } else if failed > others {
        State::Failed(format!("slices that failed: {failed} of {}, {others} of {}", found.subject, found.baseline))
    } else {
        State::Passed(found.to_string())
    };
    let verdict = if has_verdict(judgements, found.case, found.index) {
        State::Passed(format!("a metric of {} has a verdict", found.subject))
    } else {
        State::Failed(format!("no metric of {} has a verdict: nothing says that it is not worse", found.subject))
    };
    [test("errors", errors), test("verdict", verdict)]
}

fn of_trend(trends: &Trends, trend: &Trend) -> Test {
    let results = trend.points.len();
    let state = match trend.is_worse {
        Some(true) if !trend.is_accepted => State::Failed(trend.words.clone()),
        Some(_) => State::Passed(trend.words.clone()),
        None if results < trends.fewest => {
            State::Skipped(format!("{results} of at least {} results that a shift takes to be found", trends.fewest))
        }
        None => State::Passed(format!("has not shifted for good in {results} results")),
    };
    Test { class: trend.case.clone(), name: format!("{}: lasting shift", trend.name(false)), state }
}
