//! The simulation: one event after the other, without a clock, the same for the same seed.
//!
//! There are two kinds of events: the next arrival, and the next completion of each node. So what is next is found among
//! as few numbers as there are nodes, and no event allocates anything once the queues have had their longest.

use crate::outcome::NodeUse;
use crate::policy::{Dispatch, Policy};
use crate::router::Router;
use crate::station::{Fifo, Job, NEVER, Shared, Station};
use crate::{Discipline, Object, Outcome, Trace};
use std::collections::VecDeque;

/// The most nodes.
pub const NODES_MAX: u32 = 64;
/// How many requests a node takes at most where the plan does not say it.
pub const QUEUE_MAX: u32 = 1_000_000;

/// The nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// How many, 1 to [`NODES_MAX`].
    pub nodes: u32,
    /// Servers of each: workers or CPUs, 1 or more.
    pub servers: u32,
    /// In which order a node serves.
    pub discipline: Discipline,
    /// Requests that may be in a node at once, those in service counted; more are rejected. Also how many may wait in
    /// front of all nodes, where a policy admits only some.
    pub queue_max: u32,
    /// Which of several nodes that have an object serves it.
    pub dispatch: Dispatch,
    /// What a response should take less than, nanoseconds.
    pub limit_ns: Option<u64>,
}

impl Cluster {
    /// So many nodes with one server each, first come, first served.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            servers: 1,
            discipline: Discipline::default(),
            queue_max: QUEUE_MAX,
            dispatch: Dispatch::default(),
            limit_ns: None,
        }
    }
}

/// Serves a trace; `work_ns` is that of [`Trace::work_ns`], which many simulations of a trace share.
#[must_use]
pub fn simulate(
    trace: &Trace,
    objects: &[Object],
    work_ns: &[f64],
    cluster: &Cluster,
    policy: &Policy,
    seed: u64,
) -> Outcome {
    let router = Router::new(policy, cluster.dispatch, objects, work_ns, cluster.nodes, seed);
    let admitted = match policy {
        Policy::Lard(lard) => lard.admitted(cluster.nodes),
        _ => u64::MAX,
    };
    match cluster.discipline {
        Discipline::Fifo => Run::<Fifo>::new(cluster, router, admitted).serve(trace, objects),
        Discipline::Shared => Run::<Shared>::new(cluster, router, admitted).serve(trace, objects),
    }
}

struct Run<'a, S> {
    cluster: &'a Cluster,
    router: Router,
    stations: Vec<S>,
    /// The next completion of each node, and which is the first of these.
    next_ns: Vec<u64>,
    first: (u64, usize),
    /// Requests in each node, and in all.
    loads: Vec<u32>,
    active: u64,
    /// How many may be in all nodes, and those that wait for that.
    admitted: u64,
    front: VecDeque<(u32, Job)>,
    busy_ns: Vec<u64>,
    outcome: Outcome,
    end_ns: u64,
}

impl<'a, S: Station> Run<'a, S> {
    fn new(cluster: &'a Cluster, router: Router, admitted: u64) -> Self {
        let nodes = cluster.nodes as usize;
        Self {
            cluster,
            router,
            stations: (0..nodes).map(|_| S::new(cluster.servers.max(1))).collect(),
            next_ns: vec![NEVER; nodes],
            first: (NEVER, 0),
            loads: vec![0; nodes],
            active: 0,
            admitted,
            front: VecDeque::new(),
            busy_ns: vec![0; nodes],
            outcome: Outcome { nodes: vec![NodeUse::default(); nodes], ..Outcome::default() },
            end_ns: 0,
        }
    }

    fn serve(mut self, trace: &Trace, objects: &[Object]) -> Outcome {
        for ((at_ns, object), service_ns) in trace.at_ns.iter().zip(&trace.object).zip(&trace.service_ns) {
            while self.first.0 <= *at_ns {
                self.complete();
            }
            let job = Job { arrived_ns: *at_ns, service_ns: *service_ns as u64 };
            if self.active < self.admitted {
                self.arrive(*at_ns, *object, job);
            } else if self.front.len() < self.cluster.queue_max as usize {
                self.front.push_back((*object, job));
            } else {
                self.reject();
            }
        }
        while self.first.0 != NEVER {
            self.complete();
        }
        let ends = trace.at_ns.first().zip(trace.at_ns.last());
        self.finish(ends.map_or((0, 0), |(first, last)| (*first, *last)), objects)
    }

    #[inline]
    fn arrive(&mut self, now_ns: u64, object: u32, job: Job) {
        let node = self.router.choose(object, now_ns, &self.loads, self.active);
        let load = &mut self.loads[node];
        let figures = &mut self.outcome.nodes[node];
        if *load >= self.cluster.queue_max {
            figures.rejected += 1;
            return self.reject();
        }
        *load += 1;
        figures.most = figures.most.max(*load);
        self.active += 1;
        self.next_ns[node] = self.stations[node].arrive(now_ns, job);
        self.find_first();
    }

    fn complete(&mut self) {
        let (now_ns, node) = self.first;
        let Some((job, next_ns)) = self.stations[node].complete(now_ns) else {
            self.next_ns[node] = NEVER;
            return self.find_first();
        };
        self.next_ns[node] = next_ns;
        self.loads[node] -= 1;
        self.active -= 1;
        self.busy_ns[node] += job.service_ns;
        self.outcome.nodes[node].served += 1;
        self.outcome.serve(job, now_ns, self.cluster.limit_ns.unwrap_or(u64::MAX));
        self.end_ns = now_ns;
        self.find_first();
        while self.active < self.admitted
            && let Some((object, job)) = self.front.pop_front()
        {
            self.arrive(now_ns, object, job);
        }
    }

    #[inline]
    fn find_first(&mut self) {
        self.first = (NEVER, 0);
        for (node, next_ns) in self.next_ns.iter().enumerate() {
            if *next_ns < self.first.0 {
                self.first = (*next_ns, node);
            }
        }
    }

    fn reject(&mut self) {
        self.outcome.rejected += 1;
        self.outcome.missed += 1;
    }

    fn finish(mut self, (begin_ns, last_ns): (u64, u64), objects: &[Object]) -> Outcome {
        let servers = self.cluster.servers.max(1);
        let whole_ns = (self.end_ns.saturating_sub(begin_ns)).max(1) as f64 * f64::from(servers);
        self.outcome.placement = self.router.into_placement();
        let storage = self.outcome.placement.storage(objects, self.cluster.nodes);
        for ((figures, busy_ns), storage) in self.outcome.nodes.iter_mut().zip(&self.busy_ns).zip(storage) {
            figures.utilisation = *busy_ns as f64 / whole_ns;
            figures.behind_ns = (*busy_ns / u64::from(servers)).saturating_sub(last_ns - begin_ns);
            figures.storage = storage;
        }
        self.outcome
    }
}
