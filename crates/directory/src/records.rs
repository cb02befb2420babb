//! What stands in the directory.

use crate::atoms::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// A published version of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Its number: 1 for the first of a site, then always one more than the newest.
    pub version: u64,
    /// The SHA-256 of the manifest's text.
    pub manifest: Digest,
    /// Bytes of the manifest's text.
    pub manifest_bytes: u64,
    /// Files in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// When it was published, by the publisher's clock: seconds since 1970.
    pub published_unix_s: u64,
    /// What distinguishes this publication from all others.
    pub(crate) nonce: String,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its number: 1 for the first text of this name, then one more for each.
    pub version: u64,
    /// The text of the policy.
    pub text: String,
    /// When it was put, by the clock of who put it: seconds since 1970.
    pub put_unix_s: u64,
    /// What distinguishes this text from all others.
    pub(crate) nonce: String,
}

/// What a node says about itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it proves itself by, such as the fingerprint of its certificate; another node cannot take the name.
    pub identity: String,
    /// Where other nodes reach it: host and port.
    pub address: String,
    /// What else others should know of it, by names that the caller chooses.
    pub facts: BTreeMap<String, String>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it said when it joined.
    pub node: Node,
    /// Its number, 1 to 65,535, which it keeps until it leaves.
    pub number: u16,
    /// Whether it renewed its presence in time. (Another key stores it.)
    #[serde(skip)]
    pub is_present: bool,
}

/// The number of a holder of a lock: each new holder gets a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name.
    pub holder: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// What distinguishes this acquisition from all others.
    pub(crate) nonce: String,
}

/// How the directory stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Which engine, with its place.
    pub engine: String,
    /// Whether it answers and can agree on changes.
    pub is_reachable: bool,
    /// The leader of the engine's members, where it has several.
    pub leader: Option<String>,
    /// The members of the engine; 1 for an embedded one, 0 where it does not answer.
    pub members: u32,
    /// The number of the newest change; 0 where it does not answer.
    pub revision: u64,
    /// Since when reads have been stale.
    pub stale_since: Option<Instant>,
}
