//! Pages as they were assembled last. Where answers may be stale, a page that is the same for all clients is sent
//! again.

use crate::site::part::Part;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of all pages of a site in one loop; with more all are forgotten, and assembled again.
const BYTES_MAX: usize = 4 << 20;
/// Their number.
const PAGES_MAX: usize = 256;

/// What a page is made of, beside its parts' files: the page, by whose rules for hosts, for which of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Of {
    path: Box<[u8]>,
    mount: Box<[u8]>,
    /// How often other rules were taken up before, and the number of the host by them.
    host: (u64, u16),
}

impl Of {
    pub(crate) fn new(page: &Part, host: (u64, u16)) -> Self {
        Self { path: page.resource.path.clone(), mount: page.mount.as_slice().into(), host }
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptPages {
    pages: HashMap<Of, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    page: Rc<[u8]>,
    /// When all of it was known to be what the files have.
    known_ms: u64,
}

impl KeptPages {
    /// A page, with when it was known to be the present one.
    pub(crate) fn find(&self, of: &Of) -> Option<(Rc<[u8]>, u64)> {
        self.pages.get(of).map(|kept| (Rc::clone(&kept.page), kept.known_ms))
    }

    /// Keeps a page in the place of the one before.
    pub(crate) fn keep(&mut self, of: Of, page: Rc<[u8]>, known_ms: u64) {
        self.forget(&of);
        if page.len() > BYTES_MAX {
            return;
        }
        if self.pages.len() >= PAGES_MAX || self.bytes + page.len() > BYTES_MAX {
            self.pages.clear();
            self.bytes = 0;
        }
        self.bytes += page.len();
        self.pages.insert(of, Kept { page, known_ms });
    }

    /// It is assembled for each again.
    pub(crate) fn forget(&mut self, of: &Of) {
        if let Some(kept) = self.pages.remove(of) {
            self.bytes -= kept.page.len();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: usize) -> Of {
        Of { path: number.to_string().into_bytes().into(), mount: Box::default(), host: (0, 0) }
    }

    #[test]
    fn both_bounds_hold() {
        let mut kept = KeptPages::default();
        for number in 0..3 * PAGES_MAX {
            kept.keep(of(number), vec![0; 10].into(), 1);
            assert!(kept.pages.len() <= PAGES_MAX && kept.bytes == 10 * kept.pages.len());
            assert!(kept.find(&of(number)).is_some());
        }
        for number in 0..40 {
            kept.keep(of(number), vec![0; 300_000].into(), 1);
            assert!(kept.bytes <= BYTES_MAX);
        }
        kept.keep(of(40), vec![0; BYTES_MAX + 1].into(), 1);
        assert!(kept.find(&of(40)).is_none() && kept.find(&of(39)).is_some());
    }

    #[test]
    fn the_last_one_counts_until_it_is_forgotten() {
        let mut kept = KeptPages::default();
        kept.keep(of(1), b"one".as_slice().into(), 1);
        kept.keep(of(1), b"three".as_slice().into(), 2);
        assert_eq!(kept.find(&of(1)).map(|(page, known_ms)| (page.to_vec(), known_ms)), Some((b"three".to_vec(), 2)));
        assert_eq!(kept.bytes, 5);
        kept.forget(&of(1));
        assert!(kept.is_empty() && kept.bytes == 0);
    }
}
