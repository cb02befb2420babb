//! What an explanation says, as far as advice needs it: read from its JSON, whose shape is stable.
//!
//! A section that is missing, because the weir that wrote it did not know it, is empty here.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_measure::part::Part;
use weir_report::Explanation;

/// An explanation. Times are nanoseconds of each response unless they say otherwise.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Observed {
    /// What was loaded or recorded.
    pub(crate) subject: String,
    /// Answered requests.
    pub(crate) requests: u64,
    /// Answered requests a second.
    pub(crate) rate_per_s: f64,
    /// Bytes of responses.
    pub(crate) bytes: u64,
    /// Share of the requests that were joined with the server's side.
    pub(crate) joined_fraction: f64,
    response_ns: Option<BTreeMap<String, f64>>,
    parts_ns: BTreeMap<String, f64>,
    slow_parts_ns: BTreeMap<String, f64>,
    /// Mean of the slowest 1 %.
    pub(crate) slow_response_ns: f64,
    /// The largest parts, with who or what was to blame.
    pub(crate) causes: Vec<Blame>,
    /// The server's CPU time.
    pub(crate) server_cpu: ServerCpu,
    /// What processes had of the mean response.
    pub(crate) processes: Vec<Process>,
    /// Who waited for whom.
    pub(crate) waiting: Vec<Edge>,
    /// Queries that responses waited for.
    pub(crate) queries: Vec<Query>,
    examples: Vec<Example>,
}

/// A part, with who or what was to blame by share of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Blame {
    /// The part's name.
    pub(crate) part: String,
    /// Its mean.
    pub(crate) mean_ns: f64,
    /// Who, with the share of the part.
    pub(crate) who: Vec<(String, f64)>,
}

/// The server's CPU time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServerCpu {
    /// CPUs in use on average.
    pub(crate) utilisation: f64,
    /// CPU time of a request.
    pub(crate) used_ns_per_request: f64,
}

/// A process's share of the mean response.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Process {
    /// Its name.
    pub(crate) name: String,
    /// Running.
    pub(crate) run_ns: f64,
}

/// An edge of the waiting graph.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Edge {
    /// Who waited.
    pub(crate) from: String,
    /// For whom or what.
    pub(crate) to: String,
    /// As which part.
    pub(crate) part: String,
    /// How long.
    pub(crate) mean_ns: f64,
}

/// A query.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Query {
    /// The database's name.
    pub(crate) server: String,
    /// Its text, literals replaced.
    pub(crate) text: String,
    /// How often it was run.
    pub(crate) count: u64,
    /// Mean of a run.
    pub(crate) mean_ns: f64,
    /// Longest run.
    pub(crate) max_ns: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Example {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Step {
    task: String,
    part: String,
    who: String,
}

impl Observed {
    /// From an explanation.
    pub(crate) fn of(explanation: &Explanation) -> anyhow::Result<Self> {
        Ok(serde_json::from_value(serde_json::to_value(explanation)?)?)
    }

    /// The mean response.
    pub(crate) fn response_ns(&self) -> f64 {
        let told = self.response_ns.as_ref().and_then(|summary| summary.get("mean")).copied();
        told.unwrap_or_else(|| self.parts_ns.values().sum())
    }

    /// A part of the mean response.
    pub(crate) fn part_ns(&self, part: &str) -> f64 {
        self.parts_ns.get(part).copied().unwrap_or(0.0)
    }

    /// The same of the slowest 1 %.
    pub(crate) fn slow_part_ns(&self, part: &str) -> f64 {
        self.slow_parts_ns.get(part).copied().unwrap_or(0.0)
    }

    /// A part's share of the mean response, 0 to 1.
    pub(crate) fn share(&self, ns: f64) -> f64 {
        ns / self.response_ns().max(1.0)
    }

    /// Requests in flight on average, by Little's law.
    pub(crate) fn in_flight(&self) -> f64 {
        weir_measure::queueing::at_once(self.rate_per_s, self.response_ns())
    }

    /// Who is blamed for a part, with nanoseconds of each response.
    pub(crate) fn blamed(&self, part: &str) -> Vec<(String, f64)> {
        let causes = self.causes.iter().filter(|cause| cause.part == part);
        causes
            .flat_map(|cause| cause.who.iter().map(|(who, share)| (asked(who).to_owned(), share * cause.mean_ns)))
            .collect()
    }

    /// How much of a part those have that fit, nanoseconds of each response: as the waiting graph tells, or as the
    /// causes do where there is no graph.
    pub(crate) fn of_whom(&self, part: &str, fits: impl Fn(&str) -> bool) -> f64 {
        let edges = self.waiting.iter().filter(|edge| edge.part == part && fits(asked(&edge.to)));
        let by_graph: f64 = edges.map(|edge| edge.mean_ns).sum();
        let by_causes: f64 = self.blamed(part).iter().filter(|(who, _)| fits(who)).map(|(_, ns)| ns).sum();
        by_graph.max(by_causes)
    }

    /// Mean CPU time of a response, as far as any process of it was seen to run.
    pub(crate) fn cpu_ns(&self) -> f64 {
        let processes: f64 = self.processes.iter().map(|process| process.run_ns).sum();
        self.server_cpu.used_ns_per_request.max(processes).max(self.part_ns("run"))
    }

    /// The names of the tasks that worked on responses: the servers' own, of known and unknown kinds.
    pub(crate) fn serving(&self) -> BTreeSet<&str> {
        let tasks = self.examples.iter().flat_map(|example| &example.steps).map(|step| step.task.as_str());
        let all = tasks.chain(self.processes.iter().map(|process| process.name.as_str()));
        all.map(|label| label.split(" (").next().unwrap_or(label)).filter(|name| !name.is_empty()).collect()
    }

    /// (name, process number) of all tasks that are named with a number, except those that merely had a CPU: a
    /// neighbour is no server of this site, even if it serves another.
    pub(crate) fn named(&self) -> Vec<(String, u32)> {
        let asked = |part: &str| part != Part::WaitCpu.name();
        let steps = self.examples.iter().flat_map(|example| &example.steps);
        let steps = steps.flat_map(|step| std::iter::once(&step.task).chain(asked(&step.part).then_some(&step.who)));
        let causes = self.causes.iter().filter(|cause| asked(&cause.part));
        let causes = causes.flat_map(|cause| cause.who.iter().map(|(who, _)| who));
        let edges = self.waiting.iter();
        let edges = edges.flat_map(|edge| std::iter::once(&edge.from).chain(asked(&edge.part).then_some(&edge.to)));
        let mut named: Vec<_> = steps.chain(causes).chain(edges).filter_map(|label| numbered(label)).collect();
        named.sort();
        named.dedup();
        named
    }
}

/// `apache2 (4711)` as name and number.
fn numbered(label: &str) -> Option<(String, u32)> {
    let (name, rest) = label.rsplit_once(" (")?;
    Some((name.to_owned(), rest.strip_suffix(')')?.parse().ok()?))
}

/// Who was asked, of a label that says what as well: `127.0.0.1:5432: SELECT ?`, `postgres (12): SELECT ?`.
fn asked(label: &str) -> &str {
    let Some((who, _)) = label.split_once(": ") else { return label };
    let number = who.strip_suffix(')').and_then(|who| Some(who.rsplit_once(" (")?.1));
    let is_task = number.is_some_and(|number| number.trim_end_matches(" processes").parse::<u32>().is_ok());
    if is_task || who.parse::<std::net::SocketAddr>().is_ok() { who } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_explanation_lacks_sections_and_is_read_all_the_same() {
        let text = r#"{"requests": 8, "rate_per_s": 100.0, "response_ns": {"mean": 80e6},
            "parts_ns": {"run": 1e6, "wait_process": 79e6},
            "causes": [{"part": "wait_process", "mean_ns": 79e6, "who": [["php-fpm8.2 (12)", 0.9], ["x (3 processes)", 0.1]]},
                       {"part": "wait_cpu", "mean_ns": 1e6, "who": [["nginx (13)", 1.0]]}]}"#;
        let observed: Observed = serde_json::from_str(text).expect("an explanation");
        assert!((observed.in_flight() - 8.0).abs() < 1e-9);
        assert!((observed.of_whom("wait_process", |who| who.starts_with("php")) - 71.1e6).abs() < 1.0);
        assert_eq!(observed.named(), [("php-fpm8.2".to_owned(), 12)]);
        assert_eq!(observed.part_ns("steal"), 0.0);
    }

    #[test]
    fn who_took_a_cpu_is_no_server() {
        let text = r#"{
            "causes": [{"part": "wait_cpu", "mean_ns": 1e6, "who": [["apache2 (3)", 1.0]]},
                {"part": "wait_process", "mean_ns": 1e6, "who": [["postgres (4)", 1.0]]}],
            "waiting": [{"from": "nginx (1)", "to": "apache2 (3)", "part": "wait_cpu", "mean_ns": 1e6},
                {"from": "nginx (1)", "to": "php-fpm8.2 (2)", "part": "run", "mean_ns": 1e6}],
            "examples": [{"steps": [{"part": "wait_cpu", "from_ns": 0, "ns": 1, "task": "nginx (1)", "who": "apache2 (3)"},
                {"part": "wait_lock", "from_ns": 1, "ns": 1, "task": "nginx (1)", "who": "mariadbd (5)"}]}]}"#;
        let observed: Observed = serde_json::from_str(text).expect("an explanation");
        let named = observed.named();
        let numbers: Vec<u32> = named.iter().map(|(_, pid)| *pid).collect();
        assert_eq!(numbers, [5, 1, 2, 4], "{named:?}");
    }
}
