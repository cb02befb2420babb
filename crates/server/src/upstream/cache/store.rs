//! The stored responses, shared by all loops.

use super::collapse::Flights;
use super::disk::Disk;
use super::eviction::{Queues, Room};
use super::freshness::{Freshness, Now};
use super::key::{self, Selecting};
use super::meter::{Hold, Meter};
use super::rules::CacheRules;
use super::stored::{Body, Life, Stored, head_bytes, names_server};
use super::uncacheable::Uncacheable;
use super::writing::Places;
use crate::http::field_lines::lines;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Responses of one key that differ by what Vary names; the oldest goes for one more.
pub(crate) const VARIANTS_MAX: usize = 16;
/// The most shards.
const SHARDS_MAX: u64 = 16;
/// Bytes of memory and of disk that stored responses may have, in eighths: the rest is for those that are just coming, and
/// for those that were evicted and are still being sent.
const STORED_EIGHTHS: u64 = 6;

/// Counters of invalidations. Several keys share one, which costs at most that a response is not stored.
const GENERATIONS: usize = 1024;

/// What the cache has done since its start.
#[derive(Debug, Default)]
pub(crate) struct CacheCounts {
    /// Responses that were stored.
    pub(crate) stored: AtomicU64,
    /// Stored responses that a 304 freshened.
    pub(crate) freshened: AtomicU64,
    /// Stored responses that went for want of room.
    pub(crate) evicted: AtomicU64,
    /// Stored responses that went as a request, or a purge, made them invalid.
    pub(crate) invalidated: AtomicU64,
    /// Responses that could have been stored, had there been room.
    pub(crate) no_room: AtomicU64,
    /// Responses that were lost as the disk failed.
    pub(crate) disk_errors: AtomicU64,
    /// Requests that waited for the response to another one.
    pub(crate) collapsed: AtomicU64,
    /// Requests that a stale response answered while the upstream was asked, or as the client takes one.
    pub(crate) stale: AtomicU64,
    /// Requests for which the upstream was asked.
    pub(crate) misses: AtomicU64,
    /// Requests that the cache has no part in.
    pub(crate) bypassed: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// A cache.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) rules: CacheRules,
    pub(crate) places: Places,
    pub(crate) flights: Flights,
    pub(crate) uncacheable: Uncacheable,
    pub(crate) counts: CacheCounts,
    /// Requests that fresh responses answered: a count of each loop, so that no two write to the same.
    hits: Mutex<Vec<Arc<AtomicU64>>>,
    shards: Box<[Mutex<Shard>]>,
    generations: Box<[AtomicU32]>,
    /// Keyed at random, so that no client chooses where its requests go.
    hasher: RandomState,
}

/// What is found for a request.
#[derive(Debug)]
pub(crate) enum Found {
    Selected(Arc<Stored>),
    /// Only responses that the request does not select; one of them says by which fields.
    Others(Arc<Stored>),
    Nothing,
}

#[derive(Debug)]
struct Shard {
    slots: HashMap<u64, Slot, BuildHasherDefault<OwnHash>>,
    memory: Queues,
    disk: Queues,
}

/// The responses of one key.
#[derive(Debug)]
struct Slot {
    key: Arc<[u8]>,
    variants: Vec<Arc<Stored>>,
}

/// The keys of the table are hashes already.
#[derive(Debug, Default)]
pub(crate) struct OwnHash(u64);

impl Hasher for OwnHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    ///
    /// Of the file system, if the directory for large bodies cannot be used.
    pub(crate) fn new(rules: CacheRules) -> io::Result<Self> {
        let disk = rules.disk.as_ref().map(Disk::open).transpose()?;
        let memory_object = rules.memory_object.min(rules.memory / 16).max(1);
        let stored = rules.memory / 8 * STORED_EIGHTHS;
        let shards = prior_power_of_two((stored / (8 * memory_object)).clamp(1, SHARDS_MAX));
        let disk_stored = rules.disk.as_ref().map_or(0, |disk| disk.bytes / 8 * STORED_EIGHTHS);
        let disk_room = disk_stored / shards;
        let entries = (rules.entries as u64 / shards).max(1) as usize;
        // An eighth of the memory is for the heads of what is on the disk, and the last one for what is just coming.
        let disk_heads = rules.memory / 8 / shards;
        let shard = || Shard {
            slots: HashMap::default(),
            memory: Queues::new(Room { bytes: stored / shards, heads: u64::MAX, entries }),
            disk: Queues::new(Room { bytes: disk_room, heads: disk_heads, entries }),
        };
        let object = match &rules.disk {
            Some(disk) => disk.object.min(disk.bytes / 16).min(disk_room / 4).max(memory_object),
            None => memory_object,
        };
        Ok(Self {
            places: Places { memory: Meter::new(rules.memory), memory_object, disk, object },
            flights: Flights::default(),
            uncacheable: Uncacheable::default(),
            counts: CacheCounts::default(),
            hits: Mutex::default(),
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            generations: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::default(),
            rules,
        })
    }

    /// A count of hits for one more loop.
    pub(crate) fn add_loop(&self) -> Arc<AtomicU64> {
        let hits = Arc::default();
        self.hits.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&hits));
        hits
    }

    /// Requests that fresh responses have answered.
    pub(crate) fn hits(&self) -> u64 {
        let hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        hits.iter().map(|hits| hits.load(Ordering::Relaxed)).sum()
    }

    /// Has the files removed that servers have left which have ended; in a thread.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn clean(&self) -> io::Result<()> {
        self.places.disk.as_ref().map_or(Ok(()), Disk::clean)
    }

    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Another part of the hash than the tables within take.
        let shard = &self.shards[(hash >> 40) as usize % self.shards.len()];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever responses of this key are made invalid: what was asked for before must not be stored after.
    pub(crate) fn generation(&self, hash: u64) -> u32 {
        self.generations[hash as usize % GENERATIONS].load(Ordering::Acquire)
    }

    /// The newest response of a key that a request selects.
    pub(crate) fn find(&self, hash: u64, key: &[u8], mut selects: impl FnMut(&Selecting) -> bool) -> Found {
        let shard = self.shard(hash);
        let Some(slot) = shard.slots.get(&hash).filter(|slot| *slot.key == *key) else { return Found::Nothing };
        let selected = slot.variants.iter().filter(|stored| selects(&stored.selecting));
        match (selected.max_by_key(|stored| (stored.date_s, stored.freshness.received_ms)), slot.variants.last()) {
            (Some(stored), _) => Found::Selected(Arc::clone(stored)),
            (None, Some(other)) => Found::Others(Arc::clone(other)),
            (None, None) => Found::Nothing,
        }
    }

    /// Stores a response in the place of the one that the same requests select. Returns none if there is no room, or if a
    /// change made the response invalid while it came.
    pub(crate) fn insert(&self, new: New) -> Option<Arc<Stored>> {
        let mut hold = Hold::new(&self.places.memory);
        let (fields, selecting) = (new.fields.into_boxed_slice(), new.selecting);
        if !hold.grow(head_bytes(&new.key, &fields, &selecting)) {
            count(&self.counts.no_room, 1);
            return None;
        }
        let stored = Arc::new(Stored {
            hash: new.hash,
            key: new.key,
            selecting,
            status: new.status,
            names_server: names_server(&fields),
            fields,
            body: new.body,
            freshness: new.freshness,
            date_s: new.date_s,
            _hold: hold,
            life: Life::default(),
        });
        // What goes is dropped without the lock, as that may remove a file.
        let mut gone = Vec::new();
        let mut shard = self.shard(stored.hash);
        // Under the lock: an invalidation that comes from now on finds the response.
        if self.generation(stored.hash) != new.generation {
            stored.life.retire();
            return None;
        }
        let is_taken = shard.insert(&stored, &mut gone);
        let evicted = shard.evict(&mut gone);
        drop(shard);
        drop(gone);
        count(&self.counts.evicted, evicted);
        count(if is_taken { &self.counts.stored } else { &self.counts.no_room }, 1);
        Some(stored).filter(|stored| is_taken && !stored.life.is_retired())
    }

    /// Removes one response.
    pub(crate) fn remove(&self, stored: &Stored) {
        let gone = self.shard(stored.hash).remove(stored);
        drop(gone);
    }

    /// Removes all responses of a key; returns how many there were (RFC 9111 section 4.4).
    pub(crate) fn invalidate(&self, key: &[u8]) -> usize {
        let hash = self.hash(key);
        self.generations[hash as usize % GENERATIONS].fetch_add(1, Ordering::AcqRel);
        self.flights.close(hash);
        let gone = {
            let mut shard = self.shard(hash);
            if shard.slots.get(&hash).is_some_and(|slot| *slot.key == *key) {
                shard.remove_slot(hash)
            } else {
                Vec::new()
            }
        };
        count(&self.counts.invalidated, gone.len());
        gone.len()
    }

    /// Removes the responses for a target; returns how many there were.
    pub(crate) fn purge_target(&self, is_secure: bool, host: &[u8], target: &str) -> usize {
        let mut exact = Vec::new();
        key::write(&mut exact, is_secure, host, target, &self.rules.query);
        self.invalidate(&exact)
    }

    /// Removes the responses of a host whose path begins so; returns how many there were. It goes through the whole
    /// cache, a shard at a time.
    pub(crate) fn purge_prefix(&self, is_secure: bool, host: &[u8], path: &str) -> usize {
        let prefix = key::prefix(is_secure, host, path);
        self.purge(|stored| stored.key.starts_with(&prefix))
    }

    /// Removes the responses with a tag in Surrogate-Key or Cache-Tag; returns how many there were.
    pub(crate) fn purge_tag(&self, tag: &[u8]) -> usize {
        self.purge(|stored| {
            lines(&stored.fields).any(|(name, value)| {
                let has = |is_separator: fn(&u8) -> bool| value.split(is_separator).any(|own| own.trim_ascii() == tag);
                name.eq_ignore_ascii_case(b"surrogate-key") && has(|byte| *byte == b' ')
                    || name.eq_ignore_ascii_case(b"cache-tag") && has(|byte| *byte == b',')
            })
        })
    }

    /// Removes all responses; returns how many there were.
    pub(crate) fn purge_all(&self) -> usize {
        self.purge(|_| true)
    }

    fn purge(&self, is_meant: impl Fn(&Stored) -> bool) -> usize {
        let mut total = 0;
        for generation in &self.generations {
            generation.fetch_add(1, Ordering::AcqRel);
        }
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let variants = shard.slots.values().flat_map(|slot| &slot.variants);
            let meant: Vec<_> = variants.filter(|stored| is_meant(stored)).map(Arc::clone).collect();
            let gone: Vec<_> = meant.iter().filter_map(|stored| shard.remove(stored)).collect();
            drop(shard);
            total += gone.len();
        }
        count(&self.counts.invalidated, total);
        total
    }

    /// Responses that are stored, and their bytes in memory and on the disk.
    pub(crate) fn size(&self) -> (usize, u64, u64) {
        self.shards.iter().fold((0, 0, 0), |(entries, memory, disk), shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let own = shard.memory.entries() + shard.disk.entries();
            (entries + own, memory + shard.memory.bytes(), disk + shard.disk.bytes())
        })
    }

    /// When a request may wait for another one until.
    pub(crate) fn waits_until_ms(&self, now: Now) -> u64 {
        now.mono_ms.saturating_add(u64::try_from(self.rules.collapse_wait.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A response that is to be stored.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) hash: u64,
    pub(crate) key: Arc<[u8]>,
    pub(crate) selecting: Selecting,
    pub(crate) status: u16,
    pub(crate) fields: Vec<u8>,
    pub(crate) body: Body,
    pub(crate) freshness: Freshness,
    pub(crate) date_s: u64,
    /// [`Cache::generation`] of the time when the upstream was asked.
    pub(crate) generation: u32,
}

fn prior_power_of_two(number: u64) -> u64 {
    1 << number.max(1).ilog2()
}

impl Shard {
    fn queues(&mut self, stored: &Stored) -> &mut Queues {
        match stored.body {
            Body::Memory(_) => &mut self.memory,
            Body::Disk(_) => &mut self.disk,
        }
    }

    fn insert(&mut self, stored: &Arc<Stored>, gone: &mut Vec<Arc<Stored>>) -> bool {
        let queues = self.queues(stored);
        let weight = if matches!(stored.body, Body::Memory(_)) { stored.memory_bytes() } else { stored.body.bytes() };
        if weight > queues.object_max() {
            stored.life.retire();
            return false;
        }
        if self.slots.get(&stored.hash).is_some_and(|slot| slot.key != stored.key) {
            // Two keys with one hash of 64 bits: the newer one stays.
            gone.extend(self.remove_slot(stored.hash));
        }
        if let Some(slot) = self.slots.get(&stored.hash) {
            let same = slot.variants.iter().find(|other| other.selecting == stored.selecting);
            let oldest = slot.variants.first().filter(|_| slot.variants.len() >= VARIANTS_MAX);
            if let Some(other) = same.or(oldest).cloned() {
                for _ in 0..other.life.uses() {
                    stored.life.add_use();
                }
                gone.extend(self.remove(&other));
            }
        }
        self.queues(stored).insert(stored);
        let slot = self.slots.entry(stored.hash);
        let slot = slot.or_insert_with(|| Slot { key: Arc::clone(&stored.key), variants: Vec::with_capacity(1) });
        slot.variants.push(Arc::clone(stored));
        true
    }

    /// Makes room; returns how many went.
    fn evict(&mut self, gone: &mut Vec<Arc<Stored>>) -> usize {
        let before = gone.len();
        while let Some(victim) = self.memory.victim().or_else(|| self.disk.victim()) {
            gone.extend(self.remove(&victim));
        }
        gone.len() - before
    }

    /// Removes a response, unless it was before.
    fn remove(&mut self, stored: &Stored) -> Option<Arc<Stored>> {
        let slot = self.slots.get_mut(&stored.hash)?;
        let at = slot.variants.iter().position(|own| std::ptr::eq(&raw const **own, stored))?;
        let removed = slot.variants.remove(at);
        if slot.variants.is_empty() {
            self.slots.remove(&stored.hash);
        }
        removed.life.retire();
        self.queues(&removed).forget(&removed);
        Some(removed)
    }

    fn remove_slot(&mut self, hash: u64) -> Vec<Arc<Stored>> {
        let Some(slot) = self.slots.remove(&hash) else { return Vec::new() };
        for stored in &slot.variants {
            stored.life.retire();
            self.queues(stored).forget(stored);
        }
        slot.variants
    }
}
