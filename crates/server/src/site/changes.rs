//! Drops content from memory when the kernel reports that its file has changed.

use crate::counters::LoopCounters;
use crate::files::watches::Change;
use crate::http::coding::CODINGS;
use crate::io::clock::now_ms;
use crate::io::inotify::Event;
use crate::site::kept_pages::KeptPages;
use crate::site::state::Site;
use crate::site::warming::Warming;
use std::fs::File;

impl Site {
    /// Serves another directory from now on; nothing that was known of the former one stays.
    pub(crate) fn move_to(&mut self, directory: File, counters: &LoopCounters) {
        self.root = self.root.moved_to(directory);
        self.shared_root = None;
        self.cache.remove_where(|_, _| true);
        self.kept = KeptPages::default();
        self.warming = Warming::default();
        self.changes.clear();
        self.watches.begin_anew();
        self.finish_watches(counters);
    }

    /// Takes note of an event of the loop's watches; it has its effect when all of them are [applied](Self::apply_changes).
    pub(crate) fn note_event(&mut self, event: Event<'_>) {
        self.watches.note_event(event, &mut self.changes);
    }

    /// Takes note of the files that have changed.
    pub(crate) fn apply_changes(&mut self, counters: &LoopCounters) {
        let mut changes = std::mem::take(&mut self.changes);
        let mut gone = 0;
        // Where answers may be stale, changed content is kept until the next request for it, which may still get it.
        let kept_ms =
            self.policy_client.as_ref().filter(|policy_client| policy_client.may_be_stale()).map(|_| now_ms());
        for change in &changes {
            match change {
                Change::Path(path) => {
                    self.absent.forget(path);
                    self.listings.note_change(path, &self.index);
                    gone += self.forget(path, kept_ms);
                }
                Change::Below(directory) => {
                    self.absent.forget_all();
                    self.listings.forget_below(directory);
                    match kept_ms {
                        Some(now_ms) => self.cache.doubt_below(directory, now_ms),
                        None => gone += self.cache.remove_below(directory),
                    }
                }
                Change::Everything => counters.watch_overflows.add(1),
            }
        }
        counters.cache_stale.add(gone);
        self.finish_watches(counters);
        counters.cache_evictions.add(self.lend_to_listings());
        changes.clear();
        self.changes = changes;
    }

    /// Removes what a changed name has to do with, or keeps it in doubt from a time on: the file, the directory that it
    /// is the index of, and the file that it is a form of.
    fn forget(&mut self, path: &[u8], kept_ms: Option<u64>) -> u64 {
        let mut gone = self.outdate(path, kept_ms);
        if let Some(slash) = memchr::memrchr(b'/', path) {
            let (directory, name) = path.split_at(slash + 1);
            if self.index.iter().any(|index| index == name) {
                gone += self.outdate(directory, kept_ms);
            }
        }
        for plain in CODINGS.iter().filter_map(|coding| path.strip_suffix(coding.suffix())) {
            gone += self.forget(plain, kept_ms);
        }
        gone
    }

    fn outdate(&mut self, path: &[u8], kept_ms: Option<u64>) -> u64 {
        match kept_ms {
            Some(now_ms) => {
                self.cache.doubt(path, now_ms);
                0
            }
            None => u64::from(self.cache.remove(path)),
        }
    }

    /// Has everything looked at again whose watches were given up, and counts what had no watch.
    pub(super) fn finish_watches(&mut self, counters: &LoopCounters) {
        if self.watches.take_lost() {
            self.cache.doubt_all();
            self.absent.forget_all();
            self.listings.forget_all();
        }
        counters.watches_refused.add(std::mem::take(&mut self.watches.refused));
    }
}
