//! The fold of transactions into metrics: counts and durations by application, transaction and status, bounded.

use super::families::{Data, Exemplar, Family, Histogram, Labels};
use crate::protocol::AgentStatus;
use crate::transaction::{Status, Transaction};
use std::collections::HashMap;

/// Transactions of applications that are told apart; those beyond are one, called [`OTHER`].
const MOST_CLASSES: usize = 1000;
/// What names an application or a transaction beyond the bound.
const OTHER: &str = "(other)";
/// A name is cut there: labels are repeated in every line.
const MOST_NAME: usize = 256;

/// The label of an application: series are grouped by it where they are sent.
pub(crate) const APPLICATION: &str = "arm.application.name";
const TRANSACTION: &str = "arm.transaction.name";
const STATUS: &str = "arm.status";

#[derive(Debug, Default)]
struct Class {
    by_status: [Option<Box<Histogram>>; Status::ALL.len()],
    blocked_ns: u128,
}

/// All classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    applications: HashMap<Box<str>, HashMap<Box<str>, Class>>,
    count: usize,
    other: Class,
    /// Transactions of classes beyond the bound.
    beyond: u64,
}

impl Classes {
    /// Counts a transaction; one that stands for several counts so many.
    pub(crate) fn push(&mut self, transaction: &Transaction) {
        let count = u64::from(transaction.one_in.max(1));
        let class = self.class(&transaction.application, &transaction.name, count);
        class.blocked_ns = class.blocked_ns.saturating_add(u128::from(transaction.blocked_ns) * u128::from(count));
        let histogram = class.by_status[transaction.status as usize].get_or_insert_default();
        histogram.add(transaction.duration_ns, count);
        let value = transaction.duration_ns as f64 / 1e9;
        if histogram.exemplar.is_none_or(|slowest| slowest.value < value) {
            let id = transaction.id;
            let unix_ns = transaction.end_unix_ns();
            histogram.exemplar = Some(Exemplar { value, unix_ns, trace: id.trace, span: id.span });
        }
    }

    fn class(&mut self, application: &str, name: &str, count: u64) -> &mut Class {
        let (application, name) = (short(application), short(name));
        // Twice looked up rather than once copied: nearly always it is there.
        let known = self.applications.get(application).is_some_and(|classes| classes.contains_key(name));
        if !known {
            if self.count >= MOST_CLASSES {
                self.beyond = self.beyond.saturating_add(count);
                return &mut self.other;
            }
            self.count += 1;
            self.applications.entry(application.into()).or_default().insert(name.into(), Class::default());
        }
        match self.applications.get_mut(application).and_then(|classes| classes.get_mut(name)) {
            Some(class) => class,
            // It was just seen or made.
            None => &mut self.other,
        }
    }

    /// What it comes to, in an order that stays. `take_exemplars`: the next ones are looked for from now on.
    pub(crate) fn families(&mut self, take_exemplars: bool) -> Vec<Family> {
        let mut durations: Vec<(Labels, Histogram)> = Vec::new();
        let mut blocked: Vec<(Labels, f64)> = Vec::new();
        let named = self.applications.iter_mut().flat_map(|(application, classes)| {
            classes.iter_mut().map(move |(name, class)| (&**application, &**name, class))
        });
        for (application, name, class) in named.chain([(OTHER, OTHER, &mut self.other)]) {
            let labels = vec![(APPLICATION, application.to_owned()), (TRANSACTION, name.to_owned())];
            for (status, histogram) in Status::ALL.into_iter().zip(&mut class.by_status) {
                let Some(histogram) = histogram else { continue };
                let labels = [labels.clone(), vec![(STATUS, status.name().to_owned())]].concat();
                durations.push((labels, (**histogram).clone()));
                if take_exemplars {
                    histogram.exemplar = None;
                }
            }
            if class.by_status.iter().any(Option::is_some) {
                blocked.push((labels, class.blocked_ns as f64 / 1e9));
            }
        }
        durations.sort_by(|one, other| one.0.cmp(&other.0));
        blocked.sort_by(|one, other| one.0.cmp(&other.0));
        vec![
            Family::new(
                "arm.transaction.duration",
                "s",
                "How long transactions took, from their arrival or start to their end.",
                Data::Histogram(durations),
            ),
            Family::new(
                "arm.transaction.blocked",
                "s",
                "How long transactions waited for something outside of them, as their applications told.",
                Data::Sum(blocked),
            ),
            Family::new(
                "arm.agent.unclassified",
                "{transaction}",
                "Transactions that are in no series of their own, as there are too many names.",
                Data::Sum(vec![(Vec::new(), self.beyond as f64)]),
            ),
        ]
    }
}

/// A name as far as it is told, cut at a character's boundary.
fn short(name: &str) -> &str {
    let mut end = name.len().min(MOST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The agent's own state as metrics.
pub(crate) fn of_agent(status: &AgentStatus) -> Vec<Family> {
    let gauge = |name, unit, help, value: f64| Family::new(name, unit, help, Data::Gauge(vec![(Vec::new(), value)]));
    let mut families = vec![
        gauge(
            "arm.agent.processes",
            "{process}",
            "Client processes whose memory is open.",
            f64::from(status.processes),
        ),
        gauge(
            "arm.agent.running",
            "{transaction}",
            "Transactions that have begun but not ended.",
            status.running as f64,
        ),
        gauge("arm.agent.memory", "By", "Memory that the agent occupies.", status.resident_bytes as f64),
        gauge("arm.agent.refused", "{process}", "Memories that it does not read.", status.refused.len() as f64),
        Family::new(
            "arm.agent.cpu",
            "s",
            "CPU time that the agent used.",
            Data::Sum(vec![(Vec::new(), status.cpu_ns as f64 / 1e9)]),
        ),
    ];
    // Each count of the protocol is told, under the protocol's own name.
    let counts = serde_json::to_value(status.counts).unwrap_or_default();
    for (name, count) in counts.as_object().into_iter().flatten() {
        if let Some(count) = count.as_u64() {
            families.push(Family::new(
                &format!("arm.agent.{name}"),
                "{event}",
                "What came, and what became of it: see Counts in the agent's protocol.",
                Data::Sum(vec![(Vec::new(), count as f64)]),
            ));
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::testing::transaction;

    fn counts(classes: &mut Classes) -> Vec<(String, u64)> {
        let families = classes.families(false);
        let Data::Histogram(series) = &families[0].data else { panic!("durations") };
        let words = |labels: &Labels| labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
        series.iter().map(|(labels, histogram)| (words(labels), histogram.count())).collect()
    }

    #[test]
    fn transactions_count_by_their_names_and_ends_and_for_what_they_stand() {
        let mut classes = Classes::default();
        classes.push(&transaction("shop", "buy", 5_000_000));
        classes.push(&Transaction { one_in: 10, ..transaction("shop", "buy", 7_000_000) });
        classes.push(&Transaction { status: Status::Failed, ..transaction("shop", "buy", 1) });
        classes.push(&transaction("bank", "buy", 1));
        let expected = [("bank buy good", 1), ("shop buy failed", 1), ("shop buy good", 11)];
        assert_eq!(counts(&mut classes), expected.map(|(name, count)| (name.to_owned(), count)));
        let families = classes.families(true);
        let Data::Histogram(series) = &families[0].data else { panic!("durations") };
        let (_, good) = &series[2];
        assert!((good.sum_s() - 0.075).abs() < 1e-9, "{}", good.sum_s());
        assert_eq!(good.exemplar.map(|exemplar| exemplar.value), Some(0.007));
        let Data::Histogram(series) = &classes.families(false)[0].data else { panic!("durations") };
        assert!(series.iter().all(|(_, histogram)| histogram.exemplar.is_none()), "each is told once");
    }

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let mut classes = Classes::default();
        for number in 0..3 * MOST_CLASSES as u64 {
            classes.push(&transaction("crawl", &format!("page {number}"), 1));
        }
        classes.push(&transaction("crawl", &"x".repeat(100_000), 1));
        let counts = counts(&mut classes);
        assert_eq!(counts.len(), MOST_CLASSES + 1);
        assert!(counts.iter().all(|(name, _)| name.len() <= 2 * MOST_NAME + 20));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3 * MOST_CLASSES as u64 + 1);
        assert_eq!(classes.beyond, 2 * MOST_CLASSES as u64 + 1);
    }

    #[test]
    fn what_the_protocol_counts_is_told() {
        let mut status = AgentStatus { processes: 3, ..AgentStatus::default() };
        status.counts.dropped = 7;
        let families = of_agent(&status);
        let value = |name: &str| match &families.iter().find(|family| family.name == name).expect(name).data {
            Data::Sum(series) | Data::Gauge(series) => series[0].1,
            Data::Histogram(_) => panic!("{name} is none"),
        };
        assert_eq!((value("arm.agent.processes"), value("arm.agent.dropped")), (3.0, 7.0));
    }
}
