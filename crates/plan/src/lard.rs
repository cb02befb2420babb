//! Locality-aware request distribution (Pai, Aron, Banga, Svendsen, Druschel, Zwaenepoel and Nahum 1998, "Locality-Aware
//! Request Distribution in Cluster-based Network Servers"): an object stays with its node until that has too much to do.

use crate::mask::{all, bits};

/// Its parameters; the defaults are those of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lard {
    /// Requests in a node below which it has too little to do.
    pub low: u32,
    /// Requests in a node above which its objects are given to one that has too little, if there is one.
    pub high: u32,
    /// Whether an object may have several nodes (LARD/R).
    pub is_replicated: bool,
    /// After this time without a change the fullest of an object's nodes is taken from it, nanoseconds.
    pub shrink_ns: u64,
}

impl Default for Lard {
    fn default() -> Self {
        Self { low: 25, high: 65, is_replicated: false, shrink_ns: 20_000_000_000 }
    }
}

impl Lard {
    /// How many requests may be in all nodes together, (n - 1) high + low - 1: so many that a node is only then above
    /// `high` while others are below `low` as long as it takes to notice. At least one.
    #[must_use]
    pub fn admitted(&self, nodes: u32) -> u64 {
        (u64::from(nodes.max(1) - 1) * u64::from(self.high) + u64::from(self.low)).saturating_sub(1).max(1)
    }
}

/// Who serves what at present.
#[derive(Debug, Clone)]
pub(crate) struct LardState {
    lard: Lard,
    nodes: u64,
    /// The nodes of each object; 0 = none yet.
    serves: Vec<u64>,
    changed_ns: Vec<u64>,
}

impl LardState {
    /// Nothing is assigned yet.
    #[must_use]
    pub(crate) fn new(lard: Lard, objects: usize, nodes: u32) -> Self {
        let changed_ns = vec![0; if lard.is_replicated { objects } else { 0 }];
        Self { lard, nodes: all(nodes), serves: vec![0; objects], changed_ns }
    }

    /// The node for a request, from how many are in each.
    pub(crate) fn choose(&mut self, object: u32, now_ns: u64, loads: &[u32]) -> usize {
        let at = object as usize;
        let Lard { low, high, is_replicated, shrink_ns } = self.lard;
        let serving = self.serves[at];
        let (idlest, idlest_load) = fewest(self.nodes, loads);
        if serving == 0 {
            self.serves[at] = 1 << idlest;
            if is_replicated {
                self.changed_ns[at] = now_ns;
            }
            return idlest;
        }
        let (node, load) = fewest(serving, loads);
        // If no node is below the lower mark, more nodes do not help until one has twice as much as is good.
        let is_full = load > high && idlest_load < low || load >= 2 * high;
        let chosen = if is_full { idlest } else { node };
        if !is_replicated {
            self.serves[at] = 1 << chosen;
            return chosen;
        }
        let mut grown = serving | 1 << chosen;
        if grown.count_ones() > 1 && grown == serving && now_ns - self.changed_ns[at] > shrink_ns {
            let fullest = bits(grown).filter(|one| *one != chosen).max_by_key(|one| loads[*one]);
            grown &= !fullest.map_or(0, |one| 1 << one);
        }
        if grown != serving {
            self.changed_ns[at] = now_ns;
            self.serves[at] = grown;
        }
        chosen
    }
}

/// Of some nodes the one with the fewest requests, and how many.
fn fewest(nodes: u64, loads: &[u32]) -> (usize, u32) {
    let least = bits(nodes).map(|node| (loads[node], node)).min().unwrap_or_default();
    (least.1, least.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_move_only_from_full_nodes_to_idle_ones() {
        let mut state = LardState::new(Lard::default(), 2, 3);
        assert_eq!(state.choose(0, 0, &[3, 2, 4]), 1);
        assert_eq!(state.choose(0, 0, &[0, 65, 0]), 1);
        // Above the upper mark, but no node is below the lower one; then one is; then twice the upper mark.
        assert_eq!(state.choose(0, 0, &[25, 66, 25]), 1);
        assert_eq!(state.choose(0, 0, &[25, 66, 24]), 2);
        assert_eq!(state.choose(0, 0, &[40, 66, 130]), 0);
        assert_eq!(state.choose(1, 0, &[40, 66, 13]), 2);
        assert_eq!((Lard::default().admitted(10), Lard::default().admitted(1)), (609, 24));
    }

    #[test]
    fn replicas_grow_and_shrink() {
        let second = 1_000_000_000;
        let mut state = LardState::new(Lard { is_replicated: true, ..Lard::default() }, 1, 3);
        assert_eq!(state.choose(0, 0, &[0, 1, 1]), 0);
        assert_eq!(state.choose(0, second, &[66, 20, 30]), 1);
        // Both serve it now, the emptier one first.
        assert_eq!((state.choose(0, 2 * second, &[5, 20, 0]), state.serves[0]), (0, 0b011));
        assert_eq!((state.choose(0, 21 * second, &[30, 20, 0]), state.serves[0]), (1, 0b011));
        assert_eq!((state.choose(0, 22 * second, &[30, 20, 0]), state.serves[0]), (1, 0b010));
    }
}
