//! The cache of a loop: path to content, without a lock and, for a second at a time, without a system call.
//!
//! Each loop has its own. A shared one would hold each byte once instead of once a loop, but every hit would
//! write to cache lines that all cores fight for: behind a reader-writer lock a hit of 20 ns took 40 ns with one
//! thread and 100 ns with two.

use crate::atom::{Atom, Content, Stamp};
use std::collections::HashMap;
use std::rc::Rc;

/// How long content is served without a look at the file.
pub(crate) const FRESH_MS: u64 = 1000;
/// What an entry costs beside its bytes: the structures and the allocator's share, roughly.
const ENTRY_BYTES: u64 = 512;

/// Content by path, within a bound of bytes and of descriptors.
#[derive(Debug)]
pub(crate) struct Cache {
    index: HashMap<Rc<[u8]>, usize>,
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Where the search for an entry to remove goes on (the CLOCK algorithm).
    hand: usize,
    bytes: u64,
    bytes_max: u64,
    files: usize,
    files_max: usize,
}

#[derive(Debug)]
struct Entry {
    path: Rc<[u8]>,
    atom: Rc<Atom>,
    checked_ms: u64,
    used: bool,
    bytes: u64,
}

/// What the cache knows about a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// The content.
    Fresh(Rc<Atom>),
    /// It has the content, but the file must be looked at first.
    Stale(Stamp),
    /// Nothing.
    Missing,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64, files_max: usize) -> Self {
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max,
            files: 0,
            files_max,
        }
    }

    pub(crate) fn find(&mut self, path: &[u8], now_ms: u64) -> Found {
        let Some(entry) = self.index.get(path).and_then(|&slot| self.slots[slot].as_mut()) else {
            return Found::Missing;
        };
        entry.used = true;
        if now_ms.saturating_sub(entry.checked_ms) < FRESH_MS {
            Found::Fresh(Rc::clone(&entry.atom))
        } else {
            Found::Stale(entry.atom.stamp)
        }
    }

    /// Takes note that the file is what it was, and gives its content.
    pub(crate) fn confirm(&mut self, path: &[u8], now_ms: u64) -> Option<Rc<Atom>> {
        let entry = self.index.get(path).and_then(|&slot| self.slots[slot].as_mut())?;
        entry.checked_ms = now_ms;
        Some(Rc::clone(&entry.atom))
    }

    /// Adds content, and returns how many entries had to go for it. Content that never fits is not added.
    pub(crate) fn insert(&mut self, path: &[u8], atom: &Rc<Atom>, now_ms: u64) -> u64 {
        self.remove(path);
        let in_memory = match &atom.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) => 0,
        };
        let bytes = in_memory + atom.fields.len() as u64 + 2 * path.len() as u64 + ENTRY_BYTES;
        let is_file = is_file(atom);
        if bytes > self.bytes_max || (is_file && self.files_max == 0) {
            return 0;
        }
        let mut evicted = 0;
        while self.bytes + bytes > self.bytes_max || (is_file && self.files >= self.files_max) {
            let only_files = self.bytes + bytes <= self.bytes_max;
            if !self.evict_one(only_files) {
                return evicted;
            }
            evicted += 1;
        }
        let path: Rc<[u8]> = path.into();
        let entry = Entry { path: Rc::clone(&path), atom: Rc::clone(atom), checked_ms: now_ms, used: false, bytes };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(entry);
        self.index.insert(path, slot);
        self.bytes += bytes;
        self.files += usize::from(is_file);
        evicted
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
            if only_files && !is_file(&entry.atom) {
                continue;
            }
            if !std::mem::take(&mut entry.used) {
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
        self.files -= usize::from(is_file(&entry.atom));
        true
    }
}

fn is_file(atom: &Atom) -> bool {
    matches!(atom.content, Content::File(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn atom(bytes: usize, memory_bytes_max: u64) -> Rc<Atom> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; bytes]).expect("writes");
        Rc::new(Atom::load(file, b"/a.txt", memory_bytes_max, 0).expect("loads"))
    }

    #[test]
    fn both_bounds_hold_and_what_is_used_stays() {
        let mut cache = Cache::new(20_000, 3);
        let mut evicted = 0;
        for i in 0..100 {
            evicted += cache.insert(format!("/{i}").as_bytes(), &atom(1000, 5000), 0);
            assert!(cache.bytes <= 20_000);
            assert!(matches!(cache.find(b"/0", 0), Found::Fresh(_)), "the one in use was removed at {i}");
        }
        assert_eq!(evicted as usize + cache.index.len(), 100);
        for i in 0..10 {
            cache.insert(format!("/file{i}").as_bytes(), &atom(6000, 5000), 0);
            assert!(cache.files <= 3);
        }
        assert_eq!(cache.insert(b"/large", &atom(30_000, 90_000), 0), 0);
        assert!(matches!(cache.find(b"/large", 0), Found::Missing));
        let live: u64 = cache.slots.iter().flatten().map(|entry| entry.bytes).sum();
        assert_eq!(live, cache.bytes);
    }

    #[test]
    fn content_is_looked_at_again_after_a_second() {
        let mut cache = Cache::new(20_000, 3);
        cache.insert(b"/a", &atom(10, 5000), 500);
        assert!(matches!(cache.find(b"/a", 1499), Found::Fresh(_)));
        assert!(matches!(cache.find(b"/a", 1500), Found::Stale(_)));
        assert!(cache.confirm(b"/a", 1500).is_some());
        assert!(matches!(cache.find(b"/a", 2499), Found::Fresh(_)));
    }
}
