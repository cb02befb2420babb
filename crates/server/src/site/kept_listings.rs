//! Listings that are kept.

use crate::site::listing::Order;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Pages that are kept; with more all are forgotten, and made again.
const PAGES_MAX: usize = 256;

/// The part of the cache's memory that they may have: one in so many.
const SHARE: u64 = 8;

/// What a page costs beside its bytes: the structures and the allocator's share, roughly.
const PAGE_BYTES: u64 = 256;

/// A page that took longer is kept for so many times as long as it took, even if the directory changes: so the listing
/// of a large directory that changes often takes a twentieth of the loop's time at most.
pub(super) const LONG: Duration = Duration::from_millis(5);

pub(super) const TIMES: u32 = 20;

/// The pages of directories without an index.
#[derive(Debug, Default)]
pub(super) struct Listings {
    kept: HashMap<Box<[u8]>, Listed>,
    pages: usize,
    pub(super) bytes: u64,
    bytes_max: u64,
}

/// The pages of one directory.
#[derive(Debug)]
struct Listed {
    pages: Vec<(Order, Rc<str>)>,
    until_ms: u64,
    /// Until when they are shown although something has changed.
    at_least_ms: u64,
    has_changed: bool,
}

impl Listed {
    fn holds(&self, now_ms: u64) -> bool {
        now_ms < if self.has_changed { self.at_least_ms } else { self.until_ms }
    }

    fn bytes(&self, path: &[u8]) -> u64 {
        self.pages.iter().map(|(_, page)| page.len() as u64 + path.len() as u64 + PAGE_BYTES).sum()
    }
}

impl Listings {
    /// With a part of the cache's bytes.
    pub(super) fn new(cache_bytes_max: u64) -> Self {
        Self { bytes_max: cache_bytes_max / SHARE, ..Self::default() }
    }

    /// Whether a directory is known to have no index, and some page of it holds.
    pub(super) fn has(&self, path: &[u8], now_ms: u64) -> bool {
        self.kept.get(path).is_some_and(|listed| listed.holds(now_ms))
    }

    pub(super) fn find(&self, path: &[u8], order: Order, now_ms: u64) -> Option<Rc<str>> {
        let listed = self.kept.get(path).filter(|listed| listed.holds(now_ms))?;
        listed.pages.iter().find(|(of, _)| *of == order).map(|(_, page)| Rc::clone(page))
    }

    /// Keeps a page that was made now: for `fresh_ms`, and for at least `at_least_ms` even if the directory changes.
    pub(super) fn keep(
        &mut self,
        path: &[u8],
        order: Order,
        page: Rc<str>,
        now_ms: u64,
        [fresh_ms, at_least_ms]: [u64; 2],
    ) {
        if !self.has(path, now_ms) {
            self.forget(path);
        }
        let bytes = page.len() as u64 + path.len() as u64 + PAGE_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        if self.pages >= PAGES_MAX || self.bytes + bytes > self.bytes_max {
            self.forget_all();
        }
        let (until_ms, at_least_ms) = (now_ms + fresh_ms.max(at_least_ms), now_ms + at_least_ms);
        let new = || Listed { pages: Vec::new(), until_ms, at_least_ms, has_changed: false };
        let listed = self.kept.entry(path.into()).or_insert_with(new);
        listed.until_ms = listed.until_ms.min(until_ms);
        listed.at_least_ms = listed.at_least_ms.min(at_least_ms);
        listed.pages.push((order, page));
        self.pages += 1;
        self.bytes += bytes;
    }

    /// Something has happened to a name.
    pub(super) fn note_change(&mut self, path: &[u8], index: &[Vec<u8>]) {
        let Some(slash) = memchr::memrchr(b'/', path).filter(|_| !self.kept.is_empty()) else { return };
        let (directory, name) = path.split_at(slash + 1);
        match self.kept.get_mut(directory) {
            // The directory has an index from now on, perhaps.
            Some(_) if index.iter().any(|index| index == name) => self.forget(directory),
            Some(listed) if listed.at_least_ms > 0 => listed.has_changed = true,
            _ => {}
        }
    }

    /// Something has happened to a directory and all that lies below it.
    pub(super) fn forget_below(&mut self, directory: &[u8]) {
        let (pages, bytes) = (&mut self.pages, &mut self.bytes);
        self.kept.retain(|path, listed| {
            let stays = !path.starts_with(directory);
            if !stays {
                *pages -= listed.pages.len();
                *bytes -= listed.bytes(path);
            }
            stays
        });
    }

    pub(super) fn forget_all(&mut self) {
        self.kept.clear();
        (self.pages, self.bytes) = (0, 0);
    }

    fn forget(&mut self, path: &[u8]) {
        if let Some(listed) = self.kept.remove(path) {
            self.pages -= listed.pages.len();
            self.bytes -= listed.bytes(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: [u64; 2] = [60_000, 0];

    fn order() -> Order {
        Order::read(b"")
    }

    fn page(bytes: usize) -> Rc<str> {
        "x".repeat(bytes).into()
    }

    #[test]
    fn bounds_of_bytes_and_pages_hold() {
        let mut listings = Listings::new(80_000);
        for number in 0..3 * PAGES_MAX {
            listings.keep(number.to_string().as_bytes(), order(), page(number % 200), 0, TOLD);
            assert!(listings.pages <= PAGES_MAX && listings.bytes <= 10_000);
            assert_eq!(listings.bytes, listings.kept.iter().map(|(path, listed)| listed.bytes(path)).sum::<u64>());
            assert!(listings.find(number.to_string().as_bytes(), order(), 1).is_some());
        }
        listings.keep(b"/large/", order(), page(10_001), 0, TOLD);
        assert!(!listings.has(b"/large/", 0));
        listings.forget_all();
        assert_eq!((listings.bytes, listings.pages, listings.kept.len()), (0, 0, 0));
    }

    #[test]
    fn pages_hold_until_something_is_told_or_their_time_is_over() {
        let mut listings = Listings::new(1 << 20);
        let other = Order::read(b"?sort=size");
        for path in [&b"/"[..], b"/a/", b"/a/b/"] {
            listings.keep(path, order(), page(1), 0, TOLD);
        }
        listings.keep(b"/a/", other, page(2), 10, [1000, 0]);
        assert!(listings.find(b"/a/", order(), 1009).is_some() && listings.find(b"/", other, 0).is_none());
        assert!(!listings.has(b"/a/", 1010), "the shorter time counts for all of a directory");
        listings.keep(b"/a/", order(), page(1), 2000, TOLD);
        listings.note_change(b"/a/file", &[]);
        assert!(!listings.has(b"/a/", 2001) && listings.has(b"/", 2001) && listings.has(b"/a/b/", 2001));
        listings.keep(b"/a/", order(), page(1), 3000, TOLD);
        listings.forget_below(b"/a/");
        assert!(!listings.has(b"/a/", 3001) && !listings.has(b"/a/b/", 3001) && listings.has(b"/", 3001));
    }

    #[test]
    fn what_took_long_is_kept_for_a_while_despite_changes_other_than_of_an_index() {
        let mut listings = Listings::new(1 << 20);
        let index = [b"index.html".to_vec()];
        listings.keep(b"/", order(), page(1), 100, [60_000, 500]);
        listings.note_change(b"/file", &index);
        assert!(listings.has(b"/", 599) && !listings.has(b"/", 600));
        listings.keep(b"/", order(), page(1), 700, [1000, 5000]);
        assert!(listings.has(b"/", 5699), "also where nothing is told");
        listings.note_change(b"/index.html", &index);
        assert!(!listings.has(b"/", 701));
    }
}
