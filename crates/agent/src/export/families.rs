//! Metrics as both exporters tell them: families of series, by names with dots.
//!
//! Prometheus calls them as an OpenTelemetry collector would that passes them on to it, so that one dashboard serves both
//! ways.

/// An attribute of a series: its name with dots, its value.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the buckets of durations, seconds: those that the semantic conventions advise for requests, more below
/// for what takes less than a page, and more above for what people wait for.
pub(crate) const BOUNDS_S: [f64; 22] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
    10.0, 30.0, 60.0, 300.0,
];

/// A transaction as an example of its series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exemplar {
    /// Its duration, seconds.
    pub(crate) value: f64,
    /// When it ended, nanoseconds since 1970.
    pub(crate) unix_ns: u64,
    /// Its trace.
    pub(crate) trace: [u64; 2],
    /// Its span.
    pub(crate) span: u64,
}

/// How long things took: counts by [`BOUNDS_S`], the last one above all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Histogram {
    /// How many in each bucket.
    pub(crate) buckets: [u64; BOUNDS_S.len() + 1],
    /// Their sum, nanoseconds.
    pub(crate) sum_ns: u128,
    /// The slowest since the exemplars were last asked for.
    pub(crate) exemplar: Option<Exemplar>,
}

impl Histogram {
    /// Counts `count` that took so long each.
    pub(crate) fn add(&mut self, ns: u64, count: u64) {
        let seconds = ns as f64 / 1e9;
        // A bound belongs to its bucket, as both formats have it.
        let bucket = BOUNDS_S.partition_point(|bound| *bound < seconds);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(count);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(ns) * u128::from(count));
    }

    /// How many in all.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |all, count| all.saturating_add(*count))
    }

    /// Their sum, seconds.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

/// The series of a family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// Durations.
    Histogram(Vec<(Labels, Histogram)>),
    /// What only grows.
    Sum(Vec<(Labels, f64)>),
    /// What goes up and down.
    Gauge(Vec<(Labels, f64)>),
}

/// A metric with its series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    /// Its name, with dots.
    pub(crate) name: String,
    /// Its unit as UCUM writes it: `s`, `By`, or what is counted in braces.
    pub(crate) unit: &'static str,
    /// What it says.
    pub(crate) help: String,
    /// Its series.
    pub(crate) data: Data,
}

impl Family {
    /// A family.
    pub(crate) fn new(name: &str, unit: &'static str, help: &str, data: Data) -> Self {
        Self { name: name.to_owned(), unit, help: help.to_owned(), data }
    }

    /// Its name for Prometheus, as the specification "Prometheus and OpenMetrics Compatibility" makes it.
    pub(crate) fn prometheus_name(&self) -> String {
        let unit = match self.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            _ => "",
        };
        let total = if matches!(self.data, Data::Sum(_)) { "_total" } else { "" };
        format!("{}{unit}{total}", self.name.replace('.', "_"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::default();
        for ns in [0, 100_000, 100_001, 300_000_000_000, 300_000_000_001] {
            histogram.add(ns, 2);
        }
        let last = BOUNDS_S.len();
        assert_eq!([0, 1, last - 1, last].map(|bucket| histogram.buckets[bucket]), [4, 2, 2, 2]);
        assert_eq!((histogram.count(), histogram.sum_ns), (10, 2 * 600_000_200_002));
        assert!(BOUNDS_S.is_sorted());
    }

    #[test]
    fn names_are_translated_as_a_collector_does() {
        let name = |name: &str, unit, data| Family::new(name, unit, "", data).prometheus_name();
        assert_eq!(name("arm.transaction.duration", "s", Data::Histogram(vec![])), "arm_transaction_duration_seconds");
        assert_eq!(name("arm.transaction.blocked", "s", Data::Sum(vec![])), "arm_transaction_blocked_seconds_total");
        assert_eq!(name("arm.agent.memory", "By", Data::Gauge(vec![])), "arm_agent_memory_bytes");
    }
}
