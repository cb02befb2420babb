//! Which tasks serve together, how, and how many they are.

use super::cpus::Cpus;
use super::ways::{Way, Ways, is_servers};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_measure::part::Part;
use weir_predict::{Pool, Service};

/// Servers whose tasks are event loops, by their names.
const LOOPS: [&str; 8] = ["nginx", "haproxy", "node", "h2o", "caddy", "weir", "lighttpd", "envoy"];
/// The share of requests from which on something is no exception.
const OFTEN: f64 = 0.01;
/// The share of requests up to which a task may be found in front of a server by a mistaken join.
const RARELY: f64 = 0.05;
/// The share of their time that requests of a task overlap, from which on it has several at once.
const OVERLAP: f64 = 0.03;
/// Requests that waited for a task which had sent its response already, from which on they tell for how long it is kept.
const WAITED: usize = 30;
/// The share of the time that a request has a task, up to which a task is not kept: it waits for a CPU then.
const NOT_KEPT: f64 = 0.1;
/// Name of tasks without one.
const NAMELESS: &str = "(unnamed)";

/// Pools, and which of them each task belongs to.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) all: Vec<Pool>,
    of: HashMap<u32, u16>,
}

/// What was seen of a pool.
#[derive(Debug, Default)]
struct Seen {
    /// Tasks that served.
    served: BTreeSet<u32>,
    /// Of each task the requests that it had.
    spans: HashMap<u32, Vec<Span>>,
    /// Requests that waited to be accepted, or behind others of a worker.
    queued: u64,
    visits: u64,
    /// Requests that came to it first.
    fronts: u64,
    run_ns: u64,
}

/// A request's time at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    /// From the beginning of its first stretch to the end of its last one.
    from_ns: u64,
    to_ns: u64,
    /// When the task was free for it, and only had to get a CPU.
    taken_ns: u64,
    /// Since when it had waited for a task.
    waited_since_ns: Option<u64>,
}

impl Pools {
    /// The pools of requests.
    pub(super) fn of(ways: &Ways, cpus: &Cpus) -> Self {
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for way in &ways.all {
            look(way, ways, &mut seen);
        }
        let mut pools = Self::default();
        let mut used: HashMap<&str, (u64, u32)> = HashMap::new();
        for (_, task) in cpus.tasks().filter(|(_, task)| task.is_servers) {
            let (used_ns, count) = used.entry(task.name.as_str()).or_default();
            *used_ns += task.used_ns;
            *count += 1;
        }
        let all = ways.all.len() as u64 + ways.beyond;
        for (name, seen) in seen {
            let number = pools.all.len() as u16;
            pools.of.extend(seen.served.iter().map(|pid| (*pid, number)));
            let (used_ns, _) = used.get(name.as_str()).copied().unwrap_or_default();
            // Requests that were not kept used CPU as the others did.
            let kept_ns = used_ns as f64 * ways.all.len() as f64 / all.max(1) as f64;
            // Of all its visits together; the trace knows how many these are.
            let after_ns = (kept_ns - seen.run_ns as f64).max(0.0);
            let service = seen.service(&name);
            let is_limit = seen.fronts as f64 > RARELY * ways.all.len() as f64
                || service == Service::Looping
                || seen.queued as f64 > OFTEN * seen.visits as f64;
            let workers = (seen.served.len() as u32).max(1);
            let held_ns = seen.kept_ns();
            pools.all.push(Pool { name, service, workers, is_limit, after_ns, held_ns });
        }
        pools
    }

    /// The pool of a task.
    pub(super) fn pool(&self, pid: u32) -> Option<u16> {
        self.of.get(&pid).copied()
    }
}

fn look(way: &Way, ways: &Ways, seen: &mut BTreeMap<String, Seen>) {
    let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let (mut waited, mut taken): (BTreeMap<u32, u64>, BTreeMap<u32, u64>) = Default::default();
    let mut is_first = true;
    for stretch in way.stretches.iter().filter(|stretch| stretch.pid != 0 && is_servers(stretch.part)) {
        let name = ways.names.get(&stretch.pid).map_or(NAMELESS, String::as_str);
        if !seen.contains_key(name) {
            seen.insert(name.to_owned(), Seen::default());
        }
        let Some(pool) = seen.get_mut(name) else { continue };
        pool.served.insert(stretch.pid);
        pool.fronts += u64::from(is_first && stretch.waiter == 0);
        is_first = false;
        match stretch.part {
            Part::Run => pool.run_ns += stretch.to_ns - stretch.from_ns,
            Part::AcceptQueue | Part::WorkerQueue => pool.queued += 1,
            _ => {}
        }
        match (stretch.part, spans.get_mut(&stretch.pid)) {
            // Until it is taken its task is at other requests, and what that waits for then is not its own.
            (Part::AcceptQueue | Part::WorkerQueue, _) => {
                spans.remove(&stretch.pid);
                taken.remove(&stretch.pid);
                waited.entry(stretch.pid).or_insert(stretch.from_ns);
            }
            (_, Some(span)) => span.1 = stretch.to_ns,
            (Part::WaitCpu, None) => {
                taken.entry(stretch.pid).or_insert(stretch.from_ns);
            }
            (Part::Run, None) => drop(spans.insert(stretch.pid, (stretch.from_ns, stretch.to_ns))),
            _ => {}
        }
    }
    for (pid, (from_ns, to_ns)) in spans {
        let name = ways.names.get(&pid).map_or(NAMELESS, String::as_str);
        if let Some(pool) = seen.get_mut(name) {
            pool.visits += 1;
            let waited_since_ns = waited.get(&pid).copied();
            let taken_ns = taken.get(&pid).copied().unwrap_or(from_ns);
            pool.spans.entry(pid).or_default().push(Span { from_ns, to_ns, taken_ns, waited_since_ns });
        }
    }
}

impl Seen {
    fn service(&self, name: &str) -> Service {
        let (mut overlapping_ns, mut all_ns) = (0u64, 0u64);
        for spans in self.spans.values() {
            let mut spans = spans.clone();
            spans.sort_unstable();
            let mut end_ns = 0;
            for Span { from_ns, to_ns, .. } in spans {
                overlapping_ns += end_ns.min(to_ns).saturating_sub(from_ns);
                all_ns += to_ns - from_ns;
                end_ns = end_ns.max(to_ns);
            }
        }
        let overlaps = overlapping_ns as f64 > OVERLAP * all_ns as f64;
        let is_known = LOOPS.iter().any(|known| name.starts_with(known));
        if is_known || overlaps { Service::Looping } else { Service::Holding }
    }

    /// How long a task is kept behind a response, with its CPU time, nanoseconds; 0 where that is not known. A request
    /// that waited for a task already when this sent its response was not taken before the task was free.
    fn kept_ns(&self) -> f64 {
        let (mut kept, mut all_ns, mut count) = (Vec::new(), 0u64, 0u64);
        for spans in self.spans.values() {
            let mut spans = spans.clone();
            spans.sort_unstable();
            all_ns += spans.iter().map(|span| span.to_ns - span.from_ns).sum::<u64>();
            count += spans.len() as u64;
            let pairs =
                spans.windows(2).filter(|two| two[1].waited_since_ns.is_some_and(|since| since <= two[0].to_ns));
            kept.extend(pairs.map(|two| two[1].taken_ns.saturating_sub(two[0].to_ns)));
        }
        if kept.len() < WAITED {
            return 0.0;
        }
        let half = kept.len() / 2;
        // Half of them: some tasks were free and waited for a CPU.
        let (_, median_ns, _) = kept.select_nth_unstable(half);
        let median_ns = *median_ns as f64;
        if median_ns > NOT_KEPT * all_ns as f64 / count.max(1) as f64 { median_ns } else { 0.0 }
    }
}
