//! What a reader has to know before believing an outcome: a pure function of it.
use weir_measure::comparison::{BLOCKS_FOR_A_VERDICT, Bootstrap, PairedRatios, Verdict, median};

use crate::accounting::CpuAccounting;
use crate::details::errors;
use crate::facts::subject_facts;
use crate::false_verdicts::blocks_for_a_verdict;
use crate::measured_slice::Slice;
use crate::metric::{Measured, Metric};
use crate::outcome::{Ending, FailedSlice, Outcome};
use crate::quantity::counted;
use crate::schedule::Role;
use crate::verdict::{GENERATOR_LIMIT, Judgement, generator_was_limit, verdicts};

/// Above this part of the CPUs used by others, in the median, the reader is told.
const FOREIGN_LIMIT: f64 = 0.05;

/// The warnings about an outcome, each a sentence; none when all is well.
#[must_use]
pub fn warnings(outcome: &Outcome) -> Vec<String> {
    warnings_of(outcome, &verdicts(outcome))
}

/// The same where the verdicts are known.
pub(crate) fn warnings_of(outcome: &Outcome, judgements: &[Judgement]) -> Vec<String> {
    error_warnings(outcome).into_iter().chain(other_warnings(outcome, judgements)).collect()
}

/// The warnings about answers that are none: they come first, since they decide what all figures are of.
pub(crate) fn error_warnings(outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, case) in outcome.plan.cases.iter().enumerate() {
        let of_case = if outcome.plan.cases.len() > 1 { format!("{}: ", case.name) } else { String::new() };
        for facts in subject_facts(outcome, index) {
            let (name, requests) = (&facts.name, facts.requests);
            let kinds = errors(&facts);
            if facts.errors == 0 && kinds.is_none() {
                continue;
            }
            let role = Role::Subject(facts.subject);
            let all = outcome.blocks_of(index).filter_map(|block| block.of(role)).all(Slice::only_failures);
            let kinds = kinds.map_or_else(String::new, |kinds| format!(" ({kinds})"));
            warnings.push(match (all, facts.errors) {
                (true, errors) => format!(
                    "{of_case}{name} answered nothing but errors: {errors} of {requests} answers{kinds}; there is no verdict on it"
                ),
                (false, 0) => format!(
                    "{of_case}not all of {requests} answers with {name} have a status of success{kinds}: make sure that all do the same work"
                ),
                (false, errors) => format!(
                    "{of_case}{errors} errors or error statuses and {requests} answers with {name}{kinds}: make sure that all do the same work"
                ),
            });
        }
    }
    warnings
}

/// All other warnings.
pub(crate) fn other_warnings(outcome: &Outcome, judgements: &[Judgement]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, case) in outcome.plan.cases.iter().enumerate() {
        let of_case = if outcome.plan.cases.len() > 1 { format!("{}: ", case.name) } else { String::new() };
        warnings.extend(about_case(outcome, judgements, index).into_iter().map(|warning| of_case.clone() + &warning));
    }
    let pinning = &outcome.plan.pinning;
    if let (Some(server), Some(load)) = (&pinning.server, &pinning.load)
        && server.numbers().iter().any(|cpu| load.numbers().contains(cpu))
    {
        warnings.push(format!(
            "server (CPU {server}) and load (CPU {load}) share a CPU: throughput is what they leave each other; \
             give them different ones with --server-cpu and --load-cpu"
        ));
    }
    if outcome.accounting == CpuAccounting::ProcessTree {
        warnings.push(
            "no control group of its own could be made or it was not wanted: CPU time is that of the process \
             tree, in which children that no process waits for are missing"
                .to_owned(),
        );
    }
    let done = counted(outcome.blocks.len(), "block");
    match &outcome.ending {
        Ending::Done => {}
        Ending::Budget => warnings.push(format!("the budget of time ended it: the report is of {done}")),
        Ending::Interrupted => {
            warnings.push(format!("it was interrupted with {done} complete: the report is of what was done"));
        }
        Ending::Failed(why) => warnings.push(format!("it failed after {done}, the report is of what was done: {why}")),
    }
    warnings
}

fn about_case(outcome: &Outcome, judgements: &[Judgement], case: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let plan = &outcome.plan;
    let blocks = outcome.blocks_of(case).count();
    let repeated = outcome.repeated(case, true);
    warnings.extend(failures(outcome, case));
    let fewest = blocks_for_a_verdict(judgements.len());
    if blocks < fewest {
        let among =
            if judgements.len() > 1 { format!(" among {} comparisons", judgements.len()) } else { String::new() };
        let are = if blocks == 1 { "1 block is".to_owned() } else { format!("{blocks} blocks are") };
        warnings.push(format!("{are} too few for a verdict{among}; at least {fewest} are needed"));
    }
    if repeated.len() < BLOCKS_FOR_A_VERDICT {
        let baseline = plan.subject_name(plan.cases[case].baseline());
        warnings.push(format!(
            "the noise floor rests on {} of {baseline} against itself; at least {BLOCKS_FOR_A_VERDICT} tell \
             something (--aa)",
            counted(repeated.len(), "block")
        ));
    }
    for judgement in judgements.iter().filter(|judgement| judgement.case == case) {
        if let (Some(ratio), Verdict::CannotTell) = (judgement.ratio, judgement.verdict)
            && ratio.blocks < outcome.pairs(case, judgement.subject).len()
        {
            warnings.push(format!("{} could not be measured in every block; use longer ones", judgement.metric.name()));
        }
    }
    let slices = |subject: usize| -> Vec<&Slice> {
        outcome.blocks_of(case).filter_map(|block| block.of(Role::Subject(subject))).collect()
    };
    let foreign: Vec<f64> = plan.cases[case]
        .subjects()
        .filter(|subject| plan.subjects[*subject].beside.is_none())
        .flat_map(|subject| slices(subject).into_iter().filter_map(|slice| slice.foreign_cpu_share))
        .collect();
    if let Some(share) = median(&foreign).filter(|share| *share > FOREIGN_LIMIT) {
        warnings.push(format!(
            "others used {:.0} % of the CPUs of server and load meanwhile: they make the noise; repeat it when the \
             machine is quiet",
            share * 100.0
        ));
    }
    for (metric, effect) in order_effects(outcome, case) {
        warnings.push(format!(
            "in blocks of {} against itself the second slice differs from the first by {:+.1} % in {}: what the one \
             leaves behind reaches the other; allow a longer --warm-up",
            plan.subject_name(plan.cases[case].baseline()),
            (effect - 1.0) * 100.0,
            metric.name()
        ));
    }
    for subject in plan.cases[case].subjects() {
        let (name, slices) = (plan.subject_name(subject), slices(subject));
        let shares: Vec<f64> = slices.iter().map(|slice| slice.generator_cpu_share).collect();
        if plan.measured == Measured::Server && generator_was_limit(&shares) {
            warnings.push(format!(
                "the load generator used more than {:.0} % of its CPU with {name}: the throughput is its own, \
                 compare the CPU per request; or give it more CPUs (--load-cpu), or the server less",
                GENERATOR_LIMIT * 100.0
            ));
        }
    }
    warnings
}

/// Whose slices failed, so that blocks were measured again: a selection that a reader should know of.
fn failures(outcome: &Outcome, case: usize) -> Vec<String> {
    let (plan, failed) = (&outcome.plan, || outcome.blocks_of(case).flat_map(|block| &block.failed));
    let subject = |found: &FailedSlice| match found.role? {
        Role::Subject(subject) => Some(subject),
        Role::Again => Some(plan.cases[case].baseline()),
    };
    let of = |subjects: Option<usize>| {
        let found: Vec<&FailedSlice> = failed().filter(|found| subject(found) == subjects).collect();
        let why = found.first()?.why.lines().next().unwrap_or_default().to_owned();
        let what = match (subjects.map(|subject| plan.subject_name(subject)), found.len()) {
            (None, 1) => "a server did not start when it should, and was started again".to_owned(),
            (None, times) => format!("{times} times a server did not start when it should, and was started again"),
            (Some(name), 1) => format!("a slice of {name} failed and is in no figure; its block was measured again"),
            (Some(name), slices) => {
                format!("{slices} slices of {name} failed and are in no figure; their blocks were measured again")
            }
        };
        Some(format!("{what}: {why}"))
    };
    plan.cases[case].subjects().map(Some).chain([None]).filter_map(of).collect()
}

/// The part of its CPUs that the generator used with each subject of a case, by their names: medians.
pub(crate) fn generator_shares(outcome: &Outcome, case: usize) -> Vec<(String, f64)> {
    let share = |subject: usize| {
        let role = Role::Subject(subject);
        let shares: Vec<f64> =
            outcome.blocks_of(case).filter_map(|block| Some(block.of(role)?.generator_cpu_share)).collect();
        Some((outcome.plan.subject_name(subject), median(&shares)?))
    };
    outcome.plan.cases[case].subjects().filter_map(share).collect()
}

/// Metrics in which the baseline's second slice of a block differs from its first, with the median ratio,
/// where that is clear and large enough to interest. The order is drawn, so the verdict is not
/// biased by it, but the noise is larger than need be.
fn order_effects(outcome: &Outcome, case: usize) -> Vec<(Metric, f64)> {
    let interesting = 1.0 + outcome.plan.smallest_effect;
    let effect = |metric: &Metric| {
        let mut ratios = PairedRatios::default();
        for (first, second) in outcome.repeated(case, true) {
            // Without a ratio there is no effect to be seen either.
            let _no_ratio = metric.of(first).zip(metric.of(second)).map(|(first, second)| ratios.push(first, second));
        }
        let found = ratios.snapshot(&Bootstrap::with_seed(outcome.plan.seed)).ok()?;
        let is_large = found.point.max(1.0 / found.point) >= interesting;
        let is_clear = found.blocks >= BLOCKS_FOR_A_VERDICT && !found.interval.contains(1.0);
        (is_large && is_clear).then_some((*metric, found.point))
    };
    Metric::concerning(outcome.plan.measured).iter().filter_map(effect).collect()
}
