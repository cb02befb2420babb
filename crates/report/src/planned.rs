//! A plan for a site, as its page shows it.

/// A plan in figures; times are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// The logs.
    pub subject: String,
    /// The plan, in a sentence.
    pub answer: String,
    /// Name, value and a word about each key figure.
    pub figures: Vec<(String, String, String)>,
    /// What was tried, each in a row.
    pub rows: Vec<PlannedRow>,
    /// Mean queueing delay against the number of nodes, a curve for each policy.
    pub by_nodes: Vec<PlannedCurve>,
    /// Mean queueing delay against the copies of each object, on `replicas_on` nodes.
    pub by_replicas: Vec<PlannedCurve>,
    /// On how many nodes.
    pub replicas_on: u32,
    /// What the plan rests on: names and words.
    pub evidence: Vec<(String, String)>,
    /// What makes the figures mean something else than they seem to.
    pub warnings: Vec<String>,
}

/// A plan that was tried.
#[derive(Debug, Clone, Default)]
pub struct PlannedRow {
    /// How many nodes.
    pub nodes: u32,
    /// What lies where, in words.
    pub what: String,
    /// Mean queueing delay.
    pub waiting_ns: f64,
    /// Median, 95th and 99th percentile of the responses.
    pub response_ns: [f64; 3],
    /// The share of its time that the busiest node was at work, 0 to 1.
    pub busiest: f64,
    /// Bytes on all nodes.
    pub storage: u64,
    /// Whether the objective is met; `None` without one.
    pub is_met: Option<bool>,
    /// Whether it is the plan.
    pub is_best: bool,
}

/// A line of a chart.
#[derive(Debug, Clone, Default)]
pub struct PlannedCurve {
    /// Its name.
    pub name: String,
    /// Its points, by ascending `at`.
    pub points: Vec<PlannedPoint>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlannedPoint {
    /// Nodes or copies.
    pub at: u32,
    /// Mean queueing delay: the least, the mean and the most of the seeds.
    pub waiting_ns: [f64; 3],
    /// The share of the responses that is queueing delay, 0 to 1.
    pub waiting_share: f64,
    /// Bytes on all nodes.
    pub storage: u64,
}
