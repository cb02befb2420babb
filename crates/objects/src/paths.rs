//! The hierarchy of transactions and their parts: whose work, within whose, within which transaction.

use rustc_hash::FxHashMap;

/// A node of the hierarchy.
pub(crate) type PathId = u32;
/// The transaction itself, or the background.
pub(crate) const ROOT: PathId = 0;
/// Nodes; what comes below is counted for its parent.
const MOST: usize = 1 << 14;

/// What a node is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Label {
    /// A text's number: the name of a task.
    Text(u32),
    /// A called object: class and number.
    Called(u16, u64),
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Paths {
    nodes: Vec<(PathId, Label)>,
    children: FxHashMap<(PathId, Label), PathId>,
    /// Parts that found no node of their own.
    pub(crate) left_out: u64,
}

impl Default for Paths {
    fn default() -> Self {
        Self { nodes: vec![(ROOT, Label::Text(0))], children: FxHashMap::default(), left_out: 0 }
    }
}

impl Paths {
    pub(crate) fn child(&mut self, parent: PathId, label: Label) -> PathId {
        if let Some(child) = self.children.get(&(parent, label)) {
            return *child;
        }
        if self.nodes.len() >= MOST {
            self.left_out += 1;
            return parent;
        }
        let child = self.nodes.len() as PathId;
        self.nodes.push((parent, label));
        self.children.insert((parent, label), child);
        child
    }

    pub(crate) fn parent(&self, path: PathId) -> PathId {
        self.nodes[path as usize].0
    }

    /// The labels from the root down.
    pub(crate) fn labels(&self, mut path: PathId) -> Vec<Label> {
        let mut labels = Vec::new();
        while path != ROOT {
            let (parent, label) = self.nodes[path as usize];
            labels.push(label);
            path = parent;
        }
        labels.reverse();
        labels
    }
}
