//! Which nodes have which objects: a bit for each node.

use crate::mask::{all, bits};
use crate::policy::{Partition, Policy, TopOrder};
use crate::{Kind, Object};

/// Which nodes have each object; a node is a bit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// For each object of the log.
    pub nodes_of: Vec<u64>,
}

impl Placement {
    /// Bytes that each of so many nodes keeps.
    #[must_use]
    pub fn storage(&self, objects: &[Object], nodes: u32) -> Vec<u64> {
        let mut storage = vec![0; nodes as usize];
        for (mask, object) in self.nodes_of.iter().zip(objects) {
            for node in bits(*mask) {
                storage[node] += object.bytes;
            }
        }
        storage
    }

    /// What a policy places before the first request comes; `None` for policies that place by request.
    pub(crate) fn of(
        policy: &Policy,
        objects: &[Object],
        work_ns: &[f64],
        nodes: u32,
        random: &mut fastrand::Rng,
    ) -> Option<Self> {
        let mut placer = Placer { objects, work_ns, nodes, random };
        let nodes_of = match *policy {
            Policy::Full => vec![all(nodes); objects.len()],
            Policy::Partition(by) => placer.partition(by, 0..nodes),
            Policy::HotNode(_) if nodes == 1 => vec![1; objects.len()],
            Policy::HotNode(by) => placer.partition(by, 1..nodes).into_iter().map(|mask| mask | 1).collect(),
            Policy::Replicas { copies, by } => placer.replicas(copies, by),
            Policy::Top { share, copies, order, by } => placer.top(share, copies, order, by),
            Policy::ByType => placer.by_type(),
            Policy::Lard(_) | Policy::Hash { .. } => return None,
        };
        Some(Self { nodes_of })
    }
}

struct Placer<'a> {
    objects: &'a [Object],
    work_ns: &'a [f64],
    nodes: u32,
    random: &'a mut fastrand::Rng,
}

impl Placer<'_> {
    fn partition(&mut self, by: Partition, nodes: std::ops::Range<u32>) -> Vec<u64> {
        let count = nodes.len() as u64;
        match by {
            Partition::Random => {
                (0..self.objects.len()).map(|_| 1 << (u64::from(nodes.start) + self.random.u64(..count))).collect()
            }
            Partition::RoundRobin => {
                (0..self.objects.len() as u64).map(|at| 1 << (u64::from(nodes.start) + at % count)).collect()
            }
            Partition::Balanced => {
                let mut loads: Vec<f64> = vec![0.0; nodes.len()];
                let mut out = vec![0; self.objects.len()];
                for object in self.by_work() {
                    let node = least(&loads);
                    loads[node] += self.work_ns[object];
                    out[object] = 1 << (nodes.start as usize + node);
                }
                out
            }
        }
    }

    fn replicas(&mut self, copies: u32, by: Partition) -> Vec<u64> {
        let first = self.partition(by, 0..self.nodes);
        first.into_iter().map(|mask| self.more(mask, copies, by)).collect()
    }

    /// Copies of an object beside the first one.
    fn more(&mut self, first: u64, copies: u32, by: Partition) -> u64 {
        if copies >= self.nodes {
            return all(self.nodes);
        }
        let mut mask = first;
        while mask.count_ones() < copies {
            let next = match by {
                Partition::Random => self.random.u32(..self.nodes),
                // The nearest behind the first that has none.
                _ => (first.trailing_zeros() + mask.count_ones()) % self.nodes,
            };
            mask |= 1 << next;
        }
        mask
    }

    fn top(&mut self, share: f64, copies: Option<u32>, order: TopOrder, by: Partition) -> Vec<u64> {
        let asked: Vec<usize> = (0..self.objects.len()).filter(|at| self.objects[*at].requests > 0).collect();
        let value = |at: usize| {
            let object = &self.objects[at];
            order.value(object.requests as f64, self.work_ns[at], object.bytes)
        };
        let mut ordered = asked;
        ordered.sort_by(|one, other| value(*other).total_cmp(&value(*one)));
        let first = (share * ordered.len() as f64).round() as usize;
        let mut out = self.partition(by, 0..self.nodes);
        for at in &ordered[..first.min(ordered.len())] {
            out[*at] = self.more(out[*at], copies.unwrap_or(self.nodes), by);
        }
        if by == Partition::Balanced {
            self.rebalance(&mut out);
        }
        out
    }

    /// Places what lies on one node again, now that what lies on several takes work from all of these.
    fn rebalance(&self, out: &mut [u64]) {
        let mut loads = vec![0.0; self.nodes as usize];
        for (mask, work) in out.iter().zip(self.work_ns).filter(|(mask, _)| mask.count_ones() > 1) {
            bits(*mask).for_each(|node| loads[node] += work / f64::from(mask.count_ones()));
        }
        for object in self.by_work() {
            if out[object].count_ones() == 1 {
                let node = least(&loads);
                loads[node] += self.work_ns[object];
                out[object] = 1 << node;
            }
        }
    }

    fn by_type(&self) -> Vec<u64> {
        // Kinds that no request asks for take no node; those with the most work have theirs first.
        let mut work = [0.0; Kind::ALL.len()];
        for (object, work_ns) in self.objects.iter().zip(self.work_ns) {
            work[object.kind as usize] += work_ns;
        }
        let mut kinds: Vec<usize> = (0..Kind::ALL.len()).collect();
        kinds.sort_by(|one, other| work[*other].total_cmp(&work[*one]));
        let place =
            |kind: Kind| kinds.iter().position(|other| *other == kind as usize).unwrap_or(0) as u32 % self.nodes;
        self.objects.iter().map(|object| 1 << place(object.kind)).collect()
    }

    /// Objects, the one with the most work first.
    fn by_work(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by(|one, other| self.work_ns[*other].total_cmp(&self.work_ns[*one]));
        order
    }
}

/// The place of the least; the first of equal ones.
fn least(loads: &[f64]) -> usize {
    loads.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn objects(sizes: &[u64]) -> Vec<Object> {
        let object = |(at, bytes): (usize, &u64)| Object {
            name: format!("/{at}").into(),
            kind: Kind::ALL[at % Kind::ALL.len()],
            bytes: *bytes,
            size_from: crate::SizeFrom::Whole,
            requests: 1 + at as u64 % 7,
        };
        sizes.iter().enumerate().map(object).collect()
    }

    proptest! {
        #[test]
        fn every_object_lies_where_its_policy_says(
            sizes in prop::collection::vec(0u64..1_000_000, 1..60), nodes in 1u32..=64, seed: u64, copies in 1u32..10, share in 0.0..1.0f64,
        ) {
            let objects = objects(&sizes);
            let work: Vec<f64> = objects.iter().map(|object| object.requests as f64 * (1.0 + object.bytes as f64)).collect();
            for by in [Partition::Random, Partition::RoundRobin, Partition::Balanced] {
                let place = |policy| Placement::of(&policy, &objects, &work, nodes, &mut fastrand::Rng::with_seed(seed)).expect("it places");
                let count = |placement: &Placement| placement.nodes_of.iter().map(|mask| mask.count_ones()).collect::<Vec<_>>();
                let one = place(Policy::Partition(by));
                prop_assert!(count(&one).iter().all(|copies| *copies == 1));
                prop_assert!(one.nodes_of.iter().all(|mask| mask & !all(nodes) == 0));
                prop_assert_eq!(one.storage(&objects, nodes).iter().sum::<u64>(), sizes.iter().sum::<u64>());
                let hot = place(Policy::HotNode(by));
                prop_assert!(hot.nodes_of.iter().all(|mask| mask & 1 == 1 && mask.count_ones() == nodes.min(2)));
                let some = place(Policy::Replicas { copies, by });
                prop_assert!(count(&some).iter().all(|have| *have == copies.min(nodes)));
                let top = place(Policy::Top { share, copies: Some(copies), order: TopOrder::Requests, by });
                let wanted = if copies.min(nodes) > 1 { (share * objects.len() as f64).round() as usize } else { 0 };
                prop_assert_eq!(count(&top).iter().filter(|have| **have > 1).count(), wanted);
                prop_assert!(top.nodes_of.iter().all(|mask| mask & !all(nodes) == 0));
            }
        }
    }

    #[test]
    fn balance_is_by_work() {
        let objects = objects(&[0; 5]);
        let work = [50.0, 30.0, 20.0, 10.0, 10.0];
        let place = |policy: Policy| {
            Placement::of(&policy, &objects, &work, 2, &mut fastrand::Rng::with_seed(1)).expect("it places").nodes_of
        };
        assert_eq!(place(Policy::Partition(Partition::Balanced)), [1, 2, 2, 1, 2]);
        // Five kinds on two nodes, the one with the most work first.
        assert_eq!(place(Policy::ByType), [1, 2, 1, 2, 1]);
    }
}
