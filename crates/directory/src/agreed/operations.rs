//! The interface, over any engine.

use super::core::Agreed;
use crate::atoms::Manifest;
use crate::directory::Directory;
use crate::engine::Engine;
use crate::error::DirectoryError;
use crate::known::Known;
use crate::records::{Epoch, Holder, Member, Node, Policy, Publication, Status};
use crate::watch::{self, Watch};
use std::time::{Duration, Instant};

impl<E: Engine> Directory for Agreed<E> {
    fn publish(&self, site: &str, manifest: &Manifest, expected: Option<u64>) -> Result<u64, DirectoryError> {
        self.publish_version(site, manifest, expected)
    }

    fn current(&self, site: &str) -> Result<Known<Option<Publication>>, DirectoryError> {
        self.current_version(site)
    }

    fn versions(&self, site: &str) -> Result<Known<Vec<Publication>>, DirectoryError> {
        self.kept_versions(site)
    }

    fn sites(&self) -> Result<Known<Vec<String>>, DirectoryError> {
        self.named_sites()
    }

    fn manifest(&self, site: &str, version: u64) -> Result<Known<Manifest>, DirectoryError> {
        self.manifest_of(site, version)
    }

    fn roll_back(&self, site: &str, to: u64) -> Result<(), DirectoryError> {
        self.roll_back_to(site, to)
    }

    fn put_policy(&self, name: &str, text: &str, expected: Option<u64>) -> Result<u64, DirectoryError> {
        self.put_policy_text(name, text, expected)
    }

    fn policy(&self, name: &str) -> Result<Known<Option<Policy>>, DirectoryError> {
        self.known_policy(name)
    }

    fn join(&self, node: &Node, ttl: Duration) -> Result<u16, DirectoryError> {
        self.join_node(node, ttl)
    }

    fn stay(&self, node: &str, ttl: Duration) -> Result<(), DirectoryError> {
        self.stay_node(node, ttl)
    }

    fn leave(&self, node: &str) -> Result<(), DirectoryError> {
        self.remove_node(node)
    }

    fn nodes(&self) -> Result<Known<Vec<Member>>, DirectoryError> {
        self.known_nodes()
    }

    fn remove_member(&self, name: &str) -> Result<(), DirectoryError> {
        self.remove_member_of_cluster(name)
    }

    fn removed(&self) -> Result<Known<Vec<String>>, DirectoryError> {
        self.removed_members()
    }

    fn acquire(&self, lock: &str, holder: &str, ttl: Duration) -> Result<Option<Epoch>, DirectoryError> {
        self.acquire_lock(lock, holder, ttl, None)
    }

    fn take_over(&self, lock: &str, holder: &str, ttl: Duration, from: Epoch) -> Result<Option<Epoch>, DirectoryError> {
        self.acquire_lock(lock, holder, ttl, Some(from))
    }

    fn renew(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError> {
        self.renew_lock(lock, epoch)
    }

    fn release(&self, lock: &str, epoch: Epoch) -> Result<(), DirectoryError> {
        self.release_lock(lock, epoch)
    }

    fn holder(&self, lock: &str) -> Result<Known<Option<Holder>>, DirectoryError> {
        self.known_holder(lock)
    }

    fn watch(&self, prefix: &str) -> Result<Watch, DirectoryError> {
        let (watch, feed) = watch::pair();
        self.engine.follow(prefix, feed)?;
        Ok(watch)
    }

    fn status(&self) -> Status {
        let begun = Instant::now();
        let health = self.engine.health();
        match &health {
            Ok(health) if health.can_agree => self.memory.note_there(),
            _ => self.memory.note_away(begun.elapsed()),
        }
        let health = health.unwrap_or_default();
        Status {
            engine: self.engine.name(),
            is_reachable: health.can_agree,
            leader: health.leader,
            members: health.members,
            revision: health.revision,
            stale_since: self.memory.away_since(),
        }
    }
}
