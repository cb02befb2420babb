//! Gates for releases: what closes them is errors and the absence of a verdict as well as a metric that is worse.
use std::collections::BTreeMap;

use weir_compare::{
    FailedSlice, GateKind, Metric, Outcome, Role, Slice, errors, gate, junit_report, terminal_report, verdicts,
};
use weir_measure::comparison::Verdict;

use crate::reports::{outcome, slice};

/// The kinds of reasons and the exit that they lead to.
fn kinds(outcome: &Outcome) -> Vec<GateKind> {
    gate(outcome, &verdicts(outcome)).into_iter().map(|reason| reason.kind).collect()
}

/// The slice with so many of its 10,000 answers as errors.
#[expect(clippy::needless_pass_by_value, reason = "made where it is given")]
fn with_errors(slice: Slice, errors: u64) -> Slice {
    let details = weir_compare::LoadDetails {
        statuses: BTreeMap::from([("200".to_owned(), slice.requests - errors), ("500".to_owned(), errors)]),
        ..slice.details.clone()
    };
    Slice { errors, details, ..slice.clone() }
}

fn verdict_of(outcome: &Outcome, metric: Metric) -> Verdict {
    verdicts(outcome).into_iter().find(|judgement| judgement.metric == metric).expect("it is judged").verdict
}

#[test]
fn equal_servers_pass_and_a_worse_one_does_not() {
    assert_eq!(kinds(&outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5))), []);
    assert_eq!(kinds(&outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.5))), [GateKind::Worse]);
}

#[test]
fn a_server_of_errors_passes_no_gate() {
    let found = outcome(slice(1.0, 1.0, 0.5), with_errors(slice(0.5, 2.0, 0.5), 20_000));
    assert_eq!(kinds(&found), [GateKind::MoreErrors, GateKind::NoVerdict]);
    let junit = junit_report(&found, None);
    assert!(junit.contains("failures=\"2\"") && junit.contains("B answered nothing but errors"), "{junit}");
    // Two of them are no better: nothing can be said.
    let both = outcome(with_errors(slice(1.0, 1.0, 0.5), 10_000), with_errors(slice(1.0, 1.0, 0.5), 10_000));
    assert_eq!(kinds(&both), [GateKind::MoreErrors, GateKind::NoVerdict]);
}

#[test]
fn half_of_the_answers_as_errors_make_no_server_better() {
    // Half the CPU time and twice the rate, as an error page takes less than a page.
    let found = outcome(slice(1.0, 1.0, 0.5), with_errors(slice(0.5, 2.0, 0.5), 10_000));
    assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::CannotTell);
    assert_eq!(verdict_of(&found, Metric::RatePerS), Verdict::CannotTell);
    assert_eq!(kinds(&found), [GateKind::MoreErrors, GateKind::NoVerdict]);
    let text = terminal_report(&found, "again", false);
    assert!(text.contains("no verdict: B and A differ in errors"), "{text}");
    // Worse stays worse, and errors of the baseline do not make the other one worse.
    let worse = outcome(slice(1.0, 1.0, 0.5), with_errors(slice(2.0, 0.5, 0.5), 2_500));
    assert_eq!(verdict_of(&worse, Metric::CpuNsPerRequest), Verdict::Worse);
    let mended = outcome(with_errors(slice(0.5, 2.0, 0.5), 10_000), slice(1.0, 1.0, 0.5));
    assert_eq!(verdict_of(&mended, Metric::CpuNsPerRequest), Verdict::CannotTell);
    assert!(!kinds(&mended).contains(&GateKind::MoreErrors));
}

#[test]
fn a_few_errors_count_as_soon_as_chance_does_not_explain_them() {
    // Of 100,000 requests each: ten of B and none of A have probability 2^-10; one has 1/2.
    let with = |own: u64, baseline: u64| {
        outcome(with_errors(slice(1.0, 1.0, 0.5), baseline), with_errors(slice(1.0, 1.0, 0.5), own))
    };
    let found = with(1, 0);
    assert_eq!(kinds(&found), [GateKind::MoreErrors]);
    assert!((errors(&found)[0].probability - 0.5_f64.powi(10)).abs() < 1e-9);
    assert_eq!(kinds(&with(0, 1)), []);
    assert_eq!(kinds(&with(5, 5)), []);
    // One error in all.
    let mut once = outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5));
    let of_b = once.blocks[3].slices.iter_mut().find(|found| found.role == Role::Subject(1)).expect("a slice of B");
    of_b.slice.errors = 1;
    assert_eq!((kinds(&once), errors(&once)[0].errors), (Vec::new(), 1));
}

#[test]
fn slices_that_failed_count_as_errors() {
    let failed = |role| FailedSlice { role: Some(Role::Subject(role)), why: "it ended".to_owned() };
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5));
    found.blocks[2].failed.push(failed(1));
    assert_eq!(kinds(&found), [GateKind::MoreErrors]);
    found.blocks[4].failed.push(failed(0));
    assert_eq!(kinds(&found), []);
}

#[test]
fn too_few_blocks_are_no_verdict_and_are_named_as_the_reason() {
    // A differs from itself by less than 1 %, and B takes five times the CPU time: what lacks is blocks.
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(5.0, 0.2, 0.5));
    found.blocks.truncate(5);
    assert_eq!(kinds(&found), [GateKind::NoVerdict]);
    let text = terminal_report(&found, "again", false);
    assert!(text.contains("5 blocks are too few for a verdict, which takes 7"), "{text}");
    assert!(!text.contains("differs from itself"), "{text}");
    found.blocks.truncate(1);
    assert!(terminal_report(&found, "again", false).contains("1 block is too few"));
}

#[test]
fn what_the_baseline_differs_from_itself_is_named_only_where_it_decides() {
    // A swings by 8 % between the two slices of a block, B takes 5 % more: below the noise.
    let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.05, 1.0, 0.5));
    for (index, block) in found.blocks.iter_mut().enumerate() {
        for again in block.slices.iter_mut().filter(|found| found.role == Role::Again) {
            again.slice.cpu_ns_per_request *= if index % 2 == 0 { 1.08 } else { 0.93 };
        }
    }
    let text = terminal_report(&found, "again", false);
    let line = text.lines().find(|line| line.contains("CPU per request") && line.contains("cannot tell"));
    assert!(line.is_some_and(|line| line.contains("A differs from itself by up to")), "{text}");
}
