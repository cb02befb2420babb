//! What each host has answered: counted by each loop for itself, told together.

use crate::counters::Counter;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of a host in one loop, which alone writes them.
#[derive(Debug, Default)]
pub(crate) struct HostCounts {
    pub(crate) name: String,
    by_class: [Counter; 5],
    bytes: Counter,
}

impl HostCounts {
    /// A response with this status has ended after so many bytes.
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

/// The counts of all hosts in all loops. A host that a new configuration does not name any more keeps its counts.
#[derive(Debug, Default)]
pub(crate) struct HostTable(Mutex<BTreeMap<(String, usize), Arc<HostCounts>>>);

impl HostTable {
    /// A loop's counts for a host, the same ones whenever they are asked for.
    pub(crate) fn of(&self, name: &str, index: usize) -> Arc<HostCounts> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(HostCounts { name: name.to_owned(), ..HostCounts::default() });
        Arc::clone(table.entry((name.to_owned(), index)).or_insert_with(new))
    }

    /// The sums, by the names of the hosts.
    pub(crate) fn read(&self) -> BTreeMap<String, HostSum> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<String, HostSum> = BTreeMap::new();
        for ((name, _), counts) in &*table {
            let sum = sums.entry(name.clone()).or_default();
            for (to, from) in sum.by_class.iter_mut().zip(&counts.by_class) {
                *to += from.read();
            }
            sum.bytes += counts.bytes.read();
        }
        sums
    }
}
