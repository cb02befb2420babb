//! The replicas that a node keeps for others, within bounds.

use super::replica::{Batch, Replica};
use crate::name::NodeNumber;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weir_keeper::Flow;

/// Replicas that a node keeps.
const REPLICAS_MAX: usize = 1 << 16;
/// Bytes of all of them.
const BYTES_MAX: usize = 256 << 20;
/// Replicas of which the content is to be looked for; that of others is found when it is needed.
const FRESH_MAX: usize = 1_024;

/// A replica that is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The replica.
    pub replica: Replica,
    /// When it came.
    pub since: Instant,
}

/// What a store has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Replicas that are kept now.
    pub kept: u64,
    /// Replicas that came since the start.
    pub came: u64,
    /// Those for which there was no room.
    pub dropped: u64,
}

/// The replicas of other nodes.
#[derive(Debug, Default)]
pub struct ReplicaStore(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    nodes: BTreeMap<NodeNumber, OfNode>,
    bytes: usize,
    counts: StoreCounts,
    fresh: VecDeque<(NodeNumber, Flow)>,
}

#[derive(Debug, Default)]
struct OfNode {
    /// Of the newest batch.
    start: u64,
    number: u64,
    replicas: HashMap<Flow, Kept>,
}

impl ReplicaStore {
    /// Takes in what a node tells.
    pub fn take_in(&self, from: NodeNumber, batch: Batch) {
        let mut all = self.nodes();
        let node = all.nodes.entry(from).or_default();
        if (batch.start, batch.number) <= (node.start, node.number) {
            return;
        }
        let is_anew = batch.start != node.start || batch.is_anew;
        (node.start, node.number) = (batch.start, batch.number);
        if is_anew {
            all.forget_all(from);
        }
        batch.ended.iter().for_each(|flow| all.forget(from, flow));
        for replica in batch.replicas {
            all.forget(from, &replica.flow);
            all.counts.came += 1;
            if all.fresh.len() < FRESH_MAX {
                all.fresh.push_back((from, replica.flow));
            }
            all.put(from, Kept { replica, since: Instant::now() });
        }
    }

    /// The nodes of which there are replicas.
    pub fn nodes_kept(&self) -> Vec<NodeNumber> {
        self.nodes().nodes.iter().filter(|(_, node)| !node.replicas.is_empty()).map(|(number, _)| *number).collect()
    }

    /// Takes the replicas of a node out.
    pub fn take_of(&self, node: NodeNumber) -> Vec<Kept> {
        self.nodes().forget_all(node)
    }

    /// Takes the replica of a flow of a node out, if it is kept.
    pub fn take_one(&self, node: NodeNumber, flow: &Flow) -> Option<Kept> {
        let mut all = self.nodes();
        let kept = all.nodes.get_mut(&node)?.replicas.remove(flow)?;
        all.counted_out(&kept);
        Some(kept)
    }

    /// The next one that has come and was not asked for by this yet.
    pub fn next_fresh(&self) -> Option<Replica> {
        let mut all = self.nodes();
        loop {
            let (node, flow) = all.fresh.pop_front()?;
            // It may be over by now.
            if let Some(kept) = all.nodes.get(&node).and_then(|of_node| of_node.replicas.get(&flow)) {
                return Some(kept.replica.clone());
            }
        }
    }

    /// Puts back what was taken out, unless there is a newer one.
    pub fn put_back(&self, node: NodeNumber, kept: Kept) {
        let mut all = self.nodes();
        let is_there = all.nodes.get(&node).is_some_and(|of_node| of_node.replicas.contains_key(&kept.replica.flow));
        if !is_there {
            all.put(node, kept);
        }
    }

    /// What was counted.
    pub fn counts(&self) -> StoreCounts {
        self.nodes().counts
    }

    /// Each change is whole before the lock is given back.
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nodes {
    fn forget(&mut self, node: NodeNumber, flow: &Flow) {
        let kept = self.nodes.get_mut(&node).and_then(|of_node| of_node.replicas.remove(flow));
        kept.iter().for_each(|kept| self.counted_out(kept));
    }

    fn forget_all(&mut self, node: NodeNumber) -> Vec<Kept> {
        let replicas = self.nodes.get_mut(&node).map(|of_node| std::mem::take(&mut of_node.replicas));
        let all: Vec<Kept> = replicas.unwrap_or_default().into_values().collect();
        all.iter().for_each(|kept| self.counted_out(kept));
        all
    }

    fn counted_out(&mut self, kept: &Kept) {
        self.counts.kept -= 1;
        self.bytes -= kept.replica.encoded_bytes();
    }

    fn put(&mut self, node: NodeNumber, kept: Kept) {
        let bytes = kept.replica.encoded_bytes();
        if self.counts.kept >= REPLICAS_MAX as u64 || self.bytes + bytes > BYTES_MAX {
            self.counts.dropped += 1;
            return;
        }
        self.counts.kept += 1;
        self.bytes += bytes;
        self.nodes.entry(node).or_default().replicas.insert(kept.replica.flow, kept);
    }
}
