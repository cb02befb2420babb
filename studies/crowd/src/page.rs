//! The page: what each policy made of the crowd, what it took, and a real cluster beside the simulated one.

use crate::crowd::{CALM_PER_S, END_S, ONSET_S, RISE_S, TIMES, mean_of_files};
use crate::measured::Measured;
use crate::rules::POLICY;
use crate::simulation::{LINK_BITS_PER_S, NODES, NODES_MIN, OBJECTIVE_NS, Outcome, START_S, wire_bytes};
use std::fmt::Write;

/// The outcomes of a seed, one for each policy.
pub(crate) type Outcomes = Vec<Outcome>;

/// What is asked, and whether it holds for each seed.
pub(crate) struct Claim {
    words: String,
    pub(crate) holds: bool,
}

/// The smallest, middle and largest of some figures.
fn range(figures: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    let mut all: Vec<f64> = figures.collect();
    all.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (all.first(), all.last()) else { return "-".to_owned() };
    let (least, middle, most) = (show(*least), show(all[all.len() / 2]), show(*most));
    if least == most { middle } else { format!("{middle} ({least} to {most})") }
}

fn of<'a>(all: &'a [Outcomes], name: &'a str) -> impl Iterator<Item = &'a Outcome> + Clone {
    all.iter().flat_map(move |outcomes| outcomes.iter().filter(move |outcome| outcome.name == name))
}

fn latency(ns: Option<u64>) -> f64 {
    ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
}

fn show_ms(ms: f64) -> String {
    if ms.is_finite() { format!("{ms:.0} ms") } else { "refused".to_owned() }
}

/// When three nodes would first miss the objective, seconds behind the onset.
fn missed_s(outcome: &Outcome) -> Option<f64> {
    let missed =
        outcome.seconds.iter().enumerate().find(|(at, second)| *at as f64 >= ONSET_S && !second.keeps_objective());
    missed.map(|(at, _)| at as f64 - ONSET_S)
}

pub(crate) fn claims(all: &[Outcomes]) -> Vec<Claim> {
    let rules = || of(all, "weir's rules");
    let three: Vec<_> = of(all, "three nodes").map(missed_s).collect();
    let early = rules().zip(&three).all(|(rules, missed)| match (rules.grew_s, missed) {
        (Some(grew_s), Some(missed_s)) => grew_s - ONSET_S + START_S < *missed_s,
        _ => false,
    });
    let beats = |other: &str| rules().zip(of(all, other)).all(|(one, other)| one.kept_percent() > other.kept_percent());
    let claim = |words: &str, holds| Claim { words: words.to_owned(), holds };
    vec![
        claim(
            "by weir's rules at least 95 % of the seconds keep the objective",
            rules().all(|one| one.kept_percent() >= 95.0),
        ),
        claim("weir's rules have the reserve serve before three nodes would miss the objective", early),
        claim("weir's rules keep it for more seconds than the autoscaler", beats("autoscaler, 70 % each 15 s")),
        claim(
            "weir's rules keep it for more seconds than limits that refuse",
            beats("Envoy's gradient") && beats("Netflix's gradient2"),
        ),
        claim(
            "that takes fewer node-seconds than five nodes and than the autoscaler",
            rules()
                .zip(of(all, "autoscaler, 70 % each 15 s"))
                .all(|(one, other)| one.node_seconds < other.node_seconds.min(NODES as f64 * END_S)),
        ),
    ]
}

pub(crate) fn page(all: &[Outcomes], names: &[&str], measured: &[Measured], surroundings: Option<&str>) -> String {
    let mut page = format!(
        "# A flash crowd over three nodes and two reserves\n\n\
         `make study-crowd` repeats it and writes this page; it fails where something does not hold.\n\n\
         Users ask {CALM_PER_S:.0} times a second, each time over a new connection; from {ONSET_S:.0} s on the rate rises evenly within {RISE_S:.0} s to {TIMES:.0} times as many, stays for 60 s, and falls within 30 s.\n\
         Times between arrivals are exponential, files are of 2 to 16 KiB and asked for by Zipf's law; arrivals wait for no response.\n\
         Each node has a link of {:.0} Mbit/s, which all its responses share. Three nodes serve, two stand in reserve, and a new connection goes to each serving node alike.\n\
         The objective: 99 of 100 arrivals of a second have their response within {} ms; who is refused has none.\n\
         Every policy is given the same arrivals ({} seeds), reads the nodes each second, and has what it wishes for after {START_S:.0} s.\n\n\
         The policies of others are implemented from their documentation, with its defaults: Kubernetes' HorizontalPodAutoscaler (15 s, 70 %, shrinking after 300 s), Envoy's adaptive concurrency, and Netflix's `Gradient2Limit` in windows of 1 s.\n\
         The last two add no node: they refuse what would wait.\n\n```text\n{}```\n\n",
        LINK_BITS_PER_S / 1e6,
        OBJECTIVE_NS / 1_000_000,
        all.len(),
        POLICY,
    );
    table(&mut page, all, names);
    let _ = write!(page, "\n![Latency and nodes over time, for each policy](RESULTS.svg)\n\n## What holds\n\n");
    for claim in claims(all) {
        let _ = writeln!(page, "- {}: {}.", if claim.holds { "Holds" } else { "Does not hold" }, claim.words);
    }
    speed(&mut page, all);
    crate::measured::section(&mut page, measured, surroundings);
    page
}

fn table(page: &mut String, all: &[Outcomes], names: &[&str]) {
    page.push_str("| policy | seconds that keep the objective | 99th percentile of all arrivals | refused | grew, after the onset | node-seconds | use of serving nodes |\n|---|---|---|---|---|---|---|\n");
    for name in names {
        let percent = |figure: f64| format!("{figure:.1} %");
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            range(of(all, name).map(Outcome::kept_percent), percent),
            range(of(all, name).map(|one| latency(one.p99_ns())), show_ms),
            range(of(all, name).map(|one| one.refused() as f64), |count| format!("{count:.0}")),
            range(of(all, name).filter_map(|one| one.grew_s).map(|at_s| at_s - ONSET_S), |at_s| format!("{at_s:.0} s")),
            range(of(all, name).map(|one| one.node_seconds), |seconds| format!("{seconds:.0}")),
            range(of(all, name).map(|one| 100.0 * one.used), |used| format!("{used:.0} %")),
        );
    }
}

/// Node-hours of a day that has this crowd, and the calm with the fewest nodes otherwise.
fn node_hours_of_a_day(outcome: &Outcome) -> f64 {
    (NODES_MIN as f64 * (24.0 * 3600.0 - END_S) + outcome.node_seconds) / 3600.0
}

/// The share of the links of so many nodes that the calm leaves unused, in percent.
fn unused_percent(nodes: usize) -> f64 {
    100.0 * (1.0 - CALM_PER_S * mean_of_files(wire_bytes) * 8.0 / (LINK_BITS_PER_S * nodes as f64))
}

/// The paper's last question.
fn speed(page: &mut String, all: &[Outcomes]) {
    let grew = range(of(all, "weir's rules").filter_map(|one| one.grew_s).map(|at_s| at_s - ONSET_S), |at_s| {
        format!("{at_s:.0} s")
    });
    let missed = range(of(all, "three nodes").filter_map(missed_s), |at_s| format!("{at_s:.0} s"));
    let more = range(of(all, "weir's rules").map(|one| one.node_seconds - NODES_MIN as f64 * END_S), |seconds| {
        format!("{seconds:.0} node-seconds")
    });
    let _ = write!(
        page,
        "\n## How fast it adapts, and what that costs\n\n\
         The Patia paper ends with this question, and begins its conclusion with servers of which \"three quarters\" of the capacity is unused day by day.\n\n\
         - The rules decide {grew} after the onset; three nodes by themselves first miss the objective after {missed}.\n\
         - The crowd takes {more} more than three nodes that never grow; five that always serve take {:.0} more.\n\
         - A day with one such crowd, and calm otherwise, takes {} node-hours with the rules and {} with five nodes. In the calm {:.0} % of five nodes' links are unused, and {:.0} % of three nodes'.\n\
         - The reserve is not lost meanwhile: it may serve others until it is asked for.\n\n\
         What the decision was made on, for each seed:\n\n",
        (NODES - NODES_MIN) as f64 * END_S,
        range(of(all, "weir's rules").map(node_hours_of_a_day), |hours| format!("{hours:.1}")),
        NODES * 24,
        unused_percent(NODES),
        unused_percent(NODES_MIN),
    );
    for (seed, rules) in of(all, "weir's rules").enumerate() {
        let _ = writeln!(page, "- seed {}: {}.", seed + 1, rules.reason.as_deref().unwrap_or("it did not grow"));
    }
}
