//! The weights of nodes for new connections, by how they stand: a node with less to spare than the others gets fewer.
//!
//! It has no clock: [`Balance::step`] is called once a second with what gossip has heard. A node's weight is its configured
//! one times a factor. The factor is wished for by the node's spare CPU and by its responses under way, both beside those
//! of the other nodes; it follows the wish in small steps, and rests while it is near it. A node without a fresh reading
//! has the factor 1.
//!
//! Where a rule says by which reading the best node is chosen, the wish is by that alone: the best node has the largest
//! factor, and one with twice as much a quarter of it. It does not get all: readings are a second old, and whole crowds
//! would go to and fro between nodes that are alike.

use crate::gossip::Reading;
use crate::name::NodeNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The configured weight of a node that names none.
pub const CONFIGURED_DEFAULT: u16 = 100;
/// The largest configured weight.
pub const CONFIGURED_MAX: u16 = 1_000;
/// A factor of 1.
const ONE: u32 = 1_000;
/// Factors are within these, in thousandths: a node that is full still gets a few connections, so that it is seen when it
/// has room again.
const FACTORS: (u32, u32) = (100, 2_000);
/// A weight is the configured one times the factor in thousandths, divided by this: at most 10,000.
const WEIGHT_DIVISOR: u32 = 200;
/// How far a factor goes in one step.
const STEP: u32 = 100;
/// A factor that rests begins to move when it is so far from the wish, and rests again when it is as near as `NEAR`: a
/// noise of some percent of a CPU changes nothing.
const FAR: u32 = 120;
const NEAR: u32 = 20;
/// A reading that is older says nothing any more, where they come each second.
pub const FRESH: Duration = Duration::from_secs(5);
/// After so many steps it is told that a node has said nothing.
const STEPS_UNHEARD: u32 = 5;
/// How much of a new reading counts beside those before it, in percent.
const NEWNESS: u32 = 40;
/// The least spare CPU that counts: between two nodes that are full the one is not many times as free as the other.
const SPARE_MIN: f64 = 0.05;
/// Responses under way, for a node of configured weight 100, that say nothing yet.
const CROWD_MIN: f64 = 64.0;
/// How many times fewer a node gets that has twice as much as the best, as a power of two.
const BEST_POWER: i32 = 2;
/// Of the way to such a wish a step goes one part of so many: what it does is seen a second later only.
const BEST_PART: u32 = 2;

/// By what weights are wished for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Measure {
    /// By spare CPU and responses under way.
    #[default]
    Load,
    /// By one reading, of which the least is best.
    Best(Quantity),
}

/// A reading by which nodes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The part of its CPUs that is in use.
    Cpu,
    /// The part of its memory that is in use.
    Memory,
    /// Requests that wait.
    Queue,
    /// How long a request waits.
    Wait,
    /// Requests in a second.
    Rate,
    /// The part of its requests that fail.
    Errors,
    /// Sessions with a response under way.
    Active,
}

impl Quantity {
    /// What a node of this configured weight has of it; none if it does not say.
    pub fn of(self, reading: &Reading, configured: u16) -> Option<f64> {
        let strain = reading.strain.as_ref();
        let each = f64::from(configured.max(1)) / f64::from(CONFIGURED_DEFAULT);
        Some(match self {
            Self::Cpu => reading.cpu_share,
            Self::Memory => strain?.mem_share,
            Self::Queue => strain?.queue / each,
            Self::Wait => strain?.wait_s,
            Self::Rate => reading.requests_per_s / each,
            Self::Errors => strain?.error_share,
            Self::Active => reading.sending as f64 / each,
        })
    }

    /// So much of it says nothing yet: between two nodes with less the one is not many times as good as the other.
    fn floor(self) -> f64 {
        match self {
            Self::Cpu | Self::Memory => SPARE_MIN,
            Self::Queue => 1.0,
            Self::Wait => 0.001,
            Self::Rate => 10.0,
            Self::Errors => 0.01,
            Self::Active => 4.0,
        }
    }
}

/// A node that may get new connections, and what was heard of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Its number.
    pub node: NodeNumber,
    /// Its configured weight, 0 to [`CONFIGURED_MAX`]; with 0 it gets none.
    pub configured: u16,
    /// Its newest reading, and how old that is.
    pub reading: Option<(Reading, Duration)>,
}

/// What a step has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Whether a weight is another one than before.
    pub is_changed: bool,
    /// Nodes whose reading has become too old, or has not come: they get their configured weight.
    pub stale: Vec<NodeNumber>,
    /// Nodes whose readings come again.
    pub fresh: Vec<NodeNumber>,
    /// Nodes whose weight has changed in the last steps, and rests now.
    pub settled: Vec<NodeNumber>,
}

/// A node's factor, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Factor {
    Rests(u32),
    Moves(u32),
}

/// What is known of a node with fresh readings, evened out.
#[derive(Debug, Clone, Copy)]
struct Load {
    number: u64,
    cpu_share: f64,
    sending: f64,
    /// What the measure compares; none where the node does not say it, or nothing is compared.
    compared: Option<f64>,
}

/// The weights of the nodes.
#[derive(Debug)]
pub struct Balance {
    fresh: Duration,
    measure: Measure,
    factors: BTreeMap<NodeNumber, Factor>,
    loads: BTreeMap<NodeNumber, Load>,
    /// Nodes without a fresh reading, and for how many steps.
    stale: BTreeMap<NodeNumber, u32>,
    weights: BTreeMap<NodeNumber, u16>,
}

impl Default for Balance {
    /// Of readings that come each second.
    fn default() -> Self {
        Self::with(FRESH)
    }
}

impl Balance {
    /// Of readings that hold for so long.
    pub fn with(fresh: Duration) -> Self {
        Self {
            fresh,
            measure: Measure::default(),
            factors: BTreeMap::new(),
            loads: BTreeMap::new(),
            stale: BTreeMap::new(),
            weights: BTreeMap::new(),
        }
    }

    /// The weight of a node that stands as the others do.
    pub fn configured_weight(configured: u16) -> u16 {
        weight(configured, ONE)
    }

    /// The weights after the last step, of the nodes that it named. All 0 if all configured weights are.
    pub fn weights(&self) -> &BTreeMap<NodeNumber, u16> {
        &self.weights
    }

    /// Goes on from the weights of another director: the factors that they say.
    pub fn take_over(&mut self, weights: &BTreeMap<NodeNumber, u16>, nodes: &[(NodeNumber, u16)]) {
        for (node, configured) in nodes.iter().filter(|(_, configured)| *configured > 0) {
            if let Some(weight) = weights.get(node) {
                let factor = u32::from(*weight) * WEIGHT_DIVISOR / u32::from(*configured);
                self.factors.insert(*node, Factor::Rests(factor.clamp(FACTORS.0, FACTORS.1)));
            }
        }
        self.weights.clone_from(weights);
    }

    /// Takes in how the nodes stand now: all that may get new connections. A node that was not named before, or is not
    /// any more, begins anew with the factor 1.
    pub fn step(&mut self, measure: Measure, nodes: &[Standing]) -> Balanced {
        if measure != self.measure {
            // What was compared before is another quantity.
            self.loads.clear();
            self.measure = measure;
        }
        let named: BTreeSet<NodeNumber> = nodes.iter().map(|standing| standing.node).collect();
        self.factors.retain(|node, _| named.contains(node));
        self.loads.retain(|node, _| named.contains(node));
        self.stale.retain(|node, _| named.contains(node));
        let mut balanced = Balanced::default();
        for standing in nodes {
            self.note(standing, &mut balanced);
        }
        let wishes = self.wishes(nodes);
        let mut weights = BTreeMap::new();
        for standing in nodes {
            let wish = wishes.get(&standing.node).copied().unwrap_or(ONE);
            let factor = self.factors.entry(standing.node).or_insert(Factor::Rests(ONE));
            let part = if measure == Measure::Load { 1 } else { BEST_PART };
            let before = std::mem::replace(factor, factor.towards(wish, part));
            if matches!((before, *factor), (Factor::Moves(_), Factor::Rests(_))) {
                balanced.settled.push(standing.node);
            }
            weights.insert(standing.node, weight(standing.configured, factor.thousandths()));
        }
        balanced.is_changed = weights != self.weights;
        self.weights = weights;
        balanced
    }

    /// Evens out the readings of a node, or forgets them.
    fn note(&mut self, standing: &Standing, balanced: &mut Balanced) {
        let node = standing.node;
        let Some((reading, _)) = standing.reading.filter(|(_, age)| *age <= self.fresh) else {
            self.loads.remove(&node);
            let steps = self.stale.entry(node).or_default();
            *steps += 1;
            // A node that has just come has none yet.
            let is_told_at = if standing.reading.is_some() { 1 } else { STEPS_UNHEARD };
            if *steps == is_told_at {
                balanced.stale.push(node);
            }
            return;
        };
        if self.stale.remove(&node).is_some_and(|steps| steps >= STEPS_UNHEARD) {
            balanced.fresh.push(node);
        }
        let compared = match self.measure {
            Measure::Load => None,
            Measure::Best(quantity) => quantity.of(&reading, standing.configured),
        };
        let new =
            Load { number: reading.number, cpu_share: reading.cpu_share, sending: reading.sending as f64, compared };
        let load = self.loads.entry(node).or_insert(new);
        if load.number != new.number {
            let even = |old: f64, new: f64| old + (new - old) * f64::from(NEWNESS) / 100.0;
            *load = Load {
                number: new.number,
                cpu_share: even(load.cpu_share, new.cpu_share),
                sending: even(load.sending, new.sending),
                compared: new.compared.map(|new| load.compared.map_or(new, |old| even(old, new))),
            };
        }
    }

    /// The factors that the loads ask for, in thousandths.
    fn wishes(&self, nodes: &[Standing]) -> BTreeMap<NodeNumber, u32> {
        // In the order of their numbers, so that the sums do not depend on that of the list.
        let configured: BTreeMap<NodeNumber, f64> = nodes
            .iter()
            .filter(|standing| standing.configured > 0)
            .map(|standing| (standing.node, f64::from(standing.configured)))
            .collect();
        let known: Vec<(NodeNumber, f64, Load)> = configured
            .iter()
            .filter_map(|(node, configured)| Some((*node, *configured, *self.loads.get(node)?)))
            .collect();
        if let Measure::Best(quantity) = self.measure {
            return best(quantity, &known);
        }
        let spare = |load: &Load| (1.0 - load.cpu_share).max(SPARE_MIN);
        let crowd =
            |configured: f64, load: &Load| load.sending * f64::from(CONFIGURED_DEFAULT) / configured + CROWD_MIN;
        let sum: f64 = known.iter().map(|(_, configured, _)| configured).sum();
        let mean_spare: f64 = known.iter().map(|(_, configured, load)| configured * spare(load)).sum::<f64>() / sum;
        let mean_crowd: f64 =
            known.iter().map(|(_, configured, load)| configured * crowd(*configured, load)).sum::<f64>() / sum;
        let wish = |(node, configured, load): &(NodeNumber, f64, Load)| {
            let factor = spare(load) / mean_spare * (mean_crowd / crowd(*configured, load));
            (*node, ((factor * f64::from(ONE)).round() as u32).clamp(FACTORS.0, FACTORS.1))
        };
        known.iter().map(wish).collect()
    }
}

impl Factor {
    fn thousandths(self) -> u32 {
        match self {
            Self::Rests(at) | Self::Moves(at) => at,
        }
    }

    /// One step towards a wish, of the way there one of so many parts at most, or none if it is near enough.
    fn towards(self, wish: u32, part: u32) -> Self {
        let at = self.thousandths();
        let off = at.abs_diff(wish);
        let is_enough = if matches!(self, Self::Rests(_)) { off < FAR } else { off <= NEAR };
        if is_enough {
            return Self::Rests(at);
        }
        let step = (off / part).clamp(1, STEP);
        Self::Moves(if wish > at { at + step } else { at - step })
    }
}

/// The factors by which the best node gets the most, in thousandths; of a node that does not say what is compared none.
fn best(quantity: Quantity, known: &[(NodeNumber, f64, Load)]) -> BTreeMap<NodeNumber, u32> {
    let cost = |load: &Load| Some(load.compared? + quantity.floor());
    let least = known.iter().filter_map(|(_, _, load)| cost(load)).fold(f64::INFINITY, f64::min);
    let wish = |(node, _, load): &(NodeNumber, f64, Load)| {
        let factor = (least / cost(load)?).powi(BEST_POWER) * f64::from(FACTORS.1);
        Some((*node, (factor.round() as u32).clamp(FACTORS.0, FACTORS.1)))
    };
    known.iter().filter_map(wish).collect()
}

/// At least 1 for a node that is to get any.
fn weight(configured: u16, factor: u32) -> u16 {
    let weight = u32::from(configured.min(CONFIGURED_MAX)) * factor / WEIGHT_DIVISOR;
    u16::try_from(weight.max(u32::from(configured > 0))).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gossip::Strain;
    use proptest::prelude::*;

    const NOW: Duration = Duration::ZERO;

    fn standing(node: NodeNumber, number: u64, cpu_share: f64, sending: u64) -> Standing {
        let reading = Reading { number, cpu_share, sending, ..Reading::default() };
        Standing { node, configured: CONFIGURED_DEFAULT, reading: Some((reading, NOW)) }
    }

    fn steps(balance: &mut Balance, count: u64, nodes: impl Fn(u64) -> Vec<Standing>) -> u64 {
        (1..=count).filter(|step| balance.step(Measure::Load, &nodes(*step)).is_changed).count() as u64
    }

    #[test]
    fn equal_nodes_have_equal_weights_and_noise_changes_nothing() {
        let mut balance = Balance::default();
        let noisy = |step: u64| {
            let wave = if step.is_multiple_of(2) { 0.02 } else { -0.02 };
            vec![standing(1, step, 0.4 + wave, 20), standing(2, step, 0.4 - wave, 30)]
        };
        assert_eq!(steps(&mut balance, 100, noisy), 1, "only the first step sets them");
        assert_eq!(balance.weights(), &BTreeMap::from([(1, 500), (2, 500)]));
    }

    #[test]
    fn a_busy_node_gets_fewer_in_small_steps() {
        let mut balance = Balance::default();
        steps(&mut balance, 3, |step| vec![standing(1, step, 0.2, 0), standing(2, step, 0.2, 0)]);
        let mut before = balance.weights()[&2];
        for step in 4..30 {
            balance.step(Measure::Load, &[standing(1, step, 0.2, 0), standing(2, step, 0.9, 0)]);
            let now = balance.weights()[&2];
            assert!(now <= before && before - now <= 50, "a tenth at most: {before} to {now}");
            before = now;
        }
        // 0.1 to spare beside 0.45 in the mean.
        assert!((100..=130).contains(&before), "{before}");
        assert!((870..=900).contains(&balance.weights()[&1]), "{:?}", balance.weights());
        // It is over.
        steps(&mut balance, 40, |step| vec![standing(1, 30 + step, 0.2, 0), standing(2, 30 + step, 0.2, 0)]);
        assert!(balance.weights().values().all(|weight| (490..=510).contains(weight)), "{:?}", balance.weights());
    }

    #[test]
    fn a_node_whose_responses_do_not_end_gets_fewer() {
        let mut balance = Balance::default();
        steps(&mut balance, 30, |step| vec![standing(1, step, 0.1, 10), standing(2, step, 0.1, 500)]);
        let weights = balance.weights();
        assert!(weights[&2] * 3 < weights[&1], "{weights:?}");
    }

    #[test]
    fn what_is_stale_is_told_once_and_has_its_configured_weight() {
        let mut balance = Balance::default();
        let both = |step, two| vec![standing(1, step, 0.2, 0), two];
        steps(&mut balance, 30, |step| both(step, standing(2, step, 0.9, 0)));
        let old = |step: u64| {
            let mut old = standing(2, 30, 0.9, 0);
            old.reading = old.reading.map(|(reading, _)| (reading, FRESH + Duration::from_millis(step)));
            both(30 + step, old)
        };
        assert_eq!(balance.step(Measure::Load, &old(1)).stale, [2]);
        assert_eq!(balance.step(Measure::Load, &old(2)).stale, [0; 0]);
        steps(&mut balance, 30, old);
        assert_eq!(balance.weights(), &BTreeMap::from([(1, 500), (2, 500)]), "one that is alone is the mean");
        assert_eq!(balance.step(Measure::Load, &both(90, standing(2, 90, 0.2, 0))).fresh, [2]);
    }

    #[test]
    fn configured_weights_count_and_zero_is_none() {
        let mut balance = Balance::default();
        let nodes = [(1, 0), (2, 50), (3, 1_000)];
        balance.step(Measure::Load, &nodes.map(|(node, configured)| Standing { node, configured, reading: None }));
        assert_eq!(balance.weights(), &BTreeMap::from([(1, 0), (2, 250), (3, 5_000)]));
        let mut other = Balance::default();
        other.take_over(balance.weights(), &nodes);
        assert!(
            !other
                .step(Measure::Load, &nodes.map(|(node, configured)| Standing { node, configured, reading: None }))
                .is_changed
        );
    }

    #[test]
    fn the_best_node_gets_the_most_and_one_that_does_not_say_has_its_configured_weight() {
        let mut balance = Balance::default();
        let queue = |node, number, queue: Option<f64>| {
            let mut standing = standing(node, number, 0.2, 0);
            let strain = queue.map(|queue| Strain { queue, ..Strain::default() });
            standing.reading = standing.reading.map(|(reading, age)| (Reading { strain, ..reading }, age));
            standing
        };
        let by = Measure::Best(Quantity::Queue);
        for step in 1..40 {
            let before = balance.weights().clone();
            let nodes = [queue(1, step, Some(1.0)), queue(2, step, Some(3.0)), queue(3, step, Some(40.0))];
            balance.step(by, &[nodes[0], nodes[1], nodes[2], queue(4, step, None)]);
            for (node, weight) in balance.weights() {
                assert!(before.get(node).is_none_or(|before| before.abs_diff(*weight) <= 50), "a tenth at most");
            }
        }
        let weights = balance.weights();
        // Twice as much with what says nothing yet: a quarter.
        assert!(weights[&1] >= 980 && (240..=270).contains(&weights[&2]), "{weights:?}");
        assert!(weights[&3] <= 70 && weights[&4] == 500, "{weights:?}");
        // By another quantity all are alike.
        for step in 40..80 {
            balance.step(Measure::Best(Quantity::Cpu), &[queue(1, step, None), queue(2, step, None)]);
        }
        assert!(balance.weights().values().all(|weight| *weight >= 980), "{:?}", balance.weights());
    }

    #[test]
    fn a_node_of_twice_the_weight_may_have_twice_as_much() {
        let reading = Reading { sending: 80, requests_per_s: 500.0, ..Reading::default() };
        assert_eq!(Quantity::Active.of(&reading, 200), Some(40.0));
        assert_eq!(Quantity::Rate.of(&reading, 50), Some(1_000.0));
        assert_eq!(Quantity::Queue.of(&reading, 100), None);
    }

    /// Nodes of these capacities, among which a load is spread by the weights; the highest CPU share of all at the end, and
    /// how often the weights changed in the last third.
    fn settle(measure: Measure, capacities: &[f64], load: f64, count: u64) -> (f64, u64) {
        let mut balance = Balance::default();
        let mut cpu = vec![0.5; capacities.len()];
        let mut changed = 0;
        for step in 1..=count {
            let nodes: Vec<Standing> = (1..).zip(&cpu).map(|(node, cpu)| standing(node, step, *cpu, 0)).collect();
            changed += u64::from(balance.step(measure, &nodes).is_changed && step > count * 2 / 3);
            let sum: f64 = balance.weights().values().map(|weight| f64::from(*weight)).sum();
            for ((weight, capacity), cpu) in balance.weights().values().zip(capacities).zip(&mut cpu) {
                *cpu = (load * f64::from(*weight) / sum / capacity).min(1.0);
            }
        }
        (cpu.iter().copied().fold(0.0, f64::max), changed)
    }

    proptest! {
        #[test]
        fn unlike_nodes_come_to_rest_and_none_is_full(
            capacities in proptest::collection::vec(0.5..2.0_f64, 2..8), share in 0.1..0.6_f64,
        ) {
            let load = capacities.iter().sum::<f64>() * share;
            let (worst, _) = settle(Measure::Best(Quantity::Cpu), &capacities, load, 300);
            prop_assert!(worst < 0.95, "{worst}, by the best CPU");
            let (worst, changed) = settle(Measure::Load, &capacities, load, 300);
            prop_assert!(worst < 0.95, "{worst}");
            // A factor that swings would change the weights in each of these 100 steps.
            prop_assert!(changed < 10, "{changed} changes");
        }

        #[test]
        fn two_directors_with_the_same_readings_agree(
            readings in proptest::collection::vec((0.0..1.0_f64, 0..500_u64, 0..9_000_u64), 4..60),
        ) {
            let (mut one, mut other) = (Balance::default(), Balance::default());
            for (step, three) in (1..).zip(readings.windows(3)) {
                let mut nodes: Vec<Standing> = (1..).zip(three).map(|(node, (cpu, sending, age_ms))| {
                    let mut standing = standing(node, step, *cpu, *sending);
                    standing.reading = standing.reading.map(|(reading, _)| (reading, Duration::from_millis(*age_ms)));
                    standing
                }).collect();
                let before = one.weights().clone();
                one.step(Measure::Load, &nodes);
                nodes.reverse();
                other.step(Measure::Load, &nodes);
                prop_assert_eq!(one.weights(), other.weights());
                for (node, weight) in one.weights() {
                    prop_assert!((50..=1_000).contains(weight));
                    prop_assert!(before.get(node).is_none_or(|before| before.abs_diff(*weight) <= 50));
                }
            }
        }
    }
}
