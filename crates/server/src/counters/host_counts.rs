//! What each host has answered: each loop counts by itself, and the status shows the sums.

use crate::counters::Counter;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of a host in one loop, which alone writes them.
#[derive(Debug)]
pub(crate) struct HostCounts {
    pub(crate) name: Arc<str>,
    by_class: [Counter; 5],
    bytes: Counter,
}

impl HostCounts {
    /// A response with this status has ended after so many bytes.
    #[inline]
    pub(crate) fn count(&self, status: u16, bytes: u64) {
        if let Some(class) = self.by_class.get(usize::from(status / 100).wrapping_sub(1)) {
            class.add(1);
        }
        self.bytes.add(bytes);
    }
}

/// A sum over all loops.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostSum {
    /// Responses with 1xx to 5xx.
    pub(crate) by_class: [u64; 5],
    /// Bytes of them, heads included.
    pub(crate) bytes: u64,
}

/// The counts of all hosts, in the order of the configuration, of each loop.
#[derive(Debug, Default)]
pub(crate) struct HostTable(Mutex<Vec<Vec<Arc<HostCounts>>>>);

/// A loop's part of the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostLedger {
    pub(crate) table: Arc<HostTable>,
    /// The loop's number.
    pub(crate) index: usize,
}

impl HostLedger {
    /// The counts of these hosts and no others. A host that was there before goes on with what it has.
    pub(crate) fn enter(&self, names: &[Arc<str>]) -> Vec<Arc<HostCounts>> {
        let mut table = self.table.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() <= self.index {
            table.resize_with(self.index + 1, Vec::new);
        }
        let before: BTreeMap<&str, &Arc<HostCounts>> =
            table[self.index].iter().map(|counts| (&*counts.name, counts)).collect();
        let of = |name: &Arc<str>| match before.get(&**name) {
            Some(counts) => Arc::clone(counts),
            None => {
                Arc::new(HostCounts { name: Arc::clone(name), by_class: Default::default(), bytes: Counter::default() })
            }
        };
        let counts: Vec<_> = names.iter().map(of).collect();
        table[self.index].clone_from(&counts);
        counts
    }
}

impl HostTable {
    /// The sums, by the names of the hosts.
    pub(crate) fn read(&self) -> BTreeMap<Arc<str>, HostSum> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<Arc<str>, HostSum> = BTreeMap::new();
        for counts in table.iter().flatten() {
            let sum = sums.entry(Arc::clone(&counts.name)).or_default();
            for (to, from) in sum.by_class.iter_mut().zip(&counts.by_class) {
                *to += from.read();
            }
            sum.bytes += counts.bytes.read();
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_count_for_themselves_and_a_reload_keeps_what_stays() {
        let table = Arc::new(HostTable::default());
        let ledger = |index| HostLedger { table: Arc::clone(&table), index };
        let names = ["a", "b"].map(Arc::<str>::from);
        let (second, first) = (ledger(1).enter(&names), ledger(0).enter(&names));
        first[0].count(200, 10);
        second[0].count(404, 5);
        second[1].count(500, 1);
        first[1].count(999, 0);
        let sum = |by_class, bytes| HostSum { by_class, bytes };
        let read = table.read();
        assert_eq!(read["a"], sum([0, 1, 0, 1, 0], 15));
        assert_eq!(read["b"], sum([0, 0, 0, 0, 1], 1));
        let names = ["c", "a"].map(Arc::<str>::from);
        let again = ledger(1).enter(&names);
        again[1].count(204, 1);
        ledger(0).enter(&names);
        let read = table.read();
        assert_eq!(read.keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(read["a"], sum([0, 2, 0, 1, 0], 16));
    }
}
