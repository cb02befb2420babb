//! The cache that a configuration asks for, which all loops share and a reload keeps.

use super::rules::CacheRules;
use super::store::Cache;
use std::io;
use std::sync::{Arc, OnceLock};

/// The cache that a configuration asks for. A configuration that is only read opens none.
#[derive(Debug)]
pub(crate) struct SharedCache {
    pub(crate) rules: CacheRules,
    cache: OnceLock<Arc<Cache>>,
}

impl SharedCache {
    pub(crate) fn new(rules: CacheRules) -> Self {
        Self { rules, cache: OnceLock::new() }
    }

    /// Opens it, unless it is.
    ///
    /// # Errors
    ///
    /// Of the file system, if the directory for large bodies cannot be used.
    pub(crate) fn open(&self) -> io::Result<()> {
        if self.cache.get().is_none() {
            let cache = Arc::new(Cache::new(self.rules.clone())?);
            // Another thread may have been faster.
            let _ = self.cache.set(cache);
        }
        Ok(())
    }

    /// Goes on with what a configuration before this one has opened.
    pub(crate) fn take_over(&self, before: &[Arc<Self>]) {
        let same = before.iter().find(|before| before.rules == self.rules);
        if let Some(cache) = same.and_then(|same| same.cache.get()) {
            let _ = self.cache.set(Arc::clone(cache));
        }
    }

    /// The cache; none if it could not be opened.
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.get()
    }
}
