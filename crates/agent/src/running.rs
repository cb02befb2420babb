//! The transactions of a process that run, by their handles.
//!
//! They lie in places that are given again, so that what begins and ends at once uses the same few bytes; and what was
//! asked for last is found without a look at the table, as records of one transaction mostly come one after the other.

use crate::keyed::Keyed;
use crate::pairing::Running;
use std::collections::HashMap;

/// Places from which on the table becomes smaller again when hardly any of them is used.
const MANY: usize = 1024;

/// The running ones of a process.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: HashMap<u64, u32, Keyed>,
    slots: Vec<Option<Running>>,
    free: Vec<u32>,
    last: Option<(u64, u32)>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Each of them, in no order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().flatten()
    }

    /// The place of a handle, until something is added or removed.
    pub(crate) fn find(&mut self, handle: u64) -> Option<usize> {
        if let Some((last, at)) = self.last
            && last == handle
        {
            return Some(at as usize);
        }
        let at = *self.places.get(&handle)?;
        self.last = Some((handle, at));
        Some(at as usize)
    }

    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Running> {
        self.slots.get_mut(place)?.as_mut()
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Running> {
        let place = self.find(handle)?;
        self.at(place)
    }

    /// Adds one; gives back one that had its handle.
    pub(crate) fn insert(&mut self, running: Running) -> Option<Running> {
        let handle = running.handle.0;
        let before = self.remove(handle);
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(running);
                at
            }
            None => {
                self.slots.push(Some(running));
                (self.slots.len() - 1) as u32
            }
        };
        self.places.insert(handle, at);
        self.last = Some((handle, at));
        before
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Running> {
        let at = self.places.remove(&handle)?;
        self.last = None;
        self.free.push(at);
        self.slots[at as usize].take()
    }

    /// Gives room back after many have run at once.
    pub(crate) fn shrink(&mut self) {
        if self.slots.len() <= MANY || self.len() >= self.slots.len() / 16 {
            return;
        }
        let left: Vec<Option<Running>> = std::mem::take(&mut self.slots).into_iter().filter(Option::is_some).collect();
        *self = Self::default();
        self.slots.reserve(4 * left.len());
        for running in left.into_iter().flatten() {
            self.insert(running);
        }
    }
}
