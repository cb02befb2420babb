//! Which node a front sends a request to, so that what a node is asked for stays in its memory: by the path, and what is
//! asked for by many by all nodes (LARD/R, Pai et al., ASPLOS 1998, with a table of weights in place of counted
//! connections).

use std::sync::atomic::{AtomicU32, Ordering};
use weir_keeper::maglev;

/// Counters of paths; those that share one are popular together.
const COUNTERS: usize = 4_096;
/// After so many requests all counters are halved.
const WINDOW: u32 = 8_192;
/// Requests before any path is popular.
const REQUESTS_MIN: u32 = 64;

/// How often paths were asked for lately.
#[derive(Debug)]
pub struct Locality {
    counts: Box<[AtomicU32]>,
    asked: AtomicU32,
}

impl Default for Locality {
    fn default() -> Self {
        Self { counts: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(), asked: AtomicU32::new(0) }
    }
}

impl Locality {
    /// The entry of a table ([`maglev::weighted_table`]) for a request: by its path alone, or by its client as well where
    /// the path has more than half of one of `nodes` nodes' share of the requests.
    pub fn entry(&self, path: &[u8], client: u64, nodes: usize) -> usize {
        let of_path = path
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let key = if self.is_popular(of_path, nodes) { of_path ^ client.rotate_left(32) } else { of_path };
        maglev::entry_of(key)
    }

    fn is_popular(&self, hash: u64, nodes: usize) -> bool {
        let Some(counter) = self.counts.get(hash as usize % COUNTERS) else { return false };
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if asked == WINDOW {
            for counter in &self.counts {
                counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count / 2)).ok();
            }
            self.asked.fetch_sub(WINDOW / 2, Ordering::Relaxed);
        }
        asked >= REQUESTS_MIN && u64::from(count) * nodes as u64 * 2 > u64::from(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_path_stays_at_a_node_and_a_popular_one_goes_to_all() {
        let (locality, table) = (Locality::default(), maglev::table(&[1, 2, 3, 4]));
        let mut rare: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); 400];
        let mut popular = BTreeSet::new();
        for client in 0..20_000_u64 {
            let path = client as usize % 400;
            rare[path].insert(table[locality.entry(format!("/{path}").as_bytes(), client * 77, 4)]);
            if client.is_multiple_of(2) {
                popular.insert(table[locality.entry(b"/front", client * 77, 4)]);
            }
        }
        assert!(rare.iter().all(|nodes| nodes.len() == 1), "{rare:?}");
        assert_eq!(rare.iter().flatten().collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(popular.len(), 4);
        // A crowd that is over is forgotten.
        for client in 0..200_000_u64 {
            locality.entry(format!("/{}", client % 400).as_bytes(), client, 4);
        }
        let after: BTreeSet<u16> = (0..50).map(|client| table[locality.entry(b"/front", client * 77, 4)]).collect();
        assert_eq!(after.len(), 1);
    }
}
