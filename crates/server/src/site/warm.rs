//! Content that is loaded before anybody asks for it.

use super::{Located, Site};
use crate::clock::Clock;
use crate::counters::LoopCounters;
use crate::front::pattern::Pattern;
use crate::listing;
use std::collections::VecDeque;

/// Files and directories that wait to be looked at; what comes beyond them is counted and left out.
const WAITING_MAX: usize = 16_384;
/// Of them those that are looked at before requests have their turn again.
const AT_ONCE: usize = 32;
/// Directories below each other.
const DEPTH_MAX: usize = 32;

/// What is to be loaded.
#[derive(Debug, Default)]
pub(super) struct Warming {
    /// Paths with what they are to match; those of directories end with a slash.
    waiting: VecDeque<(Vec<u8>, Pattern)>,
}

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
            let Some((path, pattern)) = self.warming.waiting.pop_front() else { return false };
            let is_directory = path.ends_with(b"/");
            if pattern.matches(&path) && self.atom(&path, clock, counters).is_some() {
                counters.warmed.add(1);
            }
            if is_directory {
                self.look_into(&path, &pattern, counters);
            }
        }
        !self.warming.waiting.is_empty()
    }

    /// Adds what lies in a directory.
    fn look_into(&mut self, path: &[u8], pattern: &Pattern, counters: &LoopCounters) {
        if memchr::memchr_iter(b'/', path).count() > DEPTH_MAX {
            return;
        }
        let Ok(directory) = self.root.open(path) else { return };
        for name in listing::names(directory, self.dot_files).unwrap_or_default() {
            let below = [path, &name].concat();
            let below = match self.locate(&below) {
                Ok(Located::Redirect) => [&below[..], b"/"].concat(),
                Ok(Located::File(..)) if pattern.matches(&below) => below,
                _ => continue,
            };
            if self.warming.waiting.len() == WAITING_MAX {
                counters.warm_dropped.add(1);
            } else {
                self.warming.waiting.push_back((below, pattern.clone()));
            }
        }
    }
}
