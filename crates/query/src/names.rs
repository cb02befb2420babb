//! What tasks are called, and what records name, as a recording tells it.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_trace::Sourced;
use weir_wire::client::ClientRequest;
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Tasks whose names are kept; further ones have none.
const MOST_TASKS: usize = 1 << 16;
/// Flag of [`Kind::TaskName`]: the task belongs to the traced server.
const TRACED: u8 = 1;

/// A task's name.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    /// At most 15 characters.
    pub(crate) name: Arc<str>,
    /// Its process.
    pub(crate) tgid: u32,
    /// It belongs to the traced server.
    pub(crate) traced: bool,
}

/// The names of tasks.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_pid: FxHashMap<u32, Name>,
}

impl Names {
    /// Takes a record; other kinds than those that name tasks change nothing.
    pub(crate) fn push(&mut self, record: &Record, payload: &[Slot]) {
        let (low, high) = record.a_halves();
        if record.kind == Kind::TaskName as u16 {
            let traced = record.flags & TRACED != 0 || self.of(low).is_some_and(|known| known.traced);
            self.give(low, Name { name: Arc::from(text_from_slots(payload)), tgid: high, traced });
        } else if record.kind == Kind::Fork as u16
            && let Some(parent) = self.of(low)
        {
            // A task has its parent's name until it takes another.
            let tgid = if record.b == 0 { parent.tgid } else { record.b as u32 };
            let child = Name { tgid, ..parent.clone() };
            self.give(high, child);
        }
    }

    fn give(&mut self, pid: u32, name: Name) {
        if self.by_pid.len() < MOST_TASKS || self.by_pid.contains_key(&pid) {
            self.by_pid.insert(pid, name);
        }
    }

    /// A task's name, if it was told.
    pub(crate) fn of(&self, pid: u32) -> Option<&Name> {
        self.by_pid.get(&pid)
    }
}

/// The text that a record names by its dictionary.
pub(crate) fn name_of<'a>(sourced: &'a Sourced<'_>) -> Option<&'a Arc<str>> {
    let record = &sourced.record;
    if let Some(request) = ClientRequest::read(record, sourced.payload) {
        return sourced.name(request.name);
    }
    let is_named = [Kind::ProbeHit as u16, Kind::ProbeText as u16, Kind::Asked as u16].contains(&record.kind);
    is_named.then(|| sourced.name(record.b as u32)).flatten()
}
