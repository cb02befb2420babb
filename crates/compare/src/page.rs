//! The report as one HTML file: an outcome put into the words and figures of its page.
use weir_measure::comparison::Verdict;
use weir_report::{Compared, ComparedCase, ComparedPoint, ComparedResult, ComparedSeries, compared_html};

use crate::history::{Trends, utc};
use crate::host::Host;
use crate::measured_slice::Slice;
use crate::metric::{Measured, Metric};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::quantity::counted;
use crate::schedule::Role;
use crate::terminal::{in_words, why};
use crate::verdict::{Judgement, verdicts};
use crate::warning::warnings_of;

mod beside;

/// What a page tells beside the outcome.
#[derive(Debug, Clone, Copy)]
pub struct PageContext<'a> {
    /// Repeats the experiment.
    pub command: &'a str,
    /// On what it ran.
    pub host: &'a Host,
    /// When it ended, in seconds since 1970.
    pub at_s: u64,
    /// What a history says, where one is kept.
    pub trends: Option<&'a Trends>,
}

/// The report as one HTML file that loads nothing: the verdicts in words, ratios block by block with their intervals,
/// curves of latencies, parts, a table of all metrics, and what it rests on.
#[must_use]
pub fn html_report(outcome: &Outcome, context: &PageContext<'_>) -> String {
    compared_html(&compared(outcome, context))
}

fn compared(outcome: &Outcome, context: &PageContext<'_>) -> Compared {
    let (plan, judgements) = (&outcome.plan, verdicts(outcome));
    let of_case = plan.cases.len() > 1;
    Compared {
        subject: subject(plan),
        answer: answer(plan, &judgements),
        warnings: warnings_of(outcome, &judgements),
        cases: (0..plan.cases.len()).map(|index| case(outcome, &judgements, index)).collect(),
        history: context.trends.map_or_else(Vec::new, |trends| history(trends, of_case)),
        history_words: context.trends.map_or_else(Vec::new, Trends::words),
        evidence: evidence(outcome, context),
        commands: commands(plan, context.command),
    }
}

fn subject(plan: &Plan) -> String {
    let names: Vec<&str> = plan.subjects.iter().map(|subject| subject.name.as_str()).collect();
    match (names.as_slice(), plan.cases.len()) {
        ([baseline, other], 1) => format!("{other} against {baseline}"),
        ([baseline, other], cases) => format!("{other} against {baseline} in {cases} cases"),
        (names, 1) => format!("{} subjects", names.len()),
        (names, cases) => format!("{} subjects in {cases} cases", names.len()),
    }
}

/// The verdicts in a sentence.
fn answer(plan: &Plan, judgements: &[Judgement]) -> String {
    let of = |verdict: Verdict| judgements.iter().filter(move |judgement| judgement.verdict == verdict);
    let Some(first) = judgements.first() else { return "There is nothing to compare.".to_owned() };
    if judgements.iter().any(|judgement| (judgement.case, judgement.subject) != (first.case, first.subject)) {
        let count = |verdict, word| (of(verdict).count(), word);
        let counts =
            [count(Verdict::Better, "better"), count(Verdict::Worse, "worse"), count(Verdict::TheSame, "the same")];
        let told: Vec<String> =
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let open = of(Verdict::CannotTell).count();
        let told = if told.is_empty() { "none is decided".to_owned() } else { told.join(", ") };
        let open = if open > 0 { format!("; about {open} one cannot tell") } else { String::new() };
        return format!("Of {} comparisons: {told}{open}.", judgements.len());
    }
    let (subject, baseline) = (plan.subject_name(first.subject), plan.subject_name(plan.cases[first.case].baseline()));
    let metrics = |verdict| listed(&of(verdict).map(|judgement| judgement.metric.name()).collect::<Vec<_>>());
    let mut clauses = Vec::new();
    for (verdict, word) in [(Verdict::Worse, "worse"), (Verdict::Better, "better"), (Verdict::TheSame, "the same")] {
        if let Some(metrics) = metrics(verdict) {
            let begin = if clauses.is_empty() { format!("{subject} against {baseline} is ") } else { String::new() };
            clauses.push(format!("{begin}{word} in {metrics}"));
        }
    }
    let open = metrics(Verdict::CannotTell).map(|metrics| format!("about {metrics} one cannot tell"));
    match (clauses.is_empty(), open) {
        (true, Some(_)) => format!("Whether {subject} differs from {baseline}, one cannot tell."),
        (_, Some(open)) => format!("{}; {open}.", clauses.join(", ")),
        (_, None) => format!("{}.", clauses.join(", ")),
    }
}

/// `one, two and three`; `None` without any.
fn listed(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) })
}

fn case(outcome: &Outcome, judgements: &[Judgement], index: usize) -> ComparedCase {
    let plan = &outcome.plan;
    let case = &plan.cases[index];
    let baseline = plan.subject_name(case.baseline());
    let (blocks, repeated) = (outcome.blocks_of(index).count(), outcome.repeated(index, false).len());
    let options = if case.options.is_empty() { String::new() } else { format!(" with {}", case.options.join(" ")) };
    let of_case = judgements.iter().filter(|judgement| judgement.case == index);
    let whys = case.subjects().skip(1).map(|subject| {
        let of_subject: Vec<&Judgement> = of_case.clone().filter(|judgement| judgement.subject == subject).collect();
        (plan.subject_name(subject), why(outcome, &of_subject))
    });
    ComparedCase {
        why: whys.filter(|(_, whys)| !whys.is_empty()).collect(),
        name: if plan.cases.len() > 1 { case.name.clone() } else { String::new() },
        manner: format!(
            "{}{options}; {}, {baseline} twice in {repeated} of them; {} s a slice after {} s of warm-up.",
            counted(case.connections as usize, "connection"),
            counted(blocks, "block"),
            plan.repetitions.block_s,
            plan.repetitions.warm_up_s
        ),
        smallest_effect: plan.smallest_effect,
        results: of_case.map(|judgement| result(outcome, judgement, &baseline)).collect(),
        subjects: beside::subjects(outcome, index),
        facts: beside::facts(outcome, index),
        baseline,
    }
}

fn result(outcome: &Outcome, judgement: &Judgement, baseline: &str) -> ComparedResult {
    let plan = &outcome.plan;
    let (metric, subject) = (judgement.metric, plan.subject_name(judgement.subject));
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| metric.with_unit(value));
    let held = plan.cases[judgement.case].baseline();
    let ratios = |other: Role| -> Vec<(usize, f64)> {
        let blocks = outcome.blocks_of(judgement.case).enumerate();
        let pairs =
            blocks.filter_map(|(number, block)| Some((number + 1, block.of(Role::Subject(held))?, block.of(other)?)));
        pairs.filter_map(|(number, baseline, other)| Some((number, ratio(metric, baseline, other)?))).collect()
    };
    ComparedResult {
        metric: metric.name().to_owned(),
        baseline_value: value(judgement.baseline_median),
        value: value(judgement.median),
        ratio: judgement.ratio,
        noise: judgement.noise,
        verdict: judgement.verdict,
        words: in_words(judgement, &subject, baseline, plan.smallest_effect),
        chance: judgement.corrected_probability,
        smallest_found: judgement.smallest_found,
        ratios: ratios(Role::Subject(judgement.subject)),
        repeated: ratios(Role::Again),
        subject,
    }
}

fn ratio(metric: Metric, baseline: &Slice, other: &Slice) -> Option<f64> {
    let ratio = metric.of(other)? / metric.of(baseline)?;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn history(trends: &Trends, of_case: bool) -> Vec<ComparedSeries> {
    let series = |trend: &crate::history::Trend| ComparedSeries {
        name: trend.name(of_case),
        words: if trend.words.is_empty() { "no shift that lasts".to_owned() } else { trend.words.clone() },
        is_ratio: trend.against.is_some(),
        is_worse: trend.is_worse,
        points: trend
            .points
            .iter()
            .map(|point| ComparedPoint {
                label: format!("{} {}", utc(point.at_s), point.label).trim_end().to_owned(),
                value: point.value,
                shown: trend.shown(point.value),
                level: point.level,
                begins: point.begins,
            })
            .collect(),
    };
    trends.figures.iter().map(series).collect()
}

fn evidence(outcome: &Outcome, context: &PageContext<'_>) -> Vec<(String, String)> {
    let plan = &outcome.plan;
    let cpus = |set: Option<&crate::cpus::CpuSet>| set.map_or("any CPU".to_owned(), |set| format!("CPU {set}"));
    let repetitions = &plan.repetitions;
    let until = repetitions
        .until
        .map_or(String::new(), |until| format!(", until intervals reach no further than {} %", until * 100.0));
    let budget = repetitions.budget_s.map_or(String::new(), |budget| format!(", for {budget} s at most"));
    let restarted =
        if outcome.restarted { "servers are started for each slice" } else { "servers stay up, idle but for one" };
    [
        ("Machine", context.host.describe()),
        ("Ended", format!("{} UTC", utc(context.at_s))),
        (
            "CPUs",
            format!(
                "servers {}, load {}",
                cpus(plan.pinning.server.as_ref()),
                cpus(plan.pinning.load.as_ref())
            ),
        ),
        (
            "Plan",
            format!(
                "up to {} blocks of each case, the baseline twice in {}{until}{budget}; {} s a slice after {} s of warm-up; {restarted}",
                repetitions.blocks, repetitions.aa_blocks, repetitions.block_s, repetitions.warm_up_s
            ),
        ),
        ("Smallest effect that interests", format!("{} %", plan.smallest_effect * 100.0)),
        ("CPU time by", outcome.accounting.describe().to_owned()),
        ("Intervals", "bootstrap of the median ratio over blocks, 95 %; chance by the signed-rank test, corrected by Holm's procedure".to_owned()),
        ("Order drawn by seed", plan.seed.to_string()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}

fn commands(plan: &Plan, again: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for subject in &plan.subjects {
        let server = plan.servers.get(subject.server).map(|server| server.command.to_string()).unwrap_or_default();
        let command = match plan.measured {
            Measured::Server => server,
            Measured::Generator => subject.load.to_string(),
        };
        commands.push((subject.name.clone(), command));
        commands.extend(subject.beside.as_ref().map(|beside| (format!("beside {}", subject.name), beside.to_string())));
    }
    match plan.measured {
        Measured::Generator => {
            commands.extend(plan.servers.iter().map(|server| (server.name.clone(), server.command.to_string())));
        }
        Measured::Server => {
            let mut loads: Vec<String> = plan.subjects.iter().map(|subject| subject.load.to_string()).collect();
            loads.dedup();
            commands.extend(loads.into_iter().map(|load| ("load".to_owned(), load)));
        }
    }
    commands.push(("Again".to_owned(), again.to_owned()));
    commands
}
