//! The node for each request.

use crate::lard::LardState;
use crate::mask::all;
use crate::policy::{Dispatch, Policy};
use crate::ring::Hashed;
use crate::{Object, Placement};

pub(crate) struct Router {
    way: Way,
    /// Which nodes have, or had to serve, each object.
    has: Vec<u64>,
    dispatch: Dispatch,
    nodes: u32,
    turn: u32,
    random: fastrand::Rng,
}

enum Way {
    Placed,
    Lard(LardState),
    Ring(Hashed),
}

impl Router {
    pub(crate) fn new(
        policy: &Policy,
        dispatch: Dispatch,
        objects: &[Object],
        work_ns: &[f64],
        nodes: u32,
        seed: u64,
    ) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let placed = Placement::of(policy, objects, work_ns, nodes, &mut random);
        let way = match *policy {
            Policy::Lard(lard) => Way::Lard(LardState::new(lard, objects.len(), nodes)),
            Policy::Hash { bound } => Way::Ring(Hashed::new(objects.len(), nodes, bound, seed)),
            _ => Way::Placed,
        };
        let mut has = placed.map_or_else(|| vec![0; objects.len()], |placement| placement.nodes_of);
        // No node keeps what is not found, and every node can say so.
        if let (Way::Placed, Some(nothing)) = (&way, has.first_mut()) {
            *nothing = all(nodes);
        }
        Self { way, has, dispatch, nodes, turn: 0, random }
    }

    #[inline]
    pub(crate) fn choose(&mut self, object: u32, now_ns: u64, loads: &[u32], active: u64) -> usize {
        let node = match &mut self.way {
            Way::Placed => return self.among(self.has[object as usize], loads),
            Way::Lard(state) => state.choose(object, now_ns, loads),
            Way::Ring(ring) => ring.choose(object, loads, active),
        };
        self.has[object as usize] |= 1 << node;
        node
    }

    /// One of the nodes of a mask that is not empty.
    #[inline]
    fn among(&mut self, mask: u64, loads: &[u32]) -> usize {
        let count = mask.count_ones();
        if count == 1 {
            return mask.trailing_zeros() as usize;
        }
        // From the node behind the last one on, so that equal ones have their turn.
        self.turn = if self.turn + 1 < self.nodes { self.turn + 1 } else { 0 };
        let mut rest = mask.rotate_right(self.turn);
        let node = |rest: u64| (rest.trailing_zeros() + self.turn) as usize & 63;
        match self.dispatch {
            Dispatch::RoundRobin => {
                let chosen = node(rest);
                self.turn = chosen as u32;
                chosen
            }
            Dispatch::Random => {
                for _ in 0..self.random.u32(..count) {
                    rest &= rest - 1;
                }
                node(rest)
            }
            Dispatch::LeastActive => {
                let mut best = node(rest);
                while rest != 0 {
                    let one = node(rest);
                    if loads[one] < loads[best] {
                        best = one;
                    }
                    rest &= rest - 1;
                }
                best
            }
        }
    }

    /// Which nodes keep what: for policies that place by request, wherever an object was served.
    pub(crate) fn into_placement(self) -> Placement {
        Placement { nodes_of: self.has }
    }
}
