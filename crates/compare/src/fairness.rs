//! How evenly a server treats its clients.
use serde::{Deserialize, Serialize};
use weir_measure::comparison::median;

/// What the least and the most favoured client of a load got. A client is a connection held open (or the place of one,
/// where each request opens its own), or a source address where the load comes from several.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// How many clients there were.
    pub clients: u64,
    /// Bytes that came for the client that got the fewest, and the most.
    pub least_bytes: u64,
    /// See there.
    pub most_bytes: u64,
    /// Requests of the client that had the fewest answered, and the most.
    pub least_requests: u64,
    /// See there.
    pub most_requests: u64,
    /// Jain's index of the bytes: 1 when all got the same, 1/n when one of n got all.
    pub jain_bytes: f64,
    /// The same of the requests.
    pub jain_requests: f64,
}

/// The fairness of several slices: medians, as numbers that need not be whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TypicalFairness {
    /// Clients.
    pub clients: f64,
    /// Bytes for the least favoured client.
    pub least_bytes: f64,
    /// Bytes for the most favoured one.
    pub most_bytes: f64,
    /// Requests of the least favoured client.
    pub least_requests: f64,
    /// Requests of the most favoured one.
    pub most_requests: f64,
    /// Jain's index of the bytes.
    pub jain_bytes: f64,
    /// Jain's index of the requests.
    pub jain_requests: f64,
}

impl TypicalFairness {
    /// The medians of several; `None` without any.
    pub(crate) fn of(all: &[Fairness]) -> Option<Self> {
        let typical = |value: fn(&Fairness) -> f64| median(&all.iter().map(value).collect::<Vec<f64>>());
        Some(Self {
            clients: typical(|found| found.clients as f64)?,
            least_bytes: typical(|found| found.least_bytes as f64)?,
            most_bytes: typical(|found| found.most_bytes as f64)?,
            least_requests: typical(|found| found.least_requests as f64)?,
            most_requests: typical(|found| found.most_requests as f64)?,
            jain_bytes: typical(|found| found.jain_bytes)?,
            jain_requests: typical(|found| found.jain_requests)?,
        })
    }
}
