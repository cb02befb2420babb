//! Consistent hashing (Karger et al. 1997), with bounded loads where asked.

/// Places of a node on the ring.
const PLACES: u64 = 128;

/// Who has which stretch of the ring.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    /// Ends of the stretches, ascending, with their nodes.
    places: Vec<(u64, u8)>,
    /// Where each object's search begins.
    first: Vec<u32>,
    bound: Option<f64>,
}

impl Ring {
    pub(crate) fn new(objects: usize, nodes: u32, bound: Option<f64>, seed: u64) -> Self {
        let place = |node: u64, copy: u64| (mixed(seed ^ mixed(node * PLACES + copy + 1)), node as u8);
        let mut places: Vec<_> =
            (0..u64::from(nodes)).flat_map(|node| (0..PLACES).map(move |copy| place(node, copy))).collect();
        places.sort_unstable();
        let first = |object: u64| {
            let hash = mixed(!object ^ seed.rotate_left(17));
            (places.partition_point(|(place, _)| *place < hash) % places.len()) as u32
        };
        let first = (0..objects as u64).map(first).collect();
        Self { places, first, bound }
    }

    /// The node for a request: the next one on the ring that is within the bound, counted with this request.
    pub(crate) fn choose(&self, object: u32, loads: &[u32], active: u64) -> usize {
        let begin = self.first[object as usize] as usize;
        let node = |step: usize| usize::from(self.places[(begin + step) % self.places.len()].1);
        let Some(bound) = self.bound else { return node(0) };
        let most = allowed(bound, active, loads.len());
        // One is below the mean, and so below the bound.
        (0..self.places.len()).map(node).find(|node| u64::from(loads[*node]) < most).unwrap_or_else(|| node(0))
    }
}

/// How many requests a node may have when one more than `active` is there.
pub(crate) fn allowed(bound: f64, active: u64, nodes: usize) -> u64 {
    (bound * (active + 1) as f64 / nodes as f64).ceil() as u64
}

/// A number by whose bits nothing can be told of the other (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_more_node_moves_only_its_share() {
        let (few, more) = (Ring::new(10_000, 9, None, 1), Ring::new(10_000, 10, None, 1));
        let node = |ring: &Ring, object| ring.choose(object, &[0; 10], 0);
        let moved = (0..10_000).filter(|object| node(&few, *object) != node(&more, *object)).count();
        assert!((700..1300).contains(&moved), "{moved}");
        assert!((0..10_000).all(|object| node(&few, object) == node(&more, object) || node(&more, object) == 9));
    }

    proptest! {
        #[test]
        fn no_node_is_above_the_bound(loads in prop::collection::vec(0u32..50, 1..=64), object in 0u32..100, bound in 1.01..3.0f64) {
            let ring = Ring::new(100, loads.len() as u32, Some(bound), 7);
            let active = loads.iter().map(|load| u64::from(*load)).sum();
            let node = ring.choose(object, &loads, active);
            prop_assert!(u64::from(loads[node]) < allowed(bound, active, loads.len()));
        }
    }
}
