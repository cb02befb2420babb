//! The closed loop: arrivals go to nodes, nodes are read each second, and a policy decides on what was read.

use crate::crowd::{Arrival, END_S};
use crate::node::{NEVER, Node};
use crate::policy::{NodeReading, Policy};

/// Nodes that always get new connections, and all that there are.
pub(crate) const NODES_MIN: usize = 3;
pub(crate) const NODES: usize = 5;
/// The rate of a node's link, bits a second.
pub(crate) const LINK_BITS_PER_S: f64 = 12e6;
/// From a decision until a node that was in reserve gets connections, seconds; alike for each policy.
pub(crate) const START_S: f64 = 1.0;
/// What users are promised: 99 of 100 arrivals have their response within this time, nanoseconds.
pub(crate) const OBJECTIVE_NS: u64 = 200_000_000;
/// What a response takes where nothing is waited for: the handshake and the request, nanoseconds.
const ROUND_TRIPS_NS: u64 = 400_000;
/// Bytes that the node's link carries for a connection besides the file: the response's head, and the handshake's and the
/// end's segments; and for each segment of a file of so many bytes.
const CONNECTION_BYTES: f64 = 500.0;
const SEGMENT_BYTES: f64 = 1448.0;
const HEADERS_BYTES: f64 = 66.0;

/// What the link carries for a file, bytes.
pub(crate) fn wire_bytes(bytes: u32) -> f64 {
    let bytes = f64::from(bytes);
    bytes + (bytes / SEGMENT_BYTES).ceil() * HEADERS_BYTES + CONNECTION_BYTES
}

/// The arrivals of a second, and what became of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Second {
    /// Nanoseconds of those that were answered.
    pub(crate) latencies_ns: Vec<u64>,
    pub(crate) refused: u64,
    /// Nodes that got new connections at its begin.
    pub(crate) awake: usize,
}

impl Second {
    pub(crate) fn arrivals(&self) -> u64 {
        self.latencies_ns.len() as u64 + self.refused
    }

    /// The latency that 99 of 100 arrivals keep; none if more than one of a hundred was refused.
    pub(crate) fn p99_ns(&self) -> Option<u64> {
        let at = (0.99 * self.arrivals() as f64).ceil() as usize;
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        if at == 0 { Some(0) } else { sorted.get(at - 1).copied() }
    }

    pub(crate) fn keeps_objective(&self) -> bool {
        self.p99_ns().is_some_and(|p99_ns| p99_ns < OBJECTIVE_NS)
    }
}

/// How a policy did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) seconds: Vec<Second>,
    /// When it first wished for more nodes, seconds.
    pub(crate) grew_s: Option<f64>,
    /// Seconds of nodes that got connections, in all.
    pub(crate) node_seconds: f64,
    /// The share of the links of such nodes that was in use, 0 to 1.
    pub(crate) used: f64,
    pub(crate) reason: Option<String>,
}

impl Outcome {
    /// The share of the seconds that keep the objective, in percent.
    pub(crate) fn kept_percent(&self) -> f64 {
        100.0 * self.seconds.iter().filter(|second| second.keeps_objective()).count() as f64 / self.seconds.len() as f64
    }

    pub(crate) fn refused(&self) -> u64 {
        self.seconds.iter().map(|second| second.refused).sum()
    }

    pub(crate) fn answered(&self) -> usize {
        self.seconds.iter().map(|second| second.latencies_ns.len()).sum()
    }

    /// The middle latency of those that were answered, in milliseconds.
    pub(crate) fn p50_ms(&self) -> f64 {
        let mut all: Vec<u64> = self.seconds.iter().flat_map(|second| second.latencies_ns.iter().copied()).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
    }

    /// The latency that 99 of 100 of all arrivals keep.
    pub(crate) fn p99_ns(&self) -> Option<u64> {
        let latencies_ns = self.seconds.iter().flat_map(|second| second.latencies_ns.iter().copied()).collect();
        Second { latencies_ns, refused: self.refused(), awake: 0 }.p99_ns()
    }
}

/// Which nodes get connections, and which will.
struct Awake {
    now: usize,
    /// How many, and from when on, nanoseconds.
    next: Option<(usize, u64)>,
}

struct Run<'a> {
    nodes: Vec<Node>,
    awake: Awake,
    policy: &'a mut dyn Policy,
    seconds: Vec<Second>,
    busy_ns: Vec<u64>,
    came: Vec<u64>,
    grew_s: Option<f64>,
    node_seconds: f64,
}

/// Gives a policy the arrivals, of which the first `awake` of all nodes serve at the begin.
pub(crate) fn simulate(arrivals: &[Arrival], awake: usize, policy: &mut dyn Policy) -> Outcome {
    let count = END_S.ceil() as usize;
    let mut run = Run {
        nodes: (0..NODES).map(|_| Node::new(LINK_BITS_PER_S / 8.0)).collect(),
        awake: Awake { now: awake, next: None },
        policy,
        seconds: vec![Second::default(); count],
        busy_ns: vec![0; NODES],
        came: vec![0; NODES],
        grew_s: None,
        node_seconds: 0.0,
    };
    run.seconds[0].awake = awake;
    let mut tick_s = 1;
    for arrival in arrivals {
        while tick_s * 1_000_000_000 <= arrival.at_ns {
            run.tick(tick_s);
            tick_s += 1;
        }
        run.arrive(arrival);
    }
    run.ends_until(NEVER - 1);
    // Nothing is under way any more, so any late time tells the same.
    let used_ns: u64 = run.nodes.iter_mut().map(|node| node.busy_ns(NEVER - 1)).sum();
    Outcome {
        name: run.policy.name(),
        seconds: run.seconds,
        grew_s: run.grew_s,
        node_seconds: run.node_seconds,
        used: used_ns as f64 / 1e9 / run.node_seconds,
        reason: run.policy.reason(),
    }
}

impl Run<'_> {
    /// Ends all responses that end before a time, the first first.
    fn ends_until(&mut self, until_ns: u64) {
        loop {
            let next = self.nodes.iter().enumerate().map(|(number, node)| (node.next_ns(), number)).min();
            let Some((at_ns, number)) = next.filter(|(at_ns, _)| *at_ns <= until_ns) else { return };
            let Some(response) = self.nodes[number].end(at_ns) else { return };
            let latency_ns = at_ns - response.arrived_ns + ROUND_TRIPS_NS;
            self.policy.ended(at_ns, number, latency_ns, response.active);
            let second = (response.arrived_ns / 1_000_000_000) as usize;
            self.seconds[second].latencies_ns.push(latency_ns);
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        self.ends_until(arrival.at_ns);
        if let Some((count, _)) = self.awake.next.take_if(|(_, from_ns)| *from_ns <= arrival.at_ns) {
            self.awake.now = count;
        }
        let number = (arrival.hash % self.awake.now as u64) as usize;
        let node = &mut self.nodes[number];
        node.came += 1;
        if self.policy.admits(arrival.at_ns, number, node.active()) {
            node.begin(arrival.at_ns, wire_bytes(arrival.bytes()));
        } else {
            self.seconds[(arrival.at_ns / 1_000_000_000) as usize].refused += 1;
        }
    }

    fn tick(&mut self, at_s: u64) {
        let at_ns = at_s * 1_000_000_000;
        self.ends_until(at_ns);
        let mut readings = Vec::with_capacity(NODES);
        for ((node, busy_ns), came) in self.nodes.iter_mut().zip(&mut self.busy_ns).zip(&mut self.came) {
            let (busy_now_ns, came_now) = (node.busy_ns(at_ns), node.came);
            readings.push(NodeReading {
                rate_per_s: (came_now - *came) as f64,
                used: (busy_now_ns - *busy_ns) as f64 / 1e9,
                active: f64::from(node.active()),
            });
            (*busy_ns, *came) = (busy_now_ns, came_now);
        }
        let held = self.awake.next.map_or(self.awake.now, |(count, _)| count);
        // One that is about to serve, or still does, is paid for as well.
        self.node_seconds += held.max(self.awake.now) as f64;
        let wish = self.policy.nodes(at_s, &readings, held);
        if wish > held {
            self.grew_s.get_or_insert(at_s as f64);
            self.awake.next = Some((wish, at_ns + (START_S * 1e9) as u64));
        } else if wish < held {
            (self.awake.now, self.awake.next) = (wish, None);
        }
        if let Some(second) = self.seconds.get_mut(at_s as usize) {
            second.awake = self.awake.now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::arrivals;
    use crate::policy::{Fixed, Threshold};
    use crate::rules::Rules;

    #[test]
    fn each_arrival_is_answered_or_refused_and_the_same_seed_is_the_same_run() {
        let load = arrivals(7);
        let run = || simulate(&load, NODES_MIN, &mut Fixed("three"));
        let outcome = run();
        assert_eq!(outcome, run());
        assert_eq!(outcome.seconds.iter().map(Second::arrivals).sum::<u64>(), load.len() as u64);
        // Its bytes are carried, and no link carries more than it can.
        let carried: f64 = load.iter().map(|arrival| wire_bytes(arrival.bytes())).sum::<f64>() * 8.0 / LINK_BITS_PER_S;
        assert!((outcome.used * outcome.node_seconds - carried).abs() < 0.01, "{outcome:?}");
    }

    #[test]
    fn rules_grow_before_the_links_are_full_and_the_threshold_behind() {
        let load = arrivals(3);
        let rules = simulate(&load, NODES_MIN, &mut Rules::new(NODES).expect("it is read"));
        let threshold = simulate(&load, NODES_MIN, &mut Threshold::default());
        assert!(rules.grew_s < threshold.grew_s && rules.kept_percent() > threshold.kept_percent());
        assert!(rules.node_seconds < NODES as f64 * END_S * 0.8, "{}", rules.node_seconds);
    }
}
