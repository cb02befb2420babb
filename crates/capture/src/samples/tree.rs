//! The tree of stacks: each frame under its caller's, told once in a generation.

use std::collections::HashMap;
use weir_wire::stack::{Frame, ROOT, StackNode};

/// Nodes of a generation; a server's stacks are some thousands.
const MOST_NODES: usize = 1 << 18;

/// The nodes that were told in this generation.
///
/// A run removes its oldest segments when it is full, and what was told in them is gone with them: so everything is told
/// anew, under new numbers, in each generation.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: HashMap<(u32, Frame), u32>,
    last: u32,
}

impl Tree {
    /// The node of a stack, its outermost frame first; `tell` gets those that are new.
    ///
    /// Beyond the bound of a generation the stack ends at the innermost frame that has a node.
    pub(super) fn node(&mut self, stack: impl IntoIterator<Item = Frame>, mut tell: impl FnMut(StackNode)) -> u32 {
        let mut parent = ROOT;
        for frame in stack {
            parent = match self.nodes.get(&(parent, frame)) {
                Some(node) => *node,
                None if self.is_full() => break,
                None => {
                    self.last += 1;
                    self.nodes.insert((parent, frame), self.last);
                    tell(StackNode { node: self.last, parent, frame });
                    self.last
                }
            };
        }
        parent
    }

    /// Whether it is time for a new generation.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= MOST_NODES || self.last == u32::MAX
    }

    /// Begins a new generation. Numbers go on, so that a late sample never means a new node.
    pub(super) fn forget(&mut self) {
        self.nodes.clear();
        if self.last == u32::MAX {
            self.last = ROOT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn what_is_told_leads_back_to_the_stack(stacks in proptest::collection::vec(
            proptest::collection::vec(0u64..6, 0..8), 0..50)
        ) {
            let mut tree = Tree::default();
            let mut told: HashMap<u32, StackNode> = HashMap::new();
            for (index, stack) in stacks.iter().enumerate() {
                if index == 25 {
                    tree.forget();
                }
                let frames: Vec<Frame> = stack.iter().map(|offset| Frame::new(1, *offset)).collect();
                let mut fresh = true;
                let node = tree.node(frames.iter().copied(), |node| {
                    fresh &= told.insert(node.node, node).is_none() && node.parent < node.node;
                });
                prop_assert!(fresh, "each is told once, above its parent");
                let mut back = Vec::new();
                let mut at = node;
                while at != ROOT {
                    back.push(told[&at].frame);
                    at = told[&at].parent;
                }
                back.reverse();
                prop_assert_eq!(back, frames);
            }
        }
    }
}
