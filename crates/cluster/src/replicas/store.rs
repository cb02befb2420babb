//! The replicas that a node keeps for others, within bounds.

use super::replica::{Batch, Replica};
use crate::name::NodeNumber;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
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
pub struct ReplicaStore {
    nodes: Mutex<Nodes>,
    /// With the lock before: some have come.
    came: Condvar,
}

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
        drop(all);
        self.came.notify_all();
    }

    /// Waits until a replica is kept, at most so long.
    pub fn wait_for_replicas(&self, most: Duration) {
        let waited = self.came.wait_timeout_while(self.nodes(), most, |all| all.counts.kept == 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for the next one that was not given by this or [`ReplicaStore::next_fresh`] yet.
    pub fn wait_for_fresh(&self) -> Replica {
        loop {
            let waited = self.came.wait_while(self.nodes(), |all| all.fresh.is_empty());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            // Those that are over by now are passed over.
            if let Some(replica) = self.next_fresh() {
                return replica;
            }
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
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MoveId;
    use crate::replicas::{Position, SocketOptions};
    use std::sync::Arc;
    use zeroize::Zeroizing;

    fn batch(number: u64, port: u16) -> Batch {
        let replica = Replica {
            id: MoveId { giver: 1, number },
            flow: Flow { client: ([10, 0, 0, 2], port).into(), service: ([10, 0, 0, 80], 80).into() },
            position: Position { birth: None, written: 1, acknowledged: 1, received: 1, offset: 1, response_bytes: 9 },
            options: SocketOptions {
                options: 0,
                send_scale: 7,
                receive_scale: 7,
                mss: 1_448,
                timestamp: 1_000,
                round_trip_us: 1,
            },
            session: Zeroizing::new(vec![0]),
        };
        Batch { start: 1, number, is_anew: false, ended: Vec::new(), replicas: vec![replica] }
    }

    #[test]
    fn threads_sleep_until_replicas_come() {
        let store = Arc::<ReplicaStore>::default();
        let begun = Instant::now();
        store.wait_for_replicas(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20), "none is kept");
        let of_fresh = Arc::clone(&store);
        let fresh = std::thread::spawn(move || of_fresh.wait_for_fresh().flow.client.port());
        let of_kept = Arc::clone(&store);
        let kept = std::thread::spawn(move || of_kept.wait_for_replicas(Duration::from_secs(600)));
        store.take_in(2, batch(1, 7));
        assert_eq!(fresh.join().expect("no panic"), 7);
        kept.join().expect("it is woken long before its time is over");
        // One that is over by then is passed over.
        store.take_in(2, batch(2, 8));
        store.take_of(2);
        let of_fresh = Arc::clone(&store);
        let fresh = std::thread::spawn(move || of_fresh.wait_for_fresh().flow.client.port());
        store.take_in(2, batch(3, 9));
        assert_eq!(fresh.join().expect("no panic"), 9);
    }
}
