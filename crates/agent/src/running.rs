//! The transactions of a process that run, by their handles.
//!
//! They lie in places that are given again, so that what begins and ends at once uses the same few bytes; and what was
//! asked for last is found without a look at the table, as records of one transaction mostly come one after the other.
//! A worker of a web server has one or two at a time.

use crate::keyed::Keyed;
use crate::notes::Notes;
use crate::transaction::Status;
use std::collections::HashMap;
use weir_measure::account::Reading;
use weir_wire::arm::{Handle, Identity};

/// Places from which on the table becomes smaller again when hardly any of them is used.
const MANY: usize = 1024;

/// As long as no more places were needed, they are looked through: that is less than a search by a hash.
const FEW: usize = 8;

/// A transaction that has begun.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// Its name within its process.
    pub handle: Handle,
    /// The number of its definition.
    pub transaction: u16,
    /// The number of its application's instance.
    pub instance: u16,
    /// Of how many it is the one that was recorded; 0 = one.
    pub one_in: u32,
    /// The flags of its begin.
    pub flags: u8,
    /// The thread that started it.
    pub thread: u32,
    /// When it was started.
    pub start_ns: u64,
    /// What that thread had done and waited for by then; `None` = that is not known.
    pub begun: Option<Box<Reading>>,
    /// When it arrived; 0 = not told.
    pub arrival_ns: u64,
    /// Its parent.
    pub parent: Option<Identity>,
    /// The identity that it was given elsewhere (reported ones only).
    pub own: Option<Box<Identity>>,
    /// Signs of life.
    pub updates: u32,
    /// Children that ended.
    pub children: u32,
    /// What else was told.
    pub notes: Notes,
    /// Its end, once that was read.
    pub(crate) end: Option<End>,
}

/// An end that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) pass: u64,
    pub(crate) time_ns: u64,
    pub(crate) thread: u32,
    /// `None` = discarded.
    pub(crate) status: Option<Status>,
}

impl Running {
    /// The thread that ended it; `None` = the one that started it, or it has no end.
    #[must_use]
    pub fn ended_by_another(&self) -> Option<u32> {
        self.end.map(|end| end.thread).filter(|thread| *thread != self.thread)
    }
}

#[cfg(test)]
impl Running {
    /// One of which nothing is known but its handle.
    pub(crate) fn of(handle: Handle) -> Self {
        Self {
            handle,
            transaction: 0,
            instance: 0,
            one_in: 0,
            flags: 0,
            thread: 0,
            start_ns: 0,
            begun: None,
            arrival_ns: 0,
            parent: None,
            own: None,
            updates: 0,
            children: 0,
            notes: Notes::default(),
            end: None,
        }
    }
}

/// The running ones of a process.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Where each is, once there were more than few.
    places: HashMap<u64, u32, Keyed>,
    slots: Vec<Option<Running>>,
    free: Vec<u32>,
    last: Option<(u64, u32)>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Each of them, in no order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().flatten()
    }

    /// The place of a handle, until something is added or removed.
    #[inline]
    pub(crate) fn find(&mut self, handle: u64) -> Option<usize> {
        if let Some((last, at)) = self.last
            && last == handle
        {
            return Some(at as usize);
        }
        let at = if self.are_few() {
            let is_it = |running: &Option<Running>| running.as_ref().is_some_and(|running| running.handle.0 == handle);
            self.slots.iter().position(is_it)? as u32
        } else {
            *self.places.get(&handle)?
        };
        self.last = Some((handle, at));
        Some(at as usize)
    }

    fn are_few(&self) -> bool {
        self.slots.len() <= FEW
    }

    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Running> {
        self.slots.get_mut(place)?.as_mut()
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Running> {
        let place = self.find(handle)?;
        self.at(place)
    }

    /// Adds one; gives back one that had its handle.
    #[inline]
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
                if self.slots.len() == FEW + 1 {
                    self.places.extend(self.slots.iter().flatten().map(|running| running.handle.0).zip(0..));
                }
                (self.slots.len() - 1) as u32
            }
        };
        if !self.are_few() {
            self.places.insert(handle, at);
        }
        self.last = Some((handle, at));
        before
    }

    #[inline]
    pub(crate) fn remove(&mut self, handle: u64) -> Option<Running> {
        let at = self.find(handle)?;
        if !self.are_few() {
            self.places.remove(&handle);
        }
        self.last = None;
        self.free.push(at as u32);
        self.slots[at].take()
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// However many run: those that were added and not removed are found, each in its place, and no others.
        #[test]
        fn what_runs_is_found(steps in proptest::collection::vec((0..3u8, 1..30u64), 0..400)) {
            let (mut table, mut expected) = (Table::default(), BTreeSet::new());
            for (step, handle) in steps {
                if step == 0 {
                    prop_assert_eq!(table.remove(handle).is_some(), expected.remove(&handle));
                } else {
                    let before = table.insert(Running::of(Handle(handle)));
                    prop_assert_eq!(before.is_some(), !expected.insert(handle));
                }
                for handle in 1..30 {
                    let found = table.get_mut(handle).map(|running| running.handle.0);
                    prop_assert_eq!(found, expected.get(&handle).copied());
                }
                let all: BTreeSet<u64> = table.each().map(|running| running.handle.0).collect();
                prop_assert_eq!((table.len(), all), (expected.len(), expected.clone()));
            }
        }
    }

    #[test]
    fn room_is_given_back_and_those_that_run_stay() {
        let mut table = Table::default();
        for handle in 1..=5000 {
            table.insert(Running::of(Handle(handle)));
        }
        for handle in 5..=5000 {
            assert!(table.remove(handle).is_some());
        }
        table.shrink();
        assert!(table.slots.capacity() < 100 && table.len() == 4);
        assert!((1..=4).all(|handle| table.find(handle).is_some()) && table.find(5).is_none());
    }
}
