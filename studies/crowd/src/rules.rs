//! weir's rules: the engine of `weir serve` and of the director, told what a director would be told.

use crate::policy::{NodeReading, Policy};
use anyhow::{Context, anyhow};
use weir_adapt::forecast::Method;
use weir_adapt::{Cited, Decision, Engine, NodeId, Of, Order, Reading, Resource, State};

/// The policy of the study, which the real cluster runs as well.
pub(crate) const POLICY: &str = include_str!("../crowd.policy");
/// The pool that grows and shrinks.
const RESERVE: &str = "reserve";
/// How long a reading holds, milliseconds: as gossip's.
const VALID_MS: u64 = 3000;

pub(crate) struct Rules {
    engine: Engine,
    state: State,
    nodes: Vec<NodeId>,
    decisions: Vec<Decision>,
    reason: Option<String>,
}

impl Rules {
    pub(crate) fn new(nodes: usize) -> anyhow::Result<Self> {
        let (policy, _) = weir_adapt::Policy::read("crowd.policy", POLICY)
            .map_err(|mistakes| anyhow!("{}", mistakes.first().map_or(String::new(), ToString::to_string)))?;
        let engine = Engine::new(policy, "n1", Method::default());
        let mut state = engine.state("n1");
        let nodes = (1..=nodes)
            .map(|number| engine.node(&mut state, &format!("n{number}")).context("too many nodes"))
            .collect::<Result<_, _>>()?;
        Ok(Self { engine, state, nodes, decisions: Vec::new(), reason: None })
    }
}

/// The tests that held, with what they read.
fn cited(readings: &[Cited]) -> String {
    let held = readings.iter().filter(|cited| cited.held);
    held.map(Cited::to_string).collect::<Vec<_>>().join(", ")
}

impl Policy for Rules {
    fn name(&self) -> &'static str {
        "weir's rules"
    }

    fn nodes(&mut self, at_s: u64, readings: &[NodeReading], awake: usize) -> usize {
        let at_ms = 1000 * at_s;
        let told: Vec<Reading> = self
            .nodes
            .iter()
            .zip(readings)
            .flat_map(|(&node, reading)| {
                let of = |resource, value| Reading { resource, of: Of::Node(node), value, at_ms, valid_ms: VALID_MS };
                [of(Resource::Rate, reading.rate_per_s), of(Resource::Active, reading.active)]
            })
            .collect();
        self.engine.tick(at_ms, &told, &mut self.state, &mut self.decisions);
        let mut wish = awake;
        for decision in self.decisions.drain(..).filter(|decision| decision.outcome.is_fired()) {
            for order in &decision.orders {
                match order {
                    Order::Grow { pool, by } if pool == RESERVE => {
                        wish = (wish + *by as usize).min(readings.len());
                        self.reason.get_or_insert_with(|| cited(&decision.readings));
                    }
                    Order::Shrink { pool, by } if pool == RESERVE => {
                        wish = wish.saturating_sub(*by as usize).max(crate::simulation::NODES_MIN);
                    }
                    _ => {}
                }
            }
        }
        wish
    }

    fn reason(&self) -> Option<String> {
        self.reason.clone()
    }
}
