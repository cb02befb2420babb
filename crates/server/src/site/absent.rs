//! Remembers variants that do not exist; otherwise each request for a governed file would look for them anew.

use std::collections::HashMap;

/// Paths that are kept; with more all are forgotten, and looked for again.
const PATHS_MAX: usize = 4096;

/// Paths that nothing was found at, until when that needs no other look.
#[derive(Debug, Default)]
pub(super) struct Absent {
    until_ms: HashMap<Box<[u8]>, u64>,
}

impl Absent {
    pub(super) fn has(&self, path: &[u8], now_ms: u64) -> bool {
        self.until_ms.get(path).is_some_and(|until_ms| now_ms < *until_ms)
    }

    pub(super) fn note(&mut self, path: &[u8], until_ms: u64) {
        if self.until_ms.len() >= PATHS_MAX {
            self.until_ms.clear();
        }
        self.until_ms.insert(path.into(), until_ms);
    }

    /// Something has happened to a path.
    pub(super) fn forget(&mut self, path: &[u8]) {
        self.until_ms.remove(path);
    }

    /// Something has happened to directories, or may have.
    pub(super) fn forget_all(&mut self) {
        self.until_ms.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_known_for_its_time_and_until_something_happens() {
        let mut absent = Absent::default();
        absent.note(b"/a", 1000);
        assert!(absent.has(b"/a", 999) && !absent.has(b"/a", 1000) && !absent.has(b"/b", 0));
        absent.forget(b"/a");
        assert!(!absent.has(b"/a", 0));
        absent.note(b"/a", 1000);
        absent.forget_all();
        assert!(!absent.has(b"/a", 0));
    }

    #[test]
    fn there_is_a_bound() {
        let mut absent = Absent::default();
        for number in 0..3 * PATHS_MAX {
            absent.note(number.to_string().as_bytes(), 1000);
            assert!(absent.until_ms.len() <= PATHS_MAX);
        }
        assert!(absent.has((3 * PATHS_MAX - 1).to_string().as_bytes(), 0));
    }
}
