//! All series of readings.

use super::subjects::Slots;
use crate::reading::Resource;
use crate::series::{Series, Unknown};
use serde::{Deserialize, Serialize};

/// All series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Store {
    /// Slot 0 stands for no series and stays empty.
    pub(super) series: Vec<Option<Series>>,
    free: Vec<u32>,
}

impl Store {
    pub(crate) fn get(&self, slots: &Slots, resource: Resource) -> Result<&Series, Unknown> {
        self.series.get(slots[resource.index()] as usize).and_then(Option::as_ref).ok_or(Unknown::Missing)
    }

    pub(crate) fn get_mut(&mut self, slots: &Slots, resource: Resource) -> Option<&mut Series> {
        // Slot 0 is always empty, so no series is found there.
        self.series.get_mut(slots[resource.index()] as usize)?.as_mut()
    }

    pub(super) fn get_or_add(
        &mut self,
        slots: &mut Slots,
        resource: Resource,
        add: impl FnOnce() -> Series,
    ) -> &mut Series {
        let slot = &mut slots[resource.index()];
        if *slot == 0 {
            if self.series.is_empty() {
                self.series.push(None);
            }
            *slot = self.free.pop().unwrap_or_else(|| {
                self.series.push(None);
                self.series.len() as u32 - 1
            });
        }
        self.series[*slot as usize].get_or_insert_with(add)
    }

    pub(super) fn remove(&mut self, slots: &Slots) {
        for &slot in slots.iter().filter(|slot| **slot != 0) {
            self.series[slot as usize] = None;
            self.free.push(slot);
        }
    }
}
