//! The cache of a loop: path to content, without a lock and without a system call.
//!
//! Each loop has its own. A shared one would hold each byte once instead of once a loop, but every hit would
//! write to cache lines that all cores fight for: behind a reader-writer lock a hit of 20 ns took 40 ns with one
//! thread and 100 ns with two.

use crate::files::resource::{Content, Resource};
use crate::http::pattern::Pattern;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::rc::Rc;

/// How long content is served without a look at the file, where the kernel does not tell of its changes.
pub(crate) const UNTOLD_MS: u64 = 1000;
/// The same where it does: for what it does not tell anyhow, as writes through a memory mapping.
pub(crate) const TOLD_MS: u64 = 60_000;
/// What an entry costs beside its bytes: the structures and the allocator's share, roughly.
const ENTRY_BYTES: u64 = 512;

/// Content by path, within a bound of bytes and of descriptors.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Not by SipHash, which would take longer than all else here: to make paths collide takes files of such names, and
    /// the seed.
    index: HashMap<Rc<[u8]>, usize, RandomState>,
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Where the search for an entry to remove goes on (the CLOCK algorithm).
    hand: usize,
    bytes: u64,
    bytes_max: u64,
    /// Those of `bytes` that are reserved for the kept listings.
    lent: u64,
    files: usize,
    files_max: usize,
    /// What is never removed to make room.
    pins: Vec<Pattern>,
}

#[derive(Debug)]
struct Entry {
    path: Rc<[u8]>,
    resource: Rc<Resource>,
    /// Until when it needs no look.
    fresh_until_ms: u64,
    /// When it was known the last time to be what the file has.
    known_ms: u64,
    /// How often it was asked for. A counter costs a request no more than a mark would.
    uses: u32,
    /// The same when the hand passed it last.
    uses_passed: u32,
    /// The same when it was told last, and when that was.
    uses_told: u32,
    told_ms: u64,
    /// Whether it was told the last time that it was asked for.
    is_told: bool,
    is_pinned: bool,
    files: usize,
    bytes: u64,
}

/// How often an entry was asked for.
#[derive(Debug)]
pub(crate) struct Uses {
    pub(crate) path: Rc<[u8]>,
    pub(crate) uses: u32,
    /// In so many milliseconds.
    pub(crate) over_ms: u64,
}

/// What the cache knows about a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// The content.
    Fresh(Rc<Resource>),
    /// It has the content, but the file must be looked at first; with when it was known to be what the file has.
    Stale(Rc<Resource>, u64),
    /// Nothing.
    Missing,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64, files_max: usize) -> Self {
        Self {
            index: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max,
            lent: 0,
            files: 0,
            files_max,
            pins: Vec::new(),
        }
    }

    /// Bytes in memory, and entries.
    pub(crate) fn fill(&self) -> (u64, u64) {
        (self.bytes, self.index.len() as u64)
    }

    pub(crate) fn find(&mut self, path: &[u8], now_ms: u64) -> Found {
        let Some(entry) = self.index.get(path).and_then(|&slot| self.slots[slot].as_mut()) else {
            return Found::Missing;
        };
        entry.uses = entry.uses.wrapping_add(1);
        let resource = Rc::clone(&entry.resource);
        if now_ms < entry.fresh_until_ms { Found::Fresh(resource) } else { Found::Stale(resource, entry.known_ms) }
    }

    /// Pins what the patterns match, and nothing else: it is never evicted. Where it fills the cache, other content is
    /// served without being kept.
    pub(crate) fn pin(&mut self, patterns: &[Pattern]) {
        self.pins = patterns.to_vec();
        for entry in self.slots.iter_mut().flatten() {
            entry.is_pinned = self.pins.iter().any(|pin| pin.matches(&entry.path));
        }
    }

    /// Bytes in memory, and entries, that are kept so.
    pub(crate) fn pinned(&self) -> (u64, u64) {
        if self.pins.is_empty() {
            return (0, 0);
        }
        self.slots
            .iter()
            .flatten()
            .filter(|entry| entry.is_pinned)
            .fold((0, 0), |(bytes, count), entry| (bytes + entry.bytes, count + 1))
    }

    /// Takes note that the file is what it was, and needs no look for so long.
    pub(crate) fn confirm(&mut self, path: &[u8], now_ms: u64, fresh_ms: u64) {
        if let Some(entry) = self.index.get(path).and_then(|&slot| self.slots[slot].as_mut()) {
            (entry.known_ms, entry.fresh_until_ms) = (now_ms, now_ms + fresh_ms);
        }
    }

    /// Takes note that the file may be another one from now on, and keeps what it was.
    pub(crate) fn doubt(&mut self, path: &[u8], now_ms: u64) {
        if let Some(&slot) = self.index.get(path) {
            self.slots[slot].iter_mut().for_each(|entry| entry.doubt(now_ms));
        }
    }

    /// The same of everything below a directory, whose path ends with a slash.
    pub(crate) fn doubt_below(&mut self, directory: &[u8], now_ms: u64) {
        let below = self.slots.iter_mut().flatten().filter(|entry| entry.path.starts_with(directory));
        below.for_each(|entry| entry.doubt(now_ms));
    }

    /// Adds content that needs no look for so long, and returns how many entries had to go for it. Content that never
    /// fits is not added.
    pub(crate) fn insert(&mut self, path: &[u8], resource: &Rc<Resource>, now_ms: u64, fresh_ms: u64) -> u64 {
        self.remove(path);
        let in_memory = match &resource.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) => 0,
        };
        let of_forms = resource.encodings.as_ref().map_or(0, |encodings| encodings.memory_bytes());
        let bytes = in_memory + of_forms + resource.fields.len() as u64 + 2 * path.len() as u64 + ENTRY_BYTES;
        let files =
            usize::from(is_file(resource)) + resource.encodings.as_ref().map_or(0, |encodings| encodings.files());
        if bytes > self.bytes_max || files > self.files_max {
            return 0;
        }
        let mut evicted = 0;
        while self.bytes + bytes > self.bytes_max || self.files + files > self.files_max.max(files) {
            let only_files = self.bytes + bytes <= self.bytes_max;
            if !self.evict_one(only_files) {
                return evicted;
            }
            evicted += 1;
        }
        let path: Rc<[u8]> = path.into();
        let resource = Rc::clone(resource);
        let is_pinned = self.pins.iter().any(|pin| pin.matches(&path));
        let entry = Entry {
            path: Rc::clone(&path),
            resource,
            fresh_until_ms: now_ms + fresh_ms,
            known_ms: now_ms,
            // The request that brought it is one.
            uses: 1,
            uses_passed: 1,
            uses_told: 0,
            told_ms: now_ms,
            is_told: false,
            is_pinned,
            files,
            bytes,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(entry);
        self.index.insert(path, slot);
        self.bytes += bytes;
        self.files += files;
        evicted
    }

    /// Sets how many bytes of the bound are reserved for the kept listings; evicts entries as needed. Returns how many
    /// were evicted, and whether the reserved bytes fit now.
    pub(crate) fn lend(&mut self, bytes: u64) -> (u64, bool) {
        self.bytes = self.bytes - self.lent + bytes;
        self.lent = bytes;
        let mut evicted = 0;
        while self.bytes > self.bytes_max && self.evict_one(false) {
            evicted += 1;
        }
        (evicted, self.bytes <= self.bytes_max)
    }

    /// Counts what a path's content takes more than before, and returns how many entries had to go for it.
    pub(crate) fn grow(&mut self, path: &[u8], bytes: u64) -> u64 {
        let Some(entry) = self.index.get(path).and_then(|&slot| self.slots[slot].as_mut()) else { return 0 };
        entry.bytes += bytes;
        self.bytes += bytes;
        let mut evicted = 0;
        while self.bytes > self.bytes_max && self.evict_one(false) {
            evicted += 1;
        }
        evicted
    }

    /// Removes everything below a directory, whose path ends with a slash; how many entries that were.
    pub(crate) fn remove_below(&mut self, directory: &[u8]) -> u64 {
        self.remove_where(|path, _| path.starts_with(directory))
    }

    /// Removes what is so; how many entries that were.
    pub(crate) fn remove_where(&mut self, is_so: impl Fn(&[u8], &Resource) -> bool) -> u64 {
        let is_one = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| is_so(&entry.path, &entry.resource));
        let slots: Vec<usize> = (0..self.slots.len()).filter(|&slot| is_one(&self.slots[slot])).collect();
        slots.into_iter().map(|slot| u64::from(self.clear(slot))).sum()
    }

    /// Has every file looked at before it is served again.
    pub(crate) fn doubt_all(&mut self) {
        self.slots.iter_mut().flatten().for_each(|entry| entry.fresh_until_ms = 0);
    }

    /// What was asked for since it was told last, of the entries from the place `from` on, at most so many; and where the
    /// next look begins.
    pub(crate) fn uses(&mut self, from: usize, most: usize, now_ms: u64) -> (Vec<Uses>, usize) {
        let from = if from < self.slots.len() { from } else { 0 };
        let mut told = Vec::new();
        for entry in self.slots.iter_mut().skip(from).take(most).flatten() {
            let (uses, over_ms) = (entry.uses.wrapping_sub(entry.uses_told), now_ms.saturating_sub(entry.told_ms));
            (entry.uses_told, entry.told_ms) = (entry.uses, now_ms);
            // That it is not asked for any more is told once.
            if std::mem::replace(&mut entry.is_told, uses > 0) || uses > 0 {
                told.push(Uses { path: Rc::clone(&entry.path), uses, over_ms });
            }
        }
        (told, from + most)
    }

    /// Removes a path; whether it was there.
    pub(crate) fn remove(&mut self, path: &[u8]) -> bool {
        self.index.get(path).copied().is_some_and(|slot| self.clear(slot))
    }

    /// Removes an entry that was not used since the hand passed it last.
    fn evict_one(&mut self, only_files: bool) -> bool {
        // In the first round the marks are taken away, so the second one finds an entry if there is any.
        for _ in 0..2 * self.slots.len() {
            let slot = self.hand % self.slots.len();
            self.hand = slot + 1;
            let Some(entry) = &mut self.slots[slot] else { continue };
            if entry.is_pinned || only_files && entry.files == 0 {
                continue;
            }
            if std::mem::replace(&mut entry.uses_passed, entry.uses) == entry.uses {
                return self.clear(slot);
            }
        }
        false
    }

    fn clear(&mut self, slot: usize) -> bool {
        let Some(entry) = self.slots[slot].take() else { return false };
        self.index.remove(&entry.path);
        self.free.push(slot);
        self.bytes -= entry.bytes;
        self.files -= entry.files;
        true
    }
}

impl Entry {
    /// What was told of a file once is not known any more, however often it is told again.
    fn doubt(&mut self, now_ms: u64) {
        if now_ms < self.fresh_until_ms {
            (self.known_ms, self.fresh_until_ms) = (now_ms, 0);
        }
    }
}

fn is_file(resource: &Resource) -> bool {
    matches!(resource.content, Content::File(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::resource::Description;
    use crate::files::shared_content::SharedContent;
    use crate::http::response::Variant;
    use std::io::Write;

    fn resource(bytes: usize, memory_bytes_max: u64) -> Rc<Resource> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; bytes]).expect("writes");
        let of = Description {
            path: Box::default(),
            content_type: "text/plain".to_owned(),
            own_coding: None,
            variant: Variant::Identity,
            varies: false,
            is_governed: false,
            asks_hints: false,
            now_s: 0,
        };
        Rc::new(Resource::load(file, &SharedContent::new(), memory_bytes_max, &of).expect("loads"))
    }

    #[test]
    fn both_bounds_hold_and_what_is_used_stays() {
        let mut cache = Cache::new(20_000, 3);
        let mut evicted = 0;
        for i in 0..100 {
            evicted += cache.insert(format!("/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
            assert!(cache.bytes <= 20_000);
            assert!(matches!(cache.find(b"/0", 0), Found::Fresh(_)), "the one in use was removed at {i}");
        }
        assert_eq!(evicted as usize + cache.index.len(), 100);
        for i in 0..10 {
            cache.insert(format!("/file{i}").as_bytes(), &resource(6000, 5000), 0, 1);
            assert!(cache.files <= 3);
        }
        assert_eq!(cache.insert(b"/large", &resource(30_000, 90_000), 0, 1), 0);
        assert!(matches!(cache.find(b"/large", 0), Found::Missing));
        let live: u64 = cache.slots.iter().flatten().map(|entry| entry.bytes).sum();
        assert_eq!(live, cache.bytes);
    }

    #[test]
    fn content_is_fresh_until_it_was_said() {
        let mut cache = Cache::new(20_000, 3);
        cache.insert(b"/a", &resource(10, 5000), 0, 1500);
        assert!(matches!(cache.find(b"/a", 1499), Found::Fresh(_)));
        assert!(matches!(cache.find(b"/a", 1500), Found::Stale(_, 0)));
        cache.confirm(b"/a", 1500, 1000);
        assert!(matches!(cache.find(b"/a", 2499), Found::Fresh(_)));
        cache.doubt_all();
        assert!(matches!(cache.find(b"/a", 0), Found::Stale(_, 1500)));
    }

    #[test]
    fn what_is_in_doubt_was_known_until_it_was_told_first() {
        let mut cache = Cache::new(20_000, 3);
        for path in ["/a/b", "/a/c", "/d"] {
            cache.insert(path.as_bytes(), &resource(10, 5000), 0, 60_000);
        }
        cache.doubt(b"/a/b", 100);
        cache.doubt_below(b"/a/", 200);
        cache.doubt(b"/none", 200);
        assert!(matches!(cache.find(b"/a/b", 300), Found::Stale(_, 100)), "told twice");
        assert!(matches!(cache.find(b"/a/c", 300), Found::Stale(_, 200)));
        assert!(matches!(cache.find(b"/d", 300), Found::Fresh(_)));
        cache.confirm(b"/a/b", 400, 1000);
        assert!(matches!(cache.find(b"/a/b", 1300), Found::Fresh(_)));
    }

    #[test]
    fn what_lies_below_a_directory_goes_with_it() {
        let mut cache = Cache::new(20_000, 3);
        for path in ["/a/", "/a/b", "/a/c/d", "/ab", "/b/a/x"] {
            cache.insert(path.as_bytes(), &resource(10, 5000), 0, 1);
        }
        assert_eq!(cache.remove_below(b"/a/"), 3);
        assert!(
            matches!(cache.find(b"/ab", 0), Found::Fresh(_)) && matches!(cache.find(b"/b/a/x", 0), Found::Fresh(_))
        );
    }

    #[test]
    fn what_is_pinned_is_never_evicted() {
        let mut cache = Cache::new(20_000, 3);
        cache.insert(b"/a/1", &resource(1000, 5000), 0, 1);
        cache.pin(&[Pattern::glob("/a/*").expect("small enough")]);
        cache.insert(b"/a/2", &resource(1000, 5000), 0, 1);
        for i in 0..100 {
            cache.insert(format!("/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
            assert!(cache.bytes <= 20_000);
        }
        assert_eq!(cache.pinned().1, 2);
        for i in 3..100 {
            cache.insert(format!("/a/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
        }
        assert!(cache.bytes <= 20_000 && cache.pinned().1 as usize == cache.index.len());
        cache.insert(b"/b", &resource(1000, 5000), 0, 1);
        assert!(matches!(cache.find(b"/b", 0), Found::Missing) && matches!(cache.find(b"/a/1", 0), Found::Fresh(_)));
        cache.pin(&[]);
        cache.insert(b"/b", &resource(1000, 5000), 0, 1);
        assert!(matches!(cache.find(b"/b", 0), Found::Fresh(_)) && cache.pinned() == (0, 0));
    }

    #[test]
    fn what_is_lent_makes_room_and_comes_back() {
        let mut cache = Cache::new(20_000, 3);
        for i in 0..10 {
            cache.insert(format!("/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
        }
        let (evicted, has_room) = cache.lend(15_000);
        assert!(evicted > 4 && has_room && cache.bytes <= 20_000 && cache.fill().0 >= 15_000);
        for i in 0..10 {
            cache.insert(format!("/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
            assert!(cache.bytes <= 20_000);
        }
        cache.lend(0);
        let live: u64 = cache.slots.iter().flatten().map(|entry| entry.bytes).sum();
        assert_eq!(live, cache.bytes);
        cache.pin(&[Pattern::glob("/*").expect("small enough")]);
        assert!(!cache.lend(19_000).1 && cache.lend(0).1);
    }

    #[test]
    fn uses_are_told_once_and_in_turns() {
        let mut cache = Cache::new(200_000, 3);
        for i in 0..10 {
            cache.insert(format!("/{i}").as_bytes(), &resource(10, 5000), 1_000, 60_000);
        }
        for _ in 0..5 {
            cache.find(b"/1", 1_500);
        }
        let (told, next) = cache.uses(0, 4, 2_000);
        let rows: Vec<(&[u8], u32, u64)> = told.iter().map(|told| (&*told.path, told.uses, told.over_ms)).collect();
        // The request that brought an entry counts.
        assert_eq!(rows, [(&b"/0"[..], 1, 1000), (b"/1", 6, 1000), (b"/2", 1, 1000), (b"/3", 1, 1000)]);
        assert_eq!(cache.uses(next, 100, 2_000).0.len(), 6);
        cache.find(b"/1", 2_500);
        let (told, next) = cache.uses(104, 100, 3_000);
        let rows: Vec<(u32, u64)> = told.iter().map(|told| (told.uses, told.over_ms)).collect();
        assert_eq!((rows.len(), rows[1], rows[2]), (10, (1, 1000), (0, 1000)), "what ends is told once");
        assert_eq!(cache.uses(next, 100, 4_000).0.len(), 1);
        assert!(cache.uses(0, 100, 5_000).0.is_empty());
    }

    #[test]
    fn what_grows_makes_room() {
        let mut cache = Cache::new(20_000, 3);
        for i in 0..8 {
            cache.insert(format!("/{i}").as_bytes(), &resource(1000, 5000), 0, 1);
        }
        assert_eq!(cache.grow(b"/none", 50_000), 0);
        assert!(cache.grow(b"/7", 10_000) > 0);
        assert!(cache.bytes <= 20_000);
        assert!(cache.grow(b"/7", 50_000) > 0, "itself, where it does not fit");
        assert!(cache.bytes <= 20_000);
    }
}
