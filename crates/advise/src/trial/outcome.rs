//! What a trial showed, in words and as JSON.

use crate::finding::Finding;
use crate::rules::Case;
use serde_json::{Value, json};
use weir_compare::{Judgement, Metric, Outcome};
use weir_load::Url;
use weir_measure::comparison::Verdict;
use weir_report::hanging;

/// Columns of what stands at the left of a line.
const LABEL: usize = 12;
/// Above this share of failed requests the sides are not alike.
const MANY_ERRORS: f64 = 0.01;

/// A trial for a reader and for a program.
pub struct Shown {
    /// For a terminal.
    pub text: String,
    /// For a program.
    pub json: Value,
}

/// Shows a trial.
pub(super) fn shown(finding: &Finding, case: &Case<'_>, url: &Url, outcome: &Outcome) -> Shown {
    let judgements = weir_compare::verdicts(outcome);
    let of = |metric: Metric| judgements.iter().find(|judgement| judgement.metric == metric);
    let (rate, cpu) = (of(Metric::RatePerS), of(Metric::CpuNsPerRequest));
    let connections = outcome.plan.cases.first().map_or(0, |case| case.connections);
    let errors = errors(outcome);
    let verdict = words(rate, cpu, errors);
    let changes: Vec<String> = finding
        .settings
        .iter()
        .map(|setting| format!("{} {} -> {}", setting.name, setting.now, setting.proposed))
        .collect();
    let mut lines = vec![
        format!("Trial of finding {}: {}", finding.number, finding.title),
        format!("change      {}", changes.join("; ")),
        format!(
            "on          {url}, by copies of {} on ports of their own, {connections} connections, closed loop",
            servers(case)
        ),
    ];
    lines.push(line("throughput", rate, |value| format!("{value:.1}/s")));
    // By Little's law: as many requests are in flight on both sides, so responses take as much less as there are more.
    let response = rate
        .and_then(|judgement| judgement.ratio)
        .map(|ratio| (1.0 / ratio.point, 1.0 / ratio.interval.high, 1.0 / ratio.interval.low));
    if let Some((point, low, high)) = response {
        lines.push(format!("response    {point:.3} times as long ({low:.3} to {high:.3}): as many are in flight, and the throughput is what it is (Little's law)"));
    }
    lines.push(line("CPU/request", cpu, weir_report::nanoseconds));
    lines.push(format!("verdict     {verdict}"));
    if let (Some((point, ..)), estimate) = (response, finding.effect.share) {
        lines.push(format!(
            "estimated   {:.0} % less (between {:.0} and {:.0} %), measured {:.0} % less",
            100.0 * estimate.likely_ns,
            100.0 * estimate.low_ns,
            100.0 * estimate.high_ns,
            100.0 * (1.0 - point)
        ));
    }
    lines.extend(weir_compare::warnings(outcome).iter().map(|warning| format!("note        {warning}")));
    lines.push("Both copies are stopped and removed; your servers were not touched.".to_owned());
    lines.push(String::new());
    let ratio = |judgement: Option<&Judgement>| judgement.map_or(Value::Null, |judgement| json!(judgement));
    let json = json!({
        "finding": finding.number,
        "rule": finding.rule,
        "changes": changes,
        "url": url.to_string(),
        "connections": connections,
        "throughput": ratio(rate),
        "cpu_per_request": ratio(cpu),
        "response_ratio": response.map(|(point, low, high)| json!({"median": point, "low": low, "high": high})),
        "errors": {"original": errors.0, "changed": errors.1},
        "verdict": verdict,
    });
    let width = weir_terminal::output::columns();
    let text: Vec<String> = lines.iter().map(|line| hanging(line, LABEL, width)).collect();
    Shown { text: text.join("\n"), json }
}

fn servers(case: &Case<'_>) -> String {
    let names: Vec<&str> = case.servers.list.iter().map(|server| server.kind.name()).collect();
    names.join(", ")
}

fn line(name: &str, judgement: Option<&Judgement>, unit: impl Fn(f64) -> String) -> String {
    let figures = judgement
        .and_then(|judgement| Some((judgement.ratio?, judgement.baseline_median?, judgement.median?, judgement.noise)));
    let Some((ratio, a, b, noise)) = figures else { return format!("{name:<11} not measured") };
    let floor = noise.map_or_else(
        || "not measured".to_owned(),
        |noise| format!("{:.3} to {:.3}", noise.interval.low, noise.interval.high),
    );
    format!(
        "{name:<11} {:.3} times the original's ({:.3} to {:.3}, 95 % interval of {} pairs): {} -> {}; noise floor {floor}",
        ratio.point,
        ratio.interval.low,
        ratio.interval.high,
        ratio.blocks,
        unit(a),
        unit(b)
    )
}

/// Shares of failed requests of the original and the changed side.
fn errors(outcome: &Outcome) -> (f64, f64) {
    let pairs = outcome.pairs(0, 1);
    let share = |errors: u64, requests: u64| errors as f64 / (errors + requests).max(1) as f64;
    let a = pairs.iter().fold((0, 0), |sum, (a, _)| (sum.0 + a.errors, sum.1 + a.requests));
    let b = pairs.iter().fold((0, 0), |sum, (_, b)| (sum.0 + b.errors, sum.1 + b.requests));
    (share(a.0, a.1), share(b.0, b.1))
}

fn words(rate: Option<&Judgement>, cpu: Option<&Judgement>, errors: (f64, f64)) -> String {
    if errors.0.max(errors.1) > MANY_ERRORS {
        return format!(
            "nothing can be concluded: {:.1} % of the original's and {:.1} % of the changed server's requests failed",
            100.0 * errors.0,
            100.0 * errors.1
        );
    }
    let of = |judgement: Option<&Judgement>| judgement.map_or(Verdict::CannotTell, |judgement| judgement.verdict);
    match (of(rate), of(cpu)) {
        (Verdict::Better, _) => {
            "the change helps: the server answers more requests, by more than chance and the smallest effect"
        }
        (Verdict::Worse, _) => "the change harms: the server answers fewer requests; leave the setting as it is",
        (Verdict::TheSame, Verdict::Better) => "throughput stays, and the server needs less CPU for a request, by more than chance",
        (Verdict::TheSame, _) => "the change makes no difference that would interest you",
        (Verdict::CannotTell, Verdict::Better) => {
            "the change helps: the server needs less CPU for a request, by more than chance; of its throughput one cannot tell, the machine was too noisy"
        }
        (Verdict::CannotTell, Verdict::Worse) => {
            "the change costs: the server needs more CPU for a request; of its throughput one cannot tell, the machine was too noisy"
        }
        (Verdict::CannotTell, _) => "one cannot tell: the interval holds both; more --blocks or a longer --block-seconds would narrow it",
    }
    .to_owned()
}
