//! Arrivals, each with its object and the time that a node will take for it.

use crate::{Log, Object, Service};

const SECOND_NS: f64 = 1e9;

/// Where within its second a request came, where the log tells whole seconds only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Within {
    /// Anywhere, by chance, independent of the others: as many users do who do not know each other.
    #[default]
    Random,
    /// Evenly over the second, as `weir load --replay` does.
    Even,
}

/// What a simulation serves. The three columns have one place for each request, by ascending time.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// When it comes, nanoseconds from the begin.
    pub at_ns: Vec<u64>,
    /// Which object it asks for: a place in the log's objects.
    pub object: Vec<u32>,
    /// How long an idle node takes for it, nanoseconds.
    pub service_ns: Vec<f32>,
}

impl Trace {
    /// The requests of a log with the times that they need; `growth` times as many a second, which makes the whole as
    /// many times shorter.
    #[must_use]
    pub fn new(log: &Log, service: &Service, growth: f64, within: Within, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = log.rows.len();
        let mut trace = Self {
            at_ns: Vec::with_capacity(count),
            object: Vec::with_capacity(count),
            service_ns: Vec::with_capacity(count),
        };
        let first = log.rows.first().map_or(0, |row| row.second);
        let mut places = Vec::new();
        for same in log.rows.chunk_by(|one, other| one.second == other.second) {
            places.clear();
            let even = |at: usize| at as f64 / same.len() as f64;
            places.extend(same.iter().enumerate().map(|(at, row)| match (row.nanosecond(), within) {
                (Some(nanosecond), _) => f64::from(nanosecond) / SECOND_NS,
                (None, Within::Even) => even(at),
                (None, Within::Random) => random.f64(),
            }));
            // Places are sorted and requests are not, so that the log's order within a second is kept.
            places.sort_unstable_by(f64::total_cmp);
            let begin_s = f64::from(same[0].second - first);
            for (row, place) in same.iter().zip(&places) {
                let kind = log.objects[row.object as usize].kind;
                let service_ns = service.mean_ns(kind, row.bytes) * service.factor(&mut random);
                trace.at_ns.push(((begin_s + place) * SECOND_NS / growth) as u64);
                trace.object.push(row.object);
                trace.service_ns.push(service_ns.max(1.0) as f32);
            }
        }
        trace
    }

    /// Time that each of the objects takes of the nodes altogether, nanoseconds.
    #[must_use]
    pub fn work_ns(&self, objects: &[Object]) -> Vec<f64> {
        let mut work = vec![0.0; objects.len()];
        for (object, service_ns) in self.object.iter().zip(&self.service_ns) {
            work[*object as usize] += f64::from(*service_ns);
        }
        work
    }
}
