//! Nodes: what they say stays until they leave, their presence ends with a lease.

use super::core::{Agreed, TRIES, record, record_of, revision, text};
use crate::engine::{Commit, Engine, Entry, Span, Transaction};
use crate::error::DirectoryError;
use crate::keys;
use crate::known::Known;
use crate::records::{Member, Node};
use std::collections::BTreeSet;
use std::time::Duration;

/// The most nodes: a number has 16 bits, and 0 stands for none.
const NODES_MAX: u16 = u16::MAX;

impl<E: Engine> Agreed<E> {
    pub(super) fn join_node(&self, node: &Node, ttl: Duration) -> Result<u16, DirectoryError> {
        let key = keys::key(keys::NODES, &node.name)?;
        let present = keys::key(keys::PRESENT, &node.name)?;
        let lease = self.grant(ttl)?;
        for _ in 0..TRIES {
            let entry = self.fresh_one(&key)?;
            let found: Option<Member> = record_of(entry.as_ref())?;
            if found.as_ref().is_some_and(|found| found.node.identity != node.identity) {
                self.drop_lease(lease);
                return Err(DirectoryError::NodeTaken { name: node.name.clone() });
            }
            let before = self.fresh_one(&present)?;
            // An answer that was lost leaves what was written: then the same is written again.
            let number = match &found {
                Some(found) => found.number,
                None => self.free_number()?,
            };
            let member = Member { node: node.clone(), number, is_present: false };
            let mut change = Transaction::default()
                .expect(&key, revision(entry.as_ref()))
                .put(&key, text(&member))
                .put_leased(&present, Vec::new(), lease);
            if found.is_none() {
                let number = number_key(number);
                change = change.expect(&number, 0).put(&number, node.name.clone().into_bytes());
            }
            if self.commit(&change)? == Commit::Done {
                if let Some(before) = before.filter(|before| before.lease != lease) {
                    self.drop_lease(before.lease);
                }
                return Ok(number);
            }
        }
        self.drop_lease(lease);
        Err(DirectoryError::Contended { what: format!("the node {}", node.name), tries: TRIES })
    }

    fn free_number(&self) -> Result<u16, DirectoryError> {
        let entries = self.fresh(Span::Prefix(keys::NUMBERS))?;
        let number = |entry: &Entry| entry.key.strip_prefix(keys::NUMBERS)?.parse::<u16>().ok();
        let given: BTreeSet<u16> = entries.iter().filter_map(number).collect();
        (1..=NODES_MAX).find(|number| !given.contains(number)).ok_or(DirectoryError::NodesFull { most: NODES_MAX })
    }

    pub(super) fn stay_node(&self, name: &str, ttl: Duration) -> Result<(), DirectoryError> {
        let (key, present) = (keys::key(keys::NODES, name)?, keys::key(keys::PRESENT, name)?);
        if let Some(entry) = self.fresh_one(&present)?
            && self.renew_lease(entry.lease)?
        {
            return Ok(());
        }
        let entry = self.fresh_one(&key)?;
        if entry.is_none() {
            return Err(DirectoryError::Missing { what: format!("the node {name}") });
        }
        let lease = self.grant(ttl)?;
        let change =
            Transaction::default().expect(&key, revision(entry.as_ref())).put_leased(&present, Vec::new(), lease);
        match self.commit(&change)? {
            Commit::Done => Ok(()),
            _ => {
                self.drop_lease(lease);
                Err(DirectoryError::Missing { what: format!("the node {name} as it was") })
            }
        }
    }

    pub(super) fn remove_node(&self, name: &str) -> Result<(), DirectoryError> {
        let (key, present) = (keys::key(keys::NODES, name)?, keys::key(keys::PRESENT, name)?);
        let mut is_unclear = false;
        for _ in 0..TRIES {
            let Some(entry) = self.fresh_one(&key)? else { return Ok(()) };
            // It may have come back after it was removed.
            if is_unclear {
                return Err(self.unsure());
            }
            let member: Member = record(&entry)?;
            let change = Transaction::default()
                .expect(&key, entry.revision)
                .delete(&key)
                .delete(&present)
                .delete(&number_key(member.number));
            match self.commit(&change)? {
                Commit::Done => return Ok(()),
                commit => is_unclear = commit == Commit::Unclear,
            }
        }
        Err(DirectoryError::Contended { what: format!("the node {name}"), tries: TRIES })
    }

    pub(super) fn known_nodes(&self) -> Result<Known<Vec<Member>>, DirectoryError> {
        let present = self.known(Span::Prefix(keys::PRESENT))?;
        let nodes = self.known(Span::Prefix(keys::NODES))?;
        nodes.with(present).try_map(|(nodes, present)| {
            let present: BTreeSet<&str> =
                present.iter().filter_map(|entry| entry.key.strip_prefix(keys::PRESENT)).collect();
            let member = |entry: &Entry| {
                let member: Member = record(entry)?;
                let is_present = present.contains(member.node.name.as_str());
                Ok(Member { is_present, ..member })
            };
            nodes.iter().map(member).collect()
        })
    }
}

fn number_key(number: u16) -> String {
    format!("{}{number:05}", keys::NUMBERS)
}
