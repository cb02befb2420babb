//! The same simulation from several seeds: what of a figure is chance.

use crate::{Cluster, Log, Object, Outcome, Policy, Service, Trace, Within, simulate};
use serde::Serialize;

/// A figure over several seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Over {
    /// The smallest.
    pub low: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub high: f64,
}

impl Over {
    fn of(outcomes: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> Self {
        if outcomes.is_empty() {
            // What was not simulated meets no objective: nothing compares with this.
            return Self { low: f64::NAN, mean: f64::NAN, high: f64::NAN };
        }
        let all = || outcomes.iter().map(&figure);
        Self {
            low: all().fold(f64::INFINITY, f64::min),
            mean: all().sum::<f64>() / outcomes.len() as f64,
            high: all().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Figures of one plan over several seeds. Times are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Repeated {
    /// Mean queueing delay.
    pub waiting_mean_ns: Over,
    /// Its median.
    pub waiting_p50_ns: Over,
    /// What 95 % of the requests do not exceed.
    pub waiting_p95_ns: Over,
    /// What 99 % do not exceed.
    pub waiting_p99_ns: Over,
    /// The share of the responses' time that is queueing delay, 0 to 1.
    pub waiting_share: Over,
    /// Mean response.
    pub response_mean_ns: Over,
    /// Its median.
    pub response_p50_ns: Over,
    /// What 95 % of the requests do not exceed.
    pub response_p95_ns: Over,
    /// What 99 % do not exceed.
    pub response_p99_ns: Over,
    /// What the objective's share of the requests does not exceed; 0 without an objective.
    pub response_asked_ns: Over,
    /// The share of the requests that missed the limit or were rejected, 0 to 1.
    pub missed_share: Over,
    /// Requests that found a queue full.
    pub rejected: Over,
    /// The share of its time that the busiest node was at work, 0 to 1.
    pub utilisation_max: Over,
    /// The same of all nodes on average.
    pub utilisation_mean: Over,
    /// How long the node that falls behind most is still at work when it would be done if it kept up, nanoseconds: see
    /// [`crate::NodeUse::behind_ns`].
    pub behind_max_ns: Over,
    /// Bytes on all nodes together.
    pub storage: Over,
    /// Bytes on the node that keeps most.
    pub storage_max: Over,
}

impl Repeated {
    fn of(outcomes: &[Outcome], asked_share: Option<f64>) -> Self {
        let over = |figure: &dyn Fn(&Outcome) -> f64| Over::of(outcomes, figure);
        let nodes = |outcome: &Outcome| outcome.nodes.len().max(1) as f64;
        Self {
            waiting_mean_ns: over(&Outcome::waiting_mean_ns),
            waiting_p50_ns: over(&|one| one.waiting.quantile_ns(0.5) as f64),
            waiting_p95_ns: over(&|one| one.waiting.quantile_ns(0.95) as f64),
            waiting_p99_ns: over(&|one| one.waiting.quantile_ns(0.99) as f64),
            waiting_share: over(&Outcome::waiting_share),
            response_mean_ns: over(&Outcome::response_mean_ns),
            response_p50_ns: over(&|one| one.response.quantile_ns(0.5) as f64),
            response_p95_ns: over(&|one| one.response.quantile_ns(0.95) as f64),
            response_p99_ns: over(&|one| one.response.quantile_ns(0.99) as f64),
            response_asked_ns: over(&|one| asked_share.map_or(0.0, |share| one.response.quantile_ns(share) as f64)),
            missed_share: over(&Outcome::missed_share),
            rejected: over(&|one| one.rejected as f64),
            utilisation_max: over(&|one| one.nodes.iter().map(|node| node.utilisation).fold(0.0, f64::max)),
            utilisation_mean: over(&|one| one.nodes.iter().map(|node| node.utilisation).sum::<f64>() / nodes(one)),
            behind_max_ns: over(&|one| one.nodes.iter().map(|node| node.behind_ns).max().unwrap_or(0) as f64),
            storage: over(&|one| one.storage() as f64),
            storage_max: over(&|one| one.nodes.iter().map(|node| node.storage).max().unwrap_or(0) as f64),
        }
    }
}

/// A log as several seeds have it: 16 bytes for each request and seed.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    pub(crate) objects: &'a [Object],
    traces: Vec<(u64, Trace, Vec<f64>)>,
}

impl<'a> Scenario<'a> {
    /// The log, `growth` times as busy, by each of the seeds.
    #[must_use]
    pub fn new(
        log: &'a Log,
        service: &Service,
        growth: f64,
        within: Within,
        seeds: impl IntoIterator<Item = u64>,
    ) -> Self {
        let trace = |seed| {
            let trace = Trace::new(log, service, growth, within, seed);
            let work_ns = trace.work_ns(log.objects());
            (seed, trace, work_ns)
        };
        Self { objects: log.objects(), traces: seeds.into_iter().map(trace).collect() }
    }

    /// The fewest servers that can meet an objective, with any placement: of each seed the requests that have a limit
    /// are done before the last one's limit, so they fit into the time until then, even where these are the shortest ones.
    #[must_use]
    pub fn servers_min(&self, share: f64, limit_ns: u64) -> f64 {
        let of = |(_, trace, _): &(u64, Trace, Vec<f64>)| {
            let (Some(first), Some(last)) = (trace.at_ns.first(), trace.at_ns.last()) else { return 0.0 };
            let mut shortest = trace.service_ns.clone();
            // What an objective forgives is a share that is not exact in binary.
            let asked = ((share - 1e-9) * shortest.len() as f64).max(0.0) as usize;
            if asked < shortest.len() {
                shortest.select_nth_unstable_by(asked, f32::total_cmp);
            }
            let work_ns: f64 = shortest.iter().take(asked).map(|service_ns| f64::from(*service_ns)).sum();
            work_ns / (last - first).saturating_add(limit_ns).max(1) as f64
        };
        self.traces.iter().map(of).fold(0.0, f64::max)
    }

    /// How many servers the work keeps busy while requests come; `None` where these come at one time.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        let of = |(_, trace, work_ns): &(u64, Trace, Vec<f64>)| {
            let whole_ns = trace.at_ns.last()? - trace.at_ns.first()?;
            (whole_ns > 0).then(|| work_ns.iter().sum::<f64>() / whole_ns as f64)
        };
        self.traces.iter().filter_map(of).reduce(f64::max)
    }

    /// What comes of a plan by each seed.
    pub fn outcomes(&self, cluster: &Cluster, policy: &Policy) -> impl Iterator<Item = Outcome> {
        self.traces.iter().map(|(seed, trace, work_ns)| simulate(trace, self.objects, work_ns, cluster, policy, *seed))
    }

    /// The figures of a plan; `asked_share` is the share of the requests for which an objective has a limit.
    #[must_use]
    pub fn repeat(&self, cluster: &Cluster, policy: &Policy, asked_share: Option<f64>) -> Repeated {
        let outcomes: Vec<Outcome> = self
            .outcomes(cluster, policy)
            // Figures need no names of objects, which may be many.
            .map(|outcome| Outcome { placement: crate::Placement::default(), ..outcome })
            .collect();
        Repeated::of(&outcomes, asked_share)
    }
}
