//! The interface of the directory.

use crate::atoms::Manifest;
use crate::error::DirectoryError;
use crate::known::Known;
use crate::records::{Epoch, Holder, Member, Node, Policy, Publication, Status};
use crate::watch::Watch;
use std::time::Duration;

/// What nodes agree on. Each call blocks, at most as long as the directory was opened with.
///
/// Changes are agreed on when a call returns `Ok`: the loss of any one machine of the engine does not undo them.
/// After [`DirectoryError::Unsure`] a change may or may not have been carried out.
/// Reads return [`Known::Stale`] while the engine is away, and an error where nothing is known.
pub trait Directory: Send + Sync {
    /// Publishes a version of a site, which becomes current at once; returns its number.
    ///
    /// `expected` is the version that must be current, `None` for a site without one. The newest
    /// [`VERSIONS_KEPT`](crate::VERSIONS_KEPT) versions are kept, and the current one.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::Conflict`] where another version is current.
    fn publish(&self, site: &str, manifest: &Manifest, expected: Option<u64>) -> Result<u64, DirectoryError>;

    /// The current version of a site.
    ///
    /// # Errors
    ///
    /// The engine is away and the version was never read.
    fn current(&self, site: &str) -> Result<Known<Option<Publication>>, DirectoryError>;

    /// The kept versions of a site, the oldest first.
    ///
    /// # Errors
    ///
    /// The engine is away and the versions were never read.
    fn versions(&self, site: &str) -> Result<Known<Vec<Publication>>, DirectoryError>;

    /// The names of all sites.
    ///
    /// # Errors
    ///
    /// The engine is away and the sites were never read.
    fn sites(&self) -> Result<Known<Vec<String>>, DirectoryError>;

    /// The manifest of a version.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::Missing`] where the version is not kept, [`DirectoryError::Manifest`] where it is damaged.
    fn manifest(&self, site: &str, version: u64) -> Result<Known<Manifest>, DirectoryError>;

    /// Makes an earlier version current. The next publication gets a new number all the same.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::Missing`] where the version is not kept.
    fn roll_back(&self, site: &str, to: u64) -> Result<(), DirectoryError>;

    /// Puts the text of a policy, of at most [`POLICY_BYTES_MAX`](crate::POLICY_BYTES_MAX) bytes; returns its version.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::Conflict`] where another version than `expected` is there; `None` stands for none.
    fn put_policy(&self, name: &str, text: &str, expected: Option<u64>) -> Result<u64, DirectoryError>;

    /// A policy.
    ///
    /// # Errors
    ///
    /// The engine is away and the policy was never read.
    fn policy(&self, name: &str) -> Result<Known<Option<Policy>>, DirectoryError>;

    /// Enters a node, or what has changed about it, as present for `ttl`; returns its number.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::NodeTaken`] where a node of this name has another identity.
    fn join(&self, node: &Node, ttl: Duration) -> Result<u16, DirectoryError>;

    /// Says that a node is still present, for `ttl` from now on.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::Missing`] where the node has not joined, or was removed.
    fn stay(&self, node: &str, ttl: Duration) -> Result<(), DirectoryError>;

    /// Removes a node; its number is free again. A node that is not there is no error.
    ///
    /// # Errors
    ///
    /// The engine is away.
    fn leave(&self, node: &str) -> Result<(), DirectoryError>;

    /// All nodes, by name.
    ///
    /// # Errors
    ///
    /// The engine is away and the nodes were never read.
    fn nodes(&self) -> Result<Known<Vec<Member>>, DirectoryError>;

    /// Removes a member from the cluster for good: the others are to refuse it.
    ///
    /// # Errors
    ///
    /// The engine is away.
    fn remove_member(&self, name: &str) -> Result<(), DirectoryError>;

    /// The names of all members that were removed.
    ///
    /// # Errors
    ///
    /// The engine is away and the names were never read.
    fn removed(&self) -> Result<Known<Vec<String>>, DirectoryError>;

    /// Takes a lock for `ttl`, which is rounded up to seconds; `None` where it is held, also by the same holder.
    ///
    /// Each acquisition gets a higher epoch than all before it, also after the engine's data were lost, as long as
    /// the clock has gone on: the first epoch of a lock is the time in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The engine is away, or others take and leave the lock all the time.
    fn acquire(&self, lock: &str, holder: &str, ttl: Duration) -> Result<Option<Epoch>, DirectoryError>;

    /// Takes a lock over from a holder that is known to be gone, without waiting for its lease to end.
    ///
    /// `None` where the lock is held under another epoch. The former holder may still believe that it holds the lock:
    /// this is only for locks whose orders carry the epoch, so that those of the old one are refused.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    fn take_over(&self, lock: &str, holder: &str, ttl: Duration, from: Epoch) -> Result<Option<Epoch>, DirectoryError>;

    /// Holds a lock for its time to live again, from before the call on.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::LockLost`] where it is not held under this epoch any more.
    fn renew(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError>;

    /// Leaves a lock. One that is not held under this epoch is no error.
    ///
    /// # Errors
    ///
    /// The engine is away; the lock ends with its lease.
    fn release(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError>;

    /// Who holds a lock.
    ///
    /// # Errors
    ///
    /// The engine is away and the holder was never read.
    fn holder(&self, lock: &str) -> Result<Known<Option<Holder>>, DirectoryError>;

    /// Follows the changes of all keys that begin with a prefix of [`keys`](crate::keys), from now on.
    ///
    /// Read the values after this call: then no change falls between.
    ///
    /// # Errors
    ///
    /// The engine is away.
    fn watch(&self, prefix: &str) -> Result<Watch, DirectoryError>;

    /// How the directory stands; this reports an engine that is away, and does not fail.
    fn status(&self) -> Status;
}
