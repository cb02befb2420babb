//! The experiments, simulated.

use crate::site;
use anyhow::Context;
use weir_plan::{Cluster, Log, Over, Partition, Policy, Repeated, Scenario, Service, TopOrder, Within};

/// Nodes of the paper's cluster.
pub(crate) const NODES: u32 = 10;
/// The share of the files that the paper has on all nodes.
pub(crate) const TOP: f64 = 0.12;
/// What the paper found for one node, which the service times are made for.
const ONE_NODE_SHARE: f64 = 0.98;
/// A request and its bytes before they are made for it, nanoseconds: a disk's access of the time, and a network of
/// 100 Mbit/s.
const SERVICE_NS: (f64, f64) = (10e6, 80.0);
/// The same where bytes weigh more: documents come from memory.
const FROM_MEMORY_NS: (f64, f64) = (1e6, 80.0);

/// What was found.
pub(crate) struct Results {
    pub(crate) requests: u64,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    pub(crate) seeds: u64,
    pub(crate) service: Service,
    /// The share of the time of one node that it is at work.
    pub(crate) load: f64,
    /// The share of the requests that go to the top 12 % of the files.
    pub(crate) top_share: f64,
    /// Full replication on 1 to 10 nodes.
    pub(crate) full: Vec<Repeated>,
    /// 1 to 10 copies of each document on 10 nodes.
    pub(crate) replicas: Vec<Repeated>,
    pub(crate) partition: Repeated,
    pub(crate) balanced: Repeated,
    pub(crate) hot_node: Repeated,
    pub(crate) top: Repeated,
    pub(crate) by_type: Repeated,
    /// The paper's conclusion: the top 10 % on four nodes.
    pub(crate) top_on_four: Repeated,
    /// Later policies, for comparison.
    pub(crate) later: Vec<(&'static str, Repeated)>,
}

/// The experiments, with both sorts of service times.
pub(crate) fn run(requests: u32, seeds: u64) -> anyhow::Result<[Results; 2]> {
    let text = site::day(requests);
    let log = Log::read([("day".to_owned(), text.as_bytes())]).map_err(|(_, error)| error).context("the day's log")?;
    drop(text);
    Ok([with(&log, SERVICE_NS, seeds)?, with(&log, FROM_MEMORY_NS, seeds)?])
}

fn with(log: &Log, service_ns: (f64, f64), seeds: u64) -> anyhow::Result<Results> {
    let service = calibrated(log, service_ns);
    let scenario = Scenario::new(log, &service, 1.0, Within::Random, 1..1 + seeds);
    let on = |nodes: u32, policy: Policy| scenario.repeat(&Cluster::new(nodes), &policy, None);
    let by = Partition::Random;
    let top = |share, copies| Policy::Top { share, copies, order: TopOrder::Requests, by };
    let later = ["lard", "lard-r", "hash", "hash-bounded"].into_iter();
    let later = later.map(|name| Ok((name, on(NODES, name.parse()?)))).collect::<anyhow::Result<_>>()?;
    Ok(Results {
        requests: log.requests(),
        files: log.objects().iter().filter(|object| object.requests > 0).count(),
        bytes: log.bytes(),
        seeds,
        load: scenario.load().context("the log holds no length of time")?,
        top_share: top_share(log),
        full: (1..=NODES).map(|nodes| on(nodes, Policy::Full)).collect(),
        replicas: (1..=NODES).map(|copies| on(NODES, Policy::Replicas { copies, by })).collect(),
        partition: on(NODES, Policy::Partition(by)),
        balanced: on(NODES, Policy::Partition(Partition::Balanced)),
        hot_node: on(NODES, Policy::HotNode(by)),
        top: on(NODES, top(TOP, None)),
        by_type: on(NODES, Policy::ByType),
        top_on_four: on(NODES, top(0.1, Some(4))),
        later,
        service,
    })
}

/// Service times with which one node has the paper's queueing; all other figures are then found, not fitted.
fn calibrated(log: &Log, (fixed_ns, per_byte_ns): (f64, f64)) -> Service {
    let times = |factor: f64| Service::new(fixed_ns * factor, per_byte_ns * factor);
    let share = |factor: f64| {
        let scenario = Scenario::new(log, &times(factor), 1.0, Within::Random, 1..2);
        scenario.repeat(&Cluster::new(1), &Policy::Full, None).waiting_share.mean
    };
    let (mut low, mut high) = (0.01, 1000.0);
    for _ in 0..20 {
        let middle = f64::sqrt(low * high);
        if share(middle) < ONE_NODE_SHARE { low = middle } else { high = middle }
    }
    times(high)
}

fn top_share(log: &Log) -> f64 {
    let mut asked: Vec<u64> =
        log.objects().iter().map(|object| object.requests).filter(|requests| *requests > 0).collect();
    asked.sort_unstable_by(|one, other| other.cmp(one));
    let first = (TOP * asked.len() as f64).round() as usize;
    asked[..first].iter().sum::<u64>() as f64 / log.requests() as f64
}

/// A share with its range, in percent.
pub(crate) fn percent(over: Over) -> String {
    let digits = |share: f64| match share * 100.0 {
        percent if percent < 0.095 => format!("{percent:.3}"),
        percent if percent < 9.95 => format!("{percent:.2}"),
        percent => format!("{percent:.1}"),
    };
    let (low, high) = (digits(over.low), digits(over.high));
    if low == high { format!("{low} %") } else { format!("{} % ({low} to {high})", digits(over.mean)) }
}
