//! Which members were removed from the cluster: their certificates are still valid, and refused by name.

use crate::name::NodeName;
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// The members that were removed.
#[derive(Debug, Default)]
pub struct Members {
    removed: RwLock<BTreeSet<NodeName>>,
}

impl Members {
    /// Refuses a member from now on; its links end with its next message.
    pub fn remove(&self, name: NodeName) {
        self.removed.write().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    /// Sets which members are removed, as the directory says.
    pub fn set_removed(&self, names: impl IntoIterator<Item = NodeName>) {
        *self.removed.write().unwrap_or_else(PoisonError::into_inner) = names.into_iter().collect();
    }

    /// Those that were removed.
    pub fn removed(&self) -> BTreeSet<NodeName> {
        self.removed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a member was removed.
    pub fn is_removed(&self, name: &NodeName) -> bool {
        self.removed.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}
