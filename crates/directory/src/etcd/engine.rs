//! The engine over etcd's members.

use super::gateway::{Gateway, Kind};
use super::message::{self, Names, Refusal};
use super::settings::EtcdSettings;
use super::watching;
use crate::engine::{Commit, Engine, Entry, Health, Span, Transaction};
use crate::error::DirectoryError;
use crate::watch::Feed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Entries of a page: those of policies have 64 KiB, and the gateway takes 4 MiB from its server at once.
const PAGE: usize = 32;
/// Tries of a read of several pages, whose revision was compacted meanwhile.
const READS_MAX: usize = 4;

/// A directory in etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    gateway: Arc<Gateway>,
    names: Names,
}

impl Etcd {
    pub(crate) fn open(settings: &EtcdSettings) -> Result<Self, DirectoryError> {
        let gateway = Arc::new(Gateway::new(settings)?);
        Ok(Self { gateway, names: Names { prefix: settings.prefix.clone() } })
    }

    /// Asks, where any refusal is an error.
    fn ask(&self, path: &str, body: &Value, kind: Kind) -> Result<Value, DirectoryError> {
        self.gateway.ask(path, body, kind)?.map_err(|refusal| self.gateway.refused(refusal))
    }

    /// All entries with a prefix as of one revision; `None` where that was compacted between two pages.
    fn pages(&self, prefix: &str) -> Result<Option<Vec<Entry>>, DirectoryError> {
        let mut entries = Vec::new();
        let mut from = self.names.key(prefix);
        let mut revision = 0;
        loop {
            let body = json!({
                "key": from, "range_end": self.names.end(prefix), "limit": PAGE.to_string(),
                "revision": revision.to_string(),
            });
            let answer = match self.gateway.ask("/v3/kv/range", &body, Kind::Reads)? {
                Ok(answer) => answer,
                Err(Refusal::Compacted) if revision > 0 => return Ok(None),
                Err(refusal) => return Err(self.gateway.refused(refusal)),
            };
            let page = self.names.entries(&answer);
            // The first key behind the last one of the page.
            let next = page.last().map(|entry| format!("{}{}\0", self.names.prefix, entry.key));
            entries.extend(page);
            match next {
                Some(next) if answer.get("more").and_then(Value::as_bool) == Some(true) => {
                    from = STANDARD.encode(next);
                    revision = message::revision(&answer).max(revision);
                }
                _ => return Ok(Some(entries)),
            }
        }
    }
}

impl Engine for Etcd {
    fn name(&self) -> String {
        self.gateway.name()
    }

    fn read(&self, span: Span<'_>) -> Result<Vec<Entry>, DirectoryError> {
        match span {
            Span::Key(key) => {
                let answer = self.ask("/v3/kv/range", &json!({ "key": self.names.key(key) }), Kind::Reads)?;
                Ok(self.names.entries(&answer))
            }
            Span::Prefix(prefix) => {
                for _ in 0..READS_MAX {
                    if let Some(entries) = self.pages(prefix)? {
                        return Ok(entries);
                    }
                }
                Err(self.gateway.refused(Refusal::Compacted))
            }
        }
    }

    fn commit(&self, transaction: &Transaction) -> Result<Commit, DirectoryError> {
        let body = self.names.transaction(transaction);
        let (answer, may_be_second) = self.gateway.ask_counting("/v3/kv/txn", &body, Kind::Changes)?;
        match answer {
            Ok(answer) if answer.get("succeeded").and_then(Value::as_bool) == Some(true) => Ok(Commit::Done),
            Ok(_) if may_be_second => Ok(Commit::Unclear),
            Ok(_) => Ok(Commit::Refused),
            Err(Refusal::NotFound(_)) => Ok(Commit::NotKept),
            Err(refusal) => Err(self.gateway.refused(refusal)),
        }
    }

    fn grant(&self, ttl: Duration) -> Result<u64, DirectoryError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        // A second try after a lost answer leaves a lease without keys behind, which ends.
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }), Kind::Changes)?;
        match message::number(&answer, "ID") {
            0 => Err(self.gateway.refused(Refusal::Denied("it gave no lease".to_owned()))),
            lease => Ok(lease),
        }
    }

    fn renew(&self, lease: u64) -> Result<bool, DirectoryError> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }), Kind::Changes)?;
        Ok(answer.get("result").is_some_and(|result| message::number(result, "TTL") > 0))
    }

    fn revoke(&self, lease: u64) -> Result<(), DirectoryError> {
        match self.gateway.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }), Kind::Changes)? {
            Ok(_) | Err(Refusal::NotFound(_)) => Ok(()),
            Err(refusal) => Err(self.gateway.refused(refusal)),
        }
    }

    fn follow(&self, prefix: &str, feed: Feed) -> Result<(), DirectoryError> {
        let body = json!({ "key": self.names.key(prefix), "count_only": true });
        let revision = message::revision(&self.ask("/v3/kv/range", &body, Kind::Reads)?);
        watching::follow(Arc::clone(&self.gateway), self.names.clone(), prefix, revision, feed)
    }

    fn health(&self) -> Result<Health, DirectoryError> {
        // A read that the members agree on: a member that has lost the others has a status, and cannot do this.
        self.ask("/v3/kv/range", &json!({ "key": self.names.key("health"), "count_only": true }), Kind::Reads)?;
        let status = self.ask("/v3/maintenance/status", &json!({}), Kind::Reads)?;
        let members = self.ask("/v3/cluster/member/list", &json!({}), Kind::Reads)?;
        let leader = message::number(&status, "leader");
        let named = message::list(&members, "members").find(|member| message::number(member, "ID") == leader);
        let name = named.and_then(|member| member.get("name")).and_then(Value::as_str);
        Ok(Health {
            can_agree: leader != 0,
            leader: name.map(str::to_owned),
            members: u32::try_from(message::list(&members, "members").count()).unwrap_or(u32::MAX),
            revision: message::revision(&status),
        })
    }
}
