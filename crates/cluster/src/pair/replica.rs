//! What the active director tells the other of its table, and how that one takes it.
//!
//! Most connections are where both directors' hash says; only the others are told. The active one compares its table with
//! what it has told, again and again, and tells the difference; each steered flow goes ahead of that.

use super::entries::{ENTRIES_MAX, Entries};
use crate::director::Steering;
use crate::name::NodeNumber;
use std::collections::HashMap;
use weir_keeper::Flow;

/// What the active director has told the other one.
#[derive(Debug, Default)]
pub struct Replica {
    told: HashMap<Flow, NodeNumber>,
    is_whole: bool,
}

impl Replica {
    /// Nothing is known of the other one any more: it is told the whole table next.
    pub fn lose(&mut self) {
        *self = Self::default();
    }

    /// Whether the whole table was told.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What is to be told ahead, of flows that were just steered; none before the whole table was told.
    pub fn ahead(&mut self, epoch: u64, steered: &[(Flow, NodeNumber)], draining: &[NodeNumber]) -> Vec<Entries> {
        if !self.is_whole {
            return Vec::new();
        }
        self.told.extend(steered.iter().copied());
        let entries =
            |here: &[_]| Entries { epoch, here: here.to_vec(), draining: draining.to_vec(), ..Entries::default() };
        steered.chunks(ENTRIES_MAX).map(entries).collect()
    }

    /// What is to be told so that the other one has this table; at least one message, which says who is drained.
    pub fn difference(&mut self, epoch: u64, now: &[(Flow, NodeNumber)], draining: &[NodeNumber]) -> Vec<Entries> {
        let table: HashMap<Flow, NodeNumber> = now.iter().copied().collect();
        let here: Vec<_> =
            table.iter().filter(|(flow, node)| self.told.get(*flow) != Some(*node)).map(|(f, n)| (*f, *n)).collect();
        let gone: Vec<Flow> = self.told.keys().filter(|flow| !table.contains_key(flow)).copied().collect();
        let parts = here.len().div_ceil(ENTRIES_MAX).max(gone.len().div_ceil(ENTRIES_MAX)).max(1);
        let part = |part: usize| Entries {
            epoch,
            is_begin: !self.is_whole && part == 0,
            is_end: !self.is_whole && part == parts - 1,
            here: here.chunks(ENTRIES_MAX).nth(part).unwrap_or_default().to_vec(),
            gone: gone.chunks(ENTRIES_MAX).nth(part).unwrap_or_default().to_vec(),
            draining: draining.to_vec(),
        };
        let told = (0..parts).map(part).collect();
        (self.told, self.is_whole) = (table, true);
        told
    }
}

/// What the director that stands by was told, as it stands in its table.
#[derive(Debug, Default)]
pub struct Replicated {
    has: HashMap<Flow, NodeNumber>,
    /// Those that the whole table has named until now, while it comes.
    named: Option<HashMap<Flow, NodeNumber>>,
    is_whole: bool,
    refused: u64,
}

impl Replicated {
    /// Begins with what stands in the table from an earlier time.
    pub fn new(has: impl IntoIterator<Item = (Flow, NodeNumber)>) -> Self {
        Self { has: has.into_iter().collect(), ..Self::default() }
    }

    /// Whether the whole table has come.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Flows of the other director that stand in the table.
    pub fn flows(&self) -> usize {
        self.has.len()
    }

    /// Entries that the table did not take, as it is full or does not know the node.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Enters a part.
    pub fn take(&mut self, entries: &Entries, table: &mut dyn Steering) {
        if entries.is_begin {
            self.named = Some(HashMap::new());
        }
        for flow in &entries.gone {
            self.has.remove(flow);
            table.forget(flow);
        }
        for (flow, node) in &entries.here {
            if let Some(named) = &mut self.named {
                named.insert(*flow, *node);
            }
            match table.steer(flow, *node, entries.epoch) {
                Ok(_) => drop(self.has.insert(*flow, *node)),
                Err(_) => self.refused += 1,
            }
        }
        if let Some(named) = self.named.take_if(|_| entries.is_end) {
            self.is_whole = true;
            self.has.retain(|flow, _| {
                let stays = named.contains_key(flow);
                if !stays {
                    table.forget(flow);
                }
                stays
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::director::TableFault;
    use std::net::SocketAddr;
    use weir_keeper::Seen;

    #[derive(Default)]
    struct Table(HashMap<Flow, NodeNumber>);

    impl Steering for Table {
        fn steer(&mut self, flow: &Flow, to: NodeNumber, _: u64) -> Result<Option<Seen>, TableFault> {
            self.0.insert(*flow, to);
            Ok(None)
        }

        fn owner(&self, flow: &Flow) -> Option<NodeNumber> {
            self.0.get(flow).copied()
        }

        fn forget(&mut self, flow: &Flow) {
            self.0.remove(flow);
        }
    }

    fn flow(number: u32) -> Flow {
        let client = SocketAddr::from(([10, 0, (number >> 16) as u8, 9], number as u16));
        Flow { client, service: SocketAddr::from(([10, 0, 0, 1], 80)) }
    }

    #[test]
    fn both_tables_become_equal_also_where_others_stood_there() {
        let stale = (flow(70_000), 9);
        let mut table = Table(HashMap::from([stale]));
        let (mut replica, mut replicated) = (Replica::default(), Replicated::new([stale]));
        assert!(replica.ahead(7, &[(flow(1), 2)], &[]).is_empty(), "not before the whole table");
        let many: Vec<_> = (0..10_000).map(|number| (flow(number), 2)).collect();
        let parts = replica.difference(7, &many, &[3]);
        assert_eq!((parts.len(), parts[0].is_begin, parts[2].is_end, &parts[1].draining), (3, true, true, &vec![3]));
        parts.iter().for_each(|part| replicated.take(part, &mut table));
        assert_eq!((table.0.len(), replicated.is_whole()), (10_000, true));
        replica.ahead(7, &[(flow(5), 4)], &[]).iter().for_each(|part| replicated.take(part, &mut table));
        assert_eq!(table.0[&flow(5)], 4);
        // Those above are over, one has moved, and one is new.
        let mut few: Vec<_> = many[..10].to_vec();
        (few[3].1, few[5].1) = (1, 4);
        few.push((flow(80_000), 1));
        let parts = replica.difference(7, &few, &[]);
        assert!(parts.iter().all(|part| part.here.len() <= ENTRIES_MAX && part.gone.len() <= ENTRIES_MAX));
        assert_eq!(parts.iter().map(|part| part.here.len()).sum::<usize>(), 2);
        parts.iter().for_each(|part| replicated.take(part, &mut table));
        assert_eq!(table.0, few.iter().copied().collect());
        // Without news it says only who is drained.
        assert_eq!(replica.difference(7, &few, &[1]), [Entries { epoch: 7, draining: vec![1], ..Entries::default() }]);
        replica.lose();
        let parts = replica.difference(8, &[], &[]);
        parts.iter().for_each(|part| replicated.take(part, &mut table));
        assert!(table.0.is_empty() && replicated.flows() == 0);
    }
}
