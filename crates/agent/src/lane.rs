//! How far a lane of a client was read, and what of its losses was counted.

use crate::journal::Position;
use crate::memory::Memory;
use weir_wire::arm::{LANE_DROPPED_TOLD, LANE_READ, LANE_SKIPPED_TOLD, LANE_SLOTS, LANE_WRITTEN};

/// How far a lane was read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lane {
    /// Read here.
    pub(crate) read: u64,
    /// Where this pass began.
    pub(crate) before: u64,
    /// What the client knows to be read.
    pub(crate) published: u64,
    /// What a former agent had read.
    pub(crate) former: u64,
    pub(crate) dropped: u64,
    pub(crate) skipped: u64,
    /// Dropped and skipped ones as the next agent will find them.
    pub(crate) told: (u64, u64),
}

impl Lane {
    /// A lane that this agent sees for the first time.
    pub(crate) fn of(memory: &Memory, lane: usize) -> Self {
        let mut read = memory.position(lane, LANE_READ);
        if memory.position(lane, LANE_WRITTEN).wrapping_sub(read) > LANE_SLOTS as u64 {
            // No agent can have read so far, or so little. So reading begins at the present end.
            read = memory.position(lane, LANE_WRITTEN);
        }
        let told = (memory.position(lane, LANE_DROPPED_TOLD), memory.position(lane, LANE_SKIPPED_TOLD));
        Self { read, before: read, published: read, former: read, dropped: told.0, skipped: told.1, told }
    }

    /// A former agent had noted that it read further than it came to tell the client.
    pub(crate) fn after(&mut self, memory: &Memory, lane: usize, position: &Position) {
        let there = memory.position(lane, LANE_WRITTEN).wrapping_sub(position.read);
        if position.read > self.read && there <= LANE_SLOTS as u64 {
            (self.read, self.before, self.former) = (position.read, position.read, position.read);
        }
        self.dropped = self.dropped.max(position.dropped);
        self.skipped = self.skipped.max(position.skipped);
    }

    /// Up to where all is done: with several lanes, what was read in this pass may still wait for the next.
    pub(crate) fn target(&self, several: bool) -> u64 {
        if several { self.before } else { self.read }
    }
}
