//! Members that were removed from the cluster: each is a key, which stays.

use super::core::{Agreed, now_unix_s, text};
use crate::engine::{Engine, Span, Transaction};
use crate::error::DirectoryError;
use crate::keys;
use crate::known::Known;

impl<E: Engine> Agreed<E> {
    pub(super) fn remove_member_of_cluster(&self, name: &str) -> Result<(), DirectoryError> {
        let key = keys::key(keys::REMOVED, name)?;
        // Without a condition: a second removal does no harm.
        self.commit(&Transaction::default().put(&key, text(&now_unix_s()))).map(drop)
    }

    pub(super) fn removed_members(&self) -> Result<Known<Vec<String>>, DirectoryError> {
        self.known(Span::Prefix(keys::REMOVED))?.try_map(|entries| {
            let name = |key: &str| key.strip_prefix(keys::REMOVED).map(str::to_owned);
            Ok(entries.iter().filter_map(|entry| name(&entry.key)).collect())
        })
    }
}
