//! Subjects beside each other: what each did and used, in the words of a page.
use weir_measure::part::Part;
use weir_report::{ComparedSubject, count, nanoseconds};

use crate::facts::{SubjectFacts, subject_facts};
use crate::metric::Metric;
use crate::outcome::Outcome;

/// The subjects of a case with their curves and parts.
pub(super) fn subjects(outcome: &Outcome, case: usize) -> Vec<ComparedSubject> {
    let subject = |facts: SubjectFacts| {
        let parts = facts.parts.as_ref();
        ComparedSubject {
            requests: facts.requests,
            curve: facts.curve.as_ref().map_or_else(Vec::new, |curve| curve.points().to_vec()),
            parts_ns: parts.map(|parts| {
                let mut ns = [0.0; Part::COUNT];
                for found in &parts.parts {
                    if let Some(part) = Part::ALL.into_iter().find(|part| part.name() == found.part) {
                        ns[part as usize] = found.mean_ns;
                    }
                }
                ns
            }),
            parts_words: parts
                .map_or_else(String::new, |parts| format!("{} responses, {}", count(parts.requests), parts.boundary)),
            name: facts.name,
        }
    };
    subject_facts(outcome, case).into_iter().map(subject).collect()
}

/// A fact: its name, and its value in words where it is known.
type Fact = (&'static str, fn(&SubjectFacts) -> Option<String>);

const FACTS: [Fact; 18] = [
    ("requests answered", |facts| Some(count(facts.requests))),
    ("errors and error statuses", |facts| Some(count(facts.errors))),
    ("of these failed", |facts| counts(&facts.failures)),
    ("answers by status", |facts| counts(&facts.statuses)),
    ("requests a second", |facts| facts.rate_per_s.map(|rate| Metric::RatePerS.with_unit(rate))),
    ("CPU per request outside the kernel", |facts| facts.user_ns_per_request.map(nanoseconds)),
    ("CPU per request within the kernel", |facts| facts.system_ns_per_request.map(nanoseconds)),
    ("context switches per request", |facts| decimal(facts.switches_per_request)),
    ("of these by force", |facts| decimal(facts.involuntary_switches_per_request)),
    ("bytes received a second", |facts| facts.bytes_per_s.map(bytes)),
    ("bytes received per request", |facts| facts.bytes_per_request.map(bytes)),
    ("memory in the mean", |facts| facts.memory_bytes.map(bytes)),
    ("memory at the most", |facts| facts.peak_memory_bytes.map(|peak| bytes(peak as f64))),
    ("the load's share of its CPUs", |facts| facts.generator_cpu_share.map(|share| format!("{:.0} %", share * 100.0))),
    ("clients", |facts| facts.fairness.map(|fairness| format!("{:.0}", fairness.clients))),
    ("requests of the least and the most favoured", |facts| {
        let fairness = facts.fairness?;
        Some(format!("{:.0} and {:.0}", fairness.least_requests, fairness.most_requests))
    }),
    ("bytes for the least and the most favoured", |facts| {
        let fairness = facts.fairness?;
        Some(format!("{} and {}", bytes(fairness.least_bytes), bytes(fairness.most_bytes)))
    }),
    ("evenness of requests (Jain's index)", |facts| {
        facts.fairness.map(|fairness| format!("{:.3}", fairness.jain_requests))
    }),
];

/// What each subject of a case did and used; a fact that no subject tells is left out.
pub(super) fn facts(outcome: &Outcome, case: usize) -> Vec<(String, Vec<String>)> {
    let all = subject_facts(outcome, case);
    let told = FACTS.into_iter().filter_map(|(name, of)| {
        let values: Vec<Option<String>> = all.iter().map(of).collect();
        let is_told = values.iter().any(Option::is_some);
        is_told.then(|| {
            (name.to_owned(), values.into_iter().map(|value| value.unwrap_or_else(|| "-".to_owned())).collect())
        })
    });
    told.collect()
}

fn bytes(bytes: f64) -> String {
    Metric::MemoryBytes.with_unit(bytes)
}

fn decimal(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.3}"))
}

/// `404: 3, 503: 1`.
fn counts(counts: &std::collections::BTreeMap<String, u64>) -> Option<String> {
    let told: Vec<String> = counts
        .iter()
        .filter(|(_, times)| **times > 0)
        .map(|(name, times)| format!("{name}: {}", count(*times)))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}
