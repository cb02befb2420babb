//! Policies, by name.

use super::core::{Agreed, nonce, now_unix_s, record_of, revision, text};
use crate::engine::{Commit, Engine, Transaction};
use crate::error::DirectoryError;
use crate::keys;
use crate::known::Known;
use crate::records::Policy;

/// Bytes of a policy.
pub const POLICY_BYTES_MAX: usize = 64 << 10;

impl<E: Engine> Agreed<E> {
    pub(super) fn put_policy_text(
        &self,
        name: &str,
        policy: &str,
        expected: Option<u64>,
    ) -> Result<u64, DirectoryError> {
        let key = keys::key(keys::POLICIES, name)?;
        let what = format!("the policy {name}");
        if policy.len() > POLICY_BYTES_MAX {
            return Err(DirectoryError::TooLarge { what, bytes: policy.len(), most: POLICY_BYTES_MAX });
        }
        let entry = self.fresh_one(&key)?;
        let expected = expected.unwrap_or(0);
        let version_of = |policy: Option<&Policy>| policy.map_or(0, |policy| policy.version);
        let found = version_of(record_of(entry.as_ref())?.as_ref());
        if found != expected {
            return Err(DirectoryError::Conflict { what, expected, found });
        }
        let version = found + 1;
        let put = Policy { version, text: policy.to_owned(), put_unix_s: now_unix_s(), nonce: nonce() };
        let change = Transaction::default().expect(&key, revision(entry.as_ref())).put(&key, text(&put));
        let commit = self.commit(&change)?;
        if commit == Commit::Done {
            return Ok(version);
        }
        let found: Option<Policy> = record_of(self.fresh_one(&key)?.as_ref())?;
        let is_ours = found.as_ref().is_some_and(|found| found.nonce == put.nonce);
        match version_of(found.as_ref()) {
            _ if is_ours => Ok(version),
            // A later change may stand on ours.
            found if commit == Commit::Unclear && found > version => Err(self.unsure()),
            found => Err(DirectoryError::Conflict { what, expected, found }),
        }
    }

    pub(super) fn known_policy(&self, name: &str) -> Result<Known<Option<Policy>>, DirectoryError> {
        let key = keys::key(keys::POLICIES, name)?;
        self.known_one(&key)?.try_map(|entry| record_of(entry.as_ref()))
    }
}
