//! The inotify instance of a loop, which reports changed files. All sites of the loop share it, since a user may have
//! only 128 instances.

use crate::io::inotify::{Event, Inotify};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// An instance of inotify, and how many sites hold each of its watches.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// None where the kernel has refused it, or nothing is to be watched.
    inotify: Option<Inotify>,
    holders: RefCell<HashMap<i32, usize>>,
}

impl Watcher {
    pub(crate) fn new() -> Self {
        Self { inotify: Inotify::new().ok(), holders: RefCell::default() }
    }

    /// One that watches nothing, for a site without a loop.
    pub(crate) fn deaf() -> Self {
        Self { inotify: None, holders: RefCell::default() }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.inotify.is_some()
    }

    /// The descriptor that is readable when something has changed.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.inotify.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Watches an open directory for one more site, if it wants the watch once it is known; each that is held is to be
    /// released.
    pub(crate) fn hold(&self, directory: &File, is_wanted: impl Fn(i32) -> bool) -> io::Result<Option<i32>> {
        let inotify = self.inotify.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let watch = inotify.add(directory)?;
        // A site that does not want the watch holds it already.
        if !is_wanted(watch) {
            return Ok(None);
        }
        *self.holders.borrow_mut().entry(watch).or_default() += 1;
        Ok(Some(watch))
    }

    /// Gives up what one site has held; the kernel gets the watch back with the last.
    pub(crate) fn release(&self, watch: i32) {
        let mut holders = self.holders.borrow_mut();
        let Some(count) = holders.get_mut(&watch) else { return };
        *count -= 1;
        if *count == 0 {
            holders.remove(&watch);
            if let Some(inotify) = &self.inotify {
                inotify.remove(watch);
            }
        }
    }

    /// Hands over all pending changes, so that a client which makes a change and then sends a request gets the new
    /// content. Returns the number of events.
    pub(crate) fn read_events(&self, mut each: impl FnMut(Event<'_>)) -> u64 {
        let Some(inotify) = &self.inotify else { return 0 };
        let mut count = 0;
        while inotify.read(|event| {
            count += 1;
            each(event);
        }) {}
        count
    }

    /// Directories that are watched.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.holders.borrow().len()
    }
}
