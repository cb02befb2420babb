//! What became of the requests of a simulation.

use crate::Placement;
use crate::station::Job;
use weir_measure::durations::Durations;

/// How a node fared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeUse {
    /// Requests that it served.
    pub served: u64,
    /// Requests that found its queue full.
    pub rejected: u64,
    /// How much longer its servers were at work, each, than requests came, nanoseconds: a queue that grows to the end
    /// leaves so much, and grows as long as requests come like that.
    pub behind_ns: u64,
    /// The share of its servers' time that it was at work, 0 to 1.
    pub utilisation: f64,
    /// Bytes that it keeps.
    pub storage: u64,
    /// The most requests that were in it at once.
    pub most: u32,
}

/// What became of the requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Requests that were served.
    pub served: u64,
    /// Requests that found a queue full.
    pub rejected: u64,
    /// What each request took longer than on an idle node, nanoseconds: queueing delay.
    pub waiting: Durations,
    /// From arrival to the end of service, nanoseconds.
    pub response: Durations,
    /// Requests that took at least as long as the limit, and those that were rejected.
    pub missed: u64,
    /// Sum of all queueing delays and of all responses, nanoseconds.
    pub(crate) waiting_sum_ns: u128,
    pub(crate) response_sum_ns: u128,
    /// How each node fared.
    pub nodes: Vec<NodeUse>,
    /// Which nodes keep which object.
    pub placement: Placement,
}

impl Outcome {
    pub(crate) fn serve(&mut self, job: Job, now_ns: u64, limit_ns: u64) {
        let response_ns = now_ns - job.arrived_ns;
        // Shared nodes round their completions to a nanosecond.
        let waiting_ns = response_ns.saturating_sub(job.service_ns);
        self.served += 1;
        self.missed += u64::from(response_ns >= limit_ns);
        self.waiting.push(waiting_ns);
        self.response.push(response_ns);
        self.waiting_sum_ns += u128::from(waiting_ns);
        self.response_sum_ns += u128::from(response_ns);
    }

    /// Mean queueing delay, nanoseconds.
    #[must_use]
    pub fn waiting_mean_ns(&self) -> f64 {
        self.waiting_sum_ns as f64 / self.served.max(1) as f64
    }

    /// Mean response, nanoseconds.
    #[must_use]
    pub fn response_mean_ns(&self) -> f64 {
        self.response_sum_ns as f64 / self.served.max(1) as f64
    }

    /// The share of the responses' time that is queueing delay, 0 to 1.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        if self.response_sum_ns == 0 { 0.0 } else { self.waiting_sum_ns as f64 / self.response_sum_ns as f64 }
    }

    /// The share of the requests that missed the limit, 0 to 1.
    #[must_use]
    pub fn missed_share(&self) -> f64 {
        self.missed as f64 / (self.served + self.rejected).max(1) as f64
    }

    /// Bytes on all nodes together.
    #[must_use]
    pub fn storage(&self) -> u64 {
        self.nodes.iter().map(|node| node.storage).sum()
    }
}
