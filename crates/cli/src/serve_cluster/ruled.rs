//! What rules over nodes have a node do: the director's word, sessions that came, and what is shown of it.

use crate::cluster::control_socket::Ruled;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weir_adapt::nodes::Wished;
use weir_keeper::Flow;

/// Sessions of which it is remembered that they came from another node.
const ARRIVALS_MAX: usize = 4_096;

/// The two ends of a connection.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// Sessions that came from other nodes: the cooldown of rules begins with that.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<HashMap<Ends, Instant>>);

impl Arrivals {
    pub(super) fn add(&self, flow: &Flow) {
        let mut all = lock(&self.0);
        if all.len() >= ARRIVALS_MAX {
            let oldest = all.iter().min_by_key(|(_, at)| **at).map(|(ends, _)| *ends);
            oldest.map(|ends| all.remove(&ends));
        }
        all.insert((flow.client, flow.service), Instant::now());
    }

    pub(super) fn keep(&self, open: &BTreeSet<Ends>) {
        lock(&self.0).retain(|ends, _| open.contains(ends));
    }

    pub(super) fn has(&self, ends: &Ends) -> bool {
        lock(&self.0).contains_key(ends)
    }
}

/// What rules have this node do.
#[derive(Default)]
pub(super) struct Ruling {
    pub(super) arrivals: Arc<Arrivals>,
    /// The newest word of a director that was heard.
    pub(super) word: Mutex<Wished>,
    /// For people.
    pub(super) now: Mutex<Ruled>,
}

impl Ruling {
    pub(super) fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
    }

    /// For people.
    pub(super) fn now(&self) -> Ruled {
        lock(&self.now).clone()
    }

    /// Nodes that sleep, or are to.
    pub(super) fn asleep(&self) -> BTreeSet<String> {
        let word = lock(&self.word);
        word.awake.iter().filter(|(_, is_awake)| !**is_awake).map(|(name, _)| name.clone()).collect()
    }

    /// Follows the newest word that was heard, and none that is older than one before; true if it is another one.
    pub(super) fn hear(&self, word: Option<(Wished, u64)>) -> bool {
        let mut own = lock(&self.word);
        let newer = word.map(|(word, _)| word).filter(|word| word.is_newer_than(&own));
        newer.map(|newer| *own = newer).is_some()
    }
}

/// What the locks guard is whole after each statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
