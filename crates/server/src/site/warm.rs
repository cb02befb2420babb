//! Loads content into the cache before the first request for it.

use super::warming::Listed;
use crate::counters::LoopCounters;
use crate::http::pattern::Pattern;
use crate::io::clock::Clock;
use crate::site::destination::Located;
use crate::site::listing;
use crate::site::state::Site;
use crate::site::warming::WAITING_MAX;

/// Names that are looked at before requests have their turn again.
const AT_ONCE: usize = 32;
/// Directories below each other.
const DEPTH_MAX: usize = 32;

impl Site {
    /// Takes note of a glob whose files are to be loaded.
    pub(crate) fn warm(&mut self, glob: &str) {
        let Some(pattern) = Pattern::glob(glob) else { return };
        // The directory, or the file, that all of it lies in.
        let literal = glob.find(['*', '?']).map_or(glob, |wild| &glob[..wild]);
        let start =
            if literal.len() == glob.len() { glob } else { &literal[..literal.rfind('/').map_or(0, |at| at + 1)] };
        if start.starts_with('/') {
            self.warming.waiting.push_back((start.as_bytes().to_vec(), pattern));
        }
    }

    /// Loads some of it; whether there is more.
    pub(crate) fn warm_some(&mut self, clock: &Clock, counters: &LoopCounters) -> bool {
        for _ in 0..AT_ONCE {
            if let Some(mut listed) = self.warming.listed.take()
                && let Some(name) = listed.names.next()
            {
                self.look_at(&name, &listed, clock, counters);
                self.warming.listed = Some(listed);
                continue;
            }
            let Some((path, pattern)) = self.warming.waiting.pop_front() else { return false };
            self.load_matching(&path, &pattern, clock, counters);
            if path.ends_with(b"/") {
                self.warming.listed = self.list(path, pattern);
            }
        }
        self.warming.listed.is_some() || !self.warming.waiting.is_empty()
    }

    fn load_matching(&mut self, path: &[u8], pattern: &Pattern, clock: &Clock, counters: &LoopCounters) {
        if pattern.matches(path) && self.resource(path, clock, counters).is_some() {
            counters.warmed.add(1);
        }
    }

    /// What lies in a directory, without a look at any of it.
    fn list(&self, path: Vec<u8>, pattern: Pattern) -> Option<Listed> {
        if memchr::memchr_iter(b'/', &path).count() > DEPTH_MAX {
            return None;
        }
        let directory = self.root.open(&path).ok()?;
        let names = listing::names(directory, self.dot_files).unwrap_or_default().into_iter();
        Some(Listed { path, names, pattern })
    }

    /// Loads a file of a directory; a directory in it has its turn later.
    fn look_at(&mut self, name: &[u8], listed: &Listed, clock: &Clock, counters: &LoopCounters) {
        let below = [&listed.path, name].concat();
        match self.locate(&below) {
            Ok(Located::Redirect) if self.warming.waiting.len() == WAITING_MAX => counters.warm_dropped.add(1),
            Ok(Located::Redirect) => {
                self.warming.waiting.push_back(([&below[..], b"/"].concat(), listed.pattern.clone()));
            }
            Ok(Located::File(..)) => self.load_matching(&below, &listed.pattern, clock, counters),
            _ => {}
        }
    }
}
