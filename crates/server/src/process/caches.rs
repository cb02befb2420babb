//! Caches of upstreams' responses over a reload, and as the admin address has them.

use crate::config::options::Options;
use crate::telemetry::admin::response_cache::{Purge, ResponseCaches};
use crate::upstream::cache::store::Cache;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The caches of a configuration that are open.
pub(super) fn open(options: &Options) -> Vec<Arc<Cache>> {
    let rules = options.hosts.iter().flat_map(|rules| &rules.0.caches);
    rules.filter_map(|cache| cache.cache().map(Arc::clone)).collect()
}

/// Has caches that stay the same go on with what they have, and opens the others.
pub(super) fn take_over(before: &Options, now: &Options) {
    let Some(now_rules) = &now.hosts else { return };
    let known = before.hosts.as_ref().map_or(&[][..], |rules| &rules.0.caches);
    for cache in &now_rules.0.caches {
        cache.take_over(known);
        if let Err(error) = cache.open() {
            let directory = cache.rules.disk.as_ref().map(|disk| disk.directory.display().to_string());
            (now.notice)(&format!(
                "nothing is kept in the cache in {}: {error}; a confined server makes no directory: restart it",
                directory.unwrap_or_default()
            ));
        } else if let Some(Err(error)) = cache.cache().map(|cache| cache.clean()) {
            (now.notice)(&format!("what servers have left in the directory of a cache stays there: {error}"));
        }
    }
}

/// What all caches have done, and have.
pub(super) fn sum(caches: &[Arc<Cache>]) -> ResponseCaches {
    let mut sum = ResponseCaches { caches: caches.len() as u64, ..ResponseCaches::default() };
    for cache in caches {
        let counts = &cache.counts;
        sum.hits += cache.hits();
        for (own, count) in [
            (&mut sum.stale, &counts.stale),
            (&mut sum.misses, &counts.misses),
            (&mut sum.collapsed, &counts.collapsed),
            (&mut sum.bypassed, &counts.bypassed),
            (&mut sum.stored, &counts.stored),
            (&mut sum.freshened, &counts.freshened),
            (&mut sum.evictions, &counts.evicted),
            (&mut sum.invalidated, &counts.invalidated),
            (&mut sum.no_room, &counts.no_room),
            (&mut sum.disk_errors, &counts.disk_errors),
        ] {
            *own += count.load(Ordering::Relaxed);
        }
        let (entries, memory_bytes, disk_bytes) = cache.size();
        sum.entries += entries as u64;
        sum.memory_bytes += memory_bytes;
        sum.disk_bytes += disk_bytes;
        sum.memory_bytes_max += cache.rules.memory;
        sum.disk_bytes_max += cache.rules.disk.as_ref().map_or(0, |disk| disk.bytes);
    }
    sum
}

/// Has all caches forget responses; how many they were.
pub(super) fn purge(caches: &[Arc<Cache>], what: &Purge) -> usize {
    let one = |cache: &Arc<Cache>| match what {
        Purge::Url(at) => cache.purge_target(at.is_secure, &at.host, &at.target),
        Purge::Prefix(at) => cache.purge_prefix(at.is_secure, &at.host, &at.target),
        Purge::Tag(tag) => cache.purge_tag(tag),
    };
    caches.iter().map(one).sum()
}

/// Has all caches forget everything; how many responses that were.
pub(super) fn purge_all(caches: &[Arc<Cache>]) -> usize {
    caches.iter().map(|cache| cache.purge_all()).sum()
}
