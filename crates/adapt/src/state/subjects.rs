//! What readings are of and rules are looked at for: nodes, atoms, sessions and clients.

use super::instance::Instance;
use crate::reading::{AtomId, ClientId, NodeId, Resource};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) down: bool,
    pub(super) slots: Slots,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Atom {
    pub(crate) path: String,
    pub(crate) block: Option<u32>,
    pub(super) slots: Slots,
    /// How many sessions are of it.
    #[serde(default)]
    pub(super) sessions: u32,
    /// Of the block's rules for atoms, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) in_force: InForce,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) atom: AtomId,
    /// Its client, if that is known.
    #[serde(default)]
    pub(super) client: Option<ClientId>,
    pub(super) slots: Slots,
    /// Of the block's rules for sessions, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) at: Placement,
}

/// A client with all its connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(super) slots: Slots,
    /// Of each block with rules for clients, in their order.
    pub(crate) parts: Vec<Part>,
}

/// How far the rules of a pattern are with a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Of the block's rules for clients, in their order.
    pub(crate) instances: Vec<Instance>,
    pub(crate) in_force: InForce,
}

/// Where a session is served, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub(crate) node: NodeId,
    /// 0 is the best.
    pub(crate) variant: usize,
}

/// What was ordered and has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InForce {
    /// Copies, and the pool that they are on.
    pub(crate) copies: Option<(u32, usize)>,
    pub(crate) spread: Option<usize>,
    /// The bits of the share in percent.
    pub(crate) shed: Option<u64>,
    /// How old answers may be, in milliseconds.
    #[serde(default)]
    pub(crate) stale_ms: Option<u64>,
}

impl Atom {
    /// One of which nothing is known.
    pub(super) fn new(path: &str) -> Self {
        let (slots, in_force) = (Slots::default(), InForce::default());
        Self { path: path.to_owned(), block: None, slots, sessions: 0, instances: Vec::new(), in_force }
    }
}

/// The numbers of the series of one place, by resource; 0 = none.
pub(crate) type Slots = [u32; Resource::ALL.len()];

impl Atom {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }
}

impl Node {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }
}
