//! Consistent hashing (Karger et al. 1997), with bounded loads where asked.

/// Places of a node on the ring.
const PLACES: u64 = 128;

/// A circle of places: each node has some of them, and what is looked for begins at its own place.
///
/// A node that comes takes a share of what the others have had, and one that goes leaves its share to the others; what
/// is of two other nodes stays where it is.
#[derive(Debug, Clone)]
pub struct Ring {
    /// Places, ascending, with their nodes.
    places: Vec<(u64, u16)>,
}

impl Ring {
    /// One of these nodes, by their numbers; the same seed gives the same places.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = u16>, seed: u64) -> Self {
        let place = |node: u16, copy: u64| (mixed(seed ^ mixed(u64::from(node) * PLACES + copy + 1)), node);
        let mut places: Vec<_> =
            nodes.into_iter().flat_map(|node| (0..PLACES).map(move |copy| place(node, copy))).collect();
        places.sort_unstable();
        Self { places }
    }

    /// Where the search for a key begins: a position to [`walk`](Self::walk) from.
    #[must_use]
    pub fn position(&self, key: u64) -> usize {
        let found = self.places.partition_point(|(place, _)| *place < key);
        if found == self.places.len() { 0 } else { found }
    }

    /// The nodes from a position on, once around; a node comes as often as it has places.
    pub fn walk(&self, position: usize) -> impl Iterator<Item = u16> {
        let (before, behind) = self.places.split_at(position.min(self.places.len()));
        behind.iter().chain(before).map(|(_, node)| *node)
    }
}

/// Which node has which object, by a ring and perhaps with bounded loads.
#[derive(Debug, Clone)]
pub(crate) struct Hashed {
    ring: Ring,
    /// Where each object's search begins.
    first: Vec<u32>,
    bound: Option<f64>,
}

impl Hashed {
    pub(crate) fn new(objects: usize, nodes: u32, bound: Option<f64>, seed: u64) -> Self {
        let ring = Ring::new((0..nodes).map(|node| node as u16), seed);
        let first = |object: u64| ring.position(mixed(!object ^ seed.rotate_left(17))) as u32;
        let first = (0..objects as u64).map(first).collect();
        Self { ring, first, bound }
    }

    /// The node for a request: the next one on the ring that is within the bound, counted with this request.
    pub(crate) fn choose(&self, object: u32, loads: &[u32], active: u64) -> usize {
        let mut nodes = self.ring.walk(self.first[object as usize] as usize).map(usize::from);
        let next = self.ring.walk(self.first[object as usize] as usize).next().map_or(0, usize::from);
        let Some(bound) = self.bound else { return next };
        let most = allowed(bound, active, loads.len());
        // One is below the mean, and so below the bound.
        nodes.find(|node| u64::from(loads[*node]) < most).unwrap_or(next)
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
        let (few, more) = (Hashed::new(10_000, 9, None, 1), Hashed::new(10_000, 10, None, 1));
        let node = |ring: &Hashed, object| ring.choose(object, &[0; 10], 0);
        let moved = (0..10_000).filter(|object| node(&few, *object) != node(&more, *object)).count();
        assert!((700..1300).contains(&moved), "{moved}");
        assert!((0..10_000).all(|object| node(&few, object) == node(&more, object) || node(&more, object) == 9));
    }

    proptest! {
        #[test]
        fn no_node_is_above_the_bound(loads in prop::collection::vec(0u32..50, 1..=64), object in 0u32..100, bound in 1.01..3.0f64) {
            let ring = Hashed::new(100, loads.len() as u32, Some(bound), 7);
            let active = loads.iter().map(|load| u64::from(*load)).sum();
            let node = ring.choose(object, &loads, active);
            prop_assert!(u64::from(loads[node]) < allowed(bound, active, loads.len()));
        }
    }
}
